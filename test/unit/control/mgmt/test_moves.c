/* SPDX-License-Identifier: BSD-2-Clause */
/* Moves of a volume between two ranks: control/mgmt/storage/move.c. At no call do both engines serve the volume. */
#include "storage_calls.h"

static struct fake_storage *storage(uint32_t rank)
{
	return &fixture.fakes[rank].storage;
}

/* ---- the clock of the service: it may go back ---- */

static uint64_t clock_back_ns;

uint64_t __real_clock_realtime_ns(void);
uint64_t __wrap_clock_realtime_ns(void);

uint64_t __wrap_clock_realtime_ns(void)
{
	return __real_clock_realtime_ns() - clock_back_ns;
}

/* How many engines serve the volume to hosts. */
static uint32_t serving(void)
{
	uint32_t count = 0;

	for (uint32_t rank = 0; rank < FAKES; rank++) {
		const struct fake_volume *volume = &storage(rank)->volumes[0];

		count += storage(rank)->volume_count > 0 && volume->move == FAKE_STILL && volume->host_count > 0;
	}
	return count;
}

static void check_serving(void)
{
	must(serving() <= 1);
}

static void begin(uint64_t patience_ns)
{
	fixture.storage_patience_ns = patience_ns;
	fixture.after_storage = check_serving;
	fixture_begin(NULL);
	begin_with_pool(2);
	volume_of(create_volume_on("p/a", GIB, "0"));
	volume_of(publish_volume("p/a", HOST));
	storage(0)->regions = 8;
}

static void end(void)
{
	fixture_end(NULL);
	fixture.after_storage = NULL;
}

/* The volume is on this rank only, in the catalog and in the engines, and has its host. */
static void assert_is_on(uint32_t rank)
{
	const Fathom__Volume *volume = show_volume("p/a");

	assert_int_equal(volume->rank, rank);
	assert_string_equal(volume->pending, "");
	assert_int_equal(storage(rank)->volume_count, 1);
	assert_int_equal(storage(1 - rank)->volume_count, 0);
	assert_int_equal(storage(rank)->volumes[0].move, FAKE_STILL);
	assert_int_equal(storage(rank)->volumes[0].host_count, 1);
	assert_int_equal(volume->n_hosts, 1);
}

static void a_volume_moves_in_rounds(void **state)
{
	begin(0);
	storage(1)->running = 3;
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
	assert_is_on(1);
	/* 8, 4, 2 and 1 regions of 64 MiB; then the last round, of none */
	assert_int_equal(storage(1)->calls[STORE__ACTION__MOVE_COPY], 4);
	assert_int_equal(storage(0)->calls[STORE__ACTION__MOVE_CHANGES], 5);
	assert_int_equal(storage(0)->calls[STORE__ACTION__MOVE_FENCE], 1);
	assert_int_equal(storage(1)->calls[STORE__ACTION__MOVE_STATUS], 4 + 3);
	/* repeated: nothing happens */
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
	assert_int_equal(storage(1)->calls[STORE__ACTION__MOVE_COPY], 4);
	end();
}

static void a_move_to_a_wrong_rank_is_refused(void **state)
{
	begin(0);
	assert_int_equal(move_volume("p/a", 7)->why.code, FAULT_RANK_NOT_OF_POOL);
	assert_int_equal(move_volume("p/b", 1)->why.code, FAULT_NO_SUCH_VOLUME);
	assert_int_equal(cancel_move("p/a")->why.code, FAULT_MOVE_ABSENT);
	assert_int_equal(volume_of(move_volume("p/a", 0))->rank, 0);
	assert_is_on(0);
	end();
}

/* A step is refused for good: the volume stays, and its hosts are served again. */
static void a_refused_step_undoes_the_move(void **state)
{
	static const struct {
		uint32_t rank;
		Store__Action action;
	} steps[] = {
		{ 1, STORE__ACTION__MOVE_PREPARE }, { 0, STORE__ACTION__MOVE_OFFER },  { 0, STORE__ACTION__MOVE_CHANGES },
		{ 1, STORE__ACTION__MOVE_COPY },    { 1, STORE__ACTION__MOVE_STATUS }, { 0, STORE__ACTION__MOVE_FENCE },
	};

	for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
		begin(0);
		storage(steps[i].rank)->errors[steps[i].action] = -ENOSPC;
		assert_int_equal(move_volume("p/a", 1)->why.code, FAULT_STORAGE_FULL);
		assert_is_on(0);
		memset(storage(steps[i].rank)->errors, 0, sizeof(storage(0)->errors));
		assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
		assert_is_on(1);
		end();
	}
}

