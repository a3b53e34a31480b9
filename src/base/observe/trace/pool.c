/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pool - request pools inside the trace file, so that requests in flight can be read after SIGKILL.
 *
 * Pools come and go with connections, and hosts decide how many there are. So their number is unlimited, and every search
 * is at most one pass over all pools. Memory is assigned first-fit in the file's pool memory; ids are the lowest free ones.
 *
 * A pool that does not fit into the pool memory has private memory; one without a row in the table has no description. Both
 * cannot be read after SIGKILL. The table counts their requests: a row with offset 0 per pool of private memory; the last
 * row, of type 0, for all pools without a row.
 */
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/observe/trace/internal.h"

struct pool {
	struct trace_pool_spec spec;
	TAILQ_ENTRY(pool) id_link;    /* of all, by first id */
	TAILQ_ENTRY(pool) place_link; /* of those in the file, by offset */
	uint32_t first_id;
	uint64_t offset, bytes; /* in the file; offset 0: private memory */
	void *memory;
	struct trace_pool *row[2]; /* in the file's table; NULL: counted in the last row */
	bool counted;		   /* in the file's table, in its own row or in the last */
};
TAILQ_HEAD(pool_list, pool);

static struct pool_list by_id = TAILQ_HEAD_INITIALIZER(by_id), by_place = TAILQ_HEAD_INITIALIZER(by_place);

static bool has_type(const struct pool *pool, uint16_t type)
{
	return type && (pool->spec.type == type || pool->spec.also_type == type);
}

/* Assign the lowest ids that no pool with a common type uses. */
static void assign_ids(struct pool *pool)
{
	struct pool *other, *before = NULL;

	TAILQ_FOREACH (other, &by_id, id_link) {
		if (other->first_id >= pool->first_id + pool->spec.count)
			break;
		before = other;
		if ((has_type(other, pool->spec.type) || has_type(other, pool->spec.also_type)) &&
		    pool->first_id < other->first_id + other->spec.count)
			pool->first_id = other->first_id + other->spec.count;
	}
	/* go back if `before` begins above our first id, so that the list stays sorted */
	while (before && before->first_id > pool->first_id)
		before = TAILQ_PREV(before, pool_list, id_link);
	if (before)
		TAILQ_INSERT_AFTER(&by_id, before, pool, id_link);
	else
		TAILQ_INSERT_HEAD(&by_id, pool, id_link);
}

/* Assign the first sufficient gap of the file's pool memory, if there is one. */
static void assign_memory(struct pool *pool)
{
	uint64_t offset = trace_file.pool_offset;
	struct pool *other;

	if (!trace_file.memory)
		return;
	TAILQ_FOREACH (other, &by_place, place_link) {
		if (other->offset >= offset + pool->bytes)
			break;
		offset = other->offset + other->bytes;
	}
	if (offset + pool->bytes > trace_file.pool_offset + trace_file.pool_bytes)
		return;
	pool->offset = offset;
	if (other)
		TAILQ_INSERT_BEFORE(other, pool, place_link);
	else
		TAILQ_INSERT_TAIL(&by_place, pool, place_link);
}

static struct trace_pool *find_free_row(void)
{
	for (int i = 0; i < TRACE_POOLS_MAX - 1; i++) {
		if (trace_file.pools[i].count == 0)
			return &trace_file.pools[i];
	}
	return NULL;
}

/* Count requests of pools without their own row. */
static void count_without_row(uint64_t count)
{
	struct trace_pool *row = &trace_file.pools[TRACE_POOLS_MAX - 1];

	must(row->object_type == 0);
	__atomic_store_n(&row->count, row->count + count, __ATOMIC_RELEASE);
}

static void uncount_without_row(uint64_t count)
{
	struct trace_pool *row = &trace_file.pools[TRACE_POOLS_MAX - 1];

	must(row->count >= count);
	__atomic_store_n(&row->count, row->count - count, __ATOMIC_RELEASE);
}

static void publish_pool(struct pool *pool, int which, uint16_t type, size_t story_offset)
{
	struct trace_pool *row = find_free_row();

	pool->counted = true;
	pool->row[which] = row;
	if (!row) {
		count_without_row(pool->spec.count);
		return;
	}
	row->object_type = type;
	row->first_id = pool->first_id;
	row->offset = pool->offset ? pool->offset + story_offset : 0;
	row->stride = pool->offset ? pool->spec.stride : 0;
	__atomic_store_n(&row->count, pool->spec.count, __ATOMIC_RELEASE);
}

static void init_stories(const struct pool *pool, uint16_t type, size_t story_offset)
{
	for (uint32_t i = 0; i < pool->spec.count; i++) {
		struct trace_story *story = (void *)((char *)pool->memory + i * pool->spec.stride + story_offset);

		story->trace = (struct trace_object){ .id = pool->first_id + i, .type = type };
	}
}

void *trace_pool_create(const struct trace_pool_spec *spec)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	must(pool);
	must(spec->count > 0);
	must(spec->stride % CACHE_LINE_BYTES == 0);
	pool->spec = *spec;
	pool->bytes = round_up(spec->count * spec->stride, 4096);
	pthread_mutex_lock(&trace_lock);
	assign_ids(pool);
	assign_memory(pool);
	if (pool->offset)
		pool->memory = trace_file.memory + pool->offset;
	else
		pool->memory = aligned_alloc(4096, pool->bytes);
	must(pool->memory);
	memset(pool->memory, 0, pool->bytes);
	init_stories(pool, spec->type, spec->story_offset);
	if (spec->also_type)
		init_stories(pool, spec->also_type, spec->also_offset);
	if (trace_file.memory) {
		publish_pool(pool, 0, spec->type, spec->story_offset);
		if (spec->also_type)
			publish_pool(pool, 1, spec->also_type, spec->also_offset);
	}
	pthread_mutex_unlock(&trace_lock);
	return pool->memory;
}

static void free_pool(struct pool *pool)
{
	TAILQ_REMOVE(&by_id, pool, id_link);
	if (pool->offset)
		TAILQ_REMOVE(&by_place, pool, place_link);
	free(pool);
}

static void unpublish_pool(struct pool *pool)
{
	int types = pool->spec.also_type ? 2 : 1;

	for (int which = 0; pool->counted && which < types; which++) {
		if (pool->row[which])
			__atomic_store_n(&pool->row[which]->count, 0, __ATOMIC_RELEASE);
		else
			uncount_without_row(pool->spec.count);
	}
	pool->counted = false;
}

void trace_pool_destroy(void *memory)
{
	struct pool *pool;

	if (!memory)
		return;
	pthread_mutex_lock(&trace_lock);
	TAILQ_FOREACH (pool, &by_id, id_link) {
		if (pool->memory == memory)
			break;
	}
	maybe(!pool); /* its file was closed */
	if (pool) {
		unpublish_pool(pool);
		if (pool->offset)
			memset(pool->memory, 0, pool->bytes); /* leave no heap addresses in the file */
		else
			free(pool->memory);
		free_pool(pool);
	}
	pthread_mutex_unlock(&trace_lock);
}

void trace_pools_forget(void)
{
	struct pool *pool, *next;

	TAILQ_FOREACH_SAFE (pool, &by_place, place_link, next)
		free_pool(pool);
	/* pools with private memory outlive the file, but not its table */
	TAILQ_FOREACH (pool, &by_id, id_link)
		pool->counted = false;
}
