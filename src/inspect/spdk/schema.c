/* SPDX-License-Identifier: BSD-2-Clause */
/* schema - writes SPDK's tables of points, owners and objects as our JSON schema, and lays out events. */
#include <stdio.h>
#include <string.h>

#include "inspect/spdk/internal.h"

enum { NAME_BYTES = 64, STORY_SLOTS = 6 };

static_assert(1 + 2 * SPDK_ARGS_MAX + 1 + 2 <= SPDK_SLOTS_MAX, "any event fits");

/* ---- layout of an event ---- */

uint32_t arg_slots(const struct spdk_arg *arg)
{
	if (arg->type == SPDK_ARG_STR)
		return arg->bytes > 0;
	if (arg->type != SPDK_ARG_INT && arg->type != SPDK_ARG_PTR)
		return 0;
	return arg->bytes == 4 ? 1 : arg->bytes == 8 ? 2 : 0;
}

static const char *arg_type(const struct spdk_arg *arg)
{
	if (arg->type == SPDK_ARG_STR)
		return "str";
	if (arg->type == SPDK_ARG_INT)
		return arg->bytes == 4 ? "u32" : "u64";
	return arg->bytes == 4 ? "hex32" : "ptr";
}

static bool has_relations(const struct point *point)
{
	return point->tpoint.relations[0].object_type != 0;
}

/* Number of slots of an event, without its size. */
static uint32_t slots_without_size(const struct point *point)
{
	uint32_t slots = has_relations(point) + 2 * (point->tpoint.new_object != 0);

	for (uint32_t arg = 0; arg < point->tpoint.arg_count; arg++)
		slots += arg_slots(&point->tpoint.args[arg]);
	return slots;
}

static uint32_t records_of(uint32_t slots)
{
	if (slots <= TRACE_ARG_SLOTS_HEAD)
		return 1;
	return 1 + (slots - TRACE_ARG_SLOTS_HEAD + TRACE_ARG_SLOTS_PART - 1) / TRACE_ARG_SLOTS_PART;
}

void point_bound(struct point *point)
{
	point->record_max = records_of(1 + slots_without_size(point));
}

void points_lay_out(struct source *source)
{
	uint16_t id = 0;

	for (uint32_t i = 0; i < source->point_count; i++) {
		struct point *point = &source->points[i];

		if (!point->named)
			continue;
		if (id + 1 == TRACE_POINTS_MAX) {
			source_problem(source, "it has more than %d tracepoints; the others are left out", id);
			return;
		}
		point->id = ++id;
		point->slot_count = point->size_slot + slots_without_size(point);
		point->record_count = records_of(point->slot_count);
	}
}

uint32_t story_slots(const struct point *begin)
{
	uint32_t slots = begin->size_slot;

	for (uint32_t i = 0; i < begin->tpoint.arg_count; i++) {
		uint32_t more = arg_slots(&begin->tpoint.args[i]);

		if (slots + more > STORY_SLOTS - 1)
			break;
		slots += more;
	}
	return slots;
}

/* ---- JSON ---- */

static void set_member(json_t *object, const char *key, json_t *value)
{
	must(json_object_set_new(object, key, value) == 0);
}

static void set_prefix(json_t *row, const char *key, char prefix)
{
	char text[2] = { prefix, '\0' };

	set_member(row, key, json_string(text));
}

/* Add an argument named `name`, with a number added if another argument has this name. */
static void add_arg(json_t *args, const char *name, const char *type, uint32_t slot)
{
	char own[NAME_BYTES];
	json_t *row = json_object(), *other;
	size_t index, number = 1;

	snprintf(own, sizeof(own), "%s", *name ? name : "arg");
	json_array_foreach (args, index, other) {
		if (strcmp(json_string_value(json_object_get(other, "name")), own) == 0) {
			snprintf(own, sizeof(own), "%s_%zu", *name ? name : "arg", ++number);
			index = (size_t)-1;
		}
	}
	set_member(row, "name", json_string(own));
	set_member(row, "type", json_string(type));
	set_member(row, "slot", json_integer(slot));
	must(json_array_append_new(args, row) == 0);
}

/*
 * Add size and arguments that are within the first `slots` of an event, each shifted by `shift`. Returns the next free
 * slot.
 */
static uint32_t add_args(json_t *args, const struct source *source, const struct point *point, uint32_t slots,
			 uint32_t shift)
{
	uint32_t slot = 0;

	if (point->size_slot)
		add_arg(args, "size", "u32", shift + slot++);
	/* a followed point may get a size later */
	if (point->size_slot && source->live)
		set_member(json_array_get(args, json_array_size(args) - 1), "optional", json_true());
	for (uint32_t i = 0; i < point->tpoint.arg_count; i++) {
		const struct spdk_arg *arg = &point->tpoint.args[i];

		if (slot + arg_slots(arg) > slots)
			break;
		if (arg_slots(arg))
			add_arg(args, arg->name, arg_type(arg), shift + slot);
		slot += arg_slots(arg);
	}
	return slot;
}

