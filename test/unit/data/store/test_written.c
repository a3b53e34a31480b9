/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks of what was written: random changes and reads that overlap never cause an alarm, whatever their order on the disk;
 * a block that changed below is found. First the table alone, on a simulated disk of sectors, then files.
 */
#include "rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/store/backend/written.h"
#include "model.h"

enum { SECTOR = 512, BLOCK = WRITTEN_BLOCK_BYTES, PER_BLOCK = BLOCK / SECTOR, BLOCKS = 96, SECTORS = BLOCKS * PER_BLOCK };
enum { IN_FLIGHT = 12, LENGTH_MAX = 40, STEPS = 6000, SEEDS = 8 };

/* ---- a simulated disk ---- */

static uint32_t disk[SECTORS]; /* the value of each sector */

/* An I/O: each of its sectors reaches the disk, or is read from it, at a moment of its own. */
struct op {
	bool is_used, is_read, has_data;
	struct written_range range;
	uint64_t id;
	uint32_t value, first, count, done;
	bool is_done[LENGTH_MAX];
	uint8_t data[LENGTH_MAX * SECTOR];
};

static struct op ops[IN_FLIGHT];

static void fill_sector(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < SECTOR; i += 4)
		memcpy(to + i, &value, 4);
}

static void do_sector(struct op *op, uint32_t i)
{
	if (op->is_done[i])
		return;
	op->is_done[i] = true;
	op->done++;
	if (op->is_read)
		fill_sector(op->data + i * SECTOR, disk[op->first + i]);
	else
		disk[op->first + i] = op->has_data ? op->value + i : 0;
}

static void begin_op(struct written *written, struct op *op, struct random *random)
{
	static uint32_t values;

	memset(op, 0, sizeof(*op));
	op->is_used = true;
	op->count = 1 + (uint32_t)random_below(random, LENGTH_MAX);
	op->first = (uint32_t)random_below(random, SECTORS - op->count + 1);
	if (random_below(random, 2)) { /* as most I/Os: whole blocks */
		op->first -= op->first % PER_BLOCK;
		op->count = PER_BLOCK * (1 + op->count / 2 / PER_BLOCK);
		op->first = (uint32_t)min_u64(op->first, SECTORS - op->count);
	}
	op->is_read = random_below(random, 5) < 2;
	op->has_data = !op->is_read && random_below(random, 8) > 0;
	op->range = (struct written_range){ (uint64_t)op->first * SECTOR, (uint64_t)op->count * SECTOR };
	op->value = values += 1000;
	for (uint32_t i = 0; op->has_data && i < op->count; i++)
		fill_sector(op->data + i * SECTOR, op->value + i);
	op->id = op->is_read ? written_begin_read(written) : written_begin_change(written, &op->range);
}

/* Vectors of several pieces, as hosts have them. */
static void cut(struct op *op, struct iovec iov[4], struct random *random)
{
	size_t at = 0, bytes = op->range.bytes;

	for (int i = 0; i < 4; i++) {
		size_t part = i == 3 ? bytes - at : (size_t)random_below(random, bytes - at + 1);

		iov[i] = (struct iovec){ op->data + at, part };
		at += part;
	}
}

static void end_op(struct written *written, struct op *op, struct random *random)
{
	bool has_failed = random_below(random, 20) == 0; /* then a part of it is on the disk */
	struct iovec iov[4];
	uint64_t block;

	cut(op, iov, random);
	for (uint32_t i = 0; i < op->count; i++) {
		if (op->is_read || !has_failed)
			do_sector(op, i);
	}
	if (op->is_read)
		assert_true(written_check(written, op->id, &op->range, iov, &block));
	else
		written_end_change(written, op->id, &op->range, op->has_data && !has_failed ? iov : NULL);
	op->is_used = false;
}

static void run_randomly(uint64_t seed, uint32_t blocks, uint32_t in_flight)
{
	struct written *written = written_create(blocks);
	struct file_written_info info;
	struct random random;

	assert_non_null(written);
	random_init(&random, seed);
	memset(disk, 0, sizeof(disk));
	for (int step = 0; step < STEPS; step++) {
		struct op *op = &ops[random_below(&random, in_flight)];

		if (!op->is_used)
			begin_op(written, op, &random);
		else if (random_below(&random, 4) == 0)
			end_op(written, op, &random);
		else
			do_sector(op, (uint32_t)random_below(&random, op->count));
	}
	for (int i = 0; i < IN_FLIGHT; i++) {
		if (ops[i].is_used)
			end_op(written, &ops[i], &random);
	}
	written_get(written, &info);
	assert_int_equal(info.mismatches, 0);
	assert_true(info.recorded > 20);
	assert_true(info.checked > 5);
	written_destroy(written);
}

