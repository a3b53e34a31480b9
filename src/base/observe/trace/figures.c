/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/observe/trace/figures.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/observe/trace/internal.h"

static uint64_t load(const uint64_t *from)
{
	return __atomic_load_n(from, __ATOMIC_RELAXED);
}

uint32_t trace_figures_type_count(void)
{
	return trace_schema()->lives_count;
}

const struct trace_schema_lives *trace_figures_type(uint32_t type)
{
	must(type < trace_schema()->lives_count);
	return &trace_schema()->lives[type];
}

/* The histograms of a thread; NULL: it has none. They stay when a thread ends; the next one in its place adds to them. */
static const struct trace_lives *lives_of(uint32_t thread)
{
	const struct trace_thread *row = &trace_file.threads[thread];

	return row->lives_offset ? (const void *)(trace_file.memory + row->lives_offset) : NULL;
}

void trace_figures_stage(uint32_t type, uint32_t state, struct trace_stage_sum *sum_ret)
{
	must(type < trace_schema()->lives_count);
	must(state < TRACE_STORY_STATES_MAX);
	latency_prepare();
	*sum_ret = (struct trace_stage_sum){ 0 };
	for (uint32_t thread = 0; trace_file.memory && thread < trace_file.thread_count; thread++) {
		const struct trace_lives *lives = lives_of(thread);
		const struct trace_stage *stage;

		if (!lives || lives[type].object_type == 0)
			continue;
		stage = &lives[type].stages[state];
		sum_ret->ticks += load(&stage->ticks);
		for (unsigned int bucket = 0; bucket < TRACE_BUCKETS; bucket++)
			sum_ret->buckets[latency_bucket_of[bucket]] += load(&stage->buckets[bucket]);
	}
}

static void add_ring(struct trace_totals *totals, uint64_t offset)
{
	const struct trace_ring *ring = (const void *)(trace_file.memory + offset);
	uint64_t head = load(&ring->head);

	if (offset == 0)
		return;
	totals->records += head;
	totals->overwritten += trace_oldest_whole(ring->entry_count, head);
}

void trace_figures_totals(struct trace_totals *totals_ret)
{
	*totals_ret = (struct trace_totals){ 0 };
	if (!trace_file.memory)
		return;
	totals_ret->unregistered = load(&trace_file.header->unregistered_records);
	for (uint32_t thread = 0; thread < trace_file.thread_count; thread++) {
		const struct trace_thread *row = &trace_file.threads[thread];
		const struct trace_lives *lives = lives_of(thread);
		const struct trace_exemplars *exemplars = (const void *)(trace_file.memory + row->exemplars_offset);
		uint64_t kept = 0, failed = row->exemplars_offset ? load(&exemplars->failed_head) : 0;

		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++)
			add_ring(totals_ret, row->ring_offset[kind]);
		for (uint32_t type = 0; lives && type < trace_schema()->lives_count; type++)
			kept += load(&lives[type].kept);
		totals_ret->kept_failed += failed;
		totals_ret->kept_slow += kept > failed ? kept - failed : 0;
	}
}

/* ---- requests under way ---- */

static const struct trace_story *story_at(const struct trace_pool *pool, uint32_t id)
{
	return (const void *)(trace_file.memory + pool->offset + pool->stride * (id - pool->first_id));
}

static bool is_under_way(const struct trace_story *story)
{
	return __atomic_load_n(&story->state, __ATOMIC_RELAXED) != 0;
}

/* The pool of `type` whose first id is `first_id`: two stories in the same objects have the same ids. */
static const struct trace_pool *find_pool(uint16_t type, uint32_t first_id)
{
	for (int i = 0; i < TRACE_POOLS_MAX; i++) {
		const struct trace_pool *pool = &trace_file.pools[i];

		if (pool->count > 0 && pool->offset && pool->object_type == type && pool->first_id == first_id)
			return pool;
	}
	return NULL;
}

static void walk_pool(const struct trace_pool *pool, uint16_t with_type, trace_story_fn fn, void *ctx)
{
	const struct trace_pool *other = NULL;

	for (uint32_t id = pool->first_id; id < pool->first_id + pool->count; id++) {
		const struct trace_story *story = story_at(pool, id), *with = NULL;

		if (!is_under_way(story))
			continue;
		if (!other && with_type)
			other = find_pool(with_type, pool->first_id);
		if (other && id - other->first_id < other->count)
			with = story_at(other, id);
		fn(ctx, story, with && is_under_way(with) ? with : NULL);
	}
}

