/* SPDX-License-Identifier: BSD-2-Clause */
/* A packed set unpacks to an equal set; invalid bytes are refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "samples.h"

static const char *const names[] = SAMPLE_NAMES;

static struct dof_set parse_sample(const char *name)
{
	size_t bytes;
	char *data = sample_read(name, ".dof", &bytes);
	struct dof_input input = sample_input(data, bytes, 0x1000);
	struct dof_set set;

	assert_int_equal(dof_parse(&input, NULL, &set, NULL), 0);
	free(data);
	return set;
}

static void a_packed_set_unpacks_equal(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		struct dof_set set = parse_sample(names[i]), again;
		struct fathom_fault why;
		size_t bytes;
		void *data;

		assert_int_equal(dof_pack(&set, &data, &bytes), 0);
		assert_int_equal(dof_unpack(data, bytes, &again, &why), 0);
		assert_true(dof_set_equal(&set, &again));
		dof_set_free(&again);
		dof_set_free(&set);
		free(data);
	}
}

static void an_empty_set_unpacks_equal(void **state)
{
	struct dof_set set = { 0 }, again;
	size_t bytes;
	void *data;

	assert_int_equal(dof_pack(&set, &data, &bytes), 0);
	assert_int_equal(dof_unpack(data, bytes, &again, NULL), 0);
	assert_true(dof_set_equal(&set, &again));
	dof_set_free(&again);
	free(data);
}

/* Changed bytes must be refused, or unpack to a valid set, which packing again verifies. */
static void check_changed(const void *data, size_t bytes)
{
	struct fathom_fault why = { 0 };
	struct dof_set set, again;
	size_t again_bytes;
	void *packed;

	if (dof_unpack(data, bytes, &set, &why) != 0) {
		assert_true(why.text[0]);
		return;
	}
	assert_int_equal(dof_pack(&set, &packed, &again_bytes), 0);
	assert_int_equal(dof_unpack(packed, again_bytes, &again, &why), 0);
	assert_true(dof_set_equal(&set, &again));
	dof_set_free(&again);
	dof_set_free(&set);
	free(packed);
}

static void changed_or_truncated_bytes_are_refused_or_a_valid_set(void **state)
{
	static const uint8_t patterns[] = { 0x01, 0x80, 0xff };

	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		struct dof_set set = parse_sample(names[i]);
		size_t bytes;
		uint8_t *data;
		void *packed;

		assert_int_equal(dof_pack(&set, &packed, &bytes), 0);
		data = packed;
		for (size_t at = 0; at < bytes; at++) {
			uint8_t *cut = malloc(at + 1);

			/* in its own allocation, so that a sanitizer detects a read beyond it */
			assert_non_null(cut);
			memcpy(cut, data, at);
			assert_int_equal(dof_unpack(cut, at, &(struct dof_set){ 0 }, NULL), -EPROTO);
			free(cut);
			for (size_t j = 0; j < ARRAY_COUNT(patterns); j++) {
				data[at] ^= patterns[j];
				check_changed(data, bytes);
				data[at] ^= patterns[j];
			}
		}
		free(packed);
		dof_set_free(&set);
	}
}

static void unpacking_works_in_preallocated_memory(void **state)
{
	static _Alignas(16) char room[1 << 20], packed[1 << 20];

	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		struct dof_set set = parse_sample(names[i]), again;
		struct dof_packed result = { .data = packed };
		size_t bytes, least = 0;
		char *data = sample_read(names[i], ".dof", &bytes);
		struct dof_input input = sample_input(data, bytes, 0x1000);
		struct fathom_fault why = { 0 };

		/* too little memory is an error, until it is enough */
		for (struct dof_room part = { room, 0 };; part.bytes += 64) {
			int rc;

			result.bytes_max = sizeof(packed);
			rc = dof_parse_packed(&input, NULL, &part, &result, &why);

			assert_true(part.bytes < sizeof(room));
			least = part.bytes;
			if (rc == 0)
				break;
			assert_int_equal(rc, -ENOMEM);
		}
		assert_true(least > 0);
		assert_int_equal(dof_unpack(packed, result.bytes, &again, &why), 0);
		assert_true(dof_set_equal(&set, &again));
		result.bytes_max = result.bytes - 1;
		assert_int_equal(dof_parse_packed(&input, NULL, &(struct dof_room){ room, sizeof(room) }, &result, &why),
				 -E2BIG);
		dof_set_free(&again);
		dof_set_free(&set);
		free(data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_packed_set_unpacks_equal),
		cmocka_unit_test(an_empty_set_unpacks_equal),
		cmocka_unit_test(changed_or_truncated_bytes_are_refused_or_a_valid_set),
		cmocka_unit_test(unpacking_works_in_preallocated_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
