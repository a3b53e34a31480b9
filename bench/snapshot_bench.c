/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * snapshot_bench - how long writes wait while a volume is copied for a snapshot, against the number of its extents. Writes
 * of 4 KiB to random places, 16 at a time, on one data reactor; reads in the same way. The longest of each is reported,
 * before the copy and during it. It needs root: it mounts an XFS image on a loop device. One JSON line a case.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/random.h"
#include "data/store/backend/backend.h"
#include "data/store/volume/barrier.h"
#include "../test/unit/control_thread.h"

enum { BLOCK_BYTES = 4096, DEPTH = 16, STRIDE_BYTES = 2 * BLOCK_BYTES, BEFORE_MS = 1000 };

static char folder[] = "/tmp/fathom-snapshot-bench-XXXXXX";
static char data_path[64], copy_path[64];

struct slot {
	struct bdev_io io; /* first */
	struct iovec iov;
	uint64_t begin_ns;
	bool is_write;
	uint8_t buffer[BLOCK_BYTES] __attribute__((aligned(BLOCK_BYTES)));
};

static struct {
	struct fathom_thread *thread;
	struct bdev_desc *desc;
	struct bdev_channel *channel;
	struct slot slots[2 * DEPTH];
	struct random random;
	uint64_t blocks, count;
	uint64_t longest_ns[2]; /* reads, writes; since the last reset */
	uint32_t running;
	bool is_stopping;
	sem_t changed;
	/* the copy */
	struct barrier *barrier;
	struct barrier_member member;
	struct barrier_info info;
	uint64_t copy_ns;
	int error;
} bench;

static void submit(struct slot *slot);

static void io_done(struct bdev_io *io, enum io_status status)
{
	struct slot *slot = (struct slot *)io;
	uint64_t took_ns = clock_monotonic_ns() - slot->begin_ns;

	must(status == IO_SUCCESS);
	bench.longest_ns[slot->is_write] = max_u64(bench.longest_ns[slot->is_write], took_ns);
	bench.count++;
	if (!bench.is_stopping)
		submit(slot);
	else if (--bench.running == 0)
		sem_post(&bench.changed);
}

static void submit(struct slot *slot)
{
	uint64_t place = random_below(&bench.random, bench.blocks / 2) * 2; /* of a block that is written */

	slot->iov = (struct iovec){ slot->buffer, BLOCK_BYTES };
	slot->begin_ns = clock_monotonic_ns();
	(slot->is_write ? bdev_write : bdev_read)(&slot->io, bench.channel, &slot->iov, 1, place, 1, reactor_now(),
						  io_done);
}

/* ---- on the data reactor ---- */

static void start_load(void *ctx)
{
	random_init(&bench.random, 1);
	bench.channel = bdev_channel_get(bench.desc);
	must(bench.channel);
	bench.is_stopping = false;
	bench.running = ARRAY_COUNT(bench.slots);
	for (size_t i = 0; i < ARRAY_COUNT(bench.slots); i++) {
		bdev_io_init(&bench.slots[i].io);
		bench.slots[i].is_write = i < DEPTH;
		submit(&bench.slots[i]);
	}
}

static void take_longest(void *ctx)
{
	uint64_t *longest = ctx;

	memcpy(longest, bench.longest_ns, sizeof(bench.longest_ns));
	memset(bench.longest_ns, 0, sizeof(bench.longest_ns));
	sem_post(&bench.changed);
}

static void stop_load(void *ctx)
{
	bench.is_stopping = true;
}

static void put_channel(void *ctx)
{
	bdev_channel_put(bench.channel);
	sem_post(&bench.changed);
}

static void exit_thread(void *ctx)
{
	thread_exit(thread_self());
}

static void wait_for(thread_fn fn, void *ctx)
{
	thread_send_msg(bench.thread, fn, ctx);
	while (sem_wait(&bench.changed))
		;
}

/* ---- on the control reactor ---- */

static int control_open(void *ctx)
{
	const struct file_options options = { .name = "v", .filename = data_path, .block_bytes = BLOCK_BYTES };
	struct file_bdev *file;
	struct fathom_fault why;

	must(file_bdev_open(&options, &file, &why) == 0);
	must(file_bdev_register(file, NULL, &why) == 0);
	must(bdev_open("v", NULL, NULL, &bench.desc) == 0);
	return 0;
}

