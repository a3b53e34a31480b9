/* SPDX-License-Identifier: BSD-2-Clause */
/* The ranks of a pool: extended, excluded, drained and reintegrated. */
#include "storage_calls.h"

#include "control/mgmt/storage/storage.h"

static struct fake_storage *storage(uint32_t rank)
{
	return &fixture.fakes[rank].storage;
}

/* No volume is served by two engines, and no more than two are copied at a time. */
static void check_engines(void)
{
	uint32_t incoming = 0;

	for (uint32_t rank = 0; rank < FAKES; rank++) {
		for (uint32_t i = 0; i < storage(rank)->volume_count; i++) {
			const struct fake_volume *volume = &storage(rank)->volumes[i];
			uint32_t serving = 0;

			incoming += volume->move == FAKE_INCOMING;
			for (uint32_t other = 0; other < FAKES; other++) {
				const struct fake_volume *same = fake_find_uuid(storage(other), volume->uuid);

				serving += same && same->move == FAKE_STILL && same->host_count > 0;
			}
			must(serving <= 1);
		}
	}
	must(incoming <= 2);
}

/* Pool "p" on the ranks of `ranks`, of `joined` that have joined. */
static void begin(uint32_t joined, uint32_t *ranks, size_t count)
{
	struct pool_request request;

	fixture.storage_patience_ns = NS_PER_MS;
	fixture.after_storage = check_engines;
	fixture_begin(NULL);
	join_many(joined);
	fill_pool(&request, "p", "");
	request.message.ranks = ranks;
	request.message.n_ranks = count;
	answer_of(ask_pool(&request));
}

static void end(void)
{
	fixture_end(NULL);
	fixture.after_storage = NULL;
}

static const Mgmt__PoolQueryResp__Rank *query_rank(uint32_t rank)
{
	const Mgmt__PoolQueryResp *pool = query_pool("p");

	for (size_t i = 0; i < pool->n_ranks; i++) {
		if (pool->ranks[i]->rank == rank)
			return pool->ranks[i];
	}
	return NULL;
}

static int set_errors(void *ctx)
{
	const int *what = ctx; /* rank, action, errno */

	storage((uint32_t)what[0])->errors[what[1]] = what[2];
	return 0;
}

static void set_error(uint32_t rank, Store__Action action, int error)
{
	int what[] = { (int)rank, (int)action, error };

	on_control(set_errors, what);
}

static bool nothing_is_drained(void *unused)
{
	return mgmt_stats(fixture.mgmt).shares_draining == 0 && nothing_is_pending(NULL);
}

/* ---- extend ---- */

static void a_pool_gets_more_ranks(void **state)
{
	Mgmt__PoolExtendReq request = MGMT__POOL_EXTEND_REQ__INIT;
	uint32_t ranks[] = { 1 }, more[] = { 0, 2 };
	const Mgmt__PoolQueryResp *pool;
	char message[512];

	begin(4, ranks, 1);
	request.id = (char *)"p"; /* as dmg asks */
	request.ranks = more;
	request.n_ranks = 2;
	answer_of(ADMIN_ASK("PoolExtend", request, pool_extend));
	pool = query_pool("p");
	assert_int_equal(pool->n_ranks, 3);
	assert_string_equal(pool->enabled_ranks, "0-2");
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(pool->ranks[i]->share, "up");
		assert_int_equal(storage((uint32_t)i)->pool_count, 1);
		assert_string_equal(storage((uint32_t)i)->pools[0].uuid, pool->uuid);
	}
	assert_int_equal(count_events(RAS_POOL_EXTENDED, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "pool \"p\": ranks 0,2 added"));
	/* repeated: nothing happens */
	answer_of(extend_pool("p", "0,2"));
	assert_int_equal(storage(2)->calls[STORE__ACTION__POOL_CREATE], 1);
	assert_int_equal(volume_of(create_volume_on("p/a", GIB, "2"))->rank, 2);
	assert_int_equal(extend_pool("p", "9")->why.code, FAULT_NO_SUCH_RANK);
	assert_int_equal(extend_pool("p", "")->why.code, FAULT_NO_RANKS_NAMED);
	assert_int_equal(extend_pool("p", "x")->why.code, FAULT_RANK_LIST_BAD);
	assert_int_equal(extend_pool("q", "3")->why.code, FAULT_NO_SUCH_POOL);
	answer_of(exclude_ranks("p", "2"));
	assert_int_equal(extend_pool("p", "2-3")->why.code, FAULT_SHARE_NOT_UP);
	answer_of(destroy_pool("p", true, true));
	for (uint32_t rank = 0; rank < 3; rank++)
		assert_int_equal(storage(rank)->pool_count, 0);
	end();
}

