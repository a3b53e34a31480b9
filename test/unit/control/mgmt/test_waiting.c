/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that meet a change under way of another kind: each gets its own answer. And the time of what engines say. */
#include "storage_calls.h"

static struct fake_storage *storage(void)
{
	return &fixture.fakes[0].storage;
}

static void begin_with_volume(void)
{
	fixture_begin(NULL);
	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
}

/* ---- calls that meet another change ---- */

/* A call that is made while others wait. */
struct waiting {
	struct question question;
	union {
		Fathom__VolumeRenameReq rename;
		Fathom__VolumeUnpublishReq unpublish;
		Fathom__VolumeDestroyReq destroy;
		Fathom__VolumeCreateReq create;
		Mgmt__PoolDestroyReq destroy_pool;
	};
};

static bool are_open(void *count)
{
	return grpc_server_stats(fixture.server).calls_open == *(uint64_t *)count;
}

/* Make the call. When `open` calls wait in the server, this one is among them. */
static void begin_waiting(struct waiting *waiting, const char *path, const ProtobufCMessageDescriptor *response,
			  uint64_t open)
{
	uint64_t before = open - 1;

	wait_until(are_open, &before);
	ask_begin(&waiting->question, fixture.admin, path, &waiting->rename.base, response);
	wait_until(are_open, &open);
}

static void begin_rename(struct waiting *waiting, uint64_t open)
{
	fathom__volume_rename_req__init(&waiting->rename);
	waiting->rename.name = (char *)"p/a";
	waiting->rename.new_name = (char *)"b";
	begin_waiting(waiting, "/fathom.ControlSvc/VolumeRename", &fathom__volume_resp__descriptor, open);
}

static void begin_unpublish(struct waiting *waiting, bool is_forced)
{
	fathom__volume_unpublish_req__init(&waiting->unpublish);
	waiting->unpublish.name = (char *)"p/a";
	waiting->unpublish.host = (char *)HOST;
	waiting->unpublish.force = is_forced;
	ask_begin(&waiting->question, fixture.admin, "/fathom.ControlSvc/VolumeUnpublish", &waiting->unpublish.base,
		  &fathom__volume_resp__descriptor);
}

static void end_waiting(struct waiting *waiting, int code)
{
	question_wait(&waiting->question);
	if (code == 0)
		answer_of(&waiting->question);
	else
		assert_int_equal(waiting->question.why.code, code);
	question_end(&waiting->question);
}

/* The refusal of a destruction is the answer to its own call only; the rename that it had replaced goes on. */
static void a_refused_destruction_is_not_the_answer_to_the_change_that_goes_on(void **state)
{
	static struct waiting renames[2];

	begin_with_volume();
	volume_of(publish_volume("p/a", HOST));
	storage()->volumes[0].is_connected[0] = true;
	storage()->errors[STORE__ACTION__VOLUME_RENAME] = -EAGAIN;
	begin_rename(&renames[0], 1);
	assert_int_equal(destroy_volume("p/a", false)->why.code, FAULT_STORAGE_IN_USE);
	question_wait(&renames[0].question);
	assert_string_equal(renames[0].question.message, "volume \"p/a\" is being destroyed");
	question_end(&renames[0].question);
	begin_rename(&renames[1], 1);
	storage()->errors[STORE__ACTION__VOLUME_RENAME] = 0;
	end_waiting(&renames[1], 0);
	assert_string_equal(show_volume("p/b")->state, "ready");
	fixture_end(NULL);
}

/* The first call gets the refusal of the creation; the second has requested a destruction, and it is done. */
static void a_destruction_during_an_undo_succeeds(void **state)
{
	static struct waiting creation, destruction;

	fixture_begin(NULL);
	begin_with_pool(1);
	storage()->errors[STORE__ACTION__VOLUME_CREATE] = -EIO;
	storage()->errors[STORE__ACTION__VOLUME_DESTROY] = -EAGAIN;
	fathom__volume_create_req__init(&creation.create);
	creation.create.name = (char *)"p/a";
	creation.create.size_bytes = GIB;
	begin_waiting(&creation, "/fathom.ControlSvc/VolumeCreate", &fathom__volume_resp__descriptor, 1);
	while (list_volumes()->n_volumes == 0 || strcmp(show_volume("p/a")->state, "destroying") != 0)
		usleep(1000);
	fathom__volume_destroy_req__init(&destruction.destroy);
	destruction.destroy.name = (char *)"p/a";
	begin_waiting(&destruction, "/fathom.ControlSvc/VolumeDestroy", &fathom__volume_resp__descriptor, 2);
	storage()->errors[STORE__ACTION__VOLUME_DESTROY] = 0;
	end_waiting(&creation, FAULT_STORAGE_REFUSED);
	end_waiting(&destruction, 0);
	assert_int_equal(list_volumes()->n_volumes + storage()->volume_count, 0);
	fixture_end(NULL);
}

