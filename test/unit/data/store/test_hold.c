/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes that wait, region by region: data/store/bdev/hold.h. A device of 100 blocks, in regions of 8. */
#include <errno.h>
#include <string.h>

#include "data/store/bdev/hold.h"
#include "rig.h"
#include "tricky.h"

enum { REGION_BLOCKS = 8, BLOCKS = 100, REGIONS = 13, WANTED_MAX = 64, RANDOM_IOS = 24, RANDOM_TURNS = 400 };

static struct {
	struct bdev_hold *hold;
	struct bdev_regions run;
	uint32_t held, opened, confirmed, ended;
	int held_error;
	bool exact;
	struct bdev_regions wanted[WANTED_MAX];
	uint32_t wanted_count;
	int begin_error;
	bool all;
} self;

/* ---- the control thread's side ---- */

static void note_held(void *ctx, int error)
{
	must_be_on(thread_control());
	self.held++;
	self.held_error = error;
}

static void note_wanted(void *ctx, uint64_t region, uint64_t count)
{
	must(self.wanted_count < WANTED_MAX);
	self.wanted[self.wanted_count++] = (struct bdev_regions){ region, count };
}

static void note_ended(void *ctx, bool exact)
{
	self.ended++;
	self.exact = exact;
	self.hold = NULL;
}

static void note_opened(void *ctx)
{
	self.opened++;
}

static const struct bdev_hold_calls calls = { note_held, note_wanted, note_ended };

static void control_begin(void *ctx)
{
	const struct bdev_hold_options options = { REGION_BLOCKS, self.all, &calls, NULL };
	struct bdev_hold *hold;

	self.begin_error = bdev_hold_begin(bdev_find("t"), &options, &hold);
	if (!self.begin_error)
		self.hold = hold;
}

static void control_open(void *ctx)
{
	bdev_hold_open(self.hold, &self.run, 1, note_opened);
}

static void control_end(void *ctx)
{
	bdev_hold_end(self.hold);
}

/* Begin without waiting for the end of earlier I/O. */
static void begin(bool all)
{
	memset(&self, 0, sizeof(self));
	self.all = all;
	rig_on(thread_control(), control_begin, NULL);
	assert_int_equal(self.begin_error, 0);
	rig_settle();
}

static void open_regions(uint64_t first, uint64_t count)
{
	uint32_t opened = self.opened;

	self.run = (struct bdev_regions){ first, count };
	rig_on(thread_control(), control_open, NULL);
	rig_wait(&self.opened, opened + 1);
	rig_settle();
}

static void end(void)
{
	rig_on(thread_control(), control_end, NULL);
	rig_wait(&self.ended, 1);
	rig_settle();
}

/* ---- cases ---- */

static struct bdev_desc *desc;
static struct bdev_channel *ch;
static uint8_t buffer[BLOCKS * 512];

static struct tricky *open_device(void)
{
	return tricky_open(&tricky_plain, &desc, &ch);
}

static void close_device(void)
{
	tricky_close(desc, ch, "t");
}

static void begin_io(struct rig_io *io, enum io_type type, uint64_t block_index, uint64_t block_count)
{
	rig_io_init(io, rig_thread(0), ch);
	rig_io_begin(io, type, type == IO_TYPE_READ || type == IO_TYPE_WRITE ? buffer : NULL, block_index, block_count);
	rig_settle();
}

