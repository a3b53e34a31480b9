/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands of fathom-server. Their argv[0] is the command's name; they return the exit status. */
#ifndef CMD_SERVER_COMMAND_H
#define CMD_SERVER_COMMAND_H

#include "cmd/options/options.h"

/* Print the fault and its resolution on standard error; returns EXIT_FAILURE. */
int command_fail(const struct fathom_fault *why);

/* The folder of this program, into `folder` of PATH_MAX bytes; "" if it is unknown. */
void command_programs(char *folder);

/* The option -o of commands that read the server's configuration. `type` has the path as `config_path`. */
#define SERVER_CONFIG_ROW(type)                                                                                            \
	{                                                                                                                  \
		"config", 'o', OPTION_TEXT, "FILE", "configuration of the server (default " SERVER_CONFIG_DEFAULT ")",     \
			.offset = offsetof(type, config_path), .values = OPTION_FILES                                      \
	}

/* ---- config.c, scan.c, statistics.c ---- */
extern const struct option_table config_table, storage_table, network_table, stats_table;

int command_config(int argc, char **argv);
int command_storage(int argc, char **argv);
int command_network(int argc, char **argv);
int command_stats(int argc, char **argv);

#endif
