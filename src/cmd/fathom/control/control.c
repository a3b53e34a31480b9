/* SPDX-License-Identifier: BSD-2-Clause */
/* control - finds a command, runs it, and ends it; see control.h. */
#include "cmd/fathom/control/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"
#include "control/fault/fault.h"

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
	bool has_hosts = run->values.host_list || run->values.rank_hosts;
	int status = control_finish(run, NULL, why);

	/* the library parses lists: a list of the command line that is not valid is an error of the command line */
	bool is_no_list = why->code == FAULT_RANK_LIST_BAD || why->code == FAULT_NO_RANKS_NAMED ||
			  (why->code == FAULT_HOST_LIST_BAD && has_hosts);

	return is_no_list ? EXIT_USAGE : status;
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
	return control_answered(run, answers, control_is_json(run) ? json_of_host_answers(answers) : NULL, NULL);
}

/* ---- arguments ---- */

const char *control_name(const struct control_run *run)
{
	return run->table->name + strlen("fathom ");
}

int control_read_pairs(const struct control_run *run, bool with_values, struct fathom_control_pair *pairs,
		       size_t *count_ret)
{
	size_t count = 0;

	for (int i = 0; i < run->argc; i++) {
		char *rest = run->argv[i], *word;

		while ((word = strsep(&rest, ","))) {
			char *colon = with_values ? strchr(word, ':') : NULL;

			if (count == CONTROL_PAIRS_MAX)
				return control_bad(run, "more than %d names", CONTROL_PAIRS_MAX);
			if (!word[0] || (with_values && (!colon || colon == word || !colon[1])))
				return control_bad(run, with_values ? "\"%s\" is not NAME:VALUE" : "\"%s\" is not a name",
						   word);
			if (colon)
				*colon = '\0';
			pairs[count++] = (struct fathom_control_pair){ word, colon ? colon + 1 : "" };
		}
	}
	*count_ret = count;
	return 0;
}

int control_read_size(const struct control_run *run, int index, uint64_t *bytes_ret)
{
	uint64_t bytes;

	must(index < run->argc);
	if (text_parse_bytes(run->argv[index], &bytes) != 0 || bytes == 0)
		return control_bad(run, "\"%s\" is not a size, such as 100G", run->argv[index]);
	*bytes_ret = bytes;
	return 0;
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
static bool is_command_prefix(const struct control_group *group, const char *word)
{
	size_t bytes = strlen(word);

	for (size_t i = 0; i < group->count; i++) {
		if (strncmp(group->commands[i].words, word, bytes) == 0 && group->commands[i].words[bytes] == ' ')
			return true;
	}
	return false;
}

static const struct control_command *find_control_command(const struct control_group *group, int argc, char **argv,
							  int *words_ret)
{
	const struct control_command *found = NULL;

	*words_ret = 0;
	for (size_t i = 0; i < group->count; i++) {
		int words = words_that_match(&group->commands[i], argc, argv);

		if (words > *words_ret) {
			*words_ret = words;
			found = &group->commands[i];
		}
	}
	return found;
}

/*
 * "storage query -l HOST usage": read options that stand between the words of a command, and move the first word behind
 * them. `at`: the first word. Returns OPTIONS_RUN, or the exit status.
 */
static int read_options_between(const struct control_group *group, int argc, char **argv, struct control_values *values,
				int *at)
{
	char *first = argv[*at];
	int behind, words, status;

	if (!is_command_prefix(group, first) || find_control_command(group, 1, argv + *at, &words) || *at + 1 == argc ||
	    argv[*at + 1][0] != '-')
		return OPTIONS_RUN;
	status = options_parse(group->table, argc - *at, argv + *at, values, &behind);
	if (status == OPTIONS_RUN && behind < argc - *at) {
		*at += behind - 1;
		argv[*at] = first;
	}
	return status;
}

/* ---- running a command ---- */

/* `arguments` without its first `given` words: those that are missing. */
static const char *missing_arguments(const char *arguments, int given)
{
	for (; given > 0; given--) {
		arguments += strcspn(arguments, " ");
		arguments += strspn(arguments, " ");
	}
	return arguments;
}

static int run_control_command(const struct control_command *command, struct control_run *run)
{
	struct fathom_fault why;
	int status;

	if (run->argc < command->args_min)
		return control_bad(run, "an argument is missing: %s", missing_arguments(command->arguments, run->argc));
	if (run->argc > command->args_max)
		return control_bad(run, "too many arguments: it takes %s",
				   command->arguments ? command->arguments : "none");
	if (run->values.json_logging && !run->values.debug && !run->values.log_file)
		return control_bad(run, "--json-logging requires --debug or --log-file");
	status = command->check ? command->check(run) : 0;
	if (status)
		return status;
	if (!command->alone && control_open(&run->values, &run->control, &why))
		return control_fail(run, &why);
	if (run->control)
		set_output_hosts(fathom_control_hosts(run->control));
	status = command->run(run);
	control_close(run->control);
	return status;
}

int control_main(const struct control_group *group, int argc, char **argv)
{
	const struct control_command *command;
	struct control_run run = { .values = CONTROL_VALUES_INITIAL };
	int at, words, status;

	status = options_parse(group->table, argc, argv, &run.values, &at);
	if (status == OPTIONS_RUN && at < argc)
		status = read_options_between(group, argc, argv, &run.values, &at);
	if (status != OPTIONS_RUN)
		return status;
	command = find_control_command(group, argc - at, argv + at, &words);
	if (!command && (at == argc || (at + 1 == argc && is_command_prefix(group, argv[at])))) {
		options_help(group->table, stderr);
		return EXIT_USAGE;
	}
	if (!command && is_command_prefix(group, argv[at]))
		return options_reject(group->table, "no command \"%s %s\"", argv[at], argv[at + 1]);
	if (!command)
		return options_reject(group->table, "no command \"%s\"", argv[at]);
	argc -= at + words - 1;
	argv += at + words - 1;
	run.table = command->table;
	status = options_parse(command->table, argc, argv, &run.values, &at);
	if (status != OPTIONS_RUN)
		return status;
	run.argc = argc - at;
	run.argv = argv + at;
	return run_control_command(command, &run);
}
