/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare - `fathom trace compare A B`: what got slower from one file to the other, stage by stage.
 *
 * A file's histograms include all lives since its program started. Only the span of each file is compared: for a
 * recording, the lives in its rings without those of an earlier recording of the process; for the later of two files of
 * one process, the lives that ended after the earlier file was made. For files without histograms, such as SPDK's, the
 * lives in their rings are compared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/table.h"
#include "cmd/fathom/trace/trace.h"
#include "inspect/trace/summary.h"

enum { EXIT_SLOWER = 1, COUNT_MIN = 10 /* fewer lives are not significant */ };

/* Smaller differences are ignored: they are within a bucket's width and the time of a clock read. */
static const double us_min = 0.1;

static const struct {
	const char *name, *key;
} measures[] = { { "avg", "avg_us" }, { "p50", "p50_us" }, { "p99", "p99_us" } };

enum { MEASURES = 3 };

/* The files A (before) and B (after), and the output. Borrowed. */
struct comparison {
	const struct trace_request *request; /* threshold and format */
	struct reader *readers[2];
	struct reader_printer *printer;
};

static const struct table_column columns[] = {
	{ "STAGE", TABLE_LEFT, 16 },   { "AVG A", TABLE_RIGHT, 10 }, { "B", TABLE_RIGHT, 10 },
	{ "CHANGE", TABLE_RIGHT, 11 }, { "P50 A", TABLE_RIGHT, 10 }, { "B", TABLE_RIGHT, 10 },
	{ "CHANGE", TABLE_RIGHT, 11 }, { "P99 A", TABLE_RIGHT, 10 }, { "B", TABLE_RIGHT, 10 },
	{ "CHANGE", TABLE_RIGHT, 11 }, { "", TABLE_LEFT, 0 },
};
static const struct table_layout layout = { TABLE_COLUMNS(columns), .indent = 2, .gap = 1 };
static_assert(ARRAY_COUNT(columns) == 1 + 3 * MEASURES + 1, "the stage, three columns for each measure, \"SLOWER\"");

static void measure_stage(const struct reader *reader, const struct reader_dwell_sums *sums, double *us)
{
	double scale = 1e6 / (double)reader_info(reader)->tick_rate;

	us[0] = sums->count ? (double)sums->ticks / (double)sums->count * scale : 0;
	us[1] = reader_dwell_percentile(sums, 50000) * scale;
	us[2] = reader_dwell_percentile(sums, 99000) * scale;
}

static const struct reader_object *find_same_object(const struct reader *reader, const struct reader_object *object)
{
	for (uint32_t i = 0; i < reader_info(reader)->point_count; i++) {
		const struct reader_object *other = reader_point_at(reader, i)->object;

		if (other && other->machine && strcmp(other->name, object->name) == 0)
			return other;
	}
	return NULL;
}

/*
 * The stage with this name; without a name, the whole life. NULL: the other file has no such stage. Stages are found by
 * name, because versions may number them differently.
 */
static const struct reader_dwell_sums *find_same_stage(const struct reader_lives *lives, const char *name)
{
	const struct reader_machine *machine = lives->object->machine;

	if (!name)
		return &lives->stages[0];
	for (uint32_t state = 1; state < machine->state_count && state < TRACE_STORY_STATES_MAX; state++) {
		if (strcmp(machine->states[state].name, name) == 0)
			return &lives->stages[state];
	}
	return NULL;
}

/* A measure of a stage in both files. */
struct measured {
	double before_us, after_us, change;
	bool from_zero, slower;
};

static void compare_measure(const struct trace_request *request, double before_us, double after_us, struct measured *to)
{
	double more_us = after_us - before_us;

	to->before_us = before_us;
	to->after_us = after_us;
	to->from_zero = before_us < us_min && more_us > us_min;
	to->change = to->from_zero || before_us <= 0 ? 0 : after_us / before_us - 1;
	to->slower = more_us > us_min && (to->from_zero || to->change > request->threshold);
}

static void print_compared_json(struct reader_printer *printer, const char *object, const char *stage,
				const struct measured *all)
{
	char line[512], change[32];
	size_t at = (size_t)snprintf(line, sizeof(line), "{\"object_type\":\"%.40s\",\"stage\":%s%.40s%s", object,
				     stage ? "\"" : "", stage ? stage : "null", stage ? "\"" : "");

	for (int i = 0; i < MEASURES && at < sizeof(line); i++) {
		const struct measured *measured = &all[i];

		snprintf(change, sizeof(change), measured->from_zero ? "null" : "%.4f", measured->change);
		at += (size_t)snprintf(line + at, sizeof(line) - at,
				       ",\"%s\":{\"before\":%.3f,\"after\":%.3f,\"change\":%s,\"slower\":%s}",
				       measures[i].key, measured->before_us, measured->after_us, change,
				       measured->slower ? "true" : "false");
	}
	if (at < sizeof(line))
		snprintf(line + at, sizeof(line) - at, "}");
	reader_print_raw(printer, line);
}