static int control_close(void *ctx)
{
	bdev_close(bench.desc);
	return backend_delete("v", NULL, NULL, NULL);
}

static void note_done(void *ctx, const struct fathom_fault *why)
{
	bench.error = why ? why->error : 0;
	barrier_get_info(bench.barrier, &bench.info);
}

static void note_released(void *ctx)
{
	sem_post(&bench.changed);
}

static int control_copy(void *ctx)
{
	static const struct barrier_calls calls = { note_done, note_released };

	bench.barrier = barrier_start(pool_fs_system(), &bench.member, 1, &calls, NULL);
	return 0;
}

/* ---- a case ---- */

/* A file of that many extents, each a block and a hole. */
static int create_data(uint64_t extents)
{
	static uint8_t block[BLOCK_BYTES] = { 1 };
	int fd = open(data_path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	must(fd >= 0);
	must(ftruncate(fd, (off_t)(extents * STRIDE_BYTES)) == 0);
	for (uint64_t i = 0; i < extents; i++)
		must(pwrite(fd, block, sizeof(block), (off_t)(i * STRIDE_BYTES)) == (ssize_t)sizeof(block));
	must(fsync(fd) == 0);
	return fd;
}

static void run_case(uint64_t extents)
{
	uint64_t before[2], during[2], begin_ns;

	bench.member =
		(struct barrier_member){ .device = "v", .from = create_data(extents), .bytes = extents * STRIDE_BYTES };
	bench.member.to = open(copy_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(bench.member.to >= 0 && ftruncate(bench.member.to, (off_t)bench.member.bytes) == 0);
	bench.blocks = bench.member.bytes / BLOCK_BYTES;
	(void)on_control(control_open, NULL); /* returns 0 */
	thread_send_msg(bench.thread, start_load, NULL);
	usleep(BEFORE_MS * 1000);
	wait_for(take_longest, before);
	begin_ns = clock_monotonic_ns();
	(void)on_control(control_copy, NULL); /* returns 0 */
	while (sem_wait(&bench.changed))
		;
	bench.copy_ns = clock_monotonic_ns() - begin_ns;
	wait_for(take_longest, during);
	wait_for(stop_load, NULL);
	wait_for(put_channel, NULL);
	must(on_control(control_close, NULL) == 0);
	must(bench.error == 0);
	printf("{\"bench\": \"snapshot\", \"case\": \"%llu extents\", \"longest_write_ms\": %.1f, \"longest_read_ms\": "
	       "%.1f,"
	       " \"before_write_ms\": %.1f, \"before_read_ms\": %.1f, \"copy_ms\": %.0f, \"steps\": %llu,"
	       " \"longest_step_ms\": %.1f}\n",
	       (unsigned long long)extents, (double)during[1] / 1e6, (double)during[0] / 1e6, (double)before[1] / 1e6,
	       (double)before[0] / 1e6, (double)bench.copy_ns / 1e6, (unsigned long long)bench.info.steps,
	       (double)bench.info.step_ns_max / 1e6);
	fflush(stdout);
	close(bench.member.from);
	close(bench.member.to);
}

int main(void)
{
	static const uint64_t cases[] = { 100, 10 * 1000, 100 * 1000 };
	struct reactor_options options = { 0 };
	char command[512];

	must(mkdtemp(folder));
	snprintf(data_path, sizeof(data_path), "%s/data", folder);
	snprintf(copy_path, sizeof(copy_path), "%s/copy", folder);
	snprintf(command, sizeof(command),
		 "truncate -s 4G %s.img && mkfs.xfs -q -m reflink=1,rmapbt=0 %s.img && mount -o loop %s.img %s", folder,
		 folder, folder, folder);
	if (geteuid() == 0 && system(command) == 0) {
		cpuset_add(&options.cpus, 0);
		sem_init(&bench.changed, 0, 0);
		control_start(&options);
		bench.thread = thread_create("load", reactor_at(0));
		must(bench.thread);
		for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
			run_case(cases[i]);
		thread_send_msg(bench.thread, exit_thread, NULL);
		control_stop();
		must(umount2(folder, MNT_DETACH) == 0);
	}
	snprintf(command, sizeof(command), "rm -rf %s %s.img", folder, folder);
	must(system(command) == 0);
	return 0;
}