static void assert_has_three_snapshots(uint32_t rank)
{
	static const char *const names[] = { "z", "y", "x" };
	const struct fake_volume *volume = &storage(rank)->volumes[0];

	assert_int_equal(volume->snapshot_count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_string_equal(volume->snapshots[i], names[i]);
		assert_int_equal(volume->snapshot_times[i], i + 1);
		assert_int_equal(volume->snapshot_sizes[i], i == 0 ? GIB : 2 * GIB);
		assert_string_not_equal(volume->snapshot_uuids[i], "");
	}
}

static void begin_with_snapshots(void)
{
	begin(60 * NS_PER_SEC); /* some answers are lost */
	answer_of(create_snapshot("p/a@z"));
	volume_of(resize_volume("p/a", 2 * GIB, false));
	answer_of(create_snapshot("p/a@y"));
	answer_of(create_snapshot("p/a@x"));
}

/* The oldest first, each as what differs from the one before it; then the volume. */
static void a_volume_moves_with_its_snapshots(void **state)
{
	begin_with_snapshots();
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
	assert_is_on(1);
	assert_has_three_snapshots(1);
	/* rounds of 8, 4 and 2 regions for the snapshots, and of 1 for the volume; then one of none */
	assert_int_equal(storage(1)->calls[STORE__ACTION__MOVE_COPY], 4);
	assert_int_equal(storage(1)->calls[STORE__ACTION__MOVE_SNAPSHOT], 3);
	assert_int_equal(storage(0)->calls[STORE__ACTION__MOVE_CHANGES], 6);
	end();
}

/* A snapshot that equals the one before it is copied, too: it may have another size. */
static void a_snapshot_without_changes_moves(void **state)
{
	begin_with_snapshots();
	storage(0)->regions = 0;
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
	assert_has_three_snapshots(1);
	assert_int_equal(storage(1)->calls[STORE__ACTION__MOVE_COPY], 4);
	end();
}

static void a_refused_snapshot_undoes_the_move(void **state)
{
	begin_with_snapshots();
	storage(1)->errors[STORE__ACTION__MOVE_SNAPSHOT] = -EOPNOTSUPP;
	assert_int_equal(move_volume("p/a", 1)->why.code, FAULT_STORAGE_UNSUPPORTED);
	assert_is_on(0);
	assert_has_three_snapshots(0);
	storage(1)->errors[STORE__ACTION__MOVE_SNAPSHOT] = 0;
	storage(1)->lost = 4; /* of its answers: the steps are repeated */
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
	assert_has_three_snapshots(1);
	end();
}

/* Another copy would find the same block. */
static void a_damaged_block_ends_the_move(void **state)
{
	begin(0);
	storage(1)->errors[STORE__ACTION__MOVE_STATUS] = -EBADMSG;
	assert_int_equal(move_volume("p/a", 1)->why.code, FAULT_MOVE_DATA_DAMAGED);
	assert_is_on(0);
	assert_int_equal(storage(1)->calls[STORE__ACTION__MOVE_PREPARE], 1);
	end();
}

static bool is_copying(void *unused)
{
	return storage(1)->calls[STORE__ACTION__MOVE_STATUS] > 0;
}

static int keep_running(void *unused)
{
	storage(1)->running = UINT32_MAX;
	return 0;
}

static int forget_session(void *rank)
{
	storage((uint32_t)(uintptr_t)rank)->volumes[0].session[0] = '\0';
	storage(1)->running = 0;
	return 0;
}

static void begin_move(struct question *question, Fathom__VolumeMoveReq *request)
{
	fathom__volume_move_req__init(request);
	request->name = (char *)"p/a";
	request->rank = 1;
	on_control(keep_running, NULL);
	ask_begin(question, fixture.admin, "/fathom.ControlSvc/VolumeMove", &request->base,
		  &fathom__volume_resp__descriptor);
	wait_until(is_copying, NULL);
}