static void a_forced_request_replaces_one_that_is_not(void **state)
{
	static struct waiting polite, forced;

	begin_with_volume();
	volume_of(publish_volume("p/a", HOST));
	storage()->volumes[0].is_connected[0] = true;
	storage()->errors[STORE__ACTION__VOLUME_UNPUBLISH] = -EAGAIN;
	begin_unpublish(&polite, false);
	while (!mgmt_stats(fixture.mgmt).storage_pending)
		usleep(1000);
	begin_unpublish(&forced, true);
	question_wait(&polite.question); /* it is answered when the other has arrived */
	assert_string_equal(polite.question.message, "a forced request for volume \"p/a\" has replaced this one");
	question_end(&polite.question);
	storage()->errors[STORE__ACTION__VOLUME_UNPUBLISH] = 0;
	end_waiting(&forced, 0);
	assert_int_equal(show_volume("p/a")->n_hosts + storage()->volumes[0].host_count, 0);
	fixture_end(NULL);
}

/* One engine has destroyed its part; the other has a volume that the catalog does not know, and refuses. */
static void a_forced_destruction_ends_one_of_a_pool_that_is_stuck(void **state)
{
	static struct waiting polite, forced;
	struct fake_storage *other;

	fixture_begin(NULL);
	begin_with_pool(2);
	other = &fixture.fakes[1].storage;
	other->volume_count = 1;
	snprintf(other->volumes[0].pool, sizeof(other->volumes[0].pool), "p");
	snprintf(other->volumes[0].name, sizeof(other->volumes[0].name), "stray");
	mgmt__pool_destroy_req__init(&polite.destroy_pool);
	polite.destroy_pool.id = (char *)"p";
	begin_waiting(&polite, "/mgmt.MgmtSvc/PoolDestroy", &mgmt__pool_destroy_resp__descriptor, 1);
	while (storage()->pool_count > 0 || other->calls[STORE__ACTION__POOL_DESTROY] == 0)
		usleep(1000);
	mgmt__pool_destroy_req__init(&forced.destroy_pool);
	forced.destroy_pool.id = (char *)"p";
	forced.destroy_pool.force = true;
	ask_begin(&forced.question, fixture.admin, "/mgmt.MgmtSvc/PoolDestroy", &forced.destroy_pool.base,
		  &mgmt__pool_destroy_resp__descriptor);
	end_waiting(&forced, 0);
	question_wait(&polite.question);
	assert_int_not_equal(polite.question.code, GRPC_OK);
	question_end(&polite.question);
	assert_int_equal(list_pools()->n_pools, 0);
	assert_int_equal(other->pool_count, 0);
	fixture_end(NULL);
}

/* ---- the time of what engines say ---- */

static int answer_held(void *ctx)
{
	static struct fake_answer answer;
	struct fake *fake = ctx;

	fake->storage.lists_hang = false;
	fake_fill_answer(&fake->storage, 0, &answer);
	for (size_t i = 0; i < fake->held_count; i++)
		grpc_reply(fake->held[i], &answer.message.base);
	fake->held_count = 0;
	return 0;
}

static bool holds_one(void *fake)
{
	return ((struct fake *)fake)->held_count == 1;
}

/* An engine's answer shows what was true when the engine was asked. */
static void a_volume_shows_when_its_engine_was_asked(void **state)
{
	Fathom__VolumeListReq request = FATHOM__VOLUME_LIST_REQ__INIT;
	struct question question = { 0 };
	const Fathom__VolumeListResp *list;
	uint64_t answered_ns;

	fixture.storage_read_ns = 600 * NS_PER_SEC;
	begin_with_volume();
	storage()->lists_hang = true;
	ask_begin(&question, fixture.admin, "/fathom.ControlSvc/VolumeList", &request.base,
		  &fathom__volume_list_resp__descriptor);
	wait_until(holds_one, &fixture.fakes[0]);
	answered_ns = clock_realtime_ns();
	on_control(answer_held, &fixture.fakes[0]);
	question_wait(&question);
	list = answer_of(&question);
	assert_int_equal(list->n_volumes, 1);
	assert_true(list->volumes[0]->asked_ns > 0);
	assert_true(list->volumes[0]->asked_ns <= answered_ns);
	question_end(&question);
	fixture_end(NULL);
}