void trace_figures_stories(uint16_t type, uint16_t with_type, trace_story_fn fn, void *ctx)
{
	must(type != 0);
	if (!trace_file.memory)
		return;
	/* connections come and go on other threads: without the lock a pool could be freed and be another's meanwhile */
	pthread_mutex_lock(&trace_lock);
	for (int i = 0; i < TRACE_POOLS_MAX; i++) {
		const struct trace_pool *pool = &trace_file.pools[i];

		if (pool->count > 0 && pool->offset && pool->object_type == type)
			walk_pool(pool, with_type, fn, ctx);
	}
	pthread_mutex_unlock(&trace_lock);
}

/* ---- lives that were kept ---- */

static_assert(2 * sizeof(((struct trace_process *)0)->build_id) < TRACE_BUILD_ID_TEXT_BYTES, "its text fits");

static uint32_t trace_epoch_now(void)
{
	return trace_file.named ? (uint32_t)(clock_ticks() / trace_file.named->epoch_ticks) + 1 : 0;
}

/* Copy the row without its records; false: it is unused, or was changed meanwhile. */
static bool copy_row(const struct trace_exemplar *row, uint32_t thread, struct trace_kept *kept)
{
	uint32_t version = __atomic_load_n(&row->version, __ATOMIC_ACQUIRE);

	if (version == 0 || version % 2)
		return false;
	kept->row = row;
	kept->version = version;
	kept->thread = row->copy_of ? row->copy_of - 1 : thread;
	kept->is_named = row->copy_of && row->epoch == trace_epoch_now();
	kept->why = row->why;
	kept->story_count = row->story_count;
	kept->begin_tick = row->begin_tick;
	kept->end_tick = row->end_tick;
	memcpy(kept->stories, row->stories, sizeof(kept->stories));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&row->version, __ATOMIC_RELAXED) == version;
}

void trace_figures_kept(void (*fn)(void *ctx, const struct trace_kept *kept), void *ctx)
{
	struct trace_kept kept;

	for (uint32_t thread = 0; trace_file.memory && thread < trace_file.thread_count; thread++) {
		uint64_t offset = trace_file.threads[thread].exemplars_offset, count;
		const struct trace_exemplars *exemplars = (const void *)(trace_file.memory + offset);

		if (offset == 0)
			continue;
		count = (uint64_t)exemplars->epoch_count * exemplars->epoch_rows + exemplars->slow_rows +
			exemplars->failed_rows;
		for (uint64_t i = 0; i < count; i++) {
			if (copy_row(&exemplars->rows[i], thread, &kept))
				fn(ctx, &kept);
		}
	}
}

/* A row of the present epoch that is free; NULL: none. */
static struct trace_exemplar *find_free_row(struct trace_exemplars *named, uint32_t epoch)
{
	struct trace_exemplar *rows = named->rows + (size_t)(epoch % named->epoch_count) * named->epoch_rows;

	for (uint32_t i = 0; i < named->epoch_rows; i++) {
		if (rows[i].version == 0 || rows[i].epoch != epoch)
			return &rows[i];
	}
	return NULL;
}

bool trace_figures_name(const struct trace_kept *kept)
{
	struct trace_exemplars *named = trace_file.named;
	struct trace_exemplar copy, *row;

	if (!named)
		return false;
	memcpy(&copy, kept->row, sizeof(copy));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&kept->row->version, __ATOMIC_RELAXED) != kept->version)
		return false;
	copy.copy_of = kept->thread + 1;
	copy.epoch = trace_epoch_now();
	row = find_free_row(named, copy.epoch);
	if (row)
		trace_exemplar_write(row, &copy);
	else
		trace_exemplar_push_slow(named, &copy);
	return true;
}

void trace_figures_build_id(char text[static TRACE_BUILD_ID_TEXT_BYTES])
{
	text[0] = '\0';
	for (uint32_t i = 0; trace_file.memory && i < trace_file.process->build_id_bytes; i++)
		snprintf(text + 2 * (size_t)i, 3, "%02x", trace_file.process->build_id[i]);
}

bool trace_figures_owner(uint16_t owner, uint64_t tick, char *text, size_t bytes)
{
	const struct trace_owner *row;
	uint16_t version;

	if (!trace_file.memory || owner == 0 || owner >= TRACE_OWNERS_MAX)
		return false;
	row = &trace_file.owners[owner];
	version = __atomic_load_n(&row->version, __ATOMIC_ACQUIRE);
	if (row->tick_from == 0 || row->tick_from > tick)
		return false; /* the id was another owner's then */
	snprintf(text, bytes, "%.*s", (int)sizeof(row->text), row->text);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return version % 2 == 0 && __atomic_load_n(&row->version, __ATOMIC_RELAXED) == version;
}
