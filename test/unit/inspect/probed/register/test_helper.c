/* SPDX-License-Identifier: BSD-2-Clause */
/* The ioctls of the helper device. The test acts as the kernel: it supplies the requested memory. */
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

/* The memory of the calling process: an object and a dof_helper_t. */
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

static int setup(void **state)
{
	const struct helper_limits limits = { .object_bytes = LIMIT, .bytes = 3 * LIMIT, .bytes_a_user = 2 * LIMIT };

	device = helper_create(&limits);
	opened = helper_file_create(device, 1000);
	fill(100);
	return device && opened ? 0 : -1;
}

static int teardown(void **state)
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

/* Repeat the ioctl with the requested memory. */
static void supply_memory(struct helper_file *file, struct helper_call *call, struct helper_step *step)
{
	assert_int_equal(step->action, HELPER_RETRY);
	call->data = memory_at(step->address);
	call->bytes = step->bytes;
	helper_step(file, call, step);
}

/* Run the ioctl to its end. Return the number of requested pieces. */
static unsigned int drive(struct helper_file *file, struct helper_call call, struct helper_step *step)
{
	unsigned int pieces = 0;

	helper_step(file, &call, step);
	for (; step->action == HELPER_RETRY; pieces++)
		supply_memory(file, &call, step);
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

static void an_object_is_read_in_pieces(void **state)
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

static void without_an_address_of_an_object_the_notes_are_registered(void **state)
{
	struct helper_step step;

	asked.dof = 0;
	assert_int_equal(drive(opened, first_of(7), &step), 1);
	assert_int_equal(step.action, HELPER_ADD);
	assert_null(step.object);
	assert_int_equal(step.helper.base, 0x400000);
}

/* Bug 6 of the existing daemon: it has one state for the whole process. */
static void threads_of_one_process_register_concurrently(void **state)
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
			/* not all at once: the bytes in progress are limited */
			if (i < 5 || steps[0].action != HELPER_RETRY)
				supply_memory(opened, &calls[i], &steps[i]);
			more = true;
		}
		if (steps[0].action != HELPER_RETRY)
			break;
	}
	for (int32_t i = 0; i < 40; i++) {
		while (steps[i].action == HELPER_RETRY)
			supply_memory(opened, &calls[i], &steps[i]);
		check_added(&steps[i], 200000);
	}
}

static void a_new_registration_of_a_thread_aborts_its_previous_one(void **state)
{
	struct helper_call call = first_of(7), late;
	struct helper_step step;

	fill(LIMIT);
	helper_step(opened, &call, &step);
	supply_memory(opened, &call, &step);
	supply_memory(opened, &call, &step);
	assert_true(helper_bytes(device) > 0);
	late = call;
	drive(opened, first_of(7), &step);
	check_added(&step, LIMIT);
	/* the aborted registration cannot continue */
	helper_step(opened, &late, &step);
	assert_int_equal(step.action, HELPER_ANSWER);
	assert_int_equal(step.error, -EINVAL);
}

static void a_registration_that_takes_too_long_is_dropped(void **state)
{
	struct helper_call call = first_of(7);
	struct helper_step step;

	fill(LIMIT);
	helper_step(opened, &call, &step);
	supply_memory(opened, &call, &step);
	supply_memory(opened, &call, &step);
	helper_expire(device, HELPER_STALE_SEC * NS_PER_SEC - 1);
	assert_true(helper_bytes(device) > 0);
	helper_expire(device, HELPER_STALE_SEC * NS_PER_SEC);
	assert_int_equal(helper_bytes(device), 0);
	supply_memory(opened, &call, &step);
	assert_int_equal(step.error, -EINVAL);
}

static void invalid_objects_are_refused(void **state)
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

