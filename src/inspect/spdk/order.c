/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order - iterates over the events of all rings by tick, then ring, then position, in bounded memory.
 *
 * Each ring is read from its oldest entry on; a heap of the rings gives the ring with the next event. Within a ring
 * ticks increase, except those that were read earlier than they were recorded: an event is held back until WAITING_MAX
 * later events have been read. The counting pass verifies that this suffices. If it does not, because of a damaged file
 * or a clock that jumped, the ring's events are first sorted into a temporary file, by merging sorted runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "inspect/spdk/internal.h"

enum {
	WAITING_MAX = 256,     /* events of a ring; a power of two */
	RUN_ITEMS = 1 << 16,   /* sorted in memory at once */
	MERGED_RUNS = 16,      /* runs merged at once */
	MERGE_ITEMS = 1 << 10, /* of each run in memory */
};

static int compare_items(const void *left, const void *right)
{
	const struct item *a = left, *b = right;

	if (a->tick != b->tick)
		return a->tick < b->tick ? -1 : 1;
	if (a->ring != b->ring)
		return a->ring < b->ring ? -1 : 1;
	return a->position < b->position ? -1 : a->position > b->position;
}

/* ---- counting ---- */

/* The order of a ring's ticks: `highs` has the highest tick so far, at each of the latest WAITING_MAX events. */
struct tick_watermark {
	uint64_t highs[WAITING_MAX];
	uint64_t high, count;
	bool falls, falls_far;
};

static void watermark_add(struct tick_watermark *watermark, uint64_t tick)
{
	uint64_t *place = &watermark->highs[watermark->count % WAITING_MAX];

	watermark->falls |= tick < watermark->high;
	watermark->falls_far |= watermark->count >= WAITING_MAX && tick < *place;
	*place = watermark->high = max_u64(watermark->high, tick);
	watermark->count++;
}

static void count_ring_events(struct source *source, uint32_t index)
{
	struct ring *ring = &source->rings[index];
	struct tick_watermark watermark = { 0 };
	uint64_t position = ring->first;
	struct item item;

	while (ring_next(source, index, &position, ring->next, &source->image->counts, &item)) {
		struct point *point = &source->points[item.point];

		point->event_count++;
		point->size_slot |= item.sized;
		ring->record_count += point->record_max;
		ring->event_count++;
		if (source->event_count++ == 0 || item.tick < source->start_tick)
			source->start_tick = item.tick;
		watermark_add(&watermark, item.tick);
	}
	ring->waiting_max = watermark.falls_far ? 0 : watermark.falls ? WAITING_MAX : 1;
}

/* ---- sorting a ring with ticks far out of order ---- */

static uint64_t sorted_offset(const struct ring *ring, uint64_t index)
{
	return ring->sorted_offset + index * sizeof(struct item);
}

static int write_runs(struct source *source, uint32_t index, int fd)
{
	struct ring *ring = &source->rings[index];
	struct item *items = malloc(RUN_ITEMS * sizeof(*items));
	uint64_t position = ring->first, written = 0;
	struct spdk_counts ignored = { 0 };
	int rc = items ? 0 : -ENOMEM;

	while (rc == 0 && written < ring->event_count) {
		uint64_t count = 0;

		while (count < min_u64(RUN_ITEMS, ring->event_count - written) &&
		       ring_next(source, index, &position, ring->next, &ignored, &items[count]))
			count++;
		/* a file that has changed meanwhile may have fewer events */
		if (count == 0)
			ring->event_count = written;
		qsort(items, count, sizeof(*items), compare_items);
		rc = file_write_at(fd, items, count * sizeof(*items), sorted_offset(ring, written));
		written += count;
	}
	free(items);
	return rc;
}

struct run {
	struct item *items; /* capacity MERGE_ITEMS, of which `count` are valid */
	uint32_t at, count;
	uint64_t next, end; /* items still in the file */
};

