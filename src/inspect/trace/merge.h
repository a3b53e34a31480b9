/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge - the events of several files on one time line.
 *
 *   reader_merge_create() -> reader_merge_next() ... -> reader_merge_destroy()
 *
 * The time line is the wall clock, which each file derives from its clock pairs. Files of one machine and one boot use
 * the same tick counter: they share their clock pairs, and their events are exactly in tick order. Between machines the
 * order is as accurate as their clocks. Events of one file stay in their order.
 */
#ifndef INSPECT_TRACE_MERGE_H
#define INSPECT_TRACE_MERGE_H

#include "inspect/trace/trace_file.h"

enum { READER_MERGE_MAX = 64 };

struct reader_merge;

/*
 * Merge `count` readers, which are lent until the merge is destroyed. Meanwhile they convert to wall-clock time by the
 * pairs of all. Errors (explained): -ENODATA: a file has no time of day; -ENOMEM.
 */
MUST_CHECK int reader_merge_create(struct reader *const *readers, uint32_t count, struct reader_merge **merge_ret,
				   struct fathom_fault *why);
/* Accepts NULL. */
void reader_merge_destroy(struct reader_merge *merge);

/* Start reading the events of all files, at about the same moment. Errors: -ENOMEM. */
MUST_CHECK int reader_merge_begin(struct reader_merge *merge);
/* Return the next event of all files and the index of its reader. False: no more. */
MUST_CHECK bool reader_merge_next(struct reader_merge *merge, uint32_t *index_ret, struct reader_event *event_ret);
/* As reader_events_counts() of that reader's events. */
void reader_merge_counts(const struct reader_merge *merge, uint32_t index, struct reader_counts *counts_ret);

/* Wall-clock time at which the first process started. */
uint64_t reader_merge_start_ns(const struct reader_merge *merge);
/* Do all files use one counter? Then the order is exact, even if the time of day is not. */
bool reader_merge_is_one_counter(const struct reader_merge *merge);
/* A process's label: its name, with pid, host or number where names are equal. */
const char *reader_merge_label(const struct reader_merge *merge, uint32_t index);

/*
 * Estimated error of times of day from this file's start to its latest event: the disagreement of its clock pairs, and
 * the distance of events from the outermost pair. An error of the machine's clock itself is not included.
 */
uint64_t reader_wall_error_ns(const struct reader *reader);

/* Begin each line with the process `label`; times count from `start_ns` of the wall clock. `label` is copied. */
void reader_printer_set_process(struct reader_printer *printer, const char *label, int label_width, uint64_t start_ns);
/* Flush: another printer is going to print to the same file. */
void reader_printer_yield(struct reader_printer *printer);

#endif
