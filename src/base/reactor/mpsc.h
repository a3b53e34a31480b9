/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mpsc - D. Vyukov's intrusive queue: any pthread pushes, one pops.
 *
 *   head -> newest          pushers exchange it, then link the one before to theirs
 *   tail -> oldest          the consumer's own
 *   stub                    stands in when the queue is empty, so that neither end is ever NULL
 *
 * A push is one exchange and one store, never a retry. Between the two the queue is cut: mpsc_pop() returns NULL although
 * mpsc_is_empty() says false; the pusher is about to link. Nodes of one pusher come out in the order of their pushes.
 *
 * The exchange is sequentially consistent, and so is mpsc_is_empty(): a consumer that announces its sleep with an equally
 * strong store and then finds the queue empty can rely on every later pusher seeing the announcement. That is the whole
 * protocol of waking (wait.c), and why it needs no fence.
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

/* Any pthread. The node is the queue's until popped. */
static inline void mpsc_push(struct mpsc *queue, struct mpsc_node *node)
{
	struct mpsc_node *before;

	atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
	before = atomic_exchange(&queue->head, node);
	atomic_store_explicit(&before->next, node, memory_order_release);
}

/* Consumer. NULL: nothing that is linked. */
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
		/* The last one can only leave with the stub behind it. */
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

/* Consumer, in every turn: is there something to try for? Cheap, and may miss what is being pushed right now. */
static inline bool mpsc_may_pop(const struct mpsc *queue)
{
	return queue->tail != &queue->stub || atomic_load_explicit(&queue->stub.next, memory_order_relaxed) != NULL;
}

/* Consumer, before it sleeps or goes: nothing inside, also nothing half pushed. */
static inline bool mpsc_is_empty(const struct mpsc *queue)
{
	return queue->tail == &queue->stub && atomic_load(&queue->head) == &queue->stub;
}

#endif
