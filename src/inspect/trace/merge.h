/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge - the events of several files on one time line.
 *
 *   reader_merge_create() -> reader_merge_next() ... -> reader_merge_destroy()
 *
 * The time line is the wall clock, which each file tells by its clock pairs. Files of one machine and one boot count by the
 * same counter: their pairs are put together, and what their processes did is in the order of its ticks, exactly. Files
 * of different machines are as far apart as those machines' clocks were. A file's own events stay in their order.
 */
#ifndef INSPECT_TRACE_MERGE_H
#define INSPECT_TRACE_MERGE_H

#include "inspect/trace/trace_file.h"

enum { READER_MERGE_MAX = 64 };

struct reader_merge;

/*
 * Of `count` readers, which are lent until the merge is destroyed, and tell the wall clock by the pairs of all from now on.
 * Errors (explained): -ENODATA: one has no time of day; -ENOMEM.
 */
MUST_CHECK int reader_merge_create(struct reader *const *readers, uint32_t count, struct reader_merge **merge_ret,
				   struct fault *why);
/* Accepts NULL. */
void reader_merge_destroy(struct reader_merge *merge);

/* Begin reading the events, of all at about the same moment. -ENOMEM */
MUST_CHECK int reader_merge_begin(struct reader_merge *merge);
/* The next event of all, and of which reader it is. False: no more. */
MUST_CHECK bool reader_merge_next(struct reader_merge *merge, uint32_t *index_ret, struct reader_event *event_ret);
/* As reader_events_counts() of that reader's events. */
void reader_merge_counts(const struct reader_merge *merge, uint32_t index, struct reader_counts *counts_ret);

/* When the first of them started, on the wall clock. */
uint64_t reader_merge_start_ns(const struct reader_merge *merge);
/* Do all count by one counter? Then their order is right, however little is known of the time of day. */
bool reader_merge_is_one_counter(const struct reader_merge *merge);
/* What a process is called beside the others: its name, with its number and more where names are alike. */
const char *reader_merge_label(const struct reader_merge *merge, uint32_t index);

/*
 * By how much times of day from this file's beginning to its latest event may be wrong, about: what its pairs disagree
 * with each other, and how far events are from the outermost. The machine's clock itself may have been wrong by more.
 */
uint64_t reader_wall_error_ns(const struct reader *reader);

/* For printing: each line begins with the process `label`, times count from `start_ns` of the wall clock. Lent. */
void reader_printer_set_process(struct reader_printer *printer, const char *label, int label_width, uint64_t start_ns);
/* Another printer is going to print to the same file. */
void reader_printer_yield(struct reader_printer *printer);

#endif
