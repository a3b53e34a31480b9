/* SPDX-License-Identifier: BSD-2-Clause */
/* Volumes of the management service: placed, changed, listed, destroyed; each refusal with its fault. */
#include "storage_calls.h"

#define UUID_1 "11111111-1111-4111-8111-111111111111"
#define UUID_2 "22222222-2222-4222-8222-222222222222"

static struct fake_storage *storage_of(uint32_t rank)
{
	return &fixture.fakes[rank].storage;
}

static void a_volume_is_created_listed_and_destroyed(void **state)
{
	const Fathom__Volume *volume;
	char message[512];

	begin_with_pool(2);
	volume = volume_of(create_volume("p/db", 8 * GIB));
	assert_string_equal(volume->name, "p/db");
	assert_string_equal(volume->state, "ready");
	assert_string_equal(volume->pending, "");
	assert_string_equal(volume->rank_state, "joined");
	assert_int_equal(volume->size_bytes, 8 * GIB);
	assert_int_equal(volume->block_bytes, 4096);
	assert_true(volume->asked_ns > 0);
	assert_int_equal(list_volumes()->n_volumes, 1);
	volume = show_volume("p/db");
	assert_int_equal(volume->allocated_bytes, 4 * GIB);
	assert_string_equal(volume->addresses[0], "10.1.1.1:4420");
	assert_int_equal(strncmp(volume->nqn, "nqn.2026-01.test:", 17), 0);
	assert_int_equal(count_events(RAS_VOLUME_CREATED, message, sizeof(message)), 1);
	assert_string_equal(volume_of(destroy_volume("p/db", false))->state, "destroyed");
	assert_int_equal(list_volumes()->n_volumes, 0);
	assert_int_equal(storage_of(0)->volume_count + storage_of(1)->volume_count, 0);
	assert_int_equal(count_events(RAS_VOLUME_DESTROYED, message, sizeof(message)), 1);
	assert_int_equal(destroy_volume("p/db", false)->why.code, FAULT_NO_SUCH_VOLUME);
}

static void a_volume_gets_the_rank_with_the_most_space_then_the_fewest_volumes(void **state)
{
	begin_with_pool(3);
	storage_of(1)->free_bytes += GIB;
	assert_int_equal(volume_of(create_volume("p/a", GIB))->rank, 1);
	/* all are equal now, and rank 1 has a volume */
	assert_int_equal(volume_of(create_volume("p/b", GIB))->rank, 0);
	storage_of(0)->free_bytes += GIB;
	assert_int_equal(volume_of(create_volume("p/c", GIB))->rank, 2);
	assert_int_equal(volume_of(create_volume_on("p/d", GIB, "0-1"))->rank, 0);
	assert_int_equal(create_volume_on("p/e", GIB, "5")->why.code, FAULT_RANK_NOT_OF_POOL);
}

static void a_volume_says_why_it_was_placed(void **state)
{
	const Fathom__Volume *volume;

	begin_with_pool(3);
	storage_of(0)->minute_bytes = 3 * GIB;
	storage_of(1)->minute_operations = 100;
	storage_of(2)->free_bytes /= 2;
	volume = volume_of(create_volume("p/a", GIB));
	assert_int_equal(volume->rank, 1);
	assert_string_equal(volume->placed_by, "least I/O");
	assert_int_equal(volume->placed_of, 3);
	assert_int_equal(volume->placed_operations, 100);
	assert_int_equal(volume->placed_free_bytes, 1ull << 40);
	assert_string_equal(volume->domain, "/rack0/node0");
	storage_of(0)->minute_bytes = 0;
	volume_of(publish_volume("p/a", HOST));
	volume = volume_of(create_volume_on("p/b", GIB, "1"));
	assert_string_equal(volume->placed_by, "requested");
	assert_int_equal(volume->placed_volumes, 1);
	assert_int_equal(volume->placed_published, 1);
	answer_of(create_snapshot("p/a@s"));
	volume = volume_of(clone_volume("p/a@s", "p/c"));
	assert_string_equal(volume->placed_by, "rank of its origin");
	assert_int_equal(volume->placed_of, 0);
	reopen_mgmt();
	assert_string_equal(show_volume("p/a")->placed_by, "least I/O");
	assert_int_equal(show_volume("p/a")->placed_operations, 100);
	assert_string_equal(show_volume("p/c")->placed_by, "rank of its origin");
}

