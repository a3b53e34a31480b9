/* SPDX-License-Identifier: BSD-2-Clause */
/* When operations of a replay start: at their times, in their order, within the depth, and after the ones before them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "inspect/replay/schedule.h"

static const uint32_t depths[] = { 2, 1 };

static struct schedule *make(double speed, bool keeps_gaps)
{
	const struct schedule_options options = {
		.speed = speed, .keeps_gaps = keeps_gaps, .queue_count = 2, .depths = depths
	};
	struct schedule *schedule = schedule_create(&options);

	assert_non_null(schedule);
	return schedule;
}

static void add(struct schedule *schedule, uint16_t queue, uint64_t start_ns, uint64_t latency_ns)
{
	const struct replay_operation operation = {
		.start_ns = start_ns, .latency_ns = latency_ns, .blocks = 1, .queue = queue
	};

	schedule_add(schedule, &operation, start_ns); /* the tests know an operation by its start */
}

static struct scheduled take(struct schedule *schedule, uint64_t now_ns)
{
	struct scheduled item;

	assert_true(schedule_take(schedule, now_ns, &item));
	return item;
}

static void assert_none(struct schedule *schedule, uint64_t now_ns)
{
	struct scheduled item;

	assert_false(schedule_take(schedule, now_ns, &item));
}

static void an_operation_starts_at_its_time(void **state)
{
	struct schedule *schedule = make(1, false);

	assert_false(schedule_wants(schedule, 500, 499));
	assert_true(schedule_wants(schedule, 500, 500));
	add(schedule, 0, 500, 10);
	assert_int_equal(schedule_next_ns(schedule), 500);
	assert_none(schedule, 499);
	assert_int_equal(take(schedule, 600).due_ns, 500);
	assert_int_equal(schedule_next_ns(schedule), SCHEDULE_NEVER);
	assert_int_equal(schedule_waiting(schedule), 0);
	schedule_destroy(schedule);
}

static void at_twice_the_speed_it_starts_at_half_the_time(void **state)
{
	struct schedule *schedule = make(2, false);

	assert_true(schedule_wants(schedule, 1000, 500));
	add(schedule, 0, 1000, 10);
	assert_none(schedule, 499);
	assert_int_equal(take(schedule, 500).due_ns, 500);
	schedule_destroy(schedule);
}

static void an_operation_waits_for_room_and_queues_do_not_wait_for_each_other(void **state)
{
	struct schedule *schedule = make(1, false);
	struct scheduled first, late;

	for (uint64_t i = 0; i < 3; i++)
		add(schedule, 0, i, 10);
	add(schedule, 1, 3, 10);
	first = take(schedule, 5);
	assert_int_equal(first.number, 0);
	/* the turn goes to the other queue */
	assert_int_equal(take(schedule, 5).number, 3);
	assert_int_equal(take(schedule, 5).number, 1);
	assert_none(schedule, 5);
	assert_int_equal(schedule_next_ns(schedule), SCHEDULE_NEVER);
	schedule_end(schedule, &first, 90);
	assert_int_equal(schedule_next_ns(schedule), 2);
	late = take(schedule, 90);
	assert_int_equal(late.number, 2);
	assert_true(late.had_to_wait);
	assert_int_equal(late.due_ns, 2);
	assert_false(first.had_to_wait);
	schedule_destroy(schedule);
}

static void at_full_speed_only_the_depth_limits(void **state)
{
	struct schedule *schedule = make(0, false);

	assert_true(schedule_wants(schedule, UINT64_MAX / 4, 0));
	add(schedule, 0, 1000000, 10);
	add(schedule, 0, 2000000, 10);
	add(schedule, 0, 3000000, 10);
	(void)take(schedule, 0);
	(void)take(schedule, 0);
	assert_none(schedule, 0);
	schedule_destroy(schedule);
}

