/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schedule - queues of operations.
 *
 * For `keeps_gaps`, a queue has a heap with the recorded ends of the operations added so far. When an operation is added,
 * ends before its beginning leave the heap; the latest of them is the one that it follows. The actual ends stand in a
 * table by order; one that was overwritten there ended long ago.
 */
#include "inspect/replay/schedule.h"

#include <stdlib.h>
#include <sys/queue.h>

enum { FOLLOWS_NONE = 0 }; /* orders begin at 1 */

struct item {
	struct scheduled scheduled;
	uint64_t follows; /* the order of the operation whose end it follows; FOLLOWS_NONE */
	uint64_t gap_ns;
	STAILQ_ENTRY(item) link;
};

struct recorded_end {
	uint64_t end_ns, order;
};

struct actual_end {
	uint64_t order; /* 0: none */
	uint64_t end_ns;
};

struct queue {
	STAILQ_HEAD(, item) items;
	uint32_t depth, in_flight;
	uint64_t order;		    /* of the latest added */
	uint64_t full_ns;	    /* when an operation was due and had no room, the last time */
	struct recorded_end latest; /* in the recording, before the latest added began */
	struct recorded_end *heap;  /* SCHEDULE_ENDS_MAX, with `keeps_gaps` */
	uint32_t heap_count;
	struct actual_end *ends; /* SCHEDULE_ENDS_MAX, by order */
};

struct schedule {
	struct schedule_options options;
	uint32_t waiting;
	uint32_t turn; /* the queue to look at first */
	STAILQ_HEAD(, item) free;
	struct item *items;
	struct queue *queues;
};

/* ---- recorded ends ---- */

static void heap_swap(struct recorded_end *a, struct recorded_end *b)
{
	struct recorded_end kept = *a;

	*a = *b;
	*b = kept;
}

static void heap_pop(struct queue *queue)
{
	uint32_t at = 0, child;

	queue->heap[0] = queue->heap[--queue->heap_count];
	while ((child = 2 * at + 1) < queue->heap_count) {
		if (child + 1 < queue->heap_count && queue->heap[child + 1].end_ns < queue->heap[child].end_ns)
			child++;
		if (queue->heap[at].end_ns <= queue->heap[child].end_ns)
			break;
		heap_swap(&queue->heap[at], &queue->heap[child]);
		at = child;
	}
}

static void heap_push(struct queue *queue, struct recorded_end end)
{
	uint32_t at;

	if (queue->heap_count == SCHEDULE_ENDS_MAX)
		heap_pop(queue);
	at = queue->heap_count++;
	queue->heap[at] = end;
	for (; at > 0 && queue->heap[(at - 1) / 2].end_ns > queue->heap[at].end_ns; at = (at - 1) / 2)
		heap_swap(&queue->heap[(at - 1) / 2], &queue->heap[at]);
}

/* Find the operation whose end this one follows. */
static void follow(struct schedule *schedule, struct queue *queue, struct item *item)
{
	const struct replay_operation *operation = &item->scheduled.operation;

	while (queue->heap_count > 0 && queue->heap[0].end_ns <= operation->start_ns) {
		queue->latest = queue->heap[0];
		heap_pop(queue);
	}
	item->follows = queue->latest.order;
	if (item->follows != FOLLOWS_NONE)
		item->gap_ns = schedule_time(schedule, operation->start_ns - queue->latest.end_ns);
	if (operation->latency_ns != REPLAY_NO_LATENCY)
		heap_push(queue,
			  (struct recorded_end){ operation->start_ns + operation->latency_ns, item->scheduled.order });
}

/* ---- create and destroy ---- */

struct schedule *schedule_create(const struct schedule_options *options)
{
	struct schedule *schedule = calloc(1, sizeof(*schedule));
	bool good = schedule != NULL;

	if (!schedule)
		return NULL;
	schedule->options = *options;
	schedule->options.depths = NULL;
	STAILQ_INIT(&schedule->free);
	schedule->items = calloc(SCHEDULE_WAITING_MAX, sizeof(*schedule->items));
	schedule->queues = calloc(options->queue_count + 1, sizeof(*schedule->queues));
	good = schedule->items && schedule->queues;
	for (uint32_t i = 0; good && i < options->queue_count; i++) {
		struct queue *queue = &schedule->queues[i];

		must(options->depths[i] > 0);
		STAILQ_INIT(&queue->items);
		queue->depth = options->depths[i];
		if (options->keeps_gaps) {
			queue->heap = calloc(SCHEDULE_ENDS_MAX, sizeof(*queue->heap));
			queue->ends = calloc(SCHEDULE_ENDS_MAX, sizeof(*queue->ends));
			good = queue->heap && queue->ends;
		}
	}
	if (!good) {
		schedule_destroy(schedule);
		return NULL;
	}
	for (uint32_t i = 0; i < SCHEDULE_WAITING_MAX; i++)
		STAILQ_INSERT_TAIL(&schedule->free, &schedule->items[i], link);
	return schedule;
}

