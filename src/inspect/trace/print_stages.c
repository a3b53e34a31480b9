/* SPDX-License-Identifier: BSD-2-Clause */
/* print_stages - prints where requests spent their time, as tables or JSON. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/table.h"
#include "inspect/trace/print.h"
#include "inspect/trace/stages.h"
#include "inspect/trace/summary.h"

enum {
	CLASSES_PRINTED_MAX = 4,
	CLASS_PER_CENT_MIN = 2, /* rarer I/O gets no table */
};

static const struct table_column columns[] = {
	{ "STAGE", TABLE_LEFT, 20 }, { "COUNT", TABLE_RIGHT, 9 }, { "AVG us", TABLE_RIGHT, 11 },
	{ "P50", TABLE_RIGHT, 10 },  { "P90", TABLE_RIGHT, 10 },  { "P99", TABLE_RIGHT, 10 },
	{ "MAX", TABLE_RIGHT, 11 },  { "SHARE", TABLE_RIGHT, 7 }, { "", TABLE_LEFT, 0 },
};
static const struct table_layout layout = { TABLE_COLUMNS(columns), .indent = 2, .gap = 1 };

/* What a row describes. */
struct row {
	const struct reader_object *object;
	const struct stage_class *class;   /* NULL: all lives of the object */
	const struct reader_state *within; /* the parent's state, for a child's row; else NULL */
	const char *stage, *text;
	bool resting;
};

static double stage_us_of(const struct reader_printer *printer, double ticks)
{
	return ticks * 1e6 / (double)printer->reader->scale.rate;
}

static double percentile_us(const struct reader_printer *printer, const struct histogram *ticks, uint32_t per_10000)
{
	return stage_us_of(printer, (double)histogram_percentile(ticks, per_10000));
}

static void print_row_text(struct reader_printer *printer, const struct row *row, const struct histogram *ticks,
			   double share)
{
	struct table_line line;

	table_line_begin(&line, &layout);
	table_cell(&line, "%s%s", row->within ? "  " : "", row->stage);
	table_cell(&line, "%" PRIu64, ticks->count);
	table_cell(&line, "%.3f", stage_us_of(printer, (double)ticks->sum / (double)ticks->count));
	table_cell(&line, "%.3f", percentile_us(printer, ticks, 5000));
	table_cell(&line, "%.3f", percentile_us(printer, ticks, 9000));
	table_cell(&line, "%.3f", percentile_us(printer, ticks, 9900));
	table_cell(&line, "%.3f", stage_us_of(printer, (double)ticks->max));
	if (row->resting)
		table_cell(&line, "-");
	else
		table_cell(&line, "%.1f %%", 100 * share);
	table_cell(&line, " %s", row->text);
	reader_print_raw(printer, table_line_text(&line));
}

static void print_row_json(struct reader_printer *printer, const struct row *row, const struct histogram *ticks,
			   double share, bool life)
{
	add_format(printer, "{\"object_type\":\"%s\"", row->object->name);
	if (row->class)
		add_format(printer, ",\"of\":{\"object_type\":\"%s\",\"what\":\"%s\",\"bytes\":%" PRIu64 "}",
			   row->class->object->name, row->class->what, row->class->bytes);
	if (row->within)
		add_format(printer, ",\"within\":\"%s\"", row->within->name);
	if (life)
		ADD_LITERAL(printer, ",\"stage\":null");
	else
		add_format(printer, ",\"stage\":\"%s\"", row->stage);
	add_format(printer,
		   ",\"count\":%" PRIu64 ",\"avg_us\":%.3f,\"p50_us\":%.3f,\"p90_us\":%.3f,\"p99_us\":%.3f,\"max_us\":%.3f",
		   ticks->count, stage_us_of(printer, (double)ticks->sum / (double)ticks->count),
		   percentile_us(printer, ticks, 5000), percentile_us(printer, ticks, 9000),
		   percentile_us(printer, ticks, 9900), stage_us_of(printer, (double)ticks->max));
	if (row->resting)
		ADD_LITERAL(printer, ",\"resting\":true}");
	else
		add_format(printer, ",\"share\":%.6f}", share);
	end_line(printer);
}

static void print_stage_row(struct reader_printer *printer, const struct row *row, const struct histogram *ticks,
			    uint64_t all_ticks, bool life)
{
	double share = all_ticks ? (double)ticks->sum / (double)all_ticks : 0;

	if (ticks->count == 0)
		return;
	if (printer->json)
		print_row_json(printer, row, ticks, share, life);
	else
		print_row_text(printer, row, ticks, share);
}

static void print_heading(struct reader_printer *printer)
{
	struct table_line line;

	reader_print_line(printer, table_line_titles(&line, &layout));
}

/* The stages of a child, below the stage of the parent in which it ran. */
static void print_child(struct reader_printer *printer, const struct stage_class *class)
{
	const struct reader_machine *machine = class->child->machine;
	struct row row = { .object = class->child,
			   .class = class,
			   .within = &class->object->machine->states[class->child_state] };
	char name[128];

	for (uint32_t state = 1; state < machine->state_count && state < TRACE_STORY_STATES_MAX; state++) {
		row.text = machine->states[state].text;
		row.resting = machine->states[state].resting;
		row.stage = machine->states[state].name;
		if (!printer->json) {
			snprintf(name, sizeof(name), "%s %s", class->child->name, row.stage);
			row.stage = name;
		}
		print_stage_row(printer, &row, &class->child_sums.states[state], class->sums.whole.sum, false);
	}
	row = (struct row){ .object = class->object,
			    .class = class,
			    .within = row.within,
			    .stage = "beside",
			    .text = "before and after it" };
	print_stage_row(printer, &row, &class->beside, class->sums.whole.sum, false);
}

