/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schema - parses the JSON schema of a file into tables. An invalid entry is left out, and references to it become NULL
 * or defaults: half a schema still describes half of the events.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inspect/trace/internal.h"

static const struct {
	const char *name;
	enum reader_arg_type type;
	uint32_t slots;
} arg_types[] = {
	{ "u8", READER_U8, 1 },	      { "u16", READER_U16, 1 },	    { "u32", READER_U32, 1 },
	{ "u64", READER_U64, 2 },     { "i32", READER_I32, 1 },	    { "i64", READER_I64, 2 },
	{ "bool", READER_BOOL, 1 },   { "hex8", READER_HEX8, 1 },   { "hex16", READER_HEX16, 1 },
	{ "hex32", READER_HEX32, 1 }, { "hex64", READER_HEX64, 2 }, { "ptr", READER_PTR, 2 },
	{ "str", READER_STR, 1 },     { "obj", READER_OBJ, 1 },	    { "ref", READER_REF, 1 },
};

/* The text of `value` if it needs no escape in any output; else NULL. */
static const char *printable_text(json_t *value)
{
	const char *text = json_string_value(value);

	for (const char *at = text; at && *at; at++) {
		if (*at < 0x20 || *at > 0x7e || *at == '"' || *at == '\\')
			return NULL;
	}
	return text && *text ? text : NULL;
}

static const char *member_text(json_t *row, const char *key)
{
	return printable_text(json_object_get(row, key));
}

/* Allocate as many rows as `array` has members; at least one. */
static void *rows_for(json_t *array, size_t row_bytes)
{
	void *rows = calloc(json_array_size(array) + json_object_size(array) + 1, row_bytes);

	must(rows);
	return rows;
}

static const struct reader_enum *find_enum(const struct schema *schema, const char *name)
{
	for (uint32_t i = 0; name && i < schema->enum_count; i++) {
		if (strcmp(schema->enums[i].name, name) == 0)
			return &schema->enums[i];
	}
	return NULL;
}

static const struct reader_machine *find_machine(const struct schema *schema, const char *name)
{
	for (uint32_t i = 0; name && i < schema->machine_count; i++) {
		if (strcmp(schema->machines[i].name, name) == 0)
			return &schema->machines[i];
	}
	return NULL;
}

static const struct reader_object *find_object(const struct schema *schema, const char *name)
{
	for (uint32_t i = 0; name && i < schema->object_count; i++) {
		if (strcmp(schema->objects[i].name, name) == 0)
			return &schema->objects[i];
	}
	return NULL;
}

const struct reader_object *schema_object_by_id(const struct schema *schema, uint32_t id)
{
	if (likely(id < OBJECT_TYPES_MAX))
		return schema->object_by_id[id];
	for (uint32_t i = 0; i < schema->object_count; i++) {
		if (schema->objects[i].id == id)
			return &schema->objects[i];
	}
	return NULL;
}

static void parse_groups(struct schema *schema, json_t *array)
{
	size_t index;
	json_t *row;

	schema->groups = rows_for(array, sizeof(*schema->groups));
	json_array_foreach (array, index, row) {
		const char *name = member_text(row, "name"), *text = member_text(row, "text");

		if (name)
			schema->groups[schema->group_count++] = (struct reader_group){ .name = name,
										       .text = text ? text : "" };
	}
}

static void parse_enums(struct schema *schema, json_t *object)
{
	const char *name, *key;
	json_t *values, *value;

	schema->enums = rows_for(object, sizeof(*schema->enums));
	json_object_foreach (object, name, values) {
		struct reader_label *labels;
		uint32_t count = 0;

		if (!json_is_object(values))
			continue;
		labels = rows_for(values, sizeof(*labels));
		json_object_foreach (values, key, value) {
			const char *text = printable_text(value);
			char *end;
			long long number = strtoll(key, &end, 10);

			if (text && end != key && !*end)
				labels[count++] = (struct reader_label){ .value = number, .text = text };
		}
		schema->enums[schema->enum_count++] =
			(struct reader_enum){ .name = name, .labels = labels, .label_count = count };
	}
}

static void parse_machines(struct schema *schema, json_t *array)
{
	size_t index, state_index;
	json_t *row, *state;

	schema->machines = rows_for(array, sizeof(*schema->machines));
	json_array_foreach (array, index, row) {
		const char *name = member_text(row, "name");
		json_t *state_rows = json_object_get(row, "states");
		struct reader_state *states;
		uint32_t count = 0;

		if (!name)
			continue;
		states = rows_for(state_rows, sizeof(*states));
		json_array_foreach (state_rows, state_index, state) {
			const char *label = member_text(state, "name"), *meaning = member_text(state, "text");

			states[count++] = (struct reader_state){
				.name = label ? label : "?",
				.text = meaning ? meaning : "",
				.resting = json_is_true(json_object_get(state, "resting")),
			};
		}
		schema->machines[schema->machine_count++] =
			(struct reader_machine){ .name = name, .states = states, .state_count = count };
	}
}

