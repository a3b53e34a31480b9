/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slowest - the slowest or the failed of all requests that the file remembers: those kept as exemplars, and those
 * whose whole life is still in the rings.
 *
 *   reader_slowest_create() -> reader_slowest_event() ... -> reader_slowest_finish() -> reader_slowest_at() ...
 *
 * An I/O is part of its request and not listed for itself, nor are the parts of one that was split. Requests that one
 * stall delayed (stall.h) are one group, which stands where its longest does. Memory is bounded: of more than SLOWEST_MAX
 * requests only the slowest are compared.
 */
#ifndef INSPECT_TRACE_SLOWEST_H
#define INSPECT_TRACE_SLOWEST_H

#include "inspect/trace/lives.h"

enum { SLOWEST_MAX = 4096 };

struct reader_slowest;

enum reader_slowest_order {
	READER_SLOWEST_FIRST,
	READER_FAILED, /* those that failed alone, newest first */
	READER_NEWEST_FIRST,
};

struct reader_slowest_want {
	uint32_t count_max; /* groups; at most SLOWEST_MAX */
	enum reader_slowest_order order;
	bool each; /* no groups: each request is one. Those of other orders than READER_SLOWEST_FIRST always are */
	/* NULL: all. `exemplar` is borrowed */
	bool (*accepts)(const void *ctx, const struct reader_exemplar *exemplar);
	const void *ctx;
};

/* Looks at all exemplars. `want` is copied. `*slowest_ret` is to be destroyed before the reader is closed. */
MUST_CHECK int reader_slowest_create(const struct reader *reader, const struct reader_slowest_want *want,
				     struct reader_slowest **slowest_ret);
/* Accepts NULL. */
void reader_slowest_destroy(struct reader_slowest *slowest);
/* Events in their order, for the lives in them. */
void reader_slowest_event(struct reader_slowest *slowest, const struct reader_event *event);
/* No more events: put in order what was found. */
void reader_slowest_finish(struct reader_slowest *slowest);
/* Then, if their records are to be printed, all events once more: adds those of lives that were only in the rings. */
void reader_slowest_add_record(struct reader_slowest *slowest, const struct reader_event *event);

/* Groups. */
uint32_t reader_slowest_count(const struct reader_slowest *slowest);
/* The longest of group `index`. */
const struct reader_exemplar *reader_slowest_at(const struct reader_slowest *slowest, uint32_t index);
/* All of group `index`, the longest first; how many, at least 1. Valid until `slowest` is destroyed. */
uint32_t reader_slowest_group(const struct reader_slowest *slowest, uint32_t index,
			      const struct reader_exemplar *const **members_ret);
/* Where the exemplars' walk ended: how many there were, torn, cleared. */
const struct reader_exemplar_walk *reader_slowest_walk(const struct reader_slowest *slowest);

/* A word for an argument's value that is not in the file, such as an opcode's name; NULL: none. */
typedef const char *(*reader_word_fn)(const struct reader_object *object, const struct reader_arg *arg, uint64_t value,
				      const char *owner_text);
void reader_printer_set_words(struct reader_printer *printer, reader_word_fn word);

/*
 * members[0] with a line for each of its stages, and what the stall was that delayed all `count` of them. `number`: from 1.
 * `records`: with the records of members[0].
 */
void reader_print_exemplars(struct reader_printer *printer, uint32_t number, const struct reader_exemplar *const *members,
			    uint32_t count, bool records);

#endif
