/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring - reads one ring that a writer may be changing.
 *
 * A window of records is copied, then the head is read again: records that the writer may have overwritten meanwhile are
 * dropped (format.h has the rule). That suffices for the file itself, live or left by a killed process.
 *
 * A *copy* of a live file, made by cp, has a head that is older than some of its records, since the writer continued
 * during the copy. Read from that head, such a ring begins with records that are newer than the following ones. The last
 * place where the sequence number falls back is where the writer was when cp copied that part. Records in front of it
 * are skipped, as are the TRACE_PARTS_MAX records behind it, one of which may be half old and half new.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/trace/internal.h"

enum {
	LATEST_LOOKED_AT = 64,
	CATCH_UP_TRIES = 8, /* each with a smaller part of the ring: from an eighth to a thousandth */
};

static const struct trace_record *record_at(const struct ring_reader *ring, uint64_t position)
{
	return &ring->ring->records[position & (ring->entry_count - 1)];
}

/* The oldest complete position if the head is `head`. */
static uint64_t oldest_whole(const struct ring_reader *ring, uint64_t head)
{
	return trace_oldest_whole(ring->entry_count, head);
}

static bool is_record_in_file(const struct ring_reader *ring, uint64_t position)
{
	return (position & (ring->entry_count - 1)) < ring->slots_there;
}

bool ring_reader_init(struct ring_reader *ring, const struct reader *reader, uint64_t offset, struct reader_counts *counts)
{
	const struct trace_ring *there = offset ? reader_at(reader, offset, sizeof(*there)) : NULL;

	*ring = (struct ring_reader){ .counts = counts };
	if (!there || !is_power_of_two(there->entry_count) || there->entry_count < 2 * TRACE_PARTS_MAX ||
	    there->entry_count > BIT(40))
		return false;
	ring->ring = there;
	ring->fd = reader->fd;
	ring->records_offset = reader->fd_offset + offset + sizeof(*there);
	ring->entry_count = there->entry_count;
	ring->slots_there = min_u64((reader->bytes - offset - sizeof(*there)) / sizeof(struct trace_record),
				    ring->entry_count);
	ring->head = __atomic_load_n(&there->head, __ATOMIC_ACQUIRE);
	ring->next = max_u64(oldest_whole(ring, ring->head), min_u64(there->first, ring->head));
	counts->recorded += ring->head + there->lost;
	counts->missing += there->lost;
	counts->overwritten += ring->next;
	return true;
}

void ring_reader_init_external(struct ring_reader *ring, const struct trace_ring *there, int fd, uint64_t records_offset,
			       struct reader_counts *counts)
{
	must(is_power_of_two(there->entry_count));
	*ring = (struct ring_reader){
		.ring = there,
		.fd = fd,
		.records_offset = records_offset,
		.entry_count = there->entry_count,
		.slots_there = there->entry_count,
		.head = there->head,
		.next = there->head,
		.counts = counts,
	};
}

/*
 * Uses read(2) rather than the mapping: a long file does not fill memory, and a file that shrinks does not raise SIGBUS.
 */
static bool read_ring_records(const struct ring_reader *ring, uint64_t slot, uint64_t count, struct trace_record *to)
{
	size_t bytes = count * sizeof(*to), done = 0;

	while (done < bytes) {
		ssize_t got = pread(ring->fd, (char *)to + done, bytes - done,
				    (off_t)(ring->records_offset + slot * sizeof(*to) + done));

		if (got == 0 || (got < 0 && errno != EINTR))
			return false;
		done += got > 0 ? (size_t)got : 0;
	}
	return true;
}

