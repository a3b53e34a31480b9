/* SPDX-License-Identifier: BSD-2-Clause */
/* print_summary - prints histograms of stages and counts of events, as tables or JSON. */
#include <ctype.h>
#include <inttypes.h>

#include "base/table.h"
#include "inspect/trace/print.h"
#include "inspect/trace/summary.h"

enum { NAME_WIDTH = 48 };

static const struct table_column life_columns[] = {
	{ "STAGE", TABLE_LEFT, 16 },   { "COUNT", TABLE_RIGHT, 10 }, { "AVG us", TABLE_RIGHT, 10 },
	{ "P50", TABLE_RIGHT, 9 },     { "P90", TABLE_RIGHT, 9 },    { "P99", TABLE_RIGHT, 9 },
	{ "P99.9", TABLE_RIGHT, 9 },   { "MAX", TABLE_RIGHT, 11 },   { "SHARE", TABLE_RIGHT, 7 },
	{ "SLOW >=", TABLE_RIGHT, 9 }, { "", TABLE_LEFT, 0 },
};
static const struct table_layout life_layout = { TABLE_COLUMNS(life_columns), .indent = 2, .gap = 1 };

static const struct {
	const char *key;
	uint32_t per_100000;
} percentiles[] = { { "p50_us", 50000 }, { "p90_us", 90000 }, { "p99_us", 99000 }, { "p99_9_us", 99900 } };

static double summary_us_of(const struct reader_printer *printer, double ticks)
{
	return ticks * 1e6 / (double)printer->reader->scale.rate;
}

/* Print a row. `state` NULL: the whole life. */
static void print_summary_row(struct reader_printer *printer, const struct reader_lives *lives,
			      const struct reader_state *state, const struct reader_dwell_sums *sums, double whole)
{
	double share = whole > 0 ? (double)sums->ticks / whole : 0,
	       slow_us = summary_us_of(printer, (double)sums->slow_ticks);
	bool resting = state && state->resting;
	struct table_line line;

	if (sums->count == 0)
		return;
	if (printer->json) {
		add_format(printer, "{\"object_type\":\"%s\",\"stage\":", lives->object->name);
		if (state)
			add_format(printer, "\"%s\"", state->name);
		else
			ADD_LITERAL(printer, "null");
		add_format(printer, ",\"count\":%" PRIu64 ",\"avg_us\":%.3f", sums->count,
			   summary_us_of(printer, (double)sums->ticks) / (double)sums->count);
		for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
			add_format(printer, ",\"%s\":%.3f", percentiles[i].key,
				   summary_us_of(printer, reader_dwell_percentile(sums, percentiles[i].per_100000)));
		add_format(printer, ",\"max_us\":%.3f,\"slow_us\":%.3f", summary_us_of(printer, (double)sums->ticks_max),
			   slow_us);
		if (resting)
			ADD_LITERAL(printer, ",\"resting\":true}");
		else
			add_format(printer, ",\"share\":%.6f}", share);
		end_line(printer);
		return;
	}
	table_line_begin(&line, &life_layout);
	table_cell(&line, "%s", state ? state->name : "whole life");
	table_cell(&line, "%" PRIu64, sums->count);
	table_cell(&line, "%.1f", summary_us_of(printer, (double)sums->ticks) / (double)sums->count);
	for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
		table_cell(&line, "%.1f", summary_us_of(printer, reader_dwell_percentile(sums, percentiles[i].per_100000)));
	table_cell(&line, "%.1f", summary_us_of(printer, (double)sums->ticks_max));
	if (resting)
		table_cell(&line, "-");
	else
		table_cell(&line, " %4.1f %%", 100 * share);
	table_cell(&line, "%.1f", slow_us);
	table_cell(&line, " %s", state ? state->text : "");
	reader_print_raw(printer, table_line_text(&line));
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
	struct table_line line;

	if (!printer->json) {
		end_line(printer);
		add_format(printer,
			   "%s: %" PRIu64 " ended, %.0f a second on average; %" PRIu64 " failed; %" PRIu64 " kept whole",
			   lives->object->name, count, per_second, lives->failed, lives->kept);
		end_line(printer);
		reader_print_raw(printer, table_line_titles(&line, &life_layout));
	}
	for (uint32_t state = 1; state < machine->state_count && state < TRACE_STORY_STATES_MAX; state++)
		print_summary_row(printer, lives, &machine->states[state], &lives->stages[state], whole);
	print_summary_row(printer, lives, NULL, &lives->stages[0], whole);
	if (printer->json) {
		add_format(printer,
			   "{\"object_type\":\"%s\",\"ended\":%" PRIu64 ",\"per_second\":%.3f,\"failed\":%" PRIu64
			   ",\"kept\":%" PRIu64 "}",
			   lives->object->name, count, per_second, lives->failed, lives->kept);
		end_line(printer);
	}
}

static void print_point_count_json(struct reader_printer *printer, const struct reader_point_counts *counts,
				   const struct reader_point *point)
{
	char name[256];

	copy_printable(name, sizeof(name), point->name, strlen(point->name));
	add_format(printer, "{\"name\":\"%s\",\"group\":\"%s\",\"count\":%" PRIu64 ",\"per_second\":%.3f}", name,
		   point->group->name, counts->counts[point->id], counts->per_second[point->id]);
	end_line(printer);
}

static void print_point_count_text(struct reader_printer *printer, const struct table_layout *layout,
				   const struct reader_point_counts *counts, const struct reader_point *point)
{
	struct table_line line;
	char name[256];

	copy_printable(name, sizeof(name), point->name, strlen(point->name));
	for (char *at = name; *at; at++)
		*at = (char)toupper((unsigned char)*at);
	table_line_begin(&line, layout);
	table_cell(&line, "%s", name);
	table_cell(&line, "%s", point->group->name);
	table_cell(&line, "%" PRIu64, counts->counts[point->id]);
	table_cell(&line, "%.1f", counts->per_second[point->id]);
	reader_print_raw(printer, table_line_text(&line));
}

void reader_print_point_counts(struct reader_printer *printer, const struct reader_point_counts *counts)
{
	const struct schema *schema = &printer->reader->schema;
	struct table_column columns[] = {
		{ "EVENT", TABLE_LEFT, sizeof("EVENT") },
		{ "GROUP", TABLE_LEFT, 12 },
		{ "IN THE RINGS", TABLE_RIGHT, 12 },
		{ "A SECOND", TABLE_RIGHT, 14 },
	};
	const struct table_layout layout = { TABLE_COLUMNS(columns), .indent = 2, .gap = 1 };
	struct table_line titles;

	for (uint32_t i = 0; i < schema->point_count; i++) {
		uint64_t width = min_u64(strlen(schema->points[i].name), NAME_WIDTH) + 1; /* the gap is two blanks here */

		if (counts->counts[schema->points[i].id])
			columns[0].width = (uint8_t)max_u64(columns[0].width, width);
	}
	reader_print_line(printer, table_line_titles(&titles, &layout));
	for (uint32_t i = 0; i < schema->point_count; i++) {
		const struct reader_point *point = &schema->points[i];

		if (counts->counts[point->id] == 0)
			continue;
		if (printer->json)
			print_point_count_json(printer, counts, point);
		else
			print_point_count_text(printer, &layout, counts, point);
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
