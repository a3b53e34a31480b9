/* SPDX-License-Identifier: BSD-2-Clause */
/* options - the command line of `fathom trace`, shared by its sub-commands, and its filters. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/trace/trace.h"

enum {
	OPTION_JSON = 256,
	OPTION_OLDER_THAN,
	OPTION_ALL,
	OPTION_FAILED,
	OPTION_EVENTS,
	OPTION_OBJECT,
	OPTION_OWNER,
	OPTION_SINCE,
	OPTION_UNTIL,
	OPTION_WHERE,
	OPTION_THRESHOLD,
	OPTION_FORCE,
	OPTION_CHROME, /* removed; the answer names its replacement */
	OPTION_FORMAT, /* never existed; likewise */
	OPTION_EXPORT  /* + a format */
};

static const char help_text[] =
	"usage: fathom trace [WORD] [OPTION...]\n"
	"       fathom trace enable|disable|groups|clear ...   (what is recorded; `fathom trace groups --help` says more)\n"
	"\n"
	"Reads the trace file of an engine, or of an SPDK target: running, killed, or copied from another machine.\n"
	"\n"
	"  show      events in the order in which they happened, one a line (the default)\n"
	"  stuck     commands that were started and not finished, and pollers that do not return\n"
	"  summary   all of it on a page: where the time went since the start, which events there are, what hangs\n"
	"  slowest [N]  the N (10) slowest requests of all that the file remembers: what each was, and where its time "
	"went\n"
	"  io ID     all that happened to one request, r12 or that of the I/O i435: its latest life, or --all\n"
	"  compare A B  two files, stage by stage: what got slower\n"
	"  follow    events as they come, until the engine ends or ^C\n"
	"  top       what a running engine does, once a second; -n COUNT: so many times\n"
	"  stages    how long commands were in each stage: tables of all commands and block device I/Os, and of the "
	"commonest\n"
	"            kinds, such as reads of 4 KiB\n"
	"  threads   the threads that record, and what each runs now\n"
	"  export    the events in the formats of other tools\n"
	"  record    all events of a running engine, into files (`fathom trace record --help` says more)\n"
	"  trigger   those around the moment in which an expression holds (`fathom trace trigger --help`)\n"
	"  freeze    a running engine copies its file as it is now (`fathom trace freeze --help`)\n"
	"  prune     remove files of processes that are gone, but for the newest (`fathom trace prune --help`)\n"
	"\n"
	"which file; without these the newest in /dev/shm. Named several times: all of them, on one time line (show, "
	"slowest,\n"
	"stuck) or one after the other (summary, stages, threads, io); each line says which process\n"
	"  -s NAME            of the program that was started with --name NAME\n"
	"  -p PID             of process PID\n"
	"  -f FILE            this file\n"
	"\n"
	"which events (show, stages, slowest, export); without these all:\n"
	"  -c CORE[,CORE...]  of these cores\n"
	"  -g GROUP[,...]     of these groups, and\n"
	"  -n NAME[,...]      with these names (stages: of those whose stages change with these events)\n"
	"\n"
	"  --object r12       of this object, of what belongs to it, and that name it\n"
	"  --owner TEXT       on behalf of an owner whose text has TEXT in it; or q2\n"
	"  --since, --until T from and to this moment: 5s (after the start), -5s (before the end), 12:30:00 (time of day)\n"
	"  --where EXPRESSION for which this holds: 'latency_us > 5ms and (type == READ or device =~ disk)'. Names: "
	"arguments,\n"
	"                     and latency_us (total), dwell_us, tick, core, thread, owner, object, name, group, state.\n"
	"                     == != < <= > >= =~ (contains), and, or, not, parentheses; 4k, 5ms, READ, \"a text\".\n"
	"                     Times also with _ns, _ms, _s. Of one event alone: 'bdev.io_done latency_us > 5000'\n"
	"  (stages: --owner, --since and --until; slowest: all but -g and -n)\n"
	"\n"
	"what to list (stuck):\n"
	"  --older-than TIME  begun so long ago: 1s (the default), 500ms, 20us, 0 (the default of an engine that died)\n"
	"  --all              also those that wait where waiting is normal (io: all lives that the file has)\n"
	"\n"
	"which requests, and what of them (slowest):\n"
	"  --all              each by itself, also those that one stall delayed, which are one line otherwise\n"
	"  --failed           those that failed, newest first\n"
	"  --events           also their events\n"
	"\n"
	"what counts as slower (compare):\n"
	"  --threshold PCT    more than so many per cent (10)\n"
	"\n"
	"what to write (export); - is standard output:\n"
	"  --perfetto FILE    for ui.perfetto.dev\n"
	"  --ctf DIRECTORY    Common Trace Format, for babeltrace2 and Trace Compass\n"
	"  --html FILE        a page for any browser: time line, slowest I/Os, histograms, heat map\n"
	"  --force            overwrite what is there already; without it, it is refused\n"
	"\n"
	"how:\n"
	"  -w                 time of day (in the zone of TZ) in place of microseconds since the program started\n"
	"  --json             a JSON object a line\n"
	"  -h, --help         this text\n"
	"\n"
	"An event line has: core, time in us (`~`: the clock was read for an earlier event and lent to this one), tick, "
	"name,\n"
	"[owner], id of the object (and of the one it belongs to), dwell: us since the object's previous event, total: us "
	"since\n"
	"the first of its life (`>`: at least, its beginning is no longer in the file), arguments.\n"
	"\n"
	"A stage line has: stage, how many went through it, us in it: average, the time that 50, 90 and 99 of 100 did not "
	"exceed,\n"
	"the longest; the share of all lives' time. Counted are commands whose whole life is still in the file.\n"
	"\n"
	"exit status: 0; stuck: 0 nothing is stuck, 1 something is; compare: 1 something got slower; 2: an error\n";

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

