/* SPDX-License-Identifier: BSD-2-Clause */
/* options - the command line of `fathom trace`, shared by its sub-commands, and its filters. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/trace/trace.h"

/* ---- the command line ---- */

int trace_complain(const char *text, const char *value)
{
	fprintf(stderr, "fathom trace: %s%s%s%s\n", text, value ? " \"" : "", value ? value : "", value ? "\"" : "");
	return EXIT_USAGE;
}

char *trace_json_string(const char *text)
{
	json_t *string = json_string(text);
	char *json;

	if (!string) {
		size_t bytes = strlen(text);
		char *clean = malloc(bytes);

		must(clean);
		string = json_stringn(clean, text_utf8_copy(clean, bytes, text, bytes));
		free(clean);
	}
	must(string);
	json = json_dumps(string, JSON_ENCODE_ANY);
	must(json);
	json_decref(string);
	return json;
}

static int read_cores(void *to, const char *list, struct fathom_fault *why)
{
	struct trace_request *request = to;
	char *copy = strdup(list), *save = NULL;
	int rc = *list ? 0 : -EINVAL;

	must(copy);
	for (char *word = strtok_r(copy, ",", &save); word && rc == 0; word = strtok_r(NULL, ",", &save)) {
		uint64_t core;

		rc = text_parse_u64(word, 10, TRACE_CORES_MAX - 1, &core);
		if (rc == 0)
			request->cores[core] = true;
	}
	free(copy);
	request->any_core = false;
	return rc == 0 ? 0 : fault(why, -EINVAL, "is not a list of core numbers, such as 0,3");
}

/* "10", "10%" or "2.5", as a fraction. */
static int read_threshold(void *to, const char *text, struct fathom_fault *why)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || !(number >= 0) || number > 1e6 || (*end && strcmp(end, "%") != 0))
		return fault(why, -EINVAL, "is not a percentage, such as 10");
	*(double *)to = number / 100;
	return 0;
}

static int reject_option_chrome(void *to, const char *text, struct fathom_fault *why)
{
	return fault(why, -EINVAL, "cannot be written: export no longer writes Chrome's JSON; use --perfetto FILE");
}

static int reject_option_format(void *to, const char *text, struct fathom_fault *why)
{
	return fault(why, -EINVAL, "selects no format: use --perfetto FILE, --ctf DIRECTORY or --html FILE");
}

#define AT(member) .offset = offsetof(struct trace_request, member)

static const struct option_row rows[] = {
	{ .type = OPTION_HEADING,
	  .help = "Select files (default: the newest in /dev/shm). Several files are shown on one time line (show, "
		  "slowest) or one after the other (stuck, summary, stages, threads, io); each line names its process:" },
	TRACE_CHOICE_ROWS(struct trace_request),
	{ .type = OPTION_HEADING,
	  .help = "Select events (show, stages, slowest, follow, export; default: all). stages ignores --object and "
		  "--where; slowest ignores -g and -n:" },
	{ NULL, 'c', OPTION_CALL, "CORE[,CORE...]", "events of these cores", .read = read_cores },
	{ "group", 'g', OPTION_TEXT, "GROUP[,...]", "events of these groups", AT(groups) },
	{ "name", 'n', OPTION_TEXT, "NAME[,...]",
	  "events with these names; stages: objects whose stages change with these events", AT(points) },
	{ "object", 0, OPTION_TEXT, "ID", "events of this object, such as r12, of its parts, and events that name it",
	  AT(spec.object) },
	{ "owner", 0, OPTION_TEXT, "TEXT", "events of an owner whose text contains TEXT, or with an id such as q2",
	  AT(spec.owner) },
	{ "since", 0, OPTION_TEXT, "T",
	  "events from this time on: 5s (after the start), -5s (before the end), 12:30:00 (time of day)", AT(spec.since) },
	{ "until", 0, OPTION_TEXT, "T", "events up to this time", AT(spec.until) },
	{ "where", 0, OPTION_TEXT, "EXPRESSION",
	  "events for which it is true: 'latency_us > 5ms and (type == READ or device =~ disk)'. Names are arguments, and "
	  "latency_us (total), dwell_us, tick, core, thread, owner, object, name, group, state. Operators are == != < <= > "
	  ">= "
	  "=~ (contains), and, or, not, parentheses. Values are 4k, 5ms, READ, \"a text\". Times also exist with _ns, _ms "
	  "and _s. For one kind of event: 'bdev.io_done latency_us > 5000'",
	  AT(spec.where) },
	{ .type = OPTION_HEADING, .help = "Select requests (stuck, io, slowest):" },
	{ "older-than", 0, OPTION_DURATION, "TIME",
	  "stuck: requests in progress for at least this long, such as 500ms (default 1s; 0 if the engine has died)",
	  AT(older_than_ns) },
	{ "all", 0, OPTION_FLAG, NULL,
	  "stuck: also requests in states in which waiting is normal; io: all lives of the request in the file; slowest: "
	  "a line for each request, without grouping those that one stall delayed",
	  AT(all) },
	{ "failed", 0, OPTION_FLAG, NULL, "slowest: failed requests, newest first", AT(failed) },
	{ "events", 0, OPTION_FLAG, NULL, "slowest: also print the events of each request", AT(records) },
	{ .type = OPTION_HEADING, .help = "Limit of compare:" },
	{ "threshold", 0, OPTION_CALL, "PCT", "an increase of more than PCT per cent counts as slower (10)", AT(threshold),
	  .read = read_threshold },
	{ .type = OPTION_HEADING, .help = "Outputs of export; - is standard output:" },
	{ "perfetto", 0, OPTION_TEXT, "FILE", "file for ui.perfetto.dev", AT(exports.paths[EXPORT_PERFETTO]),
	  .values = OPTION_FILES },
	{ "ctf", 0, OPTION_TEXT, "DIRECTORY", "Common Trace Format, for babeltrace2 and Trace Compass",
	  AT(exports.paths[EXPORT_CTF]), .values = OPTION_FOLDERS },
	{ "html", 0, OPTION_TEXT, "FILE", "page for any browser: time line, slowest I/Os, histograms, heat map",
	  AT(exports.paths[EXPORT_HTML]), .values = OPTION_FILES },
	{ "force", 0, OPTION_FLAG, NULL, "overwrite existing files", AT(exports.force) },
	{ "chrome", 0, OPTION_CALL, "FILE", .read = reject_option_chrome },
	{ "format", 0, OPTION_CALL, "FORMAT", .read = reject_option_format },
	{ .type = OPTION_HEADING, .help = "Format of the output:" },
	{ NULL, 'w', OPTION_FLAG, NULL, "time of day (in the zone of TZ) instead of microseconds since the program's start",
	  AT(wall) },
	{ "json", 0, OPTION_FLAG, NULL, "print a JSON object on each line", AT(json) },
	OPTION_HELP_ROW,
};

