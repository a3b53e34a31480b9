/* SPDX-License-Identifier: BSD-2-Clause */
/* main - `fathom COMMAND ...`: finds the sub-command in the table and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/command.h"

/* In alphabetical order. */
static const struct option_command commands[] = {
	{ "blame", NULL, "why slow requests were slow: the disk, the host, the network, a queue, the CPU", .run = cmd_blame,
	  .table = &blame_table },
	{ "completion", NULL, "print a script that completes command lines in a shell", .run = cmd_completion,
	  .table = &completion_table },
	{ "config", NULL, "configuration files", .run = cmd_config, .table = &config_table },
	{ "core", "FILE [PART...]", "read the core file of a crash: the cause, backtraces, objects, I/Os in progress",
	  .operands = OPTION_FILES, .run = cmd_core, .table = &core_table },
	{ "ddb", NULL, "look into the storage of an engine without an engine; verify and repair it", .run = cmd_ddb,
	  .table = &ddb_table },
	{ "doctor", NULL, "find what is wrong with an engine or a server: causes first, with evidence and what to do",
	  .run = cmd_doctor, .table = &doctor_table },
	{ "firmware", NULL, "the firmware of NVMe devices: show it, update it", .run = cmd_firmware,
	  .table = &firmware_table },
	{ "host", NULL, "hosts that attach volumes: where they are connected, and since when", .run = cmd_host,
	  .table = &host_table },
	{ "network", NULL, "network interfaces of the system's hosts", .run = cmd_network, .table = &network_table },
	{ "perf", NULL, "drive I/O to a namespace, measure it, and verify the data", .run = cmd_perf,
	  .table = &perf_table },
	{ "pool", NULL, "pools of storage: create, list, query, destroy them", .run = cmd_pool, .table = &pool_table },
	{ "probe", NULL, "the USDT probes of running engines, with their arguments", .run = cmd_probe,
	  .table = &probe_table },
	{ "replay", NULL, "send the operations of a recording to a target again, and compare", .run = cmd_replay,
	  .table = &replay_table },
	{ "rpc", NULL, "call methods of an engine, as SPDK's rpc.py does", .run = cmd_rpc, .table = &rpc_table },
	{ "server", NULL, "servers of hosts: their engines, log masks, restart policies, version", .run = cmd_server,
	  .table = &server_table },
	{ "storage", NULL, "storage of the system's hosts: show it, format it, show its usage", .run = cmd_storage,
	  .table = &storage_table },
	{ "support", NULL, "collect logs of the system's hosts", .run = cmd_support, .table = &support_table },
	{ "system", NULL, "members of a system: show, start, stop and exclude them; attributes, events", .run = cmd_system,
	  .table = &system_table },
	{ "top", NULL, "watch an engine's threads, pollers, cores, volumes and hosts", .run = cmd_top,
	  .table = &top_table },
	{ "trace", NULL, "show what an engine did: events, stuck commands, what each thread runs", .run = cmd_trace,
	  .table = &trace_table },
	{ "volume", NULL, "volumes of pools: create, show, resize, publish, snapshot, destroy them", .run = cmd_volume,
	  .table = &volume_table },
};

static const struct option_row rows[] = {
	{ "version", 0, OPTION_PRINT_VERSION, .help = "print the version" },
	OPTION_HELP_ROW,
};

static const struct option_table fathom_table = {
	.name = "fathom",
	.usage = "fathom COMMAND [ARGUMENT...]",
	.about = "Control and observe Fathom: its engines, the servers of its hosts, and what they record.",
	OPTION_COMMANDS(commands),
	OPTION_ROWS(rows),
	.more = "`fathom COMMAND --help` shows the options of a command; fathom(1) lists the manual pages.",
	.version = FATHOM_VERSION,
};

/* Return the exit status: `status`, or EXIT_USAGE if standard output could not be written, as on a full disk. */
static int check_output(int status)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || status == EXIT_USAGE)
		return status; /* with EXIT_USAGE an error was printed already */
	fprintf(stderr, "fathom: standard output could not be written\n");
	return status != EXIT_SUCCESS ? status : EXIT_USAGE;
}

/* `fathom help trace` is `fathom trace --help`. */
static int print_help(int argc, char **argv)
{
	const struct option_command *command = argc > 1 ? options_find_command(&fathom_table, argv[1]) : NULL;

	if (argc > 1 && !command) {
		fprintf(stderr, "fathom: no command \"%s\"; `fathom --help` lists them\n", argv[1]);
		return EXIT_USAGE;
	}
	if (command) {
		char option[] = "--help", *help_argv[] = { argv[1], option, NULL };

		return command->run(2, help_argv);
	}
	options_help(&fathom_table, stdout);
	return EXIT_SUCCESS;
}

/* Does this option, which dmg accepts in front of the command, take an argument? -1: not such an option. */
static int front_option_takes_argument(const char *word)
{
	for (size_t i = 0; i < system_table.row_count; i++) { /* all commands for operators begin with the same rows */
		const struct option_row *row = &system_table.rows[i];

		if (row->type == OPTION_HEADING || row->type == OPTION_PRINT_HELP)
			continue;
		if ((row->letter && word[0] == '-' && word[1] == row->letter && !word[2]) ||
		    (word[0] == '-' && word[1] == '-' && strcmp(word + 2, row->name) == 0))
			return option_takes_argument(row);
	}
	return -1;
}

/* `fathom -j system query` becomes `fathom system -j query`. */
static void move_front_options(int argc, char **argv)
{
	int at = 1, option;
	char *command;

	while (at < argc && (option = front_option_takes_argument(argv[at])) >= 0)
		at += 1 + option;
	if (at == 1 || at >= argc || !options_find_command(&fathom_table, argv[at]))
		return;
	command = argv[at];
	memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
	argv[1] = command;
}

static int run_fathom_command(int argc, char **argv)
{
	static char name[32];
	const struct option_command *command;

	move_front_options(argc, argv);
	if (argc < 2) {
		options_help(&fathom_table, stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
		return print_help(argc - 1, argv + 1);
	if (strcmp(argv[1], "--version") == 0) {
		printf("fathom %s\n", FATHOM_VERSION);
		return EXIT_SUCCESS;
	}
	command = options_find_command(&fathom_table, argv[1]);
	if (!command) {
		fprintf(stderr, "fathom: no command \"%s\"; `fathom --help` lists them\n", argv[1]);
		return EXIT_USAGE;
	}
	snprintf(name, sizeof(name), "fathom %s", command->name);
	argv[1] = name;
	return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	if (options_offer(&fathom_table, argc, argv))
		return check_output(EXIT_SUCCESS);
	return check_output(run_fathom_command(argc, argv));
}
