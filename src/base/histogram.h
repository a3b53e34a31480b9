/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * histogram - log-linear histogram of latencies. Every power of two has 64 equal buckets, so a percentile is exact within
 * 1 % over the whole range of 64 bits, in a fixed 30 KB. Two histograms can be merged.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

enum {
	HISTOGRAM_SUB_BITS = 6,
	HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

/* A zeroed structure is an empty histogram. */
struct histogram {
	uint64_t count;
	uint64_t sum;
	uint64_t min; /* meaningless while count is 0 */
	uint64_t max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* The bucket of `value`: each value below 128 has its own; from there on each power of two has 64. */
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

/*
 * The value that `per_10000` of 10,000 values do not exceed (5000: the median, 9990: p99.9); 0 if the histogram is empty.
 */
uint64_t histogram_percentile(const struct histogram *histogram, uint32_t per_10000);

#endif
