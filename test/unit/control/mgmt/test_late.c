/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of pools that a rank has not got yet: one by one, each with its reason; what is pending after an undo. */
#include "properties_calls.h"

static uint32_t late_of_rank_1(void)
{
	const struct catalog_pool *pool = catalog_find_pool(fixture.mgmt->catalog, "p");

	return catalog_use(&pool->record, 1).late;
}

/* Runs on the control reactor. */
static bool lacks_only_overcommit(void *unused)
{
	return late_of_rank_1() == CATALOG_KEPT_OVERCOMMIT;
}

/* Rank 1 was down when these were set. */
static void begin_with_late_properties(void)
{
	begin_with_pool(2);
	stop_rank("1");
	answer_of(set_property("p", "scrub", "off"));
	answer_of(set_property("p", "overcommit", "true"));
	answer_of(set_property("p", "scrub_freq", "60"));
}

static void a_rank_that_refuses_one_property_gets_the_others(void **state)
{
	begin_with_late_properties();
	storage_of(1)->refused = CATALOG_KEPT_OVERCOMMIT;
	join(1, 200);
	wait_until(lacks_only_overcommit, NULL);
	assert_true(storage_of(1)->pools[0].scrub_off);
	assert_int_equal(storage_of(1)->pools[0].scrub_seconds, 60);
	assert_string_equal(query_rank(1)->late, "overcommit");
	assert_string_equal(property_of("scrub")->late_ranks, "");
	assert_string_equal(property_of("overcommit")->late_ranks, "rank 1");
	reopen_mgmt();
	storage_of(1)->refused = 0;
	wait_current(1);
	assert_true(storage_of(1)->pools[0].overcommit);
}

/* It is joined, so it can be asked whether its volumes fit: nothing has to be started or excluded. */
static void a_rank_that_lacks_a_property_agrees_to_another_one(void **state)
{
	struct question *question;

	begin_with_late_properties();
	storage_of(1)->refused = CATALOG_KEPT_OVERCOMMIT;
	join(1, 200);
	wait_until(lacks_only_overcommit, NULL);
	answer_of(set_property("p", "size", "4G"));
	assert_int_equal(storage_of(0)->pools[0].size_bytes, 2 * GIB);
	assert_int_equal(storage_of(1)->pools[0].size_bytes, 2 * GIB);
	assert_string_equal(query_rank(1)->late, "overcommit");
	storage_of(1)->refused |= CATALOG_KEPT_SIZE;
	question = set_property("p", "size", "2G");
	assert_int_equal(question->why.code, FAULT_STORAGE_FULL);
	assert_non_null(strstr(question->why.text,
			       "rank 1 cannot set the size of pool \"p\" to 2147483648 bytes, 1073741824 on "
			       "each rank, because space is missing"));
	assert_int_equal(storage_of(0)->pools[0].size_bytes, 2 * GIB);
	assert_string_equal(query_rank(1)->late, "overcommit");
	assert_string_equal(query_rank(0)->late, "");
	storage_of(1)->refused = 0;
	wait_current(1);
	assert_true(storage_of(1)->pools[0].overcommit);
}

static bool has_both_reasons(const char *text)
{
	return strncmp(text, "overcommit: rank 1 cannot set overcommit of pool \"p\"", 50) == 0 &&
	       strstr(text, "; scrub: rank 1 cannot set scrub of pool \"p\"");
}

static void each_property_has_its_own_reason(void **state)
{
	uint64_t end = clock_monotonic_ns() + 60 * NS_PER_SEC;

	begin_with_late_properties();
	storage_of(1)->refused = CATALOG_KEPT_OVERCOMMIT | CATALOG_KEPT_SCRUB;
	join(1, 200);
	while (!has_both_reasons(query_rank(1)->late_reason))
		assert_true(clock_monotonic_ns() < end);
	assert_non_null(strstr(property_of("overcommit")->late_reason, "rank 1 cannot set overcommit of pool \"p\""));
	assert_non_null(strstr(property_of("scrub")->late_reason, "rank 1 cannot set scrub of pool \"p\""));
	assert_string_equal(property_of("scrub_freq")->late_reason, "");
}

/* A rank that was not called has the former values, so nothing is pending of it. */
static void an_undo_leaves_nothing_pending_on_a_rank_that_was_down(void **state)
{
	begin_with_pool(2);
	stop_rank("1");
	storage_of(0)->errors[STORE__ACTION__POOL_SET] = -EIO;
	assert_int_equal(set_property("p", "scrub", "off")->why.code, FAULT_STORAGE_REFUSED);
	assert_string_equal(query_rank(1)->late, "");
	assert_string_equal(query_pool("p")->pending, "");
	storage_of(0)->errors[STORE__ACTION__POOL_SET] = 0;
	answer_of(set_property("p", "scrub_freq", "60"));
	assert_string_equal(query_rank(1)->late, "scrub_freq");
	storage_of(0)->errors[STORE__ACTION__POOL_SET] = -EIO;
	assert_int_equal(set_property("p", "scrub", "off")->why.code, FAULT_STORAGE_REFUSED);
	assert_string_equal(query_rank(1)->late, "scrub_freq");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(a_rank_that_refuses_one_property_gets_the_others),
		TEST(a_rank_that_lacks_a_property_agrees_to_another_one),
		TEST(each_property_has_its_own_reason),
		TEST(an_undo_leaves_nothing_pending_on_a_rank_that_was_down),
	};

	return cmocka_run_group_tests_name("control mgmt late", tests, NULL, NULL);
}
