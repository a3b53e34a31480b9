/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first, second, third ... allocation of calls that create, open and get fails, once or from then on, until a run meets
 * no failure. Each call must report it, leave nothing allocated, and succeed when memory is available again.
 */
#include "failing.h"
#include "tricky.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "data/store/filter/filter.h"

#include "../../descriptor_count.h"

enum { BLOCKS = 64, BLOCK = 512, FILE_BYTES = 1 << 20 };

static char path[] = "/tmp/fathom-no-memory-XXXXXX";

static int never_run(void *unused)
{
	return 0;
}

/* Grow the reactor's table of timed pollers first, so that each attempt makes the same allocations. */
static void make_room(void *unused)
{
	struct poller *pollers[16];

	for (size_t i = 0; i < ARRAY_COUNT(pollers); i++) {
		pollers[i] = poller_register("room", never_run, NULL, NS_PER_SEC);
		must(pollers[i]);
	}
	for (size_t i = 0; i < ARRAY_COUNT(pollers); i++)
		poller_unregister(&pollers[i]);
}

static int setup(void **state)
{
	rig_start(true);
	rig_on(rig_thread(0), make_room, NULL);
	return 0;
}

/* ---- an attempt ---- */

struct attempt {
	int (*make)(struct attempt *attempt);
	enum failing_kind kind;
	uint32_t n;
	/* results */
	int rc;
	bool met;
	struct fathom_fault why;
	struct bdev_desc *desc;
	struct bdev_channel *ch;
};

static void do_attempt(void *ctx)
{
	struct attempt *attempt = ctx;

	failing_begin(attempt->kind, attempt->n);
	attempt->rc = attempt->make(attempt);
	attempt->met = failing_end();
}

/*
 * Fail the n-th allocation of `attempt->make` on `thread`, for each n. The last attempt, without a failure, stays. Return
 * the number of failed attempts.
 */
static uint32_t fail_each(struct attempt *attempt, struct fathom_thread *thread)
{
	uint32_t held = failing_held(), fds = descriptor_count();

	for (attempt->n = 1;; attempt->n++) {
		memset(&attempt->why, 0, sizeof(attempt->why));
		rig_on(thread, do_attempt, attempt);
		if (!attempt->met)
			break;
		assert_int_equal(attempt->rc, -ENOMEM);
		rig_settle();
		assert_int_equal(failing_held(), held);
		assert_int_equal(descriptor_count(), fds);
	}
	assert_int_equal(attempt->rc, 0);
	return attempt->n - 1;
}

static int open_bdev(struct attempt *attempt)
{
	return bdev_open("x", NULL, NULL, &attempt->desc);
}

static int get_channel(struct attempt *attempt)
{
	attempt->ch = bdev_channel_get(attempt->desc);
	return attempt->ch ? 0 : -errno;
}

static void check_io(struct bdev_channel *ch)
{
	static uint8_t buffer[BLOCKS * BLOCK + 1], back[BLOCKS * BLOCK];
	struct fathom_thread *t = rig_thread(0);
	bool zeroes = bdev_channel_bdev(ch)->reads_zeroes;

	/* unaligned, and as long as the device: split, with bounce buffers if needed */
	memset(buffer, 'w', sizeof(buffer));
	assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE, buffer + 1, 0, BLOCKS), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_READ, back, 0, BLOCKS), IO_SUCCESS);
	for (size_t i = 0; i < sizeof(back); i++)
		must(back[i] == (zeroes ? 0 : 'w'));
}

/* Open "x" and get its channel with each allocation failing, then use it. Return the number of failed channels. */
static uint32_t open_and_use(enum failing_kind kind)
{
	struct attempt attempt = { .make = open_bdev, .kind = kind };
	struct bdev *bdev = rig_find("x");
	uint32_t count;

	assert_non_null(bdev);
	assert_int_equal(fail_each(&attempt, thread_control()), 1);
	assert_int_equal(bdev->open_count, 1);
	attempt.make = get_channel;
	count = fail_each(&attempt, rig_thread(0));
	check_io(attempt.ch);
	rig_channel_put(rig_thread(0), attempt.ch);
	rig_settle();
	rig_close(attempt.desc);
	assert_int_equal(bdev->open_count, 0);
	return count;
}

/*
 * Create "x" with each allocation failing, and delete it. Return the number of failed creations; `channels`: of failed
 * channels.
 */
static uint32_t create_and_use(int (*make)(struct attempt *attempt), enum failing_kind kind, uint32_t channels)
{
	struct attempt attempt = { .make = make, .kind = kind };
	uint32_t held = failing_held(), count = fail_each(&attempt, thread_control());

	assert_int_equal(open_and_use(kind), channels);
	rig_delete("x");
	assert_int_equal(failing_held(), held);
	return count;
}

/* Assert that a failed creation has a reason and left no name. */
static int assert_explained(struct attempt *attempt, int rc)
{
	if (rc < 0) {
		must(attempt->why.error == rc);
		must(strstr(attempt->why.text, "memory") || strstr(attempt->why.text, "address space"));
		must(!bdev_find("x"));
	}
	return rc;
}

