/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations out of the events of a target, which this test records by the functions that the engine calls. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/observe/trace/points.gen.h"
#include "data/store/bdev/probes.gen.h"
#include "data/target/probes.gen.h"
#include "data/target/request/probes.gen.h"
#include "fathom/trace/trace.h"
#include "inspect/replay/collect.h"

enum { REQUESTS = 40 };

static struct nvmf_req *reqs;
static const struct trace_istr *disk, *other_disk;
static uint16_t connection, connection_2;
static uint64_t tick; /* now; 1 us = tick_rate / 10^6 */
static char folder[] = "/dev/shm/fathom-replay-XXXXXX", path[256];

static int open_trace(void **state)
{
	struct trace_options options = { .schema = &fathom_schema,
					 .name = "collect",
					 .version = "1",
					 .thread_count = 1,
					 .io_entries = 1 << 14,
					 .pool_bytes = 65536,
					 .directory = folder };
	struct fathom_fault why;

	snprintf(folder, sizeof(folder), "/dev/shm/fathom-replay-XXXXXX");
	assert_non_null(mkdtemp(folder));
	assert_int_equal(trace_open(&options, &why), 0);
	assert_int_equal(trace_mask_set("all", &why), 0);
	assert_int_equal(trace_thread_attach("reactor_0", 0, true), 0);
	snprintf(path, sizeof(path), "%s", trace_path());
	reqs = calloc(REQUESTS, sizeof(*reqs));
	assert_non_null(reqs);
	disk = trace_intern("disk0");
	other_disk = trace_intern("disk1");
	tick = clock_ticks() & ~TICK_SHARED;
	connection = trace_owner_create(TRACE_OWNER_QPAIR, tick, "10.0.0.1:5000 nqn.s qid:3 nqn.host-a");
	connection_2 = trace_owner_create(TRACE_OWNER_QPAIR, tick, "[fd00::1]:5001");
	for (int i = 0; i < REQUESTS; i++) {
		trace_object_init(&reqs[i].story.trace, TRACE_OBJECT_NVMF_REQ);
		trace_object_init(&reqs[i].io.story.trace, TRACE_OBJECT_BDEV_IO);
		reqs[i].story.trace.owner = connection;
	}
	return 0;
}

static int close_trace(void **state)
{
	trace_thread_detach();
	trace_close();
	free(reqs);
	unlink(path);
	rmdir(folder);
	return 0;
}

/* Let so many microseconds pass. */
static void pass(uint64_t us)
{
	tick += clock_ticks_from_ns(us * NS_PER_US) & ~TICK_SHARED;
}

/* ---- what the engine records ---- */

static void receive(int i, uint32_t bytes)
{
	reqs[i].story.args[2] = 7;
	reqs[i].story.args[5] = bytes;
	nvmf_req_state_move(tick, &reqs[i], NVMF_REQ_RECEIVED);
	nvmf_req_state_move(tick, &reqs[i], NVMF_REQ_EXECUTING);
}

static void submit(int i, enum io_type type, const struct trace_istr *device, uint64_t block, uint64_t blocks)
{
	struct bdev_io *io = &reqs[i].io;

	io->parent = &reqs[i].story.trace;
	io->type = type;
	io->story.args[0] = type;
	io->story.args[1] = (uint32_t)block;
	io->story.args[3] = (uint32_t)blocks;
	io->story.args[4] = trace_ref(io->parent);
	probe_bdev_io_submit(tick, io, type, device, io->parent);
	if (type == IO_TYPE_UNMAP || type == IO_TYPE_WRITE_ZEROES)
		probe_bdev_io_range(tick, io, block, (uint32_t)blocks);
	probe_bdev_io_dispatch(tick, io, 1, block);
}

static void end_io(int i, enum io_status status)
{
	probe_bdev_io_done(tick, &reqs[i].io, 0, status, disk);
}

static void answer(int i)
{
	nvmf_req_state_move(tick, &reqs[i], NVMF_REQ_COMPLETED);
	nvmf_req_state_move(tick, &reqs[i], NVMF_REQ_FREE);
}

static void command(int i, enum io_type type, uint64_t block, uint64_t blocks, uint64_t us)
{
	bool has_data = type == IO_TYPE_READ || type == IO_TYPE_WRITE;

	receive(i, has_data ? (uint32_t)blocks * 512 : 0);
	submit(i, type, disk, block, blocks);
	pass(us);
	end_io(i, IO_SUCCESS);
	answer(i);
}