static void a_refused_extension_adds_no_rank(void **state)
{
	uint32_t ranks[] = { 0 };

	begin(3, ranks, 1);
	fixture.storage_patience_ns = 0;
	reopen_mgmt();
	set_error(2, STORE__ACTION__POOL_CREATE, -ENOSPC);
	assert_int_equal(extend_pool("p", "1-2")->why.code, FAULT_STORAGE_FULL);
	assert_int_equal(query_pool("p")->n_ranks, 1);
	assert_int_equal(storage(1)->pool_count, 0);
	assert_int_equal(storage(1)->calls[STORE__ACTION__POOL_CREATE], 1);
	set_error(2, STORE__ACTION__POOL_CREATE, 0);
	answer_of(extend_pool("p", "1-2"));
	assert_int_equal(query_pool("p")->n_ranks, 3);
	end();
}

static void an_extension_goes_on_after_a_restart(void **state)
{
	uint32_t ranks[] = { 0 };

	begin(3, ranks, 1);
	set_error(1, STORE__ACTION__POOL_CREATE, -EAGAIN);
	assert_int_equal(extend_pool("p", "1")->why.code, FAULT_STORAGE_WAITS);
	assert_string_equal(query_pool("p")->pending, "extend by rank 1");
	assert_string_equal(query_rank(1)->share, "extending");
	assert_int_equal(extend_pool("p", "2")->why.code, FAULT_STORAGE_CHANGING);
	assert_int_equal(exclude_ranks("p", "1")->why.code, FAULT_STORAGE_CHANGING);
	assert_int_equal(create_volume_on("p/a", GIB, "1")->why.code, FAULT_SHARE_NOT_UP);
	assert_int_equal(volume_of(create_volume("p/a", GIB))->rank, 0);
	reopen_mgmt();
	assert_string_equal(query_rank(1)->share, "extending");
	set_error(1, STORE__ACTION__POOL_CREATE, 0);
	wait_until(nothing_is_pending, NULL);
	assert_string_equal(query_rank(1)->share, "up");
	assert_int_equal(storage(1)->pool_count, 1);
	end();
}

/* ---- exclude ---- */

static void an_excluded_rank_gets_no_volumes(void **state)
{
	Mgmt__PoolExcludeReq request = MGMT__POOL_EXCLUDE_REQ__INIT;
	uint32_t ranks[] = { 0, 1 }, targets[] = { 0, 1 };
	const Mgmt__PoolQueryResp *pool;
	char message[512];

	begin(2, ranks, 2);
	volume_of(create_volume_on("p/a", GIB, "1"));
	volume_of(create_volume_on("p/b", GIB, "0"));
	answer_of(create_snapshot("p/a@s"));
	request.id = (char *)"p"; /* as dmg asks */
	request.rank = 1;
	request.target_idx = targets;
	request.n_target_idx = 2;
	assert_int_equal(ADMIN_ASK("PoolExclude", request, pool_exclude)->why.code, FAULT_NO_SUCH_TARGET);
	request.n_target_idx = 1;
	answer_of(ADMIN_ASK("PoolExclude", request, pool_exclude));
	assert_int_equal(count_events(RAS_POOL_RANK_CHANGED, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "pool \"p\": rank 1 excluded"));
	pool = query_pool("p");
	assert_string_equal(pool->enabled_ranks, "0");
	assert_string_equal(pool->disabled_ranks, "1");
	assert_string_equal(pool->ranks[1]->share, "excluded");
	assert_true(pool->ranks[1]->share_since_ns > 0);
	assert_string_equal(show_volume("p/a")->state, "ready"); /* its engine serves it */
	for (uint32_t i = 0; i < 3; i++) {
		char name[] = "p/0";

		name[2] = (char)('0' + i);
		assert_int_equal(volume_of(create_volume(name, GIB))->rank, 0);
	}
	assert_int_equal(create_volume_on("p/n", GIB, "1")->why.code, FAULT_SHARE_NOT_UP);
	assert_int_equal(clone_volume("p/a@s", "p/n")->why.code, FAULT_SHARE_NOT_UP);
	assert_int_equal(move_volume("p/b", 1)->why.code, FAULT_SHARE_NOT_UP);
	assert_int_equal(exclude_ranks("p", "7")->why.code, FAULT_RANK_NOT_OF_POOL);
	assert_int_equal(drain_ranks("p", "0")->why.code, FAULT_DRAIN_WITHOUT_TARGET);
	answer_of(exclude_ranks("p", "1"));
	assert_int_equal(count_events(RAS_POOL_RANK_CHANGED, message, sizeof(message)), 1);
	reopen_mgmt();
	on_control(fake_kill, &fixture.fakes[1]);
	assert_string_equal(show_volume("p/a")->state, "excluded");
	assert_string_equal(show_volume("p/b")->state, "ready");
	on_control(fake_revive, &fixture.fakes[1]);
	answer_of(reintegrate_ranks("p", "1"));
	assert_string_equal(query_rank(1)->share, "up");
	assert_int_equal(volume_of(create_volume_on("p/n", GIB, "1"))->rank, 1);
	end();
}

