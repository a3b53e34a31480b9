/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * provider - reads the providers of a checked object in two passes. The first checks, counts and sorts; the second fills
 * memory of exactly the counted size.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/bits.h"
#include "inspect/probed/dof/object.h"

/* Arguments and sites per probe, on average: needed because many probes of an object may share one table. */
enum { PARTS_PER_PROBE_MAX = 16 };

/* The sort key of a probe. */
struct key {
	const char *function, *name;
	uint32_t index; /* in the section */
};

struct plan {
	const char *name;
	uint32_t attributes[DOF_ATTRIBUTES];
	uint32_t section, strings_index, probes_index;		 /* section indices */
	struct dof_section strings, probes, map, sites, enabled; /* enabled.bytes 0: none */
	struct key *keys;					 /* sorted */
	uint32_t probe_count;
};

struct reading {
	const struct dof_object *object;
	struct plan *plans; /* ordered by name */
	uint32_t plan_count;
	struct dof_shape shape;
	uint64_t *strings_at; /* per section STRTAB: offset of its copy in the set's strings; UINT64_MAX: not used */
	void *scratch;	      /* for sorting, one array at a time */
	uint64_t scratch_bytes;
};

static const char *section_bytes_at(const struct dof_object *object, const struct dof_section *section, uint64_t offset)
{
	must(offset <= section->bytes);
	return object->bytes + section->offset + offset;
}

/* A string that ends within its section and is shorter than `bytes_max`; NULL: none. The section's last byte is NUL. */
static const char *string_at(const struct dof_object *object, const struct dof_section *strings, uint64_t offset,
			     size_t bytes_max)
{
	const char *text;

	if (offset >= strings->bytes)
		return NULL;
	text = section_bytes_at(object, strings, offset);
	return strnlen(text, bytes_max) < bytes_max ? text : NULL;
}

/* ---- checking ---- */

static uint64_t at_probe(const struct plan *plan, uint32_t index)
{
	return plan->probes.offset + (uint64_t)index * plan->probes.entry_bytes;
}

static struct dof_probe_record probe_record(const struct dof_object *object, const struct plan *plan, uint32_t index)
{
	struct dof_probe_record record;

	must(index < plan->probe_count);
	memcpy(&record, object->bytes + at_probe(plan, index), sizeof(record));
	return record;
}

/* A probe of a provider, by its index. */
struct probe_ref {
	const struct dof_object *object;
	const struct plan *plan;
	uint32_t index;
};

static int check_name(const struct probe_ref *ref, const char *what, uint32_t offset, size_t bytes_max,
		      const char **name_ret)
{
	*name_ret = string_at(ref->object, &ref->plan->strings, offset, bytes_max);
	if (*name_ret && dof_name_ok(*name_ret, bytes_max))
		return 0;
	return dof_object_refuse(ref->object, -EINVAL, ref->plan->probes_index, at_probe(ref->plan, ref->index),
				 "the name of the %s, at 0x%" PRIx32 " of the strings, is not valid", what, offset);
}

static int check_type_strings(const struct probe_ref *ref, const char *what, uint32_t offset, uint32_t count)
{
	uint64_t at = offset;

	for (uint32_t i = 0; i < count; i++) {
		const char *type = string_at(ref->object, &ref->plan->strings, at, DOF_TYPE_BYTES);

		if (!type || !dof_text_ok(type, DOF_TYPE_BYTES))
			return dof_object_refuse(ref->object, -EINVAL, ref->plan->probes_index,
						 at_probe(ref->plan, ref->index),
						 "the %s type of argument %" PRIu32 ", at 0x%" PRIx64
						 " of the strings, is not valid",
						 what, i, at);
		at += strlen(type) + 1;
	}
	return 0;
}