static void a_rank_that_failed_or_is_nearly_full_gets_no_volume(void **state)
{
	struct question *question;

	begin_with_pool(3);
	storage_of(0)->free_bytes = storage_of(0)->total_bytes / 25;
	storage_of(1)->has_failed = true;
	assert_int_equal(volume_of(create_volume("p/a", GIB))->rank, 2);
	assert_string_equal(show_volume("p/a")->placed_by, "only possible rank");
	storage_of(2)->has_failed = true;
	question = create_volume("p/b", GIB);
	assert_int_equal(question->why.code, FAULT_RANKS_NEARLY_FULL);
	assert_string_equal(question->why.text,
			    "pool \"p\" has no rank for this: 1 rank with room is more than 95 % full: rank 0");
	assert_int_equal(volume_of(create_volume_on("p/b", GIB, "0"))->rank, 0);
	assert_int_equal(create_volume_on("p/c", GIB, "1-2")->why.code, FAULT_POOL_UNREACHABLE);
}

static void a_volume_that_fits_nowhere_is_refused(void **state)
{
	struct question *question;

	begin_with_pool(2);
	storage_of(0)->free_bytes = 2 * GIB;
	storage_of(1)->free_bytes = 3 * GIB;
	question = create_volume("p/a", 4 * GIB);
	assert_int_equal(question->why.code, FAULT_POOL_TOO_SMALL);
	assert_string_equal(question->why.text,
			    "no rank of pool \"p\" has 4294967296 bytes left; rank 1 has the most, 3221225472");
	assert_int_equal(list_volumes()->n_volumes, 0);
}

static void only_joined_ranks_get_volumes(void **state)
{
	Mgmt__SystemStopReq stop = MGMT__SYSTEM_STOP_REQ__INIT;

	begin_with_pool(2);
	stop.ranks = (char *)"0";
	stop.force = true;
	answer_of(ADMIN_ASK("SystemStop", stop, system_stop));
	storage_of(0)->free_bytes += GIB;
	assert_int_equal(volume_of(create_volume("p/a", GIB))->rank, 1);
	assert_int_equal(create_volume_on("p/b", GIB, "0")->why.code, FAULT_POOL_UNREACHABLE);
}

/* With a key the volume may have been moved since. */
static void a_repeated_creation_on_another_rank_says_so(void **state)
{
	Fathom__VolumeCreateReq request = FATHOM__VOLUME_CREATE_REQ__INIT;
	char uuid[MEMBER_UUID_TEXT_BYTES];

	begin_with_pool(2);
	volume_of(create_volume_on("p/a", GIB, "1"));
	volume_of(create_volume_on("p/a", GIB, "0-1"));
	assert_string_equal(create_volume_on("p/a", GIB, "0")->why.text,
			    "volume \"p/a\" exists, with another rank: 1, not 0");
	request.name = (char *)"p/a";
	snprintf(uuid, sizeof(uuid), "%s", show_volume("p/a")->uuid);
	request.uuid = uuid;
	request.size_bytes = GIB;
	request.ranks = (char *)"0";
	volume_of(FATHOM_ASK("VolumeCreate", request, volume));
}

static void a_repeated_creation_succeeds_and_a_different_one_says_what_differs(void **state)
{
	Fathom__VolumeCreateReq request = FATHOM__VOLUME_CREATE_REQ__INIT;
	struct question *question;

	begin_with_pool(1);
	request.name = (char *)"p/a";
	request.uuid = (char *)UUID_1;
	request.size_bytes = GIB;
	assert_string_equal(volume_of(FATHOM_ASK("VolumeCreate", request, volume))->uuid, UUID_1);
	volume_of(FATHOM_ASK("VolumeCreate", request, volume));
	request.uuid = (char *)"";
	volume_of(FATHOM_ASK("VolumeCreate", request, volume));
	request.size_bytes = 2 * GIB;
	question = FATHOM_ASK("VolumeCreate", request, volume);
	assert_int_equal(question->why.code, FAULT_VOLUME_DIFFERS);
	assert_string_equal(question->why.text,
			    "volume \"p/a\" exists, with another size in bytes: 1073741824, not 2147483648");
	request.size_bytes = GIB;
	request.thick = true;
	assert_int_equal(FATHOM_ASK("VolumeCreate", request, volume)->why.code, FAULT_VOLUME_DIFFERS);
	request.thick = false;
	request.from = (char *)"p/b@s";
	request.size_bytes = 0;
	assert_string_equal(FATHOM_ASK("VolumeCreate", request, volume)->why.text,
			    "volume \"p/a\" exists, with another origin: none, not b@s");
	request.from = (char *)"";
	request.size_bytes = GIB;
	request.uuid = (char *)UUID_2;
	assert_int_equal(FATHOM_ASK("VolumeCreate", request, volume)->why.code, FAULT_VOLUME_DIFFERS);
	request.name = (char *)"p/b";
	request.uuid = (char *)UUID_1;
	assert_int_equal(FATHOM_ASK("VolumeCreate", request, volume)->why.code, FAULT_VOLUME_DIFFERS);
	assert_int_equal(storage_of(0)->volume_count, 1);
}

