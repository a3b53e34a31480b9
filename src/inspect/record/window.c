/* SPDX-License-Identifier: BSD-2-Clause */
/* window - rings in an unnamed file; their oldest blocks are freed. */
#include "inspect/record/window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "inspect/record/internal.h"

enum {
	BLOCK_RECORDS = 2048, /* records freed at once: 64 KiB */
	STEP_CHUNKS = 1,      /* chunks of a ring per step, so that readers that follow the window keep up */
	BEFORE_RECORDS = 64,  /* a thread's ticks decrease over at most this many records */
};
static_assert(BLOCK_RECORDS * sizeof(struct trace_record) % PAGE_BYTES == 0, "a block is of whole pages");
static_assert(WINDOW_BYTES_MIN / sizeof(struct trace_record) >= 4 * STEP_CHUNKS * CHUNK_RECORDS, "room for steps");

/* One ring of the window, beside its data in the segment. */
struct part {
	struct trace_ring *ring; /* the head for readers, without records. Owned */
	uint64_t next;		 /* next position to copy in the source's ring */
	uint64_t oldest_to_tick; /* last tick of its first block; 0: no complete block yet */
	uint64_t gap_at;	 /* position in the window's ring behind the latest gap */
};

struct window {
	struct source source;
	struct segment segment;
	struct part parts[RINGS_MAX];
	const struct trace_ring *rings[RINGS_MAX];
	uint64_t offsets[RINGS_MAX];
	uint64_t records_max, records, lost;
	uint64_t since;
	bool is_size_limited;
	uint64_t sleep_us;
	uint64_t kept_tick; /* window_keep() */
	bool full;	    /* pending records do not fit without freeing records that must be kept */
	/* records copied behind a gap, or when full, and not yet in the segment */
	uint32_t pending_ring, turn;
	const struct trace_record *pending;
	uint64_t pending_count;
	struct trace_record chunk[CHUNK_RECORDS];
};

/* ---- freeing blocks ---- */

static int read_window_record(const struct window *window, uint32_t i, uint64_t position, struct trace_record *record_ret,
			      struct fathom_fault *why)
{
	uint64_t at = window->offsets[i] + (position & (window->segment.ring_entries - 1)) * sizeof(*record_ret);

	if (pread(window->segment.fd, record_ret, sizeof(*record_ret), (off_t)at) != (ssize_t)sizeof(*record_ret))
		return fault(why, -EIO, "cannot read from memory: %s", strerror(errno));
	record_ret->tick &= ~1ull; /* clear the bit of shared ticks */
	return 0;
}

/* Read the last tick of the ring's first block. */
static int read_oldest_tick(struct window *window, uint32_t i, struct fathom_fault *why)
{
	uint64_t first = window->segment.first[i];
	struct trace_record record = { 0 };
	int rc = 0;

	if (window->segment.count[i] - first >= BLOCK_RECORDS)
		rc = read_window_record(window, i, first + BLOCK_RECORDS - 1, &record, why);
	window->parts[i].oldest_to_tick = record.tick;
	return rc;
}

static int free_oldest_block(struct window *window, uint32_t i, struct fathom_fault *why)
{
	uint64_t at = (window->segment.first[i] & (window->segment.ring_entries - 1)) * sizeof(struct trace_record);

	must(window->parts[i].oldest_to_tick != 0);
	if (fallocate(window->segment.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(window->offsets[i] + at),
		      BLOCK_RECORDS * sizeof(struct trace_record)) != 0)
		return fault(why, -errno, "cannot free memory of the window: %s", strerror(errno));
	window->segment.first[i] += BLOCK_RECORDS;
	window->records -= BLOCK_RECORDS;
	window->since = max_u64(window->since, window->parts[i].oldest_to_tick);
	if (window->segment.first[i] > window->parts[i].gap_at)
		window->segment.lost[i] = 0;
	return read_oldest_tick(window, i, why);
}

/* The ring with the oldest first block; RINGS_MAX: no ring has a complete block. */
static uint32_t oldest_ring(const struct window *window)
{
	uint32_t oldest = RINGS_MAX;

	for (uint32_t i = 0; i < window->source.ring_count; i++) {
		uint64_t tick = window->parts[i].oldest_to_tick;

		if (tick && (oldest == RINGS_MAX || tick < window->parts[oldest].oldest_to_tick))
			oldest = i;
	}
	return oldest;
}

