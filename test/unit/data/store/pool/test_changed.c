/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changed ranges: from maps that the test makes and, as root, from those of files on an XFS image,
 * compared with the bytes of the files.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "data/store/pool/changed.h"
#include "../volume/xfs_image.h"

enum { KIB = 1024, BLOCK = 4 * KIB, FILE_BLOCKS = 128, FILE_BYTES = FILE_BLOCKS * BLOCK, EXTENTS = 8, MANY = 40000 };

/* ---- maps that the test makes: descriptors are indexes ---- */

static struct pool_extent maps[2][EXTENTS];
static uint32_t calls_made;
static int map_error;
static bool is_long; /* file 1 has MANY extents, which file 0 shares */

static int long_map(int fd, uint64_t offset, struct pool_extent *extents, uint32_t extents_max)
{
	uint64_t index = offset / BLOCK;
	uint32_t count = 0;

	for (; count < extents_max && index < MANY; index++, count++)
		extents[count] = (struct pool_extent){ index * BLOCK, BLOCK, 7 * index * BLOCK, true, true };
	return (int)count;
}

static int fake_map(void *ctx, int fd, uint64_t offset, struct pool_extent *extents, uint32_t extents_max)
{
	uint32_t count = 0;

	calls_made++;
	if (map_error)
		return map_error;
	if (is_long)
		return long_map(fd, offset, extents, extents_max);
	for (int i = 0; i < EXTENTS && count < extents_max; i++) {
		const struct pool_extent *extent = &maps[fd][i];

		if (extent->bytes > 0 && extent->offset + extent->bytes > offset)
			extents[count++] = *extent;
	}
	return (int)count;
}

static const struct pool_fs fake = { .map = fake_map };

static struct changed_range ranges[CHANGED_RANGES_MAX];
static uint32_t range_count;
static uint64_t next;

static int read_fake(int from, uint64_t from_bytes, uint64_t offset, uint32_t ranges_max)
{
	const struct changed_query query = {
		.from = from,
		.from_bytes = from_bytes,
		.to = 1,
		.to_bytes = is_long ? (uint64_t)MANY * BLOCK : 64 * KIB,
		.offset = offset,
		.ranges_max = ranges_max,
	};
	struct fathom_fault why;
	int error = changed_read(&fake, &query, ranges, &range_count, &next, &why);

	must(!error || strlen(why.text) > 0);
	return error;
}

static void assert_range(uint32_t index, uint64_t offset, uint64_t bytes, bool is_zero)
{
	assert_true(index < range_count);
	assert_int_equal(ranges[index].offset, offset);
	assert_int_equal(ranges[index].bytes, bytes);
	assert_int_equal(ranges[index].is_zero, is_zero);
}

static int begin(void **state)
{
	memset(maps, 0, sizeof(maps));
	map_error = 0;
	is_long = false;
	return 0;
}

static struct pool_extent data_at(uint64_t offset, uint64_t bytes, uint64_t physical)
{
	return (struct pool_extent){ offset, bytes, physical, true, true };
}

static void shared_blocks_are_equal_and_others_are_changed(void **state)
{
	maps[0][0] = data_at(0, 32 * KIB, 1000 * KIB);
	maps[1][0] = data_at(0, 8 * KIB, 1000 * KIB);
	maps[1][1] = data_at(8 * KIB, 4 * KIB, 5000 * KIB);  /* written again */
	maps[1][2] = data_at(12 * KIB, 4 * KIB, 1012 * KIB); /* the same block as before, in another extent */
	maps[1][3] = data_at(16 * KIB, 16 * KIB, 1016 * KIB);
	assert_int_equal(read_fake(0, 64 * KIB, 0, 10), 0);
	assert_int_equal(range_count, 1);
	assert_range(0, 8 * KIB, 4 * KIB, false);
	assert_int_equal(next, 64 * KIB);
}

static void blocks_that_are_not_shared_are_changed_wherever_they_are(void **state)
{
	maps[0][0] = maps[1][0] = data_at(0, 8 * KIB, 1000 * KIB);
	maps[0][0].is_shared = false;
	assert_int_equal(read_fake(0, 64 * KIB, 0, 10), 0);
	assert_int_equal(range_count, 1);
	assert_range(0, 0, 8 * KIB, false);
}

