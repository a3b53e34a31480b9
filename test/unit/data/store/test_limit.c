/* SPDX-License-Identifier: BSD-2-Clause */
/* The limit that several files have together: what counts, and what is refused. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/store/backend/limit.h"
#include "data/store/pool/sums.h"
#include "../../hanging_call.h"
#include "rig.h"

enum { BLOCK = 4096, BLOCKS = 256 };

/* of lseek(): the next SEEK_DATA finds data where it begins, as if another write to that block had just ended */
static atomic_bool is_overtaken;
static struct hang hanging_seek;

off64_t __real_lseek64(int fd, off64_t offset, int whence);
off64_t __wrap_lseek64(int fd, off64_t offset, int whence);

off64_t __wrap_lseek64(int fd, off64_t offset, int whence)
{
	if (whence == SEEK_DATA && atomic_exchange(&is_overtaken, false))
		return offset;
	if (whence == SEEK_HOLE)
		hang_if_file_chosen(&hanging_seek, fd);
	return __real_lseek64(fd, offset, whence);
}

static struct space_limit *limit;
static uint8_t buffer[16 * BLOCK] __attribute__((aligned(BLOCK)));

/* ---- the count ---- */

static void nothing_is_refused_without_a_limit(void **state)
{
	limit = space_limit_create();
	assert_false(space_limit_is_set(limit));
	assert_true(space_limit_take(limit, UINT64_MAX));
	assert_int_equal(space_limit_mark(limit), 0);
	space_limit_unref(limit);
}

static void the_limit_is_used_to_the_last_byte_and_a_refusal_takes_nothing(void **state)
{
	limit = space_limit_create();
	space_limit_set(limit, 0, 10);
	assert_true(space_limit_take(limit, 4));
	assert_false(space_limit_take(limit, 7));
	assert_true(space_limit_take(limit, 6));
	assert_false(space_limit_take(limit, 1));
	assert_int_equal(space_limit_refusals(limit), 2);
	space_limit_unref(limit);
}

static void what_is_taken_since_the_mark_counts_against_the_new_limit(void **state)
{
	uint64_t mark;

	limit = space_limit_create();
	space_limit_set(limit, 0, 10);
	assert_true(space_limit_take(limit, 10));
	mark = space_limit_mark(limit);
	space_limit_set(limit, mark, 5);
	assert_true(space_limit_take(limit, 3));
	space_limit_set(limit, mark, 5); /* a reading that began before the last one */
	assert_true(space_limit_take(limit, 2));
	assert_false(space_limit_take(limit, 1));
	space_limit_set(limit, mark, 1); /* less than was taken */
	assert_false(space_limit_take(limit, 1));
	space_limit_set(limit, mark, SPACE_LIMIT_NONE);
	assert_true(space_limit_take(limit, 1));
	space_limit_unref(limit);
}

static void half_of_a_large_limit_can_be_taken_without_knowing_holes(void **state)
{
	uint64_t half = SPACE_LIMIT_LARGE_BYTES / 2;

	limit = space_limit_create();
	space_limit_set(limit, 0, SPACE_LIMIT_LARGE_BYTES - 1);
	assert_false(space_limit_take_of_plenty(limit, 1));
	space_limit_set(limit, 0, SPACE_LIMIT_LARGE_BYTES);
	assert_true(space_limit_take_of_plenty(limit, half));
	assert_false(space_limit_take_of_plenty(limit, 1));
	assert_int_equal(space_limit_mark(limit), half);
	assert_int_equal(space_limit_refusals(limit), 0); /* the write itself is not refused */
	assert_true(space_limit_take(limit, half));
	space_limit_set(limit, half, SPACE_LIMIT_LARGE_BYTES); /* the next reading: half of it was taken meanwhile */
	assert_false(space_limit_take_of_plenty(limit, 1));
	space_limit_set(limit, 2 * half, SPACE_LIMIT_LARGE_BYTES);
	assert_true(space_limit_take_of_plenty(limit, 1));
	space_limit_unref(limit);
}

/* ---- files ---- */

struct setting {
	const char *name;
	enum file_limit kind;
};

static void do_set(void *ctx)
{
	const struct setting *setting = ctx;

	file_set_limit(bdev_find(setting->name), setting->kind);
}