/* ---- engines that hang ---- */

/* Runs on the control reactor. */
static int time_of_held_call(void *fake)
{
	return (int)(grpc_call_time_left_ns(((struct fake *)fake)->held[0]) / NS_PER_SEC);
}

/* Else the caller would find that the server did not answer, although only the engine hangs. */
static void an_engine_is_called_within_the_time_of_the_request(void **state)
{
	Fathom__SnapshotCreateReq request = FATHOM__SNAPSHOT_CREATE_REQ__INIT;
	struct question question = { 0 };
	char *name = (char *)"p/a@s";

	fixture.storage_timeout_ns = 600 * NS_PER_SEC;
	begin_with_volume();
	storage()->hangs = true;
	request.names = &name;
	request.n_names = 1;
	ask_begin(&question, fixture.admin, "/fathom.ControlSvc/SnapshotCreate", &request.base,
		  &fathom__snapshot_resp__descriptor);
	wait_until(holds_one, &fixture.fakes[0]);
	assert_in_range(on_control(time_of_held_call, &fixture.fakes[0]), 0, 54);
	storage()->hangs = false;
	on_control(answer_held, &fixture.fakes[0]);
	question_wait(&question);
	answer_of(&question);
	question_end(&question);
	fixture_end(NULL);
}

static void the_reason_names_the_engine_that_hangs(void **state)
{
	struct question *question;

	begin_with_volume();
	storage()->hangs = true;
	fixture.storage_timeout_ns = 20 * NS_PER_MS;
	reopen_with_patience(NS_PER_MS);
	question = create_snapshot("p/a@s");
	assert_int_equal(question->why.code, FAULT_STORAGE_UNANSWERED);
	assert_non_null(strstr(question->why.text, "rank 0 did not answer whether it could create snapshot \"p/a@s\": its "
						   "engine, or its server at 127.0.0.1:"));
	assert_int_equal(resize_volume("p/a", 2 * GIB, false)->why.code, FAULT_STORAGE_WAITS);
	assert_string_equal(show_volume("p/a")->pending, "resize to 2147483648 bytes");
	assert_non_null(strstr(show_volume("p/a")->reason, "its engine, or its server at 127.0.0.1:"));
	fixture_end(NULL);
}

/* The engine's figures are awaited for half of the time at most. */
static void a_list_is_answered_in_time_although_an_engine_hangs(void **state)
{
	Fathom__VolumeListReq request = FATHOM__VOLUME_LIST_REQ__INIT;
	struct question question = { .timeout_ns = 10 * NS_PER_SEC };

	fixture.storage_read_ns = 600 * NS_PER_SEC;
	begin_with_volume();
	storage()->lists_hang = true;
	ask_begin(&question, fixture.admin, "/fathom.ControlSvc/VolumeList", &request.base,
		  &fathom__volume_list_resp__descriptor);
	question_wait(&question);
	assert_int_equal(((const Fathom__VolumeListResp *)answer_of(&question))->n_volumes, 1);
	question_end(&question);
	fixture_end(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refused_destruction_is_not_the_answer_to_the_change_that_goes_on),
		cmocka_unit_test(a_destruction_during_an_undo_succeeds),
		cmocka_unit_test(a_forced_request_replaces_one_that_is_not),
		cmocka_unit_test(a_forced_destruction_ends_one_of_a_pool_that_is_stuck),
		cmocka_unit_test(a_volume_shows_when_its_engine_was_asked),
		cmocka_unit_test(an_engine_is_called_within_the_time_of_the_request),
		cmocka_unit_test(the_reason_names_the_engine_that_hangs),
		cmocka_unit_test(a_list_is_answered_in_time_although_an_engine_hangs),
	};

	return cmocka_run_group_tests_name("control mgmt waiting", tests, NULL, NULL);
}
