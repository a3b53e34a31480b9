/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * write_trace - a program that traces, for tests and measurements:
 *
 *   write_trace story DIRECTORY          some orders with jobs, all types of arguments; one hangs; then SIGKILL
 *   write_trace flood DIRECTORY COUNT    COUNT events of orders and jobs, then a normal exit
 *   write_trace run DIRECTORY SECONDS    events as fast as possible, then SIGKILL
 *   write_trace golden FILE              as `story`, with constant ticks, written to FILE
 *   write_trace stages FILE              as golden: lives of known length, reads and writes, complete and incomplete
 *
 * Prints the path of its trace file first.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "demo/demo.h"
#include "demo/probes.gen.h"
#include "fathom/trace/trace.h"

enum { ORDERS = 128, IO_ENTRIES = 1 << 15 };

static struct demo_order *orders;
static struct demo_job *jobs;
static const struct trace_istr *device;

static void start(const char *directory, bool in_memory, uint32_t io_entries)
{
	struct trace_options options = { .schema = &fathom_schema,
					 .name = "demo",
					 .version = "1.0",
					 .thread_count = 1,
					 .io_entries = io_entries,
					 .directory = directory };
	struct trace_pool_spec orders_spec = { .type = TRACE_OBJECT_ORDER,
					       .story_offset = offsetof(struct demo_order, story),
					       .stride = sizeof(struct demo_order),
					       .count = ORDERS };
	struct trace_pool_spec jobs_spec = { .type = TRACE_OBJECT_JOB,
					     .story_offset = offsetof(struct demo_job, story),
					     .stride = sizeof(struct demo_job),
					     .count = ORDERS };
	struct fathom_fault why = { 0 };

	if (in_memory) {
		options.in_memory = true;
		options.in_memory_tick = 1000000;
		options.pool_bytes = 1 << 16;
	}
	if (trace_open(&options, &why) != 0 || trace_mask_set("all", &why) != 0) {
		fprintf(stderr, "%s\n", why.text);
		exit(2);
	}
	must(trace_thread_attach("reactor_0", 0, true) == 0);
	orders = trace_pool_create(&orders_spec);
	jobs = trace_pool_create(&jobs_spec);
	device = trace_intern("null0");
	printf("%s\n", trace_path());
	fflush(stdout);
}

static void one_order(uint32_t index, uint64_t now, uint64_t step)
{
	struct demo_order *order = &orders[index % ORDERS];
	struct demo_job *job = &jobs[index % ORDERS];

	order_state_move(now, order, ORDER_RECEIVED);
	order_state_move(now + step, order, ORDER_EXECUTING);
	probe_job_submit((now + step) | TICK_SHARED, job, order, 8, DEMO_READ);
	probe_job_run(now + 2 * step, job, &order->story.trace);
	probe_job_done(now + 3 * step, job, index % 32, index % 100 == 99 ? DEMO_LATE : DEMO_OK, device);
	order_state_move((now + 3 * step) | TICK_SHARED, order, ORDER_DONE);
	order_state_move(now + 4 * step, order, ORDER_FREE);
}

static void story(uint64_t now)
{
	struct demo_thing thing = { 0 };
	uint16_t session = trace_owner_create(TRACE_OWNER_SESSION, now, "127.0.0.1:%d queue %d", 43210, 1);

	trace_object_init(&thing.trace, TRACE_OBJECT_THING);
	thing_state_move(now, &thing, THING_UP);
	probe_ints(now, 255, 65535, UINT32_MAX, -5, INT64_MIN, true);
	probe_hexes(now, 0xab, 0xabcd, 0xabcdef01, 0xabcdef0123456789, NULL);
	probe_units(now, 1234567, 4096, 30 * NS_PER_MS);
	probe_long_one(now, &thing, 1, 2, 3, 4, 5, 6, UINT64_MAX, 8);
	probe_units(now, UINT64_MAX, UINT32_MAX, UINT64_MAX);
	probe_texts(now, trace_intern("say \"hello\"\\\n"), trace_intern("Grüße"));
	probe_nothing(now);
	for (uint32_t i = 0; i < ORDERS; i++)
		orders[i].story.trace.owner = jobs[i].story.trace.owner = session;
	for (uint32_t i = 0; i < 3; i++)
		one_order(i, now + 1000 * i, 100);
	orders[5].story.args[0] = 0x02;
	orders[5].story.args[1] = 1;
	orders[5].story.args[2] = 4096;
	order_state_move(now + 5000, &orders[5], ORDER_RECEIVED);
	order_state_move(now + 6000, &orders[5], ORDER_EXECUTING);
	probe_job_submit(now + 6100, &jobs[7], &orders[5], 8, DEMO_READ);
	trace_running(trace_intern("uring_poll"), trace_intern("nvmf_tgt_poll_group_0"), now + 7000);
	/* later, a thread that is not a reactor */
	probe_nothing(now + 3 * NS_PER_SEC);
}