/* ---- devices ---- */

static int make_null(struct attempt *attempt)
{
	const struct null_options options = { .name = "x", .block_count = BLOCKS };

	return assert_explained(attempt, null_create(&options, &attempt->why));
}

static int make_malloc(struct attempt *attempt)
{
	const struct malloc_options options = { .name = "x", .block_count = BLOCKS, .boundary_blocks = 8 };

	return assert_explained(attempt, malloc_create(&options, &attempt->why));
}

static int make_file(struct attempt *attempt)
{
	const struct file_options options = { .name = "x", .filename = path, .block_bytes = BLOCK };

	return assert_explained(attempt, rig_create_file(&options, &attempt->why));
}

static int make_filter(struct attempt *attempt)
{
	const struct filter_options options = { .name = "x", .base_name = "m", .keep_versions = true };
	const struct bdev *base = bdev_find("m");
	int rc = assert_explained(attempt, filter_create(&options, &attempt->why));

	must(base->claimed == (rc == 0));
	must(base->open_count == (rc == 0));
	return rc;
}

/* Must be the first case: the first bdev of a process allocates the memory that all share. */
static void creating_the_first_bdev_fails_without_memory_for_zeroes(void **state)
{
	assert_int_equal(create_and_use(make_null, FAILING_ONCE, 2), 2);
	assert_int_equal(create_and_use(make_null, FAILING_ONCE, 2), 1);
}

static void creating_null_without_memory_fails_and_leaks_nothing(void **state)
{
	for (enum failing_kind kind = 0; kind < FAILING_KINDS; kind++)
		assert_true(create_and_use(make_null, kind, 2) >= 1);
}

static void creating_malloc_without_memory_fails_and_leaks_nothing(void **state)
{
	for (enum failing_kind kind = 0; kind < FAILING_KINDS; kind++)
		assert_true(create_and_use(make_malloc, kind, 2) >= 2);
}

static void make_disk(void)
{
	int fd;

	memcpy(path + strlen(path) - 6, "XXXXXX", 6);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	assert_int_equal(close(fd), 0);
}

/* A host identifies the device by UUID and block size, so these must not change because of a failure. */
static void creating_file_without_memory_never_changes_its_identity(void **state)
{
	struct attempt attempt = { .make = make_file };
	struct bdev expected;

	make_disk();
	for (int hidden = 0; hidden < 2; hidden++) {
		failing_no_direct_rules = hidden == 1;
		attempt.n = UINT32_MAX;
		rig_on(thread_control(), do_attempt, &attempt);
		assert_int_equal(attempt.rc, 0);
		expected = *rig_find("x");
		rig_delete("x");
		for (attempt.kind = 0; attempt.kind < FAILING_KINDS; attempt.kind++) {
			assert_true(fail_each(&attempt, thread_control()) >= (hidden ? 2 : 1));
			assert_memory_equal(rig_find("x")->uuid, expected.uuid, sizeof(expected.uuid));
			assert_int_equal(rig_find("x")->buffer_alignment, expected.buffer_alignment);
			assert_int_equal(open_and_use(attempt.kind), 2);
			rig_delete("x");
			assert_int_equal(failing_held(), 0);
		}
	}
	failing_no_direct_rules = false;
	assert_int_equal(unlink(path), 0);
}

/* Not a failed allocation: the kernel requires an alignment for O_DIRECT that no block size has. */
static void an_impossible_alignment_for_direct_io_uses_the_page_cache(void **state)
{
	const struct file_options options = { .name = "x", .filename = path };
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct fathom_fault why;

	make_disk();
	failing_direct_offset = 3 * BLOCK;
	assert_int_equal(rig_file(&options, &why), 0);
	failing_direct_offset = 0;
	assert_int_equal(rig_find("x")->block_bytes, BLOCK);
	assert_int_equal(rig_find("x")->buffer_alignment, 1);
	desc = rig_open("x");
	ch = rig_channel_get(rig_thread(0), desc);
	check_io(ch);
	tricky_close(desc, ch, "x");
	assert_int_equal(unlink(path), 0);
}

static void creating_a_filter_without_memory_leaves_its_base_unchanged(void **state)
{
	rig_malloc("m", BLOCKS, BLOCK);
	for (enum failing_kind kind = 0; kind < FAILING_KINDS; kind++)
		assert_int_equal(create_and_use(make_filter, kind, 5), 3);
	rig_delete("m");
}

/* ---- channels of backends ---- */

static void a_failed_channel_of_a_backend_frees_the_cores_channel(void **state)
{
	struct tricky_options options = tricky_plain;

	options.name = "x";
	options.block_count = BLOCKS;
	options.io_blocks_max = 5;
	options.buffer_alignment = 4096;
	for (enum failing_kind kind = 0; kind < FAILING_KINDS; kind++) {
		tricky_create(&options);
		assert_int_equal(open_and_use(kind), 3);
		rig_delete("x");
	}
}

/* ---- allocations during I/O: the copy that is corrupted, and what the first split of a channel needs ---- */

static struct rig_io writing;