/* ---- drain ---- */

static bool only_one_is_left(void *unused)
{
	return storage(0)->volume_count == 1 && nothing_is_pending(NULL);
}

/* The volume between two attempts to move it, which may begin at any time. */
static const Fathom__Volume *show_waiting(const char *name)
{
	const Fathom__Volume *volume = show_volume(name);

	for (int i = 0; i < 600 && strcmp(volume->pending, "drain of rank 0") != 0; i++) {
		usleep(100000);
		volume = show_volume(name);
	}
	assert_string_equal(volume->pending, "drain of rank 0");
	return volume;
}

/* Whether the volume of pool "p" on rank 0 can be offered for a move. */
static int set_busy(void *name)
{
	fake_find_volume(storage(0), "p", name)->is_busy = true;
	return 0;
}

static int set_idle(void *name)
{
	fake_find_volume(storage(0), "p", name)->is_busy = false;
	return 0;
}

static void a_drained_rank_has_no_volumes(void **state)
{
	uint32_t ranks[] = { 0, 1, 2 };
	const Fathom__Volume *volume;
	char name[] = "p/0", message[512];

	begin(3, ranks, 3);
	for (uint32_t i = 0; i < 5; i++) {
		name[2] = (char)('0' + i);
		volume_of(create_volume_on(name, GIB, "0"));
		volume_of(publish_volume(name, HOST));
	}
	on_control(set_busy, "2");
	answer_of(drain_ranks("p", "0"));
	wait_until(only_one_is_left, NULL);
	assert_string_equal(storage(0)->volumes[0].name, "2");
	assert_string_equal(query_rank(0)->share, "draining");
	assert_non_null(strstr(query_rank(0)->share_info, "1 volume left, "));
	assert_non_null(strstr(query_rank(0)->share_info, "; 1 cannot be moved, first 2: "));
	assert_int_equal(query_pool("p")->rebuild->state, MGMT__POOL_REBUILD_STATUS__STATE__BUSY);
	assert_int_equal(query_pool("p")->rebuild->objects, 1);
	volume = show_waiting("p/2");
	assert_true(volume->pending_ns > 0);
	assert_non_null(strstr(volume->reason, "because it is in use"));
	assert_int_not_equal(volume_of(create_volume("p/n", GIB))->rank, 0);
	on_control(set_idle, "2");
	answer_of(drain_ranks("p", "0")); /* tried now */
	wait_until(nothing_is_drained, NULL);
	assert_int_equal(storage(0)->volume_count, 0);
	assert_string_equal(query_rank(0)->share, "drained");
	assert_string_equal(query_rank(0)->share_info, "");
	assert_string_equal(query_pool("p")->disabled_ranks, "0");
	assert_string_equal(show_volume("p/2")->pending, "");
	assert_int_equal(count_events(RAS_POOL_RANK_DRAINED, message, sizeof(message)), 1);
	answer_of(drain_ranks("p", "0"));
	assert_string_equal(query_rank(0)->share, "drained");
	answer_of(reintegrate_ranks("p", "0"));
	assert_int_equal(volume_of(create_volume_on("p/m", GIB, "0"))->rank, 0);
	end();
}