static void set_kind(const char *name, enum file_limit kind)
{
	struct setting setting = { name, kind };

	rig_on(thread_control(), do_set, &setting);
}

static void do_create(void *ctx)
{
	limit = space_limit_create();
}

static void do_drop(void *ctx)
{
	space_limit_unref(limit);
}

static struct file {
	char path[64];
	struct bdev_desc *desc;
	struct bdev_channel *channel;
} files[2];

static const char *const names[] = { "p/a", "p/b" };

static int setup_files(void)
{
	rig_on(thread_control(), do_create, NULL);
	for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
		struct fathom_fault why = { 0 };
		int fd;

		snprintf(files[i].path, sizeof(files[i].path), "/tmp/fathom-limit-XXXXXX");
		fd = mkstemp(files[i].path);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, (off_t)BLOCKS * BLOCK), 0);
		assert_int_equal(close(fd), 0);
		assert_int_equal(rig_limited_file(&(struct file_options){ .name = names[i],
									  .filename = files[i].path,
									  .kind = FILE_KIND_VOLUME,
									  .block_bytes = BLOCK,
									  .uuid = { (uint8_t)(i + 1) } },
						  limit, &why),
				 0);
		files[i].desc = rig_open(names[i]);
		files[i].channel = rig_channel_get(rig_thread(0), files[i].desc);
	}
	return 0;
}

static int setup(void **state)
{
	(void)rig_setup(state); /* returns 0 */
	return setup_files();
}

/* Real reactors and helper pthreads. */
static int setup_real(void **state)
{
	rig_start(false);
	return setup_files();
}

static int teardown(void **state)
{
	hang_call(&hanging_seek, NULL); /* also after an assertion */
	for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
		rig_channel_put(rig_thread(0), files[i].channel);
		rig_close(files[i].desc);
		rig_delete(names[i]);
		assert_int_equal(unlink(files[i].path), 0);
	}
	rig_on(thread_control(), do_drop, NULL);
	return rig_teardown(state);
}

static enum io_status run(int file, enum io_type type, uint64_t block, uint64_t count)
{
	return rig_io(rig_thread(0), files[file].channel, type, buffer, block, count);
}

static void a_file_at_its_limit_keeps_what_it_has_and_goes_on_when_there_is_space(void **state)
{
	set_kind("p/a", FILE_LIMIT_NEW);
	space_limit_set(limit, 0, 4 * BLOCK);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 4), IO_SUCCESS);
	assert_int_equal(space_limit_mark(limit), 4 * BLOCK);
	assert_int_equal(run(0, IO_TYPE_WRITE, 8, 1), IO_NO_SPACE);
	assert_int_equal(run(0, IO_TYPE_WRITE_ZEROES, 8, 1), IO_NO_SPACE);
	assert_int_equal(run(0, IO_TYPE_READ, 8, 1), IO_SUCCESS);
	assert_int_equal(run(0, IO_TYPE_FLUSH, 0, 0), IO_SUCCESS);
	assert_int_equal(run(0, IO_TYPE_UNMAP, 0, 1), IO_SUCCESS);
	space_limit_set(limit, space_limit_mark(limit), BLOCK); /* the next reading */
	assert_int_equal(run(0, IO_TYPE_WRITE, 8, 1), IO_SUCCESS);
	assert_int_equal(run(0, IO_TYPE_WRITE, 9, 1), IO_NO_SPACE);
}

static bool knows_holes(const char *path)
{
	int fd = open(path, O_RDWR);
	bool knows;

	must(fd >= 0 && pwrite(fd, buffer, BLOCK, 0) == BLOCK && fsync(fd) == 0);
	knows = lseek(fd, 0, SEEK_HOLE) == BLOCK;
	must(close(fd) == 0);
	return knows;
}

static void a_write_takes_all_its_bytes_of_a_large_limit_and_only_holes_of_a_small_one(void **state)
{
	if (!knows_holes(files[0].path))
		skip();
	set_kind("p/a", FILE_LIMIT_NEW);
	space_limit_set(limit, 0, SPACE_LIMIT_LARGE_BYTES);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 2), IO_SUCCESS);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 1), IO_SUCCESS);
	assert_int_equal(space_limit_mark(limit), 3 * BLOCK);
	space_limit_set(limit, space_limit_mark(limit), 4 * BLOCK);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 1), IO_SUCCESS);
	assert_int_equal(space_limit_mark(limit), 3 * BLOCK);
}

