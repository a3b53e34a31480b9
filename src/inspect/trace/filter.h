/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter - selects events and lives by object, by owner, by time, and by an expression.
 *
 * The filter learns which objects belong together from the events themselves: it must see all of them, in their order.
 */
#ifndef INSPECT_TRACE_FILTER_H
#define INSPECT_TRACE_FILTER_H

#include "inspect/trace/expression.h"
#include "inspect/trace/lives.h"

/* Borrowed for the call. A NULL member does not restrict. */
struct reader_filter_spec {
	const char *object; /* "r12": this object, its children, and events that name it */
	const char *owner;  /* "q2", or a part of the owner's text, ignoring case */
	/*
	 * "5", "5s", "100ms": after the start; "-5s": before the end; "12:30:00.5", "2026-11-21T12:30:00": the time of day,
	 * in the zone of TZ
	 */
	const char *since, *until;
	/* wall-clock start and end for relative times, if several files are read together. 0: the file's own */
	uint64_t start_ns, end_ns;
	/*
	 * An expression (expression.h); or "GROUP.NAME EXPRESSION", as in "bdev.io_done latency_us > 5000"; or
	 * "GROUP.NAME": only events of this point. When lives are filtered, it selects the lives of the objects that
	 * such events are about.
	 *
	 * Names: arguments of events and requests; latency (since the first event of the object's life), dwell (since
	 * its previous event), tick, core, thread, owner, object, name, group, state. The name of a time may end with
	 * _ns, _us, _ms or _s, which gives its unit; otherwise latency and dwell are in microseconds.
	 */
	const char *where;
};

struct reader_filter;

/* Errors (explained): -EINVAL; -ENOENT: no object has that prefix; -ENODATA: the file has no time of day; -ENOMEM. */
MUST_CHECK int reader_filter_create(const struct reader *reader, const struct reader_filter_spec *spec,
				    struct reader_filter **filter_ret, struct fathom_fault *why);
/* Accepts NULL. */
void reader_filter_destroy(struct reader_filter *filter);

bool reader_filter_event(struct reader_filter *filter, const struct reader_event *event);
/* Checks only time and owner. */
bool reader_filter_time_and_owner(struct reader_filter *filter, const struct reader_event *event);
bool reader_filter_life(struct reader_filter *filter, const struct reader_exemplar *exemplar);

/* Parse "r12" into an object type and a number. Errors: -ENOENT (explained). */
MUST_CHECK int reader_object_parse(const struct reader *reader, const char *text, const struct reader_object **object_ret,
				   uint32_t *id_ret, struct fathom_fault *why);

#endif
