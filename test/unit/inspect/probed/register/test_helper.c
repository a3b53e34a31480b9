/* SPDX-License-Identifier: BSD-2-Clause */
/* The ioctls of the helper device, with the kernel's part played here: it brings the memory that is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/random.h"
#include "inspect/probed/register/helper.h"

enum { OBJECT_ADDRESS = 0x10000, HELPER_ADDRESS = 0x500, LIMIT = 1 << 20 };

/* A process's memory: an object and a dof_helper_t. */
static unsigned char object[LIMIT + 1];
static struct dof_helper asked;

static void fill(uint64_t bytes)
{
	struct random random;

	random_init(&random, bytes);
	for (size_t i = 0; i < sizeof(object); i++)
		object[i] = (unsigned char)random_next(&random);
	memcpy(object, "\177DOF", 4);
	memcpy(object + 40, &bytes, sizeof(bytes));
	asked = (struct dof_helper){ .module = "program", .base = 0x400000, .dof = OBJECT_ADDRESS };
}

static const void *memory_at(uint64_t address)
{
	return address == HELPER_ADDRESS ? (const void *)&asked : object + (address - OBJECT_ADDRESS);
}

static struct helper *device;
static struct helper_file *opened;

static int set_up(void **state)
{
	const struct helper_limits limits = { .object_bytes = LIMIT, .bytes = 3 * LIMIT, .bytes_a_user = 2 * LIMIT };

	device = helper_create(&limits);
	opened = helper_file_create(device, 1000);
	fill(100);
	return device && opened ? 0 : -1;
}

static int tear_down(void **state)
{
	helper_file_destroy(opened);
	assert_int_equal(helper_bytes(device), 0);
	helper_destroy(device);
	return 0;
}

static struct helper_call first_of(int32_t thread)
{
	return (struct helper_call){ .command = HELPER_IOCTL_ADDDOF, .argument = HELPER_ADDRESS, .thread = thread };
}

/* The ioctl again, with what was asked for. */
static void go_on(struct helper_file *file, struct helper_call *call, struct helper_step *step)
{
	assert_int_equal(step->action, HELPER_RETRY);
	call->data = memory_at(step->address);
	call->bytes = step->bytes;
	helper_step(file, call, step);
}

/* All the way. Returns how many pieces were asked for. */
static unsigned int drive(struct helper_file *file, struct helper_call call, struct helper_step *step)
{
	unsigned int pieces = 0;

	helper_step(file, &call, step);
	for (; step->action == HELPER_RETRY; pieces++)
		go_on(file, &call, step);
	return pieces;
}

static void check_added(struct helper_step *step, size_t bytes)
{
	assert_int_equal(step->action, HELPER_ADD);
	assert_memory_equal(&step->helper, &asked, sizeof(asked));
	assert_int_equal(step->bytes, bytes);
	assert_memory_equal(step->object, object, bytes);
	free(step->object);
}

static void an_object_comes_in_pieces(void **state)
{
	static const struct {
		size_t bytes;
		unsigned int pieces;
	} sizes[] = { { 64, 2 },
		      { 65, 3 },
		      { 100, 3 },
		      { 64 + HELPER_CHUNK_BYTES, 3 },
		      { 65 + HELPER_CHUNK_BYTES, 4 },
		      { LIMIT, 2 + LIMIT / HELPER_CHUNK_BYTES } };
	struct helper_step step;

	for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
		fill(sizes[i].bytes);
		assert_int_equal(drive(opened, first_of(7), &step), sizes[i].pieces);
		check_added(&step, sizes[i].bytes);
		assert_int_equal(helper_bytes(device), 0);
	}
}

static void without_an_object_there_are_notes(void **state)
{
	struct helper_step step;

	asked.dof = 0;
	assert_int_equal(drive(opened, first_of(7), &step), 1);
	assert_int_equal(step.action, HELPER_ADD);
	assert_null(step.object);
	assert_int_equal(step.helper.base, 0x400000);
}