static int check_arguments(const struct probe_ref *ref, const struct dof_probe_record *record)
{
	int rc = check_type_strings(ref, "native", record->native, record->native_count);

	if (rc == 0)
		rc = check_type_strings(ref, "translated", record->translated, record->translated_count);
	if (rc)
		return rc;
	if ((uint64_t)record->map_index + record->translated_count > ref->plan->map.bytes)
		return dof_object_refuse(ref->object, -EINVAL, ref->plan->probes_index, at_probe(ref->plan, ref->index),
					 "%u arguments from index %" PRIu32 " on, but the map has %" PRIu64 "",
					 record->translated_count, record->map_index, ref->plan->map.bytes);
	for (uint32_t i = 0; i < record->translated_count; i++) {
		uint8_t from = (uint8_t)*section_bytes_at(ref->object, &ref->plan->map, record->map_index + i);

		if (from >= record->native_count)
			return dof_object_refuse(ref->object, -EINVAL, ref->plan->probes_index,
						 at_probe(ref->plan, ref->index),
						 "argument %" PRIu32 " refers to native argument %u of %u", i, from,
						 record->native_count);
	}
	return 0;
}

/* An empty range is checked, too: its start must be in the table or at its end. */
static int check_range(const struct probe_ref *ref, const char *what, const struct dof_section *section, uint32_t first,
		       uint32_t count)
{
	uint64_t have = section->bytes / sizeof(uint32_t);

	if ((uint64_t)first + count <= have)
		return 0;
	return dof_object_refuse(ref->object, -EINVAL, ref->plan->probes_index, at_probe(ref->plan, ref->index),
				 "%" PRIu32 " %s from index %" PRIu32 " on, but the table has %" PRIu64 "", count, what,
				 first, have);
}

/* Version 2 encoded is-enabled sites differently, and version 1 had none: only version 3 counts. */
static uint32_t enabled_count(const struct dof_object *object, const struct dof_probe_record *record)
{
	return object->header.version >= 3 ? record->enabled_count : 0;
}

static int check_site_ranges(const struct probe_ref *ref, const struct dof_probe_record *record)
{
	int rc = check_range(ref, "sites", &ref->plan->sites, record->site_index, record->site_count);

	if (rc == 0 && ref->object->header.version >= 2)
		rc = check_range(ref, "is-enabled sites", &ref->plan->enabled, record->enabled_index,
				 record->enabled_count);
	if (rc)
		return rc;
	if (record->site_count + enabled_count(ref->object, record) == 0)
		return dof_object_refuse(ref->object, -EINVAL, ref->plan->probes_index, at_probe(ref->plan, ref->index),
					 "it has no site%s",
					 ref->object->header.version == 2 && record->enabled_count
						 ? ": is-enabled sites of version 2 are not supported"
						 : "");
	return 0;
}

static int check_probe_record(const struct dof_object *object, const struct plan *plan, uint32_t index,
			      struct dof_shape *shape)
{
	const uint64_t parts_max = (uint64_t)object->parsing->limits.probes_max * PARTS_PER_PROBE_MAX;
	struct dof_probe_record record = probe_record(object, plan, index);
	const struct probe_ref ref = { object, plan, index };
	struct key *key = &plan->keys[index];
	int rc;

	key->index = index;
	rc = check_name(&ref, "function", record.function, DOF_FUNCTION_BYTES, &key->function);
	if (rc == 0)
		rc = check_name(&ref, "probe", record.name, DOF_NAME_BYTES, &key->name);
	if (rc == 0)
		rc = check_arguments(&ref, &record);
	if (rc == 0)
		rc = check_site_ranges(&ref, &record);
	if (rc)
		return rc;
	shape->sites += record.site_count + enabled_count(object, &record);
	shape->types += (uint32_t)record.native_count + record.translated_count;
	shape->map_bytes += record.translated_count;
	if (shape->sites > parts_max || shape->types > parts_max)
		return dof_object_refuse(object, -E2BIG, plan->probes_index, at_probe(plan, index),
					 "more than %" PRIu64 " sites or arguments", parts_max);
	return 0;
}

static int compare_keys(const void *a, const void *b)
{
	const struct key *left = a, *right = b;
	int rc = strcmp(left->function, right->function);

	return rc ? rc : strcmp(left->name, right->name);
}

static int compare_plans(const void *a, const void *b)
{
	return strcmp(((const struct plan *)a)->name, ((const struct plan *)b)->name);
}

