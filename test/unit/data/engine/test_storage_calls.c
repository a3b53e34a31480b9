/* SPDX-License-Identifier: BSD-2-Clause */
/* The server's calls about pools and volumes: idempotent, for one rank, compared by UUID, limited in number. */
#include "storage_calls_rig.h"
#include "data/engine/state_file.h"

/* ---- cases ---- */

static void only_the_engine_of_the_rank_answers(void **state)
{
	Store__StorageReq list = request_of(STORE__ACTION__LIST);

	assert_int_equal(ask(list), -EAGAIN);
	assert_text("starting");
	on_control(rig_is_ready, NULL);
	assert_int_equal(ask(list), -EAGAIN);
	assert_text("no rank yet");
	assert_int_equal(rig_set_rank(RANK, 1), 0);
	list.rank = 4;
	assert_int_equal(ask(list), -ENXIO);
	assert_text("has rank 3, not 4");
	list.rank = RANK;
	assert_int_equal(ask(list), 0);
	assert_string_equal(last.response->state, "OPEN");
}

static void an_engine_without_storage_says_so(void **state)
{
	serve();
	on_control(close_storage, NULL);
	rig_wait(closed);
	assert_int_equal(ask(request_of(STORE__ACTION__LIST)), -ENODEV);
	assert_text("--storage");
	closed = false;
}

static void an_unknown_action_is_rejected_with_its_number(void **state)
{
	serve();
	assert_int_equal(ask(request_of((Store__Action)99)), -EOPNOTSUPP);
	assert_text("action 99");
	assert_int_equal(ask(request_of((Store__Action)-1)), -EOPNOTSUPP);
}

static void a_repeated_call_succeeds_and_another_says_what_differs(void **state)
{
	serve();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(create_pool(UUID_A), 0);
		assert_string_equal(last.response->pools[0]->uuid, UUID_A);
		assert_int_equal(create_volume(UUID_B, MIB), 0);
		assert_string_equal(last.response->pools[0]->volumes[0]->uuid, UUID_B);
		assert_string_equal(last.response->pools[0]->volumes[0]->state, "ONLINE");
	}
	assert_int_equal(create_pool(UUID_B), -EEXIST);
	assert_text("another pool");
	assert_int_equal(create_volume(UUID_A, MIB), -EEXIST);
	assert_text("another volume");
	assert_int_equal(create_volume(UUID_B, 2 * MIB), -EEXIST);
	assert_text("1048576 bytes, not 2097152");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(change(STORE__ACTION__VOLUME_RESIZE, UUID_A, UUID_B, 4 * MIB), 0);
		assert_int_equal(last.response->pools[0]->volumes[0]->size_bytes, 4 * MIB);
	}
	assert_int_equal(volume_count(), 1);
	assert_int_equal(last.response->pools[0]->promised_bytes, 4 * MIB);
	assert_int_equal(last.response->pools[0]->allocated_bytes, 0);
	assert_true(last.response->free_bytes > 0 && last.response->free_bytes < last.response->total_bytes);
}

static void an_object_with_another_uuid_is_not_touched(void **state)
{
	serve();
	assert_int_equal(create_pool(UUID_A), 0);
	assert_int_equal(create_volume(UUID_B, MIB), 0);
	assert_int_equal(change(STORE__ACTION__VOLUME_RESIZE, UUID_A, UUID_A, 2 * MIB), -ENOENT);
	assert_text("another volume");
	assert_int_equal(change(STORE__ACTION__VOLUME_RESIZE, UUID_B, UUID_B, 2 * MIB), -ENOENT);
	assert_text("another pool");
	assert_int_equal(change(STORE__ACTION__VOLUME_DESTROY, UUID_A, UUID_A, 0), 0); /* that one is not there */
	assert_int_equal(change(STORE__ACTION__VOLUME_DESTROY, UUID_B, UUID_B, 0), -ENOENT);
	assert_text("another pool");
	assert_int_equal(change(STORE__ACTION__POOL_DESTROY, UUID_B, "", 0), 0);
	assert_int_equal(volume_count(), 1);
	assert_int_equal(change(STORE__ACTION__POOL_DESTROY, UUID_A, "", 0), -ENOTEMPTY);
}

static void a_renamed_volume_is_returned_by_its_new_name(void **state)
{
	Store__StorageReq request = request_of(STORE__ACTION__VOLUME_RENAME);

	serve();
	assert_int_equal(create_pool(UUID_A), 0);
	assert_int_equal(create_volume(UUID_B, MIB), 0);
	request.volume_uuid = (char *)UUID_B;
	request.new_name = "b";
	for (int i = 0; i < 2; i++) { /* the repeated call finds the UUID under the new name */
		assert_int_equal(ask(request), 0);
		assert_string_equal(last.response->pools[0]->volumes[0]->name, "b");
	}
	request.volume_uuid = "";
	assert_int_equal(ask(request), -ENOENT);
	assert_int_equal(change(STORE__ACTION__VOLUME_DESTROY, UUID_A, UUID_B, 0), -ENOENT); /* by its former name */
	assert_text("the volume is p/b");
	assert_int_equal(volume_count(), 1);
}

