/* SPDX-License-Identifier: BSD-2-Clause */
/* A rank whose storage was formatted again: what its pools have lost, and how they get the new engine. */
#include "storage_calls.h"

#include "control/mgmt/storage/storage.h"

static struct fake_storage *storage(uint32_t rank)
{
	return &fixture.fakes[rank].storage;
}

/* Pool "p" on ranks 0 and 1, with volumes "a" and "b" on rank 1 and "c" on rank 0. */
static void begin(void)
{
	fixture.storage_patience_ns = NS_PER_MS;
	fixture_begin(NULL);
	join_many(2);
	answer_of(create_pool("p"));
	volume_of(create_volume_on("p/a", GIB, "1"));
	volume_of(create_volume_on("p/b", GIB, "1"));
	volume_of(create_volume_on("p/c", GIB, "0"));
}

static const Mgmt__PoolQueryResp__Rank *query_rank(uint32_t rank)
{
	const Mgmt__PoolQueryResp *pool = query_pool("p");

	assert_int_equal(pool->n_ranks, 2);
	assert_int_equal(pool->ranks[rank]->rank, rank);
	return pool->ranks[rank];
}

static int fail_creation(void *error)
{
	storage(1)->errors[STORE__ACTION__POOL_CREATE] = (int)(intptr_t)error;
	return 0;
}

static int fail_destruction(void *error)
{
	storage(1)->errors[STORE__ACTION__POOL_DESTROY] = (int)(intptr_t)error;
	return 0;
}

static bool is_removing(void *unused)
{
	const struct catalog_pool *pool = catalog_find_pool(fixture.mgmt->catalog, "p");

	return catalog_use(&pool->record, 1).state == MGMT_SHARE_REMOVING;
}

static void destroy_lost_volumes(void)
{
	volume_of(destroy_volume("p/a", true));
	volume_of(destroy_volume("p/b", true));
}

/* Each volume is shown as lost until it is destroyed by name and by force, also across restarts. */
static void what_a_replaced_rank_has_lost_is_shown_until_it_is_destroyed(void **state)
{
	const char *first = "2 volumes, the first is \"a\". Destroy each with `fathom volume destroy p/VOLUME --force`, "
			    "then run `fathom pool extend p --ranks 1`";
	const struct question *refused;
	char message[512];

	begin();
	replace_rank("1");
	assert_int_equal(count_events(RAS_RANK_DATA_LOST, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "rank 1 was replaced, and its data with it"));
	assert_non_null(strstr(message, "lost volumes: 2, the first is volume \"p/a\""));
	reopen_mgmt();
	assert_string_equal(query_rank(1)->share, "lost");
	assert_int_equal(query_rank(1)->share_since_ns, 0);
	assert_non_null(strstr(query_rank(1)->share_info, first));
	assert_string_equal(query_rank(0)->share, "up");
	assert_string_equal(query_pool("p")->disabled_ranks, "1");
	assert_string_equal(show_volume("p/a")->state, "lost");
	assert_string_equal(show_volume("p/c")->state, "ready");
	refused = extend_pool("p", "1");
	assert_int_equal(refused->why.code, FAULT_SHARE_LOST);
	assert_non_null(strstr(refused->why.text, "lost: 2 volumes, the first is \"a\""));
	assert_int_equal(destroy_volume("p/a", false)->why.code, FAULT_RANK_DATA_LOST);
	assert_int_equal(list_volumes()->n_volumes, 3);
	volume_of(destroy_volume("p/a", true));
	reopen_mgmt();
	assert_non_null(strstr(extend_pool("p", "1")->why.text, "lost: 1 volume, the first is \"b\""));
	volume_of(destroy_volume("p/b", true));
	assert_non_null(strstr(query_rank(1)->share_info, "no lost volumes are left. `fathom pool extend p --ranks 1`"));
	assert_int_equal(reintegrate_ranks("p", "1")->why.code, FAULT_SHARE_LOST);
	assert_int_equal(drain_ranks("p", "1")->why.code, FAULT_SHARE_LOST);
	answer_of(exclude_ranks("p", "1"));
	assert_string_equal(query_rank(1)->share, "lost");
	assert_int_equal(storage(1)->pool_count, 0);
	fixture_end(NULL);
}

