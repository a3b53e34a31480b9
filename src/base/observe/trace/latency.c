/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/observe/trace/latency.h"

#include <stdbool.h>

#include "base/clock.h"

const uint64_t latency_edges_ns[LATENCY_EDGES] = {
	1000,	   2500,      5000,	  10000,      25000,	  50000,       100000,	 250000,
	500000,	   1000000,   2500000,	  5000000,    10000000,	  25000000,    50000000, 100000000,
	250000000, 500000000, 1000000000, 2500000000, 5000000000, 10000000000,
};

uint8_t latency_bucket_of[TRACE_BUCKETS];

void latency_prepare(void)
{
	static bool is_prepared;
	uint8_t at = 0;

	if (is_prepared)
		return;
	is_prepared = true;
	for (unsigned int bucket = 0; bucket + 1 < TRACE_BUCKETS; bucket++) {
		uint64_t longest_ns = clock_ns_from_ticks(trace_bucket_begin(bucket + 1) - 1);

		while (at < LATENCY_EDGES && longest_ns > latency_edges_ns[at])
			at++;
		latency_bucket_of[bucket] = at;
	}
	latency_bucket_of[TRACE_BUCKETS - 1] = LATENCY_EDGES;
}