static void requests_that_make_no_sense_are_refused(void **state)
{
	begin_with_pool(1);
	volume_of(create_volume("p/a", 4 * GIB));
	assert_int_equal(create_volume("p", GIB)->why.code, FAULT_STORAGE_NAME_BAD);
	assert_int_equal(create_volume("p/-a", GIB)->why.code, FAULT_STORAGE_NAME_BAD);
	assert_int_equal(create_volume("p/a/b", GIB)->why.code, FAULT_STORAGE_NAME_BAD);
	assert_int_equal(create_volume("q/a", GIB)->why.code, FAULT_NO_SUCH_POOL);
	assert_int_equal(create_volume("p/b", 0)->why.code, FAULT_VOLUME_SIZE_BAD);
	assert_int_equal(create_volume("p/b", 4095)->why.code, FAULT_VOLUME_SIZE_BAD);
	assert_int_equal(create_volume("p/b", UINT64_MAX)->why.code, FAULT_VOLUME_SIZE_BAD);
	assert_int_equal(resize_volume("p/a", 5, false)->why.code, FAULT_VOLUME_SIZE_BAD);
	assert_int_equal(resize_volume("p/b", GIB, false)->why.code, FAULT_NO_SUCH_VOLUME);
	assert_int_equal(resize_volume(UUID_1, GIB, false)->why.code, FAULT_NO_SUCH_VOLUME);
	assert_int_equal(publish_volume("p/a", "iqn.host")->why.code, FAULT_NQN_BAD);
	assert_int_equal(publish_volume("p/a", "nqn.a b")->why.code, FAULT_NQN_BAD);
	assert_int_equal(publish_volume("p/a", NO_UUID)->why.code, FAULT_NQN_NOT_UNIQUE);
	assert_int_equal(rename_volume("p/a", "q/a")->why.code, FAULT_STORAGE_NAME_BAD);
	assert_int_equal(rename_volume("p/a", "")->why.code, FAULT_STORAGE_NAME_BAD);
	assert_int_equal(create_snapshot("p/a")->why.code, FAULT_STORAGE_NAME_BAD);
	assert_int_equal(clone_volume("p/b@s", "p/c")->why.code, FAULT_NO_SUCH_VOLUME);
	assert_int_equal(clone_volume("q/b@s", "p/c")->why.code, FAULT_STORAGE_NAME_BAD);
}

static void a_volume_is_resized(void **state)
{
	struct question *question;

	begin_with_pool(1);
	volume_of(create_volume("p/a", 2 * GIB));
	assert_int_equal(volume_of(resize_volume("p/a", 3 * GIB, false))->size_bytes, 3 * GIB);
	assert_int_equal(storage_of(0)->volumes[0].size_bytes, 3 * GIB);
	volume_of(resize_volume("p/a", 3 * GIB, false));
	assert_int_equal(storage_of(0)->calls[STORE__ACTION__VOLUME_RESIZE], 1);
	question = resize_volume("p/a", GIB, false);
	assert_int_equal(question->why.code, FAULT_VOLUME_SHRINKS);
	assert_int_equal(volume_of(resize_volume("p/a", GIB, true))->size_bytes, GIB);
	storage_of(0)->errors[STORE__ACTION__VOLUME_RESIZE] = -ENOSPC;
	question = resize_volume("p/a", 2 * GIB, false);
	assert_int_equal(question->why.code, FAULT_STORAGE_FULL);
	assert_string_equal(question->why.text, "rank 0 cannot resize volume \"p/a\" to 2147483648 bytes, because space is "
						"missing: the fake storage refuses");
	assert_int_equal(show_volume("p/a")->size_bytes, GIB);
	assert_string_equal(show_volume("p/a")->pending, "");
}

