/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock - ticks of the processor's time stamp counter, and their conversion to nanoseconds.
 *
 * The data path counts in ticks: reading them costs 9 ns, clock_gettime() 21 ns. In the trace, bit 0 of a tick
 * (TICK_SHARED) marks a tick that was read for an earlier event and reused for this one. clock_ticks() therefore always
 * returns an even number; ordering is unaffected.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#if !defined(__x86_64__)
#include <time.h>
#endif

#define TICK_SHARED 1ull
#define NS_PER_SEC 1000000000ull
#define NS_PER_MS 1000000ull
#define NS_PER_US 1000ull

/* Ticks now; even. Any thread. */
static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc() & ~TICK_SHARED; /* not x86intrin.h: it costs each file 0.3 s to compile */
#else
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ((uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec) & ~TICK_SHARED;
#endif
}

/* Ticks per second. The first call measures the rate for 10 ms; it is constant afterwards. Any thread. */
uint64_t clock_tick_rate(void);

/* Set the rate. For the simulator, before the first clock_tick_rate(): its ticks are nanoseconds on every machine. */
void clock_fix_tick_rate(uint64_t ticks_per_second);

uint64_t clock_ticks_from_ns(uint64_t ns);
uint64_t clock_ns_from_ticks(uint64_t ticks);

/* CLOCK_MONOTONIC and CLOCK_REALTIME in nanoseconds. */
uint64_t clock_monotonic_ns(void);
uint64_t clock_realtime_ns(void);

#endif
