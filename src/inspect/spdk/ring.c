/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring - which entries of a ring count, and which of them are events.
 *
 * An entry is written before `next` says so, at most source->part_max of them at a time. So of a ring that is being
 * written, position p was whole when it was copied if p + entries >= the `next` that was read afterwards + part_max.
 *
 * In a file that was copied while it was written, or whose writer was killed in the middle of an event, the oldest places
 * hold entries that are newer than all that `next` counts: they are left out, and the few behind them, too.
 *
 * A target that is followed is taken piece by piece, each copied and then checked in the same way.
 *
 * SPDK's recorder writes the entries from the oldest to the newest and as many as there were. That is no power of two, or
 * else the ticks tell.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inspect/spdk/internal.h"

enum { TICKS_APART = 64 /* entries; a tick that was read earlier is recorded no later than so many behind */ };

static bool is_there(const struct ring *ring, uint64_t position)
{
	return (ring->linear ? position : position & (ring->entry_count - 1)) < ring->entries_there;
}

/* Do the ticks grow from the first place to the last? In a ring they fall where the oldest follows the newest. */
static bool is_linear(const struct ring *ring)
{
	uint64_t begin = ring->next & (ring->entry_count - 1), apart = min_u64(TICKS_APART, ring->entry_count / 2);

	if (!is_power_of_two(ring->entry_count))
		return true;
	if (ring->next <= ring->entry_count || begin == 0 || ring->entries_there < ring->entry_count ||
	    ring->entries[0].tick >= ring->entries[ring->entry_count - 1].tick)
		return false;
	for (uint64_t i = apart; i < ring->entry_count; i++) {
		if (ring->entries[i].tick < ring->entries[i - apart].tick)
			return false;
	}
	return true;
}

/* Leave out what is newer than the head. */
static void distrust(const struct source *source, struct ring *ring, struct spdk_counts *counts)
{
	uint64_t newest = 0, end = ring->next, bad_end = ring->first, from;

	if (ring->first == 0)
		return;
	for (uint64_t back = 1; back <= min_u64(TICKS_APART, (end - ring->first) / 2); back++) {
		if (is_there(ring, end - back))
			newest = max_u64(newest, ring_entry(ring, end - back)->tick);
	}
	for (uint64_t position = ring->first; position < end && position - bad_end < TICKS_APART; position++) {
		if (is_there(ring, position) && ring_entry(ring, position)->tick > newest)
			bad_end = position + 1;
	}
	if (bad_end == ring->first)
		return;
	from = min_u64(bad_end + source->part_max - 1, end);
	counts->torn += from - ring->first;
	ring->first = from;
}

