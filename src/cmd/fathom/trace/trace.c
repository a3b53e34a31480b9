/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace - `fathom trace`: what an engine did, read from its trace file, alive or dead.
 *
 *   show      events, one per line (also the default)
 *   stuck     commands that were started and not finished, and pollers that do not return
 *   summary   the whole file on one page
 *   slowest   the slowest requests in the file
 *   io        all events of one request, and the time in its stages
 *   compare   what got slower from one file to another
 *   follow    events as they occur
 *   top       the activity of a running engine, once a second
 *   stages    how long commands were in each stage
 *   threads   the threads that record, and what each runs now
 *   export    the events in the formats of other tools
 *   record    all events of a running engine, into files
 *   prune     removes files of dead processes, except the newest
 *   trigger   the events around the moment in which an expression holds, into a file
 *
 * and enable, disable, groups, clear, freeze: these control what a running program records.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "cmd/fathom/trace/trace.h"
#include "inspect/trace/slowest.h"

static int open_chosen_file(const struct trace_request *request, bool follow, struct reader **reader_ret)
{
	char path[PATH_MAX];
	struct fathom_fault why = { 0 };
	int rc = trace_choice_path(&request->choices, 0, path, &why);

	if (rc == 0)
		rc = follow ? reader_open_to_follow(path, reader_ret, &why) : reader_open(path, reader_ret, &why);
	if (rc)
		trace_complain(why.text, NULL);
	return rc;
}

static bool is_wanted_by(const void *ctx, const struct reader_event *event)
{
	return trace_is_wanted(ctx, event);
}

int trace_export_events(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	int rc = trace_choose_filters(request, reader);

	return rc ? rc : trace_export(reader, &request->exports, is_wanted_by, request);
}

int cmd_trace(int argc, char **argv)
{
	struct trace_request request = { .older_than_ns = TRACE_OLDER_THAN_DEFAULT, .threshold = 0.1, .any_core = true };
	struct reader_printer *printer = NULL;
	struct reader *reader = NULL;
	const struct option_command *command = argc > 1 ? options_find_command(&trace_table, argv[1]) : NULL;
	const struct trace_word *word;
	int at, status, rc;

	if (command && command->run)
		return command->run(argc, argv);
	if (argc > 1 && strcmp(argv[1], "--prune") == 0)
		return trace_prune(argc, argv);
	if (argc > 1 && (strncmp(argv[1], "-S", 2) == 0 || strncmp(argv[1], "--socket", 8) == 0))
		return trace_control(argc, argv);
	status = options_parse(&trace_table, argc, argv, &request, &at);
	if (status != OPTIONS_RUN)
		return status;
	command = options_find_command(&trace_table, at < argc ? argv[at] : "show");
	if (!command)
		return trace_complain("unknown command (`fathom trace --help` lists the commands):", argv[at]);
	if (command->run)
		return options_reject(command->table, "the command \"%s\" must come before its options", command->name);
	word = command->own;
	request.args = argv + at + 1;
	request.arg_count = argc > at ? argc - at - 1 : 0;
	if (request.arg_count > word->arg_count_max)
		return trace_complain("unexpected argument", request.args[word->arg_count_max]);
	if (request.choices.count > 1)
		return word->only_one ? trace_complain(word->only_one, NULL) : trace_merged(&request, word->run);
	if (!word->run)
		return trace_compare(&request);
	if (open_chosen_file(&request, word->follows, &reader) != 0)
		return EXIT_USAGE;
	if (reader_info(reader)->problem)
		fprintf(stderr, "fathom trace: %s: %s\n", reader_info(reader)->path, reader_info(reader)->problem);
	if (reader_printer_create(reader, stdout, request.json ? READER_PRINT_JSON : READER_PRINT_TEXT, request.wall,
				  &printer) != 0)
		status = trace_complain("-w: this file does not contain the time of day", NULL);
	else
		reader_printer_set_words(printer, trace_opcode_word);
	if (printer)
		status = word->run(&request, reader, printer);
	rc = reader_printer_destroy(printer);
	if (rc) {
		fprintf(stderr, "fathom trace: cannot write: %s\n", strerror(-rc));
		status = EXIT_USAGE;
	}
	reader_filter_destroy(request.filter);
	reader_close(reader);
	free(request.point_wanted);
	return status;
}