static bool run_has(const struct ring *ring, struct run *run, int fd)
{
	uint64_t bytes;

	if (run->at < run->count)
		return true;
	bytes = min_u64(MERGE_ITEMS, run->end - run->next) * sizeof(struct item);
	run->at = 0;
	run->count = (uint32_t)(read_at(fd, sorted_offset(ring, run->next), run->items, bytes) / sizeof(struct item));
	run->next += run->count;
	return run->count > 0;
}

/* Merge MERGED_RUNS runs of `length` from `from` on into one. `items`: buffers for the runs and for the result. */
static int merge_item_runs(const struct ring *ring, int from_fd, int to_fd, uint64_t from, uint64_t length,
			   struct item *items)
{
	struct run runs[MERGED_RUNS];
	struct item *merged = items + MERGED_RUNS * MERGE_ITEMS;
	uint64_t written = from, count = 0;
	int rc = 0;

	for (uint64_t i = 0; i < MERGED_RUNS; i++) {
		runs[i] = (struct run){ .items = items + i * MERGE_ITEMS,
					.next = min_u64(from + i * length, ring->event_count),
					.end = min_u64(from + (i + 1) * length, ring->event_count) };
	}
	for (struct run *best; rc == 0;) {
		best = NULL;
		for (uint32_t i = 0; i < MERGED_RUNS; i++) {
			struct run *run = &runs[i];

			if (run_has(ring, run, from_fd) &&
			    (!best || compare_items(&run->items[run->at], &best->items[best->at]) < 0))
				best = run;
		}
		if (best)
			merged[count++] = best->items[best->at++];
		if (count == MERGE_ITEMS || !best) {
			rc = file_write_at(to_fd, merged, count * sizeof(*merged), sorted_offset(ring, written));
			written += count;
			count = 0;
		}
		if (!best)
			break;
	}
	if (rc == 0 && written != min_u64(from + MERGED_RUNS * length, ring->event_count))
		rc = -EIO;
	return rc;
}

static int sort_ring(struct source *source, uint32_t index, struct item *items)
{
	struct ring *ring = &source->rings[index];
	int at = 0, rc = write_runs(source, index, source->sorted_fds[at]);

	for (uint64_t length = RUN_ITEMS; rc == 0 && length < ring->event_count; length *= MERGED_RUNS, at = !at) {
		for (uint64_t from = 0; rc == 0 && from < ring->event_count; from += MERGED_RUNS * length)
			rc = merge_item_runs(ring, source->sorted_fds[at], source->sorted_fds[!at], from, length, items);
	}
	ring->sorted_fd = source->sorted_fds[at];
	return rc;
}

static int sort_rings(struct source *source)
{
	struct item *items;
	uint64_t bytes = 0;
	int rc = 0;

	for (uint32_t i = 0; i < source->ring_count; i++) {
		if (source->rings[i].waiting_max)
			continue;
		source->rings[i].sorted_offset = bytes;
		bytes += source->rings[i].event_count * sizeof(struct item);
	}
	if (bytes == 0)
		return 0;
	items = malloc((MERGED_RUNS + 1) * MERGE_ITEMS * sizeof(*items));
	for (int i = 0; i < 2 && rc == 0; i++) {
		source->sorted_fds[i] = temporary_open(bytes);
		rc = source->sorted_fds[i] < 0 ? source->sorted_fds[i] : items ? 0 : -ENOMEM;
	}
	for (uint32_t i = 0; i < source->ring_count && rc == 0; i++) {
		if (!source->rings[i].waiting_max)
			rc = sort_ring(source, i, items);
	}
	free(items);
	return rc;
}

int events_count(struct source *source)
{
	for (uint32_t i = 0; i < source->ring_count; i++)
		count_ring_events(source, i);
	return sort_rings(source);
}

/* ---- iterating ---- */

static struct item *waiting_item(const struct ring *ring, uint32_t index)
{
	return &ring->waiting[(ring->waiting_at + index) % WAITING_MAX];
}

