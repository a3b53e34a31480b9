/* SPDX-License-Identifier: BSD-2-Clause */
/* program - runs the command that a program's command line names; see options.h. */
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "cmd/options/options.h"

/* The command with this table; the program must have it. */
static const struct option_command *find_by_table(const struct option_table *program, const struct option_table *table)
{
	const struct option_command *command = program->commands;

	while (command->table != table) {
		command++;
		must(command < program->commands + program->command_count);
	}
	return command;
}

static int run(const struct option_table *program, int argc, char **argv)
{
	const struct option_command *command;

	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)) {
		options_help(program, stdout);
		return EXIT_SUCCESS;
	}
	if (argc >= 2 && strcmp(argv[1], "--version") == 0)
		command = options_find_command(program, "version");
	else if (argc < 2 || argv[1][0] == '-')
		return find_by_table(program, program->otherwise)->run(argc, argv);
	else
		command = options_find_command(program, argv[1]);
	if (command)
		return command->run(argc - 1, argv + 1);
	fprintf(stderr, "%s: no command \"%s\"; `%s --help` lists them\n", program->name, argv[1], program->name);
	return EXIT_USAGE;
}

int options_run_program(const struct option_table *program, int argc, char **argv)
{
	int status = run(program, argc, argv);

	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "%s: standard output could not be written\n", program->name);
	return status ? status : EXIT_USAGE;
}