/* Fill the window with what is left up to the head. False: no more records. */
static bool load_rest(struct ring_reader *ring)
{
	ring->window_at = ring->window_count = 0;
	while (ring->next < ring->head && ring->window_count == 0) {
		uint64_t slot = ring->next & (ring->entry_count - 1),
			 count = min_u64(ring->head - ring->next, ring->window_capacity);
		uint64_t first, whole_from;

		if (slot >= ring->slots_there) {
			/* a truncated file: continue at the ring's beginning */
			count = min_u64(ring->head - ring->next, ring->entry_count - slot);
			ring->counts->missing += count;
			ring->next += count;
			continue;
		}
		/* in two parts around the ring's end, unless the file ends earlier */
		if (ring->slots_there < ring->entry_count)
			count = min_u64(count, ring->slots_there - slot);
		first = min_u64(count, ring->entry_count - slot);
		if (!read_ring_records(ring, slot, first, ring->window) ||
		    !read_ring_records(ring, 0, count - first, ring->window + first)) {
			/* the file has become shorter, or a read error */
			ring->counts->missing += ring->head - ring->next;
			ring->next = ring->head;
			return false;
		}
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		whole_from = oldest_whole(ring, __atomic_load_n(&ring->ring->head, __ATOMIC_RELAXED));
		if (whole_from > ring->next) {
			uint64_t lost = min_u64(whole_from - ring->next, ring->head - ring->next);

			ring->counts->overwritten += lost;
			ring->window_at = (uint32_t)min_u64(lost, count);
			/* skip what the writer has overwritten beyond this window, too */
			ring->next += max_u64(lost, count);
		} else {
			ring->next += count;
		}
		ring->window_count = (uint32_t)count;
		if (ring->window_at == ring->window_count)
			ring->window_at = ring->window_count = 0;
	}
	return ring->window_count > 0;
}

/*
 * Fill the window. A writer may be so fast that it overwrites the whole ring before a part of it is copied: then continue
 * with its latest records.
 */
static bool load_window(struct ring_reader *ring)
{
	bool is_filled = load_rest(ring);

	ring->has_read |= is_filled;
	for (uint32_t i = 0; i < CATCH_UP_TRIES && ring->catches_up && !ring->has_read && !is_filled; i++) {
		uint64_t latest = ring->entry_count >> (3 + i), from;

		if (latest < 2 * TRACE_PARTS_MAX)
			return false;
		ring_reader_refresh(ring);
		from = max_u64(oldest_whole(ring, ring->head), ring->head - min_u64(latest, ring->head));
		/* also backwards: if the writer does not run now, what was copied too early is still there */
		ring->counts->overwritten += from - ring->next;
		ring->next = from;
		is_filled = ring->has_read = load_rest(ring);
	}
	return is_filled;
}

const struct trace_record *ring_reader_peek(struct ring_reader *ring)
{
	if (unlikely(ring->window_at == ring->window_count) && (!ring->ring || !load_window(ring)))
		return NULL;
	return &ring->window[ring->window_at];
}

void ring_reader_refresh(struct ring_reader *ring)
{
	uint64_t head = ring->ring ? __atomic_load_n(&ring->ring->head, __ATOMIC_ACQUIRE) : 0;
	uint64_t whole_from;

	if (head <= ring->head)
		return;
	ring->counts->recorded += head - ring->head;
	ring->head = head;
	whole_from = oldest_whole(ring, head);
	if (whole_from > ring->next) {
		ring->counts->overwritten += whole_from - ring->next;
		ring->next = whole_from;
	}
}

void ring_reader_skip_overwritten(struct ring_reader *ring, uint64_t seq_decides_ticks)
{
	uint64_t position = ring->next, last_drop = 0, tick = 0;
	uint32_t seq = 0;

	while (ring->ring && position < ring->head) {
		uint64_t slot = position & (ring->entry_count - 1);
		uint64_t count = min_u64(min_u64(ring->head - position, ring->window_capacity), ring->entry_count - slot);

		if (slot >= ring->slots_there ||
		    !read_ring_records(ring, slot, min_u64(count, ring->slots_there - slot), ring->window))
			return; /* also truncated: missing records cannot be compared */
		for (uint64_t i = 0; i < min_u64(count, ring->slots_there - slot); i++) {
			const struct trace_record *record = &ring->window[i];

			/* a half-copied record may have the old tick and the new number: the number decides */
			if (unlikely((int32_t)(record->seq - seq) < 0) && record->tick < tick + seq_decides_ticks)
				last_drop = position + i;
			seq = record->seq;
			tick = record->tick;
		}
		position += count;
	}
	if (last_drop) {
		uint64_t from = min_u64(last_drop + TRACE_PARTS_MAX, ring->head);

		ring->counts->torn += from - ring->next;
		ring->next = from;
	}
}

uint64_t ring_latest_tick(const struct reader *reader, uint64_t offset)
{
	struct reader_counts counts = { 0 };
	struct ring_reader ring;
	uint64_t latest = 0;

	if (!ring_reader_init(&ring, reader, offset, &counts))
		return 0;
	for (uint64_t back = 1; back <= LATEST_LOOKED_AT && back <= ring.head - ring.next; back++) {
		if (is_record_in_file(&ring, ring.head - back))
			latest = max_u64(latest, record_at(&ring, ring.head - back)->tick & ~reader->shared_bit);
	}
	return latest;
}