static int keep_running(void *number)
{
	for (uint32_t rank = 0; rank < FAKES; rank++)
		storage(rank)->running = (uint32_t)(uintptr_t)number;
	storage(0)->regions = 1 << 20; /* the first round of each volume has some */
	return 0;
}

static bool two_are_copied(void *unused)
{
	return storage(1)->calls[STORE__ACTION__MOVE_STATUS] > 1 && storage(1)->volume_count == 2;
}

static void begin_draining(void)
{
	volume_of(create_volume_on("p/a", GIB, "0"));
	volume_of(create_volume_on("p/b", GIB, "0"));
	volume_of(create_volume_on("p/c", GIB, "0"));
	on_control(keep_running, (void *)(uintptr_t)UINT32_MAX);
	answer_of(drain_ranks("p", "0"));
}

static void begin_drain(void)
{
	uint32_t ranks[] = { 0, 1 };

	begin(2, ranks, 2);
	begin_draining();
}

static bool has_copied(void *unused)
{
	return storage(1)->calls[STORE__ACTION__MOVE_STATUS] > 0;
}

static struct catalog_volume *find_volume(const char *name)
{
	const struct catalog *catalog = fixture.mgmt->catalog;

	return catalog_find_volume(catalog, catalog_find_pool(catalog, "p"), name);
}

/* Volume "b" could be tried again, but two others are being moved. */
static bool is_late(void *unused)
{
	const struct catalog_stay *stay = find_volume("b")->stay;

	return stay && stay->retry_ns < clock_monotonic_ns() && two_are_copied(NULL);
}

static void a_retry_that_is_due_waits_for_the_moves_under_way(void **state)
{
	uint32_t ranks[] = { 0, 1 };

	begin(2, ranks, 2);
	volume_of(create_volume_on("p/a", GIB, "0"));
	volume_of(create_volume_on("p/b", GIB, "0"));
	volume_of(create_volume_on("p/c", GIB, "0"));
	on_control(set_busy, "b");
	on_control(keep_running, (void *)(uintptr_t)UINT32_MAX);
	answer_of(drain_ranks("p", "0"));
	wait_until(is_late, NULL);
	assert_int_equal(query_rank(0)->moving_count, 2);
	on_control(set_idle, "b");
	on_control(keep_running, NULL);
	wait_until(nothing_is_drained, NULL);
	assert_string_equal(query_rank(0)->share, "drained");
	assert_null(find_volume("b")->stay); /* as if it stayed on its new rank */
	end();
}

static void reintegrate_stops_a_drain(void **state)
{
	begin_drain();
	wait_until(has_copied, NULL);
	assert_true(query_rank(0)->moving_count > 0);
	answer_of(reintegrate_ranks("p", "0"));
	wait_until(nothing_is_pending, NULL);
	assert_string_equal(query_rank(0)->share, "up");
	assert_int_equal(storage(0)->volume_count + storage(1)->volume_count, 3);
	assert_int_equal(list_volumes()->n_volumes, 3);
	for (uint32_t i = 0; i < storage(0)->volume_count; i++)
		assert_int_equal(storage(0)->volumes[i].move, FAKE_STILL);
	end();
}

static void a_drain_goes_on_after_a_restart(void **state)
{
	begin_drain();
	wait_until(has_copied, NULL);
	reopen_mgmt();
	assert_string_equal(query_rank(0)->share, "draining");
	on_control(keep_running, NULL);
	wait_until(nothing_is_drained, NULL);
	assert_string_equal(query_rank(0)->share, "drained");
	assert_int_equal(storage(0)->volume_count, 0);
	assert_int_equal(storage(1)->volume_count, 3);
	end();
}

