/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter - which events, and which lives, somebody wants to see: those of an object, of an owner, of a while, and those for
 * which an expression holds.
 *
 * Events are to be shown to it in their order, all of them, since what belongs to an object is learnt on the way.
 */
#ifndef INSPECT_TRACE_FILTER_H
#define INSPECT_TRACE_FILTER_H

#include "inspect/trace/expression.h"
#include "inspect/trace/lives.h"

/* Borrowed for the call; NULL: all. */
struct reader_filter_spec {
	const char *object; /* "r12": it, what belongs to it, and events that name it */
	const char *owner;  /* "q2", or a part of the owner's text, in any case */
	/*
	 * "5", "5s", "100ms": after the start; "-5s": before the end; "12:30:00.5", "2026-11-21T12:30:00": the time of day,
	 * in the zone of TZ
	 */
	const char *since, *until;
	/* where spans count from, on the wall clock: those of several files together. 0: the file's own start and end */
	uint64_t start_ns, end_ns;
	/*
	 * An expression (expression.h), or "GROUP.NAME EXPRESSION", as in "bdev.io_done latency_us > 5000",
	 * or "GROUP.NAME": of these events alone. Of lives it means those of what such events are about.
	 *
	 * Names: arguments of events and requests; latency (since the first event of the object's life), dwell (since
	 * its previous one), tick, core, thread, owner, object, name, group, state. A time's name may end with _ns, _us,
	 * _ms or _s, and is then in this unit; latency and dwell are in microseconds otherwise.
	 */
	const char *where;
};

struct reader_filter;

/* Errors (explained): -EINVAL, -ENOENT: no object has that prefix; -ENODATA: the file has no time of day; -ENOMEM. */
MUST_CHECK int reader_filter_create(const struct reader *reader, const struct reader_filter_spec *spec,
				    struct reader_filter **filter_ret, struct fault *why);
/* Accepts NULL. */
void reader_filter_destroy(struct reader_filter *filter);

bool reader_filter_event(struct reader_filter *filter, const struct reader_event *event);
/* Of the while and the owner alone. */
bool reader_filter_while(struct reader_filter *filter, const struct reader_event *event);
bool reader_filter_life(struct reader_filter *filter, const struct reader_exemplar *exemplar);

/* "r12" as type and number. -ENOENT (explained) */
MUST_CHECK int reader_object_parse(const struct reader *reader, const char *text, const struct reader_object **object_ret,
				   uint32_t *id_ret, struct fault *why);

#endif
