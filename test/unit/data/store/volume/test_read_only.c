/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sync of a volume's file fails: the volume takes no writes until its engine starts again. fdatasync() and pwritev2() are
 * the test's.
 */
#include <stdatomic.h>

#include "data/store/backend/backend.h"
#include "storage_rig.h"

static atomic_int failures;				     /* still to come */
static atomic_bool sidecar_fails;			     /* all syncs of that of p/a */
static atomic_int data_syncs, sidecar_syncs, durable_writes; /* calls, of p/a */

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

static bool is_file_of_a(int fd, const char *name)
{
	char link[64], path[256] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	must(readlink(link, path, sizeof(path) - 1) > 0);
	return strstr(path, name);
}

static bool is_sidecar_of_a(int fd)
{
	return is_file_of_a(fd, "/a/sums.");
}

int __wrap_fdatasync(int fd)
{
	if (is_sidecar_of_a(fd))
		atomic_fetch_add(&sidecar_syncs, 1);
	else if (is_file_of_a(fd, "/a/data."))
		atomic_fetch_add(&data_syncs, 1);
	if (atomic_load(&sidecar_fails) && is_sidecar_of_a(fd)) {
		errno = EIO;
		return -1;
	}
	if (atomic_load(&failures) == 0)
		return __real_fdatasync(fd);
	atomic_fetch_sub(&failures, 1);
	errno = EIO;
	return -1;
}

static atomic_int write_error; /* of the next durable write; 0: none */

ssize_t __real_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	int error = flags & RWF_DSYNC ? atomic_exchange(&write_error, 0) : 0;

	if ((flags & RWF_DSYNC) && is_file_of_a(fd, "/a/data."))
		atomic_fetch_add(&durable_writes, 1);
	if (!error)
		return __real_pwritev64v2(fd, iov, count, offset, flags);
	errno = error;
	return -1;
}

/* ---- the host of p/a ---- */

static struct {
	struct bdev_io io;
	struct iovec iov;
	enum io_type type;
	enum io_status status;
	bool is_done, is_durable;
	uint8_t block[4096] __attribute__((aligned(4096)));
} host;

static void note_io(struct bdev_io *io, enum io_status status)
{
	pthread_mutex_lock(&mutex);
	host.status = status;
	host.is_done = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static int control_io(void *ctx)
{
	uint64_t now = reactor_now();

	bdev_io_init(&host.io);
	host.io.is_durable = host.is_durable;
	host.iov = (struct iovec){ host.block, sizeof(host.block) };
	host.is_done = false;
	if (host.type == IO_TYPE_WRITE)
		bdev_write(&host.io, reading.channel, &host.iov, 1, 0, 1, now, note_io);
	else if (host.type == IO_TYPE_FLUSH)
		bdev_flush(&host.io, reading.channel, now, note_io);
	else if (host.type == IO_TYPE_UNMAP)
		bdev_unmap(&host.io, reading.channel, 0, 1, now, note_io);
	else
		bdev_write_zeroes(&host.io, reading.channel, 0, 1, now, note_io);
	return 0;
}

static enum io_status do_io(enum io_type type)
{
	host.type = type;
	assert_int_equal(on_control(control_io, NULL), 0);
	pthread_mutex_lock(&mutex);
	while (!host.is_done)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	return host.status;
}

/* ---- what the storage reports ---- */

static int reports;

static void note_failure(void *ctx, const struct volume *volume)
{
	must(volume->state == VOLUME_READ_ONLY && strcmp(volume->device, "p/a") == 0);
	reports++;
}

static void note_resized(void *ctx)
{
	reports += 100; /* users of the device are to report it */
}

static int control_watch(void *ctx)
{
	reports = 0;
	volumes_on_failure(volumes, note_failure, NULL);
	bdev_on_resized(reading.desc, note_resized);
	return 0;
}

static int control_is_read_only(void *ctx)
{
	const struct volume *volume = volumes_find(volumes, "p", "a");
	const struct bdev *bdev = bdev_find("p/a");
	struct volumes_info info;

	volumes_get_info(volumes, &info);
	return volume->state == VOLUME_READ_ONLY && volume->why.error == -EIO &&
	       strstr(volume->why.text, "a sync of its file failed: Input/output error") && volume->since_ns > 0 &&
	       info.read_only == 1 && info.damaged == 0 && bdev_is_read_only(bdev) && reports == 101;
}

static int control_is_online(void *ctx)
{
	struct volumes_info info;

	volumes_get_info(volumes, &info);
	return volumes_find(volumes, "p", "a")->state == VOLUME_ONLINE && info.read_only == 0 && info.volumes == 1;
}

static int control_publish(void *ctx)
{
	volumes_publish(volumes, &key, "nqn.2026-11.org.fathom:b", note_end, ctx);
	return 0;
}

/* ---- cases ---- */

static int begin_without_uring(void **state)
{
	int error;

	must(setenv("FATHOM_NO_URING", "1", 1) == 0); /* so that each flush calls fdatasync() */
	error = begin(state);
	must(unsetenv("FATHOM_NO_URING") == 0);
	atomic_store(&failures, 0);
	atomic_store(&sidecar_fails, false);
	atomic_store(&data_syncs, 0);
	atomic_store(&sidecar_syncs, 0);
	atomic_store(&durable_writes, 0);
	host.is_durable = false;
	return error;
}

static void begin_use(void)
{
	create_volume("a");
	write_data("data");
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	assert_int_equal(on_control(control_watch, NULL), 0);
	memcpy(host.block, "data", 4);
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_SUCCESS);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_SUCCESS);
}

