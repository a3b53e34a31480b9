/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trigger - `fathom trace trigger`: writes a file of the events around the moment at which an expression is true.
 *
 * A window keeps the latest records of the engine, and the expression is evaluated for each new event. When it is true, a
 * shot begins: recording continues for the time of --after, then the file is written. Further matches in that time belong
 * to the same file.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/interrupt.h"
#include "cmd/fathom/trace/trace.h"
#include "inspect/record/window.h"
#include "inspect/trace/slowest.h"

enum {
	/* A thread publishes its events at the end of a turn. The file is written so long after the shot's end. */
	PUBLISH_MS = 20,
	NAMES_TRIED_MAX = 10000,
	FORGET_EVERY_MS = 100,
};

struct trigger_options {
	const char *output, *where;
	struct trace_choices choices;
	bool json, compress, force, on_crash, wall;
	uint64_t before_ns, after_ns, time_ns, times, buffer_bytes;
};

/* A match, from its event until its file is written. */
struct shot {
	uint64_t tick;	   /* 0: no shot */
	bool ended;	   /* triggered by the end of the program, not by an event */
	uint64_t deadline; /* tick at which its recording ends */
	uint64_t matches;
	struct reader_event event; /* the first match */
};

struct trigger {
	const struct trigger_options *options;
	struct reader *reader;
	struct reader_printer *printer;
	struct reader_filter *filter; /* NULL: no expression */
	struct reader_events *events;
	struct window *window;
	struct shot shot;
	uint64_t files, lost;
};

#define AT(member) .offset = offsetof(struct trigger_options, member)

static const struct option_row rows[] = {
	{ "before", 0, OPTION_DURATION, "TIME",
	  "time to record before the match (10s); less if the command or the rings do not reach so far back",
	  AT(before_ns) },
	{ "after", 0, OPTION_DURATION, "TIME",
	  "time to record after the match (5s); further matches in that time belong to the same file", AT(after_ns) },
	{ NULL, 'o', OPTION_TEXT, "FILE",
	  "file to write, the next ones are FILE.1, FILE.2 ...; or a directory. Default: NAME_trace.pidPID.trigger1 in "
	  "the working directory, with the first free number",
	  AT(output), .values = OPTION_FILES },
	{ NULL, 'z', OPTION_FLAG, NULL, "compress it (zstd, FILE.zst)", AT(compress) },
	{ "times", 0, OPTION_NUMBER, "N", "number of files (1); 0: until Ctrl-C or the engine's end", AT(times),
	  OPTION_RANGE(0, UINT32_MAX) },
	{ "buffer", 0, OPTION_SIZE, "SIZE", "memory for records that may be needed later (256M); a record takes 32 bytes",
	  AT(buffer_bytes) },
	{ "time", 0, OPTION_DURATION, "TIME", "end after this time, such as 10s, 5m, 1h", AT(time_ns) },
	{ "force", 0, OPTION_FLAG, NULL, "overwrite an existing file", AT(force) },
	{ "on-crash", 0, OPTION_FLAG, NULL, "also write a file if the engine ends without reporting its end",
	  AT(on_crash) },
	{ NULL, 'w', OPTION_FLAG, NULL, "print times of day instead of microseconds since the engine's start", AT(wall) },
	{ "json", 0, OPTION_FLAG, NULL, "print JSON objects: each event that matched, then its file", AT(json) },
	OPTION_HELP_ROW,
	{ .type = OPTION_HEADING, .help = "Which engine; without these the newest:" },
	TRACE_CHOICE_ROWS(struct trigger_options),
};

const struct option_table trace_trigger_table = {
	.name = "fathom trace trigger",
	.usage = "fathom trace trigger EXPRESSION [--before TIME] [--after TIME] [-o FILE] [-z] [--times N] [--buffer "
		 "SIZE]\n"
		 "                     [--time TIME] [--on-crash] [--force] [-s NAME] [-p PID] [-f FILE] [-w] [--json]\n"
		 "fathom trace trigger --on-crash ...",
	.about = "Watch a running engine until EXPRESSION is true for an event, and write the events around that moment to "
		 "a file. All commands of `fathom trace` read the file, with -f FILE. EXPRESSION is as for --where; mostly "
		 "it begins with the name of an event:\n"
		 "\n"
		 "  fathom trace trigger 'bdev.io_done latency_us > 5000' --before 10s --after 5s\n"
		 "  fathom trace trigger 'bdev.io_done status != SUCCESS and device == Malloc0'",
	OPTION_ROWS(rows),
	.more = "Exit status: 0: a file was written; 1: the expression was never true, or records were lost; 2: an error.",
};

