/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schedule - decides which operation of a replay starts when.
 *
 *   schedule_wants() -> schedule_add() ... -> schedule_take() -> the caller starts it -> schedule_end()
 *
 * An operation starts at its time, or later when its queue has room. A queue starts its operations in the order of the
 * recording. With `keeps_gaps` the time of an operation counts from the end of another one: in the recording, the latest
 * that ended on the same queue before this one began. Then a slower target gets fewer operations a second, as from a host
 * that waits for answers.
 *
 * Operations that are due and have no room wait here. When SCHEDULE_WAITING_MAX wait, schedule_wants() is false, and the
 * replay reads on when some have started. So memory is bounded.
 *
 * Pure: the time is an argument, in ns since the start of the replay. One thread at a time.
 */
#ifndef INSPECT_REPLAY_SCHEDULE_H
#define INSPECT_REPLAY_SCHEDULE_H

#include "base/must.h"
#include "inspect/replay/operation.h"

enum {
	SCHEDULE_WAITING_MAX = 1 << 16,
	SCHEDULE_ENDS_MAX = 1 << 12, /* of a queue that are remembered, with `keeps_gaps` */
};

#define SCHEDULE_NEVER UINT64_MAX

struct schedule_options {
	double speed; /* 2: twice as fast; 0: as fast as the queues allow */
	bool keeps_gaps;
	uint32_t queue_count;
	const uint32_t *depths; /* of each queue; borrowed for schedule_create() */
};

struct scheduled {
	struct replay_operation operation;
	uint64_t number;  /* of the operation in the recording */
	uint64_t due_ns;  /* when it should start */
	bool had_to_wait; /* for room in its queue */
	uint64_t order;	  /* within its queue; for schedule_end() */
};

struct schedule;

/* NULL: out of memory. Pair: schedule_destroy(). */
struct schedule *schedule_create(const struct schedule_options *options);
/* Accepts NULL. */
void schedule_destroy(struct schedule *schedule);

/* Should the caller add the next operation of the recording, which begins at `start_ns` there? */
bool schedule_wants(const struct schedule *schedule, uint64_t start_ns, uint64_t now_ns);
/* Add an operation, in the order of the recording. */
void schedule_add(struct schedule *schedule, const struct replay_operation *operation, uint64_t number);
/* An operation that is to start now. False: none. */
MUST_CHECK bool schedule_take(struct schedule *schedule, uint64_t now_ns, struct scheduled *item_ret);
/* An operation that was taken has ended. */
void schedule_end(struct schedule *schedule, const struct scheduled *item, uint64_t now_ns);
/* When the next operation that has room is due; SCHEDULE_NEVER: none until another ends. May be in the past. */
uint64_t schedule_next_ns(const struct schedule *schedule);
/* When an operation that begins at `start_ns` in the recording begins here. */
uint64_t schedule_time(const struct schedule *schedule, uint64_t start_ns);
/* Operations that were added and not taken. */
uint32_t schedule_waiting(const struct schedule *schedule);

#endif
