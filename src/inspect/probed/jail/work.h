/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * work - what jail.c and orders.c share: requests, and the children that they go to.
 *
 *   request:  waiting -> with a child -> answered
 *   child:    STARTING -> IDLE -> FILLING -> BUSY -> IDLE, and from each of them ended
 *
 * FILLING: the object is copied into the child's memory, a slice (JAIL_SLICE_BYTES) a turn of the thread. A small object
 * takes one slice, at once. Large ones leave one child to small ones, and take turns.
 */
#ifndef PROBED_JAIL_WORK_H
#define PROBED_JAIL_WORK_H

#include "base/list.h"
#include "inspect/probed/jail/internal.h"
#include "inspect/probed/jail/probes.gen.h"

struct request {
	TAILQ_ENTRY(request) in_list;
	struct dof_input input; /* blocks are lent */
	jail_done_fn done;
	void *ctx;
	uint64_t deadline;
	struct fault why; /* of those in `settled` */
};
TAILQ_HEAD(request_list, request);

struct child {
	TAILQ_ENTRY(child) in_jail;
	struct jail *jail;
	struct jail_process process;
	struct fd_watch *watch;
	enum { STARTING, IDLE, FILLING, BUSY } state;
	uint64_t sequence, deadline, given_tick;
	struct request *request; /* FILLING, BUSY */
	uint64_t filled;	 /* FILLING: bytes of its blocks that are in the child's memory */
};
TAILQ_HEAD(child_list, child);

struct jail {
	struct jail_options options; /* with the defaults in place */
	struct jail_sizes sizes;
	struct child_list children;
	struct request_list waiting;
	struct request_list settled; /* known not to be parsed, not told yet */
	pid_t *ending;		     /* killed, not gone yet */
	uint32_t ending_count, ending_room;
	struct poller *beat;
	uint64_t beat_ns;
	struct poller *filler; /* runs while a child is FILLING */
	struct jail_stats stats;
	bool telling;	 /* within `done` */
	bool tells_soon; /* a message is under way */
	bool destroyed;	 /* that message is to free this */
};

/* ---- jail.c ---- */

/* Answer `request`, which is in no list and whose `why` is filled, later: not from within jail_parse(). */
void jail_settle(struct jail *jail, struct request *request);
/* NULL: explained. */
struct child *jail_start_child(struct jail *jail, struct fault *why);
/*
 * End `child`, whose request, if it had one, is the caller's now. Of one that has died `*status_ret` (may be NULL) is as of
 * jail_process_end().
 */
struct request *jail_end_child(struct child *child, enum jail_end why, int *status_ret);
/* No child can be had: whoever waits is told so. */
void jail_refuse_waiting(struct jail *jail, const struct fault *why);

/* ---- orders.c ---- */

bool jail_is_large(const struct dof_input *input);
uint64_t jail_input_bytes(const struct dof_input *input);
/* Do all that can be done now, and see that the beat and the filler run while something is left for them. */
void jail_go_on(struct jail *jail);
/* `child` speaks unasked or takes no orders: it is ended, and its request, which it has not read, waits for another. */
void jail_take_back(struct child *child, bool is_nonsense);
/* The filler's: one slice of one child. */
int jail_fill(void *ctx);

#endif