static void do_inject(void *unused)
{
	struct fathom_fault why;

	must(filter_inject("x",
			   &(struct filter_rule){
				   .types = BIT(IO_TYPE_WRITE), .effect = FILTER_CORRUPT, .corrupt_value = 'z' },
			   &why) == 0);
}

static void do_inject_stale(void *unused)
{
	struct fathom_fault why;

	must(filter_inject("x", &(struct filter_rule){ .types = BIT(IO_TYPE_READ), .effect = FILTER_STALE, .count = 1 },
			   &why) == 0);
}

static void written(struct bdev_io *io, enum io_status status)
{
	writing.status = status;
	writing.done++;
}

static void do_write(void *ctx)
{
	struct attempt *attempt = ctx;

	failing_begin(attempt->kind, attempt->n);
	bdev_write(&writing.io, writing.channel, writing.iov, 1, 0, writing.iov[0].iov_len / BLOCK, reactor_now(), written);
	attempt->met = failing_end();
}

static void a_write_whose_copy_fails_is_not_stored(void **state)
{
	struct attempt attempt = { .make = make_filter, .n = UINT32_MAX };
	struct fathom_thread *t = rig_thread(0);
	uint8_t buffer[BLOCK], back[BLOCK];

	rig_malloc("m", BLOCKS, BLOCK);
	rig_on(thread_control(), do_attempt, &attempt);
	assert_int_equal(attempt.rc, 0);
	attempt.desc = rig_open("x");
	attempt.ch = rig_channel_get(t, attempt.desc);
	memset(buffer, 'a', sizeof(buffer));
	assert_int_equal(rig_io(t, attempt.ch, IO_TYPE_WRITE, buffer, 0, 1), IO_SUCCESS);
	rig_on(thread_control(), do_inject, NULL);
	memset(buffer, 'b', sizeof(buffer));
	for (attempt.n = 1;; attempt.n++) {
		rig_io_init(&writing, t, attempt.ch);
		writing.iov[0] = (struct iovec){ buffer, sizeof(buffer) };
		rig_on(t, do_write, &attempt);
		rig_settle();
		assert_int_equal(writing.done, 1);
		if (!attempt.met)
			break;
		assert_int_equal(writing.status, IO_FAILED);
		assert_int_equal(rig_io(t, attempt.ch, IO_TYPE_READ, back, 0, 1), IO_SUCCESS);
		assert_int_equal(back[0] + back[1], 'a' + 'a');
	}
	assert_int_equal(attempt.n, 2);
	assert_int_equal(writing.status, IO_SUCCESS);
	assert_int_equal(rig_io(t, attempt.ch, IO_TYPE_READ, back, 0, 1), IO_SUCCESS);
	assert_int_equal(back[0] + back[1], 'z' + 'b');
	/* the stale read returns the content before the failed write, of which nothing is stored */
	rig_on(thread_control(), do_inject_stale, NULL);
	assert_int_equal(rig_io(t, attempt.ch, IO_TYPE_READ, back, 0, 1), IO_SUCCESS);
	assert_int_equal(back[1], 'a');
	rig_channel_put(t, attempt.ch);
	rig_close(attempt.desc);
	rig_delete("x");
	rig_delete("m");
	assert_int_equal(failing_held(), 0);
}

static void a_first_split_without_memory_fails_and_the_next_one_succeeds(void **state)
{
	struct attempt attempt = { .make = make_malloc, .n = UINT32_MAX };
	static uint8_t buffer[BLOCKS * BLOCK];
	struct fathom_thread *t = rig_thread(0);

	rig_on(thread_control(), do_attempt, &attempt);
	assert_int_equal(attempt.rc, 0);
	attempt.desc = rig_open("x");
	attempt.ch = rig_channel_get(t, attempt.desc);
	for (attempt.n = 1; attempt.n <= 2; attempt.n++) {
		rig_io_init(&writing, t, attempt.ch);
		writing.iov[0] = (struct iovec){ buffer, sizeof(buffer) };
		rig_on(t, do_write, &attempt);
		rig_settle();
		assert_int_equal(writing.done, 1);
		assert_int_equal(attempt.met, attempt.n == 1);
		assert_int_equal(writing.status, attempt.met ? IO_FAILED : IO_SUCCESS);
	}
	check_io(attempt.ch);
	rig_channel_put(t, attempt.ch);
	rig_close(attempt.desc);
	rig_delete("x");
	assert_int_equal(failing_held(), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(creating_the_first_bdev_fails_without_memory_for_zeroes),
		CASE(creating_null_without_memory_fails_and_leaks_nothing),
		CASE(creating_malloc_without_memory_fails_and_leaks_nothing),
		CASE(creating_file_without_memory_never_changes_its_identity),
		CASE(an_impossible_alignment_for_direct_io_uses_the_page_cache),
		CASE(creating_a_filter_without_memory_leaves_its_base_unchanged),
		CASE(a_failed_channel_of_a_backend_frees_the_cores_channel),
		CASE(a_write_whose_copy_fails_is_not_stored),
		CASE(a_first_split_without_memory_fails_and_the_next_one_succeeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
