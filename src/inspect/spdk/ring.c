/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring - selects the entries of a ring, and finds the events in them.
 *
 * Entries are written before `next` includes them, at most source->part_max at a time. So in a ring that is being
 * written, position p was complete when it was copied if p + entries >= `next` + part_max, for a `next` read after the
 * copy.
 *
 * In a file that was copied while it was written, or with a writer that was killed during an event, the oldest places
 * hold entries newer than those that `next` includes: they are skipped, and a few behind them, too.
 *
 * A followed target is read in batches; each is copied and then checked in the same way.
 *
 * SPDK's recorder writes entries from the oldest to the newest and no more than there are. This is detected by a number
 * of entries that is no power of two, or else by the ticks.
 *
 * Entries are read from the file in windows, each time they are needed: a ring may be larger than memory. Rings of a
 * running target are first copied into a temporary file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "inspect/spdk/internal.h"

enum {
	TICKS_APART = 64, /* entries; a tick that was read early is recorded at most this many entries later */
	COPY_BYTES = 1 << 20,
	WINDOWS_BYTES_MAX = 4 << 20, /* for the windows of all rings together */
	WINDOW_ENTRIES_MIN = 64,
	WINDOW_ENTRIES_MAX = 1 << 11,
};

/* Returns the entry at `position`, which must be there; valid until the next call with the same window. */
static const struct spdk_entry *read_entry_at(const struct source *source, const struct ring *ring, struct window *window,
					      uint64_t position)
{
	uint64_t place = ring->linear ? position : position & (ring->entry_count - 1), done, room = source->window_entries;

	if (ring->copy)
		return &ring->copy[position & ring->place_mask];
	if (likely(place - window->first < window->count))
		return &window->entries[place - window->first];
	/* include earlier entries, which may be read again */
	if (window == &ring->about && !ring->waiting_max)
		room = WINDOW_ENTRIES_MIN; /* the next read is at a random place */
	window->first = place - min_u64(place, room / 8);
	window->count = min_u64(room, ring->entries_there - window->first);
	done = read_at(ring->fd, ring->offset + window->first * sizeof(struct spdk_entry), window->entries,
		       window->count * sizeof(struct spdk_entry));
	/* entries behind the end of the file read as zero */
	memset((uint8_t *)window->entries + done, 0, window->count * sizeof(struct spdk_entry) - done);
	return &window->entries[place - window->first];
}

static int allocate_ring_windows(struct source *source)
{
	uint64_t share = WINDOWS_BYTES_MAX / sizeof(struct spdk_entry) / 2 / max_u64(source->ring_count, 1);

	source->window_entries = min_u64(max_u64(share, WINDOW_ENTRIES_MIN), WINDOW_ENTRIES_MAX);
	for (uint32_t i = 0; i < source->ring_count; i++) {
		struct ring *ring = &source->rings[i];

		ring->ahead.entries = malloc(source->window_entries * sizeof(struct spdk_entry));
		ring->about.entries = malloc(source->window_entries * sizeof(struct spdk_entry));
		if (!ring->ahead.entries || !ring->about.entries)
			return -ENOMEM;
	}
	return 0;
}

static bool is_entry_in_file(const struct ring *ring, uint64_t position)
{
	return (ring->linear ? position : position & (ring->entry_count - 1)) < ring->entries_there;
}

/*
 * Do ticks increase from the first place to the last? In a ring they decrease where the oldest entry follows the newest.
 */
static bool is_linear(const struct source *source, struct ring *ring)
{
	uint64_t ticks[TICKS_APART], first;
	uint64_t begin = ring->next & (ring->entry_count - 1), apart = min_u64(TICKS_APART, ring->entry_count / 2);

	if (!is_power_of_two(ring->entry_count))
		return true;
	if (ring->next <= ring->entry_count || begin == 0 || ring->entries_there < ring->entry_count)
		return false;
	first = read_entry_at(source, ring, &ring->ahead, 0)->tick;
	if (first >= read_entry_at(source, ring, &ring->ahead, ring->entry_count - 1)->tick)
		return false;
	for (uint64_t i = 0; i < ring->entry_count; i++) {
		uint64_t tick = read_entry_at(source, ring, &ring->ahead, i)->tick;

		if (i >= apart && tick < ticks[i % apart])
			return false;
		ticks[i % apart] = tick;
	}
	return true;
}

/* Skip entries that are newer than the head. */
static void skip_newer_entries(const struct source *source, struct ring *ring, struct spdk_counts *counts)
{
	uint64_t newest = 0, end = ring->next, bad_end = ring->first, from;

	if (ring->first == 0)
		return;
	for (uint64_t back = 1; back <= min_u64(TICKS_APART, (end - ring->first) / 2); back++) {
		if (is_entry_in_file(ring, end - back))
			newest = max_u64(newest, read_entry_at(source, ring, &ring->ahead, end - back)->tick);
	}
	for (uint64_t position = ring->first; position < end && position - bad_end < TICKS_APART; position++) {
		if (is_entry_in_file(ring, position) && read_entry_at(source, ring, &ring->ahead, position)->tick > newest)
			bad_end = position + 1;
	}
	if (bad_end == ring->first)
		return;
	from = min_u64(bad_end + source->part_max - 1, end);
	counts->torn += from - ring->first;
	ring->first = from;
}

