/* SPDX-License-Identifier: BSD-2-Clause */
/* A program as a third party writes it: whichever kind of probes it was built with, one line registers them. */
#include <stdio.h>

#include <fathom/probe.h>

#ifdef DOF
/* as `dtrace -G` leaves it: no symbol that another file could name */
static const unsigned char object[] __attribute__((section(".SUNW_dof"), used));
#include "client_object.h"
#endif

FATHOM_PROBE_REGISTER_FILE();

int main(void)
{
	char line[80];

	if (fathom_probe_of_this_file.error)
		fprintf(stderr, "own_file: error %d\n", fathom_probe_of_this_file.error);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