static void a_hole_equals_blocks_that_were_never_written(void **state)
{
	maps[0][0] = (struct pool_extent){ 0, 8 * KIB, 1000 * KIB, false, false };
	maps[1][0] = (struct pool_extent){ 4 * KIB, 8 * KIB, 2000 * KIB, false, false };
	assert_int_equal(read_fake(0, 64 * KIB, 0, 10), 0);
	assert_int_equal(range_count, 0);
	maps[0][0].is_data = true; /* its data were removed since */
	assert_int_equal(read_fake(0, 64 * KIB, 0, 10), 0);
	assert_int_equal(range_count, 1);
	assert_range(0, 0, 8 * KIB, true);
}

static void without_an_older_file_the_data_are_listed(void **state)
{
	maps[1][0] = data_at(4 * KIB, 4 * KIB, 1000 * KIB);
	maps[1][1] = data_at(8 * KIB, 4 * KIB, 3000 * KIB);
	maps[1][2] = data_at(60 * KIB, 8 * KIB, 4000 * KIB); /* beyond the end */
	assert_int_equal(read_fake(-1, 0, 0, 10), 0);
	assert_int_equal(range_count, 2);
	assert_range(0, 4 * KIB, 8 * KIB, false);
	assert_range(1, 60 * KIB, 4 * KIB, false);
}

static void behind_the_end_of_the_older_file_are_zeroes(void **state)
{
	maps[0][0] = maps[1][0] = data_at(0, 64 * KIB, 1000 * KIB);
	assert_int_equal(read_fake(0, 10 * KIB, 0, 10), 0);
	assert_int_equal(range_count, 1);
	assert_range(0, 10 * KIB, 54 * KIB, false);
}

static void parts_of_the_list_are_together_the_whole_list(void **state)
{
	uint64_t offset = 0;
	uint32_t parts = 0;

	for (uint32_t i = 0; i < 7; i++)
		maps[1][i] = data_at(i * 8 * KIB, 4 * KIB, (1000 + i * 100) * KIB);
	while (offset < 64 * KIB) {
		assert_int_equal(read_fake(-1, 0, offset, 1), 0);
		assert_true(next > offset);
		if (parts < 7) {
			assert_int_equal(range_count, 1);
			assert_range(0, parts * 8 * KIB, 4 * KIB, false);
		}
		offset = next;
		parts++;
	}
	assert_int_equal(offset, 64 * KIB);
	assert_in_range(parts, 7, 8);
}

static void one_call_reads_a_limited_number_of_extents(void **state)
{
	uint64_t offset = 0;
	uint32_t parts = 0;

	is_long = true;
	while (offset < (uint64_t)MANY * BLOCK) {
		calls_made = 0;
		assert_int_equal(read_fake(0, (uint64_t)MANY * BLOCK, offset, 10), 0);
		assert_int_equal(range_count, 0);
		assert_true(next > offset);
		assert_true(calls_made <= 40);
		offset = next;
		parts++;
	}
	assert_in_range(parts, 2, 10);
}

static void an_error_of_a_map_is_explained(void **state)
{
	map_error = -EOPNOTSUPP;
	assert_int_equal(read_fake(0, 64 * KIB, 0, 10), -EOPNOTSUPP);
}

/* ---- files on XFS ---- */

static char root[] = "/tmp/fathom-changed-XXXXXX";
static bool on_xfs;

enum { GENERATIONS = 24 };

/* One random change of a file: written through the page cache or around it, punched, allocated. */
static void change_file(int fd, unsigned int *seed)
{
	static uint8_t bytes[16 * BLOCK] __attribute__((aligned(BLOCK)));
	off_t offset = (off_t)(rand_r(seed) % (FILE_BLOCKS - 16)) * BLOCK;
	size_t length = (size_t)(1 + rand_r(seed) % 16) * BLOCK;

	memset(bytes, 1 + rand_r(seed) % 255, length);
	switch (rand_r(seed) % 5) {
	case 0:
		must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, (off_t)length) == 0);
		break;
	case 1:
		must(fallocate(fd, 0, offset, (off_t)length) == 0);
		break;
	case 2:
		must(fcntl(fd, F_SETFL, O_DIRECT) == 0);
		must(pwrite(fd, bytes, length, offset) == (ssize_t)length);
		must(fcntl(fd, F_SETFL, 0) == 0);
		break;
	default: /* also a part of a block; not synced */
		must(pwrite(fd, bytes, length - 100, offset + 50) == (ssize_t)length - 100);
	}
}

static void read_bytes(int fd, uint8_t *bytes)
{
	must(pread(fd, bytes, FILE_BYTES, 0) == FILE_BYTES);
}

