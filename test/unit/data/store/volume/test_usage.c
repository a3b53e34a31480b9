/* SPDX-License-Identifier: BSD-2-Clause */
/* Levels and forecasts of a pool's use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>

#include "data/store/volume/usage.h"

#define MINUTE_NS (60 * NS_PER_SEC)
#define HOUR_NS (60 * MINUTE_NS)

static struct usage usage;
static uint64_t now_ns;

static int setup(void **state)
{
	usage_init(&usage);
	now_ns = HOUR_NS;
	return 0;
}

/* Note `used` of 1000; whether the level changed. */
static bool note(uint64_t used)
{
	return usage_note(&usage, now_ns, used, 1000);
}

static void the_level_rises_at_each_limit(void **state)
{
	assert_false(note(799));
	assert_true(note(800));
	assert_int_equal(usage.state, SPACE_OVER_80);
	assert_true(note(900));
	assert_true(note(950));
	assert_int_equal(usage.state, SPACE_OVER_95);
	assert_false(note(1000));
	assert_int_equal(usage_percent(&usage), 100);
	assert_false(note(2000)); /* more than there is */
	assert_int_equal(usage_percent(&usage), 100);
}

static void one_step_passes_several_limits(void **state)
{
	assert_true(note(960));
	assert_int_equal(usage.state, SPACE_OVER_95);
	assert_true(note(10));
	assert_int_equal(usage.state, SPACE_BELOW_80);
}

static void a_value_at_a_limit_does_not_change_the_level_again_and_again(void **state)
{
	uint32_t changes = 0;

	for (int i = 0; i < 100; i++)
		changes += note(i % 2 ? 799 : 801);
	assert_int_equal(changes, 1);
	assert_false(note(770));
	assert_true(note(769));
	assert_int_equal(usage.state, SPACE_BELOW_80);
	assert_true(note(950));
	assert_true(note(910)); /* to the next limit below */
	assert_int_equal(usage.state, SPACE_OVER_90);
	assert_false(note(890));
	assert_true(note(869));
	assert_int_equal(usage.state, SPACE_OVER_80);
}

static void without_a_limit_nothing_is_full_until_it_is_used(void **state)
{
	assert_false(usage_note(&usage, now_ns, 0, 0));
	assert_int_equal(usage_percent(&usage), 0);
	assert_true(usage_note(&usage, now_ns, 1, 0));
	assert_int_equal(usage_percent(&usage), 100);
}

static void large_sizes_do_not_overflow(void **state)
{
	usage_note(&usage, now_ns, UINT64_MAX / 2, UINT64_MAX - 1);
	assert_int_equal(usage_percent(&usage), 50);
	now_ns += HOUR_NS;
	usage_note(&usage, now_ns, UINT64_MAX / 4 * 3 + 3, UINT64_MAX - 1);
	assert_int_equal(usage_percent(&usage), 75);
	assert_in_range(usage.full_in_ns, HOUR_NS - MINUTE_NS, HOUR_NS + MINUTE_NS);
}

static void there_is_no_forecast_before_the_use_grows_for_a_minute(void **state)
{
	note(100);
	assert_true(usage.full_in_ns == USAGE_NO_FORECAST);
	now_ns += MINUTE_NS - 1;
	note(200);
	assert_true(usage.full_in_ns == USAGE_NO_FORECAST);
	now_ns += 1;
	note(200);
	assert_int_equal(usage.full_in_ns, 8 * MINUTE_NS);
}

static void a_constant_or_falling_use_has_no_forecast(void **state)
{
	for (uint64_t used = 500; used > 400; used -= used % 2 ? 0 : 10) {
		note(used);
		assert_true(usage.full_in_ns == USAGE_NO_FORECAST);
		now_ns += MINUTE_NS;
	}
}

static void the_forecast_is_by_the_last_hour(void **state)
{
	/* fast for two hours, then one a minute */
	for (uint64_t i = 0; i < 120; i++, now_ns += MINUTE_NS)
		note(5 * i);
	for (uint64_t i = 0; i < 90; i++, now_ns += MINUTE_NS)
		note(600 + i);
	now_ns -= MINUTE_NS;
	note(700);
	assert_in_range(usage.full_in_ns, 240 * MINUTE_NS, 310 * MINUTE_NS); /* 300 at 70 an hour */
	/* two hours without a sample */
	now_ns += 2 * HOUR_NS;
	note(800);
	assert_true(usage.full_in_ns == USAGE_NO_FORECAST);
	now_ns += MINUTE_NS;
	note(900);
	assert_int_equal(usage.full_in_ns, MINUTE_NS);
	note(1000);
	assert_int_equal(usage.full_in_ns, 0);
}

static void many_readings_within_a_minute_are_one_sample(void **state)
{
	for (uint64_t i = 0; i <= 600; i++, now_ns += NS_PER_SEC)
		note(i);
	assert_in_range(usage.full_in_ns, 390 * NS_PER_SEC, 410 * NS_PER_SEC);
}

static void a_growth_of_decades_is_no_forecast(void **state)
{
	usage_note(&usage, now_ns, 0, UINT64_MAX);
	now_ns += HOUR_NS;
	usage_note(&usage, now_ns, 1, UINT64_MAX);
	assert_true(usage.full_in_ns == USAGE_NO_FORECAST);
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_level_rises_at_each_limit),
		CASE(one_step_passes_several_limits),
		CASE(a_value_at_a_limit_does_not_change_the_level_again_and_again),
		CASE(without_a_limit_nothing_is_full_until_it_is_used),
		CASE(large_sizes_do_not_overflow),
		CASE(there_is_no_forecast_before_the_use_grows_for_a_minute),
		CASE(a_constant_or_falling_use_has_no_forecast),
		CASE(the_forecast_is_by_the_last_hour),
		CASE(many_readings_within_a_minute_are_one_sample),
		CASE(a_growth_of_decades_is_no_forecast),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