/* An engine that was restarted does not know the copy: another one begins. */
static void a_forgotten_copy_begins_again(void **state)
{
	for (uint32_t rank = 0; rank < 2; rank++) {
		struct question question = { 0 };
		Fathom__VolumeMoveReq request;

		begin(0);
		begin_move(&question, &request);
		on_control(forget_session, (void *)(uintptr_t)rank);
		question_wait(&question);
		assert_int_equal(volume_of(&question)->rank, 1);
		question_end(&question);
		assert_is_on(1);
		assert_true(storage(1)->calls[STORE__ACTION__MOVE_PREPARE] == 2);
		end();
	}
}

static void a_move_is_cancelled(void **state)
{
	struct question question = { 0 };
	Fathom__VolumeMoveReq request;

	begin(0);
	begin_move(&question, &request);
	assert_string_equal(show_volume("p/a")->pending, "move to rank 1");
	assert_non_null(strstr(show_volume("p/a")->reason, "bytes of round 1 are copied"));
	/* a host that has the volume gets its address; another one must wait */
	assert_int_equal(volume_of(publish_volume("p/a", HOST))->rank, 0);
	assert_int_equal(publish_volume("p/a", "nqn.other")->why.code, FAULT_STORAGE_CHANGING);
	assert_int_equal(resize_volume("p/a", 2 * GIB, false)->why.code, FAULT_STORAGE_CHANGING);
	assert_int_equal(create_snapshot("p/a@s")->why.code, FAULT_STORAGE_CHANGING);
	volume_of(cancel_move("p/a"));
	question_wait(&question);
	assert_int_equal(question.why.code, FAULT_MOVE_CANCELLED);
	question_end(&question);
	assert_is_on(0);
	end();
}

static void a_destroyed_volume_leaves_nothing_on_either_rank(void **state)
{
	struct question question = { 0 };
	Fathom__VolumeMoveReq request;

	begin(0);
	begin_move(&question, &request);
	volume_of(destroy_volume("p/a", true));
	question_wait(&question);
	assert_int_not_equal(question.code, GRPC_OK);
	question_end(&question);
	assert_int_equal(storage(0)->volume_count + storage(1)->volume_count, 0);
	assert_int_equal(list_volumes()->n_volumes, 0);
	end();
}

static int refuse_discard(void *unused)
{
	storage(1)->errors[STORE__ACTION__MOVE_ACCEPT] = -EAGAIN;
	return 0;
}

static int accept_again(void *unused)
{
	storage(1)->errors[STORE__ACTION__MOVE_ACCEPT] = 0;
	return 0;
}

/* After the commit the move only goes forward. */
static void a_committed_move_is_not_undone(void **state)
{
	begin(NS_PER_MS);
	on_control(refuse_discard, NULL);
	assert_int_equal(move_volume("p/a", 1)->why.code, FAULT_STORAGE_WAITS);
	assert_int_equal(show_volume("p/a")->rank, 1);
	assert_int_equal(serving(), 0);
	assert_int_equal(cancel_move("p/a")->why.code, FAULT_MOVE_COMMITTED);
	assert_int_equal(destroy_volume("p/a", false)->why.code, FAULT_STORAGE_CHANGING); /* it is published */
	reopen_mgmt();
	on_control(accept_again, NULL);
	wait_until(nothing_is_pending, NULL);
	assert_is_on(1);
	end();
}

/* The last round has data, and the target is silent from it on, until the source serves the hosts again. */
static void silence_target(void)
{
	check_serving();
	if (storage(0)->calls[STORE__ACTION__MOVE_FENCE] != 1)
		return;
	if (storage(0)->calls[STORE__ACTION__MOVE_UNFENCE] > 1) {
		storage(1)->errors[STORE__ACTION__MOVE_COPY] = 0;
	} else if (!storage(1)->errors[STORE__ACTION__MOVE_COPY]) {
		storage(0)->regions = 1;
		storage(1)->errors[STORE__ACTION__MOVE_COPY] = -EAGAIN;
	}
}

static void hosts_do_not_wait_for_a_silent_target(void **state)
{
	begin(60 * NS_PER_SEC);
	fixture.after_storage = silence_target;
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
	assert_int_equal(storage(0)->calls[STORE__ACTION__MOVE_FENCE], 2);
	assert_is_on(1);
	end();
}

static bool is_fenced(void *unused)
{
	return storage(0)->calls[STORE__ACTION__MOVE_FENCE] > 0;
}