/* The volume of a snapshot is identified by its UUID, too: another one may have the name meanwhile. */
static void a_snapshot_is_only_of_the_volume_with_the_uuid(void **state)
{
	Store__StorageReq request = request_of(STORE__ACTION__SNAPSHOT_CREATE);
	Store__SnapshotMember member = STORE__SNAPSHOT_MEMBER__INIT, *members[] = { &member };

	serve();
	assert_int_equal(create_pool(UUID_A), 0);
	assert_int_equal(create_volume(UUID_B, MIB), 0);
	member.pool = request.pool;
	member.volume = request.volume;
	member.snapshot = (char *)"s";
	member.volume_uuid = (char *)UUID_A;
	request.members = members;
	request.n_members = 1;
	assert_int_equal(ask(request), -ENOENT);
	assert_text("there is another volume");
	member.volume_uuid = (char *)"x";
	assert_int_equal(ask(request), -EINVAL);
	member.volume_uuid = (char *)UUID_B;
	assert_true(ask(request) == 0 || last.response->error == -EOPNOTSUPP); /* the folder may have no reflinks */
}

/* What the target does for them is tested with the real engine: test/system/test_volume_exports.py. */
static void a_volume_is_published_only_if_hosts_can_reach_it(void **state)
{
	Store__StorageReq request = request_of(STORE__ACTION__VOLUME_PUBLISH);

	serve();
	request.host_nqn = "nqn.2026-11.org.fathom:a";
	assert_int_equal(ask(request), -ENOENT);
	assert_int_equal(create_pool(""), 0);
	assert_int_equal(create_volume("", MIB), 0);
	assert_int_equal(ask(request), -EDESTADDRREQ); /* nothing listens in this test */
	assert_text("--listen");
	request.host_nqn = "a";
	assert_int_equal(ask(request), -EINVAL);
	request.action = STORE__ACTION__VOLUME_UNPUBLISH;
	assert_int_equal(ask(request), 0);
	request.volume = "none";
	assert_int_equal(ask(request), 0);
	assert_int_equal(volume_count(), 1);
	assert_int_equal(last.response->pools[0]->volumes[0]->n_hosts, 0);
}

