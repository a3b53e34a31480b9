/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deadline - many time-outs of one light thread on one timer. Setting and clearing never fail and allocate nothing. The
 * list is sorted by due time; most deadlines are set in that order, so inserting usually compares only with the last.
 */
#ifndef REACTOR_DEADLINE_H
#define REACTOR_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/must.h"

struct deadline;
/* Called when due; the deadline is clear. The callback may set it again, free it, or call deadlines_deinit(). */
typedef void (*deadline_fn)(struct deadline *deadline);

/* The caller's storage; zeroed: clear. */
struct deadline {
	TAILQ_ENTRY(deadline) link;
	uint64_t due; /* tick */
	deadline_fn fn;
	bool set;
};

struct deadlines {
	TAILQ_HEAD(deadline_list, deadline) list; /* sorted, the earliest first */
	struct poller *poller;			  /* runs when the first is due; paused while the list is empty */
	bool *ended;				  /* set by deadlines_deinit() inside a callback: run_due() must return */
};

/* On the owning thread, like all functions here. `name` is the timer's in the statistics. Errors: -ENOMEM. */
MUST_CHECK int deadlines_init(struct deadlines *set, const char *name);
/* Deadlines that are set are dropped without a call. Accepts a zeroed set that was never initialized. */
void deadlines_deinit(struct deadlines *set);

/* Call `fn` once, `after_ns` from now (at most a year). A deadline that is already set is moved. */
void deadline_set(struct deadlines *set, struct deadline *deadline, uint64_t after_ns, deadline_fn fn);
void deadline_clear(struct deadlines *set, struct deadline *deadline);

#endif
