/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules that the call FaultInject changes: all or none, and none in a build without points. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/inject/inject.h"
#include "control/fault/fault.h"
#include "control/server/host/host.h"

static bool is_absent;

bool __real_inject_is_built(void);
bool __wrap_inject_is_built(void);
bool __wrap_inject_is_built(void)
{
	return !is_absent && __real_inject_is_built();
}

static bool is_armed(enum inject_point point)
{
	struct inject_status status;

	inject_read(point, &status);
	return status.is_armed;
}

static void a_build_without_points_refuses_rules(void **state)
{
	struct fathom_fault why = { 0 };

	is_absent = true;
	assert_int_equal(injection_change("", "db_write=fail", &why), -ENOTSUP);
	assert_int_equal(why.code, FAULT_INJECTION_ABSENT);
	assert_int_equal(injection_change("", "", &why), -ENOTSUP);
	is_absent = false;
}

static void a_change_is_whole_or_none(void **state)
{
	struct fathom_fault why = { 0 };

	assert_int_equal(injection_change("", "db_write=fail  join=fail", &why), 0);
	assert_int_equal(injection_change("db_write", "join=burn", &why), -EINVAL);
	assert_int_equal(why.code, FAULT_INJECTION_RULE);
	assert_non_null(strstr(why.text, "none of fail, delay, crash and hang"));
	assert_int_equal(injection_change("db_write nowhere", "", &why), -EINVAL);
	assert_true(is_armed(INJECT_DB_WRITE));
	assert_int_equal(injection_change(" db_write ", "db_read=crash", &why), 0);
	assert_false(is_armed(INJECT_DB_WRITE));
	assert_true(is_armed(INJECT_JOIN));
	assert_true(is_armed(INJECT_DB_READ));
	assert_int_equal(injection_change("all", "", &why), 0);
	assert_false(is_armed(INJECT_JOIN));
	assert_false(is_armed(INJECT_DB_READ));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_build_without_points_refuses_rules),
		cmocka_unit_test(a_change_is_whole_or_none),
	};

	if (!__real_inject_is_built()) {
		puts("1..0 # SKIP a build without fault injection");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
