/* SPDX-License-Identifier: BSD-2-Clause */
/* Which regions of a device change: data/store/bdev/track.h. A device of 100 blocks, in regions of 8. */
#include <errno.h>
#include <string.h>

#include "data/store/bdev/track.h"
#include "rig.h"
#include "tricky.h"

enum { REGION_BLOCKS = 8, BLOCKS = 100, REGIONS = 13, RANDOM_TURNS = 300 };

static struct {
	struct bdev_track *track;
	uint32_t begun, taken, removed, ended;
	int begun_error, begin_error;
	uint64_t bits;
} self;

static void note_begun(void *ctx, int error)
{
	must_be_on(thread_control());
	self.begun++;
	self.begun_error = error;
}

static void note_taken(void *ctx)
{
	self.taken++;
}

static void note_removed(void *ctx)
{
	self.removed++;
	bdev_track_end(self.track);
}

static void note_ended(void *ctx)
{
	self.ended++;
	self.track = NULL;
}

static const struct bdev_track_calls calls = { note_begun, note_taken, note_removed, note_ended };

static void control_begin(void *ctx)
{
	struct bdev_track *track;

	self.begin_error = bdev_track_begin(bdev_find("t"), REGION_BLOCKS, &calls, NULL, &track);
	if (!self.begin_error)
		self.track = track;
}

static void control_take(void *ctx)
{
	bdev_track_take(self.track, &self.bits);
}

static void control_end(void *ctx)
{
	bdev_track_end(self.track);
}

static void begin(void)
{
	memset(&self, 0, sizeof(self));
	rig_on(thread_control(), control_begin, NULL);
	assert_int_equal(self.begin_error, 0);
	rig_wait(&self.begun, 1);
	assert_int_equal(self.begun_error, 0);
	assert_int_equal(bdev_track_region_count(self.track), REGIONS);
}

static uint64_t take(void)
{
	uint32_t taken = self.taken;

	self.bits = 0;
	rig_on(thread_control(), control_take, NULL);
	rig_wait(&self.taken, taken + 1);
	return self.bits;
}

static void end(void)
{
	rig_on(thread_control(), control_end, NULL);
	rig_wait(&self.ended, 1);
	rig_settle();
}

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

static enum io_status run_io(unsigned int thread, struct bdev_channel *channel, enum io_type type, uint64_t index,
			     uint64_t count)
{
	bool has_data = type == IO_TYPE_READ || type == IO_TYPE_WRITE;

	return rig_io(rig_thread(thread), channel, type, has_data ? buffer : NULL, index, count);
}

static void each_kind_of_change_is_noted_once(void **state)
{
	const enum io_type types[] = { IO_TYPE_WRITE, IO_TYPE_UNMAP, IO_TYPE_WRITE_ZEROES };

	open_device();
	begin();
	assert_int_equal(take(), 0);
	for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
		assert_int_equal(run_io(0, ch, types[i], 14, 3), IO_SUCCESS);
		assert_int_equal(run_io(0, ch, types[i], 99, 1), IO_SUCCESS);
		assert_int_equal(take(), BIT(1) | BIT(2) | BIT(REGIONS - 1));
		assert_int_equal(take(), 0);
	}
	assert_int_equal(run_io(0, ch, IO_TYPE_READ, 0, 100), IO_SUCCESS);
	assert_int_equal(run_io(0, ch, IO_TYPE_FLUSH, 0, 0), IO_SUCCESS);
	assert_int_equal(run_io(0, ch, IO_TYPE_WRITE, 96, 8), IO_INVALID);
	assert_int_equal(take(), 0);
	assert_true(bdev_track_is_complete(self.track));
	end();
	close_device();
}

/* The copy of a take may read the device before the write reaches it. */
static void a_write_in_progress_is_in_the_take_after_its_end(void **state)
{
	struct tricky *tricky = open_device();
	struct rig_io before, during;

	tricky->hold = true;
	rig_io_init(&before, rig_thread(0), ch);
	rig_io_begin(&before, IO_TYPE_WRITE, buffer, 0, 1); /* submitted before the track */
	rig_settle();
	begin();
	rig_io_init(&during, rig_thread(0), ch);
	rig_io_begin(&during, IO_TYPE_WRITE, buffer, 8, 1);
	rig_settle();
	assert_int_equal(take(), 0);
	tricky->hold = false;
	assert_int_equal(rig_io_end(&before), IO_SUCCESS);
	assert_int_equal(rig_io_end(&during), IO_SUCCESS);
	assert_int_equal(take(), BIT(0) | BIT(1));
	end();
	close_device();
}

static void channels_that_come_and_go_lose_nothing(void **state)
{
	struct bdev_channel *second;

	open_device();
	begin();
	second = rig_channel_get(rig_thread(1), desc);
	assert_non_null(second);
	assert_int_equal(run_io(1, second, IO_TYPE_WRITE, 16, 1), IO_SUCCESS);
	assert_int_equal(run_io(0, ch, IO_TYPE_WRITE, 40, 1), IO_SUCCESS);
	rig_channel_put(rig_thread(1), second);
	rig_settle();
	assert_int_equal(take(), BIT(2) | BIT(5));
	end();
	close_device();
}

static void a_device_has_one_track_at_a_time_and_its_removal_ends_it(void **state)
{
	open_device();
	begin();
	rig_on(thread_control(), control_begin, NULL);
	assert_int_equal(self.begin_error, -EBUSY);
	rig_delete_begin("t");
	rig_settle();
	assert_int_equal(self.removed, 1);
	assert_int_equal(self.ended, 1);
	rig_channel_put(rig_thread(0), ch);
	rig_close(desc);
	rig_settle();
	assert_int_equal(rig_delete_gone(), 1);
}

/* The union of all takes is what was written, whatever the order of writes and takes. */
static void takes_have_all_that_was_written(void **state)
{
	struct random random;
	uint64_t written, seen;

	open_device();
	for (uint32_t seed = 1; seed <= 4; seed++) {
		random_init(&random, seed);
		begin();
		written = seen = 0;
		for (uint32_t i = 0; i < RANDOM_TURNS; i++) {
			uint64_t index = random_below(&random, BLOCKS), count = 1 + random_below(&random, BLOCKS - index);

			if (random_below(&random, 4) == 0)
				seen |= take();
			if (random_below(&random, 32) != 0)
				continue;
			assert_int_equal(run_io(0, ch, IO_TYPE_WRITE, index, count), IO_SUCCESS);
			for (uint64_t region = index / REGION_BLOCKS; region <= (index + count - 1) / REGION_BLOCKS;
			     region++)
				written |= BIT(region);
			maybe(seen == written);
		}
		seen |= take();
		assert_int_equal(seen, written);
		end();
	}
	close_device();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		CASE(each_kind_of_change_is_noted_once),
		CASE(a_write_in_progress_is_in_the_take_after_its_end),
		CASE(channels_that_come_and_go_lose_nothing),
		CASE(a_device_has_one_track_at_a_time_and_its_removal_ends_it),
		CASE(takes_have_all_that_was_written),
#undef CASE
	};

	return cmocka_run_group_tests_name("store track", tests, NULL, NULL);
}