static void flood(uint64_t count)
{
	uint64_t now = clock_ticks();

	for (uint64_t i = 0; i < count / 7; i++)
		one_order((uint32_t)i, now + i * 1000, 200);
}

/*
 * Read i of 1000 waits 100 + i ns; its job waits 300 ns and runs 1000 + 5 * i; the order works for another 700. 100 writes
 * first rest for a second. One order ends whose begin was not recorded, one does not end, one has two jobs.
 */
static void stages(uint64_t now)
{
	for (uint32_t i = 0; i < 1100; i++, now += 10000) {
		bool is_write = i >= 1000;
		uint32_t work = is_write ? 4000 : 1000 + i * 5;
		struct demo_order *order = &orders[i % 100];
		struct demo_job *job = &jobs[i % 100];

		order->story.args[5] = is_write ? 131072 : 4096;
		order_state_move(now, order, ORDER_RECEIVED);
		if (is_write) {
			order_state_move(now, order, ORDER_RESTING);
			now += NS_PER_SEC;
		}
		now += 100 + i;
		order_state_move(now, order, ORDER_EXECUTING);
		probe_job_submit((now + 100) | TICK_SHARED, job, order, 8, is_write ? DEMO_WRITE : DEMO_READ);
		probe_job_run(now + 400, job, NULL);
		probe_job_done(now + 400 + work, job, 1, DEMO_OK, device);
		order_state_move(now + 1000 + work, order, ORDER_DONE);
		order_state_move(now + 1500 + work, order, ORDER_FREE);
	}
	orders[100].story.state = ORDER_EXECUTING;
	order_state_move(now, &orders[100], ORDER_DONE);
	order_state_move(now + 100, &orders[100], ORDER_FREE);
	order_state_move(now, &orders[101], ORDER_RECEIVED);
	order_state_move(now, &orders[102], ORDER_RECEIVED);
	order_state_move(now, &orders[102], ORDER_EXECUTING);
	for (uint32_t i = 110; i < 112; i++) {
		probe_job_submit(now, &jobs[i], &orders[102], 8, DEMO_READ);
		probe_job_done(now + 5000, &jobs[i], 1, DEMO_OK, device);
	}
	order_state_move(now + 5000, &orders[102], ORDER_DONE);
	order_state_move(now + 5000, &orders[102], ORDER_FREE);
}

static void run(uint64_t seconds)
{
	uint64_t end = clock_ticks() + seconds * clock_tick_rate();

	for (uint32_t i = 0; clock_ticks() < end; i++) {
		/* one in 10,000 is slow and is kept */
		uint64_t step = i % 10000 == 5000 ? 20000 : 0;

		one_order(i, clock_ticks() - 4 * step, step);
	}
}

/* The file's bytes depend only on the format and the tests' probes.def. */
static int golden(const char *path, void (*record)(uint64_t now))
{
	const void *memory;
	size_t bytes;
	FILE *file = fopen(path, "w");

	record(2000000);
	memory = trace_memory(&bytes);
	return file && fwrite(memory, 1, bytes, file) == bytes && fclose(file) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (strcmp(argv[1], "golden") == 0)
		start(argv[2], true, TRACE_IO_ENTRIES_MIN);
	else if (strcmp(argv[1], "stages") == 0)
		start(argv[2], true, IO_ENTRIES);
	else
		start(argv[2], false, strcmp(argv[1], "flood") == 0 ? 1 << 23 : IO_ENTRIES);
	if (strcmp(argv[1], "story") == 0)
		story(clock_ticks());
	else if (strcmp(argv[1], "golden") == 0)
		return golden(argv[2], story);
	else if (strcmp(argv[1], "stages") == 0)
		return golden(argv[2], stages);
	else if (strcmp(argv[1], "flood") == 0 && argc > 3)
		flood(strtoull(argv[3], NULL, 10));
	else if (strcmp(argv[1], "run") == 0 && argc > 3)
		run(strtoull(argv[3], NULL, 10));
	if (strcmp(argv[1], "flood") == 0) {
		trace_pool_destroy(orders);
		trace_pool_destroy(jobs);
		trace_close();
		return 0;
	}
	kill(getpid(), SIGKILL);
	return 0;
}
