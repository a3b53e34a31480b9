/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of a thread's timed pollers. Registering a poller reserves its room; running timers allocates nothing. */
#include <errno.h>
#include <stdlib.h>

#include "base/reactor/internal.h"

void timer_heap_init(struct timer_heap *heap)
{
	*heap = (struct timer_heap){ .due = UINT64_MAX };
}

void timer_heap_deinit(struct timer_heap *heap)
{
	must(heap->count == 0);
	free(heap->pollers);
	timer_heap_init(heap);
}

int timer_heap_reserve(struct timer_heap *heap, uint32_t count)
{
	uint32_t room = (uint32_t)round_up_power_of_two(count < 8 ? 8 : count);
	struct poller **pollers;

	if (count <= heap->room)
		return 0;
	pollers = realloc(heap->pollers, room * sizeof(*pollers));
	if (!pollers)
		return -ENOMEM;
	heap->pollers = pollers;
	heap->room = room;
	return 0;
}

static bool is_before(const struct poller *a, const struct poller *b)
{
	return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void place_poller(struct timer_heap *heap, uint32_t index, struct poller *poller)
{
	heap->pollers[index] = poller;
	poller->heap_index = index;
}

static void sift_up(struct timer_heap *heap, struct poller *poller, uint32_t index)
{
	while (index > 0 && is_before(poller, heap->pollers[(index - 1) / 2])) {
		place_poller(heap, index, heap->pollers[(index - 1) / 2]);
		index = (index - 1) / 2;
	}
	place_poller(heap, index, poller);
}

static void sift_down(struct timer_heap *heap, struct poller *poller, uint32_t index)
{
	for (;;) {
		uint32_t child = index * 2 + 1;

		if (child + 1 < heap->count && is_before(heap->pollers[child + 1], heap->pollers[child]))
			child++;
		if (child >= heap->count || !is_before(heap->pollers[child], poller))
			break;
		place_poller(heap, index, heap->pollers[child]);
		index = child;
	}
	place_poller(heap, index, poller);
}

static void refresh_due(struct timer_heap *heap)
{
	heap->due = heap->count > 0 ? heap->pollers[0]->due : UINT64_MAX;
}

void timer_heap_insert(struct timer_heap *heap, struct poller *poller, uint64_t due)
{
	must(heap->count < heap->room);
	poller->due = due;
	poller->order = ++heap->order_last;
	sift_up(heap, poller, heap->count++);
	refresh_due(heap);
}

void timer_heap_remove(struct timer_heap *heap, struct poller *poller)
{
	uint32_t index = poller->heap_index;
	struct poller *last;

	must(index < heap->count);
	must(heap->pollers[index] == poller);
	last = heap->pollers[--heap->count];
	if (last != poller) {
		if (index > 0 && is_before(last, heap->pollers[(index - 1) / 2]))
			sift_up(heap, last, index);
		else
			sift_down(heap, last, index);
	}
	refresh_due(heap);
}