/* A buffer of at least `bytes` > 0; NULL: out of memory. */
static void *get_scratch(struct reading *reading, uint64_t bytes)
{
	must(bytes > 0);
	if (bytes > reading->scratch_bytes) {
		reading->scratch = dof_memory_take(reading->object->parsing->memory, bytes, 1);
		reading->scratch_bytes = reading->scratch ? bytes : 0;
	}
	return reading->scratch;
}

static int order_probes(struct reading *reading, struct plan *plan)
{
	const struct dof_object *object = reading->object;
	void *room = get_scratch(reading, (uint64_t)plan->probe_count * sizeof(*plan->keys));

	if (!room)
		return -ENOMEM;
	dof_sort(plan->keys, plan->probe_count, sizeof(*plan->keys), compare_keys, room);
	for (uint32_t i = 1; i < plan->probe_count; i++) {
		const struct key *key = &plan->keys[i];

		if (compare_keys(key - 1, key) == 0)
			return dof_object_refuse(object, -EEXIST, plan->probes_index,
						 at_probe(plan, (uint32_t)max_u64(key->index, key[-1].index)),
						 "probe %s of function %s occurs twice", key->name, key->function);
	}
	return 0;
}

static int find_sections(const struct dof_object *object, struct plan *plan, const struct dof_provider_record *record,
			 uint64_t at)
{
	uint32_t index = plan->section;
	int rc = dof_object_find(object, index, at, record->strings, DOF_SECTION_STRTAB, &plan->strings);

	if (rc == 0)
		rc = dof_object_find(object, index, at + 4, record->probes, DOF_SECTION_PROBES, &plan->probes);
	if (rc == 0)
		rc = dof_object_find(object, index, at + 8, record->map, DOF_SECTION_PRARGS, &plan->map);
	if (rc == 0)
		rc = dof_object_find(object, index, at + 12, record->sites, DOF_SECTION_PROFFS, &plan->sites);
	if (rc == 0 && object->header.version >= 2 && record->enabled_sites)
		rc = dof_object_find(object, index, at + 40, record->enabled_sites, DOF_SECTION_PRENOFFS, &plan->enabled);
	return rc;
}

static int plan_provider(struct reading *reading, uint32_t index, const struct dof_section *section, struct plan *plan)
{
	const struct dof_object *object = reading->object;
	struct dof_provider_record record = { 0 };
	size_t record_bytes = object->header.version == 1 ? offsetof(struct dof_provider_record, enabled_sites)
							  : sizeof(record);
	int rc;

	*plan = (struct plan){ .section = index };
	if (section->bytes < record_bytes || section->offset % sizeof(uint32_t) != 0)
		return dof_object_refuse(object, -EINVAL, index, section->offset,
					 "%" PRIu64 " bytes; it has %zu, aligned to 4", section->bytes, record_bytes);
	memcpy(&record, section_bytes_at(object, section, 0), record_bytes);
	memcpy(plan->attributes, record.attributes, sizeof(plan->attributes));
	rc = find_sections(object, plan, &record, section->offset);
	if (rc)
		return rc;
	plan->strings_index = record.strings;
	plan->probes_index = record.probes;
	plan->probe_count = (uint32_t)(plan->probes.bytes / plan->probes.entry_bytes);
	plan->name = string_at(object, &plan->strings, record.name, DOF_PROVIDER_BYTES);
	if (!plan->name || !dof_name_ok(plan->name, DOF_PROVIDER_BYTES))
		return dof_object_refuse(object, -EINVAL, index, section->offset + 16,
					 "its name, at 0x%" PRIx32 " of the strings, is not valid", record.name);
	if (plan->probe_count == 0)
		return dof_object_refuse(object, -EINVAL, index, section->offset + 4, "provider %s has no probes",
					 plan->name);
	reading->shape.providers++;
	reading->shape.probes += plan->probe_count;
	if (reading->shape.probes > object->parsing->limits.probes_max)
		return dof_object_refuse(object, -E2BIG, index, section->offset, "more than %" PRIu32 " probes",
					 object->parsing->limits.probes_max);
	if (reading->strings_at[record.strings] == UINT64_MAX) {
		reading->strings_at[record.strings] = reading->shape.string_bytes;
		reading->shape.string_bytes += plan->strings.bytes;
	}
	if (reading->shape.string_bytes > object->parsing->limits.bytes_max)
		return dof_object_refuse(object, -E2BIG, index, section->offset, "tables of strings overlap");
	plan->keys = dof_memory_take(object->parsing->memory, plan->probe_count, sizeof(*plan->keys));
	if (!plan->keys)
		return -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < plan->probe_count; i++)
		rc = check_probe_record(object, plan, i, &reading->shape);
	return rc ? rc : order_probes(reading, plan);
}

