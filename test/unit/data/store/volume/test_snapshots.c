/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Snapshots of the volumes of a storage: what exists afterwards, what waits meanwhile, what a hung or full storage does.
 * Whether a copy is of one instant: test_barrier.c. Restores that fail: test_restore.c. Crashes: ../pool/test_crash.c.
 */
#include "storage_rig.h"

/* ---- on the control thread ---- */

static int control_destroy_pool(void *ctx)
{
	volumes_destroy_pool(volumes, &key, true, note_end, ctx);
	return 0;
}

static int control_destroy(void *ctx)
{
	volumes_destroy(volumes, &key, is_forced, note_end, ctx);
	return 0;
}

static int control_destroy_snapshot(void *ctx)
{
	volumes_destroy_snapshot(volumes, &key, snapshot, note_end, ctx);
	return 0;
}

static int control_clone(void *ctx)
{
	struct volume_record clone = { .name = "clone", .thick = is_thick };

	volumes_clone(volumes, &key, snapshot, &clone, note_end, ctx);
	return 0;
}

static int control_is_clone(void *ctx)
{
	const struct volume *clone = volumes_find(volumes, "p", "clone");
	const struct snapshot *origin = volumes_find_snapshot(volumes_find(volumes, "p", "a"), "s");

	return clone->record.has_origin && clone->record.size_bytes == 8 * MIB && clone->state == VOLUME_ONLINE &&
	       memcmp(clone->record.origin_snapshot, origin->record.uuid, POOL_UUID_BYTES) == 0;
}

static int control_count_snapshots(void *ctx)
{
	const struct volume *volume = volumes_find(volumes, "p", ctx);

	return volume ? (int)volume->snapshot_count : -1;
}

static int control_compare_instants(void *ctx)
{
	const struct snapshot *a = volumes_find_snapshot(volumes_find(volumes, "p", "a"), "s");
	const struct snapshot *b = volumes_find_snapshot(volumes_find(volumes, "p", "b"), "s");

	return a && b && a->record.created_ns == b->record.created_ns && a->record.created_ns > 0 &&
	       memcmp(a->record.group, b->record.group, POOL_UUID_BYTES) == 0 && a->record.size_bytes == 8 * MIB;
}

static int control_is_copying(void *ctx)
{
	struct copy_info info;

	return volumes_get_copy(volumes, volumes_find(volumes, "p", ctx), &info) &&
	       info.change == VOLUME_CHANGE_SNAPSHOT_CREATE && info.bytes == 8 * MIB;
}

static int count_snapshots(const char *volume)
{
	return on_control(control_count_snapshots, (void *)volume);
}

static bool is_empty(const char *folder)
{
	char command[160];

	snprintf(command, sizeof(command), "test -z \"$(ls -A %s/%s)\"", root, folder);
	return system(command) == 0;
}

/* Upkeep of a volume replaces its record in the background, by a file in "pending" for a moment. */
static void wait_for_empty(const char *folder)
{
	bool was_empty = is_empty(folder);

	for (int i = 0; i < 6000 && !was_empty; i++) {
		usleep(10000);
		was_empty = is_empty(folder);
	}
	assert_true(was_empty);
}

/* ---- cases ---- */

static void a_snapshot_keeps_the_data_and_survives_a_restart(void **state)
{
	char path[128], text[8] = "";
	FILE *file;

	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	assert_int_equal(run(control_snapshot), 0); /* repeated */
	write_data("behind");
	close_storage();
	assert_int_equal(run(control_open), 0);
	assert_int_equal(count_snapshots("a"), 1);
	snprintf(path, sizeof(path), "%s/pools/p/volumes/a/snapshots/s/data", root);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fread(text, 1, 6, file), 6);
	fclose(file);
	assert_string_equal(text, "before");
	assert_int_equal(run(control_destroy_snapshot), 0);
	assert_int_equal(run(control_destroy_snapshot), -ENOENT);
	assert_int_equal(count_snapshots("a"), 0);
}