static void the_new_engine_of_a_replaced_rank_gets_volumes_after_an_extension(void **state)
{
	char message[512];

	begin();
	replace_rank("1");
	destroy_lost_volumes();
	assert_int_equal(create_volume_on("p/n", GIB, "1")->why.code, FAULT_POOL_UNREACHABLE);
	answer_of(extend_pool("p", "1"));
	assert_int_equal(count_events(RAS_POOL_EXTENDED, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "pool \"p\": rank 1 added"));
	assert_string_equal(query_rank(1)->share, "up");
	assert_string_equal(query_rank(1)->share_info, "");
	assert_string_equal(query_pool("p")->enabled_ranks, "0-1");
	assert_string_equal(storage(1)->pools[0].uuid, query_pool("p")->uuid);
	reopen_mgmt();
	answer_of(extend_pool("p", "1")); /* repeated: nothing happens */
	assert_int_equal(storage(1)->pool_count, 1);
	assert_int_equal(volume_of(create_volume("p/a", GIB))->rank, 1); /* it has the fewest */
	assert_int_equal(volume_of(move_volume("p/c", 1))->rank, 1);
	assert_int_equal(storage(1)->volume_count, 2);
	answer_of(destroy_pool("p", false, true));
	assert_int_equal(storage(1)->pool_count, 0);
	fixture_end(NULL);
}

/* As it was before it: the share is lost, and the extension can be repeated. */
static void a_refused_replacement_leaves_the_share_lost(void **state)
{
	begin();
	answer_of(drain_ranks("p", "1"));
	replace_rank("1");
	destroy_lost_volumes();
	on_control(fail_creation, (void *)(intptr_t)-EAGAIN);
	assert_int_equal(extend_pool("p", "1")->why.code, FAULT_STORAGE_WAITS);
	reopen_mgmt();
	assert_string_equal(query_rank(1)->share, "extending");
	assert_int_equal(extend_pool("p", "1")->why.code, FAULT_STORAGE_WAITS);
	on_control(fail_destruction, (void *)(intptr_t)-EAGAIN);
	on_control(fail_creation, (void *)(intptr_t)-ENOSPC);
	wait_until(is_removing, NULL);
	reopen_mgmt();
	assert_string_equal(query_rank(1)->share, "removing");
	on_control(fail_destruction, NULL);
	wait_until(nothing_is_pending, NULL);
	assert_string_equal(query_rank(1)->share, "lost");
	reopen_mgmt();
	assert_string_equal(query_rank(1)->share, "lost");
	on_control(fail_creation, NULL);
	answer_of(extend_pool("p", "1"));
	assert_string_equal(query_rank(1)->share, "up");
	fixture_end(NULL);
}

/* A pool always has a rank, so the lost one stays its own. */
static void a_pool_whose_only_rank_was_replaced_gets_the_new_engine(void **state)
{
	struct pool_request request;
	uint32_t ranks[] = { 1 };

	begin();
	fill_pool(&request, "q", "");
	request.message.ranks = ranks;
	request.message.n_ranks = 1;
	answer_of(ask_pool(&request));
	replace_rank("1");
	on_control(fail_creation, (void *)(intptr_t)-ENOSPC);
	assert_int_equal(extend_pool("q", "1")->why.code, FAULT_STORAGE_FULL);
	reopen_mgmt();
	assert_int_equal(query_pool("q")->n_ranks, 1);
	assert_string_equal(query_pool("q")->ranks[0]->share, "lost");
	on_control(fail_creation, NULL);
	answer_of(extend_pool("q", "1"));
	assert_int_equal(volume_of(create_volume("q/a", GIB))->rank, 1);
	assert_string_equal(query_rank(1)->share, "lost"); /* of the other pool */
	fixture_end(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_replaced_rank_has_lost_is_shown_until_it_is_destroyed),
		cmocka_unit_test(the_new_engine_of_a_replaced_rank_gets_volumes_after_an_extension),
		cmocka_unit_test(a_refused_replacement_leaves_the_share_lost),
		cmocka_unit_test(a_pool_whose_only_rank_was_replaced_gets_the_new_engine),
	};

	return cmocka_run_group_tests_name("control mgmt lost", tests, NULL, NULL);
}