static void print_compared_text(struct reader_printer *printer, const char *stage, const struct measured *all, bool slower)
{
	struct table_line line;

	table_line_begin(&line, &layout);
	table_cell(&line, "%.40s", stage ? stage : "whole life");
	for (int i = 0; i < MEASURES; i++) {
		const struct measured *measured = &all[i];
		const char *mark = measured->slower ? "!" : " ";

		table_cell(&line, "%.1f", measured->before_us);
		table_cell(&line, "%.1f", measured->after_us);
		if (measured->from_zero)
			table_cell(&line, "new%s", mark);
		else
			table_cell(&line, "%+.1f %%%s", 100 * measured->change, mark);
	}
	table_cell(&line, slower ? " SLOWER" : "");
	reader_print_raw(printer, table_line_text(&line));
}

/*
 * Print the line of a stage; `stage` NULL: the whole life. Returns the number of measures that got slower by more than the
 * threshold.
 */
static int compare_stage(const struct comparison *comparison, const char *object, const char *stage,
			 const struct reader_dwell_sums *before, const struct reader_dwell_sums *after)
{
	struct measured all[MEASURES];
	double us[2][MEASURES];
	int slower = 0;

	if (before->count < COUNT_MIN || after->count < COUNT_MIN)
		return 0;
	measure_stage(comparison->readers[0], before, us[0]);
	measure_stage(comparison->readers[1], after, us[1]);
	for (int i = 0; i < MEASURES; i++) {
		compare_measure(comparison->request, us[0][i], us[1][i], &all[i]);
		slower += all[i].slower;
	}
	if (comparison->request->json)
		print_compared_json(comparison->printer, object, stage, all);
	else
		print_compared_text(comparison->printer, stage, all, slower > 0);
	return slower;
}

static int compare_objects(const struct comparison *comparison, const struct reader_lives *before,
			   const struct reader_lives *after)
{
	const struct reader_machine *machine = before->object->machine;
	int slower = 0;
	char line[256];
	struct table_line titles;

	snprintf(line, sizeof(line), "\n%s: %llu and %llu ended; us", before->object->name,
		 (unsigned long long)before->stages[0].count, (unsigned long long)after->stages[0].count);
	reader_print_line(comparison->printer, line);
	reader_print_line(comparison->printer, table_line_titles(&titles, &layout));
	for (uint32_t state = 1; state < machine->state_count && state < TRACE_STORY_STATES_MAX; state++) {
		const char *name = machine->states[state].name;
		const struct reader_dwell_sums *there = find_same_stage(after, name);

		/* resting states do not count: waiting there is normal */
		if (there && !machine->states[state].resting)
			slower += compare_stage(comparison, before->object->name, name, &before->stages[state], there);
	}
	return slower + compare_stage(comparison, before->object->name, NULL, &before->stages[0], &after->stages[0]);
}

/* ---- selecting lives ---- */

static bool is_one_process(struct reader *const readers[2])
{
	const struct reader_info *a = reader_info(readers[0]), *b = reader_info(readers[1]);

	return !a->spdk && !b->spdk && a->pid == b->pid && a->start_tick == b->start_tick && strcmp(a->host, b->host) == 0;
}

/*
 * If both files are recordings of one process: the tick up to which the other, earlier one has the same records. A
 * recording begins with the contents of the rings. 0: there is no such overlap.
 */
static uint64_t last_tick_in_other(struct reader *readers[2], int which)
{
	uint64_t latest = reader_latest_record(readers[!which]);

	if (!is_one_process(readers) || !reader_is_recording(readers[0]) || !reader_is_recording(readers[1]))
		return 0;
	return latest < reader_latest_record(readers[which]) ? latest : 0;
}

/* Read lives that began after `tick`. Errors: -ENOMEM. */
static int read_lives(struct reader *reader, uint64_t tick)
{
	struct reader_events *events;
	struct reader_event event;
	int rc = reader_events(reader, &events);

	if (rc)
		return rc;
	rc = reader_lives_from_events(reader);
	while (rc == 0 && reader_event_next(events, &event)) {
		if (event.tick > tick)
			reader_lives_event(reader, &event);
	}
	reader_events_free(events);
	return rc;
}

/* For two files of one process: reduce the later one's lives to those that ended after the earlier one was made. */
static void subtract_lives(struct reader_lives *earlier, struct reader_lives *later)
{
	static struct reader_lives rest;

	rest = *later;
	for (int stage = 0; stage < TRACE_STORY_STATES_MAX; stage++)
		reader_dwell_difference(&later->stages[stage], &earlier->stages[stage], &rest.stages[stage]);
	/* too few ended in between: compare them unreduced */
	if (rest.stages[0].count >= COUNT_MIN)
		*later = rest;
}