static json_t *point_row_json(const struct source *source, const struct point *point)
{
	json_t *row = json_object(), *args = json_array();
	char name[NAME_BYTES];
	uint32_t slot;

	set_member(row, "id", json_integer(point->id));
	set_member(row, "name", json_string(point->tpoint.name));
	name_of_group((uint32_t)(point - source->points) / SPDK_POINTS_IN_GROUP, name, sizeof(name));
	set_member(row, "group", json_string(name));
	set_member(row, "total", json_integer((json_int_t)(point->total & INT64_MAX)));
	if (point->tpoint.object_type) {
		name_of_object(point->tpoint.object_type, name, sizeof(name));
		set_member(row, "object", json_string(name));
		set_member(row, "begins", json_boolean(point->tpoint.new_object));
		if (source->machines[point->tpoint.object_type] && (point->state || point->ends)) {
			set_member(row, "machine", json_string(name));
			machine_state_name(source, point, name, sizeof(name));
			set_member(row, "moves", json_string(point->ends ? "FREE" : name));
		}
	}
	slot = add_args(args, source, point, UINT32_MAX, 0);
	if (has_relations(point))
		add_arg(args, "within", "ref", slot++);
	if (point->tpoint.new_object)
		add_arg(args, "address", "ptr", slot);
	set_member(row, "args", args);
	return row;
}

/* The machine of a type of objects has the type's name. */
static json_t *machine_json(const struct source *source, uint8_t type)
{
	json_t *row = json_object(), *states = json_array(), *state = json_object();
	char name[NAME_BYTES];

	name_of_object(type, name, sizeof(name));
	set_member(row, "name", json_string(name));
	set_member(row, "object", json_string(name));
	set_member(state, "name", json_string("FREE"));
	must(json_array_append_new(states, state) == 0);
	for (uint32_t i = 0; i < source->point_count; i++) {
		const struct point *point = &source->points[i];

		if (point->tpoint.object_type != type || !point->state)
			continue;
		state = json_object();
		machine_state_name(source, point, name, sizeof(name));
		set_member(state, "name", json_string(name));
		must(json_array_append_new(states, state) == 0);
	}
	set_member(row, "states", states);
	return row;
}

static json_t *object_json(const struct source *source, uint8_t type)
{
	json_t *row = json_object(), *args = json_array();
	const struct point *begin = machine_begin(source, type);
	char name[NAME_BYTES];

	name_of_object(type, name, sizeof(name));
	set_member(row, "id", json_integer(type));
	set_member(row, "name", json_string(name));
	set_prefix(row, "prefix", source->object_prefixes[type]);
	if (source->machines[type]) {
		set_member(row, "machine", json_string(name));
		add_arg(args, "within", "ref", 0);
		if (begin)
			add_args(args, source, begin, story_slots(begin), 1);
		set_member(row, "story_args", args);
	} else {
		json_decref(args);
	}
	return row;
}

static json_t *groups_json(const struct source *source)
{
	json_t *groups = json_array();

	for (uint32_t i = 0, last = UINT32_MAX; i < source->point_count; i++) {
		json_t *row;
		char name[NAME_BYTES];

		if (source->points[i].id == 0 || i / SPDK_POINTS_IN_GROUP == last)
			continue;
		last = i / SPDK_POINTS_IN_GROUP;
		name_of_group(last, name, sizeof(name));
		row = json_object();
		set_member(row, "name", json_string(name));
		must(json_array_append_new(groups, row) == 0);
	}
	return groups;
}

static json_t *owners_json(const struct source *source)
{
	json_t *owners = json_array();

	for (uint32_t type = 1; type < TYPES_MAX; type++) {
		json_t *row;
		char name[NAME_BYTES];

		if (!source->owner_prefixes[type])
			continue;
		name_of_owner((uint8_t)type, name, sizeof(name));
		row = json_object();
		set_member(row, "id", json_integer(type));
		set_member(row, "name", json_string(name));
		set_prefix(row, "prefix", source->owner_prefixes[type]);
		must(json_array_append_new(owners, row) == 0);
	}
	return owners;
}

/* Is the type named in the file, or used by a point? */
static bool has_objects(const struct source *source, uint8_t type)
{
	for (uint32_t i = 0; i < source->point_count; i++) {
		if (source->points[i].id && source->points[i].tpoint.object_type == type)
			return true;
	}
	return source->object_prefixes[type];
}

char *schema_text(const struct source *source)
{
	json_t *schema = json_object(), *machines = json_array(), *objects = json_array(), *points = json_array();
	char *text;

	for (uint32_t type = 1; type < TYPES_MAX; type++) {
		if (source->machines[type])
			must(json_array_append_new(machines, machine_json(source, (uint8_t)type)) == 0);
		if (has_objects(source, (uint8_t)type))
			must(json_array_append_new(objects, object_json(source, (uint8_t)type)) == 0);
	}
	for (uint32_t i = 0; i < source->point_count; i++) {
		if (source->points[i].id)
			must(json_array_append_new(points, point_row_json(source, &source->points[i])) == 0);
	}
	set_member(schema, "schema", json_integer(1));
	set_member(schema, "groups", groups_json(source));
	set_member(schema, "machines", machines);
	set_member(schema, "objects", objects);
	set_member(schema, "owners", owners_json(source));
	set_member(schema, "points", points);
	text = json_dumps(schema, JSON_COMPACT);
	json_decref(schema);
	return text;
}