/* The target of a drain is excluded: its volumes go elsewhere, or stay. */
static void excluding_the_target_cancels_its_moves(void **state)
{
	begin_drain();
	wait_until(two_are_copied, NULL);
	answer_of(exclude_ranks("p", "1"));
	wait_until(nothing_is_pending, NULL);
	assert_int_equal(storage(1)->volume_count, 0);
	assert_string_equal(query_rank(0)->share, "draining");
	assert_non_null(strstr(query_rank(0)->share_info, "3 volumes left"));
	assert_string_equal(show_volume("p/a")->pending, "drain of rank 0");
	end();
}

/* As a request for the rank, but the service is killed after it has stored the new state of the share. */
static int store_and_die(void *ctx)
{
	const uint32_t *what = ctx; /* rank, state */
	struct catalog *catalog = fixture.mgmt->catalog;
	struct catalog_pool *pool = catalog_find_pool(catalog, "p");
	struct catalog_layout layout;

	must(catalog_layout(pool, 0, &layout) == 0);
	catalog_layout_move(&layout, what[0], (enum mgmt_share_state)what[1]);
	must(catalog_set_layout(catalog, pool, &layout, NULL) == 0);
	catalog_layout_free(&layout);
	close_mgmt(NULL);
	keep_running(NULL);
	return open_mgmt(NULL);
}

static void a_move_to_an_excluded_rank_is_undone_after_a_restart(void **state)
{
	uint32_t what[] = { 1, MGMT_SHARE_EXCLUDED };

	begin_drain();
	wait_until(two_are_copied, NULL);
	assert_int_equal(on_control(store_and_die, what), 0);
	wait_until(nothing_is_pending, NULL);
	assert_int_equal(storage(1)->volume_count, 0);
	assert_int_equal(storage(0)->volume_count, 3);
	assert_non_null(strstr(query_rank(0)->share_info, "3 volumes left"));
	end();
}

static void the_moves_of_a_drain_that_has_ended_are_undone_after_a_restart(void **state)
{
	static const enum mgmt_share_state ends[] = { MGMT_SHARE_UP, MGMT_SHARE_EXCLUDED };

	for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
		uint32_t what[] = { 0, ends[i] };

		begin_drain();
		wait_until(two_are_copied, NULL);
		assert_int_equal(on_control(store_and_die, what), 0);
		wait_until(nothing_is_pending, NULL);
		assert_int_equal(storage(1)->volume_count, 0);
		assert_int_equal(storage(0)->volume_count, 3);
		assert_string_equal(query_rank(0)->share, catalog_share_word(ends[i]));
		end();
	}
}

/* Only the drain's own moves end with it. */
static void a_requested_move_goes_on_when_its_rank_is_reintegrated(void **state)
{
	Fathom__VolumeMoveReq request = FATHOM__VOLUME_MOVE_REQ__INIT;
	struct question question = { 0 };
	uint32_t ranks[] = { 0, 1 };

	begin(2, ranks, 2);
	volume_of(create_volume_on("p/a", GIB, "0"));
	on_control(keep_running, (void *)(uintptr_t)UINT32_MAX);
	request.name = (char *)"p/a";
	request.rank = 1;
	ask_begin(&question, fixture.admin, "/fathom.ControlSvc/VolumeMove", &request.base,
		  &fathom__volume_resp__descriptor);
	wait_until(has_copied, NULL);
	answer_of(drain_ranks("p", "0"));
	answer_of(reintegrate_ranks("p", "0"));
	on_control(keep_running, NULL);
	question_wait(&question);
	question_end(&question);
	wait_until(nothing_is_pending, NULL);
	assert_int_equal(show_volume("p/a")->rank, 1);
	end();
}

static bool one_stays(void *unused)
{
	const struct catalog_volume *one = find_volume("a"), *other = find_volume("b");
	const struct catalog_stay *stay = one->stay ? one->stay : other->stay;

	return stay && strstr(stay->why, "bytes left") && storage(1)->calls[STORE__ACTION__MOVE_PREPARE] > 0;
}

static bool one_is_moved(void *unused)
{
	return storage(1)->volume_count == 1 && nothing_is_pending(NULL);
}

/* A drain takes no rank that is nearly full: only an operator does. */
static void a_drain_leaves_the_last_space_of_a_rank(void **state)
{
	uint32_t ranks[] = { 0, 1 };

	begin(2, ranks, 2);
	volume_of(create_volume_on("p/a", GIB, "0"));
	storage(1)->free_bytes = storage(1)->total_bytes / 100 * 4;
	answer_of(drain_ranks("p", "0"));
	assert_non_null(strstr(show_waiting("p/a")->reason, "95 %"));
	assert_int_equal(storage(1)->calls[STORE__ACTION__MOVE_PREPARE], 0);
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
	end();
}