static void a_group_is_of_one_instant_all_or_none(void **state)
{
	create_volume("a");
	create_volume("b");
	group[0] = (struct snapshot_request){ .key = { .pool = "p", .volume = "a" }, .name = "s" };
	group[1] = (struct snapshot_request){ .key = { .pool = "p", .volume = "b" }, .name = "s" };
	group[2] = (struct snapshot_request){ .key = { .pool = "p", .volume = "c" }, .name = "s" };
	group_count = 3;
	assert_int_equal(run(control_snapshot), -ENOENT);
	assert_int_equal(count_snapshots("a"), 0);
	group_count = 2;
	assert_int_equal(run(control_snapshot), 0);
	assert_true(on_control(control_compare_instants, NULL));
	create_volume("c");
	group_count = 3;
	assert_int_equal(run(control_snapshot), -EEXIST); /* c's would be of another instant */
	assert_int_equal(count_snapshots("c"), 0);
	group_count = 2;
	assert_int_equal(run(control_snapshot), 0); /* repeated */
	group_count = 0;
	assert_int_equal(run(control_snapshot), 0); /* c's, of another instant */
	group_count = 3;
	assert_int_equal(run(control_snapshot), -EEXIST);
	group_count = 0;
}

static void a_volume_with_snapshots_is_destroyed_only_by_force(void **state)
{
	struct call *call;

	create_volume("a");
	assert_int_equal(run(control_snapshot), 0);
	snapshot = "t";
	assert_int_equal(run(control_snapshot), 0);
	call = start_call(control_destroy);
	assert_int_equal(wait_for(call), -ENOTEMPTY);
	assert_non_null(strstr(call->text, "has 2 snapshots (s, t)"));
	is_forced = true;
	assert_int_equal(run(control_destroy), 0);
	assert_int_equal(count_snapshots("a"), -1);
}

static void a_long_copy_delays_only_changes_of_its_volume(void **state)
{
	struct call *copying, *growing, *destroying;

	create_volume("a");
	hang_steps(true);
	copying = start_call(control_snapshot);
	wait_for_hung_step();
	growing = start_call(control_grow);
	destroying = start_call(control_destroy_pool);
	create_volume("b");
	assert_int_equal(growing->error, 1);
	assert_int_equal(destroying->error, 1);
	assert_true(on_control(control_is_copying, (void *)"a"));
	assert_int_equal(count_snapshots("a"), 0); /* not before it is complete */
	hang_steps(false);
	assert_int_equal(wait_for(copying), 0);
	assert_int_equal(wait_for(growing), 0);
	assert_int_equal(wait_for(destroying), 0);
}

static void a_hung_copy_fails_and_leaves_nothing(void **state)
{
	struct call *copying, *growing;

	create_volume("a");
	hang_steps(true);
	copying = start_call(control_snapshot);
	wait_for_hung_step();
	key.volume = "a";
	growing = start_call(control_grow);
	assert_int_equal(wait_for(copying), -ETIMEDOUT);
	assert_int_equal(growing->error, 1);
	create_volume("b");
	hang_steps(false);
	assert_int_equal(wait_for(growing), 0);
	assert_int_equal(count_snapshots("a"), 0);
	wait_for_empty("pending");
	key.volume = "a";
	assert_int_equal(run(control_snapshot), 0);
}

static void a_close_cancels_a_copy(void **state)
{
	struct call *copying, *closing;

	create_volume("a");
	hang_steps(true);
	copying = start_call(control_snapshot);
	wait_for_hung_step();
	closing = start_call(control_close);
	assert_int_equal(wait_for(copying), -ECANCELED);
	assert_int_equal(closing->error, 1);
	hang_steps(false);
	assert_int_equal(wait_for(closing), 0);
	volumes = NULL;
	(void)on_control(control_remove_bdevs, NULL); /* returns 0 */
	assert_true(is_empty("pending"));
}

static void a_close_cancels_a_copy_that_has_not_begun(void **state)
{
	struct call *copying, *closing;

	create_volume("a");
	hang_space(true);
	copying = start_call(control_snapshot);
	wait_for_hung_step(); /* it reads the space */
	closing = start_call(control_close);
	hang_steps(true);
	hang_space(false);
	assert_int_equal(wait_for(copying), -ECANCELED);
	hang_steps(false);
	assert_int_equal(wait_for(closing), 0);
	volumes = NULL;
	(void)on_control(control_remove_bdevs, NULL); /* returns 0 */
	assert_true(is_empty("pending"));
}