static bool has_no_volume(void *ctx)
{
	return ((const struct fake_storage *)ctx)->volume_count == 0;
}

static void properties_change_on_the_engine_or_in_the_catalog(void **state)
{
	const Fathom__Volume *volume;
	struct question *question;
	char text[300];

	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	volume = volume_of(set_prop("p/a", "thick=on", "description=for the database"));
	assert_true(volume->thick);
	assert_string_equal(volume->description, "for the database");
	assert_true(storage_of(0)->volumes[0].thick);
	assert_true(volume_of(set_prop("p/a", "thick=on", "checksums=false"))->thick); /* repeated; as it is */
	assert_int_equal(storage_of(0)->calls[STORE__ACTION__VOLUME_SET_THICK], 1);
	assert_string_equal(volume_of(set_prop("p/a", "description=", NULL))->description, "");
	question = set_prop("p/a", "checksums=on", NULL);
	assert_int_equal(question->why.code, FAULT_VOLUME_PROP_FIXED);
	assert_non_null(strstr(question->why.text, "has checksums=off"));
	assert_int_equal(set_prop("p/a", "thick", NULL)->why.code, FAULT_VOLUME_PROP_BAD);
	assert_int_equal(set_prop("p/a", "thick=maybe", NULL)->why.code, FAULT_VOLUME_PROP_BAD);
	assert_int_equal(set_prop("p/a", "thin=on", NULL)->why.code, FAULT_VOLUME_PROP_BAD);
	assert_int_equal(set_prop("p/a", "description=a\nb", NULL)->why.code, FAULT_VOLUME_PROP_BAD);
	memset(text, 'x', sizeof(text));
	memcpy(text, "description=", 12);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(set_prop("p/a", text, NULL)->why.code, FAULT_VOLUME_PROP_BAD);
	assert_int_equal(set_prop("p/b", "thick=on", NULL)->why.code, FAULT_NO_SUCH_VOLUME);
	storage_of(0)->errors[STORE__ACTION__VOLUME_SET_THICK] = -ENOSPC;
	volume_of(set_prop("p/a", "description=kept", NULL));
	question = set_prop("p/a", "thick=off", NULL);
	assert_int_equal(question->why.code, FAULT_STORAGE_FULL);
	volume = volume_of(set_prop("p/a", "description=kept", NULL)); /* as before, and nothing is pending */
	assert_true(volume->thick);
	assert_string_equal(volume->pending, "");
}

/* A restored volume has the size of its snapshot. The engine may have it before the service knows. */
static void the_size_of_a_restored_volume_is_that_of_the_engine(void **state)
{
	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	assert_int_equal(show_volume("p/a")->size_bytes, GIB);
	storage_of(0)->volumes[0].size_bytes = 2 * GIB;
	assert_int_equal(show_volume("p/a")->size_bytes, 2 * GIB);
	assert_int_equal(volume_of(resize_volume("p/a", 2 * GIB, false))->size_bytes, 2 * GIB);
	assert_int_equal(storage_of(0)->calls[STORE__ACTION__VOLUME_RESIZE], 0);
}

/* It was renamed on the engine itself. Its data are still there, so the service must not forget it. */
static void a_volume_that_its_engine_has_by_another_name_is_not_forgotten(void **state)
{
	fixture.storage_patience_ns = NS_PER_MS;
	reopen_mgmt();
	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	snprintf(storage_of(0)->volumes[0].name, sizeof(storage_of(0)->volumes[0].name), "other");
	assert_int_equal(destroy_volume("p/a", false)->why.code, FAULT_STORAGE_WAITS);
	assert_string_equal(show_volume("p/a")->state, "destroying");
	snprintf(storage_of(0)->volumes[0].name, sizeof(storage_of(0)->volumes[0].name), "a");
	fixture.storage_patience_ns = 0;
	reopen_mgmt();
	wait_until(has_no_volume, storage_of(0));
	assert_int_equal(list_volumes()->n_volumes, 0);
	assert_int_equal(storage_of(0)->volume_count, 0);
}

