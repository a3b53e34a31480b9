/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recorder of a program that continues to trace. Each write of the recorder takes as long as some records of the program,
 * so the rings wrap several times while all tables are written.
 */
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

#include "base/file.h"
#include "base/must.h"
#include "demo/demo.h"
#include "demo/probes.gen.h"
#include "fathom/trace/trace.h"
#include "inspect/record/record.h"

enum { ENTRIES = 1024, BYTES_PER_RECORD = 1024, STEPS_MAX = 10000 };

static char directory[64], output[96];
static uint64_t recorded;
static bool writes_take_time;

int __real_file_write_at(int fd, const void *data, size_t bytes, uint64_t offset);
int __wrap_file_write_at(int fd, const void *data, size_t bytes, uint64_t offset);

static void record_one(void)
{
	probe_count_io(trace_now(), recorded, (uint32_t)recorded);
	recorded++;
}

int __wrap_file_write_at(int fd, const void *data, size_t bytes, uint64_t offset)
{
	for (size_t at = 0; writes_take_time && at < bytes; at += BYTES_PER_RECORD)
		record_one();
	return __real_file_write_at(fd, data, bytes, offset);
}

static int setup(void **state)
{
	struct trace_options options = { .schema = &fathom_schema,
					 .name = "record",
					 .directory = directory,
					 .io_entries = ENTRIES,
					 .rare_entries = ENTRIES,
					 .groups = "all",
					 .thread_count = 1,
					 .small_thread_count = 1 };
	struct fathom_fault why;

	snprintf(directory, sizeof(directory), "/dev/shm/fathom-record-XXXXXX");
	if (!mkdtemp(directory) || trace_open(&options, &why) != 0)
		return -1;
	snprintf(output, sizeof(output), "%s/out", directory);
	recorded = 0;
	return trace_thread_attach("main", -1, true);
}

static int teardown(void **state)
{
	char path[256];

	snprintf(path, sizeof(path), "%s", trace_path());
	trace_close();
	unlink(path);
	unlink(output);
	return rmdir(directory);
}

static void no_event_is_lost_while_tables_are_written(void **state)
{
	struct recorder_options options = { .source = trace_path(), .output = output };
	struct recorder_progress progress;
	struct recorder *recorder;
	struct fathom_fault why;
	uint64_t sleep_ns = 0, kept;
	int steps = 0;

	for (int i = 0; i < 2 * ENTRIES; i++)
		record_one();
	kept = ENTRIES - TRACE_PARTS_MAX;
	writes_take_time = true;
	assert_int_equal(recorder_open(&options, &recorder, &why), 0);
	/* until the first pass over the tables has ended: then the recorder may sleep */
	do {
		assert_int_equal(recorder_step(recorder, &sleep_ns, &why), 0);
	} while (sleep_ns == 0 && ++steps < STEPS_MAX);
	writes_take_time = false;
	assert_true(steps > 1);
	assert_true(recorded > 3 * ENTRIES);
	assert_int_equal(recorder_close(recorder, &progress, &why), 0);
	assert_int_equal(progress.lost, 0);
	assert_int_equal(progress.records, recorded - 2 * ENTRIES + kept);
}

static void an_existing_file_is_overwritten_only_with_force(void **state)
{
	struct recorder_options options = { .source = trace_path(), .output = output };
	struct recorder_progress progress;
	struct recorder *recorder;
	struct fathom_fault why;
	char text[8] = "";
	FILE *file = fopen(output, "w");

	assert_non_null(file);
	fputs("mine", file);
	fclose(file);
	record_one();
	assert_int_equal(recorder_open(&options, &recorder, &why), -EEXIST);
	assert_non_null(strstr(why.text, "--force"));
	file = fopen(output, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	assert_string_equal(text, "mine");
	options.force = true;
	assert_int_equal(recorder_open(&options, &recorder, &why), 0);
	assert_int_equal(recorder_close(recorder, &progress, &why), 0);
	assert_int_equal(progress.records, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_event_is_lost_while_tables_are_written, setup, teardown),
		cmocka_unit_test_setup_teardown(an_existing_file_is_overwritten_only_with_force, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
