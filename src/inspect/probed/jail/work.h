/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * work - shared by jail.c and orders.c: requests and children.
 *
 *   request:  waiting -> with a child -> answered
 *   child:    STARTING -> IDLE -> FILLING -> BUSY -> IDLE, and ended from any of them
 *
 * FILLING: the object is being copied to the child's memory, one slice (JAIL_SLICE_BYTES) per turn of the thread. A small
 * object is one slice, copied at once. Large ones leave one child to small ones, and take turns.
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
	struct fathom_fault why; /* while in `settled` */
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
	uint64_t filled;	 /* FILLING: bytes of its blocks already copied to the child's memory */
};
TAILQ_HEAD(child_list, child);

struct jail {
	struct jail_options options; /* defaults filled in */
	struct jail_sizes sizes;
	struct child_list children;
	struct request_list waiting;
	struct request_list settled; /* failed without parsing; complete_settled() calls their `done` */
	pid_t *ending;		     /* killed, not reaped yet */
	uint32_t ending_count, ending_room;
	struct poller *beat;
	uint64_t beat_ns;
	struct poller *filler; /* runs while a child is FILLING */
	struct jail_stats stats;
	bool in_done;	     /* within `done` */
	bool settle_pending; /* the message for complete_settled() is in flight */
	bool destroyed;	     /* that message must free this */
};

/* ---- jail.c ---- */

/* Fail `request` later, by a message. It must be in no list, and its `why` filled. */
void jail_settle(struct jail *jail, struct request *request);
/* NULL (explained): it cannot be started. */
struct child *jail_start_child(struct jail *jail, struct fathom_fault *why);
/*
 * End `child`. Returns its request, or NULL; the caller owns it. `*status_ret` (may be NULL): as for jail_process_end().
 */
struct request *jail_end_child(struct child *child, enum jail_end why, int *status_ret);
/* No child can be started: fail all waiting requests. */
void jail_refuse_waiting(struct jail *jail, const struct fathom_fault *why);

/* ---- orders.c ---- */

bool jail_is_large(const struct dof_input *input);
uint64_t jail_input_bytes(const struct dof_input *input);
/* Assign waiting requests, start children as needed, and run the beat and the filler only while they have work. */
void jail_schedule(struct jail *jail);
/* End `child`, which sent an unrequested answer or accepts no orders. Its unread request waits for another child. */
void jail_requeue_request(struct child *child, bool has_misbehaved);
/* The filler poller: copies one slice to one child. */
int jail_fill(void *ctx);

#endif
