/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * command - the sub-commands of `fathom`: one function each, in a file of its own name.
 *
 * argv[0] is what getopt_long() puts in front of its complaints: "fathom perf". Each understands --help (on stdout, exit
 * status 0). The result is the exit status; EXIT_USAGE is for a command line that cannot be understood, and for whatever
 * keeps a command from answering at all, such as a standard output that takes nothing (main() looks after that).
 */
#ifndef CMD_FATHOM_COMMAND_H
#define CMD_FATHOM_COMMAND_H

enum { EXIT_USAGE = 2 };

int cmd_config(int argc, char **argv);
int cmd_network(int argc, char **argv);
int cmd_perf(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_rpc(int argc, char **argv);
int cmd_server(int argc, char **argv);
int cmd_storage(int argc, char **argv);
int cmd_support(int argc, char **argv);
int cmd_system(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_trace(int argc, char **argv);

#endif
