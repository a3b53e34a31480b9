/* SPDX-License-Identifier: BSD-2-Clause */
/* The history of volumes in `fathom top`: intervals become slots, gaps stay unknown, memory has a bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "target.h"

#define LAST (TOP_HISTORY_SLOTS - 1)

static struct top_history *history;
static struct top_sample *before;
static struct top_slots slots;

static int setup(void **state)
{
	history = top_history_create(10 * SECOND);
	before = NULL;
	return 0;
}

static int teardown(void **state)
{
	top_sample_release(before);
	top_history_destroy(history);
	return 0;
}

/* Add a sample at `seconds` with this answer of bdev_get_iostat, by process `pid`. */
static void add_answer(double seconds, const char *iostat, int pid)
{
	char reactors[128];
	struct target target = { .iostat = iostat, .reactors = reactors };
	struct top_sample *now;

	snprintf(reactors, sizeof(reactors), "{'tick_rate':1000000,'pid':%d,'reactors':[]}", pid);
	now = make_sample(&target, (uint64_t)(seconds * SECOND));
	top_history_add(history, before, now);
	top_sample_release(before);
	before = now;
}

/* The volume "m" with these totals; each of its reads took 100 us. */
static void add(double seconds, unsigned int reads)
{
	char iostat[256];

	snprintf(iostat, sizeof(iostat),
		 "{'tick_rate':1000000,'bdevs':[{'name':'m','num_read_ops':%u,'read_latency_ticks':%u,'num_write_ops':0,"
		 "'write_latency_ticks':0}]}",
		 reads, reads * 100);
	add_answer(seconds, iostat, 7);
}

static void assert_slot(const float *values, uint32_t index, double expected)
{
	if (values[index] < expected - 0.01 || values[index] > expected + 0.01)
		fail_msg("slot %u: %f, not %f", index, (double)values[index], expected);
}

static void an_interval_counts_for_all_its_slots(void **state)
{
	add(1000, 0);
	add(1005, 500);	 /* 100 a second in the slot from 1000 s */
	add(1025, 2500); /* 100 a second in it and in the next two, without a gap */
	assert_true(top_history_get(history, "m", &slots));
	for (uint32_t i = LAST - 2; i <= LAST; i++) {
		assert_slot(slots.iops, i, 100);
		assert_slot(slots.latency_us, i, 100);
	}
	assert_slot(slots.iops, LAST - 3, -1);
	add(1027, 2500);
	assert_true(top_history_get(history, "m", &slots));
	assert_slot(slots.iops, LAST, 500.0 / 7);
}

static void a_slot_without_io_has_no_latency(void **state)
{
	add(1000, 7);
	add(1009, 7);
	assert_true(top_history_get(history, "m", &slots));
	assert_slot(slots.iops, LAST, 0);
	assert_slot(slots.latency_us, LAST, -1);
}

static void old_slots_are_forgotten(void **state)
{
	add(1000, 0);
	add(1009, 900);
	add(1000 + 10 * TOP_HISTORY_SLOTS + 5, 900);
	assert_true(top_history_get(history, "m", &slots));
	for (uint32_t i = 0; i < TOP_HISTORY_SLOTS; i++)
		assert_slot(slots.iops, i, 0);
	add(100000, 900 + 1000);
	assert_true(top_history_get(history, "m", &slots));
	for (uint32_t i = 1; i < LAST; i++)
		assert_true(slots.iops[i] > 0);
}

static void another_process_leaves_a_gap(void **state)
{
	add(1000, 0);
	add(1009, 900);
	add_answer(
		1021,
		"{'tick_rate':1000000,'bdevs':[{'name':'m','num_read_ops':5000,'read_latency_ticks':1,'num_write_ops':0}]}",
		8);
	add_answer(1029,
		   "{'tick_rate':1000000,'bdevs':[{'name':'m','num_read_ops':5080,'read_latency_ticks':801,'num_write_ops':"
		   "0}]}",
		   8);
	assert_true(top_history_get(history, "m", &slots));
	assert_slot(slots.iops, LAST - 2, 100);
	assert_slot(slots.iops, LAST - 1, -1);
	assert_slot(slots.iops, LAST, 10);
}

