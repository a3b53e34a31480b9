/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a volume in a move between engines: durable, and changed only in the allowed ways. */
#include <sys/stat.h>
#include <uuid/uuid.h>

#include "data/store/pool/sums.h"
#include "storage_rig.h"

#define HOST "nqn.2026-11.org.fathom:a"

static struct volume_host hosts[2];
static uint32_t host_count;
static enum volume_move from, to;
static struct snapshot_record copied;
static uint32_t copied_count; /* snapshots that an OUTGOING volume must have */

static int control_move(void *ctx)
{
	const struct volume_moving moving = { .from = from,
					      .to = to,
					      .hosts = hosts,
					      .host_count = from == VOLUME_MOVE_INCOMING ? host_count : 0,
					      .snapshot_count = copied_count };

	volumes_move(volumes, &key, &moving, note_end, ctx);
	return 0;
}

static int control_publish(void *ctx)
{
	volumes_publish(volumes, &key, HOST, note_end, ctx);
	return 0;
}

static int control_rename(void *ctx)
{
	volumes_rename(volumes, &key, "b", note_end, ctx);
	return 0;
}

static int control_destroy(void *ctx)
{
	volumes_destroy(volumes, &key, true, note_end, ctx);
	return 0;
}

static int control_destroy_snapshot(void *ctx)
{
	volumes_destroy_snapshot(volumes, &key, snapshot, note_end, ctx);
	return 0;
}

/* Of what the files have: a snapshot of the volume that is copied. */
static int control_copied_snapshot(void *ctx)
{
	struct snapshot_request request = { .key = key, .name = snapshot, .copied = &copied };

	uuid_copy(request.uuid, copied.uuid);
	volumes_snapshot(volumes, &request, 1, note_end, ctx);
	return 0;
}

static struct snapshot_record found;

static int control_find_snapshot(void *ctx)
{
	const struct snapshot *snapshot_found = volumes_find_snapshot(volumes_find(volumes, "p", "a"), snapshot);

	must(snapshot_found);
	found = snapshot_found->record;
	return 0;
}

static int control_get_move(void *ctx)
{
	return (int)volumes_find(volumes, "p", "a")->record.move;
}

static int control_count_hosts(void *ctx)
{
	return (int)volumes_find(volumes, "p", "a")->record.host_count;
}

static int move(enum volume_move before, enum volume_move after)
{
	from = before;
	to = after;
	return run(control_move);
}

static void reopen(void)
{
	close_storage();
	assert_int_equal(run(control_open), 0);
}

/* A file of the volume, or of a snapshot of it. */
static int open_of(const char *name)
{
	char path[192];
	int file;

	snprintf(path, sizeof(path), "%s/pools/p/volumes/a/%s", root, name);
	file = open(path, O_RDWR);
	must(file >= 0);
	return file;
}

static void assert_file(const char *name, uint64_t bytes, const char *text)
{
	char data[16] = { 0 };
	struct stat stat;
	int file = open_of(name);

	assert_int_equal(fstat(file, &stat), 0);
	assert_int_equal(stat.st_size, bytes);
	assert_true(pread(file, data, strlen(text), 0) == (ssize_t)strlen(text));
	assert_string_equal(data, text);
	close(file);
}

/* ---- cases ---- */

static void a_copy_becomes_the_volume_with_its_hosts(void **state)
{
	made_as = VOLUME_MOVE_INCOMING;
	assert_int_equal(run(control_create), 0);
	assert_int_equal(run(control_create), 0); /* repeated */
	assert_int_equal(run(control_publish), -EBUSY);
	made_as = VOLUME_MOVE_NONE;
	assert_int_equal(run(control_create), -EEXIST);
	reopen();
	assert_int_equal(on_control(control_get_move, NULL), VOLUME_MOVE_INCOMING);
	assert_int_equal(move(VOLUME_MOVE_NONE, VOLUME_MOVE_OUTGOING), -EINVAL);
	assert_int_equal(move(VOLUME_MOVE_OUTGOING, VOLUME_MOVE_NONE), -EINVAL);
	host_count = 2;
	snprintf(hosts[0].nqn, sizeof(hosts[0].nqn), HOST);
	snprintf(hosts[1].nqn, sizeof(hosts[1].nqn), HOST "b");
	assert_int_equal(move(VOLUME_MOVE_INCOMING, VOLUME_MOVE_NONE), 0);
	assert_int_equal(move(VOLUME_MOVE_INCOMING, VOLUME_MOVE_NONE), 0); /* repeated */
	reopen();
	assert_int_equal(on_control(control_get_move, NULL), VOLUME_MOVE_NONE);
	assert_int_equal(on_control(control_count_hosts, NULL), 2);
	assert_int_equal(run(control_grow), 0);
}

static void a_volume_that_goes_away_keeps_its_hosts_and_changes_no_more(void **state)
{
	assert_int_equal(run(control_create), 0);
	assert_int_equal(run(control_publish), 0);
	assert_int_equal(move(VOLUME_MOVE_NONE, VOLUME_MOVE_OUTGOING), 0);
	assert_int_equal(run(control_publish), -EBUSY);
	assert_int_equal(run(control_grow), -EBUSY);
	assert_int_equal(run(control_rename), -EBUSY);
	reopen();
	assert_int_equal(on_control(control_get_move, NULL), VOLUME_MOVE_OUTGOING);
	assert_int_equal(move(VOLUME_MOVE_INCOMING, VOLUME_MOVE_NONE), -EINVAL);
	assert_int_equal(move(VOLUME_MOVE_OUTGOING, VOLUME_MOVE_NONE), 0);
	reopen();
	assert_int_equal(on_control(control_count_hosts, NULL), 1);
	assert_int_equal(run(control_publish), 0);
	assert_int_equal(move(VOLUME_MOVE_NONE, VOLUME_MOVE_OUTGOING), 0);
	assert_int_equal(run(control_destroy), 0);
	assert_int_equal(move(VOLUME_MOVE_OUTGOING, VOLUME_MOVE_NONE), -ENOENT);
}