/* The volume is published to the host all the time, so the call succeeds when the move is undone. */
static void a_publish_during_a_move_succeeds_when_it_is_undone(void **state)
{
	struct question moved = { 0 }, published = { 0 };
	Fathom__VolumePublishReq publish = FATHOM__VOLUME_PUBLISH_REQ__INIT;
	Fathom__VolumeMoveReq move = FATHOM__VOLUME_MOVE_REQ__INIT;

	begin(60 * NS_PER_SEC);
	fixture.after_storage = silence_target;
	move.name = publish.name = (char *)"p/a";
	move.rank = 1;
	publish.host = (char *)HOST;
	ask_begin(&moved, fixture.admin, "/fathom.ControlSvc/VolumeMove", &move.base, &fathom__volume_resp__descriptor);
	wait_until(is_fenced, NULL);
	ask_begin(&published, fixture.admin, "/fathom.ControlSvc/VolumePublish", &publish.base,
		  &fathom__volume_resp__descriptor);
	volume_of(cancel_move("p/a"));
	question_wait(&published);
	question_wait(&moved);
	assert_int_equal(moved.why.code, FAULT_MOVE_CANCELLED);
	assert_int_equal(volume_of(&published)->rank, 0);
	question_end(&published);
	question_end(&moved);
	assert_is_on(0);
	end();
}

/* The engine's list is from before the move, and a newer one does not arrive. */
static void a_moved_volume_is_not_missing(void **state)
{
	fixture.storage_read_ns = 100 * NS_PER_MS;
	begin(0);
	volume_of(create_volume_on("p/b", GIB, "1"));
	list_volumes();
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
	storage(1)->lists_hang = true;
	assert_string_not_equal(show_volume("p/a")->state, "missing");
	end();
}

/* The source has seen a later clock than this one for a moment. */
static void put_clock_forward(void)
{
	check_serving();
	if (storage(0)->calls[STORE__ACTION__MOVE_OFFER] == 1 && storage(0)->calls[STORE__ACTION__MOVE_CHANGES] == 0)
		storage(0)->volumes[0].serial += NS_PER_SEC;
}

static void a_move_is_undone_although_the_clock_went_back(void **state)
{
	begin(60 * NS_PER_SEC);
	fixture.after_storage = put_clock_forward;
	storage(0)->errors[STORE__ACTION__MOVE_CHANGES] = -ENOSPC;
	assert_int_equal(move_volume("p/a", 1)->why.code, FAULT_STORAGE_FULL);
	assert_is_on(0);
	end();
}

/* The data are gone, and only an operator can say so. The service goes on with everything else. */
static void a_committed_move_to_a_replaced_rank_waits_for_the_operator(void **state)
{
	begin(NS_PER_MS);
	on_control(refuse_discard, NULL);
	assert_int_equal(move_volume("p/a", 1)->why.code, FAULT_STORAGE_WAITS);
	replace_rank("1");
	assert_string_equal(show_volume("p/a")->state, "lost");
	volume_of(create_volume_on("p/b", GIB, "0"));
	assert_int_equal(destroy_volume("p/a", false)->why.code, FAULT_RANK_DATA_LOST);
	volume_of(destroy_volume("p/a", true));
	assert_int_equal(list_volumes()->n_volumes, 1);
	assert_int_equal(storage(0)->volume_count, 1);
	end();
}

static bool is_snapshot_asked(void *unused)
{
	return storage(0)->calls[STORE__ACTION__SNAPSHOT_DESTROY] > 0;
}

/* The engine gives no answer, and the volume is moved before it is asked again: it would say that there is no snapshot. */
static void a_snapshot_is_not_destroyed_where_the_volume_was(void **state)
{
	static Fathom__SnapshotDestroyReq request;
	struct question question = { 0 };

	begin(0);
	answer_of(create_snapshot("p/a@s"));
	storage(0)->errors[STORE__ACTION__SNAPSHOT_DESTROY] = -EAGAIN;
	fathom__snapshot_destroy_req__init(&request);
	request.name = (char *)"p/a@s";
	ask_begin(&question, fixture.admin, "/fathom.ControlSvc/SnapshotDestroy", &request.base,
		  &fathom__snapshot_resp__descriptor);
	wait_until(is_snapshot_asked, NULL);
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
	storage(0)->errors[STORE__ACTION__SNAPSHOT_DESTROY] = 0;
	question_wait(&question);
	assert_int_equal(question.why.code, FAULT_STORAGE_UNANSWERED);
	question_end(&question);
	assert_int_equal(storage(1)->volumes[0].snapshot_count, 1);
	end();
}