static void a_volume_is_renamed_once(void **state)
{
	char uuid[40];

	begin_with_pool(1);
	snprintf(uuid, sizeof(uuid), "%s", volume_of(create_volume("p/a", GIB))->uuid);
	assert_string_equal(volume_of(rename_volume("p/a", "b"))->name, "p/b");
	assert_string_equal(storage_of(0)->volumes[0].name, "b");
	/* the repeated request, whose first answer was lost */
	assert_string_equal(volume_of(rename_volume("p/a", "p/b"))->name, "p/b");
	assert_string_equal(volume_of(rename_volume("p/b", "b"))->name, "p/b");
	assert_string_equal(show_volume(uuid)->name, "p/b");
	assert_int_equal(ask_volume("p/a")->why.code, FAULT_NO_SUCH_VOLUME);
	volume_of(create_volume("p/a", GIB));
	assert_int_equal(rename_volume("p/a", "b")->why.code, FAULT_VOLUME_DIFFERS);
	reopen_mgmt();
	assert_string_equal(show_volume(uuid)->name, "p/b");
}

static void a_volume_is_published_and_unpublished(void **state)
{
	const Fathom__Volume *volume;
	char message[512], host[64];

	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	volume = volume_of(publish_volume("p/a", HOST));
	assert_int_equal(volume->n_hosts, 1);
	assert_string_equal(volume->hosts[0]->nqn, HOST);
	assert_true(volume->nqn[0] && volume->addresses[0][0]);
	volume_of(publish_volume("p/a", HOST));
	assert_int_equal(storage_of(0)->volumes[0].host_count, 1);
	volume_of(publish_volume("p/a", "nqn.other"));
	assert_int_equal(count_events(RAS_VOLUME_PUBLISHED, message, sizeof(message)), 3);
	storage_of(0)->volumes[0].is_connected[0] = true;
	assert_int_equal(show_volume("p/a")->hosts[0]->connections, 1);
	assert_int_equal(unpublish_volume("p/a", HOST, false)->why.code, FAULT_STORAGE_IN_USE);
	assert_int_equal(show_volume("p/a")->n_hosts, 2);
	assert_int_equal(volume_of(unpublish_volume("p/a", HOST, true))->n_hosts, 1);
	volume_of(unpublish_volume("p/a", HOST, false));
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(host, sizeof(host), "nqn.host-%u", i);
		volume_of(publish_volume("p/a", host));
	}
	assert_int_equal(volume_of(unpublish_volume("p/a", "", false))->n_hosts, 0);
	assert_int_equal(storage_of(0)->volumes[0].host_count, 0);
	assert_int_equal(count_events(RAS_VOLUME_UNPUBLISHED, message, sizeof(message)), 2);
}

static void a_list_selects_by_pool_and_host(void **state)
{
	Fathom__VolumeListReq request = FATHOM__VOLUME_LIST_REQ__INIT;
	const Fathom__VolumeListResp *list;

	begin_with_pool(2);
	answer_of(create_pool("q"));
	volume_of(create_volume("q/z", GIB));
	volume_of(create_volume("p/b", GIB));
	volume_of(create_volume("p/a", GIB));
	volume_of(publish_volume("p/b", HOST));
	list = list_volumes();
	assert_int_equal(list->n_volumes, 3);
	assert_string_equal(list->volumes[0]->name, "p/a");
	assert_string_equal(list->volumes[2]->name, "q/z");
	request.pool = (char *)"p";
	list = answer_of(FATHOM_ASK("VolumeList", request, volume_list));
	assert_int_equal(list->n_volumes, 2);
	request.host = (char *)HOST;
	list = answer_of(FATHOM_ASK("VolumeList", request, volume_list));
	assert_int_equal(list->n_volumes, 1);
	assert_string_equal(list->volumes[0]->name, "p/b");
	request.pool = (char *)"nosuch";
	assert_int_equal(FATHOM_ASK("VolumeList", request, volume_list)->why.code, FAULT_NO_SUCH_POOL);
}

static void a_list_does_not_wait_for_an_engine_that_hangs(void **state)
{
	const Fathom__Volume *volume;
	uint64_t asked_ns;

	fixture.storage_read_ns = 50 * NS_PER_MS;
	reopen_mgmt();
	begin_with_pool(2);
	volume_of(create_volume_on("p/a", GIB, "0"));
	volume_of(create_volume_on("p/b", GIB, "1"));
	asked_ns = show_volume("p/b")->asked_ns;
	storage_of(1)->lists_hang = true;
	volume = list_volumes()->volumes[1];
	assert_string_equal(volume->name, "p/b");
	assert_int_equal(volume->asked_ns, asked_ns);
	/* the calls of the other engine go on */
	volume_of(create_volume_on("p/c", GIB, "0"));
	reopen_mgmt();
	volume = list_volumes()->volumes[1];
	assert_int_equal(volume->asked_ns, 0);
	assert_string_equal(volume->name, "p/b");
	assert_int_equal(volume->size_bytes, GIB);
}

