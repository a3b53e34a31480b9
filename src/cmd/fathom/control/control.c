/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds a command, runs it, and ends it; see control.h. */
#include "cmd/fathom/control/control.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"
#include "control/fault/fault.h"

enum { NAME_BYTES = 96, WORDS_MAX = 3 };

#define SECONDS_MAX 86400

/* ---- how a command ends ---- */

/* `faults` (taken; NULL: none): the faults of hosts. */
static int end_command(const struct control_run *run, json_t *response, const struct fathom_fault *why, json_t *faults)
{
	char lines[FAULT_LINES_BYTES_MAX];
	struct fault_shown shown;

	if (why) {
		(void)fflush(stdout); /* print the table first; main() reports write errors */
		fault_show((const struct fathom_fault *)why, &shown);
		fputs(fault_print(&shown, "ERROR: fathom: ", lines, sizeof(lines)), stderr);
	}
	if (control_is_json(run))
		envelope_print(response, why, faults, stdout);
	return why ? EXIT_FAILURE : EXIT_SUCCESS;
}

int control_finish(const struct control_run *run, json_t *response, const struct fathom_fault *why)
{
	return end_command(run, response, why, NULL);
}

int control_fail(const struct control_run *run, const struct fathom_fault *why)
{
	bool has_hosts = run->values.text[OPTION_HOSTS] || run->values.text[OPTION_RANK_HOSTS];
	int status = control_finish(run, NULL, why);

	/* callees parse lists; a bad list in the configuration is not an error of the command line */
	bool is_no_list = why->code == FAULT_RANK_LIST_BAD || why->code == FAULT_NO_RANKS_NAMED ||
			  (why->code == FAULT_HOST_LIST_BAD && has_hosts);

	return is_no_list ? EXIT_USAGE : status;
}

int control_bad(const struct control_run *run, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", run->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n`%s --help` says what it takes\n", run->name);
	return EXIT_USAGE;
}

int control_answered(const struct control_run *run, struct fathom_control_answers *answers, json_t *response,
		     const char *failed)
{
	struct fathom_fault why = { 0 };
	json_t *faults = NULL;
	size_t count = 0;

	for (size_t i = 0; i < answers->error_count; i++)
		count += answers->errors[i].host_count;
	if (count > 0)
		must(fault(&why, -EREMOTEIO, "%zu of %zu host%s had errors", count, answers->host_count,
			   answers->host_count == 1 ? "" : "s") < 0);
	else if (failed)
		must(fault(&why, -EREMOTEIO, "%s", failed) < 0);
	(void)fflush(stdout); /* print results first */
	if (control_is_json(run))
		faults = json_faults(answers);
	else
		show_errors(answers, stderr);
	fathom_control_free(answers);
	return end_command(run, response, why.error ? &why : NULL, faults);
}