int window_forget(struct window *window, uint64_t tick, struct fathom_fault *why)
{
	int rc = 0;

	for (;;) {
		uint32_t i = oldest_ring(window);

		if (rc || i == RINGS_MAX || window->parts[i].oldest_to_tick >= tick)
			return rc;
		rc = free_oldest_block(window, i, why);
	}
}

/* ---- copying ---- */

static void keep_pending(struct window *window, uint32_t i, const struct trace_record *records, uint64_t count)
{
	window->pending_ring = i;
	window->pending = records;
	window->pending_count = count;
}

static int append_records(struct window *window, uint32_t i, const struct trace_record *records, uint64_t count,
			  struct fathom_fault *why)
{
	int rc = 0;

	window->pending_count = 0;
	while (rc == 0 && window->records + count > window->records_max) {
		uint32_t oldest = oldest_ring(window);

		must(oldest < RINGS_MAX);
		window->is_size_limited = true;
		if (window->kept_tick && window->parts[oldest].oldest_to_tick >= window->kept_tick) {
			window->full = true;
			keep_pending(window, i, records, count);
			return 0;
		}
		rc = free_oldest_block(window, oldest, why);
	}
	if (rc == 0)
		rc = segment_append(&window->segment, i, records, count, why);
	if (rc)
		return rc;
	window->records += count;
	window->parts[i].ring->head = window->segment.count[i];
	return window->parts[i].oldest_to_tick ? 0 : read_oldest_tick(window, i, why);
}

/* Copy a chunk of ring `i`. If there is a gap in front of it, it stays pending: `*gap_ret`. */
static int copy_window_chunk(struct window *window, uint32_t i, uint64_t head, bool *gap_ret, struct fathom_fault *why)
{
	struct record_batch batch = { .ring = i, .head = head, .next = &window->parts[i].next, .chunk = window->chunk };

	record_source_copy(&window->source, &batch);
	*gap_ret = batch.lost > 0 && window->segment.count[i] > 0;
	if (batch.lost && !*gap_ret &&
	    batch.count) /* the ring has overwritten its first records: the window begins later */
		window->since = max_u64(window->since, batch.records[0].tick & ~1ull);
	if (!*gap_ret)
		return append_records(window, i, batch.records, batch.count, why);
	window->lost += batch.lost;
	window->segment.lost[i] += batch.lost;
	window->parts[i].gap_at = window->segment.count[i];
	keep_pending(window, i, batch.records, batch.count);
	return 0;
}

void window_keep(struct window *window, uint64_t tick)
{
	window->kept_tick = tick;
}

int window_step(struct window *window, enum window_progress *progress_ret, uint64_t *sleep_ns_ret, struct fathom_fault *why)
{
	bool gone = record_source_has_ended(&window->source), gap = false, more = false;
	uint64_t fullest = 0;
	int rc = 0;

	window->full = false;
	if (window->pending_count)
		rc = append_records(window, window->pending_ring, window->pending, window->pending_count, why);
	/* each step starts with another ring: a ring with constant gaps must not starve the others */
	for (uint32_t n = 0; n < window->source.ring_count && rc == 0 && !gap && !window->full; n++) {
		uint32_t i = (window->turn + n) % window->source.ring_count;
		struct part *part = &window->parts[i];
		const struct trace_ring *ring = window->source.rings[i];
		uint64_t head = ring ? __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) : 0;

		if (!ring)
			continue;
		fullest = max_u64(fullest, (head - part->next) * 100 / ring->entry_count);
		for (int chunk = 0; chunk < STEP_CHUNKS && part->next < head && rc == 0 && !gap && !window->full; chunk++)
			rc = copy_window_chunk(window, i, head, &gap, why);
		more |= part->next < head;
	}
	window->turn = (window->turn + 1) % window->source.ring_count;
	window->sleep_us = record_source_pace(fullest, window->sleep_us);
	*sleep_ns_ret = window->sleep_us * NS_PER_US;
	if (rc == 0)
		*progress_ret = window->full ? WINDOW_FULL
				: gap	     ? WINDOW_GAP
				: more	     ? WINDOW_MORE
				: gone	     ? WINDOW_END
					     : WINDOW_IDLE;
	return rc;
}

