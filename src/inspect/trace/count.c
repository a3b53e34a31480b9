/* SPDX-License-Identifier: BSD-2-Clause */
/* count - counts the events of each point in the rings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/trace/internal.h"
#include "inspect/trace/summary.h"

enum {
	WINDOW_RECORDS = 1 << 11, /* stays in the processor's cache */
	SEQ_DECIDES_MS = 500,	  /* the same value as in events.c */
	TABLES = 4,		  /* used in turn, so that increments for equal points do not wait for each other */
};

struct counter {
	const struct reader *reader;
	uint64_t clear_tick;
	uint64_t tables[TABLES][UINT16_MAX + 1];
	struct trace_record window[WINDOW_RECORDS];
};

static uint64_t count_window(struct counter *counter, const struct trace_record *records, uint32_t count)
{
	uint64_t cleared = 0;

	if (counter->clear_tick == 0) {
		for (uint32_t i = 0; i < count; i++)
			counter->tables[i % TABLES][records[i].point]++;
		return 0;
	}
	for (uint32_t i = 0; i < count; i++) {
		if ((records[i].tick | counter->reader->shared_bit) >= counter->clear_tick)
			counter->tables[i % TABLES][records[i].point]++;
		else
			cleared += records[i].point != TRACE_POINT_PART;
	}
	return cleared;
}

/* Add the tables to `counts` and empty them. */
static void add_tables(struct counter *counter, double seconds, struct reader_point_counts *counts)
{
	for (uint32_t point = 0; point <= UINT16_MAX; point++) {
		uint64_t count = 0;

		for (int table = 0; table < TABLES; table++) {
			count += counter->tables[table][point];
			counter->tables[table][point] = 0;
		}
		if (count == 0 || point == TRACE_POINT_PART)
			continue;
		if (!reader_point_by_id(counter->reader, (uint16_t)point)) {
			counts->records.unknown += count;
			continue;
		}
		counts->records.events += count;
		counts->counts[point] += count;
		if (seconds > 0)
			counts->per_second[point] += (double)count / seconds;
	}
}

static void count_ring_points(struct counter *counter, uint64_t offset, uint64_t now, struct reader_point_counts *counts)
{
	const struct reader_info *info = &counter->reader->info;
	const struct trace_record *record;
	struct ring_reader ring;
	uint64_t first = UINT64_MAX, since;

	if (!ring_reader_init(&ring, counter->reader, offset, &counts->records))
		return;
	ring.window = counter->window;
	ring.window_capacity = WINDOW_RECORDS;
	if (info->liveness == READER_DEAD && !counter->reader->spdk)
		ring_reader_skip_overwritten(&ring, tick_scale_ticks(&counter->reader->scale, SEQ_DECIDES_MS * NS_PER_MS));
	since = ring.next > 0 ? 0 : info->start_tick;
	while ((record = ring_reader_peek(&ring))) {
		if (first == UINT64_MAX)
			first = record->tick & ~counter->reader->shared_bit;
		counts->records.cleared += count_window(counter, record, ring.window_count - ring.window_at);
		ring.window_at = ring.window_count;
	}
	if (first == UINT64_MAX)
		return;
	since = max_u64(since ? since : first, counter->clear_tick);
	counts->first_tick = min_u64(counts->first_tick, first);
	add_tables(counter, now > since ? (double)(now - since) / (double)info->tick_rate : 0, counts);
}

int reader_count_points(const struct reader *reader, struct reader_point_counts *counts_ret)
{
	struct counter *counter = calloc(1, sizeof(*counter));
	uint64_t now = reader_now(reader);

	if (!counter)
		return -ENOMEM;
	counter->reader = reader;
	counter->clear_tick = reader->info.clear_tick & ~reader->shared_bit;
	*counts_ret = (struct reader_point_counts){ .first_tick = UINT64_MAX };
	for (uint32_t i = 0; i < reader->info.thread_count; i++) {
		const struct trace_thread *thread = reader_element(reader, TRACE_SECTION_THREADS, i);

		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
			if (thread->ring_offset[kind])
				count_ring_points(counter, thread->ring_offset[kind], now, counts_ret);
		}
	}
	if (reader->spdk)
		count_spdk(&counts_ret->records, &reader->spdk->counts);
	free(counter);
	return 0;
}
