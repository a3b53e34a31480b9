/* SPDX-License-Identifier: BSD-2-Clause */
/* story - reads requests in progress from the pools of a file: their stages and times. Also the file's "now". */
#include <string.h>

#include "base/clock.h"
#include "inspect/trace/internal.h"

enum { TRIES = 16 };

/* A heartbeat later than this is not explained by a busy processor. */
#define SILENT_MIN_NS (3 * TRACE_HEARTBEAT_MS * NS_PER_MS)

/* Copy row `index` of the pool table. False: its memory is not within the file. */
static bool pool_at(const struct reader *reader, uint64_t index, struct trace_pool *pool_ret)
{
	const struct trace_pool *row = reader_element(reader, TRACE_SECTION_POOLS, index);
	struct trace_pool pool;

	if (!row)
		return false;
	pool.count = __atomic_load_n(&row->count, __ATOMIC_ACQUIRE);
	pool.object_type = row->object_type;
	pool.first_id = row->first_id;
	pool.offset = row->offset;
	pool.stride = row->stride;
	if (pool.count == 0 || pool.stride < sizeof(struct trace_story) || pool.stride % 8 != 0 || pool.offset % 8 != 0 ||
	    pool.offset >= reader->bytes || reader->bytes - pool.offset < sizeof(struct trace_story))
		return false;
	/* limit it to what a truncated file still has */
	pool.count = min_u64(pool.count, (reader->bytes - pool.offset - sizeof(struct trace_story)) / pool.stride + 1);
	*pool_ret = pool;
	return true;
}

uint64_t reader_stories_outside_file(const struct reader *reader, const struct reader_object *object)
{
	uint16_t type = object ? object->id : 0;
	uint64_t count = 0;

	for (uint64_t i = 0; !reader->spdk && i < reader->sections[TRACE_SECTION_POOLS].count; i++) {
		const struct trace_pool *row = reader_element(reader, TRACE_SECTION_POOLS, i);

		if (row->object_type == type && row->offset == 0)
			count += __atomic_load_n(&row->count, __ATOMIC_ACQUIRE);
	}
	return count;
}

static const struct trace_story *pool_story_at(const struct reader *reader, const struct trace_pool *pool, uint64_t index)
{
	return (const struct trace_story *)(reader->map + pool->offset + index * pool->stride);
}

/* Copy a story such that no move falls into the copy. False: it changes too fast. */
static bool copy_story(const struct trace_story *from, struct trace_story *to)
{
	for (int try = 0; try < TRIES; try++) {
		*to = *(const volatile struct trace_story *)from;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (memcmp(to, from, sizeof(*to)) == 0)
			return true;
	}
	return false;
}

/* The parent, if one of the story's arguments names it; else NULL. */
static const struct reader_object *parent_of_story(const struct reader *reader, const struct reader_object *object,
						   const uint32_t *args, uint32_t *id_ret)
{
	const struct reader_object *parent;

	for (uint32_t i = 0; i < object->story_arg_count; i++) {
		if (object->story_args[i].type >= READER_OBJ &&
		    reader_arg_object(reader, &object->story_args[i], args, &parent, id_ret))
			return parent;
	}
	return NULL;
}

void story_fill(const struct reader *reader, const struct reader_object *object, const struct trace_story *story,
		struct reader_story *story_ret)
{
	*story_ret = (struct reader_story){
		.object = object,
		.id = story->trace.id,
		.owner = story->trace.owner,
		.state = story->state,
		.life = story->life,
		.partial = reader->spdk && story->reserved0,
		.begin_tick = story->ticks[0] & ~reader->shared_bit,
	};
	memcpy(story_ret->args, story->args, sizeof(story->args));
	story_ret->parent = parent_of_story(reader, object, story->args, &story_ret->parent_id);
	for (int state = 0; state < TRACE_STORY_STATES_MAX; state++) {
		uint64_t tick = story->ticks[state] & ~reader->shared_bit;

		story_ret->ticks[state] = tick >= story_ret->begin_tick ? tick : 0;
	}
}

/* Number of slots of a value of this type. */
static uint32_t slots_of(enum reader_arg_type type)
{
	return type == READER_U64 || type == READER_I64 || type == READER_HEX64 || type == READER_PTR ? 2 : 1;
}

bool story_args_of_event(const struct reader_event *event, uint32_t args[READER_STORY_SLOTS_MAX])
{
	const struct reader_point *point = event->point;

	for (uint32_t i = 0; i < point->object->story_arg_count; i++) {
		const struct reader_arg *wanted = &point->object->story_args[i], *arg = NULL;
		uint32_t slots = slots_of(wanted->type);

		for (uint32_t k = 0; k < point->arg_count && !arg; k++) {
			if (strcmp(point->args[k].name, wanted->name) == 0 && point->args[k].type == wanted->type)
				arg = &point->args[k];
		}
		if (wanted->slot + slots > READER_STORY_SLOTS_MAX)
			return false;
		if (arg)
			memcpy(&args[wanted->slot], &event->slots[arg->slot], slots * sizeof(args[0]));
		else if (wanted->type != READER_REF)
			return false;
		else
			args[wanted->slot] = 0; /* it has no parent */
	}
	return point->object->story_arg_count > 0;
}

