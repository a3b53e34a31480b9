/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invalid objects that crashed, confused or deceived a registry, and the error of each. They are made from one of our
 * objects, laid out like those of `dtrace -G`.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/probed/dof/format.h"
#include "samples.h"

enum { ROOM_BYTES = 1 << 20 };

static const char *const names[] = SAMPLE_NAMES;

/* Sections of a provider with is-enabled sites, and of the second provider. */
enum { STRTAB, PROBES, PRARGS, PROFFS, PRENOFFS, PROVIDER, RELTAB, URELHDR, PROBES_2, PRARGS_2, PROFFS_2, PROVIDER_2 };

static const char *const types[] = { "int", "char *" };
static const uint8_t map[] = { 0, 1 };
static const struct dof_site first_sites[] = { { 0x10, false, "" }, { 0x14, true, "" } };
static const struct dof_site second_sites[] = { { 0x20, false, "" }, { 0x28, false, "" } };
static const struct dof_probe first_probes[] = {
	{ "m", "f", "a", 2, 2, types, types, map, 2, first_sites },
	{ "m", "f", "b", 0, 0, NULL, NULL, NULL, 2, second_sites },
};
static const struct dof_probe second_probes[] = { { "m", "g", "a", 0, 0, NULL, NULL, NULL, 2, second_sites } };
static const struct dof_provider providers[] = { { "one", { 0 }, 2, first_probes }, { "two", { 0 }, 1, second_probes } };

struct object {
	char *data;
	size_t bytes;
};

static struct object make(void)
{
	struct dof_set set = { .provider_count = 2, .providers = providers };
	struct object object;
	void *data;

	assert_int_equal(dof_encode(&set, &(struct dof_encoding){ .version = 3, .relocate = true }, &data, &object.bytes,
				    NULL),
			 0);
	object.data = data;
	return object;
}

static struct dof_section *section(struct object *object, uint32_t index)
{
	return (struct dof_section *)(void *)(object->data + sizeof(struct dof_header)) + index;
}

static void *content(struct object *object, uint32_t index)
{
	return object->data + section(object, index)->offset;
}

static struct dof_header *header(struct object *object)
{
	return (void *)object->data;
}

static struct dof_probe_record *probe(struct object *object, uint32_t index)
{
	return (struct dof_probe_record *)content(object, PROBES) + index;
}

static struct dof_provider_record *provider(struct object *object, uint32_t index)
{
	return content(object, index);
}

static struct dof_relocation *relocation(struct object *object)
{
	return content(object, RELTAB);
}

static struct dof_relocation_header *relocation_header(struct object *object)
{
	return content(object, URELHDR);
}

/* Overwrite the string at offset `at` of the string table with `name`; it may overwrite the next one. */
static void rename_at(struct object *object, uint32_t at, const char *name, size_t bytes)
{
	memcpy((char *)content(object, STRTAB) + at, name, bytes);
}

/* Assert that parsing fails with `error` and `text` in its message, both with malloc() and in preallocated memory. */
static void assert_refused(struct object *object, uint64_t base, int error, const char *text, const char *what)
{
	struct dof_input input = sample_input(object->data, object->bytes, base);
	static _Alignas(16) char room[ROOM_BYTES], packed[ROOM_BYTES];
	struct dof_packed result = { .data = packed, .bytes_max = sizeof(packed) };
	struct fathom_fault why = { 0 };
	struct dof_set set;
	int rc = dof_parse(&input, NULL, &set, &why);

	if (rc != error || !strstr(why.text, text))
		fail_msg("%s: error %d, \"%s\"", what, rc, why.text);
	why = (struct fathom_fault){ 0 };
	rc = dof_parse_packed(&input, NULL, &(struct dof_room){ room, sizeof(room) }, &result, &why);
	if (rc != error || !strstr(why.text, text))
		fail_msg("%s, in preallocated memory: error %d, \"%s\"", what, rc, why.text);
	free(object->data);
}