/* The file with the later histograms of the same process; -1: neither. */
static int later_of_one_process(struct reader *const readers[2])
{
	if (!is_one_process(readers) || reader_is_recording(readers[0]) || reader_is_recording(readers[1]))
		return -1;
	return reader_now(readers[1]) >= reader_now(readers[0]);
}

static uint64_t first_event_tick(struct reader *reader)
{
	struct reader_events *events;
	struct reader_event event;
	uint64_t tick = 0;

	if (reader_events(reader, &events) != 0)
		return 0;
	if (reader_event_next(events, &event))
		tick = event.tick;
	reader_events_free(events);
	return tick;
}

/* "A: FILE: from 2.000 s to 12.000 s after the start" */
static void print_span(struct reader_printer *printer, struct reader *readers[2], int which, const char *path)
{
	struct reader *reader = readers[which];
	uint64_t start = reader_info(reader)->start_tick, from = start, to = reader_now(reader);
	int later = later_of_one_process(readers);
	char line[512];

	if (reader_is_recording(reader)) {
		from = max_u64(first_event_tick(reader), last_tick_in_other(readers, which));
		to = reader_latest_record(reader);
	} else if (later == which) {
		from = reader_now(readers[!which]);
	}
	snprintf(line, sizeof(line), "%s: %.380s: from %.3f s to %.3f s after the %s", which ? "B" : "A", path,
		 (double)reader_ns_from_ticks(reader, from - min_u64(from, start)) / NS_PER_SEC,
		 (double)reader_ns_from_ticks(reader, to - min_u64(to, start)) / NS_PER_SEC,
		 reader_info(reader)->spdk ? "oldest event" : "start");
	reader_print_remark(printer, line);
}

static int compare_files(const struct comparison *comparison)
{
	static struct reader_lives lives[2];
	struct reader *const *readers = comparison->readers;
	int slower = 0, compared = 0, later = later_of_one_process(readers);
	char line[128];

	for (uint32_t i = 0; i < reader_info(readers[0])->point_count; i++) {
		const struct reader_object *object = reader_point_at(readers[0], i)->object, *other;
		bool seen = !object || !object->machine;

		for (uint32_t j = 0; j < i && !seen; j++)
			seen = reader_point_at(readers[0], j)->object == object;
		other = seen ? NULL : find_same_object(readers[1], object);
		if (!other || !reader_lives(readers[0], object, READER_ALL_THREADS, &lives[0]) ||
		    !reader_lives(readers[1], other, READER_ALL_THREADS, &lives[1]))
			continue;
		if (later >= 0)
			subtract_lives(&lives[!later], &lives[later]);
		if (lives[0].stages[0].count < COUNT_MIN || lives[1].stages[0].count < COUNT_MIN)
			continue;
		slower += compare_objects(comparison, &lives[0], &lives[1]);
		compared++;
	}
	if (!compared)
		return trace_complain("there is nothing to compare: each file needs 10 ended requests of one kind", NULL);
	snprintf(line, sizeof(line), "%d got slower by more than %g %%", slower, 100 * comparison->request->threshold);
	reader_print_remark(comparison->printer, line);
	return slower ? EXIT_SLOWER : EXIT_SUCCESS;
}

int trace_compare(struct trace_request *request)
{
	struct comparison comparison = { .request = request };
	struct reader **readers = comparison.readers;
	struct fathom_fault why = { 0 };
	int status = EXIT_SUCCESS, rc;

	if (request->arg_count != 2)
		return trace_complain("compare needs two files: `fathom trace compare BEFORE AFTER`", NULL);
	for (int i = 0; i < 2 && status == EXIT_SUCCESS; i++) {
		if (reader_open(request->args[i], &readers[i], &why) != 0)
			status = trace_complain(why.text, NULL);
	}
	for (int i = 0; i < 2 && status == EXIT_SUCCESS; i++) {
		if ((!reader_has_lives(readers[i]) || reader_is_recording(readers[i])) &&
		    read_lives(readers[i], last_tick_in_other(readers, i)) != 0)
			status = trace_complain("out of memory", NULL);
	}
	if (status == EXIT_SUCCESS &&
	    reader_printer_create(readers[0], stdout, request->json ? READER_PRINT_JSON : READER_PRINT_TEXT, false,
				  &comparison.printer) != 0)
		status = trace_complain("out of memory", NULL);
	if (comparison.printer) {
		for (int i = 0; i < 2; i++)
			print_span(comparison.printer, readers, i, request->args[i]);
		status = compare_files(&comparison);
	}
	rc = reader_printer_destroy(comparison.printer);
	if (rc) {
		fprintf(stderr, "fathom trace: cannot write: %s\n", strerror(-rc));
		status = EXIT_USAGE;
	}
	reader_close(readers[0]);
	reader_close(readers[1]);
	return status;
}
