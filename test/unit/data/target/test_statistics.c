/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics of queue pairs and poll groups: the time of reads and writes, bytes, the oldest command. */
#include "rig.h"

#include <string.h>

#include "base/clock.h"
#include "data/store/bdev/bdev.h"
#include "data/target/internal.h"

static struct rig_conn *admin, *io;
static uint8_t data[4096];

/* The present statistics. */
static struct nvmf_qpair_info qpairs[4];
static size_t qpair_count;
static struct nvmf_group_stats sums; /* of all groups; `oldest_ticks` is the highest */

static int setup(void **state)
{
	uint16_t cntlid;

	rig_setup(state);
	admin = rig_admin(0, &cntlid);
	io = rig_io(1, cntlid, 1);
	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	rig_close(admin);
	rig_free(admin);
	rig_free(io);
	return rig_teardown(state);
}

static void keep_qpairs(void *ctx, int rc, const struct fathom_fault *why, const struct nvmf_qpair_info *infos,
			size_t count)
{
	must(rc == 0);
	must(count <= ARRAY_COUNT(qpairs));
	memcpy(qpairs, infos, count * sizeof(*infos));
	qpair_count = count;
}

static void keep_sums(void *ctx, const struct nvmf_group_stats *stats, size_t count)
{
	memset(&sums, 0, sizeof(sums));
	for (size_t i = 0; i < count; i++) {
		sums.bytes_read += stats[i].bytes_read;
		sums.bytes_written += stats[i].bytes_written;
		sums.io_request_count += stats[i].io_request_count;
		sums.completed_nvme_io += stats[i].completed_nvme_io;
		sums.oldest_ticks = max_u64(sums.oldest_ticks, stats[i].oldest_ticks);
	}
}

static void ask_on_control(void *ctx)
{
	nvmf_subsystem_get_qpairs(RIG_NQN, keep_qpairs, NULL);
	nvmf_target_get_stats(keep_sums, NULL);
}

static void ask(void)
{
	rig_call(thread_control(), ask_on_control, NULL);
}

static uint64_t ns_of(uint64_t ticks)
{
	return clock_ns_from_ticks(ticks);
}

static void test_a_queue_has_the_time_of_its_reads_and_writes(void **state)
{
	struct rig_cmd reads[2] = { rig_c2h(NVME_NVM_READ, 2, data, 512), rig_c2h(NVME_NVM_READ, 2, data, 512) };
	struct rig_cmd write = rig_h2c(NVME_NVM_WRITE, 2, data, 512), flush = rig_plain(NVME_NVM_FLUSH, 2);

	rig_submit(io, &reads[0]);
	rig_submit(io, &write);
	rig_submit(io, &flush);
	rig_advance(3 * NS_PER_SEC);
	ask();
	assert_int_equal(qpairs[1].read_count, 0); /* they have not ended */
	rig_disk_release(IO_SUCCESS);
	rig_submit(io, &reads[1]);
	rig_advance(NS_PER_SEC);
	rig_disk_release(IO_SUCCESS);
	ask();
	assert_int_equal(qpair_count, 2);
	assert_int_equal(qpairs[1].qid, 1);
	assert_int_equal(qpairs[1].read_count, 2);
	assert_in_range(ns_of(qpairs[1].read_ticks), 4 * NS_PER_SEC - 1000, 4 * NS_PER_SEC + NS_PER_MS);
	assert_int_equal(qpairs[1].write_count, 1);
	assert_in_range(ns_of(qpairs[1].write_ticks), 3 * NS_PER_SEC - 1000, 3 * NS_PER_SEC + NS_PER_MS);
}

static void test_commands_that_fail_have_no_time(void **state)
{
	struct rig_cmd read = rig_c2h(NVME_NVM_READ, 2, data, 512), bad = rig_c2h(NVME_NVM_READ, 9, data, 512);

	rig_submit(io, &read);
	rig_advance(NS_PER_SEC);
	rig_disk_release(IO_MEDIA_ERROR);
	assert_true(read.done);
	assert_int_not_equal(rig_exec(io, &bad), NVME_SC_SUCCESS);
	ask();
	assert_int_equal(qpairs[1].read_count, 0);
	assert_int_equal(qpairs[1].read_ticks, 0);
}

static void test_opcodes_of_an_admin_queue_are_not_reads(void **state)
{
	/* Get Log Page has the opcode of Read */
	struct rig_cmd log = rig_c2h(NVME_ADMIN_GET_LOG_PAGE, 0, data, 64);

	static_assert((int)NVME_ADMIN_GET_LOG_PAGE == (int)NVME_NVM_READ, "else this tests nothing");
	log.cmd.cdw10 = 1 | 15 << 16; /* errors, 16 dwords */
	assert_int_equal(rig_exec(admin, &log), NVME_SC_SUCCESS);
	ask();
	assert_int_equal(qpairs[0].qid, 0);
	assert_int_equal(qpairs[0].read_count, 0);
	assert_true(qpairs[0].bytes_read >= 64);
}

static void test_groups_have_the_oldest_command_of_hosts(void **state)
{
	static struct rig_cmd event; /* it ends in the teardown */
	struct rig_cmd old = rig_c2h(NVME_NVM_READ, 2, data, 512), young = old;

	event = rig_plain(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
	rig_submit(admin, &event); /* it waits for an event */
	rig_advance(10 * NS_PER_SEC);
	ask();
	assert_int_equal(sums.io_request_count, 0);
	assert_int_equal(sums.oldest_ticks, 0);
	rig_submit(io, &old);
	rig_advance(5 * NS_PER_SEC);
	rig_submit(io, &young);
	rig_advance(NS_PER_SEC);
	ask();
	assert_int_equal(sums.io_request_count, 2);
	assert_in_range(ns_of(sums.oldest_ticks), 6 * NS_PER_SEC - 1000, 6 * NS_PER_SEC + NS_PER_MS);
	rig_disk_release(IO_SUCCESS);
	ask();
	assert_int_equal(sums.io_request_count, 0);
	assert_int_equal(sums.oldest_ticks, 0);
}

static void test_bytes_of_a_closed_queue_stay_counted(void **state)
{
	struct rig_cmd read = rig_c2h(NVME_NVM_READ, 1, data, 1024), write = rig_h2c(NVME_NVM_WRITE, 1, data, 512);
	uint64_t connect_bytes;

	ask();
	connect_bytes = sums.bytes_written; /* the data of Connect */
	rig_blocks(&read, 0, 2);
	assert_int_equal(rig_exec(io, &read), NVME_SC_SUCCESS);
	assert_int_equal(rig_exec(io, &write), NVME_SC_SUCCESS);
	ask();
	assert_int_equal(sums.bytes_read, 1024);
	assert_int_equal(sums.bytes_written, connect_bytes + 512);
	rig_close(io);
	ask();
	assert_int_equal(qpair_count, 1);
	assert_int_equal(sums.bytes_read, 1024);
	assert_int_equal(sums.bytes_written, connect_bytes + 512);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_queue_has_the_time_of_its_reads_and_writes), T(test_commands_that_fail_have_no_time),
		T(test_opcodes_of_an_admin_queue_are_not_reads),      T(test_groups_have_the_oldest_command_of_hosts),
		T(test_bytes_of_a_closed_queue_stay_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
