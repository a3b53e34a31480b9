/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace - `fathom trace`: what an engine did, read from its trace file, alive or dead.
 *
 *   show      events, one a line (also when no word is given)
 *   stuck     commands that were started and not finished, and pollers that do not return
 *   stages    how long commands were in each stage
 *   threads   the threads that record, and what each runs now
 *   export    the events in the formats of other tools
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/trace_export.h"
#include "inspect/trace/trace_file.h"

enum { CORES_MAX = 256 };

enum { EXIT_STUCK = 1 };

enum { OPTION_JSON = 256, OPTION_OLDER_THAN, OPTION_ALL, OPTION_EXPORT /* + a format */ };

struct request {
	const char *name, *file;
	int32_t pid;
	bool json, wall, all;
	uint64_t older_than_ns;
	/* filters; nothing given lets everything pass */
	const char *groups, *points;
	bool any_core, cores[CORES_MAX];
	bool *point_wanted; /* by id; NULL: all */
	struct trace_export_files exports;
};

static const char help_text[] =
	"usage: fathom trace [show|stuck|stages|threads|export] [OPTION...]\n"
	"\n"
	"Reads the trace file of an engine: running, killed, or copied from another machine.\n"
	"\n"
	"  show      events in the order in which they happened, one a line (the default)\n"
	"  stuck     commands that were started and not finished, and pollers that do not return\n"
	"  stages    how long commands were in each stage: tables of all commands and block device I/Os, and of the "
	"commonest\n"
	"            kinds, such as reads of 4 KiB\n"
	"  threads   the threads that record, and what each runs now\n"
	"  export    the events in the formats of other tools\n"
	"\n"
	"which file; without these the newest in /dev/shm:\n"
	"  -s NAME            of the program that was started with --name NAME\n"
	"  -p PID             of process PID\n"
	"  -f FILE            this file\n"
	"\n"
	"which events (show, stages, export); without these all:\n"
	"  -c CORE[,CORE...]  of these cores\n"
	"  -g GROUP[,...]     of these groups, and\n"
	"  -n NAME[,...]      with these names (stages: of those whose stages change with these events)\n"
	"\n"
	"what to list (stuck):\n"
	"  --older-than TIME  begun so long ago: 1s (the default), 500ms, 20us, 0\n"
	"  --all              also those that wait where waiting is normal\n"
	"\n"
	"what to write (export); - is standard output:\n"
	"  --perfetto FILE    for ui.perfetto.dev\n"
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
	"exit status: 0; stuck: 0 nothing is stuck, 1 something is; 2: an error\n";

/* ---- the command line ---- */

static int complain(const char *text, const char *value)
{
	fprintf(stderr, "fathom trace: %s%s%s%s\n", text, value ? " \"" : "", value ? value : "", value ? "\"" : "");
	return EXIT_USAGE;
}

/* "1s", "500ms", "20us", "10ns", "2m", "0"; a number alone is in seconds. */
static int parse_duration(const char *text, uint64_t *ns_ret)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {
		{ "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 }, { "m", 60e9 }, { "h", 3600e9 }
	};
	char *end;
	double number = strtod(text, &end);

	if (end == text || !(number >= 0) || number > 1e9)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
		if (strcmp(end, units[i].name) == 0) {
			*ns_ret = (uint64_t)(number * units[i].ns);
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_cores(struct request *request, const char *list)
{
	char *copy = strdup(list), *save = NULL;
	int rc = *list ? 0 : -EINVAL;

	must(copy);
	for (char *word = strtok_r(copy, ",", &save); word && rc == 0; word = strtok_r(NULL, ",", &save)) {
		uint64_t core;

		rc = text_parse_u64(word, 10, CORES_MAX - 1, &core);
		if (rc == 0)
			request->cores[core] = true;
	}
	free(copy);
	request->any_core = false;
	return rc;
}

/* 0: go on; else the exit status + 1. */
static int parse_options(int argc, char **argv, struct request *request)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "older-than", required_argument, NULL, OPTION_OLDER_THAN },
		{ "all", no_argument, NULL, OPTION_ALL },
		{ "perfetto", required_argument, NULL, OPTION_EXPORT + EXPORT_PERFETTO },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t number;
	int option;

	while ((option = getopt_long(argc, argv, "s:p:f:c:g:n:wh", options, NULL)) != -1) {
		switch (option) {
		case 's':
			request->name = optarg;
			break;
		case 'p':
			if (text_parse_u64(optarg, 10, INT32_MAX, &number) != 0 || number == 0)
				return complain("-p takes the id of a process, not", optarg) + 1;
			request->pid = (int32_t)number;
			break;
		case 'f':
			request->file = optarg;
			break;
		case 'c':
			if (parse_cores(request, optarg) != 0)
				return complain("-c takes core numbers, not", optarg) + 1;
			break;
		case 'g':
			request->groups = optarg;
			break;
		case 'n':
			request->points = optarg;
			break;
		case 'w':
			request->wall = true;
			break;
		case OPTION_JSON:
			request->json = true;
			break;
		case OPTION_OLDER_THAN:
			if (parse_duration(optarg, &request->older_than_ns) != 0)
				return complain("--older-than takes a time such as 1s or 500ms, not", optarg) + 1;
			break;
		case OPTION_ALL:
			request->all = true;
			break;
		case OPTION_EXPORT ... OPTION_EXPORT + EXPORT_FORMATS - 1:
			request->exports.paths[option - OPTION_EXPORT] = optarg;
			break;
		case 'h':
			fputs(help_text, stdout);
			return EXIT_SUCCESS + 1;
		default:
			fprintf(stderr, "`fathom trace --help` says more\n");
			return EXIT_USAGE + 1;
		}
	}
	return 0;
}

