/* SPDX-License-Identifier: BSD-2-Clause */
/* A build without the option fault_injection: no point can be armed, and none has an effect. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/inject/inject.h"

static_assert(FAULT_INJECTION == 0, "this file is compiled as in such a build");

static void no_rule_is_taken_and_no_point_has_an_effect(void **state)
{
	assert_false(inject_is_built());
	assert_string_equal(INJECT_NOTE, "");
	for (unsigned int i = 0; i < INJECT_POINTS; i++) {
		enum inject_point point = (enum inject_point)i;
		struct inject_status status;

		inject_read(point, &status);
		for (unsigned int action = 0; action < INJECT_ACTIONS; action++) {
			const struct inject_rule rule = { .action = (enum inject_action)action,
							  .delay_ms = action == INJECT_DELAY };
			struct fathom_fault why = { 0 };
			char text[128];

			assert_int_equal(inject_arm(point, &rule, &why), -ENOTSUP);
			assert_non_null(strstr(why.text, "built without fault injection"));
			snprintf(text, sizeof(text), "%s=%s%s", status.name, inject_action_name(rule.action),
				 action == INJECT_DELAY ? ":1ms" : "");
			assert_true(inject_arm_texts(text, NULL) < 0);
		}
		assert_int_equal(inject(point), 0);
		inject_wait(point);
		inject_read(point, &status);
		assert_int_equal(status.passed, 0);
		assert_false(status.is_armed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_rule_is_taken_and_no_point_has_an_effect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