static void a_write_waits_until_its_regions_are_open_and_a_read_passes(void **state)
{
	const enum io_type types[] = { IO_TYPE_WRITE, IO_TYPE_UNMAP, IO_TYPE_WRITE_ZEROES };
	struct rig_io io, last;

	for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
		open_device();
		begin(false);
		assert_int_equal(self.held, 1);
		begin_io(&io, types[i], 14, 3); /* of regions 1 and 2 */
		begin_io(&last, types[i], 99, 1);
		assert_int_equal(io.done, 0);
		assert_int_equal(io.io.story.state, BDEV_IO_HELD);
		assert_int_equal(self.wanted_count, 2);
		assert_int_equal(self.wanted[0].first, 1);
		assert_int_equal(self.wanted[0].count, 2);
		assert_int_equal(self.wanted[1].first, REGIONS - 1);
		assert_int_equal(rig_io(rig_thread(0), ch, IO_TYPE_READ, buffer, 14, 3), IO_SUCCESS);
		assert_int_equal(rig_io(rig_thread(0), ch, IO_TYPE_FLUSH, NULL, 0, 0), IO_SUCCESS);
		open_regions(2, 1);
		assert_int_equal(io.done, 0);
		open_regions(1, 1);
		assert_int_equal(rig_io_end(&io), IO_SUCCESS);
		assert_int_equal(last.done, 0);
		assert_int_equal(rig_io(rig_thread(0), ch, types[i], types[i] == IO_TYPE_WRITE ? buffer : NULL, 8, 16),
				 IO_SUCCESS);
		end();
		assert_int_equal(rig_io_end(&last), IO_SUCCESS);
		assert_true(self.exact);
		close_device();
	}
}

static void a_hold_waits_for_the_writes_in_progress(void **state)
{
	struct tricky *tricky = open_device();
	struct rig_io write, read, late;

	tricky->hold = true;
	begin_io(&write, IO_TYPE_WRITE, 0, 1);
	begin_io(&read, IO_TYPE_READ, 0, 1);
	begin(false);
	begin_io(&late, IO_TYPE_WRITE, 0, 1);
	assert_int_equal(self.held, 0);
	assert_int_equal(tricky->held, 2);
	tricky->hold = false;
	assert_int_equal(rig_io_end(&write), IO_SUCCESS);
	rig_wait(&self.held, 1);
	assert_int_equal(self.held_error, 0);
	assert_int_equal(late.done, 0);
	end();
	assert_int_equal(rig_io_end(&late), IO_SUCCESS);
	assert_int_equal(rig_io_end(&read), IO_SUCCESS);
	close_device();
}

static void a_hold_that_ends_before_it_holds_lets_writes_go_on(void **state)
{
	struct tricky *tricky = open_device();
	struct rig_io first, late;

	tricky->hold = true;
	begin_io(&first, IO_TYPE_WRITE, 0, 1);
	begin(false);
	begin_io(&late, IO_TYPE_WRITE, 8, 1);
	assert_int_equal(tricky->held, 1);
	end();
	assert_int_equal(self.held, 1);
	assert_int_equal(self.held_error, -ECANCELED);
	assert_int_equal(tricky->held, 2);
	tricky->hold = false;
	assert_int_equal(rig_io_end(&first), IO_SUCCESS);
	assert_int_equal(rig_io_end(&late), IO_SUCCESS);
	close_device();
}

static void a_channel_that_is_created_meanwhile_holds_too(void **state)
{
	struct bdev_channel *second;
	struct rig_io io;

	open_device();
	begin(false);
	open_regions(0, 1);
	second = rig_channel_get(rig_thread(1), desc);
	assert_non_null(second);
	assert_int_equal(rig_io(rig_thread(1), second, IO_TYPE_WRITE, buffer, 0, 8), IO_SUCCESS);
	rig_io_init(&io, rig_thread(1), second);
	rig_io_begin(&io, IO_TYPE_WRITE, buffer, 8, 1);
	rig_settle();
	assert_int_equal(io.done, 0);
	open_regions(1, 1);
	assert_int_equal(rig_io_end(&io), IO_SUCCESS);
	rig_channel_put(rig_thread(1), second); /* it goes during the hold */
	rig_settle();
	end();
	assert_true(self.exact);
	close_device();
}

static void a_reset_aborts_the_writes_that_wait(void **state)
{
	struct rig_io io;

	open_device();
	begin(false);
	begin_io(&io, IO_TYPE_WRITE, 0, 1);
	assert_int_equal(rig_io(rig_thread(0), ch, IO_TYPE_RESET, NULL, 0, 0), IO_SUCCESS);
	assert_int_equal(rig_io_end(&io), IO_ABORTED);
	end();
	close_device();
}