static enum reader_unit_kind unit_kind(const char *unit)
{
	if (!unit || strcmp(unit, "count") == 0)
		return READER_UNIT_NONE;
	if (strcmp(unit, "ticks") == 0)
		return READER_UNIT_TICKS;
	return strcmp(unit, "ns") == 0 || strcmp(unit, "us") == 0 || strcmp(unit, "ms") == 0 ? READER_UNIT_TIME
											     : READER_UNIT_OTHER;
}

/* Parse one argument. False: it is invalid. */
static bool parse_arg(const struct schema *schema, json_t *row, uint32_t slots_max, struct reader_arg *arg,
		      uint32_t *end_ret)
{
	const char *name = member_text(row, "name"), *type = member_text(row, "type");
	json_int_t slot = json_integer_value(json_object_get(row, "slot"));

	if (!name || !type || !json_is_integer(json_object_get(row, "slot")))
		return false;
	for (size_t i = 0; i < ARRAY_COUNT(arg_types); i++) {
		if (strcmp(type, arg_types[i].name) != 0)
			continue;
		if (slot < 0 || slot + arg_types[i].slots > slots_max)
			return false;
		*arg = (struct reader_arg){
			.name = name,
			.type = arg_types[i].type,
			.slot = (uint32_t)slot,
			.unit = member_text(row, "unit"),
			.unit_kind = unit_kind(member_text(row, "unit")),
			.function = arg_types[i].type == READER_PTR && json_is_true(json_object_get(row, "function")),
			.optional = json_is_true(json_object_get(row, "optional")),
			.labels = find_enum(schema, member_text(row, "enum")),
			.object = find_object(schema, member_text(row, "object")),
		};
		*end_ret = (uint32_t)slot + arg_types[i].slots;
		return true;
	}
	return false;
}

/* Parse the arguments of a row. `*slots_ret`: the number of slots that they use. */
static const struct reader_arg *parse_args(const struct schema *schema, json_t *array, uint32_t slots_max,
					   uint32_t *count_ret, uint32_t *slots_ret)
{
	struct reader_arg *args = rows_for(array, sizeof(*args));
	size_t index;
	json_t *row;

	*count_ret = *slots_ret = 0;
	json_array_foreach (array, index, row) {
		uint32_t end = 0;

		if (*count_ret == READER_ARGS_MAX || !parse_arg(schema, row, slots_max, &args[*count_ret], &end))
			continue;
		(*count_ret)++;
		*slots_ret = (uint32_t)max_u64(*slots_ret, end);
	}
	return args;
}

/* Two passes: story arguments may name objects that are defined later. */
static void parse_objects(struct schema *schema, json_t *array)
{
	size_t index;
	json_t *row;

	schema->objects = rows_for(array, sizeof(*schema->objects));
	json_array_foreach (array, index, row) {
		const char *name = member_text(row, "name"), *prefix = member_text(row, "prefix");
		json_int_t id = json_integer_value(json_object_get(row, "id"));

		if (!name || id <= 0 || id > UINT16_MAX)
			continue;
		schema->objects[schema->object_count++] = (struct reader_object){
			.id = (uint16_t)id,
			.name = name,
			.prefix = prefix ? prefix : "",
			.machine = find_machine(schema, member_text(row, "machine")),
		};
		if (id < OBJECT_TYPES_MAX && !schema->object_by_id[id])
			schema->object_by_id[id] = &schema->objects[schema->object_count - 1];
	}
	json_array_foreach (array, index, row) {
		struct reader_object *object = (struct reader_object *)find_object(schema, member_text(row, "name"));
		uint32_t slots;

		if (object && !object->story_args)
			object->story_args = parse_args(schema, json_object_get(row, "story_args"), READER_STORY_SLOTS_MAX,
							&object->story_arg_count, &slots);
	}
}

static void parse_owners(struct schema *schema, json_t *array)
{
	size_t index;
	json_t *row;

	schema->owners = rows_for(array, sizeof(*schema->owners));
	json_array_foreach (array, index, row) {
		const char *name = member_text(row, "name"), *prefix = member_text(row, "prefix");
		json_int_t id = json_integer_value(json_object_get(row, "id"));

		if (name && id > 0 && id <= UINT16_MAX)
			schema->owners[schema->owner_count++] =
				(struct owner_type){ .id = (uint16_t)id, .name = name, .prefix = prefix ? prefix : "" };
	}
}

static int32_t state_index(const struct reader_machine *machine, const char *name)
{
	for (uint32_t i = 0; machine && name && i < machine->state_count; i++) {
		if (strcmp(machine->states[i].name, name) == 0)
			return (int32_t)i;
	}
	return -1;
}

static bool has_usdt(const struct reader_point *point, int8_t which)
{
	for (uint32_t i = 0; i < point->usdt_count; i++) {
		if (point->usdt[i] == which)
			return true;
	}
	return false;
}

static void add_usdt(struct reader_point *point, int8_t which)
{
	if (point->usdt_count < READER_USDT_ARGS_MAX && !has_usdt(point, which))
		point->usdt[point->usdt_count++] = which;
}

