/* SPDX-License-Identifier: BSD-2-Clause */
/* A program of a third party. One line registers its probes, whether it was built with DOF, with notes or with none. */
#include <stdio.h>

#include <fathom/probe.h>

#ifdef DOF
/* as by `dtrace -G`: no symbol that another file could name */
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
