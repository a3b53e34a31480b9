/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * objects - numbers the lives of objects, in the order of their beginnings.
 *
 * Addresses are reused, so a number belongs to a life and not to an address. Objects with a beginning that is no longer
 * in the file get numbers above all others; so the others have the numbers that SPDK's own tool prints.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/spdk/internal.h"

enum { PLACES_FIRST = 1 << 10, REF_ID_MAX = 0xfffffe };

int objects_init(struct objects *objects, const struct source *source)
{
	*objects = (struct objects){ .place_count = PLACES_FIRST };
	objects->places = calloc(objects->place_count, sizeof(*objects->places));
	for (uint32_t i = 0; i < source->point_count; i++) {
		const struct point *point = &source->points[i];

		if (point->tpoint.new_object)
			objects->begun_max[point->tpoint.object_type] += (uint32_t)point->event_count;
	}
	return objects->places ? 0 : -ENOMEM;
}

void objects_deinit(struct objects *objects)
{
	free(objects->rows);
	free(objects->places);
}

/* Returns the object's place in the table, or the empty one where it belongs. */
static uint32_t *find_object_slot(const struct objects *objects, uint8_t type, uint64_t pointer)
{
	uint64_t hash = (pointer ^ (uint64_t)type << 56) * 0x9e3779b97f4a7c15ull;

	for (uint32_t at = (uint32_t)(hash >> 32);; at++) {
		uint32_t *found = &objects->places[at & (objects->place_count - 1)];
		const struct object *row;

		if (*found == 0)
			return found;
		row = &objects->rows[*found - 1];
		if (row->pointer == pointer && row->type == type)
			return found;
	}
}

struct object *objects_find(const struct objects *objects, uint8_t type, uint64_t pointer)
{
	uint32_t found = *find_object_slot(objects, type, pointer);

	return found ? &objects->rows[found - 1] : NULL;
}

static int grow_object_table(struct objects *objects)
{
	uint32_t room = objects->place_count * 2;
	struct object *rows = realloc(objects->rows, room / 2 * sizeof(*rows));
	uint32_t *places;

	if (!rows)
		return -ENOMEM;
	objects->rows = rows;
	objects->room = room / 2;
	places = calloc(room, sizeof(*places));
	if (!places)
		return -ENOMEM;
	free(objects->places);
	objects->places = places;
	objects->place_count = room;
	for (uint32_t i = 0; i < objects->count; i++)
		*find_object_slot(objects, objects->rows[i].type, objects->rows[i].pointer) = i + 1;
	return 0;
}

static int add_object(struct objects *objects, uint8_t type, uint64_t pointer, struct object **object_ret)
{
	if (objects->count == objects->room) {
		int rc = grow_object_table(objects);

		if (rc)
			return rc;
	}
	objects->rows[objects->count] = (struct object){ .type = type, .pointer = pointer };
	*find_object_slot(objects, type, pointer) = ++objects->count;
	*object_ret = &objects->rows[objects->count - 1];
	return 0;
}

uint32_t object_ref(const struct object *object)
{
	return object->id <= REF_ID_MAX ? (uint32_t)object->type << 24 | object->id : 0;
}

/* `above`: its beginning is not in the file. Numbers of a followed target wrap, since references have 24 bits. */
static uint32_t next_id(struct objects *objects, uint8_t type, bool above)
{
	uint32_t id = above ? objects->begun_max[type] + objects->unseen[type]++ : objects->begun[type]++;

	return objects->live ? id % (REF_ID_MAX + 1) : id;
}

/* The parent that the event names: the first relation that leads to a known object. 0: none. */
static uint32_t parent_of_event(const struct objects *objects, const struct source *source, const struct event *event)
{
	const struct spdk_tpoint *tpoint = &source->points[event->point].tpoint;
	uint64_t values[SPDK_ARGS_MAX] = { 0 };
	const uint8_t *at = event->args;

	if (tpoint->relations[0].object_type == 0)
		return 0;
	for (uint32_t i = 0; i < tpoint->arg_count; i++) {
		values[i] = arg_number(at, tpoint->args[i].bytes);
		at += tpoint->args[i].bytes;
	}
	for (uint32_t i = 0; i < SPDK_RELATIONS_MAX && tpoint->relations[i].object_type; i++) {
		const struct spdk_relation *relation = &tpoint->relations[i];
		const struct object *object = NULL;

		if (relation->arg_index < tpoint->arg_count)
			object = objects_find(objects, relation->object_type, values[relation->arg_index]);
		if (object)
			return object_ref(object);
	}
	return 0;
}

int objects_event(struct objects *objects, struct source *source, const struct event *event, uint64_t index,
		  struct object **object_ret, uint32_t *parent_ret)
{
	struct point *point = &source->points[event->point];
	uint8_t type = point->tpoint.object_type;
	uint64_t pointer = event->object;
	uint32_t parent;
	struct object *object;
	bool known;

	*object_ret = NULL;
	/* before the object itself: it may begin at the address of the object to which the argument points */
	parent = *parent_ret = parent_of_event(objects, source, event);
	if (type == 0 || (pointer == 0 && !point->tpoint.new_object))
		return 0;
	object = objects_find(objects, type, pointer);
	known = object;
	if (!known && objects->count == OBJECTS_MAX) {
		source_problem(source, "it has more than %d objects; events of the others are shown without their object",
			       OBJECTS_MAX);
		return 0;
	}
	if (!known) {
		int rc = add_object(objects, type, pointer, &object);

		if (rc)
			return rc;
	}
	if (known) {
		struct point *last = &source->points[object->last_point];

		if (point->tpoint.new_object)
			last->begun_after++;
		else
			last->other_after++;
	}
	if (!known || point->tpoint.new_object) {
		object->partial = !point->tpoint.new_object;
		object->id = next_id(objects, type, object->partial || objects->live);
		object->first_tick = event->tick;
		object->first_item = index;
		object->parent = 0;
	}
	if (parent)
		object->parent = parent;
	object->last_point = event->point;
	*object_ret = object;
	return 0;
}