static void what_does_not_exist_is_destroyed(void **state)
{
	serve();
	assert_int_equal(change(STORE__ACTION__VOLUME_DESTROY, "", UUID_B, 0), 0);
	assert_int_equal(create_pool(UUID_A), 0);
	assert_int_equal(create_volume(UUID_B, MIB), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(change(STORE__ACTION__VOLUME_DESTROY, UUID_A, UUID_B, 0), 0);
	assert_int_equal(volume_count(), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(change(STORE__ACTION__POOL_DESTROY, UUID_A, "", 0), 0);
	assert_int_equal(change(STORE__ACTION__VOLUME_RESIZE, "", "", MIB), -ENOENT);
	assert_text("there is no pool");
	assert_int_equal(volume_count(), 0);
}

/* ---- the file of --state, whose write is slow: it goes to a FIFO ---- */

static char state_path[96];
static volatile bool state_closed;
static bool is_writing;

static int open_state(void *unused)
{
	struct config *config = NULL;

	must(state_file_open(state_path, &config, &why) == 0 && !config);
	state_file_loaded(NULL);
	return 0;
}

static int read_state(void *unused)
{
	json_t *result = json_object(), *stats;

	state_file_stats(result);
	stats = json_object_get(result, "state_file");
	is_writing = strcmp(json_string_value(json_object_get(stats, "state")), "WRITING") == 0;
	json_decref(result);
	return 0;
}

static void note_state_closed(void)
{
	state_closed = true;
}

static int close_state(void *unused)
{
	state_file_stop();
	state_file_close(note_state_closed);
	return 0;
}

/* The call waits for the write when the storage is closed. */
static void check_answer_after_stop(Store__StorageReq request)
{
	char new_path[112];
	int reader;

	snprintf(state_path, sizeof(state_path), "%s/state.json", rig_folder);
	snprintf(new_path, sizeof(new_path), "%s.new", state_path);
	assert_int_equal(mkfifo(new_path, 0600), 0);
	on_control(open_state, NULL);
	forget_last();
	start_call(&last, request);
	is_writing = state_closed = false;
	rig_wait((on_control(read_state, NULL), is_writing));
	on_control(close_storage, NULL);
	rig_wait(closed);
	on_control(close_state, NULL);
	assert_false(last.done);
	reader = open(new_path, O_RDONLY | O_NONBLOCK);
	assert_true(reader >= 0);
	end_call(&last);
	rig_wait(state_closed);
	close(reader);
	assert_int_equal(unlink(new_path), 0);
	assert_int_equal(last.response->error, -ESHUTDOWN);
	assert_text("the change is made");
}

static void a_call_whose_save_outlives_the_storage_says_so(void **state)
{
	Store__StorageReq request = request_of(STORE__ACTION__VOLUME_RENAME);

	serve();
	assert_int_equal(create_pool(UUID_A), 0);
	assert_int_equal(create_volume(UUID_B, MIB), 0);
	request.new_name = "b";
	check_answer_after_stop(request);
}

static void the_destruction_of_a_volume_is_saved(void **state)
{
	serve();
	assert_int_equal(create_pool(UUID_A), 0);
	assert_int_equal(create_volume(UUID_B, MIB), 0);
	check_answer_after_stop(request_of(STORE__ACTION__VOLUME_DESTROY)); /* it waits for the write */
}

static void wrong_values_are_rejected(void **state)
{
	Store__StorageReq request = request_of(STORE__ACTION__POOL_CREATE);
	char name[80];

	serve();
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	request.pool = name;
	assert_int_equal(ask(request), -EINVAL);
	assert_text("longer than 63");
	assert_int_equal(create_pool("6ba7"), -EINVAL);
	assert_text("pool_uuid \"6ba7\" is not a UUID");
	assert_int_equal(create_pool(""), 0);
	assert_int_equal(create_volume("", 5), -EINVAL);
	request = request_of(STORE__ACTION__VOLUME_CREATE);
	request.volume = name;
	request.size_bytes = MIB;
	assert_int_equal(ask(request), -EINVAL);
	request.volume = "a";
	request.checksums = true;
	request.block_bytes = 512;
	assert_int_equal(ask(request), -EINVAL);
	assert_text("a volume with checksums has blocks of 4096 bytes, not 512");
	assert_int_equal(volume_count(), 0);
}

/* The changes of the storage run one at a time, so calls that arrive together wait for each other. */
static void calls_beyond_the_limit_are_rejected_and_the_others_succeed(void **state)
{
	enum { CALLS = 2 * STORAGE_CALLS_MAX - 8 }; /* fewer than the connections of the server */
	static struct storage_answer answers[CALLS];
	int good = 0, refused = 0;

	serve();
	for (int i = 0; i < CALLS; i++) {
		Store__StorageReq request = request_of(STORE__ACTION__POOL_CREATE);

		request.overcommit = true;
		start_call(&answers[i], request);
	}
	for (int i = 0; i < CALLS; i++) {
		end_call(&answers[i]);
		must(answers[i].response->error == 0 || answers[i].response->error == -EAGAIN);
		good += answers[i].response->error == 0;
		refused += answers[i].response->error == -EAGAIN;
		store__storage_resp__free_unpacked(answers[i].response, NULL);
	}
	assert_int_equal(good + refused, CALLS);
	assert_true(good >= 1);
	assert_int_equal(create_pool(""), 0); /* the refused ones took no place */
}

static int end_closed(void **state)
{
	forget_last();
	return rig_teardown(state);
}

static void a_pool_gets_other_values(void **state)
{
	Store__StorageReq set = request_of(STORE__ACTION__POOL_SET);

	serve();
	assert_int_equal(create_pool(UUID_A), 0);
	assert_int_equal(create_volume(UUID_B, 8 * MIB), 0);
	set.pool_uuid = UUID_A;
	set.size_bytes = 4 * MIB;
	assert_int_equal(ask(set), -ENOSPC);
	assert_text("its volumes have 8388608");
	set.size_bytes = 16 * MIB;
	set.scrub_off = true;
	set.scrub_seconds = 60;
	assert_int_equal(ask(set), 0);
	assert_int_equal(ask(set), 0); /* repeated */
	assert_int_equal(last.response->pools[0]->size_bytes, 16 * MIB);
	assert_false(last.response->pools[0]->overcommit);
	set.pool_uuid = UUID_B;
	assert_int_equal(ask(set), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_the_engine_of_the_rank_answers, setup, end),
		cmocka_unit_test_setup_teardown(an_engine_without_storage_says_so, setup, end_closed),
		cmocka_unit_test_setup_teardown(an_unknown_action_is_rejected_with_its_number, setup, end),
		cmocka_unit_test_setup_teardown(a_repeated_call_succeeds_and_another_says_what_differs, setup, end),
		cmocka_unit_test_setup_teardown(an_object_with_another_uuid_is_not_touched, setup, end),
		cmocka_unit_test_setup_teardown(a_renamed_volume_is_returned_by_its_new_name, setup, end),
		cmocka_unit_test_setup_teardown(a_snapshot_is_only_of_the_volume_with_the_uuid, setup, end),
		cmocka_unit_test_setup_teardown(a_volume_is_published_only_if_hosts_can_reach_it, setup, end),
		cmocka_unit_test_setup_teardown(a_pool_gets_other_values, setup, end),
		cmocka_unit_test_setup_teardown(what_does_not_exist_is_destroyed, setup, end),
		cmocka_unit_test_setup_teardown(a_call_whose_save_outlives_the_storage_says_so, setup, end_closed),
		cmocka_unit_test_setup_teardown(the_destruction_of_a_volume_is_saved, setup, end_closed),
		cmocka_unit_test_setup_teardown(wrong_values_are_rejected, setup, end),
		cmocka_unit_test_setup_teardown(calls_beyond_the_limit_are_rejected_and_the_others_succeed, setup, end),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("engine storage calls", tests, NULL, NULL);
}