static int parse_cores(struct trace_request *request, const char *list)
{
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
	return rc;
}

/* Text options and flags, by the offset of their member. */
static const struct {
	int option;
	size_t offset;
	bool flag;
} places[] = {
	{ 'g', offsetof(struct trace_request, groups), false },
	{ 'n', offsetof(struct trace_request, points), false },
	{ OPTION_OBJECT, offsetof(struct trace_request, spec.object), false },
	{ OPTION_OWNER, offsetof(struct trace_request, spec.owner), false },
	{ OPTION_SINCE, offsetof(struct trace_request, spec.since), false },
	{ OPTION_UNTIL, offsetof(struct trace_request, spec.until), false },
	{ OPTION_WHERE, offsetof(struct trace_request, spec.where), false },
	{ 'w', offsetof(struct trace_request, wall), true },
	{ OPTION_JSON, offsetof(struct trace_request, json), true },
	{ OPTION_ALL, offsetof(struct trace_request, all), true },
	{ OPTION_FAILED, offsetof(struct trace_request, failed), true },
	{ OPTION_EVENTS, offsetof(struct trace_request, records), true },
	{ OPTION_FORCE, offsetof(struct trace_request, exports.force), true },
};

static bool set_plain_option(int option, struct trace_request *request)
{
	for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
		char *at = (char *)request + places[i].offset;

		if (places[i].option != option)
			continue;
		if (places[i].flag)
			*(bool *)at = true;
		else
			*(const char **)at = optarg;
		return true;
	}
	if (option < OPTION_EXPORT || option >= OPTION_EXPORT + EXPORT_FORMATS)
		return false;
	request->exports.paths[option - OPTION_EXPORT] = optarg;
	return true;
}

/* Parse "10", "10%" or "2.5" into a fraction. Errors: -EINVAL. */
static int parse_per_cent(const char *text, double *part_ret)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || !(number >= 0) || number > 1e6 || (*end && strcmp(end, "%") != 0))
		return -EINVAL;
	*part_ret = number / 100;
	return 0;
}

