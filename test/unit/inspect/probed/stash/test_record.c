/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of each version equal DTrace's layout byte by byte; the decoder checks each field. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "inspect/probed/stash/record.h"

static const char *const native[] = { "int", "char *" };
static const char *const translated[] = { "pid_t", "string", "int" };
static const uint8_t map[] = { 0, 1, 0 };
/* Sorted by address, as in a set; a file has the second one first. */
static const struct dof_site sites[] = {
	{ 0x401120, true, "" },
	{ 0x401136, false, "-4@%edi 8@%rsi" },
	{ 0x401140, false, "" },
};
static const struct dof_probe probe = { .module = "a.out",
					.function = "main",
					.name = "go",
					.native_count = 2,
					.translated_count = 3,
					.native = native,
					.translated = translated,
					.map = map,
					.site_count = 3,
					.sites = sites };
static const struct dof_provider provider = { .name = "test", .probe_count = 1, .probes = &probe };

struct bytes {
	uint8_t data[1024];
	size_t used;
};

static void put(struct bytes *bytes, const void *data, size_t count)
{
	assert_true(bytes->used + count <= sizeof(bytes->data));
	memcpy(bytes->data + bytes->used, data, count);
	bytes->used += count;
}

static void put_number(struct bytes *bytes, uint64_t number, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t byte = (uint8_t)(number >> (8 * i));

		put(bytes, &byte, 1);
	}
}

/* A header as documented: size, type, four zero bytes. */
static void put_head(struct bytes *bytes, uint64_t size, uint32_t type)
{
	put_number(bytes, size, 8);
	put_number(bytes, type, 4);
	put_number(bytes, 0, 4);
}

static void put_site(struct bytes *bytes, uint64_t size, uint64_t address, bool is_enabled, const char *args)
{
	size_t begin = bytes->used;

	put_head(bytes, size, 2);
	put_number(bytes, address, 8);
	put_number(bytes, is_enabled, 4);
	put(bytes, args, strlen(args));
	while (bytes->used < begin + size)
		put_number(bytes, 0, 1);
}

static void make_by_hand(struct bytes *bytes, uint32_t version)
{
	bytes->used = 0;
	put_number(bytes, version, 8);
	put_head(bytes, 24 + 5, 0);
	put_number(bytes, 1, 8);
	put(bytes, "test", 5);
	put_head(bytes, (version == 1 ? 24 : 40) + 14, 1);
	put_number(bytes, 3, 8);
	if (version > 1) {
		put_number(bytes, 2, 8);
		put_number(bytes, 3, 8);
	}
	put(bytes, "a.out\0main\0go", 14);
	if (version > 1) {
		put_head(bytes, 16 + 11, 5);
		put(bytes, "int\0char *", 11);
		put_head(bytes, 16 + 17, 6);
		put(bytes, "pid_t\0string\0int", 17);
		put_head(bytes, 16 + 3, 7);
		put(bytes, "\0\1\0", 3);
	}
	put_site(bytes,
		 version == 1	? 32
		 : version == 2 ? 48
				: 28 + 15,
		 0x401136, false, version == 3 ? sites[1].args : "");
	put_site(bytes, version == 1 ? 32 : 48, 0x401140, false, "");
	put_site(bytes, version == 1 ? 32 : 48, 0x401120, true, "");
}

static void records_of_each_version_equal_the_documented_layout(void **state)
{
	for (uint32_t version = 1; version <= 3; version++) {
		uint8_t made[1024];
		struct bytes expected;

		make_by_hand(&expected, version);
		assert_int_equal(record_bytes(&provider, &probe, version), expected.used);
		memset(made, 0xff, sizeof(made));
		record_encode(&provider, &probe, version, made);
		assert_memory_equal(made, expected.data, expected.used);
		assert_int_equal(made[expected.used], 0xff);
	}
}

/* 8 bytes for the version, 29 for the provider "test", 40 + names for the probe, 48 for each site. */
static void a_probe_without_arguments_has_no_argument_records(void **state)
{
	struct dof_probe bare = probe;

	bare.native_count = bare.translated_count = 0;
	bare.site_count = 1;
	bare.sites = &sites[2];
	assert_int_equal(record_bytes(&provider, &bare, 3), 8 + 29 + 54 + 48);
	assert_int_equal(record_bytes(&provider, &bare, 2), 8 + 29 + 54 + 48);
	assert_int_equal(record_bytes(&provider, &bare, 1), 8 + 29 + 38 + 32);
}

static void a_decoded_record_equals_the_encoded_probe(void **state)
{
	for (uint32_t version = 1; version <= 3; version++) {
		const struct dof_probe *there;
		struct bytes bytes;
		struct record record;
		struct fathom_fault why = { 0 };

		make_by_hand(&bytes, version);
		assert_int_equal(record_decode(bytes.data, bytes.used, &record, &why), 0);
		assert_int_equal(record.version, version);
		assert_int_equal(record.provider_probes, 1);
		assert_string_equal(record.set.providers->name, "test");
		there = record.set.providers->probes;
		assert_string_equal(there->function, "main");
		assert_int_equal(there->site_count, 3);
		assert_int_equal(there->sites[0].is_enabled, 1);
		assert_int_equal(there->native_count, version == 1 ? 0 : 2);
		assert_string_equal(there->sites[1].args, version == 3 ? sites[1].args : "");
		if (version == 3)
			assert_true(dof_probe_equal(there, &probe));
		record_free(&record);
	}
}

