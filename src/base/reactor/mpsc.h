/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mpsc - D. Vyukov's intrusive queue: any pthread pushes, one pops.
 *
 *   head -> newest          a pusher exchanges it, then links the previous node to its own
 *   tail -> oldest          only the consumer uses it
 *   stub                    in the queue when it is empty, so that neither end is ever NULL
 *
 * A push is one exchange and one store, never a retry. Between the two the chain is interrupted: mpsc_pop() returns NULL
 * although mpsc_is_empty() returns false. Nodes of one pusher come out in the order of their pushes.
 *
 * The exchange and mpsc_is_empty() are sequentially consistent. So if a consumer announces its sleep with a sequentially
 * consistent store and then finds the queue empty, every later pusher sees the announcement. The wake-up protocol (wait.c)
 * relies on this and needs no fence.
 */
#ifndef REACTOR_MPSC_H
#define REACTOR_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/bits.h"

struct mpsc_node {
	_Atomic(struct mpsc_node *) next;
};

struct mpsc {
	_Atomic(struct mpsc_node *) head; /* pushers' cache line */
	CACHE_ALIGNED struct mpsc_node *tail;
	struct mpsc_node stub;
};

static inline void mpsc_init(struct mpsc *queue)
{
	atomic_store_explicit(&queue->stub.next, NULL, memory_order_relaxed);
	queue->tail = &queue->stub;
	atomic_store(&queue->head, &queue->stub);
}

/* Any pthread. The node is lent to the queue until it is popped. */
static inline void mpsc_push(struct mpsc *queue, struct mpsc_node *node)
{
	struct mpsc_node *before;

	atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
	before = atomic_exchange(&queue->head, node);
	atomic_store_explicit(&before->next, node, memory_order_release);
}

/* Consumer. NULL: the queue is empty, or the oldest node is not linked yet. */
static inline struct mpsc_node *mpsc_pop(struct mpsc *queue)
{
	struct mpsc_node *oldest = queue->tail;
	struct mpsc_node *next = atomic_load_explicit(&oldest->next, memory_order_acquire);

	if (oldest == &queue->stub) {
		if (!next)
			return NULL;
		queue->tail = oldest = next;
		next = atomic_load_explicit(&oldest->next, memory_order_acquire);
	}
	if (!next) {
		/* The last node can leave only after the stub is linked behind it. */
		if (atomic_load_explicit(&queue->head, memory_order_acquire) != oldest)
			return NULL;
		mpsc_push(queue, &queue->stub);
		next = atomic_load_explicit(&oldest->next, memory_order_acquire);
		if (!next)
			return NULL;
	}
	queue->tail = next;
	return oldest;
}

/* Consumer, in every turn: may mpsc_pop() succeed? Cheap; may miss a push that is in progress. */
static inline bool mpsc_may_pop(const struct mpsc *queue)
{
	return queue->tail != &queue->stub || atomic_load_explicit(&queue->stub.next, memory_order_relaxed) != NULL;
}

/* Consumer, before it sleeps or ends: the queue is empty and no push is in progress. */
static inline bool mpsc_is_empty(const struct mpsc *queue)
{
	return queue->tail == &queue->stub && atomic_load(&queue->head) == &queue->stub;
}

#endif
