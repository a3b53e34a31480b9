/* SPDX-License-Identifier: BSD-2-Clause */
/* What engines lack of the catalog: shown with their ranks, and with the volumes. */
#include "storage_calls.h"

static struct fake_storage *storage(void)
{
	return &fixture.fakes[0].storage;
}

static const Mgmt__SystemMember *member(void)
{
	return query()->members[0];
}

/* The engine has been asked after a join, so the answer is a matter of time. */
static const Mgmt__SystemMember *wait_for(uint32_t volumes, uint32_t pools)
{
	uint64_t end = clock_monotonic_ns() + 60 * NS_PER_SEC;
	const Mgmt__SystemMember *found;

	do {
		found = member();
		if (found->storage ? found->storage->errored_volumes == volumes && found->storage->errored_pools == pools
				   : volumes + pools == 0)
			return found;
	} while (clock_monotonic_ns() < end);
	fail_msg("not within 60 s; info: %s", found->info);
	return NULL;
}

/* The part of pool "p" on rank 0, as a query and a list show it. */
static void assert_part(const char *failure, const char *info)
{
	Mgmt__ListPoolsReq request = MGMT__LIST_POOLS_REQ__INIT;
	const Mgmt__PoolQueryResp *pool = query_pool("p");
	const Mgmt__ListPoolsResp *list;

	assert_string_equal(pool->ranks[0]->failure, failure);
	assert_string_equal(pool->ranks[0]->info, info);
	assert_string_equal(pool->disabled_ranks, failure[0] ? "0" : "");
	request.query = true;
	list = answer_of(ADMIN_ASK("ListPools", request, list_pools));
	assert_int_equal(list->n_queried, 1);
	assert_int_equal(list->queried[0]->disabled_targets, failure[0] != '\0');
	assert_string_equal(list->queried[0]->ranks[0]->info, info);
}

static void a_volume_that_an_engine_lacks_is_shown_with_its_rank(void **state)
{
	const Mgmt__SystemMember *found;
	char message[256];

	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	volume_of(create_volume("p/b", GIB));
	(void)join(0, 200);
	(void)show_volume("p/a");
	assert_null(member()->storage);
	storage()->volume_count = 1;
	(void)join(0, 300);
	found = wait_for(1, 0);
	assert_string_equal(found->state, "joined");
	assert_string_equal(found->storage->reason, "volume p/b: its engine does not have it");
	assert_non_null(strstr(found->info, "1 volume ERRORED since "));
	assert_string_equal(show_volume("p/b")->state, "missing");
	assert_string_equal(show_volume("p/a")->state, "ready");
	(void)wait_for(1, 0);
	assert_int_equal(count_events(RAS_VOLUME_ERRORED, message, sizeof(message)), 1);
	assert_string_equal(message, "rank 0 lacks pools: 0, volumes: 1; volume p/b: its engine does not have it");
	volume_of(destroy_volume("p/b", true));
	(void)show_volume("p/a");
	(void)wait_for(0, 0);
}

static void a_pool_that_an_engine_lacks_is_shown_with_its_rank(void **state)
{
	struct fake_pool pool;
	const Mgmt__SystemMember *found;

	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	pool = storage()->pools[0];
	storage()->pool_count = 0;
	(void)join(0, 200);
	found = wait_for(0, 1);
	assert_string_equal(found->storage->reason, "pool p with all its volumes: its engine does not have it");
	assert_part("missing", "the pool is missing: its engine does not have it");
	assert_string_equal(show_volume("p/a")->state, "missing");
	storage()->pool_count = 1;
	storage()->pools[0] = pool;
	(void)join(0, 300);
	(void)wait_for(0, 0);
	assert_string_equal(show_volume("p/a")->state, "ready");
	assert_part("", "");
}

/* One volume is back when another one is gone, so their number stays. */
static void each_volume_that_is_lost_has_its_event(void **state)
{
	struct fake_volume found;
	char message[256];

	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	volume_of(create_volume("p/b", GIB));
	found = storage()->volumes[1];
	storage()->volume_count = 1;
	assert_string_equal(show_volume("p/b")->state, "missing");
	assert_string_equal(show_volume("p/b")->state, "missing");
	assert_int_equal(count_events(RAS_VOLUME_ERRORED, message, sizeof(message)), 1);
	storage()->volumes[0] = found;
	assert_string_equal(show_volume("p/a")->state, "missing");
	assert_string_equal(show_volume("p/b")->state, "ready");
	assert_int_equal(count_events(RAS_VOLUME_ERRORED, message, sizeof(message)), 2);
	assert_string_equal(message, "rank 0 lacks pools: 0, volumes: 1; volume p/a: its engine does not have it");
}

/* Of a damaged volume or pool the engine knows only the name. */
static void what_an_engine_lists_as_errored_is_not_missing(void **state)
{
	const Fathom__Volume *volume;

	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	snprintf(storage()->volumes[0].uuid, sizeof(storage()->volumes[0].uuid), "00000000-0000-0000-0000-000000000000");
	storage()->volumes[0].state = "ERRORED";
	storage()->volumes[0].reason = "cannot open data.1";
	volume = show_volume("p/a");
	assert_string_equal(volume->state, "errored");
	assert_string_equal(volume->reason, "cannot open data.1");
	assert_null(member()->storage); /* the engine reports it itself */
	storage()->volume_count = 0;
	snprintf(storage()->pools[0].uuid, sizeof(storage()->pools[0].uuid), "00000000-0000-0000-0000-000000000000");
	storage()->pools[0].state = "ERRORED";
	storage()->pools[0].reason = "it is not valid JSON of a pool";
	volume = show_volume("p/a");
	assert_string_equal(volume->state, "errored");
	assert_string_equal(volume->reason, "it is not valid JSON of a pool");
	assert_part("errored", "the pool is ERRORED: it is not valid JSON of a pool");
	assert_null(member()->storage);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_volume_that_an_engine_lacks_is_shown_with_its_rank),
		TEST(a_pool_that_an_engine_lacks_is_shown_with_its_rank),
		TEST(each_volume_that_is_lost_has_its_event),
		TEST(what_an_engine_lists_as_errored_is_not_missing),
	};

	return cmocka_run_group_tests_name("control mgmt missing", tests, NULL, NULL);
}
