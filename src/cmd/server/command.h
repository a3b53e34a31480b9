/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands of fathom-server. Each has its name as argv[0], and returns the exit status. */
#ifndef CMD_SERVER_COMMAND_H
#define CMD_SERVER_COMMAND_H

#include "base/fault.h"

enum { EXIT_USAGE = 2 };

/* What is wrong and what to do, on standard error; EXIT_FAILURE. */
int command_fail(const struct fault *why);

/* The folder, of PATH_MAX bytes, that this program is in; "" if nobody can say. */
void command_programs(char *folder);

/* ---- config.c, scan.c ---- */
int command_config(int argc, char **argv);
int command_storage(int argc, char **argv);
int command_network(int argc, char **argv);

#endif