/* Mark what the words of `list` name, which `find` marks in request->point_wanted. */
static int choose_points(struct request *request, const struct reader *reader, const char *list, bool groups)
{
	char *copy = strdup(list), *save = NULL;
	int rc = 0;

	must(copy);
	for (char *word = strtok_r(copy, ",+", &save); word && rc == 0; word = strtok_r(NULL, ",+", &save)) {
		const struct reader_group *group = groups ? reader_group_by_name(reader, word) : NULL;
		const struct reader_point *point = groups ? NULL : reader_point_by_name(reader, word);

		if (!group && !point)
			rc = complain(groups ? "the file knows no group" : "the file knows no event", word);
		for (uint32_t i = 0; i < reader_info(reader)->point_count; i++) {
			const struct reader_point *row = reader_point_at(reader, i);

			if (row == point || (group && row->group == group))
				request->point_wanted[row->id] = true;
		}
	}
	free(copy);
	return rc;
}

static int choose_filters(struct request *request, const struct reader *reader)
{
	int rc = 0;

	if (!request->groups && !request->points)
		return 0;
	request->point_wanted = calloc(UINT16_MAX + 1, sizeof(bool));
	must(request->point_wanted);
	if (request->groups)
		rc = choose_points(request, reader, request->groups, true);
	if (request->points && rc == 0)
		rc = choose_points(request, reader, request->points, false);
	return rc;
}

static int open_file(const struct request *request, struct reader **reader_ret)
{
	char path[PATH_MAX];
	const char *file = request->file;
	struct fault why = { 0 };
	int rc = 0;

	if (!file) {
		rc = reader_find_newest(NULL, request->name, request->pid, path, sizeof(path), &why);
		file = path;
	}
	if (rc == 0)
		rc = reader_open(file, reader_ret, &why);
	if (rc)
		complain(why.text, NULL);
	return rc;
}

/* ---- what it prints ---- */

static bool is_on_wanted_core(const struct request *request, const struct reader_event *event)
{
	return request->any_core || (event->cpu >= 0 && event->cpu < CORES_MAX && request->cores[event->cpu]);
}

static bool is_wanted(const struct request *request, const struct reader_event *event)
{
	if (request->point_wanted && !request->point_wanted[event->point_id])
		return false;
	return is_on_wanted_core(request, event);
}

static int show(struct request *request, struct reader *reader, struct reader_printer *printer)
{
	struct reader_events *events;
	struct reader_counts counts;
	struct reader_event event;
	int rc = choose_filters(request, reader);

	if (rc)
		return rc;
	if (reader_events(reader, &events) != 0)
		return complain("no memory", NULL);
	reader_events_counts(events, &counts);
	reader_print_header(printer, &counts);
	while (reader_event_next(events, &event)) {
		if (is_wanted(request, &event))
			reader_print_event(printer, &event);
	}
	reader_events_counts(events, &counts);
	reader_print_end(printer, &counts);
	reader_events_free(events);
	return EXIT_SUCCESS;
}

static bool is_wanted_by(const void *ctx, const struct reader_event *event)
{
	return is_wanted(ctx, event);
}

static int export_events(struct request *request, struct reader *reader, struct reader_printer *printer)
{
	int rc = choose_filters(request, reader);

	return rc ? rc : trace_export(reader, &request->exports, is_wanted_by, request);
}

/* The kinds of requests whose stages change with chosen events. */
static void want_stages(const struct request *request, const struct reader *reader, struct reader_stages *stages)
{
	reader_stages_want(stages, NULL);
	for (uint32_t i = 0; i < reader_info(reader)->point_count; i++) {
		const struct reader_point *point = reader_point_at(reader, i);

		if (request->point_wanted[point->id] && point->machine && point->object)
			reader_stages_want(stages, point->object);
	}
}

static int stages(struct request *request, struct reader *reader, struct reader_printer *printer)
{
	struct reader_stages *stages;
	struct reader_events *events;
	struct reader_counts counts;
	struct reader_event event;
	int rc = choose_filters(request, reader);

	if (rc)
		return rc;
	if (reader_events(reader, &events) != 0)
		return complain("no memory", NULL);
	if (reader_stages_create(reader, &stages) != 0) {
		reader_events_free(events);
		return complain("no memory", NULL);
	}
	reader_events_counts(events, &counts);
	reader_print_header(printer, &counts);
	if (request->point_wanted)
		want_stages(request, reader, stages);
	while (reader_event_next(events, &event)) {
		if (is_on_wanted_core(request, &event))
			reader_stages_event(stages, &event);
	}
	reader_print_stages(printer, stages);
	reader_stages_free(stages);
	reader_events_free(events);
	return EXIT_SUCCESS;
}