/* Bug 6 of the daemon that is known: it kept one state for the whole process. */
static void threads_of_one_process_register_at_once(void **state)
{
	struct helper_call calls[40];
	struct helper_step steps[40];

	fill(200000);
	for (int32_t i = 0; i < 40; i++) {
		calls[i] = first_of(100 + i);
		helper_step(opened, &calls[i], &steps[i]);
	}
	for (bool more = true; more;) {
		more = false;
		for (int32_t i = 0; i < 40; i++) {
			if (steps[i].action != HELPER_RETRY)
				continue;
			if (i < 5 || steps[0].action != HELPER_RETRY) /* not all that many bytes at once */
				go_on(opened, &calls[i], &steps[i]);
			more = true;
		}
		if (steps[0].action != HELPER_RETRY)
			break;
	}
	for (int32_t i = 0; i < 40; i++) {
		while (steps[i].action == HELPER_RETRY)
			go_on(opened, &calls[i], &steps[i]);
		check_added(&steps[i], 200000);
	}
}

static void one_that_begins_anew_has_given_up(void **state)
{
	struct helper_call call = first_of(7), late;
	struct helper_step step;

	fill(LIMIT);
	helper_step(opened, &call, &step);
	go_on(opened, &call, &step);
	go_on(opened, &call, &step);
	assert_true(helper_bytes(device) > 0);
	late = call;
	drive(opened, first_of(7), &step);
	check_added(&step, LIMIT);
	/* what it had begun is not gone on with */
	helper_step(opened, &late, &step);
	assert_int_equal(step.action, HELPER_ANSWER);
	assert_int_equal(step.error, -EINVAL);
}

static void what_takes_too_long_is_lost(void **state)
{
	struct helper_call call = first_of(7);
	struct helper_step step;

	fill(LIMIT);
	helper_step(opened, &call, &step);
	go_on(opened, &call, &step);
	go_on(opened, &call, &step);
	helper_expire(device, HELPER_STALE_SEC * NS_PER_SEC - 1);
	assert_true(helper_bytes(device) > 0);
	helper_expire(device, HELPER_STALE_SEC * NS_PER_SEC);
	assert_int_equal(helper_bytes(device), 0);
	go_on(opened, &call, &step);
	assert_int_equal(step.error, -EINVAL);
}

static void objects_that_are_none_are_refused(void **state)
{
	static const uint64_t sizes[] = { 0, 63, LIMIT + 1, 1ull << 40, UINT64_MAX };
	struct helper_step step;

	for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
		fill(100);
		memcpy(object + 40, &sizes[i], sizeof(sizes[i]));
		drive(opened, first_of(7), &step);
		assert_int_equal(step.action, HELPER_ANSWER);
		assert_int_equal(step.error, -EINVAL);
		assert_int_equal(helper_bytes(device), 0);
	}
	fill(100);
	object[0] = 'E';
	drive(opened, first_of(7), &step);
	assert_int_equal(step.error, -EINVAL);
}

/* Bug 8: it read on into the address. */
static void a_module_without_an_end_is_refused(void **state)
{
	struct helper_step step;

	memset(asked.module, 'm', sizeof(asked.module));
	assert_int_equal(drive(opened, first_of(7), &step), 1);
	assert_int_equal(step.action, HELPER_ANSWER);
	assert_int_equal(step.error, -EINVAL);
}

static void the_argument_of_remove_is_the_generation(void **state)
{
	struct helper_call call = { .command = HELPER_IOCTL_REMOVE, .argument = 0xffffffff00000005ull, .thread = 7 };
	struct helper_step step;

	helper_step(opened, &call, &step);
	assert_int_equal(step.action, HELPER_REMOVE);
	assert_int_equal(step.generation, 5);
}

static void others_are_answered_as_callers_expect(void **state)
{
	static const uint32_t commands[] = { HELPER_IOCTL_ADD, 0, 0x5401, 0xc050d803, UINT32_MAX };
	struct helper_step step;

	for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
		struct helper_call call = { .command = commands[i], .argument = HELPER_ADDRESS, .thread = 7 };

		helper_step(opened, &call, &step);
		assert_int_equal(step.action, HELPER_ANSWER);
		assert_int_equal(step.error, -EINVAL);
		assert_non_null(step.why);
	}
}