/* 0: continue; else the exit status + 1. */
int trace_parse_options(int argc, char **argv, struct trace_request *request)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "older-than", required_argument, NULL, OPTION_OLDER_THAN },
		{ "all", no_argument, NULL, OPTION_ALL },
		{ "group", required_argument, NULL, 'g' },
		{ "name", required_argument, NULL, 'n' },
		{ "object", required_argument, NULL, OPTION_OBJECT },
		{ "owner", required_argument, NULL, OPTION_OWNER },
		{ "since", required_argument, NULL, OPTION_SINCE },
		{ "until", required_argument, NULL, OPTION_UNTIL },
		{ "where", required_argument, NULL, OPTION_WHERE },
		{ "threshold", required_argument, NULL, OPTION_THRESHOLD },
		{ "failed", no_argument, NULL, OPTION_FAILED },
		{ "events", no_argument, NULL, OPTION_EVENTS },
		{ "perfetto", required_argument, NULL, OPTION_EXPORT + EXPORT_PERFETTO },
		{ "ctf", required_argument, NULL, OPTION_EXPORT + EXPORT_CTF },
		{ "chrome", required_argument, NULL, OPTION_CHROME },
		{ "format", required_argument, NULL, OPTION_FORMAT },
		{ "html", required_argument, NULL, OPTION_EXPORT + EXPORT_HTML },
		{ "force", no_argument, NULL, OPTION_FORCE },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option, status;

	while ((option = getopt_long(argc, argv, TRACE_CHOICE_OPTIONS "c:g:n:wh", options, NULL)) != -1) {
		if (trace_choice_take(&request->choices, option, optarg, &status)) {
			if (status)
				return status;
			continue;
		}
		switch (option) {
		case 'c':
			if (parse_cores(request, optarg) != 0)
				return trace_complain("-c takes core numbers, not", optarg) + 1;
			break;
		case OPTION_OLDER_THAN:
			if (text_parse_duration(optarg, &request->older_than_ns) != 0)
				return trace_complain("--older-than takes a time such as 1s or 500ms, not", optarg) + 1;
			break;
		case OPTION_THRESHOLD:
			if (parse_per_cent(optarg, &request->threshold) != 0)
				return trace_complain("--threshold takes a percentage, not", optarg) + 1;
			break;
		case OPTION_CHROME:
			return trace_complain("export no longer writes Chrome's JSON; use --perfetto for the file",
					      optarg) +
			       1;
		case OPTION_FORMAT:
			return trace_complain("use --perfetto FILE, --ctf DIRECTORY or --html FILE; there is no --format",
					      optarg) +
			       1;
		case 'h':
			fputs(help_text, stdout);
			return EXIT_SUCCESS + 1;
		default:
			if (set_plain_option(option, request))
				break;
			fprintf(stderr, "`fathom trace --help` says more\n");
			return EXIT_USAGE + 1;
		}
	}
	return 0;
}

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
			rc = fault(why, -ENOENT, "the file knows no %s \"%s\"", groups ? "group" : "event", word);
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
	/* before any other condition: the filter must see all events */
	if (request->filter && !reader_filter_event(request->filter, event))
		return false;
	if (request->point_wanted && !request->point_wanted[event->point_id])
		return false;
	return trace_is_on_wanted_core(request, event);
}

bool trace_is_of_wanted_life(const struct trace_request *request, const struct reader_event *event)
{
	return (!request->filter || reader_filter_while(request->filter, event)) && trace_is_on_wanted_core(request, event);
}

bool trace_is_wanted_life(const struct trace_request *request, const struct reader_exemplar *exemplar)
{
	if (request->filter && !reader_filter_life(request->filter, exemplar))
		return false;
	return request->any_core ||
	       (exemplar->cpu >= 0 && exemplar->cpu < TRACE_CORES_MAX && request->cores[exemplar->cpu]);
}
