/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * latency - the buckets of histograms that leave the process as figures: the same on every machine, so sums over machines
 * are possible. The trace's own buckets (fathom/trace/life.h) count ticks; each lies in one bucket here.
 *
 * A latency is counted in the first bucket that has its whole native bucket. So one that is at most an eighth below an edge
 * may be counted in the next bucket.
 */
#ifndef OBSERVE_TRACE_LATENCY_H
#define OBSERVE_TRACE_LATENCY_H

#include <stdint.h>

#include "fathom/trace/life.h"

enum { LATENCY_EDGES = 22, LATENCY_BUCKETS = LATENCY_EDGES + 1 /* the last has no upper edge */ };

/* Upper edges, inclusive, in nanoseconds. */
extern const uint64_t latency_edges_ns[LATENCY_EDGES];

/* By native bucket. */
extern uint8_t latency_bucket_of[TRACE_BUCKETS];

/* Fill the table above, once per process; later calls do nothing. Call it before there are threads that use it. */
void latency_prepare(void);

/* Any thread, after latency_prepare(). */
static inline unsigned int latency_bucket(uint64_t ticks)
{
	return latency_bucket_of[trace_bucket(ticks)];
}

#endif