/* Order the arguments of the USDT probe: first those that `order` (may be NULL) names, then the object, then the rest. */
static void parse_usdt(struct reader_point *point, json_t *order)
{
	uint32_t arg_count = point->arg_count < READER_USDT_ARGS_MAX ? point->arg_count : READER_USDT_ARGS_MAX;
	size_t index;
	json_t *name;

	json_array_foreach (order, index, name) {
		for (uint32_t i = 0; json_is_string(name) && i < arg_count; i++) {
			if (strcmp(point->args[i].name, json_string_value(name)) == 0)
				add_usdt(point, (int8_t)i);
		}
		if (point->object && json_is_string(name) && strcmp(json_string_value(name), "object") == 0)
			add_usdt(point, READER_USDT_OBJECT);
	}
	if (point->object)
		add_usdt(point, READER_USDT_OBJECT);
	for (uint32_t i = 0; i < arg_count; i++)
		add_usdt(point, (int8_t)i);
}

static void parse_point(struct schema *schema, json_t *row)
{
	static const struct reader_group no_group = { .name = "?", .text = "" };
	struct reader_point *point = &schema->points[schema->point_count];
	const char *name = member_text(row, "name"), *group = member_text(row, "group"), *moves = member_text(row, "moves");
	json_int_t id = json_integer_value(json_object_get(row, "id"));

	if (!name || id <= 0 || id >= TRACE_POINTS_MAX || schema->by_id[id])
		return;
	*point = (struct reader_point){
		.id = (uint16_t)id,
		.name = name,
		.group = &no_group,
		.moves_to = -1,
		.object = find_object(schema, member_text(row, "object")),
		.machine = find_machine(schema, member_text(row, "machine")),
		.begins = json_is_true(json_object_get(row, "begins")),
	};
	point->total_known = json_is_integer(json_object_get(row, "total"));
	point->total = (uint64_t)json_integer_value(json_object_get(row, "total"));
	for (uint32_t i = 0; group && i < schema->group_count; i++) {
		if (strcmp(schema->groups[i].name, group) == 0)
			point->group = &schema->groups[i];
	}
	point->args = parse_args(schema, json_object_get(row, "args"), schema->slots_max, &point->arg_count,
				 &point->slot_count);
	parse_usdt(point, json_object_get(row, "usdt"));
	if (moves)
		point->moves_to = state_index(point->machine, moves);
	/* without `moves`, arguments 0 and 1 must be the states; otherwise the point is not a readable move */
	if (point->machine && point->moves_to < 0 &&
	    (point->slot_count < 2 || point->arg_count < 2 || point->args[0].slot != 0 || point->args[1].slot != 1))
		point->machine = NULL;
	schema->by_id[id] = point;
	schema->point_count++;
}

static void parse_schema_points(struct schema *schema, json_t *array)
{
	size_t index;
	json_t *row;

	schema->points = rows_for(array, sizeof(*schema->points));
	json_array_foreach (array, index, row)
		parse_point(schema, row);
	for (uint32_t i = 0; i < schema->point_count; i++) {
		for (uint32_t j = 0; schema->points[i].object && j < schema->point_count; j++) {
			const struct reader_point *other = &schema->points[j];

			if (other->object == schema->points[i].object && (other->machine || other->begins))
				schema->points[i].begins_known = true;
		}
	}
}

int schema_parse(struct schema *schema, const char *text, size_t bytes, struct fathom_fault *why)
{
	json_error_t error;
	json_int_t version;

	schema->json = json_loadb(text, bytes, 0, &error);
	if (!schema->json)
		return fault(why, -EBADMSG, "the schema is damaged: %s at byte %d", error.text, error.position);
	version = json_integer_value(json_object_get(schema->json, "schema"));
	if (version != 1)
		return fault(why, -EBADMSG, "the schema is of version %lld; this program reads 1", (long long)version);
	parse_groups(schema, json_object_get(schema->json, "groups"));
	parse_enums(schema, json_object_get(schema->json, "enums"));
	parse_machines(schema, json_object_get(schema->json, "machines"));
	parse_objects(schema, json_object_get(schema->json, "objects"));
	parse_owners(schema, json_object_get(schema->json, "owners"));
	parse_schema_points(schema, json_object_get(schema->json, "points"));
	if (schema->point_count == 0)
		return fault(why, -EBADMSG, "the schema has no points");
	return 0;
}

void schema_free(struct schema *schema)
{
	for (uint32_t i = 0; i < schema->enum_count; i++)
		free((void *)schema->enums[i].labels);
	for (uint32_t i = 0; i < schema->machine_count; i++)
		free((void *)schema->machines[i].states);
	for (uint32_t i = 0; i < schema->object_count; i++)
		free((void *)schema->objects[i].story_args);
	for (uint32_t i = 0; i < schema->point_count; i++)
		free((void *)schema->points[i].args);
	free(schema->groups);
	free(schema->enums);
	free(schema->machines);
	free(schema->objects);
	free(schema->owners);
	free(schema->points);
	json_decref(schema->json);
	memset(schema, 0, sizeof(*schema));
}
