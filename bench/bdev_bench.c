/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bdev_bench - what the block device layer costs, alone: null and malloc, 4 KiB, in one callback on a reactor, so that
 * nothing else runs: with nothing traced and with everything. Each case is timed ROUNDS times in turn, one way and the
 * other, and the fastest round of each counts. One JSON line a case.
 *
 * A batch of `depth` shares one clock read, as a target's does. "filled" reads into memory, "zeroes" into bdev_zeroes().
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/observe/trace/points.gen.h"
#include "fathom/trace/trace.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/bdev/bdev.h"

enum {
	DEPTH_MAX = 128,
	IO_BYTES = 4096,
	BLOCK_BYTES = 512,
	DEVICE_BYTES = 64 << 20,
	ROUNDS = 7,
	IOS_PER_ROUND = 400 * 1000
};

struct bench_case {
	const char *name, *device;
	bool write, zeroes;
};

static const struct bench_case cases[] = {
	{ "null read", "null0", false, true },
	{ "null read, filled", "null0", false, false },
	{ "null write", "null0", true, false },
	{ "malloc write", "malloc0", true, false }, /* before it is read, so that the kernel has allocated its pages */
	{ "malloc read", "malloc0", false, false },
};

static struct {
	struct bdev_desc *null_desc, *malloc_desc;
	const struct bench_case *bench_case;
	uint32_t depth;
	uint64_t done;
	double ns_per_io[2]; /* untraced, traced */
	struct fathom_thread *thread;
} bench;

static void io_done(struct bdev_io *io, enum io_status status)
{
	must(status == IO_SUCCESS);
	bench.done++;
}

static double run_round(struct bdev_channel *ch, struct bdev_io *ios, struct iovec *iov, size_t stride)
{
	const uint64_t blocks = IO_BYTES / BLOCK_BYTES, places = DEVICE_BYTES / IO_BYTES;
	const bool write = bench.bench_case->write;
	const uint32_t depth = bench.depth;
	uint64_t begin = clock_ticks(), place = 0, now, shared;

	for (uint64_t i = 0; i < IOS_PER_ROUND; i += depth) {
		now = clock_ticks();
		shared = 0;
		for (uint32_t slot = 0; slot < depth; slot++, shared = TICK_SHARED) {
			struct bdev_io *io = (struct bdev_io *)((char *)ios + slot * stride);

			place = (place + 7919) % places;
			if (write)
				bdev_write(io, ch, &iov[slot], 1, place * blocks, blocks, now | shared, io_done);
			else
				bdev_read(io, ch, &iov[slot], 1, place * blocks, blocks, now | shared, io_done);
		}
	}
	return (double)clock_ns_from_ticks(clock_ticks() - begin) / (double)((IOS_PER_ROUND + depth - 1) / depth * depth);
}

static void run_case(void)
{
	const struct trace_pool_spec spec = { .type = TRACE_OBJECT_BDEV_IO,
					      .stride = sizeof(struct bdev_io),
					      .count = DEPTH_MAX };
	bool null = strcmp(bench.bench_case->device, "null0") == 0;
	struct bdev_channel *ch = bdev_channel_get(null ? bench.null_desc : bench.malloc_desc);
	struct bdev_io *ios = trace_pool_create(&spec);
	uint8_t *memory = aligned_alloc(4096, DEPTH_MAX * IO_BYTES);
	struct iovec iov[DEPTH_MAX];

	must(ch);
	must(memory);
	memset(memory, 1, DEPTH_MAX * IO_BYTES);
	for (uint32_t i = 0; i < DEPTH_MAX; i++)
		iov[i] = (struct iovec){ bench.bench_case->zeroes ? bdev_zeroes() : memory + i * IO_BYTES, IO_BYTES };
	bench.ns_per_io[0] = bench.ns_per_io[1] = 1e9;
	for (int round = 0; round < 2 * ROUNDS; round++) {
		double *fastest = &bench.ns_per_io[round % 2], ns;
		struct fathom_fault why;

		must(trace_mask_set(round % 2 ? "all" : "none", &why) == 0);
		ns = run_round(ch, ios, iov, spec.stride);
		*fastest = ns < *fastest ? ns : *fastest;
	}
	bdev_channel_put(ch);
	trace_pool_destroy(ios);
	free(memory);
}

static void create(void)
{
	const struct null_options null = { .name = "null0", .block_count = DEVICE_BYTES / BLOCK_BYTES };
	const struct malloc_options memory = { .name = "malloc0", .block_count = DEVICE_BYTES / BLOCK_BYTES };
	struct fathom_fault why;

	must(null_create(&null, &why) == 0);
	must(malloc_create(&memory, &why) == 0);
	must(bdev_open("null0", NULL, NULL, &bench.null_desc) == 0);
	must(bdev_open("malloc0", NULL, NULL, &bench.malloc_desc) == 0);
}

static void end(void *unused)
{
	bdev_close(bench.null_desc);
	bdev_close(bench.malloc_desc);
	must(backend_delete("null0", "null", NULL, NULL) == 0);
	must(backend_delete("malloc0", "malloc", NULL, NULL) == 0);
	reactors_request_stop();
}

static void run_all(void *unused)
{
	const uint32_t depths[] = { 1, 32, 128 };

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		for (size_t d = 0; d < ARRAY_COUNT(depths); d++) {
			double untraced, traced;

			bench.bench_case = &cases[i];
			bench.depth = depths[d];
			run_case();
			untraced = bench.ns_per_io[0];
			traced = bench.ns_per_io[1];
			printf("{\"bench\": \"bdev\", \"case\": \"%s, depth %u\", \"ns_per_io\": %.2f, \"ns_traced\": "
			       "%.2f, "
			       "\"trace_ns\": %.2f, \"iops_ratio\": %.3f}\n",
			       cases[i].name, depths[d], untraced, traced, traced - untraced, untraced / traced);
			fflush(stdout);
		}
	}
	thread_send_msg(thread_control(), end, NULL);
	thread_exit(thread_self());
}

static void begin(void *unused)
{
	create();
	thread_send_msg(bench.thread, run_all, NULL);
}

int main(void)
{
	const struct trace_options trace = { .schema = &fathom_schema,
					     .name = "bdev-bench",
					     .version = "bench",
					     .thread_count = 2,
					     .io_entries = TRACE_IO_ENTRIES_DEFAULT };
	struct reactor_options options = { 0 };
	struct fathom_fault why;
	char path[4096];
	cpu_set_t cpus;

	if (trace_open(&trace, &why) < 0) {
		fprintf(stderr, "bdev_bench: %s\n", why.text);
		return 1;
	}
	snprintf(path, sizeof(path), "%s", trace_path());
	must(sched_getaffinity(0, sizeof(cpus), &cpus) == 0);
	for (unsigned int cpu = 0; cpu < CPUSET_CPUS_MAX; cpu++) {
		if (CPU_ISSET(cpu, &cpus)) {
			cpuset_add(&options.cpus, cpu);
			break;
		}
	}
	must(reactors_start(&options) == 0);
	bench.thread = thread_create("bench", reactor_at(0));
	must(bench.thread);
	thread_send_msg(thread_control(), begin, NULL);
	reactors_run();
	reactors_stop();
	trace_close();
	(void)remove(path); /* no test reads this one */
	return 0;
}
