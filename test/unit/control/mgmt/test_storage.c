/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of pools and volumes when something fails: each operation with lost answers, with its engine down, and with a
 * restart of the service at each commit. Each ends in one place: done, in the catalog and in the engines.
 */
#include "storage_calls.h"

/* ---- a service that dies at a commit: all later commits fail until it is opened again ---- */

static struct {
	int left;      /* commits until it dies; 0: it does not */
	bool is_after; /* the last one is still made */
	bool is_dead;
} death;

int __real_db_commit(struct db *db, const struct db_change *changes, size_t count, uint64_t *revision_ret,
		     struct fathom_fault *why);
int __wrap_db_commit(struct db *db, const struct db_change *changes, size_t count, uint64_t *revision_ret,
		     struct fathom_fault *why);

int __wrap_db_commit(struct db *db, const struct db_change *changes, size_t count, uint64_t *revision_ret,
		     struct fathom_fault *why)
{
	if (!death.is_dead && (death.left == 0 || --death.left > 0))
		return __real_db_commit(db, changes, count, revision_ret, why);
	if (!death.is_dead && death.is_after)
		(void)__real_db_commit(db, changes, count, revision_ret, why);
	death.is_dead = true;
	return fault(why, -EIO, "the service has died");
}

static int reset_death(void *unused)
{
	memset(&death, 0, sizeof(death));
	return 0;
}

/* ---- operations ---- */

static struct fake_storage *storage(void)
{
	return &fixture.fakes[0].storage;
}

static const char *fake_name(void)
{
	return storage()->volume_count == 1 ? storage()->volumes[0].name : "";
}

static struct question *make_pool(void)
{
	return create_pool("p");
}

static bool has_pool(void)
{
	const Mgmt__ListPoolsResp *list = list_pools();

	return list->n_pools == 1 && strcmp(list->pools[0]->state, "Ready") == 0 && storage()->pool_count == 1 &&
	       strcmp(storage()->pools[0].uuid, list->pools[0]->uuid) == 0;
}

static struct question *remove_pool(void)
{
	return destroy_pool("p", false, true);
}

static bool has_no_pool(void)
{
	return list_pools()->n_pools == 0 && list_volumes()->n_volumes == 0 && storage()->pool_count == 0 &&
	       storage()->volume_count == 0;
}

static struct question *make_volume(void)
{
	return create_volume("p/a", GIB);
}

/* The one volume "p/NAME", in the catalog and in the engine. */
static const Fathom__Volume *only_volume(const char *name)
{
	const Fathom__VolumeListResp *list = list_volumes();

	if (list->n_volumes != 1 || strcmp(list->volumes[0]->name + 2, name) != 0 || strcmp(fake_name(), name) != 0 ||
	    strcmp(list->volumes[0]->state, "ready") != 0 || list->volumes[0]->pending[0] ||
	    strcmp(list->volumes[0]->uuid, storage()->volumes[0].uuid) != 0)
		return NULL;
	return list->volumes[0];
}

static bool has_volume(void)
{
	return only_volume("a");
}

static struct question *remove_volume(void)
{
	return destroy_volume("p/a", false);
}

static bool has_no_volume(void)
{
	return list_volumes()->n_volumes == 0 && storage()->volume_count == 0 && storage()->pool_count == 1;
}

static struct question *grow_volume(void)
{
	return resize_volume("p/a", 2 * GIB, false);
}

static bool has_grown(void)
{
	return only_volume("a") && only_volume("a")->size_bytes == 2 * GIB && storage()->volumes[0].size_bytes == 2 * GIB;
}

static struct question *rename_it(void)
{
	return rename_volume("p/a", "b");
}

static bool is_renamed(void)
{
	return only_volume("b");
}

static struct question *publish_it(void)
{
	return publish_volume("p/a", HOST);
}

static bool is_published(void)
{
	return only_volume("a") && only_volume("a")->n_hosts == 1 && storage()->volumes[0].host_count == 1;
}