/* The control thread opens nothing: a hung device, or a hung thread of the engine. */
static void no_write_waits_for_ever(void **state)
{
	struct rig_io io;

	open_device();
	begin(false);
	begin_io(&io, IO_TYPE_WRITE, 0, 1);
	rig_pass_time((BDEV_HOLD_SILENCE_SEC - 2) * NS_PER_SEC);
	assert_int_equal(io.done, 0);
	rig_pass_time(4 * NS_PER_SEC);
	assert_int_equal(rig_io_end(&io), IO_SUCCESS);
	end();
	assert_false(self.exact);
	close_device();
}

static void note_confirmed(void *ctx, bool exact)
{
	self.confirmed++;
	self.exact = exact;
}

static void control_confirm(void *ctx)
{
	bdev_hold_confirm(self.hold, note_confirmed);
}

static bool confirm(void)
{
	uint32_t confirmed = self.confirmed;

	rig_on(thread_control(), control_confirm, NULL);
	rig_wait(&self.confirmed, confirmed + 1);
	return self.exact;
}

/* A channel that is asked waits for longer; one that let its I/O go is found. */
static void a_hold_is_confirmed_until_a_channel_lets_its_io_go(void **state)
{
	struct rig_io io;

	open_device();
	begin(true);
	begin_io(&io, IO_TYPE_WRITE, 0, 1);
	for (int i = 0; i < 3; i++) {
		rig_pass_time(BDEV_HOLD_SILENCE_SEC / 2 * NS_PER_SEC);
		assert_true(confirm());
		assert_int_equal(io.done, 0);
	}
	rig_pass_time((BDEV_HOLD_SILENCE_SEC + 2) * NS_PER_SEC);
	assert_int_equal(rig_io_end(&io), IO_SUCCESS);
	assert_false(confirm());
	end();
	assert_false(self.exact);
	close_device();
}

static void a_hold_of_everything_lets_nothing_pass(void **state)
{
	struct tricky *tricky = open_device();
	struct rig_io read, late_read, flush, write;

	tricky->hold = true;
	begin_io(&read, IO_TYPE_READ, 0, 1);
	begin(true);
	begin_io(&late_read, IO_TYPE_READ, 0, 1);
	begin_io(&flush, IO_TYPE_FLUSH, 0, 0);
	begin_io(&write, IO_TYPE_WRITE, 50, 1);
	assert_int_equal(self.held, 0);
	tricky->hold = false;
	assert_int_equal(rig_io_end(&read), IO_SUCCESS);
	rig_wait(&self.held, 1);
	assert_int_equal(late_read.done + flush.done + write.done, 0);
	assert_int_equal(self.wanted_count, 0);
	end();
	assert_int_equal(rig_io_end(&late_read), IO_SUCCESS);
	assert_int_equal(rig_io_end(&flush), IO_SUCCESS);
	assert_int_equal(rig_io_end(&write), IO_SUCCESS);
	close_device();
}

/* ---- a device becomes shorter, which holds all of its I/O ---- */

static struct {
	uint32_t done;
	int error;
} shrinking;

static void note_shrunk(void *ctx, int error)
{
	shrinking.error = error;
	shrinking.done++;
}

static void control_shrink(void *ctx)
{
	shrinking.done = 0;
	bdev_shrink(bdev_find("t"), BLOCKS / 2, note_shrunk, NULL);
}

static void control_grow(void *ctx)
{
	bdev_grow(bdev_find("t"), BLOCKS);
}

static void a_device_shrinks_when_earlier_io_has_ended(void **state)
{
	struct tricky *tricky = open_device();
	struct rig_io write;

	tricky->hold = true;
	begin_io(&write, IO_TYPE_WRITE, 99, 1);
	rig_on(thread_control(), control_shrink, NULL);
	rig_settle();
	assert_int_equal(shrinking.done, 0);
	tricky->hold = false;
	assert_int_equal(rig_io_end(&write), IO_SUCCESS);
	rig_wait(&shrinking.done, 1);
	assert_int_equal(shrinking.error, 0);
	assert_int_equal(rig_io(rig_thread(0), ch, IO_TYPE_READ, buffer, 99, 1), IO_INVALID);
	close_device();
}