/* Bug 8 of the existing daemon: it reads into the address that follows. */
static void a_module_name_without_a_nul_is_refused(void **state)
{
	struct helper_step step;

	memset(asked.module, 'm', sizeof(asked.module));
	assert_int_equal(drive(opened, first_of(7), &step), 1);
	assert_int_equal(step.action, HELPER_ANSWER);
	assert_int_equal(step.error, -EINVAL);
}

static void the_argument_of_remove_is_a_32_bit_generation(void **state)
{
	struct helper_call call = { .command = HELPER_IOCTL_REMOVE, .argument = 0xffffffff00000005ull, .thread = 7 };
	struct helper_step step;

	helper_step(opened, &call, &step);
	assert_int_equal(step.action, HELPER_REMOVE);
	assert_int_equal(step.generation, 5);
}

static void unknown_ioctls_are_answered_with_einval(void **state)
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

/* Start up to `wanted` objects of maximum size, up to their last piece. Return how many were accepted. */
static unsigned int start_objects(struct helper_file *file, unsigned int wanted)
{
	unsigned int count = 0;

	for (; count < wanted; count++) {
		struct helper_call call = first_of(1 + (int32_t)count);
		struct helper_step step;

		helper_step(file, &call, &step);
		for (int i = 0; i < 1 + LIMIT / HELPER_CHUNK_BYTES && step.action == HELPER_RETRY; i++)
			supply_memory(file, &call, &step);
		if (step.action != HELPER_RETRY)
			break;
	}
	return count;
}

static void bytes_in_progress_are_limited_by_user_and_in_total(void **state)
{
	struct helper_file *other = helper_file_create(device, 1001), *third = helper_file_create(device, 1000);
	struct helper_step step;

	fill(LIMIT);
	assert_int_equal(start_objects(opened, 10), 2);
	assert_int_equal(start_objects(third, 10), 0); /* the limit of the user */
	assert_int_equal(start_objects(other, 10), 1); /* the limit of all users */
	helper_file_destroy(other);
	helper_file_destroy(third);
	helper_expire(device, HELPER_STALE_SEC * NS_PER_SEC);
	drive(opened, first_of(7), &step);
	check_added(&step, LIMIT);
}

/* Memory is allocated as pieces arrive, not for the size in the header. */
static void a_header_allocates_no_memory_for_its_size(void **state)
{
	struct helper_call call = first_of(7);
	struct helper_step step;

	fill(LIMIT);
	helper_step(opened, &call, &step);
	supply_memory(opened, &call, &step);
	supply_memory(opened, &call, &step);
	assert_int_equal(step.action, HELPER_RETRY);
	assert_true(helper_bytes(device) <= 2 * HELPER_CHUNK_BYTES);
}

static void threads_with_registrations_in_progress_are_limited(void **state)
{
	struct helper_step step;

	for (int32_t thread = 1; thread <= 3 * HELPER_THREADS_MAX; thread++) {
		struct helper_call call = first_of(thread);

		helper_step(opened, &call, &step);
		assert_int_equal(step.action, HELPER_RETRY);
	}
	/* the first registration was dropped, the last was not */
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

static void an_address_in_a_file_registers_its_notes(void **state)
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

#define helper_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		helper_test(an_object_is_read_in_pieces),
		helper_test(without_an_address_of_an_object_the_notes_are_registered),
		helper_test(an_address_in_a_file_registers_its_notes),
		helper_test(threads_of_one_process_register_concurrently),
		helper_test(a_new_registration_of_a_thread_aborts_its_previous_one),
		helper_test(a_registration_that_takes_too_long_is_dropped),
		helper_test(invalid_objects_are_refused),
		helper_test(a_module_name_without_a_nul_is_refused),
		helper_test(the_argument_of_remove_is_a_32_bit_generation),
		helper_test(unknown_ioctls_are_answered_with_einval),
		helper_test(bytes_in_progress_are_limited_by_user_and_in_total),
		helper_test(a_header_allocates_no_memory_for_its_size),
		helper_test(threads_with_registrations_in_progress_are_limited),
		helper_test(a_piece_of_another_length_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
