/* SPDX-License-Identifier: BSD-2-Clause */
/* summary - `fathom trace summary`: an overview of the whole file on one page. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/fathom/trace/trace.h"
#include "inspect/trace/summary.h"

enum { KINDS_MAX = 8 };

/* Sort by total time, descending: then a request comes before the I/O that is part of it. */
static int compare_total_times(const void *left, const void *right)
{
	const struct reader_lives *a = left, *b = right;

	if (a->stages[0].ticks != b->stages[0].ticks)
		return a->stages[0].ticks < b->stages[0].ticks ? 1 : -1;
	return (int)a->object->id - (int)b->object->id;
}

/* Print all types of requests. Returns the number of types with ended lives. */
static int print_stage_histograms(struct reader *reader, struct reader_printer *printer, double seconds)
{
	static struct reader_lives lives[KINDS_MAX];
	int count = 0;

	for (uint32_t i = 0; i < reader_info(reader)->point_count && count < KINDS_MAX; i++) {
		const struct reader_object *object = reader_point_at(reader, i)->object;
		bool seen = !object || !object->machine;

		for (uint32_t j = 0; j < i && !seen; j++)
			seen = reader_point_at(reader, j)->object == object;
		if (!seen && reader_lives(reader, object, READER_ALL_THREADS, &lives[count]) &&
		    lives[count].stages[0].count > 0)
			count++;
	}
	qsort(lives, (size_t)count, sizeof(lives[0]), compare_total_times);
	for (int i = 0; i < count; i++)
		reader_print_lives(printer, &lives[i], seconds);
	return count;
}

static void print_threads(struct reader *reader, struct reader_printer *printer, uint64_t now)
{
	for (uint32_t i = 0; i < reader_info(reader)->thread_count; i++) {
		struct reader_thread thread;

		if (reader_thread(reader, i, &thread))
			reader_print_thread(printer, &thread, now);
	}
}

int trace_summary(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	static struct reader_point_counts counts;
	uint64_t now = reader_now(reader), start = reader_info(reader)->start_tick;
	double seconds = start && now > start ? (double)reader_ns_from_ticks(reader, now - start) / 1e9 : 0;
	char line[256];

	if (reader_count_points(reader, &counts) != 0)
		return trace_complain("out of memory", NULL);
	reader_print_header(printer, &counts.records);
	snprintf(line, sizeof(line), "%.3f s from its %s to %s", seconds,
		 reader_info(reader)->spdk ? "oldest event" : "start",
		 reader_info(reader)->liveness == READER_ALIVE ? "now" : "its last sign of life");
	reader_print_remark(printer, line);
	trace_under_way_remark(reader, line, sizeof(line));
	reader_print_remark(printer, line[0]			 ? line
				     : reader_info(reader)->died ? "nothing was under way when it died"
								 : "nothing has been under way for more than a second");
	if (reader_has_lives(reader))
		reader_print_line(
			printer,
			"\nWHERE THE TIME WENT, of all requests that ended since the start, in us. P99: the 99th\n"
			"percentile, within 1/8. SHARE: of the time of all. SLOW: of a request that is at least so\n"
			"slow, all stages are kept for `fathom trace slowest`.");
	else
		reader_print_line(printer,
				  "\nWHERE THE TIME WENT, of the requests whose whole life is still in the rings, in us.\n"
				  "P99: the 99th percentile. SHARE: of the time of all.");
	if (print_stage_histograms(reader, printer, seconds) == 0 && reader_has_lives(reader))
		reader_print_line(printer, "\n  none has ended");
	else if (!reader_has_lives(reader) && trace_stages_of_rings(request, reader, printer) != EXIT_SUCCESS)
		return EXIT_USAGE;
	reader_print_line(printer,
			  "\nEVENTS that the rings hold now (`fathom trace` prints them), and their rate per second "
			  "in that time\n");
	reader_print_point_counts(printer, &counts);
	reader_print_line(printer, "\nTHREADS, with the number of records since the start of each\n");
	print_threads(reader, printer, now);
	reader_print_end(printer, &counts.records);
	return EXIT_SUCCESS;
}
