/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is done to the files of volumes in the background: blocks for a volume that became thick; the mark of a file that
 * shared blocks. And clones that are only read, which are promised no space.
 */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "data/store/volume/internal.h"
#include "storage_rig.h"

enum { WAIT_MS = 10, WAITS_MAX = 6000 };

/* ---- the file system; under the mutex ---- */

static bool shares_blocks; /* each map says so; not on XFS */
static int allocate_error;
static int maps, unshares, allocations;

static int test_map(void *ctx, int fd, uint64_t offset, struct pool_extent *extents, uint32_t extents_max)
{
	bool is_shared;

	pthread_mutex_lock(&mutex);
	maps++;
	is_shared = shares_blocks;
	pthread_mutex_unlock(&mutex);
	if (by_reflink)
		return pool_fs_system()->map(ctx, fd, offset, extents, extents_max);
	extents[0] = (struct pool_extent){ .bytes = 4096, .is_data = true, .is_shared = is_shared };
	return 1;
}

static int test_unshare(void *ctx, int fd, uint64_t offset, uint64_t bytes)
{
	int error = pool_fs_system()->unshare(ctx, fd, offset, bytes);

	pthread_mutex_lock(&mutex);
	unshares++;
	pthread_mutex_unlock(&mutex);
	return error;
}

static int test_allocate(void *ctx, int fd, uint64_t offset, uint64_t bytes)
{
	int error;

	pthread_mutex_lock(&mutex);
	allocations++;
	error = allocate_error;
	pthread_mutex_unlock(&mutex);
	return error ? error : pool_fs_system()->allocate(ctx, fd, offset, bytes);
}

static void set_allocate_error(int error)
{
	pthread_mutex_lock(&mutex);
	allocate_error = error;
	pthread_mutex_unlock(&mutex);
}

static void set_sharing(bool shares)
{
	pthread_mutex_lock(&mutex);
	shares_blocks = shares;
	pthread_mutex_unlock(&mutex);
}

static int read_count(const int *count)
{
	int value;

	pthread_mutex_lock(&mutex);
	value = *count;
	pthread_mutex_unlock(&mutex);
	return value;
}

/* ---- on the control thread ---- */

static bool wants_thick, is_read_only;
static uint64_t pool_bytes;

static struct volume *the_volume(void)
{
	return volumes_find(volumes, key.pool, key.volume);
}

static int control_set_thick(void *ctx)
{
	volumes_set_thick(volumes, &key, wants_thick, note_end, ctx);
	return 0;
}

static int control_create_overcommit(void *ctx)
{
	struct pool_record record = { .name = "o", .overcommit = true, .size_bytes = pool_bytes };

	volumes_create_pool(volumes, &record, note_end, ctx);
	return 0;
}

static int control_destroy_snapshot(void *ctx)
{
	volumes_destroy_snapshot(volumes, &key, snapshot, note_end, ctx);
	return 0;
}

static int control_destroy(void *ctx)
{
	volumes_destroy(volumes, &key, true, note_end, ctx);
	return 0;
}

static int control_clone(void *ctx)
{
	struct volume_record clone = { .name = "clone", .read_only = is_read_only };

	volumes_clone(volumes, &key, snapshot, &clone, note_end, ctx);
	return 0;
}

static int control_is_allocated(void *ctx)
{
	return the_volume()->record.thick && !the_volume()->record.allocating;
}

static int control_has_failed(void *ctx)
{
	return the_volume()->upkeep.why.error;
}

static int control_shares(void *ctx)
{
	return the_volume()->record.shares;
}

static int control_is_unshared(void *ctx)
{
	return !the_volume()->record.shares && !the_volume()->may_share;
}

static int control_is_read_only(void *ctx)
{
	return bdev_is_read_only(bdev_find("p/clone")) && volumes_find(volumes, "p", "clone")->record.read_only;
}

static void wait_until(int (*is_so)(void *ctx))
{
	for (int i = 0; i < WAITS_MAX; i++) {
		if (on_control(is_so, NULL))
			return;
		usleep(WAIT_MS * 1000);
	}
	fail_msg("waited in vain");
}

static void wait_for_count(const int *count, int value)
{
	for (int i = 0; i < WAITS_MAX && read_count(count) < value; i++)
		usleep(WAIT_MS * 1000);
	assert_true(read_count(count) >= value);
}

static void restart(void)
{
	close_storage();
	assert_int_equal(run(control_open), 0);
}

static uint64_t allocated_bytes(const char *name)
{
	struct stat stat;
	char path[128];

	snprintf(path, sizeof(path), "%s/pools/%s/volumes/%s/data.1", root, key.pool, name);
	assert_int_equal(lstat(path, &stat), 0);
	return (uint64_t)stat.st_blocks * 512;
}