/* They are in the file, and were looked at once: a large ring shall not be in our memory twice. */
static void forget_pages(const void *from, uint64_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = round_up((uintptr_t)from, page),
		  end = ((uintptr_t)from + bytes) / page * page;

	if (end > begin)
		(void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* only advice */
}

static int begin(const struct source *source, struct ring *ring, bool alive, struct spdk_counts *counts)
{
	uint64_t whole_from = 0;

	ring->next = __atomic_load_n(&ring->there->next, __ATOMIC_ACQUIRE);
	ring->place_mask = ring->entry_count - 1;
	if (alive) {
		uint64_t after;

		ring->copy = malloc(ring->entries_there * sizeof(struct spdk_entry) + 1);
		if (!ring->copy)
			return -ENOMEM;
		memcpy(ring->copy, ring->entries, ring->entries_there * sizeof(struct spdk_entry));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		ring->entries = ring->copy;
		forget_pages(ring->entries_in_file, ring->entries_there * sizeof(struct spdk_entry));
		ring->linear = !is_power_of_two(ring->entry_count);
		after = __atomic_load_n(&ring->there->next, __ATOMIC_RELAXED) + source->part_max;
		whole_from = after > ring->entry_count ? after - ring->entry_count : 0;
	} else {
		ring->linear = is_linear(ring);
	}
	counts->recorded += ring->next;
	ring->first = ring->next > ring->entry_count ? ring->next - ring->entry_count : 0;
	if (ring->linear) {
		/* positions are places in the file */
		counts->overwritten += ring->first;
		ring->first = 0;
		ring->next = min_u64(ring->next, ring->entry_count);
	} else {
		ring->first = min_u64(max_u64(ring->first, whole_from), ring->next);
		counts->overwritten += ring->first;
		if (!alive)
			distrust(source, ring, counts);
	}
	return 0;
}

static int add_item(struct source *source, const struct item *item)
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

static bool is_part_of(const struct source *source, const struct ring *ring, uint64_t position, uint64_t tick)
{
	const struct spdk_entry *entry;

	if (position >= ring->next || !is_there(ring, position))
		return false;
	entry = ring_entry(ring, position);
	return entry->tpoint == source->part_mark && entry->tick == tick;
}

/* The entry at `position`, which is there. `*end_ret`: the position behind what was dealt with. */
static int take(struct source *source, uint32_t index, uint64_t position, uint64_t *end_ret)
{
	const struct ring *ring = &source->rings[index];
	const struct spdk_entry *entry = ring_entry(ring, position);
	struct spdk_counts *counts = &source->image->counts;
	uint64_t end = position + 1;
	struct point *point;

	if (entry->tpoint == source->part_mark) {
		counts->orphans++;
	} else if (entry->tick == 0) {
		counts->missing++; /* never written */
	} else if (entry->tpoint >= source->point_count || !source->points[entry->tpoint].named) {
		while (is_part_of(source, ring, end, entry->tick))
			end++;
		counts->unknown += end - position;
	} else {
		point = &source->points[entry->tpoint];
		while (end < position + point->part_count && is_part_of(source, ring, end, entry->tick))
			end++;
		*end_ret = end;
		if (end < position + point->part_count) {
			counts->orphans += end - position;
			return 0;
		}
		if (entry->tick < source->main.clear_tick) {
			counts->cleared += end - position;
			return 0;
		}
		point->event_count++;
		point->size_slot |= entry->size != 0;
		return add_item(source,
				&(struct item){
					.tick = entry->tick, .position = position, .ring = index, .point = entry->tpoint });
	}
	*end_ret = end;
	return 0;
}

static int take_ring(struct source *source, uint32_t index)
{
	struct ring *ring = &source->rings[index];
	uint64_t position = ring->first;
	int rc = 0;

	while (rc == 0 && position < ring->next) {
		uint64_t slot = ring->linear ? position : position & (ring->entry_count - 1);

		if (slot < ring->entries_there) {
			rc = take(source, index, position, &position);
		} else {
			/* a truncated file: go on at the ring's beginning */
			uint64_t count = min_u64(ring->next - position, ring->entry_count - slot);

			source->image->counts.missing += count;
			position += count;
		}
	}
	return rc;
}

static int compare(const void *left, const void *right)
{
	const struct item *a = left, *b = right;

	if (a->tick != b->tick)
		return a->tick < b->tick ? -1 : 1;
	if (a->ring != b->ring)
		return a->ring < b->ring ? -1 : 1;
	return a->position < b->position ? -1 : a->position > b->position;
}

/* All items by tick. Those of one thread mostly are already, and sorting takes as much memory again. */
static void sort_items(struct source *source)
{
	for (uint64_t i = 1; i < source->item_count; i++) {
		if (compare(&source->items[i - 1], &source->items[i]) > 0) {
			qsort(source->items, source->item_count, sizeof(*source->items), compare);
			return;
		}
	}
}

int rings_take(struct source *source, bool alive)
{
	int rc = 0;

	for (uint32_t i = 0; i < source->ring_count && rc == 0; i++) {
		struct spdk_ring_counts *counts = &source->image->rings[i];

		rc = begin(source, &source->rings[i], alive, &source->image->counts);
		counts->entry_count = source->rings[i].entry_count;
		counts->recorded = __atomic_load_n(&source->rings[i].there->next, __ATOMIC_RELAXED);
		if (rc == 0)
			rc = take_ring(source, i);
	}
	/* each ring is nearly in order, which is the best case of a merge sort */
	if (rc == 0)
		sort_items(source);
	return rc;
}

/* ---- following ---- */

int rings_follow(struct source *source)
{
	for (uint32_t i = 0; i < source->ring_count; i++) {
		struct ring *ring = &source->rings[i];
		uint64_t room = min_u64(ring->entry_count, 2 * FOLLOW_ENTRIES);

		if (!is_power_of_two(ring->entry_count) || ring->entries_there < ring->entry_count)
			return -ENOTSUP;
		ring->copy = malloc(room * sizeof(struct spdk_entry));
		if (!ring->copy)
			return -ENOMEM;
		ring->place_mask = room - 1;
		ring->next = __atomic_load_n(&ring->there->next, __ATOMIC_ACQUIRE);
		ring->taken = ring->next - min_u64(ring->next, min_u64(ring->entry_count, FOLLOW_ENTRIES));
	}
	return 0;
}

/* The oldest position that is whole now. */
static uint64_t whole_from(const struct source *source, const struct ring *ring, uint64_t next)
{
	uint64_t end = next + source->part_max;

	return end > ring->entry_count ? end - ring->entry_count : 0;
}

/* Leave out what is before `position`. */
static void skip_to(struct ring *ring, uint64_t position, uint64_t end, struct spdk_counts *counts)
{
	position = min_u64(position, end);
	if (position <= ring->first)
		return;
	counts->overwritten += position - ring->first;
	ring->first = position;
}

/* Copy what is next, up to ring->next. Returns the position behind the last entry that an event may begin with. */
static uint64_t copy_more(const struct source *source, struct ring *ring, struct spdk_counts *counts)
{
	uint64_t next = __atomic_load_n(&ring->there->next, __ATOMIC_ACQUIRE), end;

	ring->first = min_u64(ring->taken, next);
	skip_to(ring, whole_from(source, ring, next), next, counts);
	end = min_u64(next, ring->first + FOLLOW_ENTRIES);
	/* with the rest of the last event */
	ring->next = min_u64(next, end + source->part_max);
	for (uint64_t position = ring->first; position < ring->next;) {
		uint64_t from = position & (ring->entry_count - 1), to = position & ring->place_mask;
		uint64_t count = min_u64(ring->next - position, ring->entry_count - from);

		count = min_u64(count, ring->place_mask + 1 - to);

		memcpy(&ring->copy[to], &ring->entries_in_file[from], count * sizeof(struct spdk_entry));
		position += count;
	}
	ring->entries = ring->copy;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	skip_to(ring, whole_from(source, ring, __atomic_load_n(&ring->there->next, __ATOMIC_RELAXED)), ring->next, counts);
	counts->recorded += ring->next - ring->taken;
	return end;
}

int rings_take_more(struct source *source, uint64_t *until_ret)
{
	struct spdk_counts before = source->image->counts;
	uint64_t until = UINT64_MAX;
	int rc = 0;

	source->item_count = 0;
	for (uint32_t i = 0; i < source->ring_count && rc == 0; i++) {
		struct ring *ring = &source->rings[i];
		uint64_t end = copy_more(source, ring, &source->image->counts), position = ring->first;

		while (rc == 0 && position < end)
			rc = take(source, i, position, &position);
		if (position < ring->next)
			until = min_u64(until, position > ring->first ? ring_entry(ring, position - 1)->tick : 0);
		ring->first = position;
	}
	if (rc) {
		/* they are taken again, or overwritten meanwhile */
		source->image->counts = before;
		source->item_count = 0;
		return rc;
	}
	for (uint32_t i = 0; i < source->ring_count; i++) {
		source->rings[i].taken = source->rings[i].first;
		source->image->rings[i].recorded = source->rings[i].taken;
	}
	sort_items(source);
	*until_ret = until;
	return 0;
}

/* ---- arguments ---- */

void arg_take(struct arg_cursor *cursor, uint8_t *to, uint32_t bytes)
{
	while (bytes > 0) {
		const struct spdk_entry *entry = ring_entry(cursor->ring, cursor->position);
		uint32_t there = cursor->in_part ? SPDK_PART_ARG_BYTES : SPDK_HEAD_ARG_BYTES;
		uint32_t count = (uint32_t)min_u64(bytes, there - cursor->at);

		memcpy(to, (cursor->in_part ? entry->part : entry->args) + cursor->at, count);
		to += count;
		bytes -= count;
		cursor->at += count;
		/* the next entry is gone to only when something is wanted of it */
		if (cursor->at == there && bytes > 0) {
			cursor->position++;
			cursor->at = 0;
			cursor->in_part = true;
		}
	}
}

uint64_t arg_number(const uint8_t *at, uint32_t bytes)
{
	uint64_t number = 0;

	memcpy(&number, at, min_u64(bytes, sizeof(number)));
	return number;
}
