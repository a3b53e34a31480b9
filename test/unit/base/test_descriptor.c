/* SPDX-License-Identifier: BSD-2-Clause */
/* The number of descriptors reserved for control. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
/* after those */
#include <cmocka.h>

#include "base/descriptor.h"

static void a_reserve_is_kept_for_each_limit(void **state)
{
	assert_int_equal(descriptor_reserve(1 << 20), DESCRIPTOR_RESERVE_MAX);
	assert_int_equal(descriptor_reserve(DESCRIPTOR_RESERVE_MAX * DESCRIPTOR_RESERVE_PART), DESCRIPTOR_RESERVE_MAX);
	assert_int_equal(descriptor_reserve(64), 64 / DESCRIPTOR_RESERVE_PART);
}

static void connections_get_all_descriptors_except_the_reserve(void **state)
{
	struct rlimit before, few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(descriptor_limit(), 64);
	assert_int_equal(descriptor_admitted_max(), 64 - 64 / DESCRIPTOR_RESERVE_PART);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reserve_is_kept_for_each_limit),
		cmocka_unit_test(connections_get_all_descriptors_except_the_reserve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