/* ---- thick and thin ---- */

static void a_volume_that_becomes_thick_gets_its_blocks_later(void **state)
{
	create_volume("a");
	write_data("before");
	wants_thick = true;
	assert_int_equal(run(control_set_thick), 0);
	wait_until(control_is_allocated);
	assert_int_equal(allocated_bytes("a"), 8 * MIB);
	assert_int_equal(run(control_set_thick), 0); /* repeated */
	restart();
	assert_true(on_control(control_is_allocated, NULL));
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
	wants_thick = false;
	assert_int_equal(run(control_set_thick), 0);
	assert_int_equal(run(control_set_thick), 0);
	restart();
	assert_false(on_control(control_is_allocated, NULL));
	assert_int_equal(allocated_bytes("a"), 8 * MIB); /* its blocks stay */
	key.volume = "b";
	assert_int_equal(run(control_set_thick), -ENOENT);
}

static void an_allocation_that_fails_is_tried_again_also_after_a_restart(void **state)
{
	int before;

	create_volume("a");
	set_allocate_error(-ENOSPC);
	wants_thick = true;
	assert_int_equal(run(control_set_thick), 0);
	wait_until(control_has_failed);
	before = read_count(&allocations);
	wait_for_count(&allocations, before + 1);
	restart();
	wait_until(control_has_failed);
	assert_false(on_control(control_is_allocated, NULL));
	set_allocate_error(0);
	wait_until(control_is_allocated);
	assert_int_equal(on_control(control_has_failed, NULL), 0);
	assert_int_equal(allocated_bytes("a"), 8 * MIB);
}

static void a_volume_does_not_become_thick_without_its_space(void **state)
{
	struct call *call;

	assert_int_equal(run(control_create_overcommit), 0);
	key.pool = "o";
	create_volume("a");
	create_volume("b");
	free_bytes = 10 * MIB;
	wants_thick = true;
	assert_int_equal(run(control_set_thick), 0);
	wait_until(control_is_allocated);
	free_bytes = 6 * MIB;
	key.volume = "a";
	call = start_call(control_set_thick);
	assert_int_equal(wait_for(call), -ENOSPC);
	assert_non_null(strstr(call->text, "needs 8388608 bytes, 2160066 more than there are")); /* 1 % is kept */
	assert_false(on_control(control_is_allocated, NULL));
	/* what is not thick any more has no promise */
	assert_int_equal(run(control_snapshot), 0);
	/* what has a snapshot needs space to write all blocks again, and that of its holes */
	free_bytes = 10 * MIB;
	call = start_call(control_set_thick);
	assert_int_equal(wait_for(call), -ENOSPC);
	assert_non_null(strstr(call->text, "needs 16777216 bytes, 6396313 more than there are"));
	free_bytes = 20 * MIB;
	assert_int_equal(run(control_set_thick), 0);
	free_bytes = 10 * MIB;
	key.volume = "c";
	is_thick = true;
	assert_int_equal(run(control_create), -ENOSPC);
	key.volume = "a";
	wants_thick = false;
	assert_int_equal(run(control_set_thick), 0);
	key.volume = "c";
	assert_int_equal(run(control_create), 0);
}

/* ---- what was promised is promised to no other: each create is a question ---- */

static int create_other(const char *name, uint64_t free)
{
	const char *volume = key.volume;
	int error;

	key.volume = name;
	free_bytes = free;
	error = run(control_create);
	key.volume = volume;
	return error;
}

/* Volume a has a snapshot: it is promised its size for writes to shared blocks, and the blocks that its holes need. */
static void a_volume_keeps_its_whole_promise_until_it_is_thick(void **state)
{
	create_volume("a");
	assert_int_equal(run(control_snapshot), 0);
	set_allocate_error(-ENOSPC);
	wants_thick = true;
	free_bytes = 20 * MIB;
	assert_int_equal(run(control_set_thick), 0);
	wait_until(control_has_failed);
	assert_int_equal(create_other("b", 20 * MIB), -ENOSPC);
	restart();
	wait_until(control_has_failed);
	assert_int_equal(create_other("b", 20 * MIB), -ENOSPC);
	assert_int_equal(create_other("b", 26 * MIB), 0);
	set_allocate_error(0);
	wait_until(control_is_allocated);
	assert_int_equal(create_other("c", 26 * MIB), 0); /* the holes have their blocks: a and b need 16 MiB */
}