static void overlapping_io_never_causes_an_alarm(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		run_randomly(seed, seed % 2 ? 64 : 4096, seed % 2 ? 3 : IN_FLIGHT);
}

/* ---- single cases ---- */

static uint8_t one[BLOCK], other[BLOCK];
static const struct iovec iov_one = { one, BLOCK }, iov_other = { other, BLOCK };

static struct written_range block_range(uint64_t block)
{
	return (struct written_range){ block * BLOCK, BLOCK };
}

static void write_block(struct written *written, uint64_t block, const struct iovec *iov)
{
	struct written_range range = block_range(block);

	written_end_change(written, written_begin_change(written, &range), &range, iov);
}

/* What a read of the block that returns `iov` leads to. */
static bool is_right(struct written *written, uint64_t block, const struct iovec *iov)
{
	struct written_range range = block_range(block);
	uint64_t bad;
	bool right = written_check(written, written_begin_read(written), &range, iov, &bad);

	assert_true(right || bad == block);
	return right;
}

static struct written *begin(void)
{
	struct written *written = written_create(4096);

	assert_non_null(written);
	memset(one, 1, sizeof(one));
	memset(other, 2, sizeof(other));
	return written;
}

static void a_changed_block_is_found_counted_and_named(void **state)
{
	uint64_t blocks[FILE_MISMATCHES_MAX];
	struct written *written = begin();
	struct file_written_info info;

	write_block(written, 7, &iov_one);
	write_block(written, 8, &iov_other);
	assert_true(is_right(written, 7, &iov_one));
	assert_false(is_right(written, 7, &iov_other));
	assert_false(is_right(written, 7, &iov_other)); /* it stays */
	assert_true(is_right(written, 9, &iov_one));	/* never written */
	written_get(written, &info);
	assert_int_equal(info.mismatches, 2);
	assert_int_equal(info.checked, 3);
	assert_int_equal(info.recorded, 2);
	assert_int_equal(written_take_bad(written, blocks), 1);
	assert_int_equal(blocks[0], 7);
	assert_int_equal(written_take_bad(written, blocks), 0);
	write_block(written, 7, &iov_other); /* overwritten: right again */
	assert_true(is_right(written, 7, &iov_other));
	written_destroy(written);
}

static void a_change_without_known_content_removes_the_entry(void **state)
{
	struct written *written = begin();
	struct written_range part = { 7 * BLOCK + SECTOR, SECTOR };

	write_block(written, 7, &iov_one);
	write_block(written, 7, NULL); /* failed, unmapped, zeroed */
	assert_true(is_right(written, 7, &iov_other));
	write_block(written, 7, &iov_one);
	written_end_change(written, written_begin_change(written, &part), &part, &iov_one);
	assert_true(is_right(written, 7, &iov_other));
	write_block(written, 7, &iov_one);
	written_forget(written);
	assert_true(is_right(written, 7, &iov_other));
	written_destroy(written);
}

static void writes_in_progress_together_make_no_entry(void **state)
{
	struct written *written = begin();
	struct written_range range = block_range(7);
	uint64_t a = written_begin_change(written, &range), b = written_begin_change(written, &range);

	written_end_change(written, a, &range, &iov_one);
	written_end_change(written, b, &range, &iov_other);
	assert_true(is_right(written, 7, &iov_one)); /* the disk may have either */
	assert_true(is_right(written, 7, &iov_other));
	written_destroy(written);
}

static void a_read_is_compared_only_with_writes_that_ended_before_it(void **state)
{
	struct written *written = begin();
	struct written_range range = block_range(7);
	uint64_t read = written_begin_read(written), bad;

	write_block(written, 7, &iov_one);
	assert_true(written_check(written, read, &range, &iov_other, &bad));
	read = written_begin_read(written);
	write_block(written, 7, &iov_one);
	assert_true(written_check(written, read, &range, &iov_other, &bad));
	written_destroy(written);
}

static void a_change_of_everything_removes_everything(void **state)
{
	struct written *written = begin();
	struct written_range all = { 0, 1ull << 40 };
	uint64_t id;

	write_block(written, 7, &iov_one);
	id = written_begin_change(written, &all);
	write_block(written, 8, &iov_one); /* beside it: unknown */
	written_end_change(written, id, &all, NULL);
	assert_true(is_right(written, 7, &iov_other));
	assert_true(is_right(written, 8, &iov_other));
	write_block(written, 8, &iov_one);
	assert_false(is_right(written, 8, &iov_other));
	written_destroy(written);
}