/* Begin as many as `wanted` objects of full size, up to their last piece; how many it took. */
static unsigned int begin_many(struct helper_file *file, unsigned int wanted)
{
	unsigned int count = 0;

	for (; count < wanted; count++) {
		struct helper_call call = first_of(1 + (int32_t)count);
		struct helper_step step;

		helper_step(file, &call, &step);
		for (int i = 0; i < 1 + LIMIT / HELPER_CHUNK_BYTES && step.action == HELPER_RETRY; i++)
			go_on(file, &call, &step);
		if (step.action != HELPER_RETRY)
			break;
	}
	return count;
}

static void bytes_on_their_way_are_limited(void **state)
{
	struct helper_file *other = helper_file_create(device, 1001), *third = helper_file_create(device, 1000);
	struct helper_step step;

	fill(LIMIT);
	assert_int_equal(begin_many(opened, 10), 2);
	assert_int_equal(begin_many(third, 10), 0); /* the same user */
	assert_int_equal(begin_many(other, 10), 1); /* and for all */
	helper_file_destroy(other);
	helper_file_destroy(third);
	helper_expire(device, HELPER_STALE_SEC * NS_PER_SEC);
	drive(opened, first_of(7), &step);
	check_added(&step, LIMIT);
}

/* Memory is taken as an object comes, not as its header says. */
static void a_header_takes_no_memory(void **state)
{
	struct helper_call call = first_of(7);
	struct helper_step step;

	fill(LIMIT);
	helper_step(opened, &call, &step);
	go_on(opened, &call, &step);
	go_on(opened, &call, &step);
	assert_int_equal(step.action, HELPER_RETRY);
	assert_true(helper_bytes(device) <= 2 * HELPER_CHUNK_BYTES);
}

static void threads_are_limited(void **state)
{
	struct helper_step step;

	for (int32_t thread = 1; thread <= 3 * HELPER_THREADS_MAX; thread++) {
		struct helper_call call = first_of(thread);

		helper_step(opened, &call, &step);
		assert_int_equal(step.action, HELPER_RETRY);
	}
	/* the first has lost what it began, the last has not */
	struct helper_call call = first_of(1);

	call.data = &asked;
	call.bytes = sizeof(asked);
	helper_step(opened, &call, &step);
	assert_int_equal(step.action, HELPER_ANSWER);
	call.thread = 3 * HELPER_THREADS_MAX;
	helper_step(opened, &call, &step);
	assert_int_equal(step.action, HELPER_RETRY);
}

static void a_piece_of_another_length_is_refused(void **state)
{
	struct helper_call call = first_of(7);
	struct helper_step step;

	helper_step(opened, &call, &step);
	call.data = &asked;
	call.bytes = sizeof(asked) - 1;
	helper_step(opened, &call, &step);
	assert_int_equal(step.action, HELPER_ANSWER);
	assert_int_equal(step.error, -EINVAL);
}

static void an_address_in_a_file_with_notes_is_all_that_is_needed(void **state)
{
	struct helper_call call = { .command = HELPER_IOCTL_ADDNOTES, .argument = 0x401136, .thread = 1 };
	struct helper_step step;

	helper_step(opened, &call, &step);
	assert_int_equal(step.action, HELPER_ADD);
	assert_int_equal(step.address, 0x401136);
	assert_null(step.object);
	assert_int_equal(step.helper.module[0], '\0');
	call.argument = 0;
	helper_step(opened, &call, &step);
	assert_int_equal(step.action, HELPER_ANSWER);
	assert_int_equal(step.error, -EINVAL);
}

#define helper_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		helper_test(an_object_comes_in_pieces),
		helper_test(without_an_object_there_are_notes),
		helper_test(an_address_in_a_file_with_notes_is_all_that_is_needed),
		helper_test(threads_of_one_process_register_at_once),
		helper_test(one_that_begins_anew_has_given_up),
		helper_test(what_takes_too_long_is_lost),
		helper_test(objects_that_are_none_are_refused),
		helper_test(a_module_without_an_end_is_refused),
		helper_test(the_argument_of_remove_is_the_generation),
		helper_test(others_are_answered_as_callers_expect),
		helper_test(bytes_on_their_way_are_limited),
		helper_test(a_header_takes_no_memory),
		helper_test(threads_are_limited),
		helper_test(a_piece_of_another_length_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