/* It stays one, and so needs no promise of space at the target. */
static void a_clone_that_is_only_read_moves(void **state)
{
	Fathom__VolumeCreateReq request = FATHOM__VOLUME_CREATE_REQ__INIT;

	begin(0);
	answer_of(create_snapshot("p/a@s"));
	request.name = (char *)"p/export";
	request.from = (char *)"p/a@s";
	request.read_only = true;
	assert_true(volume_of(FATHOM_ASK("VolumeCreate", request, volume))->read_only);
	assert_int_equal(volume_of(move_volume("p/export", 1))->rank, 1);
	assert_int_equal(storage(1)->volume_count, 1);
	assert_true(storage(1)->volumes[0].read_only);
	assert_true(show_volume("p/export")->read_only);
	end();
}

static bool no_old_copies(void *unused)
{
	return mgmt_stats(fixture.mgmt).old_copies == 0;
}

/* Engines know the pool by its first label, whatever it is called when the copy is left and when it is erased. */
static void an_old_copy_of_a_renamed_pool_is_erased(void **state)
{
	begin(0);
	answer_of(set_property("p", "label", "q"));
	storage(0)->errors[STORE__ACTION__MOVE_ERASE] = -EHOSTDOWN;
	assert_int_equal(volume_of(move_volume("q/a", 1))->rank, 1);
	answer_of(set_property("q", "label", "r"));
	assert_int_equal(storage(0)->volume_count, 1);
	storage(0)->errors[STORE__ACTION__MOVE_ERASE] = 0;
	wait_until(no_old_copies, NULL);
	assert_int_equal(storage(0)->volume_count, 0);
	end();
}

static bool nothing_is_drained(void *unused)
{
	return mgmt_stats(fixture.mgmt).shares_draining == 0 && nothing_is_pending(NULL);
}

static void begin_with_old_copy(void)
{
	fixture.storage_patience_ns = NS_PER_MS;
	fixture.after_storage = check_serving;
	fixture_begin(NULL);
	begin_with_pool(3);
	volume_of(create_volume_on("p/a", GIB, "0"));
	volume_of(publish_volume("p/a", HOST));
	storage(0)->errors[STORE__ACTION__MOVE_ERASE] = -EHOSTDOWN;
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
}

/* The source is down after the commit: the volume goes on, and the source erases its copy later. */
static void a_source_that_is_down_blocks_nothing(void **state)
{
	begin_with_old_copy();
	assert_string_equal(show_volume("p/a")->pending, "");
	assert_int_equal(storage(0)->volumes[0].move, FAKE_OUTGOING);
	volume_of(resize_volume("p/a", 2 * GIB, false));
	volume_of(rename_volume("p/a", "b"));
	assert_int_equal(volume_of(move_volume("p/b", 2))->rank, 2);
	assert_int_equal(move_volume("p/b", 0)->why.code, FAULT_OLD_COPY_LEFT);
	assert_int_equal(query_pool("p")->ranks[0]->old_copy_count, 1);
	assert_string_equal(query_pool("p")->ranks[0]->share_info, "1 old copy to be erased");
	/* its rank is not drained before that */
	answer_of(drain_ranks("p", "0"));
	reopen_mgmt();
	assert_string_equal(query_pool("p")->ranks[0]->share, "draining");
	storage(0)->errors[STORE__ACTION__MOVE_ERASE] = 0;
	wait_until(no_old_copies, NULL);
	wait_until(nothing_is_drained, NULL);
	assert_int_equal(storage(0)->volume_count, 0);
	assert_int_equal(storage(2)->volume_count, 1);
	answer_of(reintegrate_ranks("p", "0"));
	assert_int_equal(volume_of(move_volume("p/b", 0))->rank, 0);
	assert_int_equal(storage(0)->volume_count, 1);
	end();
}