static void print_sums(struct reader_printer *printer, const struct reader_object *object, const struct stage_sums *sums,
		       const struct stage_class *class)
{
	struct row row = { .object = object, .class = class };

	print_heading(printer);
	for (uint32_t state = 1; state < object->machine->state_count && state < TRACE_STORY_STATES_MAX; state++) {
		row.stage = object->machine->states[state].name;
		row.text = object->machine->states[state].text;
		row.resting = object->machine->states[state].resting;
		print_stage_row(printer, &row, &sums->states[state], sums->whole.sum, false);
		if (class && class->child_state == state)
			print_child(printer, class);
	}
	row.stage = "whole life";
	row.text = "";
	row.resting = false;
	print_stage_row(printer, &row, &sums->whole, sums->whole.sum, true);
}

static double seconds_after_start(const struct reader_printer *printer, uint64_t tick)
{
	return (double)ns_between(printer, printer->reader->info.start_tick, tick) / 1e9;
}

static void print_kind(struct reader_printer *printer, const struct reader_stages *stages, const struct stage_kind *kind)
{
	uint64_t under_way = stages_under_way(stages, kind);

	if (kind->sums.whole.count == 0 && kind->left_out == 0 && under_way == 0)
		return;
	if (!printer->json) {
		end_line(printer);
		add_format(printer, "%s: %" PRIu64 " whole lives", kind->object->name, kind->sums.whole.count);
		if (kind->left_out || under_way)
			add_format(printer,
				   "; left out: %" PRIu64 " without a recorded begin, %" PRIu64 " that did not end",
				   kind->left_out, under_way);
		end_line(printer);
	}
	if (kind->sums.whole.count)
		print_sums(printer, kind->object, &kind->sums, NULL);
	if (printer->json) {
		add_format(printer,
			   "{\"object_type\":\"%s\",\"lives\":%" PRIu64 ",\"left_out\":%" PRIu64 ",\"under_way\":%" PRIu64
			   "}",
			   kind->object->name, kind->sums.whole.count, kind->left_out, under_way);
		end_line(printer);
	}
}

static void add_size(struct reader_printer *printer, uint64_t bytes)
{
	if (bytes >= 1024 * 1024 && bytes % (1024 * 1024) == 0)
		add_format(printer, "%" PRIu64 " MiB", (uint64_t)(bytes / 1024 / 1024));
	else if (bytes >= 1024 && bytes % 1024 == 0)
		add_format(printer, "%" PRIu64 " KiB", (uint64_t)(bytes / 1024));
	else
		add_format(printer, "%" PRIu64 " bytes", bytes);
}

static void print_class(struct reader_printer *printer, const struct stage_class *class)
{
	const struct histogram *whole = &class->sums.whole;

	if (!printer->json) {
		end_line(printer);
		add_format(printer, "%s of ", class->what);
		add_size(printer, class->bytes);
		add_format(printer, ", %" PRIu64 " of them, each %.3f us on average, by stage", whole->count,
			   stage_us_of(printer, (double)whole->sum / (double)whole->count));
		end_line(printer);
	}
	print_sums(printer, class->object, &class->sums, class);
}

static int compare_class_counts(const void *left, const void *right)
{
	const struct stage_class *a = *(const struct stage_class *const *)left,
				 *b = *(const struct stage_class *const *)right;

	return a->sums.whole.count < b->sums.whole.count ? 1 : a->sums.whole.count > b->sums.whole.count ? -1 : 0;
}

void reader_print_stages(struct reader_printer *printer, const struct reader_stages *stages)
{
	const struct stage_class *classes[STAGE_CLASSES_MAX];
	uint32_t printed = 0;
	char line[128];

	snprintf(line, sizeof(line), "moves from %.6f s to %.6f s after the start",
		 seconds_after_start(printer, stages->first_tick), seconds_after_start(printer, stages->last_tick));
	reader_print_remark(printer, line);
	for (uint32_t i = 0; i < stages->kind_count; i++) {
		if (!stages->chosen || stages->kinds[i].wanted)
			print_kind(printer, stages, &stages->kinds[i]);
	}
	memcpy(classes, stages->classes, sizeof(classes));
	qsort(classes, stages->class_count, sizeof(classes[0]), compare_class_counts);
	for (uint32_t i = 0; i < stages->class_count && printed < CLASSES_PRINTED_MAX; i++) {
		for (uint32_t k = 0; k < stages->kind_count; k++) {
			const struct stage_kind *kind = &stages->kinds[k];

			if (kind->object != classes[i]->object || (stages->chosen && !kind->wanted) ||
			    classes[i]->sums.whole.count * 100 < kind->sums.whole.count * CLASS_PER_CENT_MIN)
				continue;
			print_class(printer, classes[i]);
			printed++;
		}
	}
}
