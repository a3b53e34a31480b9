/* SPDX-License-Identifier: BSD-2-Clause */
/* main - `fathom COMMAND ...`: finds the sub-command in the table and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/command.h"

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help; /* one line */
};

/* In alphabetical order: this is what `fathom --help` prints. */
static const struct command commands[] = {
	{ "config", cmd_config, "configuration files" },
	{ "network", cmd_network, "network interfaces of the system's hosts" },
	{ "perf", cmd_perf, "drive I/O to a namespace, measure it, verify what it keeps" },
	{ "probe", cmd_probe, "the USDT probes of running engines, with their arguments" },
	{ "rpc", cmd_rpc, "tell an engine what to do, and ask it, as SPDK's rpc.py does" },
	{ "server", cmd_server, "servers of hosts: their engines, log masks, restart policies, version" },
	{ "storage", cmd_storage, "storage of the system's hosts: show, format, how much is used" },
	{ "support", cmd_support, "fetch logs of the system's hosts" },
	{ "system", cmd_system, "members of a system: show, start, stop and exclude them; attributes, events" },
	{ "top", cmd_top, "watch an engine's threads, pollers, cores, volumes and hosts" },
	{ "trace", cmd_trace, "show what an engine did: events, hung commands, what each thread runs" },
};

static void usage(FILE *to)
{
	fprintf(to, "usage: fathom COMMAND [ARGUMENT...]\n\ncommands:\n");
	for (size_t i = 0; i < ARRAY_COUNT(commands); i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(to, "\n`fathom COMMAND --help` says more. --version prints the version.\n");
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

/* Returns `status`, unless standard output could not be written: a full disk is an error. */
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
	const struct command *command = argc > 1 ? find_command(argv[1]) : NULL;

	if (argc > 1 && !command) {
		fprintf(stderr, "fathom: no command \"%s\"; `fathom --help` lists them\n", argv[1]);
		return EXIT_USAGE;
	}
	if (command) {
		char option[] = "--help", *help_argv[] = { argv[1], option, NULL };

		return command->run(2, help_argv);
	}
	usage(stdout);
	return EXIT_SUCCESS;
}

/* Does this option, which dmg accepts in front of the command, take an argument? -1: not such an option. */
static int front_option_takes_argument(const char *word)
{
	static const struct {
		const char *name;
		int takes_one;
	} options[] = { { "-i", 0 },	    { "--insecure", 0 },    { "-j", 0 }, { "--json", 0 },
			{ "-o", 1 },	    { "--config-path", 1 }, { "-l", 1 }, { "--host-list", 1 },
			{ "-d", 0 },	    { "--debug", 0 },	    { "-J", 0 }, { "--json-logging", 0 },
			{ "--log-file", 1 } };

	for (size_t i = 0; i < ARRAY_COUNT(options); i++) {
		if (strcmp(options[i].name, word) == 0)
			return options[i].takes_one;
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
	if (at == 1 || at >= argc || !find_command(argv[at]))
		return;
	command = argv[at];
	memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
	argv[1] = command;
}

static int run_command(int argc, char **argv)
{
	static char name[32];
	const struct command *command;

	move_front_options(argc, argv);
	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
		return print_help(argc - 1, argv + 1);
	if (strcmp(argv[1], "--version") == 0) {
		printf("fathom %s\n", FATHOM_VERSION);
		return EXIT_SUCCESS;
	}
	command = find_command(argv[1]);
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
	return check_output(run_command(argc, argv));
}
