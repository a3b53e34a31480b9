/* SPDX-License-Identifier: BSD-2-Clause */
/* Slow runs of reactors: joined, ordered, and found by thread and time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/blame/evidence.h"

enum { JOIN = 10 };

static struct evidence evidence;

static int setup(void **state)
{
	evidence = (struct evidence){ .join_ticks = JOIN };
	return 0;
}

static int teardown(void **state)
{
	evidence_deinit(&evidence);
	return 0;
}

static void hold(uint32_t thread, uint64_t from, uint64_t to, uint32_t name)
{
	evidence.holds = realloc(evidence.holds, (evidence.hold_count + 1) * sizeof(evidence.holds[0]));
	evidence.holds[evidence.hold_count++] = (struct blame_hold){ from, to, thread, name };
}

static void runs_with_a_short_gap_are_one(void **state)
{
	hold(2, 100, 200, 7);
	hold(1, 500, 600, 8);
	hold(2, 205, 300, 7);
	hold(2, 320, 400, 7);
	hold(1, 100, 110, 9);
	evidence_finish(&evidence);
	assert_int_equal(evidence.hold_count, 4);
	assert_int_equal(evidence.holds[0].thread, 1);
	assert_int_equal(evidence.holds[0].to, 110);
	assert_int_equal(evidence.holds[2].from, 100);
	assert_int_equal(evidence.holds[2].to, 300);
	assert_int_equal(evidence.holds[2].name, 7);
	assert_int_equal(evidence.holds[3].from, 320);
}

static void the_longer_of_joined_runs_gives_the_name(void **state)
{
	hold(0, 0, 10, 1);
	hold(0, 10, 1000, 2);
	hold(0, 1000, 1010, 3);
	hold(0, 2000, 2100, 4);
	hold(0, 2100, 2200, 5); /* none is most of it */
	evidence_finish(&evidence);
	assert_int_equal(evidence.hold_count, 2);
	assert_int_equal(evidence.holds[0].name, 2);
	assert_int_equal(evidence.holds[1].name, 0);
}

static void runs_are_found_by_thread_and_time(void **state)
{
	const struct blame_hold *found;

	for (uint32_t i = 0; i < 10; i++) {
		hold(3, 1000 * i, 1000 * i + 500, i);
		hold(5, 1000 * i + 200, 1000 * i + 700, 100 + i);
	}
	evidence_finish(&evidence);
	assert_int_equal(evidence_holds(&evidence, 3, 2500, 4000, &found), 1);
	assert_int_equal(found->name, 3);
	assert_int_equal(evidence_holds(&evidence, 3, 2499, 4001, &found), 3);
	assert_int_equal(found->name, 2);
	assert_int_equal(evidence_holds(&evidence, 5, 0, 100000, &found), 10);
	assert_int_equal(found->name, 100);
	assert_int_equal(evidence_holds(&evidence, 4, 0, 100000, &found), 0);
	assert_null(found);
}

static void the_latest_round_trip_before_a_request_counts(void **state)
{
	struct evidence_rtt rows[] = { { 100, 1, 50 }, { 200, 2, 70 }, { 300, 1, 60 }, { 500, 1, 90 } };

	evidence.rtts = rows;
	evidence.rtt_count = ARRAY_COUNT(rows);
	assert_int_equal(evidence_rtt_us(&evidence, 1, 400), 60);
	assert_int_equal(evidence_rtt_us(&evidence, 1, 50), 50);
	assert_int_equal(evidence_rtt_us(&evidence, 2, 900), 70);
	assert_int_equal(evidence_rtt_us(&evidence, 3, 900), 0);
	evidence.rtts = NULL;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(runs_with_a_short_gap_are_one),
		CASE(the_longer_of_joined_runs_gives_the_name),
		CASE(runs_are_found_by_thread_and_time),
		CASE(the_latest_round_trip_before_a_request_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
