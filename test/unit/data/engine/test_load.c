/* SPDX-License-Identifier: BSD-2-Clause */
/* The I/O of the last minute, from readings of totals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/engine/load.h"

static void add(struct load_window *window, uint64_t at_s, uint64_t operations, uint64_t bytes)
{
	const struct load totals = { operations, bytes };

	load_window_add(window, at_s * NS_PER_SEC, &totals);
}

static void check(const struct load_window *window, uint64_t operations, uint64_t bytes)
{
	struct load minute = load_window_minute(window);

	assert_int_equal(minute.operations, operations);
	assert_int_equal(minute.bytes, bytes);
}

static void what_was_before_the_first_reading_does_not_count(void **state)
{
	struct load_window window = { 0 };

	check(&window, 0, 0);
	add(&window, 5, 1000, 9000);
	check(&window, 0, 0);
	add(&window, 6, 1001, 9010);
	check(&window, 1, 10);
}

static void only_the_last_minute_counts(void **state)
{
	struct load_window window = { 0 };

	for (uint64_t at_s = 0; at_s <= 300; at_s++) {
		add(&window, at_s, 2 * at_s, 4096 * at_s);
		/* samples are ten seconds apart */
		assert_true(load_window_minute(&window).operations <= 140);
		assert_true(at_s < 60 || load_window_minute(&window).operations >= 120);
		assert_int_equal(load_window_minute(&window).bytes, load_window_minute(&window).operations * 2048);
	}
	for (uint64_t at_s = 301; at_s <= 371; at_s++)
		add(&window, at_s, 600, 300 * 4096);
	check(&window, 0, 0);
}

static void a_pause_longer_than_the_window_leaves_one_reading(void **state)
{
	struct load_window window = { 0 };

	add(&window, 0, 0, 0);
	add(&window, 20, 50, 50);
	add(&window, 4000, 70, 60);
	check(&window, 20, 10); /* since the reading before the pause: no later one is a minute old */
	add(&window, 4060, 70, 60);
	check(&window, 0, 0);
}

static void a_total_that_falls_adds_nothing(void **state)
{
	struct load_window window = { 0 };

	add(&window, 0, 100, 1000);
	add(&window, 1, 110, 1100);
	add(&window, 2, 30, 1150); /* a volume is gone */
	check(&window, 10, 150);
	add(&window, 3, 35, 1150);
	check(&window, 15, 150);
}

static void an_engine_without_a_storage_has_no_load(void **state)
{
	assert_int_equal(load_read().operations, 0);
	load_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_before_the_first_reading_does_not_count),
		cmocka_unit_test(only_the_last_minute_counts),
		cmocka_unit_test(a_pause_longer_than_the_window_leaves_one_reading),
		cmocka_unit_test(a_total_that_falls_adds_nothing),
		cmocka_unit_test(an_engine_without_a_storage_has_no_load),
	};

	return cmocka_run_group_tests_name("engine load", tests, NULL, NULL);
}