static void assert_counts(int durable, int data, int sidecar)
{
	assert_int_equal(atomic_exchange(&durable_writes, 0), durable);
	assert_int_equal(atomic_exchange(&data_syncs, 0), data);
	assert_int_equal(atomic_exchange(&sidecar_syncs, 0), sidecar);
}

/*
 * No flush is left out, also if nothing was written since the last one. test_flush.c has the same with io_uring;
 * target/test_io.c that FUA is a durable write, or with checksums a write and a flush.
 */
static void each_durable_write_and_each_flush_reaches_the_disk(void **state)
{
	begin_use();
	assert_counts(0, 1, 0);
	host.is_durable = true;
	for (int i = 0; i < 3; i++)
		assert_int_equal(do_io(IO_TYPE_WRITE), IO_SUCCESS);
	assert_counts(3, 0, 0);
	host.is_durable = false;
	for (int i = 0; i < 3; i++)
		assert_int_equal(do_io(IO_TYPE_FLUSH), IO_SUCCESS);
	assert_counts(0, 3, 0);
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static int control_has_durable_writes(void *ctx)
{
	return bdev_find("p/a")->durable_writes;
}

static void each_flush_syncs_the_data_and_the_checksums(void **state)
{
	has_checksums = true;
	begin_use();
	assert_counts(0, 1, 2); /* before the first write its region is marked */
	for (int i = 0; i < 3; i++)
		assert_int_equal(do_io(IO_TYPE_FLUSH), IO_SUCCESS);
	assert_counts(0, 3, 3);
	assert_false(on_control(control_has_durable_writes, NULL)); /* so FUA is a write and a flush */
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_failed_sync_makes_the_volume_read_only(void **state)
{
	begin_use();
	atomic_store(&failures, 1);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_MEDIA_ERROR);
	/* the kernel may have forgotten the error */
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_MEDIA_ERROR);
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_READ_ONLY);
	assert_int_equal(do_io(IO_TYPE_WRITE_ZEROES), IO_READ_ONLY);
	assert_int_equal(do_io(IO_TYPE_UNMAP), IO_READ_ONLY);
	assert_read("data");
	assert_true(on_control(control_is_read_only, NULL));
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_failed_durable_write_makes_the_volume_read_only(void **state)
{
	begin_use();
	host.is_durable = true;
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_SUCCESS);
	atomic_store(&write_error, EIO);
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_MEDIA_ERROR);
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_READ_ONLY);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_MEDIA_ERROR);
	assert_read("data");
	assert_true(on_control(control_is_read_only, NULL));
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

/* Then the write has not been done, and earlier ones are not concerned. */
static void a_durable_write_without_space_leaves_the_volume_online(void **state)
{
	begin_use();
	host.is_durable = true;
	atomic_store(&write_error, ENOSPC);
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_NO_SPACE);
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_SUCCESS);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_SUCCESS);
	assert_true(on_control(control_is_online, NULL));
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_read_only_volume_refuses_changes_of_its_data(void **state)
{
	struct call *call;

	begin_use();
	assert_int_equal(run(control_snapshot), 0);
	atomic_store(&failures, 1);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_MEDIA_ERROR);
	assert_true(on_control(control_is_read_only, NULL));
	is_forced = true;
	call = start_call(control_grow);
	assert_int_equal(wait_for(call), -EIO);
	assert_non_null(strstr(call->text, "volume p/a is READ_ONLY: a sync of its file failed"));
	assert_int_equal(run(control_restore), -EIO);
	snapshot = "t";
	assert_int_equal(run(control_snapshot), -EIO);
	assert_int_equal(run(control_publish), 0); /* hosts may read it */
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_restart_trusts_the_volume_again(void **state)
{
	begin_use();
	atomic_store(&failures, 1);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_MEDIA_ERROR);
	assert_int_equal(on_control(control_unuse, NULL), 0);
	close_storage();
	assert_int_equal(run(control_open), 0);
	assert_true(on_control(control_is_online, NULL));
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	assert_read("data");
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_SUCCESS);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_SUCCESS);
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

/* ---- checksums ---- */