static void what_the_engine_says_about_a_volume_is_shown(void **state)
{
	const Fathom__Volume *volume;

	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	storage_of(0)->volumes[0].state = "ERRORED";
	storage_of(0)->volumes[0].reason = "its record is damaged";
	volume = show_volume("p/a");
	assert_string_equal(volume->state, "errored");
	assert_string_equal(volume->reason, "its record is damaged");
	storage_of(0)->volumes[0].state = "READ_ONLY";
	storage_of(0)->volumes[0].reason = "a sync of its file failed";
	volume = show_volume("p/a");
	assert_string_equal(volume->state, "read-only");
	assert_string_equal(volume->reason, "a sync of its file failed");
	storage_of(0)->volume_count = 0;
	volume = show_volume("p/a");
	assert_string_equal(volume->state, "missing");
	assert_string_equal(volume->reason, "its engine does not have it");
}

static void a_destruction_of_a_volume_in_use_is_refused_and_forced(void **state)
{
	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	volume_of(publish_volume("p/a", HOST));
	storage_of(0)->volumes[0].is_connected[0] = true;
	assert_int_equal(destroy_volume("p/a", false)->why.code, FAULT_STORAGE_IN_USE);
	assert_string_equal(show_volume("p/a")->state, "ready");
	volume_of(destroy_volume("p/a", true));
	assert_int_equal(storage_of(0)->volume_count, 0);
}

static void snapshots_are_created_cloned_restored_and_destroyed(void **state)
{
	const char *const group[] = { "p/a@two", "p/b@two" }, *const apart[] = { "p/a@three", "p/c@three" };
	const Fathom__SnapshotResp *response;
	const Fathom__Volume *volume;

	begin_with_pool(2);
	volume_of(create_volume_on("p/a", 2 * GIB, "0"));
	volume_of(create_volume_on("p/b", GIB, "0"));
	volume_of(create_volume_on("p/c", GIB, "1"));
	response = answer_of(create_snapshot("p/a@one"));
	assert_int_equal(response->n_volumes, 1);
	assert_int_equal(response->volumes[0]->n_snapshots, 1);
	assert_string_equal(response->volumes[0]->snapshots[0]->name, "one");
	response = answer_of(create_snapshots(group, 2));
	assert_int_equal(response->n_volumes, 2);
	assert_int_equal(create_snapshots(apart, 2)->why.code, FAULT_SNAPSHOTS_APART);
	assert_int_equal(show_volume("p/a")->n_snapshots, 2);
	storage_of(1)->free_bytes += GIB; /* a clone does not go there */
	storage_of(0)->volumes[0].checksums = true;
	volume = volume_of(clone_volume("p/a@one", "p/copy"));
	assert_true(volume->checksums); /* as its origin */
	assert_int_equal(volume->rank, 0);
	assert_int_equal(volume->size_bytes, 2 * GIB);
	assert_string_equal(volume->origin, "a@one");
	volume_of(clone_volume("p/a@one", "p/copy"));
	assert_int_equal(clone_volume("p/a@two", "p/copy")->why.code, FAULT_VOLUME_DIFFERS);
	assert_int_equal(clone_volume("p/a@none", "p/copy2")->why.code, FAULT_STORAGE_REFUSED);
	answer_of(restore_snapshot("p/a@one"));
	assert_int_equal(restore_snapshot("p/a@none")->why.code, FAULT_STORAGE_REFUSED);
	answer_of(destroy_snapshot("p/a@one"));
	assert_int_equal(show_volume("p/a")->n_snapshots, 1);
	storage_of(0)->errors[STORE__ACTION__SNAPSHOT_CREATE] = -EOPNOTSUPP;
	assert_int_equal(create_snapshot("p/a@four")->why.code, FAULT_STORAGE_UNSUPPORTED);
}