#define CASE(change, error, text)                                                                                          \
	do {                                                                                                               \
		struct object o = make();                                                                                  \
		change;                                                                                                    \
		assert_refused(&o, 0x1000, error, text, #change);                                                          \
	} while (0)

static void the_unchanged_object_is_valid(void **state)
{
	struct object o = make();
	struct dof_input input = sample_input(o.data, o.bytes, 0x1000);
	struct dof_set set;
	struct fathom_fault why = { 0 };

	if (dof_parse(&input, NULL, &set, &why) != 0)
		fail_msg("%s", why.text);
	assert_int_equal(section(&o, PRENOFFS)->type, DOF_SECTION_PRENOFFS);
	assert_int_equal(section(&o, PROVIDER_2)->type, DOF_SECTION_PROVIDER);
	dof_set_free(&set);
	free(o.data);
}

static void headers_are_checked(void **state)
{
	CASE(o.bytes = 0, -EINVAL, "header");
	CASE(o.bytes = 63, -EINVAL, "header");
	CASE(o.data[0] = 'E', -EINVAL, "not DOF");
	CASE(header(&o)->model = 0, -ENOTSUP, "data model");
	CASE(header(&o)->model = 3, -ENOTSUP, "data model");
	CASE(header(&o)->encoding = 2, -ENOTSUP, "encoding");
	CASE(header(&o)->version = 0, -ENOTSUP, "version");
	CASE(header(&o)->version = 4, -ENOTSUP, "version");
	CASE(header(&o)->dif_version = 1, -ENOTSUP, "DIF");
	CASE(header(&o)->dif_registers = 9, -EINVAL, "registers");
	CASE(header(&o)->dif_tuple_registers = 9, -EINVAL, "registers");
	CASE(header(&o)->pad[5] = 1, -EINVAL, "zero");
	CASE(header(&o)->flags = 1, -EINVAL, "flags");
	CASE(header(&o)->header_bytes = 0, -EINVAL, "header of");
	CASE(header(&o)->section_bytes = 0, -EINVAL, "section headers of");
	CASE(header(&o)->section_bytes = 40, -EINVAL, "section headers of");
	CASE(header(&o)->section_count = UINT32_MAX, -EINVAL, "do not fit");
	CASE(header(&o)->sections_at = UINT64_MAX - 7, -EINVAL, "do not fit");
	CASE(header(&o)->sections_at = 8, -EINVAL, "do not fit");
	CASE(header(&o)->sections_at = 65, -EINVAL, "do not fit");
	CASE(header(&o)->load_bytes = 0, -EINVAL, "loaded");
	CASE(header(&o)->load_bytes = o.bytes + 1, -EINVAL, "loaded");
	CASE(header(&o)->load_bytes = 1ull << 28 | 1, -E2BIG, "allowed");
	CASE(header(&o)->load_bytes = UINT64_MAX, -E2BIG, "allowed");
}

static void ranges_of_sites_outside_their_tables_are_refused_also_if_empty(void **state)
{
	uint32_t sites = 0, enabled = 0;
	struct object object = make();

	sites = (uint32_t)(section(&object, PROFFS)->bytes / 4);
	enabled = (uint32_t)(section(&object, PRENOFFS)->bytes / 4);
	free(object.data);
	CASE((probe(&o, 0)->site_count = 0, probe(&o, 0)->site_index = sites + 1), -EINVAL, "0 sites from");
	CASE((probe(&o, 0)->site_count = 0, probe(&o, 0)->site_index = UINT32_MAX), -EINVAL, "0 sites from");
	CASE((probe(&o, 1)->enabled_count = 0, probe(&o, 1)->enabled_index = enabled + 1), -EINVAL,
	     "0 is-enabled sites from");
	/* an empty range at the end of the table is valid */
	object = make();
	probe(&object, 0)->site_count = 0;
	probe(&object, 0)->site_index = sites;
	probe(&object, 1)->enabled_count = 0;
	probe(&object, 1)->enabled_index = enabled;
	{
		struct dof_input input = sample_input(object.data, object.bytes, 0x1000);
		struct fathom_fault why = { 0 };
		struct dof_set set;

		if (dof_parse(&input, NULL, &set, &why) != 0)
			fail_msg("%s", why.text);
		dof_set_free(&set);
	}
	free(object.data);
}

static void sections_are_checked(void **state)
{
	for (uint32_t i = STRTAB; i <= PROVIDER_2; i++) {
		CASE(section(&o, i)->flags = 0, -EINVAL, "loaded");
		CASE(section(&o, i)->align = 3, -EINVAL, "alignment");
		CASE(section(&o, i)->align = 0, -EINVAL, "alignment");
		CASE(section(&o, i)->offset = o.bytes + 8 - o.bytes % 8, -EINVAL, "");
		CASE(section(&o, i)->offset = UINT64_MAX - 7, -EINVAL, "behind");
		CASE(section(&o, i)->bytes = UINT64_MAX, -EINVAL, "behind");
		CASE(section(&o, i)->bytes = o.bytes, -EINVAL, "behind");
	}
	CASE(section(&o, PROBES)->offset += 4, -EINVAL, "alignment");
	CASE(section(&o, STRTAB)->bytes = 0, -EINVAL, "NUL");
	CASE(o.data[o.bytes - 1] = 'x', -EINVAL, "NUL");
	CASE(section(&o, PROBES)->entry_bytes = 0, -EINVAL, "entries of 0");
	CASE(section(&o, PROBES)->entry_bytes = 40, -EINVAL, "entries of 40");
	CASE(section(&o, PROBES)->entry_bytes = 52, -EINVAL, "entries of 52");
	CASE(section(&o, PROBES)->entry_bytes = 64, -EINVAL, "whole entries");
	CASE(section(&o, PROBES)->bytes = 0, -EINVAL, "");
	CASE(section(&o, PROFFS)->entry_bytes = 0, -EINVAL, "entries of 0");
	CASE(section(&o, PROFFS)->entry_bytes = 8, -EINVAL, "entries of 8");
	CASE(section(&o, PROFFS)->align = 2, -EINVAL, "aligned");
	CASE(section(&o, PRARGS)->entry_bytes = 2, -EINVAL, "entries of 2");
	/* other parsers accept this and read past its end */
	CASE(section(&o, PRENOFFS)->entry_bytes = 0, -EINVAL, "entries of 0");
	CASE(section(&o, PRENOFFS)->entry_bytes = 1, -EINVAL, "entries of 1");
	CASE(section(&o, RELTAB)->entry_bytes = 16, -EINVAL, "entries of 16");
	CASE(section(&o, RELTAB)->align = 4, -EINVAL, "aligned");
	CASE(section(&o, URELHDR)->bytes = 8, -EINVAL, "a header has 12");
	CASE(section(&o, URELHDR)->align = 8, -EINVAL, "");
}

static void relocations_are_checked(void **state)
{
	CASE(relocation_header(&o)->strings = 99, -EINVAL, "section 99");
	CASE(relocation_header(&o)->strings = PROBES, -EINVAL, "not STRTAB");
	CASE(relocation_header(&o)->relocations = UINT32_MAX, -EINVAL, "section 4294967295");
	CASE(relocation_header(&o)->relocations = STRTAB, -EINVAL, "not RELTAB");
	CASE(relocation_header(&o)->target = 99, -EINVAL, "section 99");
	CASE(relocation_header(&o)->target = PROFFS, -EINVAL, "not PROBES");
	CASE(relocation(&o)->type = 2, -EINVAL, "type 2");
	CASE(relocation(&o)->name = UINT32_MAX, -EINVAL, "a name");
	CASE(relocation(&o)->offset = UINT64_MAX, -EINVAL, "not the address of a probe");
	CASE(relocation(&o)->offset = 8, -EINVAL, "not the address of a probe");
	CASE(relocation(&o)->offset = 96, -EINVAL, "not the address of a probe");
	{
		struct object o = make();

		probe(&o, 0)->address = 2;
		assert_refused(&o, UINT64_MAX - 1, -EINVAL, "64 bits", "base");
	}
}

static void providers_are_checked(void **state)
{
	CASE(section(&o, PROVIDER)->bytes = 43, -EINVAL, "44");
	CASE(section(&o, PROVIDER)->offset += 2; section(&o, PROVIDER)->align = 2, -EINVAL, "aligned to 4");
	CASE(provider(&o, PROVIDER)->strings = 99, -EINVAL, "section 99");
	CASE(provider(&o, PROVIDER)->strings = PROBES, -EINVAL, "not STRTAB");
	CASE(provider(&o, PROVIDER)->probes = PRARGS, -EINVAL, "not PROBES");
	CASE(provider(&o, PROVIDER)->map = PROFFS, -EINVAL, "not PRARGS");
	CASE(provider(&o, PROVIDER)->sites = PRENOFFS, -EINVAL, "not PROFFS");
	CASE(provider(&o, PROVIDER)->enabled_sites = PROFFS, -EINVAL, "not PRENOFFS");
	CASE(provider(&o, PROVIDER)->enabled_sites = UINT32_MAX, -EINVAL, "section 4294967295");
	CASE(provider(&o, PROVIDER)->enabled_sites = 0, -EINVAL, "is-enabled sites");
	CASE(provider(&o, PROVIDER)->name = UINT32_MAX, -EINVAL, "its name");
	CASE(provider(&o, PROVIDER)->name = 0, -EINVAL, "its name");
	CASE(provider(&o, PROVIDER_2)->name = provider(&o, PROVIDER)->name, -EEXIST, "occurs twice");
	/* both are probes of the first provider */
	CASE(provider(&o, PROVIDER_2)->strings = UINT32_MAX, -EINVAL, "section");
}

static void probes_are_checked(void **state)
{
	CASE(probe(&o, 0)->function = UINT32_MAX, -EINVAL, "function");
	CASE(probe(&o, 0)->name = UINT32_MAX, -EINVAL, "probe");
	CASE(probe(&o, 1)->name = probe(&o, 0)->name, -EEXIST, "occurs twice");
	/* 0x3fffffff * 4 overflows 32 bits, which crashed another parser */
	CASE(probe(&o, 0)->site_index = 0x3fffffff, -EINVAL, "sites from index 1073741823");
	CASE(probe(&o, 0)->site_index = UINT32_MAX, -EINVAL, "sites from");
	CASE(probe(&o, 0)->site_count = UINT16_MAX, -EINVAL, "65535 sites");
	CASE(probe(&o, 0)->enabled_index = 0x3fffffff, -EINVAL, "is-enabled sites from");
	CASE(probe(&o, 0)->enabled_index = UINT32_MAX, -EINVAL, "is-enabled sites from");
	CASE(probe(&o, 0)->enabled_count = 2, -EINVAL, "is-enabled sites from");
	CASE(probe(&o, 1)->site_count = 0, -EINVAL, "no site");
	/* version 2 has no is-enabled sites */
	CASE(header(&o)->version = 2; probe(&o, 0)->site_count = 0, -EINVAL, "version 2");
	CASE(header(&o)->version = 1; probe(&o, 0)->site_count = 0, -EINVAL, "no site");
	CASE(probe(&o, 0)->map_index = UINT32_MAX, -EINVAL, "arguments from index");
	CASE(probe(&o, 0)->map_index = 1, -EINVAL, "arguments from index");
	CASE(probe(&o, 1)->map_index = 3, -EINVAL, "arguments from index");
	CASE(probe(&o, 0)->translated_count = 3, -EINVAL, "");
	/* an index equal to the count is invalid; other parsers accept it */
	CASE(((uint8_t *)content(&o, PRARGS))[1] = 2, -EINVAL, "native argument 2 of 2");
	CASE(((uint8_t *)content(&o, PRARGS))[1] = 255, -EINVAL, "native argument 255");
	CASE(probe(&o, 0)->native = UINT32_MAX, -EINVAL, "native type");
	CASE(probe(&o, 0)->native_count = 255, -EINVAL, "native type");
	CASE(probe(&o, 0)->translated = (uint32_t)section(&o, STRTAB)->bytes, -EINVAL, "translated type");
	CASE(((uint32_t *)content(&o, PROFFS))[2] = ((uint32_t *)content(&o, PROFFS))[1], -EEXIST, "occurs twice");
	CASE(probe(&o, 0)->address = UINT64_MAX - 2; ((uint32_t *)content(&o, PROFFS))[0] = 8, -EINVAL, "data model");
	CASE(header(&o)->model = 1; probe(&o, 0)->address = UINT32_MAX;
	     ((uint32_t *)content(&o, PROFFS))[0] = 1, -EINVAL, "data model");
}

/* Names become file names and parts of probe descriptions. */
static void invalid_names_are_refused_in_each_field(void **state)
{
	static const struct {
		const char *name;
		size_t bytes;
	} bad[] = { { "\0", 2 }, { "/", 2 },	{ ":", 2 },    { "*", 2 },    { "?", 2 }, { "[", 2 },
		    { "\n", 2 }, { "\033", 2 }, { "\177", 2 }, { "\377", 2 }, { ".", 2 } };

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
		CASE(rename_at(&o, probe(&o, 0)->function, bad[i].name, bad[i].bytes), -EINVAL, "the name of the function");
		CASE(rename_at(&o, probe(&o, 0)->name, bad[i].name, bad[i].bytes), -EINVAL, "the name of the probe");
		CASE(rename_at(&o, provider(&o, PROVIDER)->name, bad[i].name, bad[i].bytes), -EINVAL, "its name");
	}
	CASE(rename_at(&o, provider(&o, PROVIDER)->name, "..", 3), -EINVAL, "its name");
	CASE(rename_at(&o, provider(&o, PROVIDER)->name, "a:b", 4), -EINVAL, "its name");
	CASE(rename_at(&o, provider(&o, PROVIDER)->name, "../", 4), -EINVAL, "its name");
}

