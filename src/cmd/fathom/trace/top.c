/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * top - `fathom trace top`: the activity of a running engine, once a second, from the differences of its
 * histograms.
 *
 * `fathom top` (cmd/fathom/top) is a command of its own. It calls a control socket and has a screen: tabs, keys, order and
 * choice of columns. This command reads a trace file, which also works without a control socket. It prints one page and has
 * none of these. Both use base/table.h and cmd/fathom/interrupt.h; a common loop would be longer than the two.
 *
 * An SPDK target has no histograms, so its events are followed. Lost events are reported; the stages are then those of
 * the other requests. The number of ended requests stays exact: the target counts the records of each point.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/table.h"
#include "base/text.h"
#include "cmd/fathom/interrupt.h"
#include "cmd/fathom/trace/trace.h"
#include "inspect/trace/summary.h"

enum { KINDS_MAX = 8, STUCK_SHOWN_MAX = 5, READS_PER_SEC = 50, MIN_AGE_MS = 10 /* as in follow.c */ };

static const struct table_column columns[] = {
	{ "STAGE", TABLE_LEFT, 16 }, { "COUNT", TABLE_RIGHT, 10 }, { "AVG us", TABLE_RIGHT, 10 },
	{ "P50", TABLE_RIGHT, 10 },  { "P99", TABLE_RIGHT, 10 },   { "MAX about", TABLE_RIGHT, 11 },
};
static const struct table_layout layout = { TABLE_COLUMNS(columns), .indent = 2, .gap = 1 };

/* The previous and the current values; each update prints the difference. */
struct top {
	struct trace_request *request;
	struct reader *reader;
	struct reader_printer *printer;
	uint32_t kind_count;
	uint64_t updated_tick;
	struct reader_lives before[KINDS_MAX], now[KINDS_MAX];
	/* of an SPDK target, whose events are followed */
	struct reader_events *events; /* NULL: the file has histograms */
	struct reader_counts lost_before, lost_now;
	uint64_t ended_before[KINDS_MAX], ended_now[KINDS_MAX];
};

static void find_kinds(struct top *top)
{
	for (uint32_t i = 0; i < reader_info(top->reader)->point_count && top->kind_count < KINDS_MAX; i++) {
		const struct reader_object *object = reader_point_at(top->reader, i)->object;
		bool seen = !object || object->story_arg_count == 0 || !object->machine;

		for (uint32_t kind = 0; kind < top->kind_count && !seen; kind++)
			seen = top->now[kind].object == object;
		if (!seen)
			top->now[top->kind_count++].object = object;
	}
}

/* Number of ended lives of this type, by the points' own counts. */
static uint64_t count_ended(const struct top *top, const struct reader_object *object)
{
	uint64_t ended = 0;

	for (uint32_t i = 0; i < reader_info(top->reader)->point_count; i++) {
		const struct reader_point *point = reader_point_at(top->reader, i);

		if (point->object == object && point->machine && point->moves_to == 0)
			ended += reader_point_total(top->reader, point);
	}
	return ended;
}

static uint64_t update_values(struct top *top)
{
	for (uint32_t kind = 0; kind < top->kind_count; kind++) {
		(void)reader_lives(top->reader, top->now[kind].object, READER_ALL_THREADS, &top->now[kind]);
		if (top->events)
			top->ended_now[kind] = count_ended(top, top->now[kind].object);
	}
	if (top->events)
		reader_events_counts(top->events, &top->lost_now);
	return clock_ticks();
}

/* Wait until `until_ns`; meanwhile read the events of a followed target. */
static void wait_until(struct top *top, uint64_t until_ns)
{
	uint64_t min_age_ticks = reader_info(top->reader)->tick_rate / 1000 * MIN_AGE_MS;
	struct reader_event event;

	if (!top->events)
		interrupt_sleep(until_ns);
	while (!interrupt_arrived() && clock_monotonic_ns() < until_ns) {
		interrupt_sleep(clock_monotonic_ns() + NS_PER_SEC / READS_PER_SEC);
		reader_events_more(top->events, clock_ticks() - min_age_ticks);
		while (!interrupt_arrived() && reader_event_next(top->events, &event))
			reader_lives_event(top->reader, &event);
	}
}