static void a_snapshot_of_a_volume_that_becomes_thick_needs_all_of_its_size(void **state)
{
	create_volume("a");
	set_allocate_error(-ENOSPC);
	wants_thick = true;
	assert_int_equal(run(control_set_thick), 0);
	wait_until(control_has_failed);
	free_bytes = 12 * MIB;
	assert_int_equal(run(control_snapshot), -ENOSPC);
	free_bytes = 20 * MIB;
	assert_int_equal(run(control_snapshot), 0);
	assert_int_equal(create_other("b", 20 * MIB), -ENOSPC);
	set_allocate_error(0);
	wait_until(control_is_allocated);
}

/* Its new blocks are allocated at once, and writes to all of its blocks may need others. */
static void a_thick_volume_with_a_snapshot_grows_if_there_is_space_for_both(void **state)
{
	is_thick = true;
	create_volume("a");
	assert_int_equal(run(control_snapshot), 0);
	free_bytes = 20 * MIB;
	assert_int_equal(run(control_grow), -ENOSPC);
	free_bytes = 26 * MIB;
	assert_int_equal(run(control_grow), 0);
}

static void a_clone_in_progress_has_its_promise(void **state)
{
	struct call *clone;

	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	free_bytes = 20 * MIB;
	hang_steps(true);
	clone = start_call(control_clone);
	wait_for_hung_step();
	assert_int_equal(create_other("b", 20 * MIB), -ENOSPC); /* a and the clone: 16 MiB */
	assert_int_equal(run(control_destroy_snapshot), 0);
	wait_until(control_is_unshared);
	assert_int_equal(create_other("b", 20 * MIB), -ENOSPC);
	hang_steps(false);
	free_bytes = 0;
	(void)wait_for(clone); /* if it hung for long, it has failed */
}

static void a_pool_limits_its_thick_volumes(void **state)
{
	pool_bytes = 12 * MIB;
	assert_int_equal(run(control_create_overcommit), 0);
	key.pool = "o";
	create_volume("a");
	create_volume("b");
	wants_thick = true;
	assert_int_equal(run(control_set_thick), 0);
	key.volume = "a";
	assert_int_equal(run(control_set_thick), -ENOSPC);
}

/* ---- the mark of a file that shared blocks ---- */

/*
 * What XFS has on the disk. -1: it cannot be read here. A frozen file system has written all; an unmount may not, because
 * mounts of other processes may have the file system, too.
 */
static int has_mark(void)
{
	char command[256], path[128], text[16] = "";
	int mark = -1, fd = open(root, O_RDONLY | O_DIRECTORY);
	struct stat stat;
	FILE *out;

	must(fd >= 0);
	snprintf(path, sizeof(path), "%s/pools/p/volumes/a/data.1", root);
	assert_int_equal(lstat(path, &stat), 0);
	snprintf(command, sizeof(command), "xfs_db -r -c 'inode %lu' -c 'print v3.reflink' %s.img 2>/dev/null",
		 (unsigned long)stat.st_ino, root);
	if (ioctl(fd, FIFREEZE, 0) == 0) {
		out = popen(command, "r");
		if (out && fgets(text, sizeof(text), out))
			(void)sscanf(text, "v3.reflink = %d", &mark); /* else -1 */
		must(out && pclose(out) >= 0);
		must(ioctl(fd, FITHAW, 0) == 0);
	}
	(void)close(fd); /* only read */
	return mark;
}

static void after_the_last_snapshot_the_mark_of_sharing_goes(void **state)
{
	int mark;

	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	assert_true(on_control(control_shares, NULL));
	snapshot = "t";
	assert_int_equal(run(control_snapshot), 0);
	assert_int_equal(run(control_destroy_snapshot), 0);
	assert_int_equal(read_count(&unshares), 0);
	mark = by_reflink ? has_mark() : -1;
	assert_true(mark != 0);
	snapshot = "s";
	assert_int_equal(run(control_destroy_snapshot), 0);
	wait_until(control_is_unshared);
	assert_int_equal(read_count(&unshares), 1);
	if (mark == 1)
		assert_int_equal(has_mark(), 0);
	restart();
	assert_true(on_control(control_is_unshared, NULL));
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
	assert_int_equal(run(control_snapshot), 0);
	assert_true(on_control(control_shares, NULL));
}

/* A restart takes the place of a crash: the record says what is left to do. */
static void a_volume_is_searched_until_it_shares_nothing(void **state)
{
	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	assert_int_equal(run(control_clone), 0);
	set_sharing(true);
	assert_int_equal(run(control_destroy_snapshot), 0);
	wait_for_count(&maps, 3); /* the volume and its clone, again and again */
	restart();
	wait_for_count(&maps, 5);
	assert_true(on_control(control_shares, NULL));
	assert_int_equal(read_count(&unshares), 0);
	key.volume = "clone";
	assert_true(on_control(control_shares, NULL));
	set_sharing(false);
	assert_int_equal(run(control_destroy), 0);
	key.volume = "a";
	wait_until(control_is_unshared);
}