static void the_oldest_of_a_bucket_is_dropped(void **state)
{
	struct written *written = written_create(64); /* 8 buckets of 8 */
	int found = 0;

	assert_non_null(written);
	memset(one, 1, sizeof(one));
	for (uint64_t i = 0; i < 12; i++)
		write_block(written, i * 8, &iov_one); /* all in one bucket */
	for (uint64_t i = 0; i < 12; i++)
		found += !is_right(written, i * 8, &iov_other);
	assert_int_equal(found, 8);
	assert_false(is_right(written, 11 * 8, &iov_other));
	assert_true(is_right(written, 0, &iov_other));
	written_destroy(written);
}

/* ---- files ---- */

static char path[64];

static int setup(void **state)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/fathom-written-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 8 << 20), 0);
	close(fd);
	rig_start(false);
	file_keep_written(1024);
	return 0;
}

static int teardown(void **state)
{
	file_keep_written(0);
	rig_stop();
	return unlink(path);
}

static void create(uint32_t block_bytes)
{
	struct fathom_fault why = { 0 };

	if (rig_file(&(struct file_options){ .name = "f", .filename = path, .block_bytes = block_bytes }, &why) < 0)
		fail_msg("%s", why.text);
}

static void random_io_on_a_file_agrees_with_the_model(void **state)
{
	struct file_written_info info;

	create(4096);
	model_run("f",
		  &(struct model_options){
			  .seed = 5, .ops = 3000, .depth = 32, .blocks_max = 24, .iov_count_max = 20, .cut_bytes = 16 });
	file_get_written(rig_find("f"), &info);
	assert_int_equal(info.mismatches, 0);
	assert_true(info.checked > 100);
	rig_delete("f");
}

static void corrupt(off_t at)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	uint8_t byte = 0xee;

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	assert_int_equal(fsync(fd), 0);
	close(fd);
}

static void a_file_that_changes_below_the_engine_fails_reads(void **state)
{
	static uint8_t buffer[16 * 4096] __attribute__((aligned(4096)));
	uint64_t blocks[FILE_MISMATCHES_MAX];
	struct bdev_channel *channel;
	struct fathom_thread *thread = rig_thread(0);
	struct bdev_desc *desc;

	create(512);
	desc = rig_open("f");
	channel = rig_channel_get(thread, desc);
	memset(buffer, 7, sizeof(buffer));
	assert_int_equal(rig_io(thread, channel, IO_TYPE_WRITE, buffer, 0, 128), IO_SUCCESS);
	corrupt(5 * 4096 + 1000);
	assert_int_equal(rig_io(thread, channel, IO_TYPE_READ, buffer, 0, 40), IO_SUCCESS);	/* blocks 0 to 4 */
	assert_int_equal(rig_io(thread, channel, IO_TYPE_READ, buffer, 40, 8), IO_MEDIA_ERROR); /* block 5 */
	assert_int_equal(rig_io(thread, channel, IO_TYPE_READ, buffer, 48, 80), IO_SUCCESS);
	assert_int_equal(file_take_changed(rig_find("f"), blocks), 1);
	assert_int_equal(blocks[0], 40); /* an LBA */
	memset(buffer, 8, sizeof(buffer));
	assert_int_equal(rig_io(thread, channel, IO_TYPE_WRITE, buffer, 40, 8), IO_SUCCESS);
	assert_int_equal(rig_io(thread, channel, IO_TYPE_READ, buffer, 40, 8), IO_SUCCESS);
	corrupt(5 * 4096);
	assert_int_equal(rig_io(thread, channel, IO_TYPE_UNMAP, NULL, 40, 8), IO_SUCCESS);
	corrupt(5 * 4096);
	assert_int_equal(rig_io(thread, channel, IO_TYPE_READ, buffer, 40, 8), IO_SUCCESS); /* unmapped: not known */
	rig_channel_put(thread, channel);
	rig_close(desc);
	rig_delete("f");
}

static void other_kinds_and_a_normal_engine_keep_nothing(void **state)
{
	rig_malloc("m", 64, 4096);
	assert_false(file_keeps_written(rig_find("m")));
	rig_delete("m");
	file_keep_written(0);
	create(4096);
	assert_false(file_keeps_written(rig_find("f")));
	file_forget_written(rig_find("f")); /* nothing to forget */
	rig_delete("f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlapping_io_never_causes_an_alarm),
		cmocka_unit_test(a_changed_block_is_found_counted_and_named),
		cmocka_unit_test(a_change_without_known_content_removes_the_entry),
		cmocka_unit_test(writes_in_progress_together_make_no_entry),
		cmocka_unit_test(a_read_is_compared_only_with_writes_that_ended_before_it),
		cmocka_unit_test(a_change_of_everything_removes_everything),
		cmocka_unit_test(the_oldest_of_a_bucket_is_dropped),
		cmocka_unit_test_setup_teardown(random_io_on_a_file_agrees_with_the_model, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_changes_below_the_engine_fails_reads, setup, teardown),
		cmocka_unit_test_setup_teardown(other_kinds_and_a_normal_engine_keep_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