static void print_stage(struct top *top, const char *object, const char *stage, const struct reader_dwell_sums *sums)
{
	double scale = 1e6 / (double)reader_info(top->reader)->tick_rate;
	double average = (double)sums->ticks / (double)sums->count * scale,
	       p50 = reader_dwell_percentile(sums, 50000) * scale, p99 = reader_dwell_percentile(sums, 99000) * scale;
	struct table_line line;
	char json[256];

	if (top->request->json) {
		snprintf(json, sizeof(json),
			 "{\"object_type\":\"%.40s\",\"stage\":%s%.40s%s,\"count\":%llu,\"avg_us\":%.3f,\"p50_us\":%.3f,"
			 "\"p99_us\":%.3f}",
			 object, stage ? "\"" : "", stage ? stage : "null", stage ? "\"" : "",
			 (unsigned long long)sums->count, average, p50, p99);
		reader_print_raw(top->printer, json);
		return;
	}
	table_line_begin(&line, &layout);
	table_cell(&line, "%.40s", stage ? stage : "whole life");
	table_cell(&line, "%" PRIu64, sums->count);
	table_cell(&line, "%.1f", average);
	table_cell(&line, "%.1f", p50);
	table_cell(&line, "%.1f", p99);
	table_cell(&line, "%.1f", (double)sums->ticks_max * scale);
	reader_print_raw(top->printer, table_line_text(&line));
}

/* Print the number that ended and, for an engine, that failed; SPDK's points do not record failures. */
static void print_rate(struct top *top, uint32_t kind, uint64_t ended, double seconds)
{
	const struct reader_lives *now = &top->now[kind], *before = &top->before[kind];
	double rate = (double)ended / seconds;
	char line[256], failed[64] = "";
	struct table_line titles;

	if (!top->events)
		snprintf(failed, sizeof(failed), top->request->json ? ",\"failed\":%" PRIu64 : ", %" PRIu64 " failed",
			 now->failed - before->failed);
	if (top->request->json)
		snprintf(line, sizeof(line),
			 "{\"object_type\":\"%.40s\",\"ended\":%llu,\"per_second\":%.1f%s,\"seconds\":%.6f}",
			 now->object->name, (unsigned long long)ended, rate, failed, seconds);
	else
		snprintf(line, sizeof(line), "\n%s: %.0f a second%s", now->object->name, rate, failed);
	reader_print_raw(top->printer, line);
	reader_print_line(top->printer, table_line_titles(&titles, &layout));
}

static void print_object_kind(struct top *top, uint32_t kind, double seconds)
{
	const struct reader_lives *now = &top->now[kind], *before = &top->before[kind];
	const struct reader_machine *machine = now->object->machine;
	struct reader_dwell_sums sums;
	uint64_t ended;

	reader_dwell_difference(&now->stages[0], &before->stages[0], &sums);
	ended = top->events ? top->ended_now[kind] - top->ended_before[kind] : sums.count;
	/* most types of an SPDK target's objects do not occur */
	if (top->events && top->ended_now[kind] == 0)
		return;
	print_rate(top, kind, ended, seconds);
	if (sums.count == 0)
		return;
	print_stage(top, now->object->name, NULL, &sums);
	for (uint32_t state = 1; state < machine->state_count && state < TRACE_STORY_STATES_MAX; state++) {
		reader_dwell_difference(&now->stages[state], &before->stages[state], &sums);
		if (sums.count)
			print_stage(top, now->object->name, machine->states[state].name, &sums);
	}
}

