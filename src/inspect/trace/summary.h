/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * summary - a whole trace file on a page: how many of which event the rings hold, and where the time of all requests went.
 *
 * Events are counted without being put in order, so that a hundred million a second can be.
 */
#ifndef INSPECT_TRACE_SUMMARY_H
#define INSPECT_TRACE_SUMMARY_H

#include "inspect/trace/lives.h"

struct reader_point_counts {
	uint64_t counts[TRACE_POINTS_MAX];   /* by id: events that the rings hold */
	double per_second[TRACE_POINTS_MAX]; /* while the rings that hold them remember */
	uint64_t first_tick;		     /* the oldest record; UINT64_MAX: there is none */
	struct reader_counts records;
};

/* Count what the rings hold. -ENOMEM */
MUST_CHECK int reader_count_points(const struct reader *reader, struct reader_point_counts *counts_ret);

/* Each stage of `lives` on a line: all that ended since the start. `seconds`: how long that was. */
void reader_print_lives(struct reader_printer *printer, const struct reader_lives *lives, double seconds);
/* The events by group. */
void reader_print_point_counts(struct reader_printer *printer, const struct reader_point_counts *counts);
/* A line as it is; for people alone. */
void reader_print_raw(struct reader_printer *printer, const char *line);
void reader_print_line(struct reader_printer *printer, const char *text);

#endif