/* ---- open and close ---- */

static int init_window(struct window *window, uint64_t bytes, struct fathom_fault *why)
{
	int fd = memfd_create("fathom trace window", MFD_CLOEXEC), rc;

	if (fd < 0)
		return fault(why, -errno, "out of memory: %s", strerror(errno));
	/* the last block of a ring is never freed */
	window->records_max = max_u64(bytes / sizeof(struct trace_record),
				      window->source.ring_count * BLOCK_RECORDS + 2 * STEP_CHUNKS * CHUNK_RECORDS);
	snprintf(window->segment.path, sizeof(window->segment.path), "the window in memory");
	rc = segment_init(&window->segment, &window->source, fd,
			  round_up_power_of_two(window->records_max + BLOCK_RECORDS + TRACE_PARTS_MAX), why);
	if (rc)
		return rc;
	window->since = window->source.process->start_tick;
	for (uint32_t i = 0; i < window->source.ring_count; i++) {
		struct part *part = &window->parts[i];

		if (!window->source.rings[i])
			continue;
		part->ring = calloc(1, sizeof(*part->ring));
		must(part->ring);
		part->ring->entry_count = window->segment.ring_entries;
		part->ring->thread = i / TRACE_RINGS_PER_THREAD;
		part->ring->kind = i % TRACE_RINGS_PER_THREAD;
		window->rings[i] = part->ring;
		window->offsets[i] = segment_records_offset(&window->segment, i);
		/* start with the oldest record of the ring */
		part->next = record_source_oldest(&window->source, i);
		if (part->next) {
			const struct trace_ring *ring = window->source.rings[i];

			window->since = max_u64(window->since,
						ring->records[part->next & (ring->entry_count - 1)].tick & ~1ull);
		}
	}
	return 0;
}

int window_open(const char *source, uint64_t bytes, struct window **window_ret, struct fathom_fault *why)
{
	struct window *window;
	int rc;

	if (bytes < WINDOW_BYTES_MIN || bytes > WINDOW_BYTES_MAX)
		return fault(why, -EINVAL, "the buffer has %lu bytes; sizes from %lu to %lu are allowed",
			     (unsigned long)bytes, (unsigned long)WINDOW_BYTES_MIN, (unsigned long)WINDOW_BYTES_MAX);
	window = calloc(1, sizeof(*window));
	if (!window)
		return fault(why, -ENOMEM, "out of memory");
	window->segment.fd = -1;
	rc = record_source_open(&window->source, source, why);
	if (rc) {
		free(window);
		return rc;
	}
	rc = init_window(window, bytes, why);
	if (rc) {
		window_close(window);
		return rc;
	}
	*window_ret = window;
	return 0;
}

void window_close(struct window *window)
{
	if (!window)
		return;
	if (window->segment.fd >= 0)
		close(window->segment.fd);
	for (uint32_t i = 0; i < RINGS_MAX; i++)
		free(window->parts[i].ring);
	record_source_close(&window->source);
	free(window);
}

void window_state(const struct window *window, struct window_state *state_ret)
{
	*state_ret = (struct window_state){
		.records = window->records,
		.lost = window->lost,
		.since = window->since,
		.is_size_limited = window->is_size_limited,
		.ended_normally = __atomic_load_n(&window->source.process->end_tick, __ATOMIC_ACQUIRE) != 0,
	};
}

int window_fd(const struct window *window)
{
	return window->segment.fd;
}

uint32_t window_ring_count(const struct window *window)
{
	return window->source.ring_count;
}

const struct trace_ring *const *window_rings(const struct window *window)
{
	return window->rings;
}

const uint64_t *window_records_offsets(const struct window *window)
{
	return window->offsets;
}

/* ---- freezing ---- */

/*
 * Find the first position of ring `i`, from `*position` up to `high`, with a tick of at least `tick`. Ticks increase,
 * except shared ones.
 */
static int find_tick(const struct window *window, uint32_t i, uint64_t *position, uint64_t high, uint64_t tick,
		     struct fathom_fault *why)
{
	uint64_t low = *position;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		struct trace_record record = { 0 };
		int rc = read_window_record(window, i, middle, &record, why);

