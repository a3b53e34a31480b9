/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * summary - a trace file on one page: counts of the events in the rings, and where all requests spent their time.
 *
 * Events are counted without sorting, for speed: about a hundred million per second.
 */
#ifndef INSPECT_TRACE_SUMMARY_H
#define INSPECT_TRACE_SUMMARY_H

#include "inspect/trace/lives.h"

struct reader_point_counts {
	uint64_t counts[TRACE_POINTS_MAX];   /* by id: events that the rings hold */
	double per_second[TRACE_POINTS_MAX]; /* over the time that the rings with this event cover */
	uint64_t first_tick;		     /* the oldest record; UINT64_MAX: there is none */
	struct reader_counts records;
};

/* Count the events in the rings. Errors: -ENOMEM. */
MUST_CHECK int reader_count_points(const struct reader *reader, struct reader_point_counts *counts_ret);

/* Print a line for each stage of `lives`: all that ended since the start, `seconds` ago. */
void reader_print_lives(struct reader_printer *printer, const struct reader_lives *lives, double seconds);
/* Print the counts of events with their groups. */
void reader_print_point_counts(struct reader_printer *printer, const struct reader_point_counts *counts);
/* Print a line as it is, in both styles; reader_print_line() prints only in text style. */
void reader_print_raw(struct reader_printer *printer, const char *line);
void reader_print_line(struct reader_printer *printer, const char *text);

#endif