void schedule_destroy(struct schedule *schedule)
{
	if (!schedule)
		return;
	for (uint32_t i = 0; schedule->queues && i < schedule->options.queue_count; i++) {
		free(schedule->queues[i].heap);
		free(schedule->queues[i].ends);
	}
	free(schedule->queues);
	free(schedule->items);
	free(schedule);
}

/* ---- run ---- */

uint64_t schedule_time(const struct schedule *schedule, uint64_t start_ns)
{
	double speed = schedule->options.speed;

	if (speed == 0)
		return 0;
	if (speed == 1)
		return start_ns;
	return (uint64_t)((double)start_ns / speed);
}

bool schedule_wants(const struct schedule *schedule, uint64_t start_ns, uint64_t now_ns)
{
	if (schedule->waiting == SCHEDULE_WAITING_MAX)
		return false;
	return schedule->options.keeps_gaps || schedule_time(schedule, start_ns) <= now_ns;
}

void schedule_add(struct schedule *schedule, const struct replay_operation *operation, uint64_t number)
{
	struct queue *queue = &schedule->queues[operation->queue];
	struct item *item = STAILQ_FIRST(&schedule->free);

	must(operation->queue < schedule->options.queue_count);
	must(item);
	STAILQ_REMOVE_HEAD(&schedule->free, link);
	*item = (struct item){ .scheduled = { .operation = *operation,
					      .number = number,
					      .due_ns = schedule_time(schedule, operation->start_ns),
					      .order = ++queue->order } };
	if (schedule->options.keeps_gaps)
		follow(schedule, queue, item);
	STAILQ_INSERT_TAIL(&queue->items, item, link);
	schedule->waiting++;
}

/* When the queue's first operation is due; SCHEDULE_NEVER: none waits, or the one that it follows has not ended. */
static uint64_t first_due_ns(const struct queue *queue)
{
	const struct item *item = STAILQ_FIRST(&queue->items);
	const struct actual_end *end;

	if (!item)
		return SCHEDULE_NEVER;
	if (item->follows == FOLLOWS_NONE)
		return item->scheduled.due_ns;
	end = &queue->ends[item->follows % SCHEDULE_ENDS_MAX];
	if (end->order < item->follows)
		return SCHEDULE_NEVER;
	return end->order == item->follows ? end->end_ns + item->gap_ns : 0;
}

static bool has_room(const struct queue *queue)
{
	return queue->in_flight < queue->depth;
}

bool schedule_take(struct schedule *schedule, uint64_t now_ns, struct scheduled *item_ret)
{
	for (uint32_t i = 0; schedule->waiting > 0 && i < schedule->options.queue_count; i++) {
		struct queue *queue = &schedule->queues[(schedule->turn + i) % schedule->options.queue_count];
		struct item *item = STAILQ_FIRST(&queue->items);
		uint64_t due_ns = first_due_ns(queue);

		if (due_ns > now_ns)
			continue;
		if (!has_room(queue)) {
			queue->full_ns = now_ns;
			continue;
		}
		if (item->follows != FOLLOWS_NONE)
			item->scheduled.due_ns = due_ns > 0 ? due_ns : now_ns;
		item->scheduled.had_to_wait = item->scheduled.due_ns < queue->full_ns;
		*item_ret = item->scheduled;
		STAILQ_REMOVE_HEAD(&queue->items, link);
		STAILQ_INSERT_HEAD(&schedule->free, item, link);
		schedule->waiting--;
		schedule->turn = (schedule->turn + i + 1) % schedule->options.queue_count;
		queue->in_flight++;
		return true;
	}
	return false;
}

void schedule_end(struct schedule *schedule, const struct scheduled *item, uint64_t now_ns)
{
	struct queue *queue = &schedule->queues[item->operation.queue];

	must(queue->in_flight > 0);
	queue->in_flight--;
	if (queue->ends)
		queue->ends[item->order % SCHEDULE_ENDS_MAX] = (struct actual_end){ item->order, now_ns };
}

uint64_t schedule_next_ns(const struct schedule *schedule)
{
	uint64_t next_ns = SCHEDULE_NEVER;

	for (uint32_t i = 0; schedule->waiting > 0 && i < schedule->options.queue_count; i++) {
		if (has_room(&schedule->queues[i]))
			next_ns = min_u64(next_ns, first_due_ns(&schedule->queues[i]));
	}
	return next_ns;
}

uint32_t schedule_waiting(const struct schedule *schedule)
{
	return schedule->waiting;
}
