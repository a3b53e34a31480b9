/* SPDX-License-Identifier: BSD-2-Clause */
/* What a comparison of latencies says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inspect/replay/compare.h"

static struct comparison *make(void)
{
	struct comparison *comparison = comparison_create(2);

	assert_non_null(comparison);
	return comparison;
}

static int add_result(struct comparison *comparison, const struct replay_operation *operation, uint64_t number,
		      uint64_t replayed_ns, bool failed)
{
	/* no two end at about the same time */
	const struct comparison_result result = { .operation = operation,
						  .number = number,
						  .replayed_ns = replayed_ns,
						  .end_ns = number << 32,
						  .failed = failed };

	return comparison_add(comparison, &result);
}

static void add(struct comparison *comparison, unsigned int kind, uint64_t recorded_us, uint64_t replayed_us,
		uint64_t number)
{
	const struct replay_operation operation = { .kind = (uint8_t)kind, .latency_ns = recorded_us * 1000, .queue = 1 };

	assert_int_equal(add_result(comparison, &operation, number, replayed_us * 1000, false), 0);
}

static const char *sentence(const struct comparison *comparison, unsigned int kind, uint64_t round_trip_us)
{
	static char text[COMPARISON_SENTENCE_BYTES];

	return comparison_sentence(comparison, kind, round_trip_us * 1000, text);
}

static void a_slower_target_is_called_slower(void **state)
{
	struct comparison *comparison = make();

	for (int i = 0; i < 100; i++)
		add(comparison, REPLAY_READ, 100, 190, 1);
	assert_string_equal(sentence(comparison, REPLAY_READ, 0),
			    "reads took 1.9 times as long as in the recording: p99 190 us, was 100 us");
	assert_string_equal(sentence(comparison, REPLAY_WRITE, 0), "no writes ended in both");
	comparison_destroy(comparison);
}

static void the_round_trip_does_not_count(void **state)
{
	struct comparison *comparison = make();

	add(comparison, REPLAY_READ, 100, 140, 1);
	assert_string_equal(sentence(comparison, REPLAY_READ, 40),
			    "reads took as long as in the recording: p99 100 us, was 100 us");
	assert_true(comparison_ratio(&comparison->kinds[REPLAY_READ], 5000, 40000) == 1);
	assert_true(comparison_ratio(&comparison->kinds[REPLAY_READ], 5000, 1000000) == 0);
	assert_true(comparison_ratio(&comparison->kinds[REPLAY_WRITE], 5000, 0) == 0);
	comparison_destroy(comparison);
}

static void a_faster_target_is_called_faster(void **state)
{
	struct comparison *comparison = make();

	add(comparison, REPLAY_FLUSH, 1000, 250, 1);
	assert_string_equal(sentence(comparison, REPLAY_FLUSH, 0),
			    "flushes took 0.25 of the time in the recording: p99 250 us, was 1000 us");
	comparison_destroy(comparison);
}

/* Add `count` reads: recorded, of that at the device, and replayed, in microseconds. */
static void add_known(struct comparison *comparison, int count, uint64_t recorded_us, uint64_t device_us,
		      uint64_t replayed_us)
{
	const struct replay_operation operation = { .latency_ns = recorded_us * 1000,
						    .device_ns = device_us * 1000,
						    .device_known = true };

	for (int i = 0; i < count; i++)
		assert_int_equal(add_result(comparison, &operation, 1, replayed_us * 1000, false), 0);
}

static enum comparison_where where(const struct comparison *comparison, uint64_t round_trip_us, double *least_ret)
{
	struct comparison_difference found = comparison_find_difference(&comparison->kinds[REPLAY_READ],
									round_trip_us * 1000);

	*least_ret = found.least;
	return found.where;
}

static void a_difference_that_the_rest_cannot_explain_is_the_device(void **state)
{
	struct comparison *comparison = make(), *other = make();
	char text[COMPARISON_SENTENCE_BYTES];
	double least;

	add_known(comparison, 5, 1000, 990, 110);
	add_known(other, 5, 1000, 990, 110);
	assert_int_equal(comparison_merge(comparison, other), 0);
	assert_int_equal(where(comparison, 10, &least), COMPARISON_DEVICE);
	assert_true(least > 0.988 && least < 0.989); /* 900 us less, of which 10 us can be something else */
	assert_string_equal(
		comparison_difference_sentence(comparison, REPLAY_READ, 10000, text),
		"at least 98 % of the difference is the device of the recording: reads took 1000 us on average, 990 us "
		"of them at the device; the replay took 100 us");
	comparison_destroy(comparison);
	comparison_destroy(other);
}

static void a_difference_that_the_device_cannot_explain_is_elsewhere(void **state)
{
	struct comparison *comparison = make();
	char text[COMPARISON_SENTENCE_BYTES];
	double least;

	add_known(comparison, 5, 1000, 50, 100);
	assert_int_equal(where(comparison, 0, &least), COMPARISON_ELSEWHERE);
	assert_true(least > 0.94 && least < 0.95);
	assert_non_null(strstr(comparison_difference_sentence(comparison, REPLAY_READ, 0, text),
			       "at least 94 % of the difference is not the device of the recording: "));
	comparison_destroy(comparison);
}