/* Copy the ring to `at` of source->copy_fd. */
static int copy_spdk_ring(const struct source *source, struct ring *ring, uint64_t at)
{
	uint64_t bytes = ring->entries_there * sizeof(struct spdk_entry), count;
	uint8_t *chunk = malloc(COPY_BYTES);
	int rc = chunk ? 0 : -ENOMEM;

	for (uint64_t done = 0; rc == 0 && done < bytes; done += count) {
		count = read_at(ring->fd, ring->offset + done, chunk, min_u64(COPY_BYTES, bytes - done));
		if (count == 0)
			break; /* the file has become shorter */
		rc = file_write_at(source->copy_fd, chunk, count, at + done);
	}
	free(chunk);
	ring->fd = source->copy_fd;
	ring->offset = at;
	return rc;
}

static int init_ring(const struct source *source, struct ring *ring, bool alive, uint64_t copy_at,
		     struct spdk_counts *counts)
{
	uint64_t oldest_complete = 0;

	ring->next = __atomic_load_n(&ring->there->next, __ATOMIC_ACQUIRE);
	if (alive) {
		uint64_t after;
		int rc = copy_spdk_ring(source, ring, copy_at);

		if (rc)
			return rc;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		ring->linear = !is_power_of_two(ring->entry_count);
		after = __atomic_load_n(&ring->there->next, __ATOMIC_RELAXED) + source->part_max;
		oldest_complete = after > ring->entry_count ? after - ring->entry_count : 0;
	} else {
		ring->linear = is_linear(source, ring);
	}
	counts->recorded += ring->next;
	ring->first = ring->next > ring->entry_count ? ring->next - ring->entry_count : 0;
	if (ring->linear) {
		/* positions are indices in the file */
		counts->overwritten += ring->first;
		ring->first = 0;
		ring->next = min_u64(ring->next, ring->entry_count);
	} else {
		ring->first = min_u64(max_u64(ring->first, oldest_complete), ring->next);
		counts->overwritten += ring->first;
		if (!alive)
			skip_newer_entries(source, ring, counts);
	}
	return 0;
}

static bool is_continuation_of(const struct source *source, struct ring *ring, uint64_t position, uint64_t tick)
{
	const struct spdk_entry *entry;

	if (position >= ring->next || !is_entry_in_file(ring, position))
		return false;
	entry = read_entry_at(source, ring, &ring->ahead, position);
	return entry->tpoint == source->part_mark && entry->tick == tick;
}

/* Read the event at `*position`, which must be there, and advance behind what was read. False: not an event. */
static bool read_event_item(struct source *source, uint32_t index, uint64_t *position, struct spdk_counts *counts,
			    struct item *item_ret)
{
	struct ring *ring = &source->rings[index];
	const struct spdk_entry *entry = read_entry_at(source, ring, &ring->ahead, *position);
	uint64_t first = *position, end = first + 1, tick = entry->tick;
	const struct point *point;

	*item_ret = (struct item){
		.tick = tick, .position = first, .ring = index, .point = entry->tpoint, .sized = entry->size != 0
	};
	*position = end;
	if (item_ret->point == source->part_mark) {
		counts->orphans++;
		return false;
	}
	if (tick == 0) {
		counts->missing++; /* never written */
		return false;
	}
	if (item_ret->point >= source->point_count || !source->points[item_ret->point].named) {
		while (is_continuation_of(source, ring, end, tick))
			end++;
		*position = end;
		counts->unknown += end - first;
		return false;
	}
	point = &source->points[item_ret->point];
	while (end < first + point->part_count && is_continuation_of(source, ring, end, tick))
		end++;
	*position = end;
	if (end < first + point->part_count) {
		counts->orphans += end - first;
		return false;
	}
	if (tick < source->main.clear_tick) {
		counts->cleared += end - first;
		return false;
	}
	return true;
}

bool ring_next(struct source *source, uint32_t index, uint64_t *position, uint64_t end, struct spdk_counts *counts,
	       struct item *item_ret)
{
	struct ring *ring = &source->rings[index];

	while (*position < end) {
		uint64_t slot = ring->linear ? *position : *position & (ring->entry_count - 1);

		if (slot < ring->entries_there) {
			if (read_event_item(source, index, position, counts, item_ret))
				return true;
		} else {
			/* a truncated file: continue at the ring's beginning */
			uint64_t count = min_u64(end - *position, ring->entry_count - slot);

			counts->missing += count;
			*position += count;
		}
	}
	return false;
}