		if (rc)
			return rc;
		if (record.tick < tick)
			low = middle + 1;
		else
			high = middle;
	}
	*position = low;
	return 0;
}

/* Advance `*position` past continuations of an earlier event. */
static int skip_parts(const struct window *window, uint32_t i, uint64_t *position, uint64_t end, struct fathom_fault *why)
{
	struct trace_record record = { 0 };
	int rc = 0;

	while (rc == 0 && *position < end) {
		rc = read_window_record(window, i, *position, &record, why);
		if (rc || record.point != TRACE_POINT_PART)
			return rc;
		++*position;
	}
	return rc;
}

/* Limit `segment` to the records between the two ticks. */
static int cut_segment(const struct window *window, const struct trace_frozen *frozen, struct segment *segment,
		       struct fathom_fault *why)
{
	int rc = 0;

	for (uint32_t i = 0; i < window->source.ring_count && rc == 0; i++) {
		uint64_t first = segment->first[i], end = segment->count[i], from = first, to;

		rc = find_tick(window, i, &from, end, frozen->from_tick, why);
		to = from;
		if (rc == 0)
			rc = find_tick(window, i, &to, end, frozen->to_tick + 1, why);
		if (rc)
			break;
		must(first <= from && from <= to && to <= max_u64(first, end));
		/* shared ticks may be slightly out of order */
		segment->first[i] = max_u64(first, from - min_u64(from, BEFORE_RECORDS));
		segment->count[i] = min_u64(end, to + BEFORE_RECORDS);
		rc = skip_parts(window, i, &segment->first[i], end, why);
		if (rc == 0)
			rc = skip_parts(window, i, &segment->count[i], end, why);
		segment->count[i] = max_u64(segment->count[i], segment->first[i]);
		if (segment->first[i] > window->parts[i].gap_at || segment->count[i] < window->parts[i].gap_at)
			segment->lost[i] = 0;
	}
	return rc;
}

static int write_frozen(const struct window *window, const struct trace_frozen *frozen, struct fathom_fault *why)
{
	int rc = 0;

	for (uint32_t i = 0; i < window->source.section_count && rc == 0; i++) {
		const struct trace_section *section = &window->source.sections[i];

		if (section->kind == TRACE_SECTION_FROZEN && section->bytes >= sizeof(*frozen))
			rc = file_write_at(window->segment.fd, frozen, sizeof(*frozen), section->offset);
	}
	return rc ? fault(why, rc, "cannot write: %s", strerror(-rc)) : 0;
}

int window_freeze(struct window *window, const struct trace_frozen *frozen, const struct window_output *output,
		  struct window_result *result_ret, struct fathom_fault *why)
{
	struct segment *segment;
	int rc;

	/* the tables are in the same file, in front of the rings */
	rc = segment_tables(&window->segment, &window->source, why);
	if (rc == 0)
		rc = write_frozen(window, frozen, why);
	if (rc)
		return rc;
	segment = malloc(sizeof(*segment));
	if (!segment)
		return fault(why, -ENOMEM, "out of memory");
	*segment = window->segment;
	segment->force = output->force;
	segment->fd = fcntl(window->segment.fd, F_DUPFD_CLOEXEC, 0); /* owned by segment_pack() */
	must(segment->fd >= 0);
	if (snprintf(segment->packed_path, sizeof(segment->packed_path), "%s", output->path) >=
	    (int)sizeof(segment->packed_path))
		rc = fault(why, -ENAMETOOLONG, "%s: the name is too long", output->path);
	memcpy(segment->path, segment->packed_path, sizeof(segment->path));
	if (rc == 0)
		rc = cut_segment(window, frozen, segment, why);
	if (rc) {
		close(segment->fd);
	} else {
		*result_ret = (struct window_result){ 0 };
		for (uint32_t i = 0; i < window->source.ring_count; i++) {
			result_ret->records += segment->count[i] - segment->first[i];
			result_ret->lost += segment->lost[i];
		}
		rc = segment_pack(segment, &window->source, output->compress, why);
	}
	free(segment);
	return rc;
}
