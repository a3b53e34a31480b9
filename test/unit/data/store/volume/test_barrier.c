/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies of block devices in use: are they of one instant? Writers on two threads note when each write is submitted and
 * acknowledged, by one counter, and write the number of the submission into the block. In the copies of all devices, a
 * write may be missing only if none that was submitted after its acknowledgement is there.
 *
 * The copy of a step is made by reads and writes here, or with BARRIER_ON_XFS, as root, by reflinks on an XFS image.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "data/store/pool/fs.h"
#include "data/store/volume/barrier.h"
#include "../rig.h"
#include "../tricky.h"
#include "copy_bytes.h"
#include "xfs_image.h"

enum {
	MIB = 1 << 20,
	DEVICES = 3,
	DEVICE_BYTES = 12 * MIB + 4096, /* the last region is short */
	BLOCK_BYTES = 4096,
	BLOCKS = DEVICE_BYTES / BLOCK_BYTES,
	SLOTS = 8, /* writes of a thread to a device at a time */
	LOG_MAX = 1 << 20,
	WRITES_BEFORE = 2000,
};

static char folder[] = "/tmp/fathom-barrier-XXXXXX";
static struct pool_fs calls;

/* ---- steps ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_hung, is_waiting; /* under the mutex */
static uint64_t offsets[1024];
static uint32_t offset_count;
static int step_error;
static useconds_t step_us;
static uint64_t hang_from, hang_not; /* a step at an offset before, or at `hang_not`, does not hang; under the mutex */
static bool by_reflink, is_empty;    /* empty files: their copies are complete */

static int test_clone(void *ctx, int fd, int from, uint64_t offset, uint64_t bytes)
{
	int error;

	pthread_mutex_lock(&mutex);
	must(offset_count < ARRAY_COUNT(offsets));
	offsets[offset_count++] = offset;
	is_waiting = is_hung && offset >= hang_from && offset != hang_not;
	pthread_cond_broadcast(&changed);
	while (is_hung && is_waiting)
		pthread_cond_wait(&changed, &mutex);
	is_waiting = false;
	error = step_error;
	pthread_mutex_unlock(&mutex);
	if (error)
		return error;
	if (is_empty)
		return 0;
	usleep(step_us); /* so that writes come between the steps */
	return by_reflink ? pool_fs_system()->clone(ctx, fd, from, offset, bytes) : copy_bytes(fd, from, offset, bytes);
}

