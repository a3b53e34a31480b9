/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/server/command.h"
#include "control/fault/fault.h"

int command_fail(const struct fathom_fault *why)
{
	char text[FAULT_LINES_BYTES_MAX];
	struct fault_shown shown;

	fault_show(why, &shown);
	fputs(fault_print(&shown, "fathom-server: ", text, sizeof(text)), stderr);
	return EXIT_FAILURE;
}
