/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace_bench - what a record costs, beside the bare clock read, in one run.
 *
 * Each figure is the median of many chunks, so that what else the machine does falls out. Prints a JSON line a case;
 * `ratio` is to the bare clock read.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/observe/trace/points.gen.h"
#include "fathom/trace/trace.h"
#include "median.h"

enum { CHUNKS = 301, EVENTS = 20000, POINT = TRACE_POINT_PROCESS_START };

/* The compiler may not guess what comes out of here. */
static inline uint64_t hide(uint64_t value)
{
	__asm__ volatile("" : "+r"(value));
	return value;
}

static void bare_clock(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		(void)hide(clock_ticks());
}

static void record_with_clock(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		trace_record(clock_ticks(), POINT, TRACE_RING_IO, 1, (uint32_t)i, (uint32_t)hide(i), (uint32_t)n, 7);
}

static void record_with_callers_tick(uint64_t n)
{
	uint64_t now = clock_ticks();

	for (uint64_t i = 0; i < n; i++)
		trace_record(now | TICK_SHARED, POINT, TRACE_RING_IO, 1, (uint32_t)i, (uint32_t)hide(i), (uint32_t)n, 7);
}

static void loop_alone(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		(void)hide(i);
}

static double median_ns(void (*run)(uint64_t n))
{
	static double ns[CHUNKS];

	for (int i = 0; i < CHUNKS; i++) {
		uint64_t from = clock_ticks();

		run(EVENTS);
		ns[i] = (double)(clock_ticks() - from) * (double)NS_PER_SEC / (double)clock_tick_rate() / EVENTS;
	}
	return median(ns, CHUNKS);
}

static void print(const char *name, double ns, double reference)
{
	printf("{\"bench\": \"trace\", \"case\": \"%s\", \"ns\": %.3f, \"ratio\": %.3f}\n", name, ns, ns / reference);
}

int main(void)
{
	struct trace_options options = { .schema = &fathom_schema,
					 .name = "trace_bench",
					 .version = "bench",
					 .thread_count = 1,
					 .io_entries = TRACE_IO_ENTRIES_DEFAULT };
	struct fathom_fault why;
	double clock_ns, alone_ns;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	/* without pinning the figures are only less steady */
	(void)sched_setaffinity(0, sizeof(set), &set);
	if (trace_open(&options, &why) != 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	if (trace_thread_attach("bench", 0, true) != 0)
		return 1;
	if (trace_mask_set("all", &why) != 0)
		return 1;
	record_with_callers_tick(TRACE_IO_ENTRIES_DEFAULT); /* all of the ring is touched */
	clock_ns = median_ns(bare_clock);
	alone_ns = median_ns(loop_alone);
	print("bare clock read", clock_ns, clock_ns);
	print("record, three arguments, own clock read", median_ns(record_with_clock), clock_ns);
	print("record, three arguments, caller's tick", median_ns(record_with_callers_tick), clock_ns);
	if (trace_mask_set("none", &why) != 0)
		return 1;
	print("record, point disabled, less the empty loop", median_ns(record_with_callers_tick) - alone_ns, clock_ns);
	if (trace_mask_set("all", &why) != 0)
		return 1;
	trace_thread_detach();
	unlink(trace_path());
	trace_close();
	return 0;
}