static void a_removed_volume_is_forgotten(void **state)
{
	char text[TOP_BAR_BYTES_MAX];

	add(1000, 0);
	add(1009, 900);
	add_answer(1010, "{'tick_rate':1000000,'bdevs':[{'name':'a'},{'name':'z'}]}", 7);
	assert_false(top_history_get(history, "m", &slots));
	assert_slot(slots.iops, LAST, -1);
	assert_true(top_history_get(history, "a", &slots));
	assert_true(top_history_get(history, "z", &slots));
	assert_string_equal(top_history_bars(history, "m", 3, false, text), "   ");
}

static void a_failed_call_changes_nothing(void **state)
{
	add(1000, 0);
	add(1009, 900);
	add_answer(1015, NO, 7);
	add_answer(1019, "{'tick_rate':1000000,'bdevs':[{'name':'m','num_read_ops':900,'num_write_ops':0}]}", 7);
	assert_true(top_history_get(history, "m", &slots));
	assert_slot(slots.iops, LAST - 1, 100);
	assert_slot(slots.iops, LAST, -1);
}

static void more_volumes_than_the_limit_have_no_history(void **state)
{
	size_t room = (TOP_HISTORY_VOLUMES_MAX + 9) * 40;
	char *iostat = malloc(room);
	size_t used;
	uint32_t known = 0;

	assert_non_null(iostat);
	used = (size_t)snprintf(iostat, room, "{'tick_rate':1000000,'bdevs':[");
	for (int i = 0; i < TOP_HISTORY_VOLUMES_MAX + 3; i++)
		used += (size_t)snprintf(iostat + used, room - used, "%s{'name':'v%d','num_read_ops':1}", i ? "," : "", i);
	snprintf(iostat + used, room - used, "]}");
	add_answer(1000, iostat, 7);
	add_answer(1005, iostat, 7);
	for (int i = 0; i < TOP_HISTORY_VOLUMES_MAX + 3; i++) {
		char name[16];

		snprintf(name, sizeof(name), "v%d", i);
		known += top_history_get(history, name, &slots);
	}
	assert_int_equal(known, TOP_HISTORY_VOLUMES_MAX);
	free(iostat);
}

static void bars_are_relative_to_the_highest_slot(void **state)
{
	char text[TOP_BAR_BYTES_MAX];

	add(1000, 0);
	add(1010, 100);
	add(1020, 900);
	add(1029.9, 900);
	assert_string_equal(top_history_bars(history, "m", 4, false, text), " .@_");
	assert_string_equal(top_history_bars(history, "m", 4, true, text), " ▁█_");
	assert_string_equal(top_history_bars(history, "m", 1, true, text), "_");
}

static void json_has_all_slots(void **state)
{
	json_t *document, *iops;

	add(1000, 0);
	add(1009.9, 495);
	document = top_history_json(history, "m");
	iops = json_object_get(document, "iops");
	assert_true(json_real_value(json_object_get(document, "slot_seconds")) == 10);
	assert_int_equal(json_array_size(iops), TOP_HISTORY_SLOTS);
	assert_true(json_real_value(json_array_get(iops, LAST)) == 50);
	assert_true(json_real_value(json_array_get(json_object_get(document, "latency_us"), LAST)) == 100);
	assert_true(json_is_null(json_array_get(iops, LAST - 1)));
	json_decref(document);
}

static void keep_line(void *ctx, const char *line)
{
	fprintf(ctx, "%s\n", line);
}

static void details_name_the_range(void **state)
{
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	add(1000, 0);
	add(1010, 100);
	add(1020, 900);
	add(1029.9, 900);
	top_history_details(history, "m", false, keep_line, to);
	top_history_details(history, "absent", false, keep_line, to);
	assert_int_equal(fclose(to), 0);
	assert_non_null(strstr(text, "the last 600 s, 10 s in each bar"));
	assert_non_null(strstr(text, ".@_\n"));
	assert_non_null(strstr(text, "from 0.0 to 80.0\n"));
	assert_non_null(strstr(text, "from 100.0 to 100.0\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_interval_counts_for_all_its_slots, setup, teardown),
		cmocka_unit_test_setup_teardown(a_slot_without_io_has_no_latency, setup, teardown),
		cmocka_unit_test_setup_teardown(old_slots_are_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(another_process_leaves_a_gap, setup, teardown),
		cmocka_unit_test_setup_teardown(a_removed_volume_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_call_changes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(more_volumes_than_the_limit_have_no_history, setup, teardown),
		cmocka_unit_test_setup_teardown(bars_are_relative_to_the_highest_slot, setup, teardown),
		cmocka_unit_test_setup_teardown(json_has_all_slots, setup, teardown),
		cmocka_unit_test_setup_teardown(details_name_the_range, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
