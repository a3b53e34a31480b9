/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A planned stop removes the marks of regions with checksums: only after data and sums are on the disk, and durably. The
 * linker sends the writes and syncs of a volume here. They are recorded while the volume is written and then closed, and
 * made again in a memory_fs with a power cut at each: a region without a mark has data that fit their sums, and after the
 * stop no region has a mark. Each missing sync of the stop, and a removal at a wrong place, is found.
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/pool/fs.h"
#include "data/store/pool/sums.h"
#include "data/store/volume/volumes.h"
#include "../../../control_thread.h"
#include "../pool/memory_fs.h"

enum { PAGE = 4096, BLOCKS = 16, CALLS_MAX = 64, DATA = 0, SUMS = 1, STOP_CALLS = 5 };

static char root[] = "/dev/shm/fathom-stop-XXXXXX"; /* tmpfs: a sync takes no time */

/* ---- recorded calls ---- */

struct call {
	bool is_sync;
	int file;
	uint64_t offset;
	size_t bytes;
	uint8_t *data; /* of a write */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* helpers write, and the control thread */
static ino_t inodes[2];					  /* 0: not recorded */
static struct call calls[CALLS_MAX];
static uint32_t call_count, stop_begin;

/* -1: another file. */
static int file_of(int fd)
{
	struct stat stat;

	must(fstat(fd, &stat) == 0);
	for (int i = 0; i < 2; i++)
		if (inodes[i] != 0 && stat.st_ino == inodes[i])
			return i;
	return -1;
}

/* NULL: another file. The mutex is held until end_call(). */
static struct call *begin_call(int fd)
{
	int file = file_of(fd);
	struct call *call;

	if (file < 0)
		return NULL;
	must(pthread_mutex_lock(&mutex) == 0);
	must(call_count < CALLS_MAX);
	call = &calls[call_count++];
	*call = (struct call){ .file = file };
	return call;
}

static void end_call(void)
{
	must(pthread_mutex_unlock(&mutex) == 0);
}

static void note_write(int fd, const struct iovec *iov, int count, off64_t offset, ssize_t written)
{
	struct call *call = written > 0 ? begin_call(fd) : NULL;
	size_t done = 0;

	if (!call)
		return;
	call->offset = (uint64_t)offset;
	call->bytes = (size_t)written;
	call->data = malloc(call->bytes);
	must(call->data);
	for (int i = 0; i < count && done < call->bytes; i++) {
		size_t part = MIN(iov[i].iov_len, call->bytes - done);

		memcpy(call->data + done, iov[i].iov_base, part);
		done += part;
	}
	must(done == call->bytes);
	end_call();
}

ssize_t __real_pwritev64v2(int fd, const struct iovec *iov, int count, off64_t offset, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off64_t offset, int flags);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off64_t offset, int flags)
{
	ssize_t written = __real_pwritev64v2(fd, iov, count, offset, flags);

	note_write(fd, iov, count, offset, written);
	return written;
}

int __wrap_fdatasync(int fd)
{
	struct call *call = begin_call(fd);

	if (call) {
		call->is_sync = true;
		end_call();
	}
	return __real_fdatasync(fd);
}

/* ---- a volume that is written, and closed by a planned stop ---- */

static struct volumes *volumes;
static struct pool_fs fs_calls;

static void note_end(void *ctx, const struct fathom_fault *why)
{
	must(!why);
	sem_post(ctx);
}

static void note_closed(void *ctx)
{
	sem_post(ctx);
}

static int control_open(void *ctx)
{
	return volumes_open(&fs_calls, root, note_end, ctx, &volumes);
}

static int control_create_pool(void *ctx)
{
	volumes_create_pool(volumes, &(struct pool_record){ .name = "p", .overcommit = true }, note_end, ctx);
	return 0;
}

static int control_create(void *ctx)
{
	const struct volume_key key = { .pool = "p", .volume = "a" };
	struct volume_record record = { .name = "a", .size_bytes = BLOCKS * PAGE, .checksums = true };

	volumes_create(volumes, &key, &record, note_end, ctx);
	return 0;
}

