/* SPDX-License-Identifier: BSD-2-Clause */
/* The limiter of log lines: each line is admitted or counted as suppressed, once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log_limit.h"

#define T0 (1000 * NS_PER_SEC)

static void a_burst_is_admitted_and_then_one_line_per_interval(void **state)
{
	struct log_limit limit = LOG_LIMIT(3, NS_PER_SEC);
	uint64_t suppressed = 99;

	for (int i = 0; i < 3; i++) {
		assert_true(log_limit_admit(&limit, T0, &suppressed));
		assert_int_equal(suppressed, 0);
	}
	suppressed = 99;
	assert_false(log_limit_admit(&limit, T0, &suppressed));
	assert_false(log_limit_admit(&limit, T0 + NS_PER_SEC - 1, &suppressed));
	assert_int_equal(suppressed, 99); /* unchanged */
	assert_true(log_limit_admit(&limit, T0 + NS_PER_SEC, &suppressed));
	assert_int_equal(suppressed, 2);
	assert_false(log_limit_admit(&limit, T0 + NS_PER_SEC, &suppressed));
}

static void a_long_silence_allows_no_more_than_the_burst(void **state)
{
	struct log_limit limit = LOG_LIMIT(2, NS_PER_SEC);
	uint64_t suppressed;
	int admitted = 0;

	assert_true(log_limit_admit(&limit, T0, &suppressed));
	for (int i = 0; i < 10; i++)
		admitted += log_limit_admit(&limit, T0 + 3600 * NS_PER_SEC, &suppressed);
	assert_int_equal(admitted, 2);
	/* a full bucket does not keep elapsed time: the next token takes a whole interval */
	assert_false(log_limit_admit(&limit, T0 + 3600 * NS_PER_SEC + NS_PER_SEC / 2, &suppressed));
	assert_true(log_limit_admit(&limit, T0 + 3601 * NS_PER_SEC, &suppressed));
}

static void a_fraction_of_an_interval_is_not_lost(void **state)
{
	struct log_limit limit = LOG_LIMIT(2, NS_PER_SEC);
	uint64_t suppressed, now = T0;
	int admitted = 0;

	for (int i = 0; i < 100; i++, now += NS_PER_SEC * 3 / 10) /* 29.7 seconds */
		admitted += log_limit_admit(&limit, now, &suppressed);
	assert_int_equal(admitted, 2 + 29);
}

static void each_line_is_admitted_or_counted_once(void **state)
{
	struct log_limit limit = LOG_LIMIT(5, NS_PER_SEC);
	uint64_t printed = 0, counted = 0, suppressed;
	uint64_t now = T0;

	for (int i = 0; i < 36900; i++, now += NS_PER_SEC * 5 / 36900) {
		if (!log_limit_admit(&limit, now, &suppressed))
			continue;
		printed++;
		counted += suppressed;
	}
	assert_in_range(printed, 9, 10); /* 5 at once, then one a second for 5 seconds */
	assert_true(log_limit_flush(&limit, now + NS_PER_SEC, &suppressed));
	assert_int_equal(printed + counted + suppressed, 36900);
	assert_false(log_limit_flush(&limit, now + 100 * NS_PER_SEC, &suppressed));
}

static void a_flush_waits_for_its_token_and_uses_it(void **state)
{
	struct log_limit limit = LOG_LIMIT(1, NS_PER_SEC);
	uint64_t suppressed;

	assert_false(log_limit_flush(&limit, T0, &suppressed)); /* nothing was suppressed */
	assert_true(log_limit_admit(&limit, T0, &suppressed));
	assert_false(log_limit_admit(&limit, T0, &suppressed));
	assert_false(log_limit_flush(&limit, T0 + 1, &suppressed));
	assert_true(log_limit_flush(&limit, T0 + NS_PER_SEC, &suppressed));
	assert_int_equal(suppressed, 1);
	assert_false(log_limit_admit(&limit, T0 + NS_PER_SEC, &suppressed));
}

static void a_clock_set_back_adds_no_tokens(void **state)
{
	struct log_limit limit = LOG_LIMIT(1, NS_PER_SEC);
	uint64_t suppressed;

	assert_true(log_limit_admit(&limit, T0, &suppressed));
	assert_false(log_limit_admit(&limit, 0, &suppressed));
	assert_false(log_limit_admit(&limit, T0 - 5 * NS_PER_SEC, &suppressed));
	assert_true(log_limit_admit(&limit, T0 + NS_PER_SEC, &suppressed));
	assert_int_equal(suppressed, 2);
}

static void a_count_above_zero_is_printed_in_words(void **state)
{
	char text[LOG_LIMIT_TEXT_BYTES];

	assert_string_equal(log_limit_text(text, 0), "");
	assert_string_equal(log_limit_text(text, 36899), " (and 36899 more that were not logged)");
	assert_string_equal(log_limit_text(text, UINT64_MAX), " (and 18446744073709551615 more that were not logged)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_is_admitted_and_then_one_line_per_interval),
		cmocka_unit_test(a_long_silence_allows_no_more_than_the_burst),
		cmocka_unit_test(a_fraction_of_an_interval_is_not_lost),
		cmocka_unit_test(each_line_is_admitted_or_counted_once),
		cmocka_unit_test(a_flush_waits_for_its_token_and_uses_it),
		cmocka_unit_test(a_clock_set_back_adds_no_tokens),
		cmocka_unit_test(a_count_above_zero_is_printed_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
