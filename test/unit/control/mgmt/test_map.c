/* SPDX-License-Identifier: BSD-2-Clause */
/* The service sends the newest group map to all servers, and again to servers that failed to accept it or that return. */
#include "fixture.h"

static bool first_three_servers_have_newest_map(void *unused)
{
	for (size_t i = 0; i < 3; i++) {
		if (fixture.fakes[i].map_version != system_map_version(mgmt_system(fixture.mgmt)))
			return false;
	}
	return true;
}

static void change_incarnations(uint32_t count, uint64_t incarnation)
{
	for (uint32_t i = 0; i < count; i++)
		(void)join(i, incarnation);
}

static void each_server_gets_the_newest_map(void **state)
{
	join_many(3);
	wait_until(first_three_servers_have_newest_map, NULL);
	wait_until(all_have_the_map, NULL);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(fixture.fakes[i].map_engines, 3);
		assert_false(fixture.fakes[i].map_went_back);
	}
	assert_int_equal(fixture.fakes[3].map_calls, 0);
	change_incarnations(3, 200);
	wait_until(first_three_servers_have_newest_map, NULL);
	wait_until(all_have_the_map, NULL);
	assert_int_equal(fixture.fakes[0].map_version, 6);
}

static int calls_of_first(void *unused)
{
	return (int)fixture.fakes[0].map_calls;
}

static int release_first(void *unused)
{
	fixture.fakes[0].map_way = FAKE_ANSWERS;
	fake_release(&fixture.fakes[0]);
	return 0;
}

static bool second_server_has_newest_map(void *unused)
{
	return fixture.fakes[1].map_version == system_map_version(mgmt_system(fixture.mgmt));
}

/* Many changes arrive while a call hangs. Afterwards that server gets only the newest map. */
static void a_slow_server_gets_only_the_newest_map(void **state)
{
	int before;

	join_many(2);
	wait_until(all_have_the_map, NULL);
	fixture.fakes[0].map_way = FAKE_HANGS;
	for (uint64_t incarnation = 200; incarnation < 220; incarnation++)
		(void)join(1, incarnation);
	wait_until(second_server_has_newest_map, NULL);
	before = on_control(calls_of_first, NULL);
	on_control(release_first, NULL);
	wait_until(all_have_the_map, NULL);
	assert_int_equal(on_control(calls_of_first, NULL), before + 1);
	assert_int_equal(fixture.fakes[0].map_version, 22);
}

static bool has_failed_twice(void *unused)
{
	return mgmt_stats(fixture.mgmt).map_failures >= 2;
}

static bool one_is_behind(void *unused)
{
	return mgmt_stats(fixture.mgmt).map_behind == 1;
}

static void a_server_that_failed_to_accept_the_map_gets_it_again(void **state)
{
	static const enum fake_way ways[] = { FAKE_REFUSES, FAKE_ERRS };

	for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
		fixture.fakes[1].map_way = ways[i];
		reopen_mgmt();
		change_incarnations(3, 100 + i);
		wait_until(has_failed_twice, NULL);
		wait_until(one_is_behind, NULL);
		fixture.fakes[1].map_way = FAKE_ANSWERS;
		wait_until(first_three_servers_have_newest_map, NULL);
	}
	wait_until(all_have_the_map, NULL);
	on_control(fake_kill, &fixture.fakes[1]);
	change_incarnations(3, 300);
	wait_until(has_failed_twice, NULL);
	on_control(fake_revive, &fixture.fakes[1]);
	/* the server restarts and its engine joins: the map is sent at once, not after the retry delay */
	fixture.fakes[1].map_version = 0;
	(void)join(1, 300);
	wait_until(first_three_servers_have_newest_map, NULL);
	wait_until(all_have_the_map, NULL);
}

static void a_restarted_service_sends_the_map(void **state)
{
	join_many(3);
	wait_until(all_have_the_map, NULL);
	for (size_t i = 0; i < 3; i++)
		fixture.fakes[i].map_version = 0;
	reopen_mgmt();
	wait_until(first_three_servers_have_newest_map, NULL);
}

/* The server restarted and has no map; the map itself has not changed. */
static void a_server_gets_the_map_when_its_engine_joins_again(void **state)
{
	join_many(3);
	wait_until(all_have_the_map, NULL);
	fixture.fakes[2].map_version = 0;
	(void)join(2, 100);
	wait_until(first_three_servers_have_newest_map, NULL);
	assert_int_equal(fixture.fakes[2].map_version, 3);
}

static void the_server_of_an_excluded_rank_gets_the_map(void **state)
{
	Mgmt__SystemExcludeReq request = MGMT__SYSTEM_EXCLUDE_REQ__INIT;

	join_many(3);
	request.ranks = (char *)"1";
	(void)answer_of(ADMIN_ASK("SystemExclude", request, system_exclude));
	wait_until(first_three_servers_have_newest_map, NULL);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(fixture.fakes[i].map_engines, 2);
}

static void an_erased_member_gets_no_map(void **state)
{
	Mgmt__SystemStopReq stop = MGMT__SYSTEM_STOP_REQ__INIT;
	Mgmt__SystemEraseReq erase = MGMT__SYSTEM_ERASE_REQ__INIT;
	int calls;

	join_many(2);
	wait_until(all_have_the_map, NULL);
	fixture.fakes[0].map_way = FAKE_HANGS;
	(void)join(1, 200);
	wait_until(second_server_has_newest_map, NULL);
	stop.force = true;
	(void)answer_of(ADMIN_ASK("SystemStop", stop, system_stop));
	(void)answer_of(ADMIN_ASK("SystemErase", erase, system_erase));
	(void)join(1, 300);
	wait_until(second_server_has_newest_map, NULL);
	calls = on_control(calls_of_first, NULL);
	on_control(release_first, NULL); /* the call ends after the member was erased */
	(void)join(1, 400);
	wait_until(second_server_has_newest_map, NULL);
	wait_until(all_have_the_map, NULL);
	assert_int_equal(on_control(calls_of_first, NULL), calls);
	assert_int_equal(fixture.fakes[1].map_engines, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(each_server_gets_the_newest_map),
		TEST(a_slow_server_gets_only_the_newest_map),
		TEST(a_server_that_failed_to_accept_the_map_gets_it_again),
		TEST(a_restarted_service_sends_the_map),
		TEST(a_server_gets_the_map_when_its_engine_joins_again),
		TEST(the_server_of_an_excluded_rank_gets_the_map),
		TEST(an_erased_member_gets_no_map),
	};

	return cmocka_run_group_tests_name("control mgmt map", tests, NULL, NULL);
}
