/* SPDX-License-Identifier: BSD-2-Clause */
/* A set as bytes is the same set, and bytes that are none are refused. */
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

static void what_was_packed_is_unpacked(void **state)
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

static void an_empty_set_is_packed_too(void **state)
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

/* What comes of bytes that somebody changed: a refusal, or a set that is good, which packing it again shows. */
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

static void no_changed_byte_and_no_cut_does_harm(void **state)
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

			/* in a piece of its own, so that a sanitizer sees what is read behind it */
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

static void it_works_where_no_memory_can_be_asked_for(void **state)
{
	static _Alignas(16) char room[1 << 20], packed[1 << 20];

	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		struct dof_set set = parse_sample(names[i]), again;
		struct dof_packed result = { .data = packed };
		size_t bytes, least = 0;
		char *data = sample_read(names[i], ".dof", &bytes);
		struct dof_input input = sample_input(data, bytes, 0x1000);
		struct fathom_fault why = { 0 };

		/* with less room it says so, until there is enough */
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
		cmocka_unit_test(what_was_packed_is_unpacked),
		cmocka_unit_test(an_empty_set_is_packed_too),
		cmocka_unit_test(no_changed_byte_and_no_cut_does_harm),
		cmocka_unit_test(it_works_where_no_memory_can_be_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
