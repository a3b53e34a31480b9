/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of a storage that fails or hangs. The calls of the operating system go through a table of this test, which makes
 * a sync fail or wait. Names, values and restarts are tested with the real engine: test/system/test_volumes.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/pool/fs.h"
#include "data/store/volume/volumes.h"
#include "../../../control_thread.h"

enum { CALLS_MAX = 80, MIB = 1 << 20 };

static char root[64];
static struct pool_fs calls; /* those of the system, with the sync below */

/* ---- syncs that fail or wait; under the mutex ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int syncs_left = -1; /* so many succeed, then all fail with EIO; -1: none fails */
static bool is_held, is_waiting;

static int test_sync(void *ctx, int fd)
{
	bool fails;

	pthread_mutex_lock(&mutex);
	is_waiting = is_held;
	pthread_cond_broadcast(&changed);
	while (is_held)
		pthread_cond_wait(&changed, &mutex);
	is_waiting = false;
	fails = syncs_left == 0;
	if (syncs_left > 0)
		syncs_left--;
	pthread_mutex_unlock(&mutex);
	return fails ? -EIO : pool_fs_system()->sync(ctx, fd);
}

static void hold_syncs(bool hold)
{
	pthread_mutex_lock(&mutex);
	is_held = hold;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void wait_for_held_sync(void)
{
	pthread_mutex_lock(&mutex);
	while (!is_waiting)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

/* ---- calls and their results; under the mutex ---- */

static struct call {
	int error; /* 1: not ended */
	int place; /* in the order of ends */
	char text[FAULT_TEXT_BYTES_MAX];
} results[CALLS_MAX];
static int started, ended;

static void note_end(void *ctx, const struct fathom_fault *why)
{
	struct call *call = ctx;

	must_be_on(thread_control());
	pthread_mutex_lock(&mutex);
	must(call->error == 1);
	call->error = why ? why->error : 0;
	call->place = ended++;
	snprintf(call->text, sizeof(call->text), "%s", why ? why->text : "");
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void note_closed(void *ctx)
{
	note_end(ctx, NULL);
}

static struct call *next_call(void)
{
	must(started < CALLS_MAX);
	results[started] = (struct call){ .error = 1 };
	return &results[started++];
}

/* Its error. */
static int wait_for(const struct call *call)
{
	int error;

	pthread_mutex_lock(&mutex);
	while (call->error == 1)
		pthread_cond_wait(&changed, &mutex);
	error = call->error;
	pthread_mutex_unlock(&mutex);
	return error;
}

/* ---- the storage; the functions named control_... run on the control thread ---- */

static struct volumes *volumes;

static int control_open(void *ctx)
{
	return volumes_open(&calls, root, note_end, ctx, &volumes);
}

static int control_close(void *ctx)
{
	volumes_close(volumes, note_closed, ctx);
	return 0;
}

static int control_remove_bdevs(void *ctx)
{
	struct bdev *bdev;

	while ((bdev = bdev_first()))
		must(bdev_unregister(bdev, NULL, NULL) == 0);
	return 0;
}

static int control_create_pool(void *ctx)
{
	struct pool_record record = { .name = "p", .overcommit = true };

	volumes_create_pool(volumes, &record, note_end, ctx);
	return 0;
}

static int control_create_volume(void *ctx)
{
	struct volume_record record = { .name = "a", .size_bytes = MIB };

	volumes_create(volumes, &(struct volume_key){ .pool = "p" }, &record, note_end, ctx);
	return 0;
}

static int control_get_info(void *ctx)
{
	volumes_get_info(volumes, ctx);
	return 0;
}

static int control_has_volume(void *ctx)
{
	return volumes_find(volumes, "p", "a") != NULL;
}

static struct volumes_info get_info(void)
{
	struct volumes_info info;

	(void)on_control(control_get_info, &info); /* returns 0 */
	return info;
}

static struct call *start_call(int (*fn)(void *ctx))
{
	struct call *call = next_call();

	assert_int_equal(on_control(fn, call), 0);
	return call;
}

static int begin(void **state)
{
	snprintf(root, sizeof(root), "/tmp/fathom-volumes-XXXXXX");
	must(mkdtemp(root));
	started = ended = 0;
	syncs_left = -1;
	calls = *pool_fs_system();
	calls.sync = test_sync;
	control_start(&(struct reactor_options){ 0 });
	assert_int_equal(wait_for(start_call(control_open)), 0);
	assert_int_equal(wait_for(start_call(control_create_pool)), 0);
	return 0;
}

static int end(void **state)
{
	char command[128];

	if (volumes)
		assert_int_equal(wait_for(start_call(control_close)), 0);
	volumes = NULL;
	(void)on_control(control_remove_bdevs, NULL); /* returns 0 */
	control_stop();
	snprintf(command, sizeof(command), "rm -rf %s", root);
	must(system(command) == 0);
	return 0;
}

/* ---- cases ---- */

static int control_create_and_destroy(void *ctx)
{
	must(control_create_volume(next_call()) == 0);
	volumes_destroy(volumes, &(struct volume_key){ .pool = "p", .volume = "a" }, false, note_end, next_call());
	must(control_create_volume(next_call()) == 0);
	return ended; /* no callback before the calls have returned */
}

static void changes_run_in_the_order_of_their_calls(void **state)
{
	assert_int_equal(on_control(control_create_and_destroy, NULL), 2);
	for (int i = 2; i < 5; i++)
		assert_int_equal(wait_for(&results[i]), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(results[i].place, i);
	assert_true(on_control(control_has_volume, NULL));
	assert_int_equal(get_info().changes_done, 4);
}

static void queries_are_answered_while_a_change_hangs(void **state)
{
	struct volumes_info info;
	struct call *hung, *waiting;

	hold_syncs(true);
	hung = start_call(control_create_volume);
	waiting = start_call(control_create_volume);
	wait_for_held_sync();
	info = get_info();
	assert_int_equal(info.state, STORAGE_OPEN);
	assert_true(info.is_changing);
	assert_int_equal(info.change, VOLUME_CHANGE_CREATE);
	assert_true(info.change_since_ns > 0 && info.change_since_ns <= clock_realtime_ns());
	assert_int_equal(info.changes_waiting, 1);
	assert_false(on_control(control_has_volume, NULL)); /* not before it is on disk */
	assert_int_equal(ended, 2);			    /* neither of the two */
	hold_syncs(false);
	assert_int_equal(wait_for(hung), 0);
	assert_int_equal(wait_for(waiting), 0); /* a repeated call */
	assert_true(on_control(control_has_volume, NULL));
}

static int control_open_and_close(void *ctx)
{
	struct call *opening = next_call();

	must(control_open(opening) == 0);
	return control_close(ctx);
}

static int control_destroy_volume(void *ctx)
{
	volumes_destroy(volumes, &(struct volume_key){ .pool = "p", .volume = "a" }, false, note_end, ctx);
	return 0;
}

static int control_claim(void *ctx)
{
	return bdev_claim(bdev_find("p/a"));
}

static int control_release(void *ctx)
{
	bdev_release(bdev_find("p/a"));
	return 0;
}

/* A namespace claims its device. Neither begins while the other is there. */
static void a_volume_is_not_used_while_it_is_destroyed(void **state)
{
	struct call *destroying;

	assert_int_equal(wait_for(start_call(control_create_volume)), 0);
	assert_int_equal(on_control(control_claim, NULL), 0);
	assert_int_equal(wait_for(start_call(control_destroy_volume)), -EBUSY);
	assert_int_equal(on_control(control_release, NULL), 0);
	hold_syncs(true);
	destroying = start_call(control_destroy_volume);
	wait_for_held_sync();
	assert_int_equal(on_control(control_claim, NULL), -EPERM);
	pthread_mutex_lock(&mutex);
	syncs_left = 0;
	pthread_mutex_unlock(&mutex);
	hold_syncs(false);
	assert_int_equal(wait_for(destroying), -EIO);
	assert_int_equal(on_control(control_claim, NULL), 0); /* undone */
	assert_int_equal(on_control(control_release, NULL), 0);
}

/* ---- resize ---- */

static int control_shrink(void *ctx)
{
	volumes_resize(volumes, &(struct volume_key){ .pool = "p", .volume = "a" }, MIB / 2, true, note_end, ctx);
	return 0;
}

static int control_block_count(void *ctx)
{
	return (int)bdev_block_count(bdev_find("p/a"));
}

static void write_data_at(off_t offset)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/pools/p/volumes/a/data.1", root);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "data", 4, offset), 4);
	close(fd);
}

static void a_volume_becomes_as_small_as_its_data(void **state)
{
	struct call *call;

	assert_int_equal(wait_for(start_call(control_create_volume)), 0);
	write_data_at(MIB / 2);
	call = start_call(control_shrink);
	assert_int_equal(wait_for(call), -EBUSY);
	assert_non_null(strstr(call->text, "has data up to 528384 bytes"));
	assert_int_equal(on_control(control_block_count, NULL), MIB / 4096);
}

static void a_shrink_that_fails_gives_the_device_its_length_back(void **state)
{
	struct call *call;

	assert_int_equal(wait_for(start_call(control_create_volume)), 0);
	write_data_at(0);
	hold_syncs(true);
	call = start_call(control_shrink);
	wait_for_held_sync(); /* of the record: I/O beyond the end is rejected by now */
	assert_int_equal(on_control(control_block_count, NULL), MIB / 2 / 4096);
	pthread_mutex_lock(&mutex);
	syncs_left = 0;
	pthread_mutex_unlock(&mutex);
	hold_syncs(false);
	assert_int_equal(wait_for(call), -EIO);
	assert_int_equal(on_control(control_block_count, NULL), MIB / 4096);
	syncs_left = -1;
	assert_int_equal(wait_for(start_call(control_shrink)), 0);
	assert_int_equal(on_control(control_block_count, NULL), MIB / 2 / 4096);
	assert_int_equal(wait_for(start_call(control_shrink)), 0); /* a repeated call */
}

static void a_shrink_that_the_disk_may_have_keeps_the_device_short(void **state)
{
	assert_int_equal(wait_for(start_call(control_create_volume)), 0);
	for (int succeed = 0; get_info().state == STORAGE_OPEN; succeed++) {
		syncs_left = succeed;
		assert_int_equal(wait_for(start_call(control_shrink)), -EIO);
	}
	assert_int_equal(on_control(control_block_count, NULL), MIB / 2 / 4096);
}

/* ---- rename ---- */

static int control_rename(void *ctx)
{
	volumes_rename(volumes, &(struct volume_key){ .pool = "p", .volume = "a" }, "b", note_end, ctx);
	return 0;
}

/* 0, or the error of the creation of a block device named as the volume will be. */
static int control_take_new_name(void *ctx)
{
	const struct null_options options = { .name = "p/b", .block_count = 1 };

	return null_create(&options, ctx);
}

static int control_check_renamed(void *ctx)
{
	const struct bdev *bdev = bdev_find("p/b");
	const struct volume *volume = volumes_find(volumes, "p", "b");

	return bdev && volume && !bdev_find("p/a") && !volumes_find(volumes, "p", "a") &&
	       strcmp(volume->device, "p/b") == 0;
}

static int control_release_renamed(void *ctx)
{
	bdev_release(bdev_find("p/b"));
	return 0;
}

static void a_volume_in_use_is_renamed_with_its_block_device(void **state)
{
	struct fathom_fault why;
	struct call *renaming;

	assert_int_equal(wait_for(start_call(control_create_volume)), 0);
	assert_int_equal(on_control(control_claim, NULL), 0);
	hold_syncs(true);
	renaming = start_call(control_rename);
	wait_for_held_sync();
	assert_int_equal(on_control(control_take_new_name, &why), -EEXIST);
	hold_syncs(false);
	assert_int_equal(wait_for(renaming), 0);
	assert_true(on_control(control_check_renamed, NULL));
	assert_int_equal(on_control(control_release_renamed, NULL), 0);
	assert_int_equal(wait_for(start_call(control_rename)), -ENOENT);
	assert_int_equal(wait_for(start_call(control_create_volume)), 0); /* the name is free */
	assert_int_equal(wait_for(start_call(control_rename)), -EEXIST);
}

static void another_device_keeps_the_name_that_a_volume_would_get(void **state)
{
	struct fathom_fault why;
	struct call *call;

	assert_int_equal(wait_for(start_call(control_create_volume)), 0);
	assert_int_equal(on_control(control_take_new_name, &why), 0);
	call = start_call(control_rename);
	assert_int_equal(wait_for(call), -EEXIST);
	assert_non_null(strstr(call->text, "another block device"));
	assert_true(on_control(control_has_volume, NULL));
}

static void a_rename_that_fails_gives_the_new_name_back(void **state)
{
	struct fathom_fault why;

	assert_int_equal(wait_for(start_call(control_create_volume)), 0);
	syncs_left = 0;
	assert_int_equal(wait_for(start_call(control_rename)), -EIO);
	assert_true(on_control(control_has_volume, NULL));
	assert_int_equal(on_control(control_take_new_name, &why), 0);
}

static void a_close_during_the_open_waits_for_it(void **state)
{
	struct call *closing;

	assert_int_equal(wait_for(start_call(control_close)), 0);
	closing = next_call();
	assert_int_equal(on_control(control_open_and_close, closing), 0);
	assert_int_equal(wait_for(closing), 0);
	volumes = NULL;
	assert_int_equal(results[started - 1].error, 0); /* the open */
	assert_int_equal(closing->place, started - 1);
}

static void a_close_fails_waiting_changes_and_waits_for_the_running_one(void **state)
{
	struct call *running, *waiting, *closing, *late;

	hold_syncs(true);
	running = start_call(control_create_volume);
	wait_for_held_sync();
	waiting = start_call(control_create_volume);
	closing = start_call(control_close);
	assert_int_equal(wait_for(waiting), -ESHUTDOWN);
	late = start_call(control_create_volume);
	assert_int_equal(closing->error, 1);
	hold_syncs(false);
	assert_int_equal(wait_for(closing), 0);
	volumes = NULL;
	assert_int_equal(running->error, 0);
	assert_int_equal(late->error, -ESHUTDOWN);
	assert_int_equal(closing->place, started - 1); /* last */
}

static void a_change_whose_files_cannot_be_synced_changes_nothing(void **state)
{
	syncs_left = 0; /* of the data file, before the rename */
	assert_int_equal(wait_for(start_call(control_create_volume)), -EIO);
	assert_false(on_control(control_has_volume, NULL));
	assert_int_equal(get_info().state, STORAGE_OPEN);
	assert_int_equal(get_info().changes_failed, 1);
	syncs_left = -1;
	assert_int_equal(wait_for(start_call(control_create_volume)), 0);
}

/* After the rename the state on disk is unknown: no later change is accepted. */
static void a_failed_sync_after_the_rename_makes_the_storage_reject_changes(void **state)
{
	struct call *call;
	int succeed = 0;

	for (; get_info().state == STORAGE_OPEN; succeed++) {
		syncs_left = succeed;
		assert_int_equal(wait_for(start_call(control_create_volume)), -EIO);
	}
	assert_int_equal(get_info().state, STORAGE_FAILED);
	assert_true(succeed > 2); /* syncs before the rename were tried, too */
	syncs_left = -1;
	call = start_call(control_create_volume);
	assert_int_equal(wait_for(call), -EROFS);
	assert_non_null(strstr(call->text, "restart the engine"));
	assert_int_equal(get_info().pools, 1); /* queries go on */
}

/* ---- hosts ---- */

static const struct volume_key key = { .pool = "p", .volume = "a" };
static char host[POOL_NQN_BYTES_MAX + 8];

static int control_publish(void *ctx)
{
	volumes_publish(volumes, &key, host, note_end, ctx);
	return 0;
}

static int control_unpublish(void *ctx)
{
	volumes_unpublish(volumes, &key, host, note_end, ctx);
	return 0;
}

static int control_count_hosts(void *ctx)
{
	const struct volume *volume = volumes_find(volumes, "p", "a");

	must(volume_has_host(volume, "nqn.2026-11.org.fathom:none") == false);
	return (int)volume->record.host_count;
}

static int count_hosts(void)
{
	return on_control(control_count_hosts, NULL);
}

static int publish(const char *nqn)
{
	snprintf(host, sizeof(host), "%s", nqn);
	return wait_for(start_call(control_publish));
}

static int unpublish(const char *nqn)
{
	snprintf(host, sizeof(host), "%s", nqn);
	return wait_for(start_call(control_unpublish));
}

/* Close and open again: what the storage says. */
static void reopen(void)
{
	assert_int_equal(wait_for(start_call(control_close)), 0);
	volumes = NULL;
	(void)on_control(control_remove_bdevs, NULL); /* returns 0 */
	assert_int_equal(wait_for(start_call(control_open)), 0);
}

static void a_host_is_published_when_its_record_is_on_disk(void **state)
{
	struct call *call;

	assert_int_equal(wait_for(start_call(control_create_volume)), 0);
	hold_syncs(true);
	snprintf(host, sizeof(host), "nqn.2026-11.org.fathom:a");
	call = start_call(control_publish);
	wait_for_held_sync();
	assert_int_equal(count_hosts(), 0);
	assert_int_equal(get_info().change, VOLUME_CHANGE_PUBLISH);
	hold_syncs(false);
	assert_int_equal(wait_for(call), 0);
	assert_int_equal(count_hosts(), 1);
	syncs_left = 0;
	assert_int_equal(publish("nqn.2026-11.org.fathom:b"), -EIO);
	assert_int_equal(unpublish("nqn.2026-11.org.fathom:a"), -EIO);
	syncs_left = -1;
	assert_int_equal(count_hosts(), 1);
	reopen();
	assert_int_equal(count_hosts(), 1);
	assert_int_equal(wait_for(start_call(control_destroy_volume)), -EBUSY); /* without force */
	assert_int_equal(unpublish("nqn.2026-11.org.fathom:a"), 0);
	reopen();
	assert_int_equal(count_hosts(), 0);
	assert_int_equal(wait_for(start_call(control_destroy_volume)), 0);
}

static void a_volume_has_a_limited_number_of_hosts(void **state)
{
	char nqn[POOL_NQN_BYTES_MAX + 8];

	assert_int_equal(publish("nqn.2026-11.org.fathom:a"), -ENOENT);
	assert_int_equal(wait_for(start_call(control_create_volume)), 0);
	for (int i = 0; i < POOL_VOLUME_HOSTS_MAX; i++) {
		must(snprintf(nqn, sizeof(nqn), "nqn.2026-11.org.fathom:%0200d", i) == POOL_NQN_BYTES_MAX - 1);
		assert_int_equal(publish(nqn), 0);
		started--; /* the place of its result */
	}
	assert_int_equal(publish(nqn), 0); /* repeated */
	assert_int_equal(publish("nqn.2026-11.org.fathom:a"), -ENOSPC);
	must(snprintf(nqn, sizeof(nqn), "nqn.2026-11.org.fathom:%0201d", 0) == POOL_NQN_BYTES_MAX);
	assert_int_equal(publish(nqn), -EINVAL);
	assert_int_equal(publish("nqn.2026-11.org.fathom: a"), -EINVAL);
	assert_int_equal(publish("nqn.2026-11.org.fathom:\xff"), -EINVAL);
	reopen();
	assert_int_equal(count_hosts(), POOL_VOLUME_HOSTS_MAX);
	assert_int_equal(unpublish("nqn.2026-11.org.fathom:a"), 0); /* is none */
	snprintf(nqn, sizeof(nqn), "nqn.2026-11.org.fathom:%0200d", 7);
	assert_int_equal(unpublish(nqn), 0);
	assert_int_equal(publish("nqn.2026-11.org.fathom:a"), 0);
	assert_int_equal(count_hosts(), POOL_VOLUME_HOSTS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(changes_run_in_the_order_of_their_calls, begin, end),
		cmocka_unit_test_setup_teardown(queries_are_answered_while_a_change_hangs, begin, end),
		cmocka_unit_test_setup_teardown(a_volume_is_not_used_while_it_is_destroyed, begin, end),
		cmocka_unit_test_setup_teardown(a_volume_becomes_as_small_as_its_data, begin, end),
		cmocka_unit_test_setup_teardown(a_shrink_that_fails_gives_the_device_its_length_back, begin, end),
		cmocka_unit_test_setup_teardown(a_shrink_that_the_disk_may_have_keeps_the_device_short, begin, end),
		cmocka_unit_test_setup_teardown(a_volume_in_use_is_renamed_with_its_block_device, begin, end),
		cmocka_unit_test_setup_teardown(another_device_keeps_the_name_that_a_volume_would_get, begin, end),
		cmocka_unit_test_setup_teardown(a_rename_that_fails_gives_the_new_name_back, begin, end),
		cmocka_unit_test_setup_teardown(a_close_during_the_open_waits_for_it, begin, end),
		cmocka_unit_test_setup_teardown(a_close_fails_waiting_changes_and_waits_for_the_running_one, begin, end),
		cmocka_unit_test_setup_teardown(a_change_whose_files_cannot_be_synced_changes_nothing, begin, end),
		cmocka_unit_test_setup_teardown(a_failed_sync_after_the_rename_makes_the_storage_reject_changes, begin,
						end),
		cmocka_unit_test_setup_teardown(a_host_is_published_when_its_record_is_on_disk, begin, end),
		cmocka_unit_test_setup_teardown(a_volume_has_a_limited_number_of_hosts, begin, end),
	};

	return cmocka_run_group_tests_name("volume volumes", tests, NULL, NULL);
}
