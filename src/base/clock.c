/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"

#include "base/must.h"

#include <pthread.h>
#include <time.h>

static pthread_once_t rate_once = PTHREAD_ONCE_INIT;
static uint64_t rate;

static uint64_t read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}

/* Read both clocks. Preemption between the two reads falsifies the pair, so use the shortest of 16 attempts. */
static void read_pair(uint64_t *ticks_ret, uint64_t *ns_ret)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 16; i++) {
		uint64_t before = clock_ticks();
		uint64_t ns = clock_monotonic_ns();
		uint64_t after = clock_ticks();

		if (after - before < best) {
			best = after - before;
			*ticks_ret = before + best / 2;
			*ns_ret = ns;
		}
	}
}

static void measure_tick_rate(void)
{
	uint64_t ticks_from, ns_from, ticks_to, ns_to;
	struct timespec pause = { .tv_nsec = 10 * (long)NS_PER_MS };

	read_pair(&ticks_from, &ns_from);
	nanosleep(&pause, NULL);
	read_pair(&ticks_to, &ns_to);
	rate = (uint64_t)((double)(ticks_to - ticks_from) * (double)NS_PER_SEC / (double)(ns_to - ns_from));
}

static uint64_t fixed_rate;

static void init_tick_rate(void)
{
	if (fixed_rate) {
		rate = fixed_rate;
		return;
	}
	measure_tick_rate();
}

void clock_fix_tick_rate(uint64_t ticks_per_second)
{
	fixed_rate = ticks_per_second;
	must(clock_tick_rate() == ticks_per_second); /* the rate must not have been measured before */
}

uint64_t clock_tick_rate(void)
{
	pthread_once(&rate_once, init_tick_rate);
	return rate;
}

uint64_t clock_ticks_from_ns(uint64_t ns)
{
	return (uint64_t)((unsigned __int128)ns * clock_tick_rate() / NS_PER_SEC);
}

uint64_t clock_ns_from_ticks(uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)ticks * NS_PER_SEC / clock_tick_rate());
}