int control_host_devices(const struct control_run *run, void (*show)(const struct fathom_control_answers *, FILE *))
{
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	if (fathom_control_host_devices(run->control, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show(answers, stdout);
	return control_answered(run, answers, control_is_json(run) ? json_hosts(answers) : NULL, NULL);
}

bool control_timeout(const struct control_values *values, uint32_t *milliseconds_ret)
{
	uint64_t seconds = 0;

	if (values->text[OPTION_TIMEOUT] &&
	    (text_parse_u64(values->text[OPTION_TIMEOUT], 10, SECONDS_MAX, &seconds) < 0 || seconds == 0))
		return false;
	*milliseconds_ret = (uint32_t)seconds * 1000;
	return true;
}

/* ---- help ---- */

static int print_group(FILE *to, const char *group, const char *help, const struct control_command *commands, size_t count)
{
	fprintf(to, "usage: fathom %s COMMAND [OPTION...]\n\n%s\n\ncommands:\n", group, help);
	for (size_t i = 0; i < count; i++)
		fprintf(to, "  %-20s %s\n", commands[i].words, commands[i].help);
	fprintf(to, "\n`fathom %s COMMAND --help` says more.\n", group);
	return to == stdout ? EXIT_SUCCESS : EXIT_USAGE;
}

static int print_command(const char *name, const struct control_command *command)
{
	printf("usage: %s [OPTION...]%s%s\n\n%s\n\n", name, command->arguments[0] ? " " : "", command->arguments,
	       command->help);
	control_options_print(OPTIONS_COMMON | command->options);
	if (command->more)
		printf("\n%s\n", command->more);
	return EXIT_SUCCESS;
}

/* ---- finding a command ---- */

/* Number of words of `command` at the beginning of `argv`; 0: a different command. */
static int words_that_match(const struct control_command *command, int argc, char **argv)
{
	const char *words = command->words;
	int count = 0;

	while (*words) {
		size_t bytes = strcspn(words, " ");

		if (count == argc || strncmp(argv[count], words, bytes) != 0 || argv[count][bytes])
			return 0;
		words += bytes + (words[bytes] == ' ');
		count++;
	}
	return count;
}

/* Do longer commands begin with these words, as in "storage query"? */
static bool is_prefix(const struct control_command *commands, size_t count, const char *word)
{
	size_t bytes = strlen(word);

	for (size_t i = 0; i < count; i++) {
		if (strncmp(commands[i].words, word, bytes) == 0 && commands[i].words[bytes] == ' ')
			return true;
	}
	return false;
}

static const struct control_command *find_command(const struct control_command *commands, size_t count, int argc,
						  char **argv, int *words_ret)
{
	const struct control_command *found = NULL;

	*words_ret = 0;
	for (size_t i = 0; i < count; i++) {
		int words = words_that_match(&commands[i], argc, argv);

		if (words > *words_ret) {
			*words_ret = words;
			found = &commands[i];
		}
	}
	return found;
}

/* ---- running a command ---- */

static int run_command(const struct control_command *command, struct control_run *run)
{
	struct fathom_fault why;
	uint32_t milliseconds;
	int status;

	if (run->argc < command->args_min || run->argc > command->args_max)
		return control_bad(run,
				   run->argc < command->args_min ? "something is missing: %s" : "too many arguments: %s",
				   command->arguments[0] ? command->arguments : "it takes none");
	if (!control_timeout(&run->values, &milliseconds))
		return control_bad(run, "--timeout is not a number of seconds from 1 to %d: %s", SECONDS_MAX,
				   run->values.text[OPTION_TIMEOUT]);
	if (option_is_given(&run->values, OPTION_JSON_LOGGING) && !option_is_given(&run->values, OPTION_DEBUG) &&
	    !run->values.text[OPTION_LOG_FILE])
		return control_bad(run, "--json-logging is about the log, which takes --debug or --log-file");
	if (!command->alone && control_open(&run->values, &run->control, &why))
		return control_fail(run, &why);
	if (run->control)
		hosts_are(fathom_control_hosts(run->control));
	status = command->run(run);
	control_close(run->control);
	return status;
}

int control_main(const char *group, const char *help, const struct control_command *commands, size_t count, int argc,
		 char **argv)
{
	const struct control_command *command;
	struct control_run run = { 0 };
	char name[NAME_BYTES];
	int at, words;

	if (!control_options_read(OPTIONS_COMMON, true, argc, argv, &run.values, &at))
		return EXIT_USAGE;
	if (at == argc)
		return print_group(option_is_given(&run.values, OPTION_HELP) ? stdout : stderr, group, help, commands,
				   count);
	if (is_prefix(commands, count, argv[at]) && !find_command(commands, count, 1, argv + at, &words) && at + 1 < argc &&
	    argv[at + 1][0] == '-') {
		char *prefix = argv[at];
		int behind;

		/* "storage query -l HOST usage": options may be between the words */
		if (!control_options_read(OPTIONS_COMMON, true, argc - at, argv + at, &run.values, &behind))
			return EXIT_USAGE;
		if (behind < argc - at) {
			at += behind - 1;
			argv[at] = prefix;
		}
	}
	command = find_command(commands, count, argc - at, argv + at, &words);
	if (!command) {
		if (is_prefix(commands, count, argv[at]) && (at + 1 == argc || argv[at + 1][0] == '-'))
			return print_group(option_is_given(&run.values, OPTION_HELP) ? stdout : stderr, group, help,
					   commands, count);
		fprintf(stderr, "fathom %s: no command \"%s%s%s\"; `fathom %s --help` lists them\n", group, argv[at],
			is_prefix(commands, count, argv[at]) ? " " : "",
			is_prefix(commands, count, argv[at]) ? argv[at + 1] : "", group);
		return EXIT_USAGE;
	}
	snprintf(name, sizeof(name), "fathom %s %s", group, command->words);
	run.name = name;
	at += words - 1;
	argv[at] = name;
	argv += at;
	argc -= at;
	if (!control_options_read(OPTIONS_COMMON | command->options, false, argc, argv, &run.values, &at))
		return EXIT_USAGE;
	if (option_is_given(&run.values, OPTION_HELP))
		return print_command(name, command);
	run.argc = argc - at;
	run.argv = argv + at;
	return run_command(command, &run);
}
