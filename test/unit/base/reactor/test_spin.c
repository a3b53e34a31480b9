/* SPDX-License-Identifier: BSD-2-Clause */
/* How long to poll in vain, as a function of the gaps before. */
#include "rig.h"

#include "base/reactor/spin.h"

static struct spin fresh(void)
{
	struct spin spin;

	spin_init(&spin, SPIN_MIN_US, SPIN_BASE_US, SPIN_MAX_US);
	return spin;
}

static void it_begins_with_the_base(void **state)
{
	assert_int_equal(fresh().ticks, SPIN_BASE_US);
}

static void short_gaps_change_nothing(void **state)
{
	struct spin spin = fresh();

	for (int i = 0; i < 100; i++)
		spin_gap(&spin, 1 + i % SPIN_BASE_US);
	assert_int_equal(spin.ticks, SPIN_BASE_US);
}

static void regular_gaps_within_reach_are_soon_outlasted(void **state)
{
	for (uint64_t gap = SPIN_BASE_US + 1; gap <= 150; gap++) {
		struct spin spin = fresh();

		for (int i = 0; i < 12; i++)
			spin_gap(&spin, gap);
		assert_true(spin.ticks > gap);
		assert_true(spin.ticks <= SPIN_MAX_US);
	}
}

static void after_some_long_gaps_it_hardly_spins(void **state)
{
	struct spin spin = fresh();

	for (int i = 0; i < SPIN_MISSES_MAX; i++) {
		assert_true(spin.ticks >= SPIN_BASE_US);
		spin_gap(&spin, 1000);
	}
	assert_int_equal(spin.ticks, SPIN_MIN_US);
	spin_gap(&spin, 20); /* busy again */
	assert_int_equal(spin.ticks, SPIN_BASE_US);
}

static void long_gaps_undo_the_stretch(void **state)
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

static void a_fixed_spin_stays(void **state)
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
		cmocka_unit_test(it_begins_with_the_base),
		cmocka_unit_test(short_gaps_change_nothing),
		cmocka_unit_test(regular_gaps_within_reach_are_soon_outlasted),
		cmocka_unit_test(after_some_long_gaps_it_hardly_spins),
		cmocka_unit_test(long_gaps_undo_the_stretch),
		cmocka_unit_test(a_fixed_spin_stays),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
