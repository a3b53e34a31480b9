/* SPDX-License-Identifier: BSD-2-Clause */
/* print_summary - prints histograms of stages and counts of events, as tables or JSON. */
#include <ctype.h>
#include <inttypes.h>

#include "inspect/trace/print.h"
#include "inspect/trace/summary.h"

enum { STAGE_WIDTH = 16, NAME_WIDTH = 48 };

static const struct {
	const char *key;
	uint32_t per_100000;
} percentiles[] = { { "p50_us", 50000 }, { "p90_us", 90000 }, { "p99_us", 99000 }, { "p99_9_us", 99900 } };

static double us_of(const struct reader_printer *printer, double ticks)
{
	return ticks * 1e6 / (double)printer->reader->scale.rate;
}

/* Print a row. `state` NULL: the whole life. */
static void print_row(struct reader_printer *printer, const struct reader_lives *lives, const struct reader_state *state,
		      const struct reader_dwell_sums *sums, double whole)
{
	double share = whole > 0 ? (double)sums->ticks / whole : 0, slow_us = us_of(printer, (double)sums->slow_ticks);
	bool resting = state && state->resting;

	if (sums->count == 0)
		return;
	if (printer->json) {
		add_format(printer, "{\"object_type\":\"%s\",\"stage\":", lives->object->name);
		if (state)
			add_format(printer, "\"%s\"", state->name);
		else
			ADD_LITERAL(printer, "null");
		add_format(printer, ",\"count\":%" PRIu64 ",\"avg_us\":%.3f", sums->count,
			   us_of(printer, (double)sums->ticks) / (double)sums->count);
		for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
			add_format(printer, ",\"%s\":%.3f", percentiles[i].key,
				   us_of(printer, reader_dwell_percentile(sums, percentiles[i].per_100000)));
		add_format(printer, ",\"max_us\":%.3f,\"slow_us\":%.3f", us_of(printer, (double)sums->ticks_max), slow_us);
		if (resting)
			ADD_LITERAL(printer, ",\"resting\":true}");
		else
			add_format(printer, ",\"share\":%.6f}", share);
		end_line(printer);
		return;
	}
	add_format(printer, "  %-*s %10" PRIu64 " %10.1f", STAGE_WIDTH, state ? state->name : "whole life", sums->count,
		   us_of(printer, (double)sums->ticks) / (double)sums->count);
	for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
		add_format(printer, " %9.1f", us_of(printer, reader_dwell_percentile(sums, percentiles[i].per_100000)));
	add_format(printer, " %11.1f", us_of(printer, (double)sums->ticks_max));
	if (resting)
		ADD_LITERAL(printer, "       -");
	else
		add_format(printer, "  %4.1f %%", 100 * share);
	add_format(printer, " %9.1f", slow_us);
	if (state && state->text[0])
		add_format(printer, "  %s", state->text);
	end_line(printer);
}

/* The time in all states but resting ones, where waiting is normal. */
static double spent_ticks(const struct reader_lives *lives)
{
	const struct reader_machine *machine = lives->object->machine;
	double ticks = 0;

	for (uint32_t state = 1; state < machine->state_count && state < TRACE_STORY_STATES_MAX; state++)
		ticks += machine->states[state].resting ? 0 : (double)lives->stages[state].ticks;
	return ticks;
}

void reader_print_lives(struct reader_printer *printer, const struct reader_lives *lives, double seconds)
{
	const struct reader_machine *machine = lives->object->machine;
	uint64_t count = lives->stages[0].count;
	double whole = spent_ticks(lives), per_second = seconds > 0 ? (double)count / seconds : 0;

	if (!printer->json) {
		end_line(printer);
		add_format(printer,
			   "%s: %" PRIu64 " ended, %.0f a second on average; %" PRIu64 " failed; %" PRIu64 " kept whole",
			   lives->object->name, count, per_second, lives->failed, lives->kept);
		end_line(printer);
		add_format(printer, "  %-*s %10s %10s %9s %9s %9s %9s %11s %7s %9s", STAGE_WIDTH, "STAGE", "COUNT",
			   "AVG us", "P50", "P90", "P99", "P99.9", "MAX", "SHARE", "SLOW >=");
		end_line(printer);
	}
	for (uint32_t state = 1; state < machine->state_count && state < TRACE_STORY_STATES_MAX; state++)
		print_row(printer, lives, &machine->states[state], &lives->stages[state], whole);
	print_row(printer, lives, NULL, &lives->stages[0], whole);
	if (printer->json) {
		add_format(printer,
			   "{\"object_type\":\"%s\",\"ended\":%" PRIu64 ",\"per_second\":%.3f,\"failed\":%" PRIu64
			   ",\"kept\":%" PRIu64 "}",
			   lives->object->name, count, per_second, lives->failed, lives->kept);
		end_line(printer);
	}
}

void reader_print_point_counts(struct reader_printer *printer, const struct reader_point_counts *counts)
{
	const struct schema *schema = &printer->reader->schema;
	int width = 0;

	for (uint32_t i = 0; i < schema->point_count; i++) {
		if (counts->counts[schema->points[i].id])
			width = (int)max_u64((uint64_t)width, min_u64(strlen(schema->points[i].name), NAME_WIDTH));
	}
	if (!printer->json) {
		add_format(printer, "  %-*s  %-12s %12s %14s", width, "EVENT", "GROUP", "IN THE RINGS", "A SECOND");
		end_line(printer);
	}
	for (uint32_t i = 0; i < schema->point_count; i++) {
		const struct reader_point *point = &schema->points[i];
		char name[256];

		if (counts->counts[point->id] == 0)
			continue;
		copy_printable(name, sizeof(name), point->name, strlen(point->name));
		for (char *at = name; *at && !printer->json; at++)
			*at = (char)toupper((unsigned char)*at);
		if (printer->json)
			add_format(printer, "{\"name\":\"%s\",\"group\":\"%s\",\"count\":%" PRIu64 ",\"per_second\":%.3f}",
				   name, point->group->name, counts->counts[point->id], counts->per_second[point->id]);
		else
			add_format(printer, "  %-*s  %-12s %12" PRIu64 " %14.1f", width, name, point->group->name,
				   counts->counts[point->id], counts->per_second[point->id]);
		end_line(printer);
	}
}

void reader_print_raw(struct reader_printer *printer, const char *line)
{
	add_text(printer, line);
	end_line(printer);
}

void reader_print_line(struct reader_printer *printer, const char *line)
{
	if (!printer->json)
		reader_print_raw(printer, line);
}
