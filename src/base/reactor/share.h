/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share - distributes the places of a bounded resource (a ring, the helper pthreads) fairly among its users.
 *
 * Each user (a device) has `reserved` places that no other user can take. Beyond them it takes common places, of which
 * there are `common_max`, up to `share_max` places in all. So users that never release their places leave every other
 * user its reserved places, and the common places that are still free. Waiting users are served round-robin, one operation
 * each.
 *
 *   IDLE      no operation waits
 *   READY     in `ready`: has operations that may start
 *   FULL      holds share_max places; the next completion of its own makes it READY
 *   STARVED   in `starved`: operations wait and no place is free for it; the first in `starved` gets the next free place
 *
 * Pure: no clock, no I/O, no lock. The owner of the pool serializes calls.
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
/* No operation of the share may wait, and it must hold no place. */
void op_share_deinit(struct op_share *share);

/* Append `op` to `share`'s waiting operations. Uses `op->next`. */
void op_push(struct op_pool *pool, struct op_share *share, struct uring_op *op);
/* Remove and return the next operation that may start; it holds a place from now on. NULL: none may start. */
struct uring_op *op_take(struct op_pool *pool);
/* Release the place of one completed operation of `share`. */
void op_give_back(struct op_pool *pool, struct op_share *share);
/* Whether op_take() may return an operation. */
static inline bool op_may_take(const struct op_pool *pool)
{
	return !TAILQ_EMPTY(&pool->ready);
}

#endif
