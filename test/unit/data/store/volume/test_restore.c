/* SPDX-License-Identifier: BSD-2-Clause */
/* Restores that fail when the snapshot is copied and the I/O of the volume is held. */
#include <stdatomic.h>

#include "storage_rig.h"

/* ---- time ---- */

/* Channels believe that a hold is so many times as old. The reactor sleeps so many times as long. */
static atomic_uint time_factor = 1;

uint64_t __real_clock_ns_from_ticks(uint64_t ticks);
uint64_t __wrap_clock_ns_from_ticks(uint64_t ticks);

uint64_t __wrap_clock_ns_from_ticks(uint64_t ticks)
{
	return __real_clock_ns_from_ticks(ticks) * atomic_load(&time_factor);
}

/* ---- the same block, written ---- */

static struct {
	struct bdev_io io;
	struct iovec iov;
	enum io_status status;
	bool is_done;
	uint8_t block[4096] __attribute__((aligned(4096)));
} writing;

static void note_written(struct bdev_io *io, enum io_status status)
{
	pthread_mutex_lock(&mutex);
	writing.status = status;
	writing.is_done = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static int control_write(void *ctx)
{
	bdev_io_init(&writing.io);
	writing.iov = (struct iovec){ writing.block, sizeof(writing.block) };
	writing.is_done = false;
	bdev_write(&writing.io, reading.channel, &writing.iov, 1, 0, 1, reactor_now(), note_written);
	return 0;
}

static void begin_write(const char *text)
{
	memset(writing.block, 0, sizeof(writing.block));
	memcpy(writing.block, text, strlen(text));
	assert_int_equal(on_control(control_write, NULL), 0);
}

static enum io_status end_write(void)
{
	pthread_mutex_lock(&mutex);
	while (!writing.is_done)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	return writing.status;
}

static bool is_write_done(void)
{
	bool is_done;

	pthread_mutex_lock(&mutex);
	is_done = writing.is_done;
	pthread_mutex_unlock(&mutex);
	return is_done;
}

/* ---- cases ---- */

enum {
	SYNCS_BEFORE_RENAME = 4, /* the data, the data again, the folder, the new record */
};

/* Restore p/a, which has grown and which hosts use, until the sync after this number of others hangs. */
static struct call *begin_restore_until(int syncs)
{
	struct call *restoring;

	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	write_data("behind");
	assert_int_equal(run(control_grow), 0);
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	is_forced = true;
	has_cloned = false;
	syncs_passed = syncs;
	hangs_sync = true;
	is_waiting = false;
	restoring = start_call(control_restore);
	wait_for_hung_step();
	return restoring;
}

static bool has_file(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/pools/p/volumes/a/%s", root, name);
	return access(path, F_OK) == 0;
}

static void restart_and_use(void)
{
	assert_int_equal(on_control(control_unuse, NULL), 0);
	close_storage();
	assert_int_equal(run(control_open), 0);
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
}

/* A channel lets I/O go on that is held for too long. What hosts write then is in the old file. */
static void a_restore_whose_hold_lapses_leaves_the_volume_as_before(void **state)
{
	struct call *restoring = begin_restore_until(SYNCS_BEFORE_RENAME);

	begin_write("late");
	assert_true(on_control(control_is_held, NULL));
	assert_false(is_write_done());
	atomic_store(&time_factor, 1000);
	while (!is_write_done())
		(void)on_control(control_is_held, NULL); /* so that the reactor does not sleep */
	atomic_store(&time_factor, 1);
	assert_int_equal(end_write(), IO_SUCCESS);
	hang_sync_no_more();
	assert_int_equal(wait_for(restoring), -ETIMEDOUT);
	assert_non_null(strstr(restoring->text, "held for too long"));
	assert_read("late");
	assert_true(has_file("data.1"));
	assert_false(has_file("data.2"));
	assert_int_equal(on_control(control_count_blocks, NULL), 16 * MIB / 4096);
	assert_int_equal(run(control_grow), 0); /* changes go on */
	restart_and_use();
	assert_read("late");
	assert_int_equal(run(control_restore), 0);
	assert_read("before");
	assert_false(has_file("data.1"));
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_restore_whose_new_file_cannot_be_opened_changes_nothing(void **state)
{
	struct call *restoring = begin_restore_until(0);
	char path[128];

	snprintf(path, sizeof(path), "%s/pools/p/volumes/a/data.2", root);
	assert_int_equal(unlink(path), 0);
	hang_sync_no_more();
	assert_int_equal(wait_for(restoring), -ENOENT);
	assert_read("behind");
	assert_int_equal(on_control(control_count_blocks, NULL), 16 * MIB / 4096);
	begin_write("later");
	assert_int_equal(end_write(), IO_SUCCESS);
	restart_and_use();
	assert_read("later");
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static int control_is_errored(void *ctx)
{
	const struct volume *volume = volumes_find(volumes, "p", "a");
	struct volumes_info info;

	volumes_get_info(volumes, &info);
	return volume->state == VOLUME_ERRORED && strstr(volume->why.text, "not known which data") && info.damaged == 1 &&
	       info.state == STORAGE_FAILED && !bdev_find("p/a");
}

static int control_read_space(void *ctx)
{
	volumes_read_space(volumes, note_end, ctx);
	return 0;
}

static int failures;

static void note_failure(void *ctx, const struct volume *volume)
{
	if (!volume) /* the storage */
		failures++;
}

static int control_watch_failures(void *ctx)
{
	failures = 0;
	volumes_on_failure(volumes, note_failure, NULL);
	return 0;
}

/* The disk may have either generation, so no write to either may succeed. */
static void a_restore_whose_end_is_not_synced_makes_the_volume_errored(void **state)
{
	struct call *restoring = begin_restore_until(SYNCS_BEFORE_RENAME);

	assert_int_equal(on_control(control_watch_failures, NULL), 0);
	begin_write("lost");
	sync_error = -EIO;
	hang_sync_no_more();
	assert_int_equal(wait_for(restoring), -EIO);
	assert_int_equal(end_write(), IO_READ_ONLY);
	assert_true(on_control(control_is_errored, NULL));
	assert_int_equal(failures, 1);
	assert_int_equal(run(control_grow), -EROFS);
	assert_int_equal(run(control_read_space), 0); /* hosts write to other volumes, and their limit goes on */
	begin_write("lost");
	assert_int_equal(end_write(), IO_READ_ONLY);
	assert_true(has_file("data.1"));
	assert_true(has_file("data.2"));
	restart_and_use();
	assert_read("before"); /* as the rename has made it */
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static int end_late(void **state)
{
	atomic_store(&time_factor, 1); /* also after an assertion */
	return end(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end_late)
		CASE(a_restore_whose_hold_lapses_leaves_the_volume_as_before),
		CASE(a_restore_whose_new_file_cannot_be_opened_changes_nothing),
		CASE(a_restore_whose_end_is_not_synced_makes_the_volume_errored),
#undef CASE
	};
	int failed = 0;

	if (storage_begin())
		failed = cmocka_run_group_tests_name("volume restore", tests, NULL, NULL);
	storage_end();
	return failed;
}