static struct question *unpublish_it(void)
{
	return unpublish_volume("p/a", "", false);
}

static bool is_unpublished(void)
{
	return only_volume("a") && only_volume("a")->n_hosts == 0 && storage()->volumes[0].host_count == 0;
}

static struct question *move_it(void)
{
	return move_volume("p/a", 1);
}

static bool is_moved(void)
{
	const struct fake_storage *to = &fixture.fakes[1].storage;

	return storage()->volume_count == 0 && to->volume_count == 1 && to->volumes[0].move == FAKE_STILL &&
	       to->volumes[0].host_count == 1 && show_volume("p/a")->rank == 1 && !show_volume("p/a")->pending[0];
}

static void move_before(void)
{
	begin_with_pool(2);
	volume_of(create_volume_on("p/a", GIB, "0"));
	volume_of(publish_volume("p/a", HOST));
	storage()->regions = 4;
}

static void other_pool_before(void)
{
	struct pool_request request;
	uint32_t ranks[] = { 1 };

	join_many(2);
	fill_pool(&request, "p", "");
	request.message.ranks = ranks;
	request.message.n_ranks = 1;
	answer_of(ask_pool(&request));
}

static struct question *extend_it(void)
{
	return extend_pool("p", "0");
}

static bool is_extended(void)
{
	const Mgmt__PoolQueryResp *pool = query_pool("p");

	return storage()->pool_count == 1 && pool->n_ranks == 2 && strcmp(pool->ranks[0]->share, "up") == 0 &&
	       strcmp(pool->uuid, storage()->pools[0].uuid) == 0;
}

/* Rank 0 of the pool has a new engine. */
static void lost_before(void)
{
	join_many(2);
	answer_of(create_pool("p"));
	replace_rank("0");
}

static bool is_lost(void)
{
	const Mgmt__PoolQueryResp *pool = query_pool("p");

	return storage()->pool_count == 0 && pool->n_ranks == 2 && strcmp(pool->ranks[0]->share, "lost") == 0;
}

static struct question *clone_it(void)
{
	return clone_volume("p/a@s", "p/c");
}

static bool has_clone(void)
{
	return list_volumes()->n_volumes == 2 && storage()->volume_count == 2 &&
	       strcmp(show_volume("p/c")->state, "ready") == 0;
}

static void nothing_before(void)
{
	join_many(1);
}

static void pool_before(void)
{
	begin_with_pool(1);
}

static void volume_before(void)
{
	begin_with_pool(1);
	volume_of(make_volume());
}

static void hosts_before(void)
{
	volume_before();
	volume_of(publish_volume("p/a", HOST));
	volume_of(publish_volume("p/a", "nqn.other"));
}

static void snapshot_before(void)
{
	volume_before();
	answer_of(create_snapshot("p/a@s"));
}

static const struct operation {
	const char *name;
	void (*before)(void);
	struct question *(*ask)(void);
	bool (*is_done)(void);
	int repeated; /* the fault of a repetition after it is done; 0: it succeeds */
} operations[] = {
	{ "pool create", nothing_before, make_pool, has_pool, 0 },
	{ "pool extend", other_pool_before, extend_it, is_extended, 0 },
	{ "pool extend in place of a lost rank", lost_before, extend_it, is_extended, 0 },
	{ "pool destroy", volume_before, remove_pool, has_no_pool, FAULT_NO_SUCH_POOL },
	{ "volume create", pool_before, make_volume, has_volume, 0 },
	{ "volume clone", snapshot_before, clone_it, has_clone, 0 },
	{ "volume destroy", volume_before, remove_volume, has_no_volume, FAULT_NO_SUCH_VOLUME },
	{ "volume resize", volume_before, grow_volume, has_grown, 0 },
	{ "volume rename", volume_before, rename_it, is_renamed, 0 },
	{ "volume publish", volume_before, publish_it, is_published, 0 },
	{ "volume unpublish", hosts_before, unpublish_it, is_unpublished, 0 },
	{ "volume move", move_before, move_it, is_moved, 0 },
};

