/* SPDX-License-Identifier: BSD-2-Clause */
/* Data buffers: sizes, last-in first-out reuse, and the return of idle pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "data/wire/conn/memory.h"

enum { MOST = 64 << 20, LARGEST = 8 << 20 };

static struct memory memory;

static int setup(void **state)
{
	assert_int_equal(memory_init(&memory, LARGEST, MOST), 0);
	return 0;
}

static int teardown(void **state)
{
	memory_deinit(&memory);
	return 0;
}

static size_t resident_pages(const uint8_t *buffer, uint32_t size)
{
	unsigned char pages[LARGEST / 4096];
	size_t count = 0;

	assert_int_equal(sysconf(_SC_PAGESIZE), 4096);
	assert_int_equal(mincore((void *)(uintptr_t)buffer, size, pages), 0);
	for (uint32_t i = 0; i < size / 4096; i++)
		count += pages[i] & 1;
	return count;
}

static void each_size_fits_its_purpose(void **state)
{
	assert_int_equal(memory_size_for(1), MEMORY_BYTES_MIN);
	assert_int_equal(memory_size_for(MEMORY_BYTES_MIN), MEMORY_BYTES_MIN);
	assert_int_equal(memory_size_for(MEMORY_BYTES_MIN + 1), 2 * MEMORY_BYTES_MIN);
	assert_int_equal(memory_size_for(LARGEST - 1), LARGEST);
	for (uint32_t size = MEMORY_BYTES_MIN; size <= LARGEST; size *= 2) {
		uint8_t *buffer = memory_take(&memory, size);

		assert_int_equal((uintptr_t)buffer % 4096, 0);
		memset(buffer, 1, size);
		memory_give(&memory, buffer, size);
	}
}

static void buffers_do_not_overlap_up_to_the_last(void **state)
{
	uint8_t *buffers[MOST / LARGEST];

	for (size_t i = 0; i < ARRAY_COUNT(buffers); i++) {
		buffers[i] = memory_take(&memory, LARGEST);
		memset(buffers[i], (int)i, LARGEST);
	}
	for (size_t i = 0; i < ARRAY_COUNT(buffers); i++) {
		assert_int_equal(buffers[i][0], i);
		assert_int_equal(buffers[i][LARGEST - 1], i);
		memory_give(&memory, buffers[i], LARGEST);
	}
}

static void the_last_returned_buffer_is_used_first(void **state)
{
	uint8_t *a = memory_take(&memory, MEMORY_BYTES_MIN), *b = memory_take(&memory, MEMORY_BYTES_MIN);

	memory_give(&memory, a, MEMORY_BYTES_MIN);
	memory_give(&memory, b, MEMORY_BYTES_MIN);
	assert_ptr_equal(memory_take(&memory, MEMORY_BYTES_MIN), b);
	assert_ptr_equal(memory_take(&memory, MEMORY_BYTES_MIN), a);
	memory_give(&memory, a, MEMORY_BYTES_MIN);
	memory_give(&memory, b, MEMORY_BYTES_MIN);
}

static void only_idle_pages_are_returned(void **state)
{
	uint8_t *idle = memory_take(&memory, LARGEST), *busy = memory_take(&memory, LARGEST);

	memset(idle, 1, LARGEST);
	memset(busy, 1, LARGEST);
	memory_give(&memory, idle, LARGEST);
	memory_give(&memory, busy, LARGEST);
	for (int round = 0; round < 4 * MEMORY_ROUNDS_IDLE; round++) {
		uint8_t *used = memory_take(&memory, LARGEST);

		assert_ptr_equal(used, busy);
		assert_int_equal(used[0], 1);
		memory_give(&memory, used, LARGEST);
		memory_trim(&memory);
	}
	assert_int_equal(resident_pages(idle, LARGEST), 0);
	assert_int_equal(resident_pages(busy, LARGEST), LARGEST / 4096);
	for (int round = 0; round < 4 * MEMORY_ROUNDS_IDLE; round++)
		memory_trim(&memory);
	assert_int_equal(resident_pages(busy, LARGEST), 0);
	busy = memory_take(&memory, LARGEST);
	idle = memory_take(&memory, LARGEST);
	memset(busy, 2, LARGEST);
	memset(idle, 3, LARGEST);
	memory_give(&memory, busy, LARGEST);
	memory_give(&memory, idle, LARGEST);
}

static void all_pages_are_returned_when_no_connection_is_left(void **state)
{
	uint8_t *buffers[10];

	for (size_t i = 0; i < ARRAY_COUNT(buffers); i++)
		buffers[i] = memset(memory_take(&memory, 4 * MEMORY_BYTES_MIN), 1, 4 * MEMORY_BYTES_MIN);
	for (size_t i = 0; i < ARRAY_COUNT(buffers); i++)
		memory_give(&memory, buffers[i], 4 * MEMORY_BYTES_MIN);
	memory_clear(&memory);
	for (size_t i = 0; i < ARRAY_COUNT(buffers); i++)
		assert_int_equal(resident_pages(buffers[i], 4 * MEMORY_BYTES_MIN), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_size_fits_its_purpose, setup, teardown),
		cmocka_unit_test_setup_teardown(buffers_do_not_overlap_up_to_the_last, setup, teardown),
		cmocka_unit_test_setup_teardown(the_last_returned_buffer_is_used_first, setup, teardown),
		cmocka_unit_test_setup_teardown(only_idle_pages_are_returned, setup, teardown),
		cmocka_unit_test_setup_teardown(all_pages_are_returned_when_no_connection_is_left, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