static void print_stuck(struct top *top, uint64_t now)
{
	struct reader_walk walk = { 0 };
	struct reader_story story;
	char line[128];
	int count = 0;

	while (reader_story_next(top->reader, &walk, &story)) {
		if (!trace_is_stuck(top->request, top->reader, &story, now))
			continue;
		if (count++ == 0)
			reader_print_line(top->printer, "\nUNDER WAY FOR LONG");
		if (count <= STUCK_SHOWN_MAX || top->request->json)
			reader_print_story(top->printer, &story, now, story.parent, story.parent_id);
	}
	if (count > STUCK_SHOWN_MAX) {
		snprintf(line, sizeof(line), "and %d more: `fathom trace stuck`", count - STUCK_SHOWN_MAX);
		reader_print_line(top->printer, line);
	}
}

/* Report lost events of an SPDK target, and its requests that have been in progress for long. */
static void print_unseen(struct top *top, uint64_t now)
{
	uint64_t lost = top->lost_now.overwritten - top->lost_before.overwritten,
		 recorded = top->lost_now.recorded - top->lost_before.recorded,
		 ticks = (uint64_t)((double)trace_older_than_ns(top->request, top->reader) / 1e9 *
				    (double)reader_info(top->reader)->tick_rate),
		 waiting = reader_lives_waiting(top->reader, now - min_u64(now, ticks));
	char line[256];

	if (lost) {
		snprintf(line, sizeof(line),
			 "%.1f %% of the records were overwritten before they were read: the stages are of the rest",
			 100 * (double)lost / (double)max_u64(recorded, lost));
		reader_print_remark(top->printer, line);
	}
	/* after a loss, the ends of these requests may be missing */
	if (waiting && !top->lost_now.overwritten) {
		snprintf(line, sizeof(line), "%llu under way for long: `fathom trace stuck` shows them",
			 (unsigned long long)waiting);
		reader_print_remark(top->printer, line);
	}
}

static void print_activity(struct top *top, bool terminal)
{
	uint64_t now;
	double seconds;

	memcpy(top->before, top->now, sizeof(top->before));
	memcpy(top->ended_before, top->ended_now, sizeof(top->ended_before));
	top->lost_before = top->lost_now;
	now = update_values(top);
	seconds = (double)(now - top->updated_tick) / (double)reader_info(top->reader)->tick_rate;
	top->updated_tick = now;
	if (terminal)
		reader_print_raw(top->printer, "\033[H\033[J");
	reader_print_header(top->printer, NULL);
	for (uint32_t kind = 0; kind < top->kind_count; kind++)
		print_object_kind(top, kind, seconds);
	reader_print_line(top->printer, "\nTHREADS");
	for (uint32_t i = 0; i < reader_info(top->reader)->thread_count; i++) {
		struct reader_thread thread;

		if (reader_thread(top->reader, i, &thread) && thread.state == TRACE_THREAD_LIVE)
			reader_print_thread(top->printer, &thread, now);
	}
	if (top->events)
		print_unseen(top, now);
	else
		print_stuck(top, now);
	reader_print_line(top->printer, "");
}

int trace_top(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	static struct top top;
	uint64_t count = UINT64_MAX;

	top = (struct top){ .request = request, .reader = reader, .printer = printer };
	if (request->points && (text_parse_u64(request->points, 10, UINT32_MAX, &count) != 0 || count == 0))
		return trace_complain("-n takes a number of seconds, not", request->points);
	if (!reader_is_alive(reader))
		return trace_complain("the program has ended; `fathom trace summary` shows what it did", NULL);
	if (!reader_has_lives(reader) &&
	    (reader_lives_from_rings(reader) != 0 || reader_events_follow(reader, &top.events) != 0))
		return trace_complain("out of memory", NULL);
	interrupt_catch();
	find_kinds(&top);
	top.updated_tick = update_values(&top);
	for (uint64_t i = 0; i < count && !interrupt_arrived() && reader_is_alive(reader); i++) {
		wait_until(&top, clock_monotonic_ns() + NS_PER_SEC);
		if (interrupt_arrived())
			break;
		print_activity(&top, !request->json && isatty(STDOUT_FILENO));
		if (reader_printer_flush(printer) != 0)
			break;
	}
	reader_events_free(top.events);
	return EXIT_SUCCESS;
}