static void check(const struct operation *operation, bool holds, const char *when, int number)
{
	if (!holds)
		fail_msg("%s: not done %s (%d)", operation->name, when, number);
}

/* Repeat the operation until it is done; its answer is success, or what a repetition gets. */
static void repeat(const struct operation *operation, const char *when, int number)
{
	struct question *question = operation->ask();

	if (question->code != GRPC_OK && (operation->repeated == 0 || question->why.code != operation->repeated))
		fail_msg("%s, repeated %s (%d): %s", operation->name, when, number, question->message);
	check(operation, operation->is_done(), when, number);
}

static void begin(uint64_t patience_ns)
{
	fixture.storage_patience_ns = patience_ns;
	fixture_begin(NULL);
}

/* ---- the tests ---- */

static void an_operation_whose_answer_is_lost_is_done_once(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(operations); i++) {
		const struct operation *operation = &operations[i];
		uint32_t changes;

		begin(0);
		operation->before();
		storage()->lost = 1;
		answer_of(operation->ask());
		check(operation, operation->is_done(), "after a lost answer", 1);
		changes = storage()->changes;
		repeat(operation, "after a lost answer", 1);
		assert_int_equal(storage()->changes, changes);
		fixture_end(NULL);
	}
}

/* The call gets an answer that says what waits for what; the operation is done when the engine is back. */
static void an_operation_of_an_engine_that_is_down_is_done_when_it_is_back(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(operations); i++) {
		const struct operation *operation = &operations[i];
		struct question *question;

		begin(NS_PER_MS);
		operation->before();
		on_control(fake_kill, &fixture.fakes[0]);
		question = operation->ask();
		assert_int_equal(question->why.code, FAULT_STORAGE_WAITS);
		assert_non_null(strstr(question->why.text, " waits for rank 0: the server at "));
		assert_int_equal(mgmt_stats(fixture.mgmt).storage_pending, 1);
		/* also across a restart of the service */
		if (i % 2 == 0)
			reopen_mgmt();
		on_control(fake_revive, &fixture.fakes[0]);
		wait_until(nothing_is_pending, NULL);
		check(operation, operation->is_done(), "after the engine came back", 0);
		fixture_end(NULL);
	}
}

/* Returns whether the operation has so many commits. */
static bool die_at(const struct operation *operation, int number, bool is_after)
{
	bool has_died;

	begin(NS_PER_MS);
	operation->before();
	on_control(reset_death, NULL);
	death.left = number;
	death.is_after = is_after;
	(void)operation->ask();
	assert_int_equal(on_control(close_mgmt, NULL), 0);
	has_died = death.is_dead;
	on_control(reset_death, NULL);
	assert_int_equal(on_control(open_mgmt, NULL), 0);
	wait_until(nothing_is_pending, NULL);
	repeat(operation, is_after ? "after it died behind a commit" : "after it died before a commit", number);
	reopen_mgmt();
	check(operation, operation->is_done(), "after the last restart", number);
	fixture_end(NULL);
	return has_died;
}

static void an_operation_survives_a_restart_of_the_service_at_each_commit(void **state)
{
	int deaths = 0;

	for (size_t i = 0; i < ARRAY_COUNT(operations); i++) {
		for (int number = 1; die_at(&operations[i], number, false); number++) {
			assert_true(die_at(&operations[i], number, true));
			deaths++;
		}
	}
	assert_true(deaths >= 2 * (int)ARRAY_COUNT(operations));
}

