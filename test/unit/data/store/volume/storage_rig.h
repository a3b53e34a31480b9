/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * storage_rig - a storage with pool p, calls of its changes, and one host of volume p/a. A step of a copy is made by reads
 * and writes, or with SNAPSHOTS_ON_XFS, as root, by reflinks on an XFS image.
 */
#ifndef TEST_UNIT_DATA_STORE_VOLUME_STORAGE_RIG_H
#define TEST_UNIT_DATA_STORE_VOLUME_STORAGE_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/store/pool/fs.h"
#include "data/store/volume/snapshots.h"
#include "../../../control_thread.h"
#include "hanging_fs.h"
#include "xfs_image.h"

enum { CALLS_MAX = 32, MIB = 1 << 20 };

static char root[] = "/tmp/fathom-snapshots-XXXXXX";
static struct pool_fs calls;
static struct volumes *volumes;

/* ---- calls and their results; under the mutex ---- */

static struct call {
	int error; /* 1: not ended */
	char text[FAULT_TEXT_BYTES_MAX];
} results[CALLS_MAX];
static int started;

static void note_end(void *ctx, const struct fathom_fault *why)
{
	struct call *call = ctx;

	must_be_on(thread_control());
	pthread_mutex_lock(&mutex);
	must(call->error == 1);
	call->error = why ? why->error : 0;
	snprintf(call->text, sizeof(call->text), "%s", why ? why->text : "");
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void note_closed(void *ctx)
{
	note_end(ctx, NULL);
}

static struct call *start_call(int (*fn)(void *ctx))
{
	struct call *call;

	must(started < CALLS_MAX);
	call = &results[started++];
	*call = (struct call){ .error = 1 };
	assert_int_equal(on_control(fn, call), 0);
	return call;
}

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

static int run(int (*fn)(void *ctx))
{
	return wait_for(start_call(fn));
}

/* ---- on the control thread ---- */

static struct volume_key key = { .pool = "p", .volume = "a" };
static const char *snapshot = "s";
static bool is_thick, is_forced, has_checksums;
static enum volume_move made_as; /* of volumes that are created */
static struct snapshot_request group[3];
static uint32_t group_count;

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
	struct pool_record record = { .name = "p" };

	volumes_create_pool(volumes, &record, note_end, ctx);
	return 0;
}

static int control_create(void *ctx)
{
	struct volume_record record = {
		.size_bytes = 8 * MIB, .thick = is_thick, .checksums = has_checksums, .move = made_as
	};

	snprintf(record.name, sizeof(record.name), "%s", key.volume);
	volumes_create(volumes, &key, &record, note_end, ctx);
	return 0;
}

static inline int control_grow(void *ctx)
{
	volumes_resize(volumes, &key, 16 * MIB, false, note_end, ctx);
	return 0;
}

static int control_snapshot(void *ctx)
{
	struct snapshot_request request = { .key = key, .name = snapshot };

	volumes_snapshot(volumes, group_count ? group : &request, group_count ? group_count : 1, note_end, ctx);
	return 0;
}

static inline int control_restore(void *ctx)
{
	volumes_restore(volumes, &key, snapshot, is_forced, note_end, ctx);
	return 0;
}

/* ---- a block of a volume through its block device, as a host reads it ---- */

static struct {
	struct bdev_desc *desc;
	struct bdev_channel *channel;
	struct bdev_io io;
	struct iovec iov;
	enum io_status status;
	uint8_t block[4096] __attribute__((aligned(4096)));
} reading;

static void note_read(struct bdev_io *io, enum io_status status)
{
	pthread_mutex_lock(&mutex);
	reading.status = status;
	is_waiting = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static inline int control_use(void *ctx)
{
	must(bdev_open(ctx, NULL, NULL, &reading.desc) == 0);
	must(bdev_claim(bdev_desc_bdev(reading.desc)) == 0);
	reading.channel = bdev_channel_get(reading.desc);
	must(reading.channel);
	return 0;
}

static int control_read(void *ctx)
{
	bdev_io_init(&reading.io);
	reading.iov = (struct iovec){ reading.block, sizeof(reading.block) };
	bdev_read(&reading.io, reading.channel, &reading.iov, 1, 0, 1, reactor_now(), note_read);
	return 0;
}

static inline int control_unuse(void *ctx)
{
	bdev_channel_put(reading.channel);
	bdev_release(bdev_desc_bdev(reading.desc));
	bdev_close(reading.desc);
	return 0;
}

static inline void assert_read(const char *text)
{
	is_waiting = false;
	assert_int_equal(on_control(control_read, NULL), 0);
	wait_for_hung_step();
	assert_int_equal(reading.status, IO_SUCCESS);
	assert_memory_equal(reading.block, text, strlen(text));
}

static inline void create_volume(const char *name)
{
	key.volume = name;
	assert_int_equal(run(control_create), 0);
}

static int begin(void **state)
{
	char command[128];

	started = 0;
	key = (struct volume_key){ .pool = "p", .volume = "a" };
	snapshot = "s";
	is_thick = is_forced = has_checksums = is_hung = has_no_reflinks = false;
	made_as = VOLUME_MOVE_NONE;
	group_count = 0;
	free_bytes = 0;
	calls = *pool_fs_system();
	calls.clone = test_clone;
	calls.space = test_space;
	calls.sync = test_sync;
	hangs_sync = has_cloned = false;
	syncs_passed = sync_error = 0;
	snprintf(command, sizeof(command), "rm -rf %s/*", root);
	must(system(command) == 0);
	control_start(&(struct reactor_options){ 0 });
	assert_int_equal(run(control_open), 0);
	assert_int_equal(run(control_create_pool), 0);
	return 0;
}

static void close_storage(void)
{
	assert_int_equal(run(control_close), 0);
	volumes = NULL;
	(void)on_control(control_remove_bdevs, NULL); /* returns 0 */
}

static int end(void **state)
{
	hang_sync_no_more(); /* also after an assertion */
	hang_steps(false);
	hang_space(false);
	if (volumes)
		close_storage();
	control_stop();
	return 0;
}

static inline int control_count_blocks(void *ctx)
{
	return (int)bdev_block_count(bdev_find("p/a"));
}

static inline int control_is_held(void *ctx)
{
	return bdev_find("p/a")->hold != NULL;
}

static inline void write_data(const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/pools/p/volumes/a/data.1", root);
	file = fopen(path, "r+");
	must(file);
	must(fputs(text, file) >= 0);
	must(fclose(file) == 0);
}

/* ---- the folder of all cases ---- */

static bool has_mount;

/* False: XFS is asked for by SNAPSHOTS_ON_XFS, and cannot be mounted here. */
static bool storage_begin(void)
{
	must(mkdtemp(root));
	by_reflink = getenv("SNAPSHOTS_ON_XFS");
	has_mount = by_reflink && xfs_mount(root);
	if (by_reflink && !has_mount)
		printf("1..0 # SKIP no XFS image can be mounted here\n");
	return has_mount || !by_reflink;
}

static void storage_end(void)
{
	char command[128];

	if (has_mount)
		must(umount2(root, MNT_DETACH) == 0);
	snprintf(command, sizeof(command), "rm -rf %s %s.img", root, root);
	must(system(command) == 0);
}

#endif
