/* SPDX-License-Identifier: BSD-2-Clause */
/* The regions of a round: ranges become bits, and bits become bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "data/engine/move/regions.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static void ranges_become_regions(void **state)
{
	struct move_regions regions = { 0 };
	uint64_t count;
	uint8_t *bytes;
	size_t length;

	move_regions_reset(&regions, 10 * MIB + 512, MIB);
	move_regions_add(&regions, 0, 1);
	move_regions_add(&regions, 2 * MIB - 1, 2);	     /* regions 1 and 2 */
	move_regions_add(&regions, 9 * MIB, 0);		     /* nothing */
	move_regions_add(&regions, 10 * MIB, UINT64_MAX);    /* up to the end */
	move_regions_add(&regions, 10 * MIB + 512, 4 * MIB); /* behind it */
	bytes = move_regions_encode(&regions, &length, &count);
	assert_int_equal(length, 2);
	assert_int_equal(count, 4);
	assert_int_equal(bytes[0], 7);
	assert_int_equal(bytes[1], 4);
	free(bytes);
	move_regions_reset(&regions, 8 * MIB, MIB);
	bytes = move_regions_encode(&regions, &length, &count);
	assert_int_equal(count, 0);
	free(bytes);
	move_regions_free(&regions);
}

static void a_large_volume_has_larger_regions(void **state)
{
	struct move_regions regions = { 0 };
	uint64_t size = (uint64_t)MOVE_REGIONS_MAX * 64 * KIB, count;
	uint8_t *bytes;
	size_t length;

	move_regions_reset(&regions, size, 64 * KIB);
	assert_int_equal(regions.region_bytes, 64 * KIB);
	move_regions_reset(&regions, size + 1, 64 * KIB);
	assert_int_equal(regions.region_bytes, 128 * KIB);
	move_regions_add(&regions, 0, UINT64_MAX);
	bytes = move_regions_encode(&regions, &length, &count);
	assert_int_equal(count, MOVE_REGIONS_MAX / 2 + 1);
	free(bytes);
	move_regions_free(&regions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_become_regions),
		cmocka_unit_test(a_large_volume_has_larger_regions),
	};

	return cmocka_run_group_tests_name("engine move_regions", tests, NULL, NULL);
}