static int plan_providers(struct reading *reading)
{
	const struct dof_object *object = reading->object;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < object->header.section_count; i++) {
		struct dof_section section = dof_object_section(object, i);

		if (section.type == DOF_SECTION_PROVIDER)
			rc = plan_provider(reading, i, &section, &reading->plans[reading->plan_count++]);
	}
	if (rc)
		return rc;
	must(reading->plan_count == object->provider_count);
	if (!get_scratch(reading, (reading->plan_count + 1) * sizeof(*reading->plans)))
		return -ENOMEM;
	dof_sort(reading->plans, reading->plan_count, sizeof(*reading->plans), compare_plans, reading->scratch);
	for (uint32_t i = 1; i < reading->plan_count; i++) {
		if (compare_plans(&reading->plans[i - 1], &reading->plans[i]) == 0)
			return dof_object_refuse(object, -EEXIST, reading->plans[i].section,
						 dof_object_section(object, reading->plans[i].section).offset,
						 "provider %s occurs twice", reading->plans[i].name);
	}
	return 0;
}

/* ---- filling ---- */

static int add_sites(const struct probe_ref *ref, const struct dof_section *from, uint32_t first, uint32_t count,
		     struct dof_site *to)
{
	const struct dof_object *object = ref->object;
	const struct plan *plan = ref->plan;
	uint64_t function = object->addresses[object->first_address[plan->probes_index] + ref->index];
	uint64_t highest = object->header.model == DOF_MODEL_32 ? UINT32_MAX : UINT64_MAX;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t offset;

		memcpy(&offset, section_bytes_at(object, from, ((uint64_t)first + i) * sizeof(offset)), sizeof(offset));
		to[i] = (struct dof_site){ .is_enabled = from == &plan->enabled, .args = "" };
		if (__builtin_add_overflow(function, (uint64_t)offset, &to[i].address) || to[i].address > highest)
			return dof_object_refuse(object, -EINVAL, plan->probes_index, at_probe(plan, ref->index),
						 "a site's address is beyond the data model");
	}
	return 0;
}

static int fill_recorded_sites(struct reading *reading, const struct plan *plan, uint32_t index,
			       const struct dof_probe_record *record, struct dof_site *sites, uint32_t count)
{
	const struct dof_object *object = reading->object;
	const struct probe_ref ref = { object, plan, index };
	int rc = add_sites(&ref, &plan->sites, record->site_index, record->site_count, sites);

	if (rc == 0)
		rc = add_sites(&ref, &plan->enabled, record->enabled_index, count - record->site_count,
			       sites + record->site_count);
	if (rc)
		return rc;
	if (!get_scratch(reading, count * sizeof(*sites)))
		return -ENOMEM;
	dof_sort(sites, count, sizeof(*sites), dof_site_compare, reading->scratch);
	for (uint32_t i = 1; i < count; i++) {
		if (dof_site_compare(&sites[i - 1], &sites[i]) == 0)
			return dof_object_refuse(object, -EEXIST, plan->probes_index, at_probe(plan, index),
						 "the site at 0x%" PRIx64 " occurs twice", sites[i].address);
	}
	return 0;
}

static const char *const *fill_types(const char *first, uint32_t count, struct dof_layout *layout)
{
	const char **types = layout->types;

	must(count <= DOF_ARGS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		types[i] = first;
		first += strlen(first) + 1;
	}
	layout->types += count;
	return types;
}

/* `strings`: the copy of the provider's strings. */
static int fill_recorded_probe(struct reading *reading, const struct plan *plan, uint32_t index, const char *strings,
			       struct dof_layout *layout)
{
	const struct dof_object *object = reading->object;
	struct dof_probe_record record = probe_record(object, plan, index);
	struct dof_probe *probe = layout->probes++;

