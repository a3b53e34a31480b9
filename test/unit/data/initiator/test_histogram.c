/* SPDX-License-Identifier: BSD-2-Clause */
/* Percentiles compared with a sorted array, and the ends of the range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/histogram.h"
#include "base/random.h"

enum { VALUES = 20000 };

static struct histogram histogram, other;
static uint64_t values[VALUES];

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static void percentiles_are_exact_within_one_percent(void **state)
{
	static const uint32_t asked[] = { 1, 5000, 9000, 9900, 9990, 10000 };

	for (uint64_t seed = 0; seed < 20; seed++) {
		struct random random;

		random_init(&random, seed);
		memset(&histogram, 0, sizeof(histogram));
		memset(&other, 0, sizeof(other));
		for (int i = 0; i < VALUES; i++) {
			values[i] = random_next(&random) >> random_below(&random, 64);
			histogram_add(i % 3 ? &histogram : &other, values[i]);
		}
		histogram_merge(&histogram, &other);
		qsort(values, VALUES, sizeof(*values), compare);
		assert_int_equal(histogram.count, VALUES);
		assert_int_equal(histogram.min, values[0]);
		assert_int_equal(histogram.max, values[VALUES - 1]);
		for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
			uint64_t exact = values[(uint64_t)VALUES * asked[i] / 10000 - 1];
			uint64_t got = histogram_percentile(&histogram, asked[i]);

			assert_true((got > exact ? got - exact : exact - got) <= exact / 100);
		}
	}
}

static void each_value_has_a_bucket(void **state)
{
	uint32_t last = 0;

	for (int bit = 0; bit < 64; bit++) {
		assert_true(histogram_bucket(1ull << bit) > last || bit == 0);
		last = histogram_bucket(1ull << bit);
	}
	assert_int_equal(histogram_bucket(0), 0);
	assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static void an_empty_histogram_has_no_percentiles(void **state)
{
	memset(&histogram, 0, sizeof(histogram));
	assert_int_equal(histogram_percentile(&histogram, 9900), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_are_exact_within_one_percent),
		cmocka_unit_test(each_value_has_a_bucket),
		cmocka_unit_test(an_empty_histogram_has_no_percentiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