bool reader_story_next(const struct reader *reader, struct reader_walk *walk, struct reader_story *story_ret)
{
	struct trace_pool pool;

	for (; walk->pool < reader->sections[TRACE_SECTION_POOLS].count; walk->pool++, walk->entry = 0) {
		const struct reader_object *object;

		if (!pool_at(reader, walk->pool, &pool))
			continue;
		object = schema_object_by_id(&reader->schema, pool.object_type);
		while (object && walk->entry < pool.count) {
			const struct trace_story *entry = pool_story_at(reader, &pool, walk->entry++);
			struct trace_story story;

			walk->seen++;
			if (__atomic_load_n(&entry->state, __ATOMIC_RELAXED) == 0)
				continue;
			if (!copy_story(entry, &story) || story.state >= TRACE_STORY_STATES_MAX ||
			    story.trace.type != object->id || story.ticks[0] == 0) {
				walk->skipped++;
				continue;
			}
			if (story.state == 0)
				continue;
			story_fill(reader, object, &story, story_ret);
			story_ret->entered_tick = story_ret->ticks[story.state] ? story_ret->ticks[story.state]
										: story_ret->begin_tick;
			return true;
		}
	}
	return false;
}

bool story_find(const struct reader *reader, uint16_t type, uint32_t id, struct trace_story *story_ret)
{
	struct trace_pool pool;

	/* an image has only requests in progress, in no order; their events have the same data */
	for (uint64_t i = 0; !reader->spdk && i < reader->sections[TRACE_SECTION_POOLS].count; i++) {
		if (pool_at(reader, i, &pool) && pool.object_type == type && id >= pool.first_id &&
		    id - pool.first_id < pool.count)
			return copy_story(pool_story_at(reader, &pool, id - pool.first_id), story_ret);
	}
	return false;
}

uint64_t story_begin(const struct reader *reader, uint16_t type, uint32_t id, const struct reader_object **parent_ret,
		     uint32_t *parent_id_ret)
{
	const struct reader_object *object = schema_object_by_id(&reader->schema, type);
	struct trace_story story;

	*parent_ret = NULL;
	if (!object || !story_find(reader, type, id, &story))
		return 0;
	*parent_ret = parent_of_story(reader, object, story.args, parent_id_ret);
	return story.ticks[0] & ~reader->shared_bit;
}

/* The latest tick of all stories. */
static uint64_t stories_latest(const struct reader *reader)
{
	struct trace_pool pool;
	uint64_t latest = 0;

	for (uint64_t i = 0; i < reader->sections[TRACE_SECTION_POOLS].count; i++) {
		if (!pool_at(reader, i, &pool) || !schema_object_by_id(&reader->schema, pool.object_type))
			continue;
		for (uint64_t entry = 0; entry < pool.count; entry++) {
			struct trace_story story = *pool_story_at(reader, &pool, entry);

			for (int state = 0; story.trace.type == pool.object_type && state < TRACE_STORY_STATES_MAX; state++)
				latest = max_u64(latest, story.ticks[state]);
		}
	}
	return latest;
}

uint64_t reader_latest_record(const struct reader *reader)
{
	uint64_t latest = 0;

	for (uint32_t i = 0; i < reader->info.thread_count; i++) {
		const struct trace_thread *thread = reader_element(reader, TRACE_SECTION_THREADS, i);

		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++)
			latest = max_u64(latest, ring_latest_tick(reader, thread->ring_offset[kind]));
	}
	return latest & ~reader->shared_bit;
}

uint64_t reader_now(const struct reader *reader)
{
	uint64_t latest = max_u64(reader->info.start_tick, reader->info.end_tick);

	if (reader->info.liveness == READER_ALIVE)
		return clock_ticks();
	latest = max_u64(max_u64(latest, reader->header.alive_tick), stories_latest(reader));
	for (uint32_t i = 0; i < reader->pair_count; i++)
		latest = max_u64(latest, reader->pairs[i].tick);
	for (uint64_t i = 0; i < reader->sections[TRACE_SECTION_OWNERS].count; i++) {
		const struct trace_owner *owner = reader_element(reader, TRACE_SECTION_OWNERS, i);

		latest = max_u64(latest, max_u64(owner->tick_from, owner->tick_to));
	}
	for (uint32_t i = 0; i < reader->info.thread_count; i++) {
		const struct trace_thread *thread = reader_element(reader, TRACE_SECTION_THREADS, i);

		latest = max_u64(latest, max_u64(thread->attached_tick, thread->running_since));
	}
	return max_u64(latest, reader_latest_record(reader)) & ~reader->shared_bit;
}

uint64_t reader_silent_ns(const struct reader *reader)
{
	const struct trace_header *header = (const void *)reader->map;
	uint64_t now = clock_ticks(), alive, ns;

	if (reader->info.liveness != READER_ALIVE || reader->spdk)
		return 0;
	alive = __atomic_load_n(&header->alive_tick, __ATOMIC_RELAXED);
	ns = alive && alive < now ? reader_ns_from_ticks(reader, now - alive) : 0;
	return reader->info.stopped || ns > SILENT_MIN_NS ? ns : 0;
}