#define WORD(function, most_arguments)                                                                                     \
	.own = &(const struct trace_word)                                                                                  \
	{                                                                                                                  \
		function, most_arguments, .only_one = NULL                                                                 \
	}
#define WORD_OF_ONE(function, most_arguments, is_live, explanation)                                                        \
	.own = &(const struct trace_word)                                                                                  \
	{                                                                                                                  \
		function, most_arguments, is_live, explanation                                                             \
	}

static const struct option_command commands[] = {
	{ "show", NULL, "events in the order of time, one on each line (the default)", WORD(trace_show, 0) },
	{ "stuck", NULL, "commands that started and did not end, and pollers that do not return", WORD(trace_stuck, 0) },
	{ "summary", NULL, "the file on one page: time since the start by stage, counts of events, what is stuck",
	  WORD(trace_summary, 0) },
	{ "slowest", "[N]", "the N (10) slowest requests in the file, and the time in each of their stages",
	  WORD(trace_slowest, 1) },
	{ "io", "ID",
	  "all events of one request (r12), or of the request of an I/O (i435): its latest life, the one that metrics name "
	  "(r12.3), or --all",
	  WORD(trace_io, 1) },
	{ "compare", "A B", "what got slower from file A to file B, stage by stage", .operands = OPTION_FILES,
	  WORD_OF_ONE(NULL, 2, false, "compare takes its files as arguments: `fathom trace compare A B`") },
	{ "follow", NULL, "events as they occur, until the engine ends or Ctrl-C",
	  WORD_OF_ONE(trace_follow, 0, true, "follow shows one program: run it once for each") },
	{ "top", NULL, "the activity of a running engine, once a second; -n COUNT: number of seconds",
	  WORD_OF_ONE(trace_top, 0, true, "top shows one program: run it once for each") },
	{ "stages", NULL,
	  "the time of commands in each stage: tables of all commands and block device I/Os, and of the most frequent "
	  "kinds, such as reads of 4 KiB",
	  WORD(trace_stages, 0) },
	{ "threads", NULL, "the threads that record, and what each runs now", WORD(trace_threads, 0) },
	{ "export", NULL, "write the events in the formats of other tools",
	  WORD_OF_ONE(trace_export_events, 0, false,
		      "export reads one file: run it once for each; babeltrace2 and Trace Compass show several "
		      "directories of --ctf on one time line") },
	{ "record", NULL, "write all events of a running engine to files", .run = trace_record,
	  .table = &trace_record_table },
	{ "trigger", "EXPRESSION", "write the events around the moment at which an expression becomes true",
	  .run = trace_trigger, .table = &trace_trigger_table },
	{ "prune", NULL, "remove trace files of ended processes, except the newest", .run = trace_prune,
	  .table = &trace_prune_table },
	{ "enable", "GROUP...", "record these groups or points of a running engine", .run = trace_control,
	  .table = &trace_control_table },
	{ "disable", "GROUP...", "stop recording them", .run = trace_control, .table = &trace_control_table },
	{ "groups", "[GROUP...]", "list groups and points, and which are recorded", .run = trace_control,
	  .table = &trace_control_table },
	{ "clear", NULL, "discard what a running engine recorded so far", .run = trace_control,
	  .table = &trace_control_table },
	{ "freeze", "[REASON]", "copy a running engine's trace file as it is now", .run = trace_control,
	  .table = &trace_control_table },
};