/* ---- what is collected ---- */

static struct replay_operation found[REQUESTS * 2];
static struct replay_summary summary;

static uint32_t collect(const struct reader_filter_spec *spec)
{
	struct replay_collector *collector;
	struct fathom_fault why;
	struct reader *reader;
	uint32_t count = 0;

	assert_int_equal(reader_open(path, &reader, &why), 0);
	assert_int_equal(replay_collector_create(&reader, 1, spec, &collector, &why), 0);
	while (replay_collector_next(collector, &found[count])) {
		count++;
		assert_true(count < ARRAY_COUNT(found));
	}
	replay_summary_deinit(&summary);
	assert_int_equal(replay_collector_summary(collector, true, &summary), 0);
	assert_int_equal(summary.operations, count);
	replay_collector_destroy(collector);
	reader_close(reader);
	return count;
}

static const struct reader_filter_spec all;

static void assert_near(uint64_t ns, uint64_t us)
{
	assert_in_range(ns, us * NS_PER_US - 10, us * NS_PER_US + 10);
}

static void assert_place(const struct replay_operation *operation, enum replay_kind kind, uint64_t block, uint32_t blocks)
{
	assert_int_equal(operation->kind, kind);
	assert_int_equal(operation->block, block);
	assert_int_equal(operation->blocks, blocks);
}

static void a_command_has_its_kind_place_length_and_times(void **state)
{
	command(0, IO_TYPE_READ, 0x100000123, 8, 100);
	pass(50);
	command(1, IO_TYPE_WRITE, 5, 1, 30);
	pass(20);
	command(2, IO_TYPE_FLUSH, 0, 0, 10);
	command(3, IO_TYPE_UNMAP, 64, 100000, 10);
	command(4, IO_TYPE_WRITE_ZEROES, 128, 16, 10);
	assert_int_equal(collect(&all), 5);
	assert_place(&found[0], REPLAY_READ, 0x100000123, 8);
	assert_place(&found[1], REPLAY_WRITE, 5, 1);
	assert_place(&found[2], REPLAY_FLUSH, 0, 0);
	assert_place(&found[3], REPLAY_UNMAP, 64, 100000);
	assert_place(&found[4], REPLAY_ZEROES, 128, 16);
	assert_int_equal(found[0].start_ns, 0);
	assert_near(found[0].latency_ns, 100);
	assert_near(found[1].start_ns, 150);
	assert_near(found[1].latency_ns, 30);
	assert_true(found[0].device_known);
	assert_near(found[0].device_ns, 100);
	assert_int_equal(summary.queue_count, 1);
	assert_int_equal(summary.queues[0].qid, 3);
	assert_string_equal(summary.queues[0].host, "nqn.host-a");
	assert_int_equal(summary.queues[0].depth, 1);
	assert_int_equal(summary.device_count, 1);
	assert_string_equal(summary.devices[0].name, "disk0");
	assert_int_equal(summary.devices[0].nsid, 7);
	assert_int_equal(summary.devices[0].block_bytes, 512);
	assert_int_equal(summary.devices[0].blocks_used, 0x100000123 + 8);
	assert_int_equal(summary.kinds[REPLAY_READ], 1);
}

