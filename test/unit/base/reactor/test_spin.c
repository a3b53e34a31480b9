/* SPDX-License-Identifier: BSD-2-Clause */
/* How long a reactor polls without work before it sleeps, as a function of earlier gaps. */
#include "rig.h"

#include "base/reactor/spin.h"

static struct spin fresh(void)
{
	struct spin spin;

	spin_init(&spin, SPIN_MIN_US, SPIN_BASE_US, SPIN_MAX_US);
	return spin;
}

static void a_spin_starts_with_the_base(void **state)
{
	assert_int_equal(fresh().ticks, SPIN_BASE_US);
}

static void short_gaps_do_not_change_the_spin(void **state)
{
	struct spin spin = fresh();

	for (int i = 0; i < 100; i++)
		spin_gap(&spin, 1 + i % SPIN_BASE_US);
	assert_int_equal(spin.ticks, SPIN_BASE_US);
}

static void the_spin_grows_beyond_regular_gaps_below_the_maximum(void **state)
{
	for (uint64_t gap = SPIN_BASE_US + 1; gap <= 150; gap++) {
		struct spin spin = fresh();

		for (int i = 0; i < 12; i++)
			spin_gap(&spin, gap);
		assert_true(spin.ticks > gap);
		assert_true(spin.ticks <= SPIN_MAX_US);
	}
}

static void after_some_long_gaps_the_spin_is_minimal(void **state)
{
	struct spin spin = fresh();

	for (int i = 0; i < SPIN_MISSES_MAX; i++) {
		assert_true(spin.ticks >= SPIN_BASE_US);
		spin_gap(&spin, 1000);
	}
	assert_int_equal(spin.ticks, SPIN_MIN_US);
	spin_gap(&spin, 20); /* a short gap: busy again */
	assert_int_equal(spin.ticks, SPIN_BASE_US);
}

static void long_gaps_shorten_an_extended_spin(void **state)
{
	struct spin spin = fresh();

	for (int i = 0; i < 20; i++)
		spin_gap(&spin, 150);
	assert_true(spin.ticks > 150);
	spin_gap(&spin, 1000);
	spin_gap(&spin, 1000);
	spin_gap(&spin, 1000);
	assert_true(spin.ticks < 80);
}

static void a_fixed_spin_does_not_change(void **state)
{
	struct spin spin;

	spin_init(&spin, 70, 70, 70);
	for (uint64_t gap = 1; gap < 1000; gap++) {
		spin_gap(&spin, gap);
		assert_int_equal(spin.ticks, 70);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_spin_starts_with_the_base),
		cmocka_unit_test(short_gaps_do_not_change_the_spin),
		cmocka_unit_test(the_spin_grows_beyond_regular_gaps_below_the_maximum),
		cmocka_unit_test(after_some_long_gaps_the_spin_is_minimal),
		cmocka_unit_test(long_gaps_shorten_an_extended_spin),
		cmocka_unit_test(a_fixed_spin_does_not_change),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