const struct option_table trace_table = {
	.name = "fathom trace",
	.usage = "fathom trace [COMMAND] [OPTION...]",
	.about = "Read the trace file of an engine or of an SPDK target: of a running process, a dead one, or another "
		 "machine.",
	OPTION_COMMANDS(commands),
	OPTION_ROWS(rows),
	.more = "`fathom trace COMMAND --help` shows the options of record, trigger, prune, enable, disable, groups, clear "
		"and freeze.\n\n"
		"An event line has: core; time in us (`~`: the tick was read for an earlier event of the same batch); "
		"tick; "
		"name; [owner]; id of the object, and of the object it belongs to; dwell: us since the object's previous "
		"event; total: us since the first event of its life (`>`: at least, because the beginning is no longer in "
		"the file); arguments.\n\n"
		"A stage line has: stage; number of lives that passed it; time in it in us: average, 50th, 90th and 99th "
		"percentile, maximum; share of the time of all lives. Only commands whose whole life is in the file "
		"count.\n\n"
		"Exit status: 0: success; 1: stuck found stuck requests, or compare found something slower; 2: an error.",
};

/* Mark the points named in `list` in request->point_wanted. Errors: -ENOENT (explained). */
static int choose_points(struct trace_request *request, const struct reader *reader, const char *list, bool groups,
			 struct fathom_fault *why)
{
	char *copy = strdup(list), *save = NULL;
	int rc = 0;

	must(copy);
	for (char *word = strtok_r(copy, ",+", &save); word && rc == 0; word = strtok_r(NULL, ",+", &save)) {
		const struct reader_group *group = groups ? reader_group_by_name(reader, word) : NULL;
		const struct reader_point *point = groups ? NULL : reader_point_by_name(reader, word);

		if (!group && !point)
			rc = fault(why, -ENOENT, "the file has no %s \"%s\"", groups ? "group" : "event", word);
		for (uint32_t i = 0; i < reader_info(reader)->point_count; i++) {
			const struct reader_point *row = reader_point_at(reader, i);

			if (row == point || (group && row->group == group))
				request->point_wanted[row->id] = true;
		}
	}
	free(copy);
	return rc;
}

int trace_try_filters(struct trace_request *request, const struct reader *reader, struct fathom_fault *why)
{
	int rc = 0;

	if (request->spec.object || request->spec.owner || request->spec.since || request->spec.until ||
	    request->spec.where)
		rc = reader_filter_create(reader, &request->spec, &request->filter, why);
	if (rc || (!request->groups && !request->points))
		return rc;
	request->point_wanted = calloc(UINT16_MAX + 1, sizeof(bool));
	must(request->point_wanted);
	if (request->groups)
		rc = choose_points(request, reader, request->groups, true, why);
	if (request->points && rc == 0)
		rc = choose_points(request, reader, request->points, false, why);
	return rc;
}

int trace_choose_filters(struct trace_request *request, const struct reader *reader)
{
	struct fathom_fault why = { 0 };

	return trace_try_filters(request, reader, &why) == 0 ? 0 : trace_complain(why.text, NULL);
}

/* ---- selecting events ---- */

bool trace_is_on_wanted_core(const struct trace_request *request, const struct reader_event *event)
{
	return request->any_core || (event->cpu >= 0 && event->cpu < TRACE_CORES_MAX && request->cores[event->cpu]);
}

bool trace_is_wanted(const struct trace_request *request, const struct reader_event *event)
{
	/* first: the filter must see all events, since it follows the lives of objects */
	if (request->filter && !reader_filter_event(request->filter, event))
		return false;
	if (request->point_wanted && !request->point_wanted[event->point_id])
		return false;
	return trace_is_on_wanted_core(request, event);
}

bool trace_is_of_wanted_life(const struct trace_request *request, const struct reader_event *event)
{
	return (!request->filter || reader_filter_time_and_owner(request->filter, event)) &&
	       trace_is_on_wanted_core(request, event);
}

bool trace_is_wanted_life(const struct trace_request *request, const struct reader_exemplar *exemplar)
{
	if (request->filter && !reader_filter_life(request->filter, exemplar))
		return false;
	return request->any_core ||
	       (exemplar->cpu >= 0 && exemplar->cpu < TRACE_CORES_MAX && request->cores[exemplar->cpu]);
}