static void a_clone_loses_the_mark_when_its_snapshot_is_gone(void **state)
{
	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	assert_int_equal(run(control_clone), 0);
	is_forced = true;
	assert_int_equal(run(control_destroy), 0); /* with the snapshot */
	key.volume = "clone";
	wait_until(control_is_unshared);
	restart();
	assert_true(on_control(control_is_unshared, NULL));
}

/* ---- clones that are only read ---- */

static void a_clone_that_is_only_read_needs_no_space(void **state)
{
	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	free_bytes = 9 * MIB; /* of which 8 are promised to a */
	assert_int_equal(run(control_clone), -ENOSPC);
	is_read_only = true;
	assert_int_equal(run(control_clone), 0);
	assert_int_equal(run(control_clone), 0); /* repeated */
	is_read_only = false;
	assert_int_equal(run(control_clone), -EEXIST);
	restart();
	assert_true(on_control(control_is_read_only, NULL));
	assert_int_equal(on_control(control_use, (void *)"p/clone"), 0);
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
	key.volume = "clone";
	wants_thick = true;
	assert_int_equal(run(control_set_thick), -EROFS);
	assert_int_equal(run(control_snapshot), 0);
	assert_int_equal(run(control_restore), -EROFS);
}

/* ---- copies in progress ---- */

static int control_make_step_due(void *ctx)
{
	the_volume()->upkeep.due_ns = 0;
	queue_wake(volumes);
	return 0;
}

static int control_is_trash_empty(void *ctx)
{
	struct volumes_info info;

	volumes_get_info(volumes, &info);
	return info.trash_objects == 0;
}

static void a_volume_that_is_copied_does_not_stop_the_upkeep_of_others(void **state)
{
	struct call *copy;

	create_volume("b");
	create_volume("a");
	set_allocate_error(-ENOSPC);
	wants_thick = true;
	assert_int_equal(run(control_set_thick), 0);
	wait_until(control_has_failed);
	hang_steps(true);
	copy = start_call(control_snapshot);
	wait_for_hung_step();
	assert_int_equal(on_control(control_make_step_due, NULL), 0);
	key.volume = "b";
	assert_int_equal(run(control_destroy), 0);
	wait_until(control_is_trash_empty);
	hang_steps(false);
	(void)wait_for(copy); /* if it hung for long, it has failed */
	set_allocate_error(0);
	key.volume = "a";
	wait_until(control_is_allocated);
}

/* On XFS the search finds the blocks of the copy. */
static void a_clone_that_ends_after_its_origin_was_unshared_begins_another_search(void **state)
{
	struct call *clone;

	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	hang_steps(true);
	clone = start_call(control_clone);
	wait_for_hung_step();
	assert_int_equal(run(control_destroy_snapshot), 0);
	wait_until(control_is_unshared);
	hang_steps(false);
	(void)wait_for(clone); /* if it hung for long, it has failed */
	wait_until(control_is_unshared);
}

static int begin_upkeep(void **state)
{
	maps = unshares = allocations = allocate_error = 0;
	shares_blocks = wants_thick = is_read_only = false;
	pool_bytes = 0;
	if (begin(state))
		return -1;
	/* read by the worker thread from the next change on */
	calls.map = test_map;
	calls.unshare = test_unshare;
	calls.allocate = test_allocate;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin_upkeep, end)
		CASE(a_volume_that_becomes_thick_gets_its_blocks_later),
		CASE(an_allocation_that_fails_is_tried_again_also_after_a_restart),
		CASE(a_volume_does_not_become_thick_without_its_space),
		CASE(a_volume_keeps_its_whole_promise_until_it_is_thick),
		CASE(a_snapshot_of_a_volume_that_becomes_thick_needs_all_of_its_size),
		CASE(a_thick_volume_with_a_snapshot_grows_if_there_is_space_for_both),
		CASE(a_pool_limits_its_thick_volumes),
		CASE(after_the_last_snapshot_the_mark_of_sharing_goes),
		CASE(a_volume_is_searched_until_it_shares_nothing),
		CASE(a_clone_loses_the_mark_when_its_snapshot_is_gone),
		CASE(a_clone_that_is_only_read_needs_no_space),
		CASE(a_volume_that_is_copied_does_not_stop_the_upkeep_of_others),
		CASE(a_clone_that_ends_after_its_origin_was_unshared_begins_another_search),
		CASE(a_clone_in_progress_has_its_promise),
#undef CASE
	};
	int failed = 0;

	/* the last two cases need a clone with steps that hang: a reflink has none */
	if (storage_begin())
		failed = _cmocka_run_group_tests("volume upkeep", tests, ARRAY_COUNT(tests) - 2 * by_reflink, NULL, NULL);
	storage_end();
	return failed;
}
