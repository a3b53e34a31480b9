/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A failed flush through the page cache: the kernel reports it once and then forgets it, so the device must remember it.
 * The test's fdatasync() and pwritev2() with RWF_DSYNC fail as often as ordered, and are counted; so are the operations
 * that io_uring gets.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

static atomic_int failures; /* still to come */
static atomic_int durable_writes, plain_writes, flushes;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
	atomic_fetch_add(&flushes, 1);
	if (atomic_load(&failures) == 0)
		return __real_fdatasync(fd);
	atomic_fetch_sub(&failures, 1);
	errno = EIO;
	return -1;
}

static void count_write(int flags)
{
	atomic_fetch_add(flags & RWF_DSYNC ? &durable_writes : &plain_writes, 1);
}

ssize_t __real_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	count_write(flags);
	if (!(flags & RWF_DSYNC) || atomic_load(&failures) == 0)
		return __real_pwritev64v2(fd, iov, count, offset, flags);
	atomic_fetch_sub(&failures, 1);
	errno = EIO;
	return -1;
}

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);

/* The entries that the kernel has not taken yet. */
int __wrap_io_uring_submit(struct io_uring *ring)
{
	for (unsigned int i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		const struct io_uring_sqe *sqe = &ring->sq.sqes[i & *ring->sq.kring_mask];

		if (sqe->opcode == IORING_OP_WRITEV)
			count_write((int)sqe->rw_flags);
		else if (sqe->opcode == IORING_OP_FSYNC && sqe->fsync_flags == IORING_FSYNC_DATASYNC)
			atomic_fetch_add(&flushes, 1);
	}
	return __real_io_uring_submit(ring);
}

static char path[64];

static void make_file(void)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/fathom-flush-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	close(fd);
}

/* io_uring, if the kernel permits it. */
static int setup_uring(void **state)
{
	make_file();
	rig_start(false);
	return 0;
}

static int setup(void **state)
{
	make_file();
	must(setenv("FATHOM_NO_URING", "1", 1) == 0); /* so that each flush calls fdatasync() */
	rig_start(false);
	must(unsetenv("FATHOM_NO_URING") == 0);
	return 0;
}

static int teardown(void **state)
{
	rig_stop();
	return unlink(path);
}

static void create(bool no_direct)
{
	struct fathom_fault why = { 0 };

	if (rig_file(&(struct file_options){ .name = "f", .filename = path, .block_bytes = 4096, .no_direct = no_direct },
		     &why) < 0)
		fail_msg("%s", why.text);
}

struct users {
	struct bdev_desc *desc;
	struct bdev_channel *channels[2];
};

static struct users begin(void)
{
	struct users users = { .desc = rig_open("f") };

	for (unsigned int i = 0; i < 2; i++)
		users.channels[i] = rig_channel_get(rig_thread(i), users.desc);
	return users;
}

static void end(struct users *users)
{
	for (unsigned int i = 0; i < 2; i++)
		rig_channel_put(rig_thread(i), users->channels[i]);
	rig_close(users->desc);
	rig_delete("f");
}

static enum io_status flush(const struct users *users, unsigned int i)
{
	return rig_io(rig_thread(i), users->channels[i], IO_TYPE_FLUSH, NULL, 0, 0);
}

static enum io_status do_write(const struct users *users, unsigned int i)
{
	static uint8_t block[4096] __attribute__((aligned(4096)));

	return rig_io(rig_thread(i), users->channels[i], IO_TYPE_WRITE, block, i, 1);
}

static void lost_data_fails_flushes_of_each_channel_until_the_device_is_recreated(void **state)
{
	struct users users;

	create(true);
	users = begin();
	assert_int_equal(do_write(&users, 0), IO_SUCCESS);
	assert_int_equal(do_write(&users, 1), IO_SUCCESS);
	assert_int_equal(flush(&users, 0), IO_SUCCESS);
	atomic_store(&failures, 1);
	assert_int_equal(flush(&users, 0), IO_MEDIA_ERROR);
	/* The kernel has forgotten the error, but the lost data may be the other channel's. */
	assert_int_equal(flush(&users, 1), IO_MEDIA_ERROR);
	assert_int_equal(flush(&users, 0), IO_MEDIA_ERROR);
	assert_int_equal(do_write(&users, 1), IO_SUCCESS);
	assert_int_equal(flush(&users, 1), IO_MEDIA_ERROR);
	end(&users);
	create(true);
	users = begin();
	assert_int_equal(flush(&users, 0), IO_SUCCESS);
	assert_int_equal(flush(&users, 1), IO_SUCCESS);
	end(&users);
}

/* Without the page cache no data is lost in the kernel, so the flush may be retried. */
static void a_failed_flush_without_the_page_cache_may_be_retried(void **state)
{
	struct users users;
	struct bdev *bdev;

	create(false);
	bdev = rig_find("f");
	if (bdev->buffer_alignment == 1) {
		rig_delete("f");
		skip(); /* this filesystem has no O_DIRECT */
	}
	users = begin();
	atomic_store(&failures, 1);
	assert_int_equal(flush(&users, 0), IO_MEDIA_ERROR);
	assert_int_equal(flush(&users, 0), IO_SUCCESS);
	assert_int_equal(flush(&users, 1), IO_SUCCESS);
	end(&users);
}

/* ---- durable writes ---- */

static enum io_status write_durably(const struct users *users)
{
	static uint8_t block[4096] __attribute__((aligned(4096)));
	struct rig_io io;

	rig_io_init(&io, rig_thread(0), users->channels[0]);
	io.io.is_durable = true;
	rig_io_begin(&io, IO_TYPE_WRITE, block, 0, 1);
	return rig_io_end(&io);
}

static void check_flags(bool no_direct)
{
	struct users users;

	create(no_direct);
	users = begin();
	atomic_store(&durable_writes, 0);
	atomic_store(&plain_writes, 0);
	atomic_store(&flushes, 0);
	assert_int_equal(do_write(&users, 0), IO_SUCCESS);
	assert_int_equal(atomic_load(&plain_writes), 1);
	assert_int_equal(write_durably(&users), IO_SUCCESS);
	assert_int_equal(write_durably(&users), IO_SUCCESS);
	assert_int_equal(atomic_load(&durable_writes), 2);
	assert_int_equal(atomic_load(&plain_writes), 1);
	assert_int_equal(atomic_load(&flushes), 0);
	assert_int_equal(flush(&users, 1), IO_SUCCESS);
	assert_int_equal(atomic_load(&flushes), 1);
	end(&users);
}

static void a_durable_write_is_one_operation_with_rwf_dsync(void **state)
{
	check_flags(false);
	check_flags(true);
}

static void a_failed_durable_write_through_the_page_cache_fails_flushes(void **state)
{
	struct users users;

	create(true);
	users = begin();
	atomic_store(&failures, 1);
	assert_int_equal(write_durably(&users), IO_MEDIA_ERROR);
	assert_int_equal(flush(&users, 1), IO_MEDIA_ERROR);
	assert_int_equal(write_durably(&users), IO_MEDIA_ERROR);
	end(&users);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lost_data_fails_flushes_of_each_channel_until_the_device_is_recreated,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_flush_without_the_page_cache_may_be_retried, setup, teardown),
		cmocka_unit_test_setup_teardown(a_durable_write_is_one_operation_with_rwf_dsync, setup, teardown),
		cmocka_unit_test_setup_teardown(a_durable_write_is_one_operation_with_rwf_dsync, setup_uring, teardown),
		cmocka_unit_test_setup_teardown(a_failed_durable_write_through_the_page_cache_fails_flushes, setup,
						teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
