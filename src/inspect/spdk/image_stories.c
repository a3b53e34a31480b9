/* SPDX-License-Identifier: BSD-2-Clause */
/* image_stories - writes the stories of objects in progress, which have not ended when the file was read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/file.h"
#include "inspect/spdk/image.h"

enum { STORIES_MAX = 1 << 16 };

/* Count the objects that have not ended, by type. Returns the number of types that have such objects. */
static uint32_t count_stories(struct build *build, uint32_t *firsts, uint32_t *counts)
{
	struct objects *objects = &build->objects;
	uint32_t pools = 0, at = 0;

	for (int round = 0; round < 2; round++) {
		uint32_t told = 0;

		for (uint32_t i = 0; i < objects->count; i++) {
			struct object *object = &objects->rows[i];

			if (!build->source->machines[object->type] || build->source->points[object->last_point].ends)
				continue;
			if (told++ == STORIES_MAX) {
				source_problem(build->source,
					       "more than %d objects are in progress; the others are left out",
					       STORIES_MAX);
				break;
			}
			if (round == 1)
				object->story = firsts[object->type] + counts[object->type] + 1;
			counts[object->type]++;
		}
		for (uint32_t type = 0; round == 0 && type < TYPES_MAX; type++) {
			pools += counts[type] > 0;
			firsts[type] = at;
			at += counts[type];
			counts[type] = 0;
		}
	}
	build->story_count = at;
	return pools;
}

/* Add one event to the story of an object in progress. */
static int add_to_story(struct build *build, const struct event *event, const struct object *object)
{
	const struct point *point = &build->source->points[event->point];
	struct trace_story *story = &build->stories[object->story - 1];

	story->trace.id = object->id;
	story->trace.type = object->type;
	if (event->owner)
		story->trace.owner = event->owner;
	story->reserved0 = object->partial;
	story->args[0] = object->parent;
	story->ticks[0] = object->first_tick;
	if (point->state) {
		story->state = (uint8_t)point->state;
		story->path |= (uint16_t)BIT(point->state);
		story->ticks[point->state] = event->tick;
	}
	if (point == machine_begin(build->source, object->type)) {
		uint32_t slots[SPDK_SLOTS_MAX + TRACE_ARG_SLOTS_PART] = { 0 };
		int rc = image_fill_slots(build, event, 0, slots);

		if (rc)
			return rc;
		memcpy(&story->args[1], slots, story_slots(point) * sizeof(slots[0]));
	}
	return 0;
}

static int fill_stories(struct build *build)
{
	struct source *source = build->source;
	struct event event;
	struct item item;
	int rc = 0;

	if (build->story_count == 0)
		return 0;
	rc = events_begin(source);
	for (uint64_t i = 0; rc == 0 && events_next(source, &item); i++) {
		const struct point *point = &source->points[item.point];
		const struct object *object;

		if (!point->id || !source->machines[point->tpoint.object_type])
			continue;
		event_read(source, &item, false, &event);
		object = objects_find(&build->objects, point->tpoint.object_type, event.object);
		if (!object || !object->story || i < object->first_item)
			continue;
		event_read(source, &item, true, &event);
		rc = add_to_story(build, &event, object);
	}
	return rc == 0 && source->unread ? -EIO : rc;
}

int image_append_stories(struct build *build)
{
	uint32_t firsts[TYPES_MAX] = { 0 }, counts[TYPES_MAX] = { 0 }, count = 0;
	struct trace_pool pools[TYPES_MAX] = { 0 };
	/* stories of a followed target would change with every event: they are left out */
	uint32_t pool_count = build->source->live ? 0 : count_stories(build, firsts, counts);
	uint64_t pools_offset = image_place(build, TRACE_SECTION_POOLS, sizeof(struct trace_pool),
					    pool_count * sizeof(struct trace_pool), pool_count);
	uint64_t offset = image_place(build, TRACE_SECTION_POOL_MEMORY, 1, build->story_count * sizeof(struct trace_story),
				      build->story_count * sizeof(struct trace_story));
	int rc;

	build->stories = calloc(build->story_count + 1, sizeof(*build->stories));
	if (!build->stories)
		return -ENOMEM;
	rc = fill_stories(build);
	for (uint32_t type = 0; type < TYPES_MAX; type++) {
		if (counts[type])
			pools[count++] = (struct trace_pool){ .object_type = type,
							      .offset = offset + firsts[type] * sizeof(struct trace_story),
							      .stride = sizeof(struct trace_story),
							      .count = counts[type] };
	}
	must(count == pool_count);
	if (rc == 0)
		rc = file_write_at(build->fd, pools, count * sizeof(pools[0]), pools_offset);
	return rc ? rc : file_write_at(build->fd, build->stories, build->story_count * sizeof(*build->stories), offset);
}