static void hang_steps(bool hang)
{
	pthread_mutex_lock(&mutex);
	is_hung = hang;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void wait_for_hung_step(void)
{
	pthread_mutex_lock(&mutex);
	while (!is_waiting)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

/* ---- devices ---- */

static struct device {
	char name[16], path[64];
	struct bdev_desc *desc;
	struct bdev_channel *channels[2];
	int from, to;
} devices[DEVICES];

static int open_file(const char *path, int flags)
{
	int fd = open(path, flags | O_DIRECT, 0600);

	if (fd < 0)
		fd = open(path, flags, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, DEVICE_BYTES), 0);
	return fd;
}

static int setup(void **state)
{
	char path[80];

	rig_start(false);
	offset_count = 0;
	step_error = 0;
	step_us = 2000;
	hang_from = 0;
	hang_not = UINT64_MAX;
	is_empty = false;
	calls = *pool_fs_system();
	calls.clone = test_clone;
	for (int i = 0; i < DEVICES; i++) {
		struct device *device = &devices[i];
		struct file_options options = { .name = device->name,
						.filename = device->path,
						.block_bytes = BLOCK_BYTES };
		struct fathom_fault why;

		snprintf(device->name, sizeof(device->name), "d%d", i);
		snprintf(device->path, sizeof(device->path), "%s/d%d", folder, i);
		snprintf(path, sizeof(path), "%s.copy", device->path);
		device->from = open_file(device->path, O_RDWR | O_CREAT | O_TRUNC);
		device->to = open_file(path, O_RDWR | O_CREAT | O_TRUNC);
		assert_int_equal(rig_file(&options, &why), 0);
		device->desc = rig_open(device->name);
		for (unsigned int thread = 0; thread < 2; thread++)
			device->channels[thread] = rig_channel_get(rig_thread(thread), device->desc);
	}
	return 0;
}

static int teardown(void **state)
{
	char path[80];

	for (int i = 0; i < DEVICES; i++) {
		struct device *device = &devices[i];

		for (unsigned int thread = 0; thread < 2; thread++)
			rig_channel_put(rig_thread(thread), device->channels[thread]);
		rig_close(device->desc);
		rig_delete(device->name);
		close(device->from);
		close(device->to);
		snprintf(path, sizeof(path), "%s.copy", device->path);
		unlink(path);
		unlink(device->path);
	}
	rig_stop();
	return 0;
}

/* ---- the barrier ---- */

static struct {
	struct barrier *barrier;
	struct barrier_member members[DEVICES];
	uint32_t count, done, released;
	int error;
	char text[FAULT_TEXT_BYTES_MAX];
	struct barrier_info info;
} copy;

static uint64_t counter; /* of submissions and acknowledgements */

static uint64_t count(void)
{
	return __atomic_add_fetch(&counter, 1, __ATOMIC_SEQ_CST);
}

static uint64_t done_at;

static void note_done(void *ctx, const struct fathom_fault *why)
{
	must_be_on(thread_control());
	done_at = count();
	copy.error = why ? why->error : 0;
	snprintf(copy.text, sizeof(copy.text), "%s", why ? why->text : "");
	barrier_get_info(copy.barrier, &copy.info);
	__atomic_store_n(&copy.done, 1, __ATOMIC_RELEASE);
}

static void note_released(void *ctx)
{
	must(copy.done);
	__atomic_store_n(&copy.released, 1, __ATOMIC_RELEASE);
}

static const struct barrier_calls barrier_calls = { note_done, note_released };

static void control_start(void *ctx)
{
	copy.barrier = barrier_start(&calls, copy.members, copy.count, &barrier_calls, NULL);
	must(!copy.done);
}

static void control_cancel(void *ctx)
{
	barrier_cancel(copy.barrier);
}

static void start_copy(uint32_t members)
{
	memset(&copy, 0, sizeof(copy));
	copy.count = members;
	for (uint32_t i = 0; i < members; i++)
		copy.members[i] =
			(struct barrier_member){ devices[i].name, devices[i].from, devices[i].to, DEVICE_BYTES, 0, -1, -1 };
	rig_on(thread_control(), control_start, NULL);
}

/* ---- load ---- */

struct write {
	uint32_t device, block;
	uint64_t submitted, acknowledged; /* 0: not */
};

struct slot {
	struct bdev_io io; /* first */
	struct iovec iov;
	uint8_t *buffer;
	struct write *write;
	uint32_t thread, device, number;
};

static struct {
	struct write log[LOG_MAX];
	uint32_t logged, acknowledged;
	struct slot slots[DEVICES][SLOTS];
	uint32_t running;
	struct random random;
} loads[2];
static bool is_stopping;

static void submit_next(struct slot *slot);

static void write_done(struct bdev_io *io, enum io_status status)
{
	struct slot *slot = (struct slot *)io;

	must(status == IO_SUCCESS);
	slot->write->acknowledged = count();
	__atomic_fetch_add(&loads[slot->thread].acknowledged, 1, __ATOMIC_RELEASE);
	if (__atomic_load_n(&is_stopping, __ATOMIC_ACQUIRE) || loads[slot->thread].logged == LOG_MAX)
		__atomic_fetch_sub(&loads[slot->thread].running, 1, __ATOMIC_RELEASE);
	else
		submit_next(slot);
}

/* Each block belongs to one slot, so the writes to a block come one after the other. */
static void submit_next(struct slot *slot)
{
	uint32_t classes = 2 * SLOTS, class = slot->thread * SLOTS + slot->number;
	struct write *write = &loads[slot->thread].log[loads[slot->thread].logged++];

	write->device = slot->device;
	write->block = (uint32_t)random_below(&loads[slot->thread].random, BLOCKS / classes) * classes + class;
	write->acknowledged = 0;
	write->submitted = count();
	memcpy(slot->buffer, &write->submitted, sizeof(write->submitted));
	slot->write = write;
	slot->iov = (struct iovec){ slot->buffer, BLOCK_BYTES };
	bdev_write(&slot->io, devices[slot->device].channels[slot->thread], &slot->iov, 1, write->block, 1, reactor_now(),
		   write_done);
}

static void begin_load(void *ctx)
{
	uint32_t thread = *(uint32_t *)ctx;

	random_init(&loads[thread].random, thread);
	loads[thread].logged = loads[thread].acknowledged = 0;
	loads[thread].running = DEVICES * SLOTS;
	for (uint32_t device = 0; device < DEVICES; device++) {
		for (uint32_t i = 0; i < SLOTS; i++) {
			struct slot *slot = &loads[thread].slots[device][i];

			bdev_io_init(&slot->io);
			slot->thread = thread;
			slot->device = device;
			slot->number = i;
			if (!slot->buffer)
				slot->buffer = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
			must(slot->buffer);
			memset(slot->buffer, 0, BLOCK_BYTES);
			submit_next(slot);
		}
	}
}

static void start_load(void)
{
	__atomic_store_n(&is_stopping, false, __ATOMIC_RELEASE);
	for (uint32_t thread = 0; thread < 2; thread++) {
		rig_on(rig_thread(thread), begin_load, &thread);
		while (__atomic_load_n(&loads[thread].acknowledged, __ATOMIC_ACQUIRE) < WRITES_BEFORE)
			usleep(100);
	}
}

static void stop_load(void)
{
	__atomic_store_n(&is_stopping, true, __ATOMIC_RELEASE);
	for (uint32_t thread = 0; thread < 2; thread++)
		rig_wait(&loads[thread].running, 0);
}

static uint64_t images[DEVICES][BLOCKS];

static void read_images(uint64_t *newest_ret)
{
	static uint8_t block[BLOCK_BYTES] __attribute__((aligned(BLOCK_BYTES)));

	*newest_ret = 0;
	for (int i = 0; i < DEVICES; i++) {
		for (int j = 0; j < BLOCKS; j++) {
			assert_int_equal(pread(devices[i].to, block, BLOCK_BYTES, (off_t)j * BLOCK_BYTES), BLOCK_BYTES);
			memcpy(&images[i][j], block, sizeof(uint64_t));
			*newest_ret = max_u64(*newest_ret, images[i][j]);
		}
	}
}

/* ---- cases ---- */

static void copies_under_load_are_of_one_instant(void **state)
{
	uint64_t started_at, newest;
	uint32_t missing = 0, there = 0;

	start_load();
	started_at = count();
	start_copy(DEVICES);
	rig_wait(&copy.done, 1);
	for (uint32_t thread = 0; thread < 2; thread++) {
		uint32_t before = loads[thread].acknowledged;

		while (__atomic_load_n(&loads[thread].acknowledged, __ATOMIC_ACQUIRE) == before) /* writes go on */
			usleep(100);
	}
	stop_load();
	rig_wait(&copy.released, 1);
	assert_string_equal(copy.text, "");
	assert_int_equal(copy.info.bytes_copied, (uint64_t)DEVICES * DEVICE_BYTES);
	assert_true(copy.info.instant_ns >= copy.info.since_ns);
	read_images(&newest);
	for (uint32_t thread = 0; thread < 2; thread++) {
		for (uint32_t i = 0; i < loads[thread].logged; i++) {
			const struct write *write = &loads[thread].log[i];

			if (images[write->device][write->block] >= write->submitted) {
				there++;
				assert_true(write->submitted < done_at);
			} else {
				missing++;
				assert_true(write->acknowledged > started_at);
				assert_true(write->acknowledged > newest);
			}
		}
	}
	assert_true(there >= 2 * WRITES_BEFORE);
	assert_true(missing > 0);
}

/* In the order of the writes, also if a batch ends before all of their steps. */
static void a_write_to_a_region_moves_its_step_to_the_front(void **state)
{
	static uint8_t buffer[BLOCK_BYTES] __attribute__((aligned(BLOCK_BYTES)));
	const uint64_t regions[] = { 11, 9, 10, 8 };
	struct rig_io ios[ARRAY_COUNT(regions)];
	uint32_t before;

	hang_steps(true);
	start_copy(1);
	wait_for_hung_step();
	for (size_t i = 0; i < ARRAY_COUNT(regions); i++) {
		rig_io_init(&ios[i], rig_thread(0), devices[0].channels[0]);
		rig_io_begin(&ios[i], IO_TYPE_WRITE, buffer, regions[i] * MIB / BLOCK_BYTES, 1);
	}
	step_us = 30000; /* longer than a batch */
	usleep(step_us);
	before = offset_count;
	for (size_t i = 0; i < ARRAY_COUNT(regions); i++)
		assert_int_equal(ios[i].done, 0);
	hang_steps(false);
	for (size_t i = 0; i < ARRAY_COUNT(regions); i++)
		assert_int_equal(rig_io_end(&ios[i]), IO_SUCCESS);
	rig_wait(&copy.released, 1);
	assert_int_equal(copy.error, 0);
	for (size_t i = 0; i < ARRAY_COUNT(regions); i++)
		assert_int_equal(offsets[before + i], regions[i] * MIB);
}

static void do_nothing(void *ctx)
{
}

/* What the two threads asked for so far has arrived. */
static void wait_for_requests(void)
{
	for (unsigned int thread = 0; thread < 2; thread++)
		rig_on(rig_thread(thread), do_nothing, NULL);
	rig_on(thread_control(), do_nothing, NULL);
}

/* Let the step that hangs end, and hang the next one that no write waits for. */
static void hang_next_step(uint64_t except)
{
	pthread_mutex_lock(&mutex);
	hang_not = except;
	is_waiting = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
	wait_for_hung_step();
}

/* The batch that hangs has copied these regions, but has not opened them. Then others ask for more than it can open. */
static void many_late_requests_do_not_delay_another_write(void **state)
{
	enum { LATE = 28, ANOTHER = 40, REGIONS = 100 };
	static uint8_t buffer[BLOCK_BYTES] __attribute__((aligned(BLOCK_BYTES)));
	static struct rig_io ios[2][LATE], another;
	struct bdev_channel *channels[2];
	struct bdev_desc *desc;

	is_empty = true;
	rig_malloc("big", (uint64_t)REGIONS * MIB / BLOCK_BYTES, BLOCK_BYTES);
	desc = rig_open("big");
	hang_from = (uint64_t)LATE * MIB;
	hang_steps(true);
	memset(&copy, 0, sizeof(copy));
	copy.members[0] =
		(struct barrier_member){ "big", devices[0].from, devices[0].to, (uint64_t)REGIONS * MIB, 0, -1, -1 };
	copy.count = 1;
	for (unsigned int thread = 0; thread < 2; thread++)
		channels[thread] = rig_channel_get(rig_thread(thread), desc);
	rig_on(thread_control(), control_start, NULL);
	wait_for_hung_step();
	for (unsigned int thread = 0; thread < 2; thread++) {
		for (uint64_t i = 0; i < LATE; i++) {
			rig_io_init(&ios[thread][i], rig_thread(thread), channels[thread]);
			rig_io_begin(&ios[thread][i], IO_TYPE_WRITE, buffer, i * MIB / BLOCK_BYTES, 1);
		}
	}
	wait_for_requests();
	rig_io_init(&another, rig_thread(0), channels[0]);
	rig_io_begin(&another, IO_TYPE_WRITE, buffer, (uint64_t)ANOTHER * MIB / BLOCK_BYTES, 1);
	wait_for_requests();
	usleep(30000); /* the batch ends after this step */
	hang_next_step((uint64_t)ANOTHER * MIB);
	assert_int_equal(rig_io_end(&another), IO_SUCCESS);
	for (size_t i = 0; i < (size_t)2 * LATE; i++)
		assert_int_equal(rig_io_end(&ios[i / LATE][i % LATE]), IO_SUCCESS);
	hang_steps(false);
	rig_wait(&copy.released, 1);
	assert_int_equal(copy.error, 0); /* all ended before a bound did */
	for (unsigned int thread = 0; thread < 2; thread++)
		rig_channel_put(rig_thread(thread), channels[thread]);
	rig_close(desc);
	rig_delete("big");
}

static void a_hung_step_is_given_up_and_writes_go_on(void **state)
{
	static uint8_t buffer[BLOCK_BYTES] __attribute__((aligned(BLOCK_BYTES)));
	struct rig_io io;

	hang_steps(true);
	start_copy(2);
	wait_for_hung_step();
	rig_io_init(&io, rig_thread(1), devices[1].channels[1]);
	rig_io_begin(&io, IO_TYPE_WRITE, buffer, 5, 1);
	rig_wait(&copy.done, 1);
	assert_int_equal(rig_io_end(&io), IO_SUCCESS);
	assert_int_equal(copy.error, -ETIMEDOUT);
	assert_non_null(strstr(copy.text, "a step of the copy did not end"));
	assert_int_equal(copy.released, 0); /* the step still uses the files */
	hang_steps(false);
	rig_wait(&copy.released, 1);
}

static void end_hang(void *ctx)
{
	struct tricky *tricky = ctx;

	tricky->hold = false;
}

static void a_hung_write_is_given_up_and_other_writes_go_on(void **state)
{
	struct tricky *tricky;
	struct bdev_channel *channel;
	struct bdev_desc *desc;
	uint8_t buffer[512] = { 0 };
	struct rig_io hung, late;

	tricky = tricky_open(&tricky_plain, &desc, &channel);
	tricky->hold = true;
	rig_io_init(&hung, rig_thread(0), channel);
	rig_io_begin(&hung, IO_TYPE_WRITE, buffer, 0, 1);
	memset(&copy, 0, sizeof(copy));
	copy.members[0] =
		(struct barrier_member){ devices[0].name, devices[0].from, devices[0].to, DEVICE_BYTES, 0, -1, -1 };
	copy.members[1] = (struct barrier_member){ "t", devices[1].from, devices[1].to, 100 * 512, 0, -1, -1 };
	copy.count = 2;
	rig_on(thread_control(), control_start, NULL);
	rig_io_init(&late, rig_thread(0), channel);
	rig_io_begin(&late, IO_TYPE_WRITE, buffer, 1, 1);
	rig_wait(&copy.released, 1);
	assert_int_equal(copy.error, -ETIMEDOUT);
	assert_non_null(strstr(copy.text, "did not end within 2 s"));
	assert_int_equal(offset_count, 0);
	assert_int_equal(rig_io(rig_thread(0), devices[0].channels[0], IO_TYPE_UNMAP, NULL, 0, 1), IO_SUCCESS);
	while (__atomic_load_n(&hung.done, __ATOMIC_ACQUIRE) + __atomic_load_n(&late.done, __ATOMIC_ACQUIRE) < 2)
		rig_on(rig_thread(0), end_hang, tricky); /* wakes its poller, too */
	assert_int_equal(rig_io_end(&hung), IO_SUCCESS);
	assert_int_equal(rig_io_end(&late), IO_SUCCESS);
	tricky_close(desc, channel, "t");
}

static void a_failed_step_and_a_missing_device_are_reported(void **state)
{
	step_error = -EIO;
	start_copy(1);
	rig_wait(&copy.released, 1);
	assert_int_equal(copy.error, -EIO);
	step_error = 0;
	start_copy(1);
	rig_wait(&copy.released, 1);
	assert_int_equal(copy.error, 0);
	memset(&copy, 0, sizeof(copy));
	copy.members[0] =
		(struct barrier_member){ devices[0].name, devices[0].from, devices[0].to, DEVICE_BYTES, 0, -1, -1 };
	copy.members[1] = (struct barrier_member){ "none", devices[1].from, devices[1].to, DEVICE_BYTES, 0, -1, -1 };
	copy.count = 2;
	rig_on(thread_control(), control_start, NULL);
	rig_wait(&copy.released, 1);
	assert_int_equal(copy.error, -ENODEV);
}

static void a_copy_can_be_cancelled(void **state)
{
	hang_steps(true);
	start_copy(1);
	wait_for_hung_step();
	rig_on(thread_control(), control_cancel, NULL);
	assert_int_equal(copy.done, 1);
	assert_int_equal(copy.error, -ECANCELED);
	hang_steps(false);
	rig_wait(&copy.released, 1);
}

static void files_without_a_device_are_copied(void **state)
{
	memset(&copy, 0, sizeof(copy));
	copy.members[0] = (struct barrier_member){ NULL, devices[0].from, devices[0].to, DEVICE_BYTES, 0, -1, -1 };
	copy.count = 1;
	rig_on(thread_control(), control_start, NULL);
	rig_wait(&copy.released, 1);
	assert_int_equal(copy.error, 0);
	assert_int_equal(copy.info.bytes_copied, DEVICE_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		CASE(copies_under_load_are_of_one_instant),
		CASE(a_write_to_a_region_moves_its_step_to_the_front),
		CASE(many_late_requests_do_not_delay_another_write),
		CASE(a_hung_step_is_given_up_and_writes_go_on),
		CASE(a_hung_write_is_given_up_and_other_writes_go_on),
		CASE(a_failed_step_and_a_missing_device_are_reported),
		CASE(a_copy_can_be_cancelled),
		CASE(files_without_a_device_are_copied),
#undef CASE
	};
	char image[64];
	int failed;

	must(mkdtemp(folder));
	snprintf(image, sizeof(image), "%s.img", folder);
	by_reflink = getenv("BARRIER_ON_XFS");
	if (by_reflink && !xfs_mount(folder)) {
		printf("1..0 # SKIP no XFS image can be mounted here\n");
		unlink(image);
		rmdir(folder);
		return 0;
	}
	failed = cmocka_run_group_tests_name("volume barrier", tests, NULL, NULL);
	if (by_reflink)
		must(umount2(folder, MNT_DETACH) == 0);
	unlink(image);
	must(rmdir(folder) == 0);
	return failed;
}
