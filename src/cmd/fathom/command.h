/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * command - the sub-commands of `fathom`: a function for each, in the folder of its name. Those of the control plane
 * (config, host, network, pool, server, storage, support, system, volume) are in control/.
 *
 * Each command supports --help, which prints on standard output and returns 0. The result is the exit status. EXIT_USAGE:
 * the command line is not valid, a file cannot be read, or standard output cannot be written, which main() checks.
 */
#ifndef CMD_FATHOM_COMMAND_H
#define CMD_FATHOM_COMMAND_H

#include "cmd/options/options.h"

int cmd_blame(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_core(int argc, char **argv);
int cmd_ddb(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_firmware(int argc, char **argv);
int cmd_host(int argc, char **argv);
int cmd_network(int argc, char **argv);
int cmd_perf(int argc, char **argv);
int cmd_pool(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_rpc(int argc, char **argv);
int cmd_server(int argc, char **argv);
int cmd_storage(int argc, char **argv);
int cmd_support(int argc, char **argv);
int cmd_system(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_volume(int argc, char **argv);

/* The command lines, for completion. */
extern const struct option_table blame_table, completion_table, core_table, ddb_table, doctor_table, perf_table,
	probe_table, replay_table, rpc_table, top_table, trace_table;
extern const struct option_table config_table, firmware_table, host_table, network_table, pool_table, server_table,
	storage_table, support_table, system_table, volume_table;

#endif