/* Read enough events to know which is next. */
static void fill_ring(struct source *source, uint32_t index)
{
	struct ring *ring = &source->rings[index];
	struct item item;

	if (!ring->waiting_max && ring->waiting_count == 0) {
		uint64_t count = min_u64(WAITING_MAX, ring->event_count - ring->sorted_taken);

		ring->waiting_at = 0;
		ring->waiting_count = (uint32_t)(read_at(ring->sorted_fd, sorted_offset(ring, ring->sorted_taken),
							 ring->waiting, count * sizeof(item)) /
						 sizeof(item));
		ring->sorted_taken += ring->waiting_count;
		if (ring->waiting_count < count)
			source->unread = true;
	}
	while (ring->waiting_count < ring->waiting_max &&
	       ring_next(source, index, &ring->position, ring->next, &source->ignored, &item)) {
		uint32_t at = ring->waiting_count++;

		for (; at > 0 && waiting_item(ring, at - 1)->tick > item.tick; at--)
			*waiting_item(ring, at) = *waiting_item(ring, at - 1);
		*waiting_item(ring, at) = item;
	}
}

static bool comes_before(const struct source *source, uint32_t left, uint32_t right)
{
	return compare_items(waiting_item(&source->rings[left], 0), waiting_item(&source->rings[right], 0)) < 0;
}

/* Move the ring at `at` of the heap down to its place. */
static void sift_ring_down(struct source *source, uint32_t at)
{
	uint32_t *heap = source->heap, moved = heap[at];

	for (uint32_t child; (child = 2 * at + 1) < source->heap_count; at = child) {
		if (child + 1 < source->heap_count && comes_before(source, heap[child + 1], heap[child]))
			child++;
		if (!comes_before(source, heap[child], moved))
			break;
		heap[at] = heap[child];
	}
	heap[at] = moved;
}

int events_begin(struct source *source)
{
	source->item_next = 0;
	source->heap_count = 0;
	if (source->live)
		return 0;
	if (!source->heap)
		source->heap = calloc(source->ring_count + 1, sizeof(*source->heap));
	if (!source->heap)
		return -ENOMEM;
	for (uint32_t i = 0; i < source->ring_count; i++) {
		struct ring *ring = &source->rings[i];

		ring->position = ring->first;
		ring->sorted_taken = ring->waiting_at = ring->waiting_count = 0;
		if (ring->event_count && !ring->waiting)
			ring->waiting = malloc(WAITING_MAX * sizeof(*ring->waiting));
		if (ring->event_count && !ring->waiting)
			return -ENOMEM;
		if (ring->event_count)
			fill_ring(source, i);
		if (ring->waiting_count)
			source->heap[source->heap_count++] = i;
	}
	for (uint32_t i = source->heap_count / 2; i-- > 0;)
		sift_ring_down(source, i);
	return 0;
}

bool events_next(struct source *source, struct item *item_ret)
{
	struct ring *ring;

	if (source->live) {
		if (source->item_next == source->item_count)
			return false;
		*item_ret = source->items[source->item_next++];
		return true;
	}
	if (source->heap_count == 0)
		return false;
	ring = &source->rings[source->heap[0]];
	*item_ret = *waiting_item(ring, 0);
	ring->waiting_at++;
	ring->waiting_count--;
	fill_ring(source, source->heap[0]);
	if (ring->waiting_count == 0)
		source->heap[0] = source->heap[--source->heap_count];
	if (source->heap_count)
		sift_ring_down(source, 0);
	return true;
}

/* ---- batches of a followed target ---- */

int items_add(struct source *source, const struct item *item)
{
	if (source->item_count == source->item_room) {
		uint64_t room = source->item_room ? source->item_room * 2 : 4096;
		struct item *items = realloc(source->items, room * sizeof(*items));

		if (!items)
			return -ENOMEM;
		source->items = items;
		source->item_room = room;
	}
	source->items[source->item_count++] = *item;
	return 0;
}

/* Sort only if necessary: events of one thread are mostly in order, and sorting needs as much memory again. */
void items_sort(struct source *source)
{
	for (uint64_t i = 1; i < source->item_count; i++) {
		if (compare_items(&source->items[i - 1], &source->items[i]) > 0) {
			/* each ring is nearly sorted, the best case of a merge sort */
			qsort(source->items, source->item_count, sizeof(*source->items), compare_items);
			return;
		}
	}
}
