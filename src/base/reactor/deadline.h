/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deadline - many time-outs of one light thread on one timer. Setting and clearing never fail and ask for no memory; most
 * come in the order in which they are due, so that setting one is a look at the last.
 */
#ifndef REACTOR_DEADLINE_H
#define REACTOR_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/must.h"

struct deadline;
/* The deadline is clear again. May set it anew, free it, or end the set. */
typedef void (*deadline_fn)(struct deadline *deadline);

/* The caller's storage; all zero is clear. */
struct deadline {
	TAILQ_ENTRY(deadline) link;
	uint64_t due; /* tick */
	deadline_fn fn;
	bool set;
};

struct deadlines {
	TAILQ_HEAD(deadline_list, deadline) list; /* the next one first */
	struct poller *poller;			  /* runs when the first is due; paused without any */
	bool *ended;				  /* tells a run that is on the stack */
};

/* On the thread whose they are. `name` is that of the timer in the statistics. -ENOMEM. */
MUST_CHECK int deadlines_init(struct deadlines *set, const char *name);
/* Those that are set are forgotten. Also of what was never initialised, but zeroed. */
void deadlines_deinit(struct deadlines *set);

/* Call `fn` in `after_ns`, once. One that is set already is moved. */
void deadline_set(struct deadlines *set, struct deadline *deadline, uint64_t after_ns, deadline_fn fn);
void deadline_clear(struct deadlines *set, struct deadline *deadline);

#endif
