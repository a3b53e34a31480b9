/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Volumes with checksums in a storage: what creates them, snapshots, clones, restored and resized ones, and what the
 * background reads find. Steps of copies are reads and writes, or with SNAPSHOTS_ON_XFS, as root, reflinks on an XFS image.
 * fdatasync() can hang, and the clock can be advanced: the linker sends the calls here.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/pool/fs.h"
#include "data/store/pool/sums.h"
#include "data/store/volume/snapshots.h"
#include "../../../control_thread.h"
#include "../../../hanging_call.h"
#include "copy_bytes.h"
#include "xfs_image.h"

enum { CALLS_MAX = 64, MIB = 1 << 20, PAGE = 4096, WAIT_SEC = 60 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool by_reflink; /* constant */
static char root[] = "/tmp/fathom-scrub-XXXXXX";
static struct pool_fs calls;
static struct volumes *volumes;

static struct hang hanging_sync;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
	hang_if_file_chosen(&hanging_sync, fd);
	return __real_fdatasync(fd);
}

static uint64_t passed_ns; /* atomic */

uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);

uint64_t __wrap_clock_monotonic_ns(void)
{
	return __real_clock_monotonic_ns() + __atomic_load_n(&passed_ns, __ATOMIC_RELAXED);
}

static int test_clone(void *ctx, int fd, int from, uint64_t offset, uint64_t bytes)
{
	return by_reflink ? pool_fs_system()->clone(ctx, fd, from, offset, bytes) : copy_bytes(fd, from, offset, bytes);
}

/* ---- calls and their results; under the mutex ---- */

static struct call {
	int error; /* 1: not ended */
	char text[FAULT_TEXT_BYTES_MAX];
} results[CALLS_MAX];
static int started;