static void operations_come_in_the_order_of_their_beginning(void **state)
{
	receive(0, 512);
	submit(0, IO_TYPE_READ, disk, 1, 1);
	pass(10);
	command(1, IO_TYPE_READ, 2, 1, 10);
	command(2, IO_TYPE_READ, 3, 1, 10);
	end_io(0, IO_MEDIA_ERROR);
	reqs[0].cpl.status = 2;
	answer(0);
	reqs[0].cpl.status = 0;
	assert_int_equal(collect(&all), 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(found[i].block, i + 1);
	assert_true(found[0].failed);
	assert_false(found[1].failed);
	assert_near(found[0].latency_ns, 30);
	assert_int_equal(summary.queues[0].depth, 2);
}

static void an_operation_that_does_not_end_has_no_latency(void **state)
{
	command(0, IO_TYPE_READ, 9, 8, 10);
	receive(1, 512);
	submit(1, IO_TYPE_READ, disk, 1, 1);
	pass(10);
	command(2, IO_TYPE_READ, 2, 1, 10);
	assert_int_equal(collect(&all), 3);
	assert_int_equal(found[1].block, 1);
	assert_int_equal(found[1].latency_ns, REPLAY_NO_LATENCY);
	assert_near(found[2].latency_ns, 10);
}

static void the_ranges_of_an_unmap_are_operations_and_the_flush_of_a_durable_write_is_not(void **state)
{
	command(2, IO_TYPE_READ, 1, 1, 10); /* it shows the block size */
	receive(0, 16 * 160);		    /* the size of 160 ranges says nothing about blocks */
	submit(0, IO_TYPE_UNMAP, disk, 10, 5);
	pass(10);
	end_io(0, IO_SUCCESS);
	submit(0, IO_TYPE_UNMAP, disk, 20, 6);
	pass(15);
	end_io(0, IO_SUCCESS);
	answer(0);
	receive(1, 512);
	submit(1, IO_TYPE_WRITE, disk, 30, 1);
	end_io(1, IO_SUCCESS);
	submit(1, IO_TYPE_FLUSH, disk, 0, 0);
	pass(40);
	end_io(1, IO_SUCCESS);
	answer(1);
	assert_int_equal(collect(&all), 4);
	assert_place(&found[1], REPLAY_UNMAP, 10, 5);
	assert_place(&found[2], REPLAY_UNMAP, 20, 6);
	assert_near(found[2].start_ns, 20);
	assert_near(found[2].latency_ns, 15);
	assert_place(&found[3], REPLAY_WRITE, 30, 1);
	assert_true(found[3].durable);
	assert_near(found[3].latency_ns, 40);
	assert_near(found[3].device_ns, 40); /* the flush is a part of the write */
}

static void only_the_time_behind_the_dispatch_is_at_the_device(void **state)
{
	receive(0, 4096);
	pass(70); /* waits for a buffer, say */
	submit(0, IO_TYPE_READ, disk, 8, 8);
	pass(20);
	end_io(0, IO_SUCCESS);
	pass(5);
	answer(0);
	receive(1, 512);
	submit(1, IO_TYPE_READ, disk, 1, 1);
	pass(10);
	answer(1); /* its end at the device is not recorded */
	assert_int_equal(collect(&all), 2);
	assert_near(found[0].latency_ns, 95);
	assert_near(found[0].device_ns, 20);
	assert_false(found[1].device_known);
}

static void queues_hosts_and_devices_are_distinguished(void **state)
{
	command(0, IO_TYPE_READ, 1, 1, 10);
	reqs[1].story.trace.owner = connection_2;
	receive(1, 4096);
	submit(1, IO_TYPE_READ, other_disk, 2, 1);
	pass(5);
	end_io(1, IO_SUCCESS);
	answer(1);
	command(2, IO_TYPE_READ, 3, 1, 10);
	assert_int_equal(collect(&all), 3);
	assert_int_equal(found[0].queue, 0);
	assert_int_equal(found[1].queue, 1);
	assert_int_equal(found[2].queue, 0);
	assert_int_equal(found[1].device, 1);
	assert_int_equal(summary.queue_count, 2);
	assert_string_equal(summary.queues[1].host, "[fd00::1]");
	assert_int_equal(summary.queues[1].host_number, 2);
	assert_string_equal(summary.devices[1].name, "disk1");
	assert_int_equal(summary.devices[1].block_bytes, 4096);
	assert_int_equal(collect(&(struct reader_filter_spec){ .owner = "host-a" }), 2);
	assert_int_equal(summary.queue_count, 1);
}

static void commands_without_a_device_are_no_operations(void **state)
{
	receive(0, 4096); /* Identify, say */
	pass(5);
	answer(0);
	receive(1, 0); /* an event request, which waits for ever */
	nvmf_req_state_move(tick, &reqs[1], NVMF_REQ_WAIT_EVENT);
	command(2, IO_TYPE_READ, 3, 1, 10);
	assert_int_equal(collect(&all), 1);
	assert_int_equal(summary.queue_count, 1);
}

static void names_are_left_out_unless_wanted(void **state)
{
	struct replay_collector *collector;
	struct replay_operation operation;
	struct fathom_fault why;
	struct reader *reader;

	command(0, IO_TYPE_READ, 1, 1, 10);
	assert_int_equal(reader_open(path, &reader, &why), 0);
	assert_int_equal(replay_collector_create(&reader, 1, &all, &collector, &why), 0);
	while (replay_collector_next(collector, &operation))
		;
	replay_summary_deinit(&summary);
	assert_int_equal(replay_collector_summary(collector, false, &summary), 0);
	assert_string_equal(summary.queues[0].host, "");
	assert_string_equal(summary.devices[0].name, "");
	assert_string_equal(summary.source, "");
	replay_collector_destroy(collector);
	reader_close(reader);
}

/* Collect from damaged bytes, whatever they say. */
static void collect_damaged(const uint8_t *bytes, size_t count)
{
	struct replay_summary damaged;
	struct replay_collector *collector;
	struct replay_operation operation;
	struct fathom_fault why;
	struct reader *reader;
	char copy[sizeof(path) + 8];
	FILE *file;

	snprintf(copy, sizeof(copy), "%s.copy", path);
	file = fopen(copy, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	fclose(file);
	if (reader_open(copy, &reader, &why) == 0) {
		if (replay_collector_create(&reader, 1, &all, &collector, &why) == 0) {
			while (replay_collector_next(collector, &operation))
				assert_true(replay_operation_is_valid(&operation, REPLAY_QUEUES_MAX, REPLAY_DEVICES_MAX));
			assert_int_equal(replay_collector_summary(collector, true, &damaged), 0);
			replay_summary_deinit(&damaged);
			replay_collector_destroy(collector);
		}
		reader_close(reader);
	}
	unlink(copy);
}

static void damage_gives_valid_operations_or_none(void **state)
{
	enum { ROUNDS = 60, CHANGES = 40, BYTES_MAX = 64 << 20 };
	struct random random;
	size_t count, used = 0;
	uint8_t *bytes = malloc(BYTES_MAX), **places;
	FILE *file = fopen(path, "r");

	for (int i = 0; i < REQUESTS / 2; i++)
		command(i, i % 3 ? IO_TYPE_READ : IO_TYPE_UNMAP, (uint64_t)i << 20, 8, 10);
	assert_non_null(file);
	assert_non_null(bytes);
	count = fread(bytes, 1, BYTES_MAX, file);
	fclose(file);
	places = malloc(count * sizeof(uint8_t *));
	assert_non_null(places);
	for (size_t i = 576; i < count; i++) { /* behind the header */
		if (bytes[i])
			places[used++] = &bytes[i];
	}
	random_init(&random, 1);
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t *changed[CHANGES], former[CHANGES];

		for (int i = 0; i < CHANGES; i++) {
			changed[i] = places[random_below(&random, used)];
			former[i] = *changed[i];
			*changed[i] = (uint8_t)random_next(&random);
		}
		collect_damaged(bytes, count);
		for (int i = CHANGES; i-- > 0;)
			*changed[i] = former[i];
	}
	collect_damaged(bytes, count / 2);
	free(places);
	free(bytes);
}

static int free_summary(void **state)
{
	replay_summary_deinit(&summary);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_command_has_its_kind_place_length_and_times, open_trace, close_trace),
		cmocka_unit_test_setup_teardown(operations_come_in_the_order_of_their_beginning, open_trace, close_trace),
		cmocka_unit_test_setup_teardown(an_operation_that_does_not_end_has_no_latency, open_trace, close_trace),
		cmocka_unit_test_setup_teardown(
			the_ranges_of_an_unmap_are_operations_and_the_flush_of_a_durable_write_is_not, open_trace,
			close_trace),
		cmocka_unit_test_setup_teardown(only_the_time_behind_the_dispatch_is_at_the_device, open_trace,
						close_trace),
		cmocka_unit_test_setup_teardown(queues_hosts_and_devices_are_distinguished, open_trace, close_trace),
		cmocka_unit_test_setup_teardown(commands_without_a_device_are_no_operations, open_trace, close_trace),
		cmocka_unit_test_setup_teardown(names_are_left_out_unless_wanted, open_trace, close_trace),
		cmocka_unit_test_setup_teardown(damage_gives_valid_operations_or_none, open_trace, close_trace),
	};

	return cmocka_run_group_tests_name("replay collect", tests, NULL, free_summary);
}