/* As after a round: the files have the data of a snapshot. */
static void a_copy_gets_the_snapshots_of_its_original(void **state)
{
	static const uint64_t sizes[] = { 5 * MIB + 4096, 8 * MIB, 12 * MIB };
	static const char *const names[] = { "s0", "s1", "s2" };
	char name[64];

	has_checksums = true;
	made_as = VOLUME_MOVE_INCOMING;
	assert_int_equal(run(control_create), 0);
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t bytes = max_u64(sizes[i], 8 * MIB);
		int data_file = open_of("data.1"), sums_file = open_of("sums.1");

		snapshot = names[i];
		copied = (struct snapshot_record){ .size_bytes = sizes[i], .created_ns = 1000 + i };
		memset(copied.group, 7, sizeof(copied.group));
		memset(copied.uuid, 10 + (int)i, sizeof(copied.uuid));
		assert_int_equal(ftruncate(data_file, (off_t)bytes), 0);
		assert_int_equal(ftruncate(sums_file, (off_t)sums_file_bytes(bytes)), 0);
		assert_true(pwrite(data_file, names[i], 2, 0) == 2);
		close(data_file);
		close(sums_file);
		assert_int_equal(run(control_copied_snapshot), 0);
		assert_int_equal(run(control_copied_snapshot), 0); /* repeated */
	}
	assert_int_equal(run(control_snapshot), 0); /* it exists */
	snapshot = "other";
	assert_int_equal(run(control_snapshot), -EBUSY);
	reopen();
	for (uint32_t i = 0; i < 3; i++) {
		snapshot = names[i];
		assert_int_equal(on_control(control_find_snapshot, NULL), 0);
		assert_int_equal(found.size_bytes, sizes[i]);
		assert_int_equal(found.created_ns, 1000 + i);
		assert_int_equal(found.uuid[0], 10 + i);
		assert_int_equal(found.group[15], 7);
		snprintf(name, sizeof(name), "snapshots/%s/data", names[i]);
		assert_file(name, sizes[i], names[i]);
	}
	assert_int_equal(run(control_destroy_snapshot), -EBUSY);
	assert_int_equal(move(VOLUME_MOVE_INCOMING, VOLUME_MOVE_NONE), 0);
	assert_int_equal(run(control_copied_snapshot), 0); /* a call that was repeated late finds it */
	copied.uuid[0]++;
	assert_int_equal(run(control_copied_snapshot), -EEXIST);
	snapshot = "other";
	assert_int_equal(run(control_copied_snapshot), -EINVAL);
	snapshot = "s0";
	assert_int_equal(run(control_destroy_snapshot), 0);
}

static void a_volume_goes_away_with_its_snapshots(void **state)
{
	assert_int_equal(run(control_create), 0);
	assert_int_equal(run(control_snapshot), 0);
	copied_count = 1;
	assert_int_equal(move(VOLUME_MOVE_NONE, VOLUME_MOVE_OUTGOING), 0);
	copied_count = 0;
	assert_int_equal(move(VOLUME_MOVE_NONE, VOLUME_MOVE_OUTGOING), 0); /* repeated */
	assert_int_equal(run(control_destroy_snapshot), -EBUSY);
	assert_int_equal(run(control_destroy), 0);
}

static int control_is_changing(void *ctx)
{
	return volumes_is_changing(volumes, volumes_find(volumes, "p", "a"));
}

static int control_has_copy(void *ctx)
{
	struct copy_info info;

	return volumes_get_copy(volumes, volumes_find(volumes, "p", "a"), &info);
}

/* The snapshot was not in the copy: it stays, with the volume. */
static void a_volume_does_not_go_away_without_a_snapshot_in_progress(void **state)
{
	struct call *taken, *fence;

	assert_int_equal(run(control_create), 0);
	assert_int_equal(run(control_publish), 0);
	assert_false(on_control(control_is_changing, NULL));
	hang_space(true); /* the snapshot asks for its space before its copy begins */
	is_waiting = false;
	taken = start_call(control_snapshot);
	wait_for_hung_step();
	assert_true(on_control(control_is_changing, NULL));
	assert_false(on_control(control_has_copy, NULL));
	from = VOLUME_MOVE_NONE;
	to = VOLUME_MOVE_OUTGOING;
	copied_count = 0;
	fence = start_call(control_move);
	hang_space(false);
	assert_int_equal(wait_for(taken), 0);
	assert_int_equal(wait_for(fence), -ESTALE);
	assert_int_equal(on_control(control_get_move, NULL), VOLUME_MOVE_NONE);
	assert_int_equal(on_control(control_find_snapshot, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_copy_becomes_the_volume_with_its_hosts, begin, end),
		cmocka_unit_test_setup_teardown(a_volume_that_goes_away_keeps_its_hosts_and_changes_no_more, begin, end),
		cmocka_unit_test_setup_teardown(a_copy_gets_the_snapshots_of_its_original, begin, end),
		cmocka_unit_test_setup_teardown(a_volume_goes_away_with_its_snapshots, begin, end),
		cmocka_unit_test_setup_teardown(a_volume_does_not_go_away_without_a_snapshot_in_progress, begin, end),
	};
	int failed = 0;

	if (storage_begin())
		failed = cmocka_run_group_tests_name("volume moves", tests, NULL, NULL);
	storage_end();
	return failed;
}