static void a_gap_counts_from_the_end_that_came_before(void **state)
{
	struct schedule *schedule = make(1, true);
	struct scheduled a, b;

	/* a: 0 to 100; b: 10 to 60; c began at 75, that is 15 after the end of b */
	add(schedule, 0, 0, 100);
	add(schedule, 0, 10, 50);
	add(schedule, 0, 75, 10);
	a = take(schedule, 0);
	b = take(schedule, 10);
	assert_none(schedule, 1000);
	schedule_end(schedule, &a, 1000);
	assert_none(schedule, 1000); /* it follows b, not a */
	schedule_end(schedule, &b, 3000);
	assert_int_equal(schedule_next_ns(schedule), 3015);
	assert_none(schedule, 3014);
	assert_int_equal(take(schedule, 3020).due_ns, 3015);
	schedule_destroy(schedule);
}

static void a_gap_shrinks_with_the_speed(void **state)
{
	struct schedule *schedule = make(10, true);
	struct scheduled a;

	add(schedule, 1, 0, 100);
	add(schedule, 1, 1100, 100);
	a = take(schedule, 0);
	schedule_end(schedule, &a, 500);
	assert_int_equal(schedule_next_ns(schedule), 600);
	schedule_destroy(schedule);
}

/* Whatever the answers take, all operations start once, in the order of their queue, and never more than the depth. */
static void run_random(uint64_t seed, double speed, bool keeps_gaps)
{
	enum { COUNT = 3000 };
	struct schedule *schedule = make(speed, keeps_gaps);
	struct scheduled flights[8];
	uint32_t in_flight = 0, taken = 0, per_queue[2] = { 0 };
	uint64_t now = 0, start = 0, last[2] = { 0 };
	struct random random;

	random_init(&random, seed);
	for (uint32_t i = 0; i < COUNT; i++)
		add(schedule, (uint16_t)random_below(&random, 2), start += 1 + random_below(&random, 50),
		    random_below(&random, 9) ? random_below(&random, 300) : REPLAY_NO_LATENCY);
	while (taken < COUNT || in_flight > 0) {
		while (schedule_take(schedule, now, &flights[in_flight])) {
			uint16_t queue = flights[in_flight].operation.queue;

			assert_true(flights[in_flight].number > last[queue]);
			assert_true(flights[in_flight].due_ns <= now);
			last[queue] = flights[in_flight].number;
			assert_true(++per_queue[queue] <= depths[queue]);
			in_flight++;
			taken++;
		}
		now += random_below(&random, 40);
		if (in_flight > 0 && random_below(&random, 3) == 0) {
			uint32_t at = (uint32_t)random_below(&random, in_flight);

			schedule_end(schedule, &flights[at], now);
			per_queue[flights[at].operation.queue]--;
			flights[at] = flights[--in_flight];
		}
		assert_true(in_flight > 0 || taken == COUNT || schedule_next_ns(schedule) != SCHEDULE_NEVER);
	}
	assert_int_equal(schedule_waiting(schedule), 0);
	schedule_destroy(schedule);
}

static void all_operations_start_once_in_order(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		run_random(seed, 1, false);
		run_random(seed, 0, false);
		run_random(seed, 1, true);
		run_random(seed, 0, true);
	}
}

static void reading_stops_when_too_many_wait(void **state)
{
	struct schedule *schedule = make(0, false);

	for (uint32_t i = 0; i < SCHEDULE_WAITING_MAX; i++) {
		assert_true(schedule_wants(schedule, i, 0));
		add(schedule, 0, i, 1);
	}
	assert_false(schedule_wants(schedule, SCHEDULE_WAITING_MAX, 0));
	(void)take(schedule, 0);
	assert_true(schedule_wants(schedule, SCHEDULE_WAITING_MAX, 0));
	schedule_destroy(schedule);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_operation_starts_at_its_time),
		cmocka_unit_test(at_twice_the_speed_it_starts_at_half_the_time),
		cmocka_unit_test(an_operation_waits_for_room_and_queues_do_not_wait_for_each_other),
		cmocka_unit_test(at_full_speed_only_the_depth_limits),
		cmocka_unit_test(a_gap_counts_from_the_end_that_came_before),
		cmocka_unit_test(a_gap_shrinks_with_the_speed),
		cmocka_unit_test(all_operations_start_once_in_order),
		cmocka_unit_test(reading_stops_when_too_many_wait),
	};

	return cmocka_run_group_tests_name("replay schedule", tests, NULL, NULL);
}