int rings_take(struct source *source, bool alive)
{
	uint64_t copied = 0, bytes = 0;
	int rc = allocate_ring_windows(source);

	for (uint32_t i = 0; i < source->ring_count; i++)
		bytes += source->rings[i].entries_there * sizeof(struct spdk_entry);
	if (alive && rc == 0) {
		source->copy_fd = temporary_open(bytes);
		rc = source->copy_fd < 0 ? source->copy_fd : 0;
	}
	for (uint32_t i = 0; i < source->ring_count && rc == 0; i++) {
		struct spdk_ring_counts *counts = &source->image->rings[i];
		struct ring *ring = &source->rings[i];

		rc = init_ring(source, ring, alive, copied, &source->image->counts);
		counts->entry_count = ring->entry_count;
		counts->recorded = __atomic_load_n(&ring->there->next, __ATOMIC_RELAXED);
		copied += ring->entries_there * sizeof(struct spdk_entry);
	}
	return rc ? rc : events_count(source);
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

/* The oldest complete position now. */
static uint64_t oldest_complete(const struct source *source, const struct ring *ring, uint64_t next)
{
	uint64_t end = next + source->part_max;

	return end > ring->entry_count ? end - ring->entry_count : 0;
}

/* Skip entries before `position`. */
static void skip_entries_to(struct ring *ring, uint64_t position, uint64_t end, struct spdk_counts *counts)
{
	position = min_u64(position, end);
	if (position <= ring->first)
		return;
	counts->overwritten += position - ring->first;
	ring->first = position;
}

/* Copy the next entries, up to ring->next. Returns the position behind the last entry at which an event may begin. */
static uint64_t copy_more(const struct source *source, struct ring *ring, struct spdk_counts *counts)
{
	uint64_t next = __atomic_load_n(&ring->there->next, __ATOMIC_ACQUIRE), end;

	ring->first = min_u64(ring->taken, next);
	skip_entries_to(ring, oldest_complete(source, ring, next), next, counts);
	end = min_u64(next, ring->first + FOLLOW_ENTRIES);
	/* include the rest of the last event */
	ring->next = min_u64(next, end + source->part_max);
	for (uint64_t position = ring->first; position < ring->next;) {
		uint64_t from = position & (ring->entry_count - 1), to = position & ring->place_mask;
		uint64_t count = min_u64(ring->next - position, ring->entry_count - from);

		count = min_u64(count, ring->place_mask + 1 - to);

		memcpy(&ring->copy[to], &ring->entries_in_file[from], count * sizeof(struct spdk_entry));
		position += count;
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	skip_entries_to(ring, oldest_complete(source, ring, __atomic_load_n(&ring->there->next, __ATOMIC_RELAXED)),
			ring->next, counts);
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
		struct item item;

		while (rc == 0 && ring_next(source, i, &position, end, &source->image->counts, &item)) {
			source->points[item.point].event_count++;
			source->points[item.point].size_slot |= item.sized;
			ring->record_count += source->points[item.point].record_max;
			if (source->event_count++ == 0 || item.tick < source->start_tick)
				source->start_tick = item.tick;
			rc = items_add(source, &item);
		}
		if (position < ring->next)
			until = min_u64(until, position > ring->first
						       ? read_entry_at(source, ring, &ring->ahead, position - 1)->tick
						       : 0);
		ring->first = position;
	}
	if (rc) {
		/* these entries are read again, or overwritten meanwhile */
		source->image->counts = before;
		source->item_count = 0;
		return rc;
	}
	for (uint32_t i = 0; i < source->ring_count; i++) {
		source->rings[i].taken = source->rings[i].first;
		source->image->rings[i].recorded = source->rings[i].taken;
	}
	items_sort(source);
	*until_ret = until;
	return 0;
}

/* ---- events ---- */

void event_read(struct source *source, const struct item *item, bool with_args, struct event *event_ret)
{
	const struct point *point = &source->points[item->point];
	struct ring *ring = &source->rings[item->ring];
	const struct spdk_entry *entry = read_entry_at(source, ring, &ring->about, item->position);
	uint32_t done = (uint32_t)min_u64(point->arg_bytes, SPDK_HEAD_ARG_BYTES);

	event_ret->tick = item->tick;
	event_ret->ring = item->ring;
	event_ret->point = item->point;
	event_ret->object = entry->object;
	event_ret->size = entry->size;
	event_ret->owner = entry->owner;
	memcpy(event_ret->args, entry->args, done);
	for (uint32_t part = 1; with_args && done < point->arg_bytes; part++) {
		uint32_t count = (uint32_t)min_u64(point->arg_bytes - done, SPDK_PART_ARG_BYTES);

		entry = read_entry_at(source, ring, &ring->about, item->position + part);
		memcpy(event_ret->args + done, entry->part, count);
		done += count;
	}
}

uint64_t arg_number(const uint8_t *at, uint32_t bytes)
{
	uint64_t number = 0;

	memcpy(&number, at, min_u64(bytes, sizeof(number)));
	return number;
}