static void only_blocks_that_are_missing_count(void **state)
{
	if (!knows_holes(files[0].path))
		skip();
	set_kind("p/a", FILE_LIMIT_NEW);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 2), IO_SUCCESS);
	assert_int_equal(run(0, IO_TYPE_WRITE, 4, 2), IO_SUCCESS);
	space_limit_set(limit, 0, 3 * BLOCK);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 2), IO_SUCCESS);
	assert_int_equal(space_limit_mark(limit), 0);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 7), IO_SUCCESS); /* two holes, of two blocks and of one */
	assert_int_equal(space_limit_mark(limit), 3 * BLOCK);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 7), IO_SUCCESS);
	assert_int_equal(run(0, IO_TYPE_WRITE, 6, 2), IO_NO_SPACE);
	set_kind("p/a", FILE_LIMIT_ALL);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 1), IO_NO_SPACE);
}

static void another_write_to_the_same_blocks_may_end_meanwhile(void **state)
{
	set_kind("p/a", FILE_LIMIT_NEW);
	space_limit_set(limit, 0, 8 * BLOCK);
	atomic_store(&is_overtaken, true);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 2), IO_SUCCESS);
	assert_int_equal(space_limit_mark(limit), 2 * BLOCK); /* they were looked at once more */
	atomic_store(&is_overtaken, false);		      /* if the file system does not know holes */
}

/* One reactor has both files. The search for holes of p/a hangs: p/b goes on, and p/a can be read. */
static void a_search_for_holes_that_hangs_stops_no_other_io(void **state)
{
	uint8_t other[BLOCK] __attribute__((aligned(BLOCK)));
	struct rig_io writes[2];

	set_kind("p/a", FILE_LIMIT_NEW);
	set_kind("p/b", FILE_LIMIT_NEW);
	space_limit_set(limit, 0, 64 * BLOCK);
	hang_call(&hanging_seek, files[0].path);
	for (size_t i = 0; i < ARRAY_COUNT(writes); i++) {
		rig_io_init(&writes[i], rig_thread(0), files[0].channel);
		rig_io_begin(&writes[i], i == 0 ? IO_TYPE_WRITE : IO_TYPE_WRITE_ZEROES, i == 0 ? buffer : NULL, 8 * i, 4);
	}
	wait_for_hung_calls(&hanging_seek, ARRAY_COUNT(writes));
	for (uint64_t block = 0; block < 8; block++)
		assert_int_equal(run(1, IO_TYPE_WRITE, block, 1), IO_SUCCESS);
	assert_int_equal(rig_io(rig_thread(0), files[0].channel, IO_TYPE_READ, other, 0, 1), IO_SUCCESS);
	assert_int_equal(__atomic_load_n(&writes[0].done, __ATOMIC_ACQUIRE), 0);
	assert_int_equal(__atomic_load_n(&writes[1].done, __ATOMIC_ACQUIRE), 0);
	hang_call(&hanging_seek, NULL);
	for (size_t i = 0; i < ARRAY_COUNT(writes); i++)
		assert_int_equal(rig_io_end(&writes[i]), IO_SUCCESS);
	space_limit_set(limit, 0, 0);
	assert_int_equal(run(0, IO_TYPE_WRITE, 100, 1), IO_NO_SPACE);
}

/* As what copies into a file without a block device. */
static void a_copy_takes_the_blocks_that_are_missing(void **state)
{
	int fd;

	if (!knows_holes(files[1].path))
		skip();
	fd = open(files[1].path, O_RDWR);
	must(fd >= 0);
	assert_true(space_limit_take_missing(limit, fd, 0, 16 * BLOCK)); /* nothing is counted */
	space_limit_set(limit, 0, 2 * BLOCK);
	assert_true(space_limit_take_missing(limit, fd, 0, 3 * BLOCK));
	assert_int_equal(space_limit_mark(limit), 2 * BLOCK);
	assert_true(space_limit_take_missing(limit, fd, 0, BLOCK));
	assert_false(space_limit_take_missing(limit, fd, 0, 2 * BLOCK));
	must(close(fd) == 0);
}