static void a_difference_says_nothing_that_is_not_sure(void **state)
{
	struct comparison *comparison = make();
	char text[COMPARISON_SENTENCE_BYTES];
	double least;

	assert_int_equal(where(comparison, 0, &least), COMPARISON_NOT_KNOWN);
	add(comparison, REPLAY_READ, 1000, 100, 1); /* without the time at the device */
	assert_int_equal(where(comparison, 0, &least), COMPARISON_NOT_KNOWN);
	add_known(comparison, 1, 1000, 500, 100);
	assert_int_equal(where(comparison, 0, &least), COMPARISON_UNCLEAR);
	assert_non_null(strstr(comparison_difference_sentence(comparison, REPLAY_READ, 0, text), "may be the device"));
	add_known(comparison, 100, 100, 99, 100);
	assert_int_equal(where(comparison, 0, &least), COMPARISON_EQUAL);
	add_known(comparison, 100, 100, 99, 1000);
	assert_int_equal(where(comparison, 0, &least), COMPARISON_SLOWER);
	assert_null(comparison_difference_sentence(comparison, REPLAY_READ, 0, text));
	comparison_destroy(comparison);
}

static void failed_and_unfinished_operations_are_not_compared(void **state)
{
	struct replay_operation operation = { .latency_ns = 1000, .failed = true };
	struct comparison *comparison = make();

	assert_int_equal(add_result(comparison, &operation, 0, 5000, true), 0);
	assert_int_equal(add_result(comparison, &operation, 1, 5000, false), 0);
	operation.failed = false;
	assert_int_equal(add_result(comparison, &operation, 2, 5000, true), 0);
	operation.latency_ns = REPLAY_NO_LATENCY;
	assert_int_equal(add_result(comparison, &operation, 3, 5000, false), 0);
	assert_int_equal(comparison->failed_in_recording, 2);
	assert_int_equal(comparison->failed_in_replay, 2);
	assert_int_equal(comparison->failed_in_both, 1);
	assert_int_equal(comparison->unknown, 1);
	assert_int_equal(comparison->kinds[REPLAY_READ].recorded.count, 0);
	assert_int_equal(comparison->worst_count, 0);
	comparison_destroy(comparison);
}

static void the_ten_largest_differences_are_kept_over_all_threads(void **state)
{
	struct comparison *one = make(), *other = make();

	for (uint64_t i = 1; i <= 50; i++)
		add(i % 2 ? one : other, REPLAY_READ, 1000 - i, 1000 - i + 10 * i, i);
	add(one, REPLAY_READ, 9000, 100, 51); /* faster: never among them */
	assert_int_equal(comparison_merge(one, other), 0);
	comparison_sort(one);
	assert_int_equal(one->worst_count, COMPARISON_WORST_MAX);
	for (uint32_t i = 0; i < COMPARISON_WORST_MAX; i++)
		assert_int_equal(one->worst[i].number, 50 - i);
	assert_int_equal(one->kinds[REPLAY_READ].recorded.count, 51);
	assert_null(one->queues[0]);
	assert_int_equal(one->queues[1]->replayed.count, 51);
	comparison_destroy(one);
	comparison_destroy(other);
}

static void operations_that_one_stall_delayed_are_one_entry(void **state)
{
	const struct replay_operation operation = { .latency_ns = 1000 };
	struct comparison *comparison = make();

	for (uint64_t i = 0; i < 40; i++) {
		/* four stalls of ten operations each; the last but one of each took longest */
		const struct comparison_result result = { .operation = &operation,
							  .number = i,
							  .replayed_ns = 5000000 + 1000 * (i % 10 == 8 ? 99 : i),
							  .end_ns = 1000000000 * (1 + i / 10) + i };

		assert_int_equal(comparison_add(comparison, &result), 0);
	}
	comparison_sort(comparison);
	assert_int_equal(comparison->worst_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(comparison->worst[i].number % 10, 8);
		assert_int_equal(comparison->worst[i].others, 9);
	}
	comparison_destroy(comparison);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slower_target_is_called_slower),
		cmocka_unit_test(the_round_trip_does_not_count),
		cmocka_unit_test(a_faster_target_is_called_faster),
		cmocka_unit_test(a_difference_that_the_rest_cannot_explain_is_the_device),
		cmocka_unit_test(a_difference_that_the_device_cannot_explain_is_elsewhere),
		cmocka_unit_test(a_difference_says_nothing_that_is_not_sure),
		cmocka_unit_test(failed_and_unfinished_operations_are_not_compared),
		cmocka_unit_test(the_ten_largest_differences_are_kept_over_all_threads),
		cmocka_unit_test(operations_that_one_stall_delayed_are_one_entry),
	};

	return cmocka_run_group_tests_name("replay compare", tests, NULL, NULL);
}
