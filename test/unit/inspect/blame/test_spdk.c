/* SPDX-License-Identifier: BSD-2-Clause */
/* A trace file of SPDK's target: its requests have stages, but neither kept lives nor the kernel's counts. */
#include <unistd.h>

#include "inspect/blame/blame.h"
#include "../spdk/rig.h"

enum {
	NEW = 5 * 64 + 8,
	NEED_BUFFER,
	TX_H_TO_C,
	RDY_TO_EXECUTE,
	EXECUTING,
	EXECUTED,
	RDY_TO_COMPL,
	COMPLETED,
	MS = 1000,
	DISK = 41
};

static struct spdk_file file;
static char path[256];

/* The times of a request in NEED_BUFFER, TX_H_TO_C and at the block device, in ms; a tick is a microsecond. */
static uint64_t request(uint64_t tick, uint64_t object, uint64_t buffer_ms, uint64_t data_ms, uint64_t disk_ms)
{
	uint64_t io = object + 0x1000000;

	rig_record(&file, 0, tick, NEW, object, 1);
	rig_record(&file, 0, tick += 2, NEED_BUFFER, object, 0);
	rig_record(&file, 0, tick += buffer_ms * MS, TX_H_TO_C, object, 0);
	rig_record(&file, 0, tick += data_ms * MS, RDY_TO_EXECUTE, object, 0);
	rig_record(&file, 0, tick += 1, EXECUTING, object, 0);
	spdk_file_record(&file, 0,
			 &(struct spdk_file_event){ .tick = tick += 3,
						    .tpoint = IO_START,
						    .owner = DISK,
						    .object = io,
						    .values = { { .number = 1 }, { .number = object } } });
	rig_record(&file, 0, tick += disk_ms * MS, IO_DONE, io, object);
	rig_record(&file, 0, tick += 4, EXECUTED, object, 0);
	rig_record(&file, 0, tick += 5, RDY_TO_COMPL, object, 0);
	rig_record(&file, 0, tick += 6, COMPLETED, object, 0);
	return tick + 100;
}

static int setup(void **state)
{
	static const struct spdk_file_arg number_args[] = { { "n", 0, 8 }, { NULL, 0, 0 } };
	static const char *const names[] = { "NEED_BUFFER", "TX_H_TO_C",    "RDY_TO_EXECUTE", "EXECUTING",
					     "EXECUTED",    "RDY_TO_COMPL", "COMPLETED" };
	static const struct spdk_file_arg start_args[] = { { "type", 0, 8 }, { "ctx", 1, 8 }, { NULL, 0, 0 } };
	static const struct spdk_file_arg done_args[] = { { "ctx", 1, 8 }, { NULL, 0, 0 } };

	spdk_file_init(&file, NULL, 1, 4096, ANY_TPOINTS, 512);
	spdk_file_tpoint(&file, IO_START, "BDEV_IO_START", IO, true, start_args);
	spdk_file_tpoint(&file, IO_DONE, "BDEV_IO_DONE", IO, false, done_args);
	spdk_file_relation(&file, IO_START, REQUEST, 1);
	spdk_file_relation(&file, IO_DONE, REQUEST, 0);
	spdk_file_tpoint(&file, NEW, "TCP_REQ_NEW", REQUEST, true, number_args);
	for (uint16_t i = 0; i < ARRAY_COUNT(names); i++) {
		char name[64];

		snprintf(name, sizeof(name), "TCP_REQ_%s", names[i]);
		spdk_file_tpoint(&file, (uint16_t)(NEED_BUFFER + i), name, REQUEST, false, NULL);
	}
	spdk_file_owner(&file, DISK, 1, OWNER_QPAIR, "bdev_Disk");
	spdk_file_object_type(&file, REQUEST, 'r');
	spdk_file_object_type(&file, IO, 'i');
	return 0;
}

static int teardown(void **state)
{
	spdk_file_free(&file);
	return 0;
}

static void requests_of_spdk_are_split_by_cause(void **state)
{
	const struct blame_request *requests[64];
	struct blame_query query = { 0 };
	struct blame_verdict verdict;
	struct fathom_fault why;
	struct reader *reader;
	struct blame *blame;
	uint64_t tick = 1000;
	uint32_t count;

	for (uint64_t i = 0; i < 20; i++)
		tick = request(tick, 0x10000 + 64 * i, 0, 0, 1);
	tick = request(tick, 0x20000, 50, 0, 1);
	tick = request(tick, 0x20040, 0, 0, 80);
	tick = request(tick, 0x20080, 0, 0, 90);
	tick = request(tick, 0x200c0, 0, 30, 1);
	reader = rig_open(&file, path);
	query.slow_ns = reader_ns_from_ticks(reader, 10 * MS); /* by the rate that the file states */
	assert_int_equal(blame_create(reader, &query, &blame, &why), 0);
	count = blame_request_count(blame);
	assert_int_equal(blame_coverage(blame)->found, 24);
	assert_true(count <= ARRAY_COUNT(requests));
	for (uint32_t i = 0; i < count; i++)
		requests[i] = blame_request_at(blame, i);
	blame_verdict(requests, count, blame_coverage(blame), &verdict);
	assert_int_equal(count, 4);
	assert_int_equal(verdict.cause, BLAME_DISK);
	assert_int_equal(verdict.rows[BLAME_DISK].ticks, (80 + 90 + 2) * MS);
	assert_int_equal(verdict.rows[BLAME_QUEUE].ticks, 50 * MS);
	/* whether the host or the network was late is not in the file */
	assert_int_equal(verdict.rows[BLAME_UNKNOWN].ticks, 30 * MS);
	assert_int_equal(verdict.rows[BLAME_HOST].ticks + verdict.rows[BLAME_NETWORK].ticks, 0);
	assert_int_equal(verdict.whole_count, 4);
	assert_int_equal(blame_coverage(blame)->holds_from, UINT64_MAX);
	blame_destroy(blame);
	reader_close(reader);
}

static void a_device_has_its_name_of_the_rpcs_or_of_the_trace(void **state)
{
	static const char *const names[] = { "Disk", "bdev_Disk" };
	struct fathom_fault why;
	struct reader *reader;
	struct blame *blame;

	(void)request(1000, 0x10000, 0, 0, 1);
	reader = rig_open(&file, path);
	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		const struct blame_query query = { .volume = names[i], .slow_ns = 1 };

		assert_int_equal(blame_create(reader, &query, &blame, &why), 0);
		assert_int_equal(blame_request_count(blame), 1);
		assert_string_equal(blame_request_at(blame, 0)->device, "bdev_Disk");
		blame_destroy(blame);
	}
	reader_close(reader);
}

static void a_query_for_another_device_finds_nothing(void **state)
{
	const struct blame_query query = { .volume = "absent", .slow_ns = 1 };
	struct fathom_fault why;
	struct reader *reader;
	struct blame *blame;

	(void)request(1000, 0x10000, 0, 0, 1);
	reader = rig_open(&file, path);
	assert_int_equal(blame_create(reader, &query, &blame, &why), 0);
	assert_int_equal(blame_request_count(blame), 0);
	assert_int_equal(blame_coverage(blame)->found, 0);
	blame_destroy(blame);
	reader_close(reader);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(requests_of_spdk_are_split_by_cause),
		CASE(a_device_has_its_name_of_the_rpcs_or_of_the_trace),
		CASE(a_query_for_another_device_finds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