/* Whether each block that differs is in the list; `*listed_ret`: bytes in it. */
static void compare_files(int from, int to, unsigned int *seed, uint64_t *listed_ret)
{
	static uint8_t old[FILE_BYTES], new[FILE_BYTES];
	static bool is_listed[FILE_BLOCKS], is_zero[FILE_BLOCKS];
	struct changed_query query = { .from = from, .from_bytes = FILE_BYTES, .to = to, .to_bytes = FILE_BYTES };
	struct fathom_fault why;

	memset(is_listed, 0, sizeof(is_listed));
	*listed_ret = 0;
	while (query.offset < FILE_BYTES) {
		query.ranges_max = 1 + (uint32_t)rand_r(seed) % 8;
		assert_int_equal(changed_read(pool_fs_system(), &query, ranges, &range_count, &next, &why), 0);
		for (uint32_t i = 0; i < range_count; i++) {
			assert_true(ranges[i].offset >= query.offset && ranges[i].offset + ranges[i].bytes <= next);
			*listed_ret += ranges[i].bytes;
			for (uint64_t at = ranges[i].offset; at < ranges[i].offset + ranges[i].bytes; at += BLOCK) {
				is_listed[at / BLOCK] = true;
				is_zero[at / BLOCK] = ranges[i].is_zero;
			}
		}
		query.offset = next;
	}
	memset(old, 0, sizeof(old));
	if (from >= 0)
		read_bytes(from, old);
	read_bytes(to, new);
	for (int i = 0; i < FILE_BLOCKS; i++) {
		const uint8_t *block = new + i *BLOCK;
		bool has_data = block[0] != 0 || memcmp(block, block + 1, BLOCK - 1) != 0;

		if (memcmp(old + i * BLOCK, block, BLOCK) != 0)
			assert_true(is_listed[i]);
		if (is_listed[i] && is_zero[i])
			assert_false(has_data);
	}
}

static int open_new(const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(fd >= 0);
	must(ftruncate(fd, FILE_BYTES) == 0);
	return fd;
}

static void each_block_that_differs_is_in_the_list(void **state)
{
	int live, snapshots[GENERATIONS];
	unsigned int seed = 14;
	uint64_t listed;
	char name[16];

	if (!on_xfs)
		skip();
	live = open_new("live");
	for (int i = 0; i < GENERATIONS; i++) {
		for (int count = rand_r(&seed) % 6; count > 0; count--)
			change_file(live, &seed);
		snprintf(name, sizeof(name), "s%d", i);
		snapshots[i] = open_new(name);
		must(pool_fs_system()->clone(NULL, snapshots[i], live, 0, FILE_BYTES) == 0);
	}
	for (int i = 0; i < GENERATIONS; i++) {
		compare_files(-1, snapshots[i], &seed, &listed);
		compare_files(snapshots[i], live, &seed, &listed);
		for (int j = 0; j < GENERATIONS; j++)
			compare_files(snapshots[i], snapshots[j], &seed, &listed);
	}
	compare_files(snapshots[GENERATIONS - 1], live, &seed, &listed);
	assert_int_equal(listed, 0);
	change_file(live, &seed);
	compare_files(snapshots[GENERATIONS - 1], live, &seed, &listed);
	assert_true(listed <= 17 * BLOCK);
	for (int i = 0; i < GENERATIONS; i++)
		must(close(snapshots[i]) == 0);
	must(close(live) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup(name, begin)
		CASE(shared_blocks_are_equal_and_others_are_changed),
		CASE(blocks_that_are_not_shared_are_changed_wherever_they_are),
		CASE(a_hole_equals_blocks_that_were_never_written),
		CASE(without_an_older_file_the_data_are_listed),
		CASE(behind_the_end_of_the_older_file_are_zeroes),
		CASE(parts_of_the_list_are_together_the_whole_list),
		CASE(one_call_reads_a_limited_number_of_extents),
		CASE(an_error_of_a_map_is_explained),
		CASE(each_block_that_differs_is_in_the_list),
#undef CASE
	};
	char command[128];
	int failed;

	must(mkdtemp(root));
	on_xfs = xfs_mount(root);
	failed = cmocka_run_group_tests_name("pool changed", tests, NULL, NULL);
	if (on_xfs)
		must(umount2(root, MNT_DETACH) == 0);
	snprintf(command, sizeof(command), "rm -rf %s %s.img", root, root);
	must(system(command) == 0);
	return failed;
}