static void invalid_module_names_are_refused(void **state)
{
	static const char *const bad[] = { "", ".", "..", "a/b", "a:b", "*", "\n" };
	struct object o = make();
	struct dof_input input = sample_input(o.data, o.bytes, 0);
	struct fathom_fault why = { 0 };
	struct dof_set set;

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
		snprintf(input.helper.module, sizeof(input.helper.module), "%s", bad[i]);
		assert_int_equal(dof_parse(&input, NULL, &set, &why), -EINVAL);
		assert_non_null(strstr(why.text, "module"));
	}
	/* without a NUL a read would continue into the base address */
	memset(input.helper.module, 'm', sizeof(input.helper.module));
	assert_int_equal(dof_parse(&input, NULL, &set, &why), -EINVAL);
	assert_non_null(strstr(why.text, "does not end"));
	free(o.data);
}

/* Many small records that share one table could expand to a large set. */
static void an_object_that_expands_beyond_the_limits_is_refused(void **state)
{
	struct object o = make();
	struct dof_input input = sample_input(o.data, o.bytes, 0);
	struct fathom_fault why = { 0 };
	struct dof_set set;

	assert_int_equal(dof_parse(&input, &(struct dof_limits){ .probes_max = 2 }, &set, &why), -E2BIG);
	assert_int_equal(dof_parse(&input, &(struct dof_limits){ .bytes_max = o.bytes - 1 }, &set, &why), -E2BIG);
	/* both providers refer to the probes of the first */
	provider(&o, PROVIDER_2)->probes = PROBES;
	provider(&o, PROVIDER_2)->map = PRARGS;
	provider(&o, PROVIDER_2)->sites = PROFFS;
	provider(&o, PROVIDER_2)->enabled_sites = PRENOFFS;
	assert_int_equal(dof_parse(&input, NULL, &set, &why), 0);
	dof_set_free(&set);
	assert_int_equal(dof_parse(&input, &(struct dof_limits){ .probes_max = 3 }, &set, &why), -E2BIG);
	free(o.data);
}

