/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Round trips: an encoded set decodes to an equal set and encodes to the same bytes again. The layout is that of `dtrace
 * -G`.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "made.h"
#include "inspect/probed/dof/format.h"
#include "samples.h"

static const char *const names[] = SAMPLE_NAMES;

struct object {
	void *data;
	size_t bytes;
};

static struct object encode(const struct dof_set *set, const struct dof_encoding *encoding)
{
	struct fathom_fault why = { 0 };
	struct object object;

	if (dof_encode(set, encoding, &object.data, &object.bytes, &why) != 0)
		fail_msg("%s", why.text);
	return object;
}

static struct dof_set parse(const struct object *object, uint64_t base)
{
	struct dof_input input = sample_input(object->data, object->bytes, base);
	struct fathom_fault why = { 0 };
	struct dof_set set;

	if (dof_parse(&input, NULL, &set, &why) != 0)
		fail_msg("%s", why.text);
	return set;
}

static void check_round(const char *name, const struct dof_encoding *encoding, uint64_t base)
{
	struct object sample = { .data = sample_read(name, ".dof", &sample.bytes) }, written, again;
	struct dof_set flat = parse(&sample, 0), placed = parse(&sample, base), read;

	/* relocatable: offsets are written, and parsing at the base gives the sample's addresses */
	written = encode(encoding->relocate ? &flat : &placed, encoding);
	read = parse(&written, base);
	assert_true(dof_set_equal(&read, &placed));
	dof_set_free(&read);
	read = parse(&written, encoding->relocate ? 0 : base);
	again = encode(&read, encoding);
	assert_int_equal(again.bytes, written.bytes);
	assert_memory_equal(again.data, written.data, written.bytes);
	dof_set_free(&read);
	dof_set_free(&placed);
	dof_set_free(&flat);
	free(again.data);
	free(written.data);
	free(sample.data);
}

static bool has_enabled(const char *name)
{
	return strcmp(name, "isen") == 0 || strcmp(name, "multi") == 0;
}

static void an_encoded_set_decodes_equal_and_encodes_to_the_same_bytes(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		for (uint8_t version = has_enabled(names[i]) ? 3 : 1; version <= 3; version++) {
			for (int kind = 0; kind < 4; kind++) {
				struct dof_encoding encoding = { version, kind & 1, kind & 2 };

				check_round(names[i], &encoding, 0x10000000);
			}
		}
	}
}

/* The types of sections, in the order of `dtrace -G`. */
static void the_layout_equals_that_of_dtrace(void **state)
{
	static const uint32_t types[] = { 8, 16, 17, 18, 26, 15, 10, 12 }, aligns[] = { 1, 8, 1, 4, 4, 4, 8, 4 };
	struct dof_set set = made_set(7, true);
	struct object object = encode(&set, &(struct dof_encoding){ .version = 3, .relocate = true });
	struct dof_section strings = { 0 }, section;
	struct dof_header header;
	uint64_t end;

	memcpy(&header, object.data, sizeof(header));
	assert_memory_equal(header.magic, "\177DOF", 4);
	assert_int_equal(header.section_count, ARRAY_COUNT(types));
	assert_int_equal(header.load_bytes, object.bytes);
	assert_int_equal(header.file_bytes, object.bytes);
	end = header.sections_at + header.section_count * sizeof(section);
	for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
		memcpy(&section, (char *)object.data + header.sections_at + i * sizeof(section), sizeof(section));
		assert_int_equal(section.type, types[i]);
		assert_int_equal(section.align, aligns[i]);
		assert_int_equal(section.flags, 1);
		if (i == 0) {
			strings = section;
			continue;
		}
		assert_true(section.offset >= end && section.offset < end + section.align);
		end = section.offset + section.bytes;
	}
	assert_int_equal(strings.offset, end);
	assert_int_equal(strings.offset + strings.bytes, object.bytes);
	free(object.data);
	made_free(&set);
}

static void a_set_that_a_version_cannot_express_is_refused(void **state)
{
	struct dof_set set = made_set(3, true);
	struct dof_provider *provider = (struct dof_provider *)(uintptr_t)set.providers;
	struct dof_probe *probe = (struct dof_probe *)(uintptr_t)provider->probes;
	struct dof_site *site = (struct dof_site *)(uintptr_t)probe->sites;
	struct dof_encoding encoding = { .version = 3 };
	static const uint8_t no_map[] = { 0, 2 };
	struct fathom_fault why;
	size_t bytes;
	void *data;

#define REFUSED(change, words)                                                                                             \
	do {                                                                                                               \
		struct dof_provider old_provider = *provider;                                                              \
		struct dof_probe old_probe = *probe;                                                                       \
		struct dof_site old_site = *site;                                                                          \
		struct dof_encoding old_encoding = encoding;                                                               \
		change;                                                                                                    \
		why.text[0] = '\0';                                                                                        \
		assert_int_equal(dof_encode(&set, &encoding, &data, &bytes, &why), -EINVAL);                               \
		assert_non_null(strstr(why.text, words));                                                                  \
		*provider = old_provider;                                                                                  \
		*probe = old_probe;                                                                                        \
		*site = old_site;                                                                                          \
		encoding = old_encoding;                                                                                   \
	} while (0)
	REFUSED(encoding.version = 0, "version");
	REFUSED(encoding.version = 4, "version");
	REFUSED(encoding.version = 2, "version 3");
	REFUSED(encoding.version = 1, "version 3");
	REFUSED(provider->name = "", "name");
	REFUSED(provider->name = "a/b", "name");
	REFUSED(provider->probe_count = 0, "probes");
	REFUSED(probe->name = "a:b", "name");
	REFUSED(probe->function = "..", "name");
	REFUSED(probe->site_count = 0, "no site");
	REFUSED(probe->map = no_map, "refers to no native argument");
	REFUSED(probe->native_count = 256, "arguments");
	REFUSED(site->address = 0x200000000, "far");
	REFUSED(encoding.bits_32 = true; site->address = 0x100000000, "far");
#undef REFUSED
	assert_int_equal(dof_encode(&set, &encoding, &data, &bytes, &why), 0);
	free(data);
	made_free(&set);
}

static void sets_of_any_size_decode_equal(void **state)
{
	static const uint32_t counts[] = { 1, 2, 10, 100, 1000, 5000 };

	for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
		struct dof_set set = made_set(counts[i], true), read;
		struct object object = encode(&set, &(struct dof_encoding){ .version = 3 });

		read = parse(&object, 0);
		assert_true(dof_set_equal(&set, &read));
		dof_set_free(&read);
		free(object.data);
		made_free(&set);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_encoded_set_decodes_equal_and_encodes_to_the_same_bytes),
		cmocka_unit_test(the_layout_equals_that_of_dtrace),
		cmocka_unit_test(a_set_that_a_version_cannot_express_is_refused),
		cmocka_unit_test(sets_of_any_size_decode_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