static void undo_with_deaths(const struct operation *operation, Store__Action refused)
{
	for (int number = 1, has_died = 1; has_died; number++) {
		begin(NS_PER_MS);
		operation->before();
		storage()->errors[refused] = -EIO;
		death.left = number;
		death.is_after = number % 2;
		(void)operation->ask();
		assert_int_equal(on_control(close_mgmt, NULL), 0);
		has_died = death.is_dead;
		on_control(reset_death, NULL);
		assert_int_equal(on_control(open_mgmt, NULL), 0);
		wait_until(nothing_is_pending, NULL);
		check(operation, operation->is_done(), "after its undo", number);
		fixture_end(NULL);
	}
}

/* A refused creation leaves nothing, also if the service dies on the way. */
static void an_undone_creation_survives_a_restart_at_each_commit(void **state)
{
	const struct operation creation = { "volume create", pool_before, make_volume, has_no_volume, 0 };
	const struct operation extension = { "pool extend in place of a lost rank", lost_before, extend_it, is_lost, 0 };

	undo_with_deaths(&creation, STORE__ACTION__VOLUME_CREATE);
	undo_with_deaths(&extension, STORE__ACTION__POOL_CREATE);
}

static void a_volume_shows_what_it_waits_for(void **state)
{
	const Fathom__Volume *volume;

	begin(NS_PER_MS);
	volume_before();
	on_control(fake_kill, &fixture.fakes[0]);
	assert_int_equal(grow_volume()->why.code, FAULT_STORAGE_WAITS);
	volume = show_volume("p/a");
	assert_string_equal(volume->state, "ready");
	assert_string_equal(volume->pending, "resize to 2147483648 bytes");
	assert_non_null(strstr(volume->reason, "refused the connection"));
	assert_true(volume->pending_ns > volume->since_ns);
	assert_int_equal(publish_it()->why.code, FAULT_STORAGE_CHANGING);
	assert_int_equal(create_snapshot("p/a@s")->why.code, FAULT_STORAGE_UNANSWERED);
	on_control(fake_revive, &fixture.fakes[0]);
	wait_until(nothing_is_pending, NULL);
	assert_true(has_grown());
	fixture_end(NULL);
}

static void a_destruction_replaces_a_change_that_waits(void **state)
{
	begin(NS_PER_MS);
	volume_before();
	/* the engine renames it, and the answer is lost: the volume has either name */
	storage()->lost = 1;
	fixture.storage_patience_ns = NS_PER_MS;
	(void)rename_it();
	storage()->errors[STORE__ACTION__VOLUME_RENAME] = -EAGAIN;
	volume_of(destroy_volume("p/a", false));
	assert_true(has_no_volume());
	storage()->errors[STORE__ACTION__VOLUME_CREATE] = -EAGAIN;
	assert_int_equal(make_volume()->why.code, FAULT_STORAGE_WAITS);
	assert_string_equal(show_volume("p/a")->state, "creating");
	assert_string_equal(show_volume("p/a")->pending, "create");
	volume_of(destroy_volume("p/a", false));
	assert_true(has_no_volume());
	fixture_end(NULL);
}

/* ---- an engine that hangs ---- */

enum { RANK_TASKS = 64 };

struct creation {
	Fathom__VolumeCreateReq request;
	struct question question;
	char name[32];
};

static int release_fake(void *fake)
{
	((struct fake *)fake)->storage.hangs = false;
	fake_release(fake);
	return 0;
}

static bool has_held_all(void *fake)
{
	return ((struct fake *)fake)->held_count == RANK_TASKS;
}

