/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share - operations that wait for a place in a bounded resource (a ring, the helper pthreads), each user in turn.
 *
 * Each user (a device) has `reserved` places that no other user can take. Beyond them it takes common places, of which
 * there are `common_max`, up to `share_max` places in all. So users that hold their places for ever leave every other
 * user its reserved places, and the common ones as long as those last. Users that wait are served one operation each,
 * in turn.
 *
 *   IDLE      nothing waits
 *   READY     in `ready`: has operations that may go
 *   FULL      holds share_max places; the next operation of its own that ends makes it READY
 *   STARVED   in `starved`: holds its reserved places, and no common place is free; one that becomes free goes to the first
 *
 * Pure: no clock, no I/O, no lock. The owner of the pool serialises.
 */
#ifndef REACTOR_SHARE_H
#define REACTOR_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/reactor/reactor.h"

struct op_pool {
	uint32_t capacity; /* places in all */
	uint32_t common_max, reserved, share_max;
	uint32_t used, common_used;
	uint32_t waiting; /* operations */
	TAILQ_HEAD(, op_share) ready, starved;
};

void op_pool_init(struct op_pool *pool, uint32_t capacity, uint32_t common_max, uint32_t reserved, uint32_t share_max);

void op_share_init(struct op_share *share);
/* Nothing of it waits, and it holds no place. */
void op_share_deinit(struct op_share *share);

/* `op` waits as the last of `share`'s operations. `op->next` is used. */
void op_push(struct op_pool *pool, struct op_share *share, struct uring_op *op);
/* The next operation that may go; it holds a place from now on. NULL: none may. */
struct uring_op *op_take(struct op_pool *pool);
/* One operation of `share` has ended, and its place is free. */
void op_give_back(struct op_pool *pool, struct op_share *share);
/* Whether op_take() would find one. */
static inline bool op_may_take(const struct op_pool *pool)
{
	return !TAILQ_EMPTY(&pool->ready);
}

#endif