	*probe = (struct dof_probe){
		.module = layout->strings,
		.function = strings + record.function,
		.name = strings + record.name,
		.native_count = record.native_count,
		.translated_count = record.translated_count,
		.native = fill_types(strings + record.native, record.native_count, layout),
		.translated = fill_types(strings + record.translated, record.translated_count, layout),
		.map = layout->map,
		.site_count = record.site_count + enabled_count(object, &record),
		.sites = layout->sites,
	};
	memcpy(layout->map, section_bytes_at(object, &plan->map, record.map_index), record.translated_count);
	layout->map += record.translated_count;
	layout->sites += probe->site_count;
	return fill_recorded_sites(reading, plan, index, &record, layout->sites - probe->site_count, probe->site_count);
}

/* Whether the set's strings may point into the object: a set in a room is temporary, and its memory is scarce. */
static bool uses_room(const struct reading *reading)
{
	return reading->object->parsing->memory->room;
}

/* Copy the string tables behind the module's name. */
static void copy_strings(const struct reading *reading, char *to)
{
	const struct dof_object *object = reading->object;

	for (uint32_t i = 0; i < object->header.section_count; i++) {
		struct dof_section section = dof_object_section(object, i);

		if (reading->strings_at[i] != UINT64_MAX)
			memcpy(to + reading->strings_at[i], section_bytes_at(object, &section, 0), section.bytes);
	}
}

/* `layout->strings` points to the module's name. */
static int fill_set(struct reading *reading, struct dof_layout *layout)
{
	const struct dof_object *object = reading->object;
	const char *module = object->parsing->input->helper.module;
	size_t module_bytes = strlen(module) + 1;
	int rc = 0;

	memcpy(layout->strings, module, module_bytes);
	if (!uses_room(reading))
		copy_strings(reading, layout->strings + module_bytes);
	for (uint32_t i = 0; rc == 0 && i < reading->plan_count; i++) {
		const struct plan *plan = &reading->plans[i];
		const char *strings = uses_room(reading)
					      ? section_bytes_at(object, &plan->strings, 0)
					      : layout->strings + module_bytes + reading->strings_at[plan->strings_index];
		struct dof_provider *provider = layout->providers++;

		*provider = (struct dof_provider){
			.name = strings + (plan->name - section_bytes_at(object, &plan->strings, 0)),
			.probe_count = plan->probe_count,
			.probes = layout->probes,
		};
		memcpy(provider->attributes, plan->attributes, sizeof(provider->attributes));
		for (uint32_t probe = 0; rc == 0 && probe < plan->probe_count; probe++)
			rc = fill_recorded_probe(reading, plan, plan->keys[probe].index, strings, layout);
	}
	return rc;
}

int dof_parse_object(const struct dof_parsing *parsing, struct dof_set *set_ret)
{
	struct dof_object object;
	struct reading reading = { .object = &object };
	struct dof_layout layout;
	struct dof_set set;
	int rc = dof_object_open(&object, parsing);

	if (rc)
		return rc;
	reading.plans = dof_memory_take(parsing->memory, object.provider_count, sizeof(*reading.plans));
	reading.strings_at = dof_memory_take(parsing->memory, object.header.section_count, sizeof(*reading.strings_at));
	if (!reading.plans || !reading.strings_at)
		return -ENOMEM;
	memset(reading.strings_at, 0xff, object.header.section_count * sizeof(*reading.strings_at));
	rc = plan_providers(&reading);
	if (rc)
		return rc;
	reading.shape.string_bytes = uses_room(&reading) ? 0 : reading.shape.string_bytes;
	reading.shape.string_bytes += strlen(parsing->input->helper.module) + 1;
	rc = dof_layout_make(parsing->memory, &reading.shape, &set, &layout);
	if (rc)
		return rc;
	rc = fill_set(&reading, &layout);
	if (rc) {
		dof_set_free(&set);
	} else {
		dof_layout_check_filled(&layout, &reading.shape, &set);
		*set_ret = set;
	}
	return rc;
}
