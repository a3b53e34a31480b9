/* SPDX-License-Identifier: BSD-2-Clause */
/* Each sample parses to exactly the set in its description. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/bits.h"
#include "samples.h"

static const char *const names[] = SAMPLE_NAMES;

static uint64_t number_at(json_t *array, size_t index)
{
	json_t *number = json_array_get(array, index);

	assert_true(json_is_integer(number));
	return (uint64_t)json_integer_value(number);
}

static void check_types(const char *const *types, uint32_t count, json_t *said)
{
	assert_int_equal(count, json_array_size(said));
	for (uint32_t i = 0; i < count; i++)
		assert_string_equal(types[i], json_string_value(json_array_get(said, i)));
}

/* Assert that the sites of one kind are at `offsets` from `function`. */
static void check_sites(const struct dof_probe *probe, bool is_enabled, json_t *offsets, uint64_t function)
{
	size_t seen = 0;

	for (uint32_t i = 0; i < probe->site_count; i++) {
		bool found = false;

		if (probe->sites[i].is_enabled != is_enabled)
			continue;
		for (size_t j = 0; j < json_array_size(offsets); j++)
			found |= probe->sites[i].address == function + number_at(offsets, j);
		assert_true(found);
		assert_string_equal(probe->sites[i].args, "");
		seen++;
	}
	assert_int_equal(seen, json_array_size(offsets));
}

static const struct dof_probe *find_probe(const struct dof_provider *provider, json_t *said)
{
	const char *function = json_string_value(json_object_get(said, "func"));
	const char *name = json_string_value(json_object_get(said, "name"));

	for (uint32_t i = 0; i < provider->probe_count; i++) {
		if (strcmp(provider->probes[i].function, function) == 0 && strcmp(provider->probes[i].name, name) == 0)
			return &provider->probes[i];
	}
	fail_msg("no %s:%s", function, name);
	return NULL;
}

static void check_probe(const struct dof_provider *provider, json_t *said, uint64_t base)
{
	const struct dof_probe *probe = find_probe(provider, said);
	json_t *map = json_object_get(said, "argmap");
	uint64_t function = base + (uint64_t)json_integer_value(json_object_get(said, "addr"));

	assert_string_equal(probe->module, "sample");
	check_types(probe->native, probe->native_count, json_object_get(said, "nargs"));
	check_types(probe->translated, probe->translated_count, json_object_get(said, "xargs"));
	assert_int_equal(json_array_size(map), probe->translated_count);
	for (uint32_t i = 0; i < probe->translated_count; i++)
		assert_int_equal(probe->map[i], number_at(map, i));
	check_sites(probe, false, json_object_get(said, "offs"), function);
	check_sites(probe, true, json_object_get(said, "enoffs"), function);
}

static void check_provider(const struct dof_set *set, json_t *said, uint64_t base)
{
	static const char *const parts[DOF_ATTRIBUTES] = { "prov", "mod", "func", "name", "args" };
	const char *name = json_string_value(json_object_get(said, "name"));
	json_t *attributes = json_object_get(said, "attrs"), *probes = json_object_get(said, "probes"), *probe;
	const struct dof_provider *provider = NULL;
	size_t index;

	for (uint32_t i = 0; i < set->provider_count; i++) {
		if (strcmp(set->providers[i].name, name) == 0)
			provider = &set->providers[i];
	}
	assert_non_null(provider);
	for (size_t i = 0; i < DOF_ATTRIBUTES; i++) {
		uint32_t value = provider->attributes[i];
		char text[32];

		snprintf(text, sizeof(text), "%u/%u/%u", value >> 24, value >> 16 & 0xff, value >> 8 & 0xff);
		assert_string_equal(text, json_string_value(json_object_get(attributes, parts[i])));
	}
	assert_int_equal(provider->probe_count, json_array_size(probes));
	json_array_foreach (probes, index, probe)
		check_probe(provider, probe, base);
}

static json_int_t number_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static void check_header(const json_t *said, const void *data, size_t bytes)
{
	const json_t *ident = json_object_get(said, "ident");
	struct dof_outline outline;

	assert_true(dof_outline(data, bytes, &outline));
	assert_int_equal(outline.version, number_of(ident, "version"));
	assert_int_equal(outline.bits_32 ? 1 : 2, number_of(ident, "model"));
	assert_int_equal(outline.section_count, number_of(said, "secnum"));
	assert_int_equal(outline.load_bytes, number_of(said, "loadsz"));
	assert_int_equal(outline.file_bytes, number_of(said, "filesz"));
}

static void check_sample(const char *name, uint64_t base)
{
	size_t bytes, json_bytes, index;
	char *data = sample_read(name, ".dof", &bytes), *text = sample_read(name, ".json", &json_bytes);
	json_t *said = json_loads(text, 0, NULL), *providers, *provider;
	struct dof_input input = sample_input(data, bytes, base);
	struct fathom_fault why = { 0 };
	struct dof_set set;

	assert_non_null(said);
	check_header(said, data, bytes);
	if (dof_parse(&input, NULL, &set, &why) != 0)
		fail_msg("%s: %s", name, why.text);
	providers = json_object_get(said, "providers");
	assert_int_equal(set.provider_count, json_array_size(providers));
	json_array_foreach (providers, index, provider)
		check_provider(&set, provider, base);
	dof_set_free(&set);
	json_decref(said);
	free(data);
	free(text);
}

static void each_sample_equals_its_description(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(names); i++)
		check_sample(names[i], 0);
}

static void addresses_are_relocated_by_the_base(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(names); i++)
		check_sample(names[i], strcmp(names[i], "simple32") == 0 ? 0x56555000 : 0x7f1234561000);
}

/* Programs register only the loaded part; the file is longer. */
static void the_loaded_part_is_sufficient_and_any_shorter_part_is_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		size_t bytes;
		char *data = sample_read(names[i], ".dof", &bytes);
		struct dof_set set, part;
		struct dof_input input = sample_input(data, bytes, 0);
		struct fathom_fault why = { 0 };
		uint64_t load_bytes;

		memcpy(&load_bytes, data + 40, sizeof(load_bytes));
		assert_true(load_bytes < bytes);
		assert_int_equal(dof_parse(&input, NULL, &set, &why), 0);
		input.blocks[0].bytes = load_bytes;
		assert_int_equal(dof_parse(&input, NULL, &part, &why), 0);
		assert_true(dof_set_equal(&set, &part));
		dof_set_free(&set);
		dof_set_free(&part);
		for (size_t shorter = 0; shorter < load_bytes; shorter++) {
			input.blocks[0].bytes = shorter;
			why.text[0] = '\0';
			assert_true(dof_parse(&input, NULL, &set, &why) < 0);
			assert_true(why.text[0]);
		}
		free(data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_sample_equals_its_description),
		cmocka_unit_test(addresses_are_relocated_by_the_base),
		cmocka_unit_test(the_loaded_part_is_sufficient_and_any_shorter_part_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
