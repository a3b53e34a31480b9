/* SPDX-License-Identifier: BSD-2-Clause */
/* Which failed joins are rejections, and which are retried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/server/engines/engines.h"

static bool is_refused(int error, struct fathom_fault *why)
{
	assert_true(error < 0);
	return engines_is_join_rejected(why);
}

static void a_join_refused_by_the_rules_is_rejected(void **state)
{
	struct fathom_fault why;

	assert_true(is_refused(fault_rank_excluded(&why, 1), &why));
	assert_true(is_refused(fault_wrong_system(&why, "a", "b"), &why));
	assert_true(is_refused(fault_join_uuid_bad(&why, "x"), &why));
	assert_true(is_refused(fault_join_replace_member(&why, 1, "x"), &why));
	assert_true(is_refused(fault_domain_labels(&why, "/a", "/b=c"), &why));
	assert_true(is_refused(fault_join_incarnation_old(&why, 1, 2, 3), &why));
}

static void a_join_that_fails_at_the_management_host_is_not_rejected(void **state)
{
	struct fathom_fault why;

	assert_false(is_refused(fault_db_failed(&why, "/x", "commit", "Input/output error"), &why));
	assert_false(is_refused(fault_db_full(&why, "/x"), &why));
	assert_false(is_refused(fault_db_conflict(&why, "k", 1, 2), &why));
	assert_false(is_refused(fault_db_damaged(&why, "/x", "a checksum"), &why));
	assert_false(is_refused(fault_not_started(&why), &why));
	assert_false(is_refused(fault_mgmt_queue_full(&why, 65536, "joins"), &why));
	assert_false(is_refused(fault_database_empty(&why, "/x", 0, "10.0.0.1:10001", 1), &why));
	assert_false(is_refused(fault_timed_out(&why, "10.0.0.1:10001"), &why));
	assert_false(is_refused(fault_not_trusted(&why, "10.0.0.1:10001", "expired"), &why));
	memset(&why, 0, sizeof(why));
	assert_false(is_refused(fault(&why, -EREMOTEIO, "Cannot allocate memory"), &why));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_join_refused_by_the_rules_is_rejected),
		cmocka_unit_test(a_join_that_fails_at_the_management_host_is_not_rejected),
	};

	return cmocka_run_group_tests_name("server join", tests, NULL, NULL);
}
