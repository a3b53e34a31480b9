/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations out of the trace of an SPDK target. */
#include "inspect/replay/collect.h"
#include "rig.h"

enum { READ = 1, WRITE = 2, FLUSH = 4, RESET = 5, QUEUE = 40, DISK = 41, FORGOTTEN = 42, US = 1000 };

static struct spdk_file file;
static uint64_t tick = 1000;

static void record(uint16_t tpoint, uint16_t owner, uint64_t object)
{
	const struct spdk_file_event event = { .tick = tick, .tpoint = tpoint, .owner = owner, .object = object };

	spdk_file_record(&file, 0, &event);
}

static void submit(uint64_t io, uint64_t request, uint64_t type, uint64_t offset, uint32_t blocks)
{
	const struct spdk_file_event event = { .tick = tick,
					       .tpoint = IO_START,
					       .owner = DISK,
					       .object = io,
					       .size = blocks,
					       .values = {
						       { .number = type }, { .number = request }, { .number = offset } } };

	spdk_file_record(&file, 0, &event);
}

static void command(uint16_t queue, uint64_t type, uint64_t offset, uint32_t blocks, uint64_t us)
{
	record(REQ_NEW, queue, 0xa0);
	submit(0xb0, 0xa0, type, offset, blocks);
	tick += us * US;
	record(IO_DONE, DISK, 0xb0);
	record(REQ_DONE, queue, 0xa0);
	tick += US;
}

static void an_spdk_target_gives_the_same_without_a_block_size(void **state)
{
	struct replay_operation found[8];
	struct replay_collector *collector;
	struct replay_summary summary;
	struct fathom_fault why;
	struct reader *reader;
	uint32_t count = 0;
	uint64_t us;
	char path[256];

	rig_file(&file, 1, 256);
	spdk_file_owner(&file, QUEUE, 1, OWNER_QPAIR, "10.1.1.1:33592 nqn.s 10.1.1.2:4420 qid:2");
	spdk_file_owner(&file, DISK, 1, OWNER_QPAIR, "bdev_Disk");
	command(QUEUE, READ, 1234, 8, 50);
	command(QUEUE, WRITE, 77, 16, 20);
	command(QUEUE, FLUSH, 0, 0, 10);
	command(QUEUE, RESET, 0, 0, 10);
	command(QUEUE, READ, 5, 1, 30);
	command(FORGOTTEN, READ, 6, 1, 30); /* the file has no text of this connection */
	command(FORGOTTEN, READ, 7, 1, 30);
	reader = rig_open(&file, path);
	assert_int_equal(replay_collector_create(&reader, 1, &(struct reader_filter_spec){ 0 }, &collector, &why), 0);
	while (count < ARRAY_COUNT(found) && replay_collector_next(collector, &found[count]))
		count++;
	assert_int_equal(count, 6);
	us = reader_ns_from_ticks(reader, US);
	assert_int_equal(found[0].kind, REPLAY_READ);
	assert_int_equal(found[0].block, 1234);
	assert_int_equal(found[0].blocks, 8);
	assert_in_range(found[0].latency_ns, 50 * us, 51 * us);
	assert_true(found[0].device_known);
	assert_in_range(found[0].device_ns, 50 * us, 51 * us);
	assert_int_equal(found[1].kind, REPLAY_WRITE);
	assert_int_equal(found[1].blocks, 16);
	assert_in_range(found[1].start_ns, 51 * us, 52 * us);
	assert_int_equal(found[2].kind, REPLAY_FLUSH);
	assert_int_equal(found[3].block, 5);
	assert_int_equal(replay_collector_summary(collector, true, &summary), 0);
	assert_int_equal(summary.queue_count, 2);
	assert_string_equal(summary.queues[1].host, "unknown");
	assert_int_equal(summary.queues[1].operations, 2);
	assert_int_equal(summary.queues[0].qid, 2);
	assert_string_equal(summary.queues[0].host, "10.1.1.1");
	assert_string_equal(summary.devices[0].name, "bdev_Disk");
	assert_int_equal(summary.devices[0].block_bytes, 0);
	replay_summary_deinit(&summary);
	replay_collector_destroy(collector);
	reader_close(reader);
	spdk_file_free(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_spdk_target_gives_the_same_without_a_block_size),
	};

	return cmocka_run_group_tests_name("replay collect spdk", tests, NULL, NULL);
}