static void note_end(void *ctx, const struct fathom_fault *why)
{
	struct call *call = ctx;

	pthread_mutex_lock(&mutex);
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

static bool has_ended(const struct call *call)
{
	bool ended;

	pthread_mutex_lock(&mutex);
	ended = call->error != 1;
	pthread_mutex_unlock(&mutex);
	return ended;
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

static const char *last_text(void)
{
	return results[started - 1].text;
}

/* ---- on the control thread ---- */

static struct volume_key key = { .pool = "p", .volume = "a" };
static struct volume_record record;
static uint64_t new_size;

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
	struct pool_record pool = { .name = "p", .overcommit = true };

	volumes_create_pool(volumes, &pool, note_end, ctx);
	return 0;
}

static int control_create(void *ctx)
{
	volumes_create(volumes, &key, &record, note_end, ctx);
	return 0;
}

static int control_resize(void *ctx)
{
	volumes_resize(volumes, &key, new_size, true, note_end, ctx);
	return 0;
}

static int control_snapshot(void *ctx)
{
	struct snapshot_request request = { .key = key, .name = "s" };

	volumes_snapshot(volumes, &request, 1, note_end, ctx);
	return 0;
}

static int control_clone(void *ctx)
{
	struct volume_record clone = { .name = "clone" };

	volumes_clone(volumes, &key, "s", &clone, note_end, ctx);
	return 0;
}

static int control_restore(void *ctx)
{
	volumes_restore(volumes, &key, "s", true, note_end, ctx);
	return 0;
}

static int control_destroy(void *ctx)
{
	volumes_destroy(volumes, &key, true, note_end, ctx);
	return 0;
}

/* ---- I/O, as a host does it ---- */

static struct {
	const char *device;
	struct bdev_desc *desc;
	struct bdev_channel *channel;
	struct bdev_io io;
	struct iovec iov;
	enum io_type type;
	enum io_status status;
	uint64_t block;
	bool is_done;
	uint8_t memory[PAGE] __attribute__((aligned(4096)));
} user;

static int control_end_io(void *ctx)
{
	bdev_channel_put(user.channel);
	bdev_close(user.desc);
	return 0;
}

static void note_io(struct bdev_io *io, enum io_status status)
{
	pthread_mutex_lock(&mutex);
	user.status = status;
	user.is_done = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static int control_io(void *ctx)
{
	must(bdev_open(user.device, NULL, NULL, &user.desc) == 0);
	user.channel = bdev_channel_get(user.desc);
	must(user.channel);
	bdev_io_init(&user.io);
	user.iov = (struct iovec){ user.memory, PAGE };
	if (user.type == IO_TYPE_READ)
		bdev_read(&user.io, user.channel, &user.iov, 1, user.block, 1, reactor_now(), note_io);
	else
		bdev_write(&user.io, user.channel, &user.iov, 1, user.block, 1, reactor_now(), note_io);
	return 0;
}

static enum io_status do_io(const char *device, enum io_type type, uint64_t block)
{
	user.device = device;
	user.type = type;
	user.block = block;
	user.is_done = false;
	(void)on_control(control_io, NULL); /* returns 0 */
	pthread_mutex_lock(&mutex);
	while (!user.is_done)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	(void)on_control(control_end_io, NULL); /* returns 0 */
	return user.status;
}

static void write_block(uint64_t block, uint8_t value)
{
	memset(user.memory, value, PAGE);
	assert_int_equal(do_io("p/a", IO_TYPE_WRITE, block), IO_SUCCESS);
}

static void assert_block(const char *device, uint64_t block, uint8_t value)
{
	assert_int_equal(do_io(device, IO_TYPE_READ, block), IO_SUCCESS);
	assert_int_equal(user.memory[0], value);
	assert_int_equal(user.memory[PAGE - 1], value);
}

/* ---- what the files have, and the background reads ---- */

static void flip_byte(const char *file, uint64_t offset)
{
	char path[160];
	uint8_t byte;
	int fd;

	snprintf(path, sizeof(path), "%s/pools/p/volumes/%s", root, file);
	fd = open(path, O_RDWR);
	must(fd >= 0 && pread(fd, &byte, 1, (off_t)offset) == 1);
	byte ^= 1;
	must(pwrite(fd, &byte, 1, (off_t)offset) == 1 && fsync(fd) == 0 && close(fd) == 0);
}

static int control_get_sums(void *ctx)
{
	file_get_sums(bdev_find(user.device), ctx);
	return 0;
}

static struct file_sums_info sums_of(const char *device)
{
	struct file_sums_info info;

	user.device = device;
	(void)on_control(control_get_sums, &info); /* returns 0 */
	return info;
}

/* Wait until all regions are trusted, and no region has a mark. */
static void wait_until_clean(const char *device)
{
	struct file_sums_info info = sums_of(device);

	for (uint64_t end_ns = clock_monotonic_ns() + WAIT_SEC * NS_PER_SEC; info.marked > 0 || info.suspect > 0;) {
		assert_true(clock_monotonic_ns() < end_ns);
		usleep(50000);
		info = sums_of(device);
	}
	assert_int_equal(info.mismatches, 0);
}

static int control_start_scrub(void *ctx)
{
	volumes_set_scrub_rate(volumes, 1 << 30);
	return volumes_start_scrub(volumes_find(volumes, "p", ctx));
}

static int control_has_scrubbed(void *ctx)
{
	const struct volume *volume = volumes_find(volumes, "p", ctx);

	return !volume->scrub.is_wanted && volume->scrub.ended_ns > 0;
}

static int control_take(void *ctx)
{
	return (int)file_take_mismatches(bdev_find(user.device), ctx);
}

static int control_count_going(void *ctx)
{
	return (int)bdev_going_count();
}

/* `count`: block devices that have not gone yet. */
static void wait_until_going(int count)
{
	for (uint64_t end_ns = clock_monotonic_ns() + WAIT_SEC * NS_PER_SEC;
	     on_control(control_count_going, NULL) != count;) {
		assert_true(clock_monotonic_ns() < end_ns);
		usleep(10000);
	}
}

static int control_hung_is_a(void *ctx)
{
	const struct bdev_going *going = bdev_going_next(NULL);

	return going && strcmp(going->name, "p/a") == 0;
}

static int begin(void **state)
{
	char command[128];

	started = 0;
	key = (struct volume_key){ .pool = "p", .volume = "a" };
	record = (struct volume_record){ .name = "a", .size_bytes = 20 * MIB, .checksums = true };
	calls = *pool_fs_system();
	calls.clone = test_clone;
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
	hang_call(&hanging_sync, NULL); /* also after an assertion */
	if (volumes)
		close_storage();
	control_stop();
	return 0;
}

/* Each flush calls fdatasync(). */
static int begin_without_uring(void **state)
{
	int error;

	must(setenv("FATHOM_NO_URING", "1", 1) == 0);
	error = begin(state);
	must(unsetenv("FATHOM_NO_URING") == 0);
	return error;
}

static void restart(void)
{
	close_storage();
	assert_int_equal(run(control_open), 0);
}

/* ---- cases ---- */

static void damage_is_found_by_reads_and_by_the_scrub(void **state)
{
	uint64_t blocks[FILE_MISMATCHES_MAX];

	assert_int_equal(run(control_create), 0);
	assert_int_equal(run(control_create), 0); /* repeated */
	write_block(3, 0x33);
	write_block(4500, 0x45); /* another region */
	wait_until_clean("p/a");
	restart();
	assert_int_equal(sums_of("p/a").suspect, 0); /* it was clean */
	assert_block("p/a", 3, 0x33);
	flip_byte("a/data.1", 3 * PAGE + 100);
	assert_int_equal(do_io("p/a", IO_TYPE_READ, 3), IO_MEDIA_ERROR);
	flip_byte("a/data.1", 4500 * PAGE);
	assert_true(on_control(control_start_scrub, (void *)"a"));
	for (uint64_t end_ns = clock_monotonic_ns() + WAIT_SEC * NS_PER_SEC;
	     !on_control(control_has_scrubbed, (void *)"a");) {
		assert_true(clock_monotonic_ns() < end_ns);
		usleep(50000);
	}
	user.device = "p/a";
	assert_int_equal(on_control(control_take, blocks), 2);
	assert_int_equal(blocks[0], 3);
	assert_int_equal(blocks[1], 4500);
}

/* A region that was written has a mark. A planned stop removes it, as no write is in progress. */
static void after_a_stop_no_region_is_suspect(void **state)
{
	assert_int_equal(run(control_create), 0);
	write_block(3, 0x33);
	write_block(4500, 0x45);
	restart();
	assert_int_equal(sums_of("p/a").suspect, 0);
	assert_int_equal(sums_of("p/a").marked, 0);
	assert_block("p/a", 3, 0x33);
	assert_block("p/a", 4500, 0x45);
	flip_byte("a/data.1", 3 * PAGE + 100);
	assert_int_equal(do_io("p/a", IO_TYPE_READ, 3), IO_MEDIA_ERROR); /* trusted: it is no torn write */
}

/* The disk of p/a hangs for ever in the last flush: p/b is clean, and the storage is closed in bounded time. */
static void a_flush_that_hangs_at_a_stop_keeps_no_other_volume_from_its_clean_stop(void **state)
{
	struct call *closing;

	assert_int_equal(run(control_create), 0);
	key.volume = "b";
	snprintf(record.name, sizeof(record.name), "b");
	assert_int_equal(run(control_create), 0);
	memset(user.memory, 0x33, PAGE);
	hang_call(&hanging_sync, "/a/data.1");
	assert_int_equal(do_io("p/a", IO_TYPE_WRITE, 3), IO_SUCCESS);
	assert_int_equal(do_io("p/b", IO_TYPE_WRITE, 3), IO_SUCCESS);
	closing = start_call(control_close);
	wait_for_hung_calls(&hanging_sync, 1);
	wait_until_clean("p/b");
	assert_false(has_ended(closing));
	__atomic_fetch_add(&passed_ns, 3600 * NS_PER_SEC, __ATOMIC_RELAXED);
	assert_int_equal(wait_for(closing), 0);
	volumes = NULL;
	(void)on_control(control_remove_bdevs, NULL); /* returns 0 */
	wait_until_going(1);
	assert_true(on_control(control_hung_is_a, NULL));
	hang_call(&hanging_sync, NULL);
	wait_until_going(0);
	assert_int_equal(run(control_open), 0);
	assert_int_equal(sums_of("p/b").suspect, 0);
	assert_block("p/b", 3, 0x33);
	assert_block("p/a", 3, 0x33);
}

static void a_snapshot_its_clone_and_a_restored_volume_have_the_checksums(void **state)
{
	assert_int_equal(run(control_create), 0);
	write_block(3, 0x33);
	assert_int_equal(sums_of("p/a").marked, 1);
	assert_int_equal(run(control_snapshot), 0);
	write_block(3, 0x44);
	write_block(9, 0x99);
	assert_int_equal(run(control_clone), 0);
	assert_int_equal(sums_of("p/clone").suspect, 0); /* no write was in progress at the instant */
	assert_block("p/clone", 3, 0x33);
	assert_block("p/clone", 9, 0);
	new_size = 40 * MIB;
	assert_int_equal(run(control_resize), 0);
	write_block(8000, 0x80);
	assert_int_equal(run(control_restore), 0);
	assert_block("p/a", 3, 0x33);
	assert_block("p/a", 9, 0);
	assert_int_equal(do_io("p/a", IO_TYPE_READ, 8000), IO_INVALID); /* it has the size of the snapshot */
	assert_int_equal(run(control_resize), 0);
	assert_block("p/a", 8000, 0);
	wait_until_clean("p/a");
	wait_until_clean("p/clone");
	restart();
	assert_block("p/a", 3, 0x33);
	assert_block("p/clone", 3, 0x33);
	flip_byte("a/data.2", 3 * PAGE);
	flip_byte("clone/data.1", 9 * PAGE);
	assert_int_equal(do_io("p/a", IO_TYPE_READ, 3), IO_MEDIA_ERROR);
	assert_int_equal(do_io("p/clone", IO_TYPE_READ, 9), IO_MEDIA_ERROR);
	assert_int_equal(run(control_destroy), 0);
}

static void a_resized_volume_has_checksums_for_its_blocks(void **state)
{
	record.thick = true;
	assert_int_equal(run(control_create), 0);
	write_block(10, 1);
	write_block(5119, 2); /* the last one */
	memset(user.memory, 0, PAGE);
	write_block(5119, 0);
	new_size = 19 * MIB + PAGE;
	/* its last block is allocated: only a thin volume can be made smaller */
	assert_int_equal(run(control_resize), -EBUSY);
	new_size = 200 * MIB;
	assert_int_equal(run(control_resize), 0);
	assert_block("p/a", 51199, 0);
	write_block(51199, 5);
	assert_block("p/a", 51199, 5);
	restart();
	assert_block("p/a", 51199, 5);
	assert_block("p/a", 10, 1);
}

static void blocks_beyond_a_cut_are_zeroes_after_a_growth(void **state)
{
	struct volume_record small = { .name = "a", .size_bytes = 4 * MIB, .checksums = true };

	record = small;
	assert_int_equal(run(control_create), 0);
	write_block(2, 7);
	/* as a change of the size leaves it that a crash has interrupted: old checksums behind the end */
	flip_byte("a/sums.1", sums_end(4 * MIB) + 3);
	restart();
	new_size = 8 * MIB;
	assert_int_equal(run(control_resize), 0);
	assert_block("p/a", 1024, 0);
	assert_block("p/a", 2, 7);
}

static void what_checksums_cannot_have_is_refused(void **state)
{
	record.block_bytes = 512;
	assert_int_equal(run(control_create), -EINVAL);
	assert_string_equal(last_text(), "a volume with checksums has blocks of 4096 bytes, not 512");
	record.block_bytes = PAGE;
	record.size_bytes = SUMS_VOLUME_BYTES_MAX + PAGE;
	assert_int_equal(run(control_create), -EINVAL);
	record.size_bytes = MIB;
	assert_int_equal(run(control_create), 0);
	record.checksums = false;
	assert_int_equal(run(control_create), -EEXIST);
	assert_string_equal(last_text(), "volume p/a exists with checksums");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(damage_is_found_by_reads_and_by_the_scrub),
		CASE(after_a_stop_no_region_is_suspect),
		cmocka_unit_test_setup_teardown(a_flush_that_hangs_at_a_stop_keeps_no_other_volume_from_its_clean_stop,
						begin_without_uring, end),
		CASE(a_snapshot_its_clone_and_a_restored_volume_have_the_checksums),
		CASE(a_resized_volume_has_checksums_for_its_blocks),
		CASE(blocks_beyond_a_cut_are_zeroes_after_a_growth),
		CASE(what_checksums_cannot_have_is_refused),
	};
	char command[128];
	int failed;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	must(mkdtemp(root));
	by_reflink = getenv("SNAPSHOTS_ON_XFS");
	if (by_reflink && !xfs_mount(root)) {
		printf("1..0 # SKIP no XFS image can be mounted here\n");
		failed = 0;
	} else {
		failed = cmocka_run_group_tests(tests, NULL, NULL);
		if (by_reflink)
			must(umount2(root, MNT_DETACH) == 0);
	}
	snprintf(command, sizeof(command), "rm -rf %s %s.img", root, root);
	must(system(command) == 0);
	return failed;
}
