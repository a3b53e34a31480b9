/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/bits.h"
#include "base/histogram.h"
#include "base/must.h"

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	if (from->count == 0)
		return;
	to->min = to->count == 0 ? from->min : min_u64(to->min, from->min);
	to->max = max_u64(to->max, from->max);
	to->count += from->count;
	to->sum += from->sum;
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
}

/* The middle of a bucket's values. */
static uint64_t bucket_middle(uint32_t bucket)
{
	uint32_t shift = bucket >> HISTOGRAM_SUB_BITS;

	if (shift <= 1)
		return bucket;
	shift--;
	bucket -= shift << HISTOGRAM_SUB_BITS;
	must(bucket >> HISTOGRAM_SUB_BITS == 1);
	return ((uint64_t)bucket << shift) + ((1ull << shift) >> 1);
}

uint64_t histogram_percentile(const struct histogram *histogram, uint32_t per_10000)
{
	uint64_t rank, passed = 0;

	must(per_10000 <= 10000);
	if (histogram->count == 0)
		return 0;
	rank = max_u64((uint64_t)(((unsigned __int128)histogram->count * per_10000 + 9999) / 10000), 1);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		passed += histogram->buckets[i];
		if (passed >= rank)
			return min_u64(max_u64(bucket_middle(i), histogram->min), histogram->max);
	}
	must(!"the buckets hold fewer values than were counted");
	return 0;
}