/* ---- every byte ---- */

static void check_changed(const struct dof_input *input)
{
	struct fathom_fault why = { 0 };
	struct dof_set set, again;
	size_t bytes;
	void *data;

	if (dof_parse(input, NULL, &set, &why) != 0) {
		assert_true(why.error < 0 && why.text[0]);
		return;
	}
	assert_int_equal(dof_pack(&set, &data, &bytes), 0);
	if (dof_unpack(data, bytes, &again, &why) != 0)
		fail_msg("%s", why.text);
	assert_true(dof_set_equal(&set, &again));
	dof_set_free(&again);
	dof_set_free(&set);
	free(data);
}

static void a_sample_with_any_changed_byte_is_parsed_or_refused(void **state)
{
	static const uint8_t patterns[] = { 0x01, 0x02, 0x10, 0x40, 0x80, 0xff };

	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		size_t bytes;
		char *data = sample_read(names[i], ".dof", &bytes), *piece;
		struct dof_input input;

		/* the loaded part in its own allocation, so that a sanitizer detects a read beyond it */
		memcpy(&bytes, data + offsetof(struct dof_header, load_bytes), sizeof(bytes));
		piece = malloc(bytes);
		assert_non_null(piece);
		memcpy(piece, data, bytes);
		input = sample_input(piece, bytes, 0x555500000000);
		for (size_t at = 0; at < bytes; at++) {
			for (size_t j = 0; j < ARRAY_COUNT(patterns); j++) {
				piece[at] = (char)(piece[at] ^ patterns[j]);
				check_changed(&input);
				piece[at] = (char)(piece[at] ^ patterns[j]);
			}
		}
		free(piece);
		free(data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_unchanged_object_is_valid),
		cmocka_unit_test(headers_are_checked),
		cmocka_unit_test(sections_are_checked),
		cmocka_unit_test(ranges_of_sites_outside_their_tables_are_refused_also_if_empty),
		cmocka_unit_test(relocations_are_checked),
		cmocka_unit_test(providers_are_checked),
		cmocka_unit_test(probes_are_checked),
		cmocka_unit_test(invalid_names_are_refused_in_each_field),
		cmocka_unit_test(invalid_module_names_are_refused),
		cmocka_unit_test(an_object_that_expands_beyond_the_limits_is_refused),
		cmocka_unit_test(a_sample_with_any_changed_byte_is_parsed_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