static void changes_between_snapshots_are_passed_on_in_parts(void **state)
{
	const Fathom__SnapshotChangesResp *response;

	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	answer_of(create_snapshot("p/a@one"));
	response = answer_of(read_changes("p/a@one", "zero", 65536));
	assert_int_equal(response->n_ranges, 1);
	assert_int_equal(response->ranges[0]->offset, 65536);
	assert_int_equal(response->ranges[0]->bytes, 4096);
	assert_true(response->ranges[0]->zero);
	assert_int_equal(response->next_offset, 65536 + 8192);
	assert_string_equal(response->from_uuid, "zero");
	assert_string_equal(response->volume_uuid, storage_of(0)->volumes[0].uuid);
	response = answer_of(read_changes("p/a", "one", 0)); /* the volume as it is now */
	assert_int_equal(response->size_bytes, 1 << 20);
	assert_int_equal(read_changes("p/a@none", "", 0)->why.code, FAULT_STORAGE_REFUSED);
	assert_int_equal(read_changes("p/none@one", "", 0)->why.code, FAULT_NO_SUCH_VOLUME);
	assert_int_equal(read_changes("p/a@bad/name", "", 0)->why.code, FAULT_STORAGE_NAME_BAD);
	storage_of(0)->lost = 1; /* it may be repeated */
	answer_of(read_changes("p/a@one", "", 0));
}

static struct question *create_keyed(const char *const *names, size_t count, const char *uuid)
{
	Fathom__SnapshotCreateReq request = FATHOM__SNAPSHOT_CREATE_REQ__INIT;

	request.names = (char **)names;
	request.n_names = count;
	request.uuid = (char *)uuid;
	return FATHOM_ASK("SnapshotCreate", request, snapshot);
}

/* The key makes a repetition the same operation, also for a group and after a rename of the volume. */
static void a_repeated_snapshot_with_the_same_key_succeeds(void **state)
{
	static const char key[] = "33333333-3333-4333-8333-333333333330", other[] = "33333333-3333-4333-8333-333333333340";
	static const char *const names[] = { "p/a@g", "p/b@g" };
	struct fake_storage *storage = &fixture.fakes[0].storage;
	uint32_t changes;

	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	volume_of(create_volume("p/b", GIB));
	answer_of(create_keyed(names, 2, key));
	assert_string_equal(show_volume("p/a")->snapshots[0]->uuid, key);
	assert_string_equal(show_volume("p/b")->snapshots[0]->uuid, "33333333-3333-4333-8333-333333333331");
	changes = storage->changes;
	answer_of(create_keyed(names, 2, key));
	assert_int_equal(storage->changes, changes);
	assert_int_equal(create_keyed(names, 2, other)->why.code, FAULT_STORAGE_EXISTS);
	assert_int_equal(create_keyed(names, 2, "")->why.code, FAULT_STORAGE_EXISTS);
	assert_int_equal(create_keyed(names, 2, "key")->why.code, FAULT_STORAGE_NAME_BAD);
	/* another volume with the name of the first one, which the engine does not have: it is refused there by its UUID */
	snprintf(storage->volumes[0].uuid, sizeof(storage->volumes[0].uuid), "%s", key);
	assert_int_equal(create_snapshot("p/a@h")->why.code, FAULT_STORAGE_REFUSED);
}

static void a_snapshot_of_an_engine_that_does_not_answer_is_reported(void **state)
{
	fixture.storage_patience_ns = NS_PER_MS;
	reopen_mgmt();
	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	storage_of(0)->lost = 1;
	assert_int_equal(create_snapshot("p/a@one")->why.code, FAULT_STORAGE_UNANSWERED);
	assert_int_equal(show_volume("p/a")->n_snapshots, 1);
	fixture.storage_patience_ns = 0;
	reopen_mgmt();
	storage_of(0)->lost = 2;
	answer_of(create_snapshot("p/a@two"));
	assert_int_equal(show_volume("p/a")->n_snapshots, 2);
	storage_of(0)->lost = 1; /* a second restore would discard what hosts wrote after the first */
	assert_int_equal(restore_snapshot("p/a@two")->why.code, FAULT_STORAGE_UNANSWERED);
	assert_int_equal(storage_of(0)->lost, 0);
}

static void a_repeated_publication_names_the_subsystem(void **state)
{
	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	show_volume("p/a"); /* the service keeps this answer of the engine */
	volume_of(publish_volume("p/a", HOST));
	assert_true(volume_of(publish_volume("p/a", HOST))->nqn[0]);
	volume_of(unpublish_volume("p/a", HOST, false));
	assert_string_equal(volume_of(unpublish_volume("p/a", HOST, false))->nqn, "");
}