/* The first write to a region syncs its mark. */
static void a_failed_sync_of_the_checksums_makes_the_volume_read_only(void **state)
{
	has_checksums = true;
	create_volume("a");
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	assert_int_equal(on_control(control_watch, NULL), 0);
	atomic_store(&sidecar_fails, true);
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_MEDIA_ERROR);
	atomic_store(&sidecar_fails, false);
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_READ_ONLY);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_MEDIA_ERROR);
	assert_true(on_control(control_is_read_only, NULL));
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void write_volume(const char *name)
{
	create_volume(strchr(name, '/') + 1);
	assert_int_equal(on_control(control_use, (void *)name), 0);
	assert_int_equal(do_io(IO_TYPE_WRITE), IO_SUCCESS);
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static int control_get_scrub(void *ctx)
{
	*(struct volume_scrub *)ctx = volumes_find(volumes, "p", "a")->scrub;
	return 0;
}

static int control_is_checked(void *ctx)
{
	struct file_sums_info info;

	file_get_sums(bdev_find(ctx), &info);
	return info.suspect == 0;
}

/* Its suspect regions cannot become trusted, so they would be read for ever. */
static void a_read_only_volume_is_not_checked(void **state)
{
	struct volume_scrub before, after;

	has_checksums = true;
	write_volume("p/a");
	write_volume("p/b");
	close_storage();
	assert_int_equal(run(control_open), 0);
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	assert_int_equal(on_control(control_watch, NULL), 0);
	atomic_store(&sidecar_fails, true);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_MEDIA_ERROR);
	atomic_store(&sidecar_fails, false);
	assert_true(on_control(control_is_read_only, NULL));
	(void)on_control(control_get_scrub, &before); /* returns 0 */
	for (uint64_t end_ns = clock_monotonic_ns() + 60 * NS_PER_SEC; !on_control(control_is_checked, (void *)"p/b");) {
		assert_true(clock_monotonic_ns() < end_ns);
		usleep(50000);
	}
	(void)on_control(control_get_scrub, &after); /* returns 0 */
	assert_int_equal(after.next_check, before.next_check);
	assert_int_equal(after.check_ns, before.check_ns);
	assert_int_equal(after.clean_ns, before.clean_ns);
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

/* ---- moves, destroying ---- */

static struct volume_moving moving;

static int control_move(void *ctx)
{
	volumes_move(volumes, &key, &moving, note_end, ctx);
	return 0;
}

static void a_read_only_volume_that_was_given_away_can_come_back(void **state)
{
	const struct volume_moving fence = { .from = VOLUME_MOVE_NONE, .to = VOLUME_MOVE_OUTGOING },
				   unfence = { .from = VOLUME_MOVE_OUTGOING, .to = VOLUME_MOVE_NONE };

	begin_use();
	moving = fence;
	assert_int_equal(run(control_move), 0);
	atomic_store(&failures, 1);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_MEDIA_ERROR);
	assert_true(on_control(control_is_read_only, NULL));
	assert_int_equal(run(control_move), 0); /* repeated */
	moving = unfence;
	assert_int_equal(run(control_move), 0);
	assert_int_equal(run(control_move), 0); /* repeated */
	moving = fence;
	assert_int_equal(run(control_move), -EIO);
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static int control_destroy(void *ctx)
{
	volumes_destroy(volumes, &key, true, note_end, ctx);
	return 0;
}

static int control_count(void *ctx)
{
	struct volumes_info info;

	volumes_get_info(volumes, &info);
	return (int)(info.read_only + info.damaged + info.volumes);
}

/* The last I/O of a destroyed volume may still be in progress. */
static void a_sync_that_fails_after_the_volume_was_destroyed_is_ignored(void **state)
{
	begin_use();
	assert_int_equal(run(control_destroy), 0);
	atomic_store(&failures, 1);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_MEDIA_ERROR);
	assert_int_equal(on_control(control_count, NULL), 0);
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_read_only_volume_can_be_destroyed(void **state)
{
	begin_use();
	atomic_store(&failures, 1);
	assert_int_equal(do_io(IO_TYPE_FLUSH), IO_MEDIA_ERROR);
	assert_int_equal(on_control(control_unuse, NULL), 0);
	assert_int_equal(run(control_destroy), 0);
	assert_int_equal(on_control(control_count, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin_without_uring, end)
		CASE(each_durable_write_and_each_flush_reaches_the_disk),
		CASE(each_flush_syncs_the_data_and_the_checksums),
		CASE(a_failed_sync_makes_the_volume_read_only),
		CASE(a_failed_durable_write_makes_the_volume_read_only),
		CASE(a_durable_write_without_space_leaves_the_volume_online),
		CASE(a_read_only_volume_refuses_changes_of_its_data),
		CASE(a_restart_trusts_the_volume_again),
		CASE(a_failed_sync_of_the_checksums_makes_the_volume_read_only),
		CASE(a_read_only_volume_is_not_checked),
		CASE(a_read_only_volume_that_was_given_away_can_come_back),
		CASE(a_sync_that_fails_after_the_volume_was_destroyed_is_ignored),
		CASE(a_read_only_volume_can_be_destroyed),
#undef CASE
	};
	int failed = 0;

	if (storage_begin())
		failed = cmocka_run_group_tests_name("volume read_only", tests, NULL, NULL);
	storage_end();
	return failed;
}
