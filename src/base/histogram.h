/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * histogram - latencies, log-linear: every power of two is cut into 64 equal buckets, so that a percentile is within 1
 * % of what it was, from one tick to the end of time, in a fixed 30 KB. Two add up.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

enum {
	HISTOGRAM_SUB_BITS = 6,
	HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

/* All zeroes is an empty one. */
struct histogram {
	uint64_t count;
	uint64_t sum;
	uint64_t min; /* meaningless while count is 0 */
	uint64_t max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Which bucket: below 64 each value has its own; above, 64 to each power of two. */
static inline uint32_t histogram_bucket(uint64_t value)
{
	uint32_t shift = 0;

	if (value >> (HISTOGRAM_SUB_BITS + 1))
		shift = 63u - HISTOGRAM_SUB_BITS - (uint32_t)__builtin_clzll(value);
	return (shift << HISTOGRAM_SUB_BITS) + (uint32_t)(value >> shift);
}

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
	if (value < histogram->min || histogram->count == 0)
		histogram->min = value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->count++;
	histogram->sum += value;
	histogram->buckets[histogram_bucket(value)]++;
}

void histogram_merge(struct histogram *to, const struct histogram *from);

/* The value that `per_10000` of 10,000 values do not exceed (5000: the median, 9990: p99.9); 0 if there are none. */
uint64_t histogram_percentile(const struct histogram *histogram, uint32_t per_10000);

#endif