static void do_get_sums(void *ctx)
{
	file_get_sums(bdev_find("p/c"), ctx);
}

/* A volume with checksums: after a refusal they still fit its data. */
static void a_refused_write_leaves_its_region_trusted(void **state)
{
	char path[] = "/tmp/fathom-limit-sums-XXXXXX";
	struct file_sums_info info;
	struct fathom_fault why = { 0 };
	struct bdev_channel *channel;
	struct bdev_desc *desc;
	int fd = mkstemp(path);

	must(fd >= 0 && ftruncate(fd, (off_t)sums_file_bytes(BLOCKS * BLOCK)) == 0 && close(fd) == 0);
	assert_int_equal(rig_limited_file(&(struct file_options){ .name = "p/c",
								  .filename = files[0].path,
								  .sums_filename = path,
								  .kind = FILE_KIND_VOLUME,
								  .block_bytes = BLOCK,
								  .uuid = { 9 } },
					  limit, &why),
			 0);
	desc = rig_open("p/c");
	channel = rig_channel_get(rig_thread(0), desc);
	set_kind("p/c", FILE_LIMIT_ALL);
	assert_int_equal(rig_io(rig_thread(0), channel, IO_TYPE_WRITE, buffer, 0, 2), IO_SUCCESS);
	space_limit_set(limit, 0, 0);
	assert_int_equal(rig_io(rig_thread(0), channel, IO_TYPE_WRITE, buffer, 1, 2), IO_NO_SPACE);
	assert_int_equal(rig_io(rig_thread(0), channel, IO_TYPE_WRITE_ZEROES, NULL, 0, 1), IO_NO_SPACE);
	rig_on(thread_control(), do_get_sums, &info);
	assert_int_equal(info.marked, 1);
	assert_int_equal(info.suspect, 0);
	space_limit_set(limit, 0, SPACE_LIMIT_NONE);
	assert_int_equal(rig_io(rig_thread(0), channel, IO_TYPE_WRITE, buffer, 1, 2), IO_SUCCESS);
	assert_int_equal(rig_io(rig_thread(0), channel, IO_TYPE_READ, buffer, 0, 3), IO_SUCCESS);
	rig_channel_put(rig_thread(0), channel);
	rig_close(desc);
	rig_delete("p/c");
	assert_int_equal(unlink(path), 0);
}

static void another_file_is_not_affected(void **state)
{
	set_kind("p/a", FILE_LIMIT_NEW);
	space_limit_set(limit, 0, 0);
	assert_int_equal(run(0, IO_TYPE_WRITE, 0, 1), IO_NO_SPACE);
	assert_int_equal(run(1, IO_TYPE_WRITE, 0, 16), IO_SUCCESS);
	set_kind("p/b", FILE_LIMIT_ALL);
	assert_int_equal(run(1, IO_TYPE_WRITE, 0, 16), IO_NO_SPACE);
	set_kind("p/b", FILE_LIMIT_NONE);
	assert_int_equal(run(1, IO_TYPE_WRITE, 0, 16), IO_SUCCESS);
}

#define FILES(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_refused_without_a_limit),
		cmocka_unit_test(the_limit_is_used_to_the_last_byte_and_a_refusal_takes_nothing),
		cmocka_unit_test(what_is_taken_since_the_mark_counts_against_the_new_limit),
		cmocka_unit_test(half_of_a_large_limit_can_be_taken_without_knowing_holes),
		FILES(a_file_at_its_limit_keeps_what_it_has_and_goes_on_when_there_is_space),
		FILES(a_write_takes_all_its_bytes_of_a_large_limit_and_only_holes_of_a_small_one),
		FILES(only_blocks_that_are_missing_count),
		FILES(another_write_to_the_same_blocks_may_end_meanwhile),
		cmocka_unit_test_setup_teardown(a_search_for_holes_that_hangs_stops_no_other_io, setup_real, teardown),
		FILES(a_copy_takes_the_blocks_that_are_missing),
		FILES(a_refused_write_leaves_its_region_trusted),
		FILES(another_file_is_not_affected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