/* OPTIONS_RUN, or the exit status. */
static int parse_command_line(int argc, char **argv, struct trigger_options *options)
{
	int at, status = options_parse(&trace_trigger_table, argc, argv, options, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (argc - at > 2)
		return options_reject(&trace_trigger_table, "unexpected argument \"%s\" (put the expression in quotes)",
				      argv[at + 2]);
	options->where = argc - at == 2 ? argv[at + 1] : NULL;
	if (!options->where && !options->on_crash)
		return options_reject(&trace_trigger_table,
				      "the expression is missing: fathom trace trigger 'bdev.io_done latency_us > 5000'");
	return OPTIONS_RUN;
}

/* ---- the file ---- */

/*
 * "FILE", then "FILE.1" ...; in a directory NAME_trace.pidPID.triggerN, the first free name. Errors: -ENAMETOOLONG,
 * -EEXIST.
 */
static int choose_trigger_path(const struct trigger *trigger, char *path)
{
	const struct reader_info *info = reader_info(trigger->reader);
	const char *output = trigger->options->output, *suffix = trigger->options->compress ? ".zst" : "";
	struct stat st;
	int length;

	if (output && (stat(output, &st) != 0 || !S_ISDIR(st.st_mode))) {
		length = trigger->files ? snprintf(path, PATH_MAX, "%s.%" PRIu64 "%s", output, trigger->files, suffix)
					: snprintf(path, PATH_MAX, "%s%s", output, suffix);
		return length < PATH_MAX ? 0 : -ENAMETOOLONG;
	}
	for (int number = 1; number < NAMES_TRIED_MAX; number++) {
		length = snprintf(path, PATH_MAX, "%s/%s_trace.pid%d.trigger%d%s", output ? output : ".", info->name,
				  info->pid, number, suffix);
		if (length >= PATH_MAX)
			return -ENAMETOOLONG;
		if (lstat(path, &st) != 0)
			return 0;
	}
	return -EEXIST;
}

static uint64_t ticks_from_ns(const struct trigger *trigger, uint64_t ns)
{
	return (uint64_t)((unsigned __int128)ns * reader_info(trigger->reader)->tick_rate / NS_PER_SEC);
}

static uint64_t ns_between(const struct trigger *trigger, uint64_t from, uint64_t to)
{
	return to > from ? reader_ns_from_ticks(trigger->reader, to - from) : 0;
}

static void report_trigger_file(const struct trigger *trigger, const char *path, const struct trace_frozen *frozen,
				const struct window_state *state, const struct window_result *result)
{
	const struct shot *shot = &trigger->shot;
	double before = (double)ns_between(trigger, max_u64(frozen->from_tick, state->since), frozen->tick) / NS_PER_SEC;
	double after = (double)ns_between(trigger, frozen->tick, frozen->to_tick) / NS_PER_SEC;
	bool reaches = state->since <= frozen->from_tick;

	if (trigger->options->json) {
		char *file = trace_json_string(path);

		printf("{\"trigger\":{\"file\":%s,\"why\":\"%s\",\"tick\":%" PRIu64 ",\"held\":%" PRIu64
		       ",\"before_s\":%.6f,\"after_s\":%.6f,\"complete\":%s,\"buffer_too_small\":%s,\"records\":%" PRIu64
		       ",\"lost\":%" PRIu64 "}}\n",
		       file, shot->ended ? "ended" : "event", frozen->tick, shot->matches, before, after,
		       reaches ? "true" : "false", !reaches && state->is_size_limited ? "true" : "false", result->records,
		       result->lost);
		free(file);
		return;
	}
	printf("%s: %" PRIu64 " records, from %.3f s before to %.3f s after it", path, result->records, before, after);
	if (shot->matches > 1)
		printf("; the expression was true %" PRIu64 " times", shot->matches);
	if (result->lost)
		printf("; %" PRIu64 " records are lost: they were overwritten before they were read", result->lost);
	putchar('\n');
	if (after + 0.01 < (double)trigger->options->after_ns / NS_PER_SEC)
		printf("# it ends before the time of --after: %s\n", state->is_size_limited
									     ? "the buffer was full; see --buffer"
									     : "the command or the engine was ended");
	if (!reaches)
		printf("# it begins after the time of --before: %s\n",
		       state->is_size_limited ? "the buffer was full; see --buffer"
					      : "the command was not running yet, and the rings no longer had the events");
}

static int write_file(struct trigger *trigger, struct fathom_fault *why)
{
	const struct trigger_options *options = trigger->options;
	struct shot *shot = &trigger->shot;
	uint64_t now = clock_ticks(), before = ticks_from_ns(trigger, options->before_ns);
	struct trace_frozen frozen = { .tick = shot->tick,
				       .why = shot->ended ? TRACE_FROZEN_ENDED : TRACE_FROZEN_TRIGGER,
				       .from_tick = shot->tick > before ? shot->tick - before : 1,
				       .to_tick = min_u64(shot->deadline, now) };
	struct window_result result;
	struct window_state state;
	char path[PATH_MAX];
	int rc = choose_trigger_path(trigger, path);

	if (rc)
		return fault(why, rc, "cannot find a name for the file: %s", strerror(-rc));
	frozen.realtime_ns = clock_realtime_ns() - ns_between(trigger, shot->tick, now);
	(void)text_copy(frozen.text, sizeof(frozen.text), options->where ? options->where : "");
	window_state(trigger->window, &state);
	rc = window_freeze(trigger->window, &frozen,
			   &(struct window_output){ .path = path, .compress = options->compress, .force = options->force },
			   &result, why);
	if (rc)
		return rc;
	if (!shot->ended) {
		reader_print_event(trigger->printer, &shot->event);
		rc = reader_printer_flush(trigger->printer);
		if (rc)
			return fault(why, rc, "cannot write: %s", strerror(-rc));
	}
	report_trigger_file(trigger, path, &frozen, &state, &result);
	fflush(stdout);
	trigger->files++;
	trigger->lost += result.lost;
	*shot = (struct shot){ 0 };
	window_keep(trigger->window, 0);
	return 0;
}

/* ---- watching events ---- */

static void begin_shot(struct trigger *trigger, const struct reader_event *event)
{
	struct shot *shot = &trigger->shot;

	if (shot->tick == 0) {
		shot->tick = event->tick;
		shot->event = *event;
		shot->deadline = shot->tick + ticks_from_ns(trigger, trigger->options->after_ns);
		window_keep(trigger->window, shot->tick);
	}
	if (event->tick <= shot->deadline)
		shot->matches++;
}

/* Evaluate the expression for the new events of the window. */
static void evaluate_events(struct trigger *trigger)
{
	struct reader_event event;

	reader_events_more(trigger->events, UINT64_MAX);
	while (reader_event_next(trigger->events, &event)) {
		if (trigger->filter && reader_filter_event(trigger->filter, &event))
			begin_shot(trigger, &event);
	}
}

static bool is_done(const struct trigger *trigger)
{
	return trigger->options->times && trigger->files == trigger->options->times;
}

/*
 * A full buffer discards its oldest events. True: it is full, and less time is left before the match than after it. Then
 * the file is written at once.
 */
static bool is_room_ending(const struct trigger *trigger, uint64_t now)
{
	uint64_t tick = trigger->shot.tick;
	struct window_state state;

	window_state(trigger->window, &state);
	return state.is_size_limited && state.since > tick - min_u64(tick, now - min_u64(tick, now));
}

/* Write the file if the shot has ended, or the buffer is full. `last`: no more events will come. */
static int finish_shot(struct trigger *trigger, bool last, struct fathom_fault *why)
{
	uint64_t ready = trigger->shot.deadline + ticks_from_ns(trigger, PUBLISH_MS * NS_PER_MS), now = clock_ticks();

	return trigger->shot.tick && (last || now > ready || is_room_ending(trigger, now)) ? write_file(trigger, why) : 0;
}

/* The engine has ended, and all its events have been evaluated. */
static int end_trigger(struct trigger *trigger, struct fathom_fault *why)
{
	struct window_state state;
	int rc = finish_shot(trigger, true, why);

	window_state(trigger->window, &state);
	if (rc || is_done(trigger) || !trigger->options->on_crash || state.ended_normally)
		return rc;
	trigger->shot = (struct shot){ .tick = clock_ticks(), .ended = true };
	trigger->shot.deadline = trigger->shot.tick;
	return write_file(trigger, why);
}

static int forget_old_records(struct trigger *trigger, struct fathom_fault *why)
{
	uint64_t before = ticks_from_ns(trigger, trigger->options->before_ns) + ticks_from_ns(trigger, NS_PER_SEC);
	uint64_t moment = trigger->shot.tick ? trigger->shot.tick : clock_ticks();

	return moment > before ? window_forget(trigger->window, moment - before, why) : 0;
}

static int watch_events(struct trigger *trigger, struct fathom_fault *why)
{
	uint64_t began = clock_monotonic_ns(), forgot = began, now = began, sleep_ns = 0;
	enum window_progress news = WINDOW_MORE;
	int rc = 0;

	while (rc == 0 && !is_done(trigger)) {
		rc = window_step(trigger->window, &news, &sleep_ns, why);
		if (rc)
			break;
		evaluate_events(trigger);
		if (news == WINDOW_GAP)
			reader_events_forget_lives(trigger->events);
		now = clock_monotonic_ns();
		if (news == WINDOW_END)
			return end_trigger(trigger, why);
		if (interrupt_arrived() || (trigger->options->time_ns && now - began >= trigger->options->time_ns))
			return finish_shot(trigger, true, why);
		rc = finish_shot(trigger, news == WINDOW_FULL, why);
		if (rc == 0 && now - forgot > FORGET_EVERY_MS * NS_PER_MS) {
			rc = forget_old_records(trigger, why);
			forgot = now;
		}
		if (rc == 0 && news == WINDOW_IDLE && sleep_ns)
			interrupt_sleep(clock_monotonic_ns() + sleep_ns);
	}
	return rc;
}

/* ---- open and run ---- */

static int open_trigger(struct trigger *trigger, const char *path, struct fathom_fault *why)
{
	const struct trigger_options *options = trigger->options;
	const struct reader_filter_spec spec = { .where = options->where };
	struct reader_rings rings;
	int rc = reader_open(path, &trigger->reader, why);

	if (rc)
		return rc;
	if (reader_info(trigger->reader)->spdk)
		return fault(why, -EINVAL, "%s belongs to an SPDK target; trigger watches only engines of Fathom", path);
	if (!reader_is_alive(trigger->reader))
		return fault(why, -ESRCH, "%s: the program has ended, so no more events can be watched", path);
	if (spec.where)
		rc = reader_filter_create(trigger->reader, &spec, &trigger->filter, why);
	if (rc == 0 && reader_printer_create(trigger->reader, stdout, options->json ? READER_PRINT_JSON : READER_PRINT_TEXT,
					     options->wall, &trigger->printer) != 0)
		rc = fault(why, -ENODATA, "-w: this file does not contain the time of day");
	if (rc == 0)
		rc = window_open(path, options->buffer_bytes, &trigger->window, why);
	if (rc)
		return rc;
	reader_printer_set_words(trigger->printer, trace_opcode_word);
	rings = (struct reader_rings){ .fd = window_fd(trigger->window),
				       .count = window_ring_count(trigger->window),
				       .rings = window_rings(trigger->window),
				       .records_offset = window_records_offsets(trigger->window) };
	return reader_events_follow_rings(trigger->reader, &rings, &trigger->events) == 0
		       ? 0
		       : fault(why, -ENOMEM, "out of memory");
}

/* Keep the events that the rings already hold, but do not evaluate them: they happened before the command started. */
static int read_existing_records(struct trigger *trigger, struct fathom_fault *why)
{
	enum window_progress news = WINDOW_MORE;
	uint64_t sleep_ns;
	int rc = 0;

	while (rc == 0 && (news == WINDOW_MORE || news == WINDOW_GAP)) {
		struct reader_event event;

		rc = window_step(trigger->window, &news, &sleep_ns, why);
		reader_events_more(trigger->events, UINT64_MAX);
		while (rc == 0 && reader_event_next(trigger->events, &event))
			; /* reading tells the reader when the lives of objects began */
		if (news == WINDOW_GAP)
			reader_events_forget_lives(trigger->events);
	}
	return rc;
}

static int run_trigger(const struct trigger_options *options, const char *path)
{
	struct trigger trigger = { .options = options };
	struct fathom_fault why = { 0 };
	int rc = open_trigger(&trigger, path, &why), status;

	if (rc == 0) {
		interrupt_catch();
		rc = read_existing_records(&trigger, &why);
	}
	if (rc == 0) {
		fprintf(stderr, "watching %s\n", path);
		rc = watch_events(&trigger, &why);
	}
	if (rc)
		status = trace_complain(why.text, NULL);
	else
		status = trigger.files && !trigger.lost ? EXIT_SUCCESS : EXIT_FAILURE;
	if (rc == 0 && !trigger.files && !options->json)
		fprintf(stderr, "the expression was never true\n");
	reader_events_free(trigger.events);
	reader_filter_destroy(trigger.filter);
	(void)reader_printer_destroy(trigger.printer); /* it was flushed before, and the result was checked */
	window_close(trigger.window);
	reader_close(trigger.reader);
	return status;
}

int trace_trigger(int argc, char **argv)
{
	struct trigger_options options = {
		.before_ns = 10 * NS_PER_SEC, .after_ns = 5 * NS_PER_SEC, .times = 1, .buffer_bytes = 256 << 20
	};
	char path[PATH_MAX];
	int rc = parse_command_line(argc, argv, &options);

	if (rc != OPTIONS_RUN)
		return rc;
	rc = trace_choice_only_path(&options.choices, "trigger", path);
	return rc ? rc : run_trigger(&options, path);
}
