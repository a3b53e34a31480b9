/* SPDX-License-Identifier: BSD-2-Clause */
/* median - what benchmarks print: times in microseconds, and of many the one in the middle. */
#ifndef BENCH_MEDIAN_H
#define BENCH_MEDIAN_H

#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"

static inline double us_since(uint64_t tick)
{
	return (double)clock_ns_from_ticks(clock_ticks() - tick) / 1e3;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of `count` > 0 values, which are sorted by it. */
static inline double median(double *values, uint32_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return values[count / 2];
}

#endif