static void an_engine_that_hangs_delays_no_other_and_gets_few_changes(void **state)
{
	static struct creation creations[RANK_TASKS];
	struct question *question;

	begin(0);
	begin_with_pool(2);
	storage()->hangs = true;
	for (size_t i = 0; i < RANK_TASKS; i++) {
		struct creation *one = &creations[i];

		memset(one, 0, sizeof(*one));
		fathom__volume_create_req__init(&one->request);
		snprintf(one->name, sizeof(one->name), "p/v%zu", i);
		one->request.name = one->name;
		one->request.size_bytes = GIB;
		one->request.ranks = (char *)"0";
		ask_begin(&one->question, fixture.admin, "/fathom.ControlSvc/VolumeCreate", &one->request.base,
			  &fathom__volume_resp__descriptor);
	}
	wait_until(has_held_all, &fixture.fakes[0]);
	question = create_volume_on("p/more", GIB, "0");
	assert_int_equal(question->why.code, FAULT_MGMT_QUEUE_FULL);
	assert_string_equal(question->why.text,
			    "the management service already has 64 changes on rank 0 in progress, which is the maximum");
	volume_of(create_volume_on("p/other", GIB, "1"));
	volume_of(resize_volume("p/other", 2 * GIB, false));
	assert_int_equal(list_volumes()->n_volumes, RANK_TASKS + 1);
	on_control(release_fake, &fixture.fakes[0]);
	for (size_t i = 0; i < RANK_TASKS; i++) {
		question_wait(&creations[i].question);
		answer_of(&creations[i].question);
		question_end(&creations[i].question);
	}
	assert_int_equal(storage()->volume_count, RANK_TASKS);
	fixture_end(NULL);
}

/* Two calls for the same change wait for one change. */
static void a_repeated_call_waits_for_the_change_under_way(void **state)
{
	Fathom__VolumeResizeReq request = FATHOM__VOLUME_RESIZE_REQ__INIT;
	struct question questions[2] = { 0 };

	begin(0);
	volume_before();
	request.name = (char *)"p/a";
	request.size_bytes = 2 * GIB;
	storage()->lost = 1;
	for (size_t i = 0; i < 2; i++)
		ask_begin(&questions[i], fixture.admin, "/fathom.ControlSvc/VolumeResize", &request.base,
			  &fathom__volume_resp__descriptor);
	for (size_t i = 0; i < 2; i++) {
		question_wait(&questions[i]);
		answer_of(&questions[i]);
		question_end(&questions[i]);
	}
	assert_true(has_grown());
	assert_int_equal(storage()->calls[STORE__ACTION__VOLUME_RESIZE], 2);
	fixture_end(NULL);
}

static void a_closing_service_answers_the_calls_that_wait(void **state)
{
	Fathom__VolumeResizeReq request = FATHOM__VOLUME_RESIZE_REQ__INIT;
	struct question question = { 0 };

	begin(0);
	volume_before();
	request.name = (char *)"p/a";
	request.size_bytes = 2 * GIB;
	on_control(fake_kill, &fixture.fakes[0]);
	ask_begin(&question, fixture.admin, "/fathom.ControlSvc/VolumeResize", &request.base,
		  &fathom__volume_resp__descriptor);
	while (mgmt_stats(fixture.mgmt).storage_pending == 0)
		usleep(500);
	on_control(close_mgmt, NULL);
	question_wait(&question);
	assert_int_equal(question.code, GRPC_UNAVAILABLE);
	question_end(&question);
	assert_int_equal(on_control(open_mgmt, NULL), 0);
	on_control(fake_revive, &fixture.fakes[0]);
	wait_until(nothing_is_pending, NULL);
	assert_true(has_grown());
	fixture_end(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_operation_whose_answer_is_lost_is_done_once),
		cmocka_unit_test(an_operation_of_an_engine_that_is_down_is_done_when_it_is_back),
		cmocka_unit_test(an_operation_survives_a_restart_of_the_service_at_each_commit),
		cmocka_unit_test(an_undone_creation_survives_a_restart_at_each_commit),
		cmocka_unit_test(a_volume_shows_what_it_waits_for),
		cmocka_unit_test(a_destruction_replaces_a_change_that_waits),
		cmocka_unit_test(an_engine_that_hangs_delays_no_other_and_gets_few_changes),
		cmocka_unit_test(a_repeated_call_waits_for_the_change_under_way),
		cmocka_unit_test(a_closing_service_answers_the_calls_that_wait),
	};

	return cmocka_run_group_tests_name("control mgmt storage", tests, NULL, NULL);
}
