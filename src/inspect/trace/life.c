/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * life - for each object: its latest event, the beginning of its current life, and its parent.
 *
 * The hash table is bounded. When it is full, the half with the oldest latest events is dropped. An object that appears
 * again after that has a life with an unknown beginning.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "inspect/trace/internal.h"

enum {
	PLACES_FIRST = 1 << 10,
	PLACES_MAX = 1 << 19,
	PLACES_MOVED = 1 << 15, /* places of the old table released at a time: whole pages */
};

static struct life *map_places(uint32_t count)
{
	void *at = mmap(NULL, count * sizeof(struct life), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void unmap_places(struct life *places, uint32_t count)
{
	if (places)
		munmap(places, count * sizeof(*places));
}

static uint32_t hash_life(uint16_t type, uint32_t id)
{
	return (uint32_t)(((uint64_t)type << 32 | id) * 0x9e3779b97f4a7c15ull >> 32);
}

int life_table_init(struct life_table *table, struct reader *reader)
{
	*table = (struct life_table){ .place_count = PLACES_FIRST, .reader = reader };
	table->places = map_places(table->place_count);
	return table->places ? 0 : -ENOMEM;
}

void life_table_deinit(struct life_table *table)
{
	unmap_places(table->places, table->place_count);
	table->places = NULL;
}

/* Returns the object's place, or the empty place where it belongs. */
static struct life *find_life_slot(const struct life_table *table, uint16_t type, uint32_t id)
{
	uint32_t at = hash_life(type, id);

	for (;; at++) {
		struct life *life = &table->places[at & (table->place_count - 1)];

		if ((life->id == id && life->type == type) || life->type == 0)
			return life;
	}
}

const struct life *life_table_find(const struct life_table *table, uint16_t type, uint32_t id)
{
	const struct life *life = find_life_slot(table, type, id);

	return life->type ? life : NULL;
}

/* Rehash into a table of `place_count`, keeping only objects with an event at `since` or later. False: out of memory. */
static bool rehash_table(struct life_table *table, uint32_t place_count, uint64_t since)
{
	struct life_table old = *table;
	struct life *places = map_places(place_count);

	if (!places)
		return false;
	table->places = places;
	table->place_count = place_count;
	table->used = 0;
	for (uint32_t i = 0; i < old.place_count; i++) {
		const struct life *life = &old.places[i];

		if (life->type && life->last >= since) {
			*find_life_slot(table, life->type, life->id) = *life;
			table->used++;
		}
		/* rehashing keeps neighbours together, so release old pages as the new ones fill */
		if ((i + 1) % PLACES_MOVED == 0)
			(void)madvise(&old.places[i + 1 - PLACES_MOVED], PLACES_MOVED * sizeof(*life), MADV_DONTNEED);
	}
	unmap_places(old.places, old.place_count);
	return true;
}

static int compare_ticks(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* The median of the objects' latest ticks, from a sample. */
static uint64_t median_tick(const struct life_table *table)
{
	static uint64_t sample[4096];
	uint32_t count = 0;

	for (uint32_t i = 0; i < table->place_count && count < ARRAY_COUNT(sample); i++) {
		if (table->places[i].type)
			sample[count++] = table->places[i].last;
	}
	qsort(sample, count, sizeof(sample[0]), compare_ticks);
	return sample[count / 2] + 1;
}

void life_table_forget(struct life_table *table)
{
	memset(table->places, 0, table->place_count * sizeof(*table->places));
	table->used = 0;
}

static void make_table_room(struct life_table *table)
{
	if (table->used < table->place_count / 2)
		return;
	if (table->place_count < PLACES_MAX && rehash_table(table, table->place_count * 2, 0))
		return;
	if (rehash_table(table, table->place_count, median_tick(table)) && table->used < table->place_count / 8 * 3)
		return;
	life_table_forget(table);
}

static bool begins_life(const struct reader_event *event)
{
	const struct reader_point *point = event->point;

	if (point->machine && point->moves_to < 0)
		return event->slots[0] == 0 && event->slots[1] != 0;
	return point->begins;
}

static void begin_object_life(struct life_table *table, struct life *life, const struct reader_event *event, bool seen)
{
	const struct reader_point *point = event->point;

	*life = (struct life){
		.id = event->object_id, .type = point->object->id, .first = event->tick, .last = event->tick
	};
	if (!seen && point->begins_known) {
		const struct reader_object *parent;
		uint32_t parent_id;
		uint64_t tick = story_begin(table->reader, life->type, life->id, &parent, &parent_id);

		/* ask the object's story: if its latest life began before this event, this event belongs to that life */
		if (tick == 0 || tick > event->tick) {
			life->partial = true;
			return;
		}
		life->first = tick;
		if (parent && parent != point->object) {
			life->related_type = parent->id;
			life->related_id = parent_id;
		}
	}
}

void life_table_event(struct life_table *table, struct reader_event *event)
{
	const struct reader_point *point = event->point;
	bool seen_to_begin, is_new;
	struct life *life;

	event->has_life = false;
	event->related = NULL;
	if (!point || !point->object || event->object_id == READER_NO_OBJECT)
		return;
	life = find_life_slot(table, point->object->id, event->object_id);
	is_new = life->type == 0;
	if (is_new) {
		make_table_room(table);
		life = find_life_slot(table, point->object->id, event->object_id);
		table->used++;
	}
	seen_to_begin = begins_life(event);
	if (is_new || seen_to_begin)
		begin_object_life(table, life, event, seen_to_begin);
	for (uint32_t i = 0; i < point->arg_count; i++) {
		const struct reader_object *object;
		uint32_t id;

		if (point->args[i].type < READER_OBJ ||
		    !reader_arg_object(table->reader, &point->args[i], event->slots, &object, &id))
			continue;
		/* an argument that names an object of the same type is not a parent */
		if (object == point->object)
			continue;
		life->related_type = object->id;
		life->related_id = id;
	}
	event->has_life = true;
	event->total_partial = life->partial;
	/* a shared tick may be older than the object's previous event */
	event->dwell_ticks = event->tick > life->last ? event->tick - life->last : 0;
	event->total_ticks = event->tick > life->first ? event->tick - life->first : 0;
	life->last = max_u64(life->last, event->tick);
	if (life->related_type) {
		event->related = schema_object_by_id(&table->reader->schema, life->related_type);
		event->related_id = life->related_id;
	}
}