static void records_of_the_same_probe_in_two_objects_are_the_same(void **state)
{
	struct dof_provider other = provider;
	uint8_t one[1024], two[1024];
	size_t bytes = record_bytes(&provider, &probe, 3);

	other.probe_count = 7;
	record_encode(&provider, &probe, 3, one);
	record_encode(&other, &probe, 3, two);
	assert_memory_not_equal(one, two, bytes);
	assert_true(record_same(one, bytes, two, bytes));
	assert_false(record_same(one, bytes, two, bytes - 1));
	two[bytes - 40] ^= 1; /* changes an address */
	assert_false(record_same(one, bytes, two, bytes));
	assert_false(record_same(one, 4, one, 4));
}

static void decode(const uint8_t *data, size_t bytes, bool *good)
{
	/* a copy of exact size, so that a sanitizer detects a read beyond it */
	uint8_t *copy = malloc(bytes ? bytes : 1);
	struct fathom_fault why = { 0 };
	struct record record;

	assert_non_null(copy);
	memcpy(copy, data, bytes);
	*good = record_decode(copy, bytes, &record, &why) == 0;
	if (*good)
		record_free(&record);
	else
		assert_true(why.error < 0 && why.text[0]);
	free(copy);
}

static void a_truncated_or_extended_record_is_refused(void **state)
{
	for (uint32_t version = 1; version <= 3; version++) {
		struct bytes bytes;
		bool good;

		make_by_hand(&bytes, version);
		for (size_t count = 0; count < bytes.used; count++) {
			decode(bytes.data, count, &good);
			assert_false(good);
		}
		put_number(&bytes, 0, 1);
		decode(bytes.data, bytes.used, &good);
		assert_false(good);
	}
}

static void a_record_with_any_changed_byte_is_decoded_or_refused(void **state)
{
	struct random random;

	random_init(&random, 5);
	for (uint32_t version = 1; version <= 3; version++) {
		struct bytes bytes;
		bool good;

		make_by_hand(&bytes, version);
		for (size_t at = 0; at < bytes.used; at++) {
			static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff, '/', '.' };
			uint8_t was = bytes.data[at];

			for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
				bytes.data[at] = values[i];
				decode(bytes.data, bytes.used, &good);
			}
			bytes.data[at] = (uint8_t)random_next(&random);
			decode(bytes.data, bytes.used, &good);
			bytes.data[at] = was;
		}
	}
}

struct damage {
	size_t at;
	uint64_t value;
	size_t bytes;
	int error;
};

static void invalid_fields_are_refused(void **state)
{
	static const struct damage rows[] = {
		{ 0, 0, 8, -ENOTSUP },
		{ 0, 4, 8, -ENOTSUP },
		{ 0, UINT64_MAX, 8, -ENOTSUP },
		{ 8, 25, 8, -EINVAL },	       /* a provider without a name */
		{ 8, UINT64_MAX, 8, -EINVAL }, /* a size that overflows */
		{ 8, 1 << 20, 8, -EINVAL },
		{ 16, 1, 4, -EINVAL },	 /* not the type of a provider */
		{ 32, '/', 1, -EINVAL }, /* an invalid name */
		{ 36, 'x', 1, -EINVAL }, /* a name without a NUL */
		{ 53, 0, 8, -EINVAL },	 /* without sites */
		{ 53, 4, 8, -EINVAL },	 /* one site more than the record has */
		{ 53, UINT64_MAX, 8, -EINVAL },
		{ 61, 3, 8, -EINVAL }, /* types */
		{ 61, 256, 8, -EINVAL },
		{ 61, UINT64_MAX, 8, -EINVAL },
		{ 69, 4, 8, -EINVAL },
		{ 77, ':', 1, -EINVAL },	    /* the module's name */
		{ 167, 2, 1, -EINVAL },		    /* the map refers to a missing native argument */
		{ 170 + 16, 0x401150, 8, -EINVAL }, /* sites out of order */
	};
	struct bytes bytes;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct record record;
		struct fathom_fault why = { 0 };

		make_by_hand(&bytes, 3);
		memcpy(bytes.data + rows[i].at, &rows[i].value, rows[i].bytes);
		if (record_decode(bytes.data, bytes.used, &record, &why) != rows[i].error)
			fail_msg("row %zu: error %d, %s", i, why.error, why.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_of_each_version_equal_the_documented_layout),
		cmocka_unit_test(a_probe_without_arguments_has_no_argument_records),
		cmocka_unit_test(a_decoded_record_equals_the_encoded_probe),
		cmocka_unit_test(records_of_the_same_probe_in_two_objects_are_the_same),
		cmocka_unit_test(a_truncated_or_extended_record_is_refused),
		cmocka_unit_test(a_record_with_any_changed_byte_is_decoded_or_refused),
		cmocka_unit_test(invalid_fields_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