static void io_that_hangs_ends_the_shrinking_of_its_device(void **state)
{
	struct tricky *tricky = open_device();
	struct rig_io write, late;

	tricky->hold = true;
	begin_io(&write, IO_TYPE_WRITE, 99, 1);
	rig_on(thread_control(), control_shrink, NULL);
	rig_settle();
	begin_io(&late, IO_TYPE_WRITE, 0, 1);
	assert_int_equal(tricky->held, 1);
	rig_pass_time(BDEV_DRAIN_SEC * NS_PER_SEC);
	rig_wait(&shrinking.done, 1);
	assert_int_equal(shrinking.error, -ETIMEDOUT);
	assert_int_equal(tricky->held, 2); /* later I/O goes on */
	rig_on(thread_control(), control_grow, NULL);
	rig_settle();
	tricky->hold = false;
	assert_int_equal(rig_io_end(&write), IO_SUCCESS);
	assert_int_equal(rig_io_end(&late), IO_SUCCESS);
	assert_int_equal(rig_io(rig_thread(0), ch, IO_TYPE_READ, buffer, 99, 1), IO_SUCCESS);
	close_device();
}

static void a_device_has_one_hold_at_a_time(void **state)
{
	struct bdev_hold *first;

	open_device();
	begin(false);
	first = self.hold;
	rig_on(thread_control(), control_begin, NULL);
	assert_int_equal(self.begin_error, -EBUSY);
	self.hold = first;
	end();
	close_device();
}

/* Whatever the order: a closed region does not change, and every write ends. */
static void closed_regions_do_not_change(void **state)
{
	static struct rig_io ios[RANDOM_IOS];
	static uint8_t before[BLOCKS * 512];
	struct tricky_options options = tricky_plain;
	uint32_t order[REGIONS], next = 0;
	struct random random;
	struct tricky *tricky;

	random_init(&random, 7);
	options.inline_percent = 30;
	options.refuse_percent = 20;
	options.io_blocks_max = 5;
	tricky = tricky_open(&options, &desc, &ch);
	begin(false);
	memcpy(before, tricky->memory, sizeof(before));
	memset(buffer, 0xa5, sizeof(buffer));
	for (uint32_t i = 0; i < REGIONS; i++)
		order[i] = i;
	for (uint32_t i = REGIONS - 1; i > 0; i--) {
		uint32_t j = (uint32_t)random_below(&random, i + 1), swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	for (uint32_t i = 0; i < RANDOM_IOS; i++) {
		uint32_t count = 1 + (uint32_t)random_below(&random, 20);

		begin_io(&ios[i], IO_TYPE_WRITE, random_below(&random, BLOCKS - count), count);
	}
	for (; next < REGIONS; next++) {
		for (uint32_t i = next; i < REGIONS; i++) {
			size_t at = (size_t)order[i] * REGION_BLOCKS * 512;

			assert_memory_equal(tricky->memory + at, before + at,
					    min_u64(REGION_BLOCKS * 512, sizeof(before) - at));
		}
		open_regions(order[next], 1);
	}
	for (uint32_t i = 0; i < RANDOM_IOS; i++)
		assert_int_equal(rig_io_end(&ios[i]), IO_SUCCESS);
	end();
	assert_true(self.exact);
	close_device();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		CASE(a_write_waits_until_its_regions_are_open_and_a_read_passes),
		CASE(a_hold_waits_for_the_writes_in_progress),
		CASE(a_hold_that_ends_before_it_holds_lets_writes_go_on),
		CASE(a_channel_that_is_created_meanwhile_holds_too),
		CASE(a_reset_aborts_the_writes_that_wait),
		CASE(no_write_waits_for_ever),
		CASE(a_hold_is_confirmed_until_a_channel_lets_its_io_go),
		CASE(a_hold_of_everything_lets_nothing_pass),
		CASE(a_device_shrinks_when_earlier_io_has_ended),
		CASE(io_that_hangs_ends_the_shrinking_of_its_device),
		CASE(a_device_has_one_hold_at_a_time),
		CASE(closed_regions_do_not_change),
#undef CASE
	};

	return cmocka_run_group_tests_name("store hold", tests, NULL, NULL);
}