static void too_many_hosts_are_refused(void **state)
{
	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	for (uint32_t i = 0; i < 64; i++) {
		char host[64];

		snprintf(host, sizeof(host), "nqn.host-%u", i);
		storage_of(0)->volumes[0].host_count = 0; /* the fake storage has room for few */
		volume_of(publish_volume("p/a", host));
	}
	assert_int_equal(publish_volume("p/a", HOST)->why.code, FAULT_HOSTS_FULL);
	volume_of(publish_volume("p/a", "nqn.host-63"));
}

/* The rank was erased: its volumes are shown as lost, and can be forgotten. */
static void a_volume_of_a_replaced_rank_is_lost_until_it_is_destroyed_by_force(void **state)
{
	struct joining joining;
	char uuid[MEMBER_UUID_TEXT_BYTES];
	Mgmt__SystemExcludeReq exclude = MGMT__SYSTEM_EXCLUDE_REQ__INIT;

	begin_with_pool(2);
	volume_of(create_volume_on("p/a", GIB, "1"));
	exclude.ranks = (char *)"1";
	answer_of(ADMIN_ASK("SystemExclude", exclude, system_exclude));
	exclude.clear = true;
	answer_of(ADMIN_ASK("SystemExclude", exclude, system_exclude));
	fill_join(&joining, 1, 200);
	write_uuid(77, uuid);
	joining.request.uuid = uuid;
	joining.request.replace = true;
	assert_int_equal(((const Mgmt__JoinResp *)answer_of(ask_join(&joining)))->rank, 1);
	assert_string_equal(show_volume("p/a")->state, "lost");
	assert_string_equal(show_volume("p/a")->reason, "rank 1 was erased or replaced, and its data with it");
	assert_int_equal(resize_volume("p/a", 2 * GIB, false)->why.code, FAULT_RANK_DATA_LOST);
	assert_int_equal(destroy_volume("p/a", false)->why.code, FAULT_RANK_DATA_LOST);
	assert_int_equal(destroy_pool("p", false, true)->why.code, FAULT_RANK_DATA_LOST);
	volume_of(destroy_volume("p/a", true));
	assert_int_equal(list_volumes()->n_volumes, 0);
	answer_of(destroy_pool("p", true, true));
	assert_int_equal(list_pools()->n_pools, 0);
	assert_int_equal(storage_of(0)->pool_count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(properties_change_on_the_engine_or_in_the_catalog),
		TEST(the_size_of_a_restored_volume_is_that_of_the_engine),
		TEST(a_volume_is_created_listed_and_destroyed),
		TEST(a_volume_gets_the_rank_with_the_most_space_then_the_fewest_volumes),
		TEST(a_volume_says_why_it_was_placed),
		TEST(a_rank_that_failed_or_is_nearly_full_gets_no_volume),
		TEST(a_volume_that_fits_nowhere_is_refused),
		TEST(only_joined_ranks_get_volumes),
		TEST(a_repeated_creation_on_another_rank_says_so),
		TEST(a_repeated_creation_succeeds_and_a_different_one_says_what_differs),
		TEST(requests_that_make_no_sense_are_refused),
		TEST(a_volume_is_resized),
		TEST(a_volume_is_renamed_once),
		TEST(a_volume_that_its_engine_has_by_another_name_is_not_forgotten),
		TEST(a_volume_is_published_and_unpublished),
		TEST(a_list_selects_by_pool_and_host),
		TEST(a_list_does_not_wait_for_an_engine_that_hangs),
		TEST(what_the_engine_says_about_a_volume_is_shown),
		TEST(a_destruction_of_a_volume_in_use_is_refused_and_forced),
		TEST(snapshots_are_created_cloned_restored_and_destroyed),
		TEST(changes_between_snapshots_are_passed_on_in_parts),
		TEST(a_repeated_snapshot_with_the_same_key_succeeds),
		TEST(a_snapshot_of_an_engine_that_does_not_answer_is_reported),
		TEST(a_repeated_publication_names_the_subsystem),
		TEST(too_many_hosts_are_refused),
		TEST(a_volume_of_a_replaced_rank_is_lost_until_it_is_destroyed_by_force),
	};

	return cmocka_run_group_tests_name("control mgmt volumes", tests, NULL, NULL);
}