static void without_reflinks_snapshots_are_refused(void **state)
{
	struct call *call;

	close_storage();
	has_no_reflinks = true;
	assert_int_equal(run(control_open), 0);
	create_volume("a");
	call = start_call(control_snapshot);
	assert_int_equal(wait_for(call), -EOPNOTSUPP);
	assert_non_null(strstr(call->text, "use XFS"));
	assert_true(is_empty("pending"));
}

/* The volume may write all of its blocks again. */
static void a_snapshot_needs_a_promise_for_what_the_volume_occupies(void **state)
{
	struct call *call;

	is_thick = true;
	create_volume("a");
	free_bytes = 6 * MIB;
	call = start_call(control_snapshot);
	assert_int_equal(wait_for(call), -ENOSPC);
	assert_non_null(strstr(call->text, "needs 8388608 bytes"));
	assert_non_null(strstr(call->text, "6291456 free bytes"));
	free_bytes = 10 * MIB;
	assert_int_equal(run(control_snapshot), 0);
	snapshot = "t";
	assert_int_equal(run(control_snapshot), 0); /* all of it is promised already */
	free_bytes = 6 * MIB;			    /* the volume wrote its blocks again */
	snapshot = "u";
	assert_int_equal(run(control_snapshot), -ENOSPC);
	assert_int_equal(count_snapshots("a"), 2);
	free_bytes = 10 * MIB;
	is_thick = false;
	key.volume = "b"; /* 8 MiB more are not there */
	assert_int_equal(run(control_create), -ENOSPC);
}

static void a_clone_has_the_data_of_the_snapshot(void **state)
{
	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	write_data("behind");
	assert_int_equal(run(control_clone), 0);
	assert_int_equal(run(control_clone), 0); /* repeated */
	close_storage();
	assert_int_equal(run(control_open), 0);
	assert_true(on_control(control_is_clone, NULL));
	assert_int_equal(on_control(control_use, (void *)"p/clone"), 0);
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
	is_thick = true;
	assert_int_equal(run(control_clone), -EEXIST);
	snapshot = "none";
	assert_int_equal(run(control_clone), -ENOENT);
}

static void a_restore_gives_hosts_the_data_of_the_snapshot(void **state)
{
	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	write_data("behind");
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	assert_read("behind");
	assert_int_equal(run(control_restore), -EBUSY);
	is_forced = true;
	assert_int_equal(run(control_grow), 0);
	assert_int_equal(run(control_restore), 0);
	assert_int_equal(on_control(control_count_blocks, NULL), 8 * MIB / 4096); /* the snapshot's size, too */
	assert_read("before");
	assert_int_equal(run(control_restore), 0);
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
	close_storage();
	assert_int_equal(run(control_open), 0);
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	assert_int_equal(on_control(control_count_blocks, NULL), 8 * MIB / 4096);
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_slow_sync_of_a_restore_delays_no_host(void **state)
{
	struct call *restoring;

	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	has_cloned = false;
	hangs_sync = true;
	restoring = start_call(control_restore);
	wait_for_hung_step();
	assert_int_equal(on_control(control_is_held, NULL), 0);
	hang_sync_no_more();
	assert_int_equal(wait_for(restoring), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
		CASE(a_snapshot_keeps_the_data_and_survives_a_restart),
		CASE(a_group_is_of_one_instant_all_or_none),
		CASE(a_volume_with_snapshots_is_destroyed_only_by_force),
		CASE(a_long_copy_delays_only_changes_of_its_volume),
		CASE(a_hung_copy_fails_and_leaves_nothing),
		CASE(a_close_cancels_a_copy),
		CASE(a_close_cancels_a_copy_that_has_not_begun),
		CASE(without_reflinks_snapshots_are_refused),
		CASE(a_clone_has_the_data_of_the_snapshot),
		CASE(a_restore_gives_hosts_the_data_of_the_snapshot),
		CASE(a_slow_sync_of_a_restore_delays_no_host),
		CASE(a_snapshot_needs_a_promise_for_what_the_volume_occupies),
#undef CASE
	};
	int failed = 0;

	if (storage_begin())
		failed = cmocka_run_group_tests_name("volume snapshots", tests, NULL, NULL);
	storage_end();
	return failed;
}