/* A volume with the UUID of a destroyed one is not created where its old copy is. */
static void an_old_copy_outlives_its_volume(void **state)
{
	Fathom__VolumeCreateReq request = FATHOM__VOLUME_CREATE_REQ__INIT;
	char uuid[MEMBER_UUID_TEXT_BYTES];

	begin_with_old_copy();
	snprintf(uuid, sizeof(uuid), "%s", show_volume("p/a")->uuid);
	volume_of(destroy_volume("p/a", true));
	assert_int_equal(list_volumes()->n_volumes, 0);
	request.name = (char *)"p/a";
	request.uuid = uuid;
	request.size_bytes = GIB;
	request.ranks = (char *)"0";
	assert_int_equal(FATHOM_ASK("VolumeCreate", request, volume)->why.code, FAULT_OLD_COPY_LEFT);
	storage(0)->errors[STORE__ACTION__MOVE_ERASE] = 0;
	wait_until(no_old_copies, NULL);
	assert_int_equal(volume_of(FATHOM_ASK("VolumeCreate", request, volume))->rank, 0);
	end();
}

static int put_clock_back(void *unused)
{
	clock_back_ns = 3600 * NS_PER_SEC;
	storage(0)->errors[STORE__ACTION__MOVE_ERASE] = -EHOSTDOWN;
	return 0;
}

static int put_clock_back_and_die(void *unused)
{
	put_clock_back(NULL);
	close_mgmt(NULL);
	storage(1)->errors[STORE__ACTION__MOVE_ACCEPT] = 0;
	return open_mgmt(NULL);
}

static bool is_committed(void *unused)
{
	return storage(1)->calls[STORE__ACTION__MOVE_ACCEPT] > 0;
}

static bool has_old_copy(void *unused)
{
	return mgmt_stats(fixture.mgmt).old_copies == 1 && nothing_is_pending(NULL);
}

/* An engine orders the requests of moves by their numbers, and those never go back. */
static void an_old_copy_is_erased_although_the_clock_went_back(void **state)
{
	for (int has_restart = 0; has_restart < 2; has_restart++) {
		struct question question = { 0 };
		Fathom__VolumeMoveReq request;

		begin(0);
		storage(1)->errors[STORE__ACTION__MOVE_ACCEPT] = has_restart ? -EAGAIN : 0;
		begin_move(&question, &request);
		if (!has_restart)
			on_control(put_clock_back, NULL);
		storage(1)->running = 0;
		if (has_restart) {
			wait_until(is_committed, NULL);
			assert_int_equal(on_control(put_clock_back_and_die, NULL), 0);
		}
		question_wait(&question);
		question_end(&question);
		wait_until(has_old_copy, NULL);
		assert_int_equal(storage(0)->volume_count, 1);
		storage(0)->errors[STORE__ACTION__MOVE_ERASE] = 0;
		wait_until(no_old_copies, NULL);
		assert_is_on(1);
		end();
		clock_back_ns = 0;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_volume_moves_in_rounds),
		cmocka_unit_test(a_move_to_a_wrong_rank_is_refused),
		cmocka_unit_test(a_refused_step_undoes_the_move),
		cmocka_unit_test(a_volume_moves_with_its_snapshots),
		cmocka_unit_test(a_snapshot_without_changes_moves),
		cmocka_unit_test(a_refused_snapshot_undoes_the_move),
		cmocka_unit_test(a_damaged_block_ends_the_move),
		cmocka_unit_test(a_forgotten_copy_begins_again),
		cmocka_unit_test(a_move_is_cancelled),
		cmocka_unit_test(a_destroyed_volume_leaves_nothing_on_either_rank),
		cmocka_unit_test(a_committed_move_is_not_undone),
		cmocka_unit_test(a_committed_move_to_a_replaced_rank_waits_for_the_operator),
		cmocka_unit_test(hosts_do_not_wait_for_a_silent_target),
		cmocka_unit_test(a_publish_during_a_move_succeeds_when_it_is_undone),
		cmocka_unit_test(a_moved_volume_is_not_missing),
		cmocka_unit_test(a_move_is_undone_although_the_clock_went_back),
		cmocka_unit_test(a_snapshot_is_not_destroyed_where_the_volume_was),
		cmocka_unit_test(a_clone_that_is_only_read_moves),
		cmocka_unit_test(an_old_copy_of_a_renamed_pool_is_erased),
		cmocka_unit_test(an_old_copy_is_erased_although_the_clock_went_back),
		cmocka_unit_test(a_source_that_is_down_blocks_nothing),
		cmocka_unit_test(an_old_copy_outlives_its_volume),
	};

	return cmocka_run_group_tests_name("control mgmt moves", tests, NULL, NULL);
}
