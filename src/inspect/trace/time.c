/* SPDX-License-Identifier: BSD-2-Clause */
/* time - converts ticks to nanoseconds, exactly, and to the wall clock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/trace/internal.h"

typedef unsigned __int128 u128;
typedef __int128 s128;

void tick_scale_init(struct tick_scale *scale, uint64_t rate)
{
	u128 whole, excess;

	must(rate > 0);
	*scale = (struct tick_scale){ .rate = rate };
	/* the largest multiplier with 63 bits: the quotient is then at most a few too small */
	while (((u128)NS_PER_SEC << (scale->shift + 1)) / rate < BIT(63))
		scale->shift++;
	whole = (u128)NS_PER_SEC << scale->shift;
	scale->multiplier = (uint64_t)(whole / rate);
	/*
	 * With the next larger multiplier the product is too large by ticks * excess / rate, in units of 2^-shift. While
	 * that is less than 1 / rate, it cannot reach the next whole nanosecond.
	 */
	excess = ((u128)scale->multiplier + 1) * rate - whole;
	scale->quick_max = min_u64((uint64_t)((BIT(min_u64(scale->shift, 63)) - 1) / excess), BIT(40));
}

uint64_t tick_scale_ns_exact(const struct tick_scale *scale, uint64_t ticks)
{
	u128 exact = (u128)ticks * NS_PER_SEC, ns = ((u128)ticks * scale->multiplier) >> scale->shift;

	if (unlikely(ns >= UINT64_MAX - 8))
		return UINT64_MAX;
	while (exact - ns * scale->rate >= scale->rate)
		ns++;
	return (uint64_t)ns;
}

uint64_t tick_scale_ticks(const struct tick_scale *scale, uint64_t ns)
{
	u128 ticks = (u128)ns * scale->rate / NS_PER_SEC;

	return ticks > UINT64_MAX ? UINT64_MAX : (uint64_t)ticks;
}

uint64_t reader_ns_from_ticks(const struct reader *reader, uint64_t ticks)
{
	return tick_scale_ns(&reader->scale, ticks);
}

static int compare_pairs(const void *left, const void *right)
{
	const struct trace_clock_pair *a = left, *b = right;

	return a->tick < b->tick ? -1 : a->tick > b->tick;
}

void clock_pairs_read(struct reader *reader)
{
	const struct trace_clocks *clocks = reader_element(reader, TRACE_SECTION_CLOCKS, 0);
	uint64_t count, being_written = UINT64_MAX;

	if (!clocks)
		return;
	/* the next pair may be half written; it replaces the oldest pair but the first */
	count = __atomic_load_n(&clocks->count, __ATOMIC_ACQUIRE);
	if (count > 0)
		being_written = 1 + (count - 1) % (TRACE_CLOCK_PAIRS_MAX - 1);
	for (uint64_t i = 0; i < min_u64(count, TRACE_CLOCK_PAIRS_MAX); i++) {
		if (i != being_written && clocks->pairs[i].tick && clocks->pairs[i].realtime_ns)
			reader->pairs[reader->pair_count++] = clocks->pairs[i];
	}
	qsort(reader->pairs, reader->pair_count, sizeof(reader->pairs[0]), compare_pairs);
}

int reader_wall_ns(const struct reader *reader, uint64_t tick, uint64_t *realtime_ns_ret)
{
	const struct trace_clock_pair *pairs = reader->all_pairs ? reader->all_pairs : reader->pairs, *pair = pairs;
	uint32_t count = reader->all_pairs ? reader->all_pair_count : reader->pair_count, after = 0, end = count;

	if (count == 0)
		return -ENODATA;
	while (after < end) {
		uint32_t middle = after + (end - after) / 2;

		if (pairs[middle].tick <= tick)
			after = middle + 1;
		else
			end = middle;
	}
	if (after > 0)
		pair = &pairs[after - 1];
	if (after > 0 && after < count && pair[1].tick > pair->tick) {
		/* the clock may have been set back in between */
		s128 span = (s128)pair[1].realtime_ns - pair->realtime_ns;

		*realtime_ns_ret = pair->realtime_ns +
				   (uint64_t)(span * (s128)(tick - pair->tick) / (s128)(pair[1].tick - pair->tick));
	} else if (tick >= pair->tick) {
		*realtime_ns_ret = pair->realtime_ns + tick_scale_ns(&reader->scale, tick - pair->tick);
	} else {
		*realtime_ns_ret = pair->realtime_ns - tick_scale_ns(&reader->scale, pair->tick - tick);
	}
	return 0;
}
