/* SPDX-License-Identifier: BSD-2-Clause */
/* Which waits belong to one stall: by type, place, overlap and end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/trace/internal.h"
#include "inspect/trace/stall.h"

enum { FREE, RECEIVED, EXECUTING, RESTING, SENDING, DISK = 7, OTHER_DISK = 8 };

static struct reader_state states[] = { { .name = "FREE" },
					{ .name = "RECEIVED" },
					{ .name = "EXECUTING" },
					{ .name = "RESTING", .resting = true },
					{ .name = "SENDING" } };
static struct reader_machine machine = { .state_count = ARRAY_COUNT(states), .states = states };
static struct reader_object request = { .id = 3, .machine = &machine };

/* A life from `begin`: 10 ticks in RECEIVED, then `waits` ticks in `state`, then 5 in SENDING. */
static struct reader_stall life(uint64_t begin, uint8_t state, uint64_t waits, const struct reader_stall_io *io,
				uint32_t thread)
{
	static const struct reader_stall_io none;
	struct reader_stays stays = { .count = 3,
				      .states = { RECEIVED, state, SENDING },
				      .begins = { begin, begin + 10, begin + 10 + waits },
				      .ticks = { 10, waits, 5 } };

	return reader_stall_of(&request, &stays, state == RESTING ? 15 : waits + 15, io ? io : &none, thread);
}

static struct reader_stall at_device(uint64_t begin, uint64_t waits, uint16_t device, uint32_t thread)
{
	const struct reader_stall_io io = { .from = begin + 11, .to = begin + 9 + waits, .owner = device };

	return life(begin, EXECUTING, waits, &io, thread);
}

static bool is_one_stall(struct reader_stall longest, struct reader_stall other)
{
	return reader_stall_is_one(&longest, &other);
}

static void the_wait_is_the_longest_stay_outside_of_rest_states(void **state)
{
	struct reader_stall stall = life(1000, EXECUTING, 500, NULL, 2);

	assert_int_equal(stall.from, 1010);
	assert_int_equal(stall.to, 1510);
	assert_int_equal(stall.state, EXECUTING);
	assert_int_equal(stall.thread, 2);
	assert_int_equal(stall.device, 0);
	stall = life(1000, RESTING, 500, NULL, 0);
	assert_int_equal(stall.state, RECEIVED);
	assert_int_equal(stall.to - stall.from, 10);
}

static void an_io_that_takes_most_of_the_wait_names_the_device(void **state)
{
	struct reader_stall stall = at_device(1000, 500, DISK, 0);
	struct reader_stall_io brief = { .from = 1020, .to = 1200, .owner = DISK };

	assert_int_equal(stall.device, DISK);
	assert_int_equal(stall.from, 1011);
	assert_int_equal(stall.to, 1509);
	/* an I/O shorter than half of the stay is not the cause */
	assert_int_equal(life(1000, EXECUTING, 500, &brief, 0).device, 0);
	assert_int_equal(life(1000, EXECUTING, 500, &brief, 0).to, 1510);
	/* an I/O before the longest stay is not the cause */
	assert_int_equal(life(2000, SENDING, 500, &brief, 0).device, 0);
	brief = (struct reader_stall_io){ .from = 1011, .to = 1509 };
	assert_int_equal(life(1000, EXECUTING, 500, &brief, 0).device, 0);
}

static void a_life_of_many_short_waits_has_no_stall(void **state)
{
	struct reader_stays stays = { .count = 4,
				      .states = { RECEIVED, EXECUTING, SENDING, EXECUTING },
				      .begins = { 0, 40, 70, 100 },
				      .ticks = { 40, 30, 30, 30 } };
	const struct reader_stall_io none = { 0 };
	struct reader_stall stall = reader_stall_of(&request, &stays, 130, &none, 0);

	assert_int_equal(stall.to, 0);
	assert_false(reader_stall_is_one(&stall, &stall));
	stays.count = 0;
	stall = reader_stall_of(&request, &stays, 0, &none, 0);
	assert_false(reader_stall_is_one(&stall, &stall));
}

static void waits_at_one_device_are_one_stall_across_threads(void **state)
{
	struct reader_stall longest = at_device(1000, 1000, DISK, 0);

	assert_true(is_one_stall(longest, at_device(1100, 900, DISK, 0)));
	assert_true(is_one_stall(longest, at_device(1100, 900, DISK, 1)));
	assert_false(is_one_stall(longest, at_device(1100, 900, OTHER_DISK, 0)));
	assert_false(is_one_stall(longest, life(1100, EXECUTING, 900, NULL, 0)));
}

static void waits_without_a_device_are_one_stall_by_state_and_thread(void **state)
{
	struct reader_stall longest = life(1000, EXECUTING, 1000, NULL, 1), other = life(1100, EXECUTING, 900, NULL, 1);

	assert_true(is_one_stall(longest, other));
	assert_false(is_one_stall(longest, life(1100, EXECUTING, 900, NULL, 0)));
	assert_false(is_one_stall(longest, life(1100, SENDING, 900, NULL, 1)));
	other.type++;
	assert_false(is_one_stall(longest, other));
}

static void waits_of_one_stall_overlap_and_end_within_a_tenth(void **state)
{
	struct reader_stall longest = life(1000, EXECUTING, 1000, NULL, 0);

	/* the longest wait is from 1010 to 2010 */
	assert_true(is_one_stall(longest, life(1500, EXECUTING, 600, NULL, 0)));
	assert_false(is_one_stall(longest, life(1500, EXECUTING, 601, NULL, 0)));
	assert_true(is_one_stall(longest, life(1500, EXECUTING, 400, NULL, 0)));
	assert_false(is_one_stall(longest, life(1500, EXECUTING, 399, NULL, 0)));
	assert_false(is_one_stall(longest, life(2000, EXECUTING, 50, NULL, 0)));
	assert_true(is_one_stall(longest, life(1999, EXECUTING, 50, NULL, 0)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_wait_is_the_longest_stay_outside_of_rest_states),
		cmocka_unit_test(an_io_that_takes_most_of_the_wait_names_the_device),
		cmocka_unit_test(a_life_of_many_short_waits_has_no_stall),
		cmocka_unit_test(waits_at_one_device_are_one_stall_across_threads),
		cmocka_unit_test(waits_without_a_device_are_one_stall_by_state_and_thread),
		cmocka_unit_test(waits_of_one_stall_overlap_and_end_within_a_tenth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