/* Only the stop removes marks. */
static int control_keep_marks(void *ctx)
{
	volumes_find(volumes, "p", "a")->scrub.clean_ns = UINT64_MAX;
	return 0;
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

static struct {
	struct bdev_desc *desc;
	struct bdev_channel *channel;
	struct bdev_io io;
	struct iovec iov;
	uint64_t block;
	enum io_status status;
	sem_t done;
	uint8_t memory[PAGE] __attribute__((aligned(4096)));
} user;

static void note_io(struct bdev_io *io, enum io_status status)
{
	user.status = status;
	sem_post(&user.done);
}

static int control_write(void *ctx)
{
	must(bdev_open("p/a", NULL, NULL, &user.desc) == 0);
	user.channel = bdev_channel_get(user.desc);
	must(user.channel);
	bdev_io_init(&user.io);
	user.iov = (struct iovec){ user.memory, PAGE };
	bdev_write(&user.io, user.channel, &user.iov, 1, user.block, 1, reactor_now(), note_io);
	return 0;
}

static int control_end_write(void *ctx)
{
	bdev_channel_put(user.channel);
	bdev_close(user.desc);
	return 0;
}

static void wait_for(sem_t *done)
{
	while (sem_wait(done))
		;
}

static void run(int (*fn)(void *ctx))
{
	sem_t done;

	sem_init(&done, 0, 0);
	must(on_control(fn, &done) == 0);
	wait_for(&done);
	sem_destroy(&done);
}

static void write_block(uint64_t block, uint8_t value)
{
	user.block = block;
	memset(user.memory, value, PAGE);
	must(on_control(control_write, NULL) == 0);
	wait_for(&user.done);
	must(user.status == IO_SUCCESS);
	must(on_control(control_end_write, NULL) == 0);
}

static void begin_recording(void)
{
	static const char *const names[] = { [DATA] = "data.1", [SUMS] = "sums.1" };

	for (int i = 0; i < 2; i++) {
		char path[sizeof(root) + 64];
		struct stat stat_of;

		snprintf(path, sizeof(path), "%s/pools/p/volumes/a/%s", root, names[i]);
		must(stat(path, &stat_of) == 0);
		inodes[i] = stat_of.st_ino;
	}
}

static uint32_t calls_so_far(void)
{
	uint32_t count;

	must(pthread_mutex_lock(&mutex) == 0);
	count = call_count;
	must(pthread_mutex_unlock(&mutex) == 0);
	return count;
}

static int record_stop(void **state)
{
	must(mkdtemp(root));
	must(setenv("FATHOM_NO_URING", "1", 1) == 0); /* so that writes and syncs are calls */
	control_start(&(struct reactor_options){ 0 });
	must(unsetenv("FATHOM_NO_URING") == 0);
	fs_calls = *pool_fs_system();
	sem_init(&user.done, 0, 0);
	run(control_open);
	run(control_create_pool);
	run(control_create);
	must(on_control(control_keep_marks, NULL) == 0);
	begin_recording();
	write_block(3, 0x33);
	write_block(9, 0x99);
	write_block(3, 0x44);
	stop_begin = calls_so_far();
	run(control_close);
	must(on_control(control_remove_bdevs, NULL) == 0);
	control_stop();
	sem_destroy(&user.done);
	return 0;
}

static int forget_stop(void **state)
{
	char command[sizeof(root) + 16];

	while (call_count > 0)
		free(calls[--call_count].data);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

/* ---- made again, with power cuts ---- */

struct playing {
	struct memory_fs *memory;
	int fds[2];
	bool is_over; /* no region may have a mark, and the last data are there */
	bool is_wrong;
	uint32_t cuts;
};

static int open_in(struct memory_fs *memory, int file, int flags)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	int folder = fs->open_folder(fs->ctx, AT_FDCWD, "/");
	int fd = fs->open_file(fs->ctx, folder, file == DATA ? "data" : "sums", flags);

	fs->close(fs->ctx, folder);
	must(fd >= 0);
	return fd;
}

/* Whether all data fit their sums. */
static bool all_fit(struct memory_fs *memory, int data, int sums)
{
	for (uint64_t block = 0; block < BLOCKS; block++) {
		uint8_t bytes[PAGE];
		uint32_t kept;

		memory_fs_read(memory, data, block * PAGE, bytes, PAGE);
		memory_fs_read(memory, sums, sums_offset(block), &kept, sizeof(kept));
		if (!sums_fit(sums_final(sums_update(SUMS_INIT, bytes, PAGE)), kept))
			return false;
	}
	return true;
}

static bool has_byte(struct memory_fs *memory, int data, uint64_t block, uint8_t value)
{
	uint8_t byte;

	memory_fs_read(memory, data, block * PAGE, &byte, 1);
	return byte == value;
}

static void check_crashed(void *ctx, struct memory_fs *crashed)
{
	struct playing *playing = ctx;
	const struct pool_fs *fs = memory_fs_calls(crashed);
	int data = open_in(crashed, DATA, O_RDONLY), sums = open_in(crashed, SUMS, O_RDONLY);
	uint8_t marks;

	playing->cuts++;
	memory_fs_read(crashed, sums, 0, &marks, 1);
	if (marks == 0 && !all_fit(crashed, data, sums))
		playing->is_wrong = true;
	if (playing->is_over && (marks != 0 || !has_byte(crashed, data, 3, 0x44) || !has_byte(crashed, data, 9, 0x99)))
		playing->is_wrong = true;
	fs->close(fs->ctx, data);
	fs->close(fs->ctx, sums);
}

static void cut_power(void *ctx)
{
	struct playing *playing = ctx;

	memory_fs_each_crash(playing->memory, check_crashed, playing);
}

/* Whether a rule is broken if the calls come in this order; UINT32_MAX: this one is missing. */
static bool is_broken(const uint32_t *order, uint32_t *cuts_ret)
{
	struct playing playing = { .memory = memory_fs_create() };
	const struct pool_fs *fs = memory_fs_calls(playing.memory);

	for (int file = 0; file < 2; file++) {
		playing.fds[file] = open_in(playing.memory, file, O_RDWR | O_CREAT | O_EXCL);
		must(fs->set_size(fs->ctx, playing.fds[file],
				  file == DATA ? BLOCKS * PAGE : sums_file_bytes(BLOCKS * PAGE)) == 0);
	}
	memory_fs_settle(playing.memory);
	for (uint32_t i = 0; i < call_count; i++) {
		const struct call *call = order[i] == UINT32_MAX ? NULL : &calls[order[i]];

		cut_power(&playing);
		if (call && call->is_sync)
			must(fs->sync(fs->ctx, playing.fds[call->file]) == 0);
		else if (call)
			memory_fs_write(playing.memory, playing.fds[call->file], call->offset, call->data, call->bytes);
	}
	playing.is_over = true;
	cut_power(&playing);
	for (int file = 0; file < 2; file++)
		fs->close(fs->ctx, playing.fds[file]);
	memory_fs_destroy(playing.memory);
	*cuts_ret = playing.cuts;
	return playing.is_wrong;
}

static void as_recorded(uint32_t *order)
{
	for (uint32_t i = 0; i < call_count; i++)
		order[i] = i;
}

/* ---- tests ---- */

/* The calls of the stop, as places behind stop_begin. The second sync of the data is not needed: nothing was written. */
enum { STOP_SYNC_DATA, STOP_SYNC_SUMS, STOP_REMOVE, STOP_SYNC_DATA_AGAIN, STOP_SYNC_REMOVAL };

static void a_power_cut_leaves_no_region_without_a_mark_that_does_not_fit(void **state)
{
	uint32_t order[CALLS_MAX], cuts;

	for (uint32_t i = stop_begin; i < call_count; i++)
		print_message("# %s of %s\n", calls[i].is_sync ? "sync" : "write", calls[i].file == DATA ? "data" : "sums");
	assert_int_equal(call_count - stop_begin, STOP_CALLS);
	assert_false(calls[stop_begin + STOP_REMOVE].is_sync);
	assert_int_equal(calls[stop_begin + STOP_REMOVE].file, SUMS);
	assert_int_equal(calls[stop_begin + STOP_REMOVE].offset, 0);
	as_recorded(order);
	assert_false(is_broken(order, &cuts));
	assert_true(cuts > call_count);
}

static void each_missing_call_of_the_stop_is_found(void **state)
{
	for (uint32_t i = 0; i < STOP_CALLS; i++) {
		uint32_t order[CALLS_MAX], cuts;

		as_recorded(order);
		order[stop_begin + i] = UINT32_MAX;
		if (is_broken(order, &cuts) != (i != STOP_SYNC_DATA_AGAIN))
			fail_msg("call %u of the stop is missing", i);
	}
}

/* The removal of the marks at each other place among the syncs. */
static void a_removal_at_a_wrong_place_is_found(void **state)
{
	for (uint32_t place = 0; place < STOP_CALLS; place++) {
		uint32_t order[CALLS_MAX], cuts, *stop = order + stop_begin;

		as_recorded(order);
		for (uint32_t i = 0, from = 0; i < STOP_CALLS; i++) {
			from += from == STOP_REMOVE;
			stop[i] = stop_begin + (i == place ? STOP_REMOVE : from++);
		}
		if (is_broken(order, &cuts) != (place != STOP_REMOVE && place != STOP_SYNC_DATA_AGAIN))
			fail_msg("the marks are removed at place %u", place);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_power_cut_leaves_no_region_without_a_mark_that_does_not_fit),
		cmocka_unit_test(each_missing_call_of_the_stop_is_found),
		cmocka_unit_test(a_removal_at_a_wrong_place_is_found),
	};

	return cmocka_run_group_tests_name("volume stop_marks", tests, record_stop, forget_stop);
}