static bool is_stuck(const struct request *request, const struct reader *reader, const struct reader_story *story,
		     uint64_t now)
{
	const struct reader_machine *machine = story->object->machine;

	if (!request->all && machine && story->state < machine->state_count && machine->states[story->state].resting)
		return false;
	return reader_ns_from_ticks(reader, now > story->begin_tick ? now - story->begin_tick : 0) >=
	       request->older_than_ns;
}

/* Pollers and messages that have been running for longer than asked. */
static int stuck_threads(const struct request *request, const struct reader *reader, struct reader_printer *printer,
			 uint64_t now)
{
	int count = 0;

	for (uint32_t i = 0; i < reader_info(reader)->thread_count; i++) {
		struct reader_thread thread;

		if (!reader_thread(reader, i, &thread) || !thread.running[0] || now < thread.running_since ||
		    reader_ns_from_ticks(reader, now - thread.running_since) < request->older_than_ns)
			continue;
		reader_print_thread(printer, &thread, now);
		count++;
	}
	return count;
}

static int stuck(struct request *request, struct reader *reader, struct reader_printer *printer)
{
	struct reader_events *events = NULL;
	struct reader_counts counts;
	struct reader_story story;
	struct reader_walk walk = { 0 };
	uint64_t now = reader_now(reader), under_way = 0;
	char line[128];
	int count = 0;

	if (reader_events(reader, &events) != 0)
		return complain("no memory", NULL);
	reader_events_counts(events, &counts);
	reader_print_header(printer, &counts);
	while (reader_story_next(reader, &walk, &story)) {
		const struct reader_object *related = NULL;
		struct reader_event event;
		uint32_t related_id = 0;

		under_way++;
		if (!is_stuck(request, reader, &story, now))
			continue;
		related = story.parent;
		related_id = story.parent_id;
		/* else events may have said what it belongs to; they are read when the first is needed */
		while (!related && reader_event_next(events, &event))
			;
		if (!related && !reader_related(events, story.object, story.id, &related, &related_id))
			related = NULL;
		reader_print_story(printer, &story, now, related, related_id);
		count++;
	}
	count += stuck_threads(request, reader, printer, now);
	snprintf(line, sizeof(line), "%d stuck, %llu under way", count, (unsigned long long)under_way);
	reader_print_remark(printer, line);
	reader_events_free(events);
	return count ? EXIT_STUCK : EXIT_SUCCESS;
}

static int threads(struct request *request, struct reader *reader, struct reader_printer *printer)
{
	uint64_t now = reader_now(reader);

	reader_print_header(printer, NULL);
	for (uint32_t i = 0; i < reader_info(reader)->thread_count; i++) {
		struct reader_thread thread;

		if (reader_thread(reader, i, &thread))
			reader_print_thread(printer, &thread, now);
	}
	return EXIT_SUCCESS;
}

static const struct {
	const char *name;
	int (*run)(struct request *request, struct reader *reader, struct reader_printer *printer);
} words[] = {
	{ "show", show }, { "stuck", stuck }, { "stages", stages }, { "threads", threads }, { "export", export_events }
};

int cmd_trace(int argc, char **argv)
{
	struct request request = { .older_than_ns = NS_PER_SEC, .any_core = true };
	struct reader_printer *printer = NULL;
	struct reader *reader = NULL;
	size_t word = 0;
	int status = parse_options(argc, argv, &request), rc;

	if (status)
		return status - 1;
	if (argc - optind > 1)
		return complain("one word is enough; this is one too many:", argv[optind + 1]);
	while (argc > optind && word < ARRAY_COUNT(words) && strcmp(argv[optind], words[word].name) != 0)
		word++;
	if (word == ARRAY_COUNT(words))
		return complain("show, stuck, stages, threads or export, not", argv[optind]);
	if (request.file && (request.name || request.pid))
		return complain("-f names the file; -s and -p do so too", NULL);
	if (open_file(&request, &reader) != 0)
		return EXIT_USAGE;
	if (reader_info(reader)->problem)
		fprintf(stderr, "fathom trace: %s: %s\n", reader_info(reader)->path, reader_info(reader)->problem);
	if (reader_printer_create(reader, stdout, request.json ? READER_PRINT_JSON : READER_PRINT_TEXT, request.wall,
				  &printer) != 0)
		status = complain("-w: this file does not say what time of day it was", NULL);
	else
		status = words[word].run(&request, reader, printer);
	rc = reader_printer_destroy(printer);
	if (rc) {
		fprintf(stderr, "fathom trace: cannot write: %s\n", strerror(-rc));
		status = EXIT_USAGE;
	}
	reader_close(reader);
	free(request.point_wanted);
	return status;
}
