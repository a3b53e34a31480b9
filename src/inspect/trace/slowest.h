/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slowest - the slowest or the failed requests that the file has: those kept as exemplars, and those whose complete life
 * is still in the rings.
 *
 *   reader_slowest_create() -> reader_slowest_event() ... -> reader_slowest_finish() -> reader_slowest_at() ...
 *
 * An I/O is listed as part of its request, not by itself; so are the parts of a split I/O. Requests that one stall
 * delayed (stall.h) form a group, ordered by its longest request. Memory is bounded: beyond SLOWEST_MAX requests only
 * the slowest are kept.
 */
#ifndef INSPECT_TRACE_SLOWEST_H
#define INSPECT_TRACE_SLOWEST_H

#include "inspect/trace/lives.h"

enum { SLOWEST_MAX = 4096 };

struct reader_slowest;

enum reader_slowest_order {
	READER_SLOWEST_FIRST,
	READER_FAILED, /* only failed requests, newest first */
	READER_NEWEST_FIRST,
};

struct reader_slowest_want {
	uint32_t count_max; /* groups; at most SLOWEST_MAX */
	enum reader_slowest_order order;
	bool each; /* no groups: each request by itself. Orders other than READER_SLOWEST_FIRST imply it */
	/* NULL: accepts all. `exemplar` is borrowed */
	bool (*accepts)(const void *ctx, const struct reader_exemplar *exemplar);
	const void *ctx;
};

/* Reads all exemplars. `want` is copied. Destroy `*slowest_ret` before the reader is closed. Errors: -ENOMEM. */
MUST_CHECK int reader_slowest_create(const struct reader *reader, const struct reader_slowest_want *want,
				     struct reader_slowest **slowest_ret);
/* Accepts NULL. */
void reader_slowest_destroy(struct reader_slowest *slowest);
/* Pass all events, in their order: collects the lives in them. */
void reader_slowest_event(struct reader_slowest *slowest, const struct reader_event *event);
/* No more events follow: sort and group the results. */
void reader_slowest_finish(struct reader_slowest *slowest);
/*
 * Optional, after reader_slowest_finish(): pass all events again. Adds the records of lives that were only in the rings.
 */
void reader_slowest_add_record(struct reader_slowest *slowest, const struct reader_event *event);

/* Number of groups. */
uint32_t reader_slowest_count(const struct reader_slowest *slowest);
/* The longest request of group `index`. */
const struct reader_exemplar *reader_slowest_at(const struct reader_slowest *slowest, uint32_t index);
/*
 * All members of group `index`, the longest first; returns their number, at least 1. Valid until `slowest` is destroyed.
 */
uint32_t reader_slowest_group(const struct reader_slowest *slowest, uint32_t index,
			      const struct reader_exemplar *const **members_ret);
/* Counts of the walk over the exemplars: seen, torn, cleared. */
const struct reader_exemplar_walk *reader_slowest_walk(const struct reader_slowest *slowest);

/* A word for an argument's value that is not in the file, such as an opcode's name; NULL: none. */
typedef const char *(*reader_word_fn)(const struct reader_object *object, const struct reader_arg *arg, uint64_t value,
				      const char *owner_text);
void reader_printer_set_words(struct reader_printer *printer, reader_word_fn word);

/*
 * Print members[0] with a line for each of its stages, and the stall that delayed all `count` members. `number` counts
 * from 1. `records`: print the records of members[0], too.
 */
void reader_print_exemplars(struct reader_printer *printer, uint32_t number, const struct reader_exemplar *const *members,
			    uint32_t count, bool records);

#endif