/* What was promised to moves under way is not there for others. */
static void a_drain_counts_what_is_being_moved(void **state)
{
	uint32_t ranks[] = { 0, 1 };

	begin(2, ranks, 2);
	storage(1)->free_bytes = 100 * GIB;
	volume_of(create_volume_on("p/a", 60 * GIB, "0"));
	volume_of(create_volume_on("p/b", 60 * GIB, "0"));
	set_error(1, STORE__ACTION__MOVE_PREPARE, -EAGAIN); /* it has not listed the first one */
	answer_of(drain_ranks("p", "0"));
	wait_until(one_stays, NULL);
	set_error(1, STORE__ACTION__MOVE_PREPARE, 0);
	wait_until(one_is_moved, NULL);
	assert_int_equal(storage(0)->volume_count, 1);
	end();
}

static int kill_target(void *unused)
{
	fixture.after_storage = NULL; /* it counts what the dead engine has */
	return fake_kill(&fixture.fakes[1]);
}

static bool rank_two_has_all(void *unused)
{
	return storage(0)->volume_count == 0 && storage(2)->volume_count == 3 && nothing_is_pending(NULL);
}

static bool rank_one_has_nothing(void *unused)
{
	return storage(1)->volume_count == 0 && mgmt_stats(fixture.mgmt).old_copies == 0;
}

static bool is_copied_to_rank_one(void *unused)
{
	return storage(1)->calls[STORE__ACTION__MOVE_STATUS] > 1;
}

static void a_drain_leaves_a_target_that_is_gone(void **state)
{
	Mgmt__SystemExcludeReq exclude = MGMT__SYSTEM_EXCLUDE_REQ__INIT;
	uint32_t ranks[] = { 0, 1, 2 };

	begin(3, ranks, 3);
	storage(2)->free_bytes /= 2; /* rank 1 is chosen first */
	begin_draining();
	wait_until(is_copied_to_rank_one, NULL);
	on_control(kill_target, NULL);
	exclude.ranks = (char *)"1";
	answer_of(ADMIN_ASK("SystemExclude", exclude, system_exclude));
	on_control(keep_running, NULL);
	wait_until(rank_two_has_all, NULL);
	assert_true(query_rank(1)->old_copy_count > 0);
	assert_true(storage(1)->volume_count > 0);
	on_control(fake_revive, &fixture.fakes[1]);
	exclude.clear = true;
	answer_of(ADMIN_ASK("SystemExclude", exclude, system_exclude));
	(void)join(1, 200);
	wait_until(rank_one_has_nothing, NULL);
	wait_until(nothing_is_drained, NULL);
	assert_string_equal(query_rank(0)->share, "drained");
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pool_gets_more_ranks),
		cmocka_unit_test(a_refused_extension_adds_no_rank),
		cmocka_unit_test(an_extension_goes_on_after_a_restart),
		cmocka_unit_test(an_excluded_rank_gets_no_volumes),
		cmocka_unit_test(a_drained_rank_has_no_volumes),
		cmocka_unit_test(a_retry_that_is_due_waits_for_the_moves_under_way),
		cmocka_unit_test(reintegrate_stops_a_drain),
		cmocka_unit_test(a_drain_goes_on_after_a_restart),
		cmocka_unit_test(excluding_the_target_cancels_its_moves),
		cmocka_unit_test(a_move_to_an_excluded_rank_is_undone_after_a_restart),
		cmocka_unit_test(the_moves_of_a_drain_that_has_ended_are_undone_after_a_restart),
		cmocka_unit_test(a_requested_move_goes_on_when_its_rank_is_reintegrated),
		cmocka_unit_test(a_drain_leaves_the_last_space_of_a_rank),
		cmocka_unit_test(a_drain_counts_what_is_being_moved),
		cmocka_unit_test(a_drain_leaves_a_target_that_is_gone),
	};

	return cmocka_run_group_tests_name("control mgmt shares", tests, NULL, NULL);
}
