/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Block devices and pools. The histogram of a volume gets an exemplar from the lives that the trace keeps: a request whose
 * I/O falls into the bucket of the 99th percentile, or into the next bucket above that has one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/observe/trace/figures.h"
#include "base/observe/trace/points.gen.h"
#include "data/engine/figures/figures.h"
#include "data/store/volume/usage.h"
#include "data/store/volume/volumes.h"

enum { NEARLY_FULL_PERCENT = 95 /* as for the doctor */ };

static const char *const op_names[] = {
	[IO_TYPE_READ] = "read",
	[IO_TYPE_WRITE] = "write",
	[IO_TYPE_FLUSH] = "flush",
	[IO_TYPE_UNMAP] = "unmap",
	[IO_TYPE_WRITE_ZEROES] = "write_zeroes",
	[IO_TYPE_COMPARE] = "compare",
	[IO_TYPE_RESET] = "reset",
};
static const char *const latency_names[BDEV_LATENCIES_MAX] = { "read", "write", "other" };

struct row {
	struct bdev *bdev;
	struct bdev_figures figures;
	unsigned int p99[BDEV_LATENCIES_MAX]; /* bucket; LATENCY_BUCKETS: no I/O */
	struct figure_exemplar exemplars[BDEV_LATENCIES_MAX];
	struct trace_kept lives[BDEV_LATENCIES_MAX]; /* of the exemplars */
};

struct rows {
	struct row *rows; /* sorted by name */
	size_t count, dropped;
	uint64_t now_tick, now_realtime_ns;
};

static int compare_rows(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->bdev->name, ((const struct row *)b)->bdev->name);
}

/* The bucket of the 99th percentile. */
static unsigned int find_p99(const uint64_t buckets[static LATENCY_BUCKETS])
{
	uint64_t total = 0, above = 0;

	for (unsigned int i = 0; i < LATENCY_BUCKETS; i++)
		total += buckets[i];
	for (unsigned int i = LATENCY_BUCKETS; total > 0 && i-- > 0;) {
		above += buckets[i];
		if (above > total / 100)
			return i;
	}
	return LATENCY_BUCKETS;
}

static void read_rows(struct rows *rows)
{
	size_t room = 0;

	for (struct bdev *bdev = bdev_first(); bdev; bdev = bdev_next(bdev))
		room++;
	*rows = (struct rows){ .rows = calloc(room + 1, sizeof(*rows->rows)),
			       .now_tick = clock_ticks(),
			       .now_realtime_ns = clock_realtime_ns() };
	must(rows->rows);
	for (struct bdev *bdev = bdev_first(); bdev; bdev = bdev_next(bdev))
		rows->rows[rows->count++].bdev = bdev;
	must(rows->count <= room);
	qsort(rows->rows, rows->count, sizeof(*rows->rows), compare_rows);
	rows->dropped = rows->count > FIGURES_VOLUMES_MAX ? rows->count - FIGURES_VOLUMES_MAX : 0;
	rows->count -= rows->dropped;
	for (size_t i = 0; i < rows->count; i++) {
		struct row *row = &rows->rows[i];

		bdev_figures_get(row->bdev, &row->figures);
		for (int kind = 0; kind < BDEV_LATENCIES_MAX; kind++) {
			row->p99[kind] = find_p99(row->figures.latency[kind]);
			row->exemplars[kind].bucket = LATENCY_BUCKETS;
		}
	}
}

/* ---- exemplars ---- */

static struct row *find_row(const struct rows *rows, const char *name)
{
	size_t low = 0, high = rows->count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = strcmp(rows->rows[middle].bdev->name, name);

		if (order == 0)
			return &rows->rows[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* When the I/O of a request ended: the request entered its next state then. */
static uint64_t io_end(const struct trace_kept *kept, uint64_t begin)
{
	uint64_t end = kept->end_tick;

	for (uint32_t path = kept->stories[0].path; path; path &= path - 1) {
		uint64_t tick = kept->stories[0].ticks[__builtin_ctz(path)] & ~TICK_SHARED;

		if (tick > begin && tick < end)
			end = tick;
	}
	return end;
}

static enum bdev_latency kind_of(uint32_t type)
{
	if (type == IO_TYPE_READ)
		return BDEV_LATENCY_READ;
	return type == IO_TYPE_WRITE || type == IO_TYPE_WRITE_ZEROES ? BDEV_LATENCY_WRITE : BDEV_LATENCY_OTHER;
}

/*
 * Whether the life in `bucket` lies nearer to the 99th percentile than the present exemplar, or as near and is better: one
 * that was named before stays, so that few have to be kept; else the newer one.
 */
static bool is_better(const struct row *row, unsigned int kind, unsigned int bucket, const struct trace_kept *kept)
{
	const struct trace_kept *present = &row->lives[kind];

	if (bucket < row->p99[kind] || row->figures.latency[kind][bucket] == 0 || bucket > row->exemplars[kind].bucket)
		return false;
	if (bucket < row->exemplars[kind].bucket)
		return true;
	return kept->is_named == present->is_named ? kept->end_tick > present->end_tick : kept->is_named;
}

static void offer_exemplar(void *ctx, const struct trace_kept *kept)
{
	const struct trace_story *request = &kept->stories[0], *io = &kept->stories[1];
	struct rows *rows = ctx;
	char name[BDEV_NAME_BYTES_MAX];
	struct figure_exemplar *exemplar;
	struct row *row;
	uint64_t begin, ticks;
	unsigned int bucket, kind;

	if (kept->why != TRACE_EXEMPLAR_SLOW || kept->story_count < 2 || request->trace.type != TRACE_OBJECT_NVMF_REQ ||
	    io->trace.type != TRACE_OBJECT_BDEV_IO || kept->end_tick > rows->now_tick ||
	    !trace_figures_owner(io->trace.owner, kept->end_tick, name, sizeof(name)))
		return;
	row = find_row(rows, name);
	if (!row)
		return;
	begin = io->ticks[0] & ~TICK_SHARED;
	ticks = io_end(kept, begin) - begin;
	kind = kind_of(io->args[0]);
	bucket = latency_bucket(ticks);
	if (!is_better(row, kind, bucket, kept))
		return;
	row->lives[kind] = *kept;
	exemplar = &row->exemplars[kind];
	exemplar->bucket = bucket;
	exemplar->seconds = figures_seconds(ticks);
	exemplar->realtime_ns = rows->now_realtime_ns - clock_ns_from_ticks(rows->now_tick - kept->end_tick);
	snprintf(exemplar->request, sizeof(exemplar->request), "r%" PRIu32 ".%" PRIu32, request->trace.id, request->life);
}

/* What is named must be there for hours; a life that was lost meanwhile is not named. */
static void keep_exemplars(struct row *row)
{
	for (int kind = 0; kind < BDEV_LATENCIES_MAX; kind++) {
		if (row->exemplars[kind].bucket < LATENCY_BUCKETS && !row->lives[kind].is_named &&
		    !trace_figures_name(&row->lives[kind]))
			row->exemplars[kind].bucket = LATENCY_BUCKETS;
	}
}

/* ---- series ---- */

/* The pool's name is before the slash, if the block device is a volume. */
static const struct volume *volume_of(const struct bdev *bdev)
{
	const struct volumes *volumes = engine_storage();
	const char *slash = strchr(bdev->name, '/');
	char pool[POOL_NAME_BYTES_MAX];

	if (!volumes || !slash || (size_t)(slash - bdev->name) >= sizeof(pool))
		return NULL;
	snprintf(pool, sizeof(pool), "%.*s", (int)(slash - bdev->name), bdev->name);
	return volumes_find(volumes, pool, slash + 1);
}

static void add_operations(struct figures *figures, const struct row *row)
{
	const char *name = row->bdev->name;

	for (unsigned int type = 0; type < ARRAY_COUNT(op_names); type++) {
		uint64_t ops = row->figures.types[type].ops;

		/* reads and writes from the start, so that a rate has a first value; the others once they occur */
		if (ops == 0 && type != IO_TYPE_READ && type != IO_TYPE_WRITE)
			continue;
		figure_volume_operations(figures, name, op_names[type], (double)ops);
		figure_volume_bytes(figures, name, op_names[type], (double)row->figures.types[type].bytes);
	}
	for (unsigned int status = IO_SUCCESS + 1; status < BDEV_STATUSES_MAX; status++) {
		if (row->figures.errors[status] > 0)
			figure_volume_errors(figures, name, io_status_name((enum io_status)status),
					     (double)row->figures.errors[status]);
	}
}

static void add_latency(struct figures *figures, const struct row *row)
{
	uint64_t ticks[BDEV_LATENCIES_MAX] = { 0 };

	for (unsigned int type = 0; type < ARRAY_COUNT(op_names); type++)
		ticks[kind_of(type)] += row->figures.types[type].latency_ticks;
	for (int kind = 0; kind < BDEV_LATENCIES_MAX; kind++) {
		const struct figure_histogram histogram = { row->figures.latency[kind], figures_seconds(ticks[kind]),
							    &row->exemplars[kind] };

		if (kind != BDEV_LATENCY_OTHER || ticks[kind] > 0)
			figure_volume_latency_seconds(figures, row->bdev->name, latency_names[kind], &histogram);
	}
}

static void add_row(struct figures *figures, const struct row *row)
{
	const struct bdev *bdev = row->bdev;
	const struct volume *volume = volume_of(bdev);
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(bdev->uuid, uuid);
	figure_volume(figures, bdev->name, uuid, volume ? volume->pool->record.name : "", bdev->ops->kind);
	figure_volume_size_bytes(figures, bdev->name, (double)bdev_block_count(bdev) * bdev->block_bytes);
	figure_volume_inflight(figures, bdev->name, (double)row->figures.queue_depth);
	add_operations(figures, row);
	add_latency(figures, row);
}

static void add_pools(struct figures *figures, const struct volumes *volumes)
{
	struct volumes_info info;

	for (struct pool *pool = volumes_first_pool(volumes); pool; pool = TAILQ_NEXT(pool, link)) {
		const struct volume *volume;
		double committed = 0;
		uint32_t percent;

		if (pool->why.error)
			continue;
		TAILQ_FOREACH (volume, &pool->volumes, link)
			committed += (double)volume->record.size_bytes;
		figure_pool_committed_bytes(figures, pool->record.name, committed);
		if (pool->usage.limit_bytes == 0) /* not read yet */
			continue;
		percent = usage_percent(&pool->usage);
		engine_figures_note(FIGURE_CHECK_POOL_FULL, percent >= 100);
		engine_figures_note(FIGURE_CHECK_POOL_NEARLY_FULL, percent >= NEARLY_FULL_PERCENT && percent < 100);
		figure_pool_size_bytes(figures, pool->record.name, (double)pool->usage.limit_bytes);
		figure_pool_free_bytes(figures, pool->record.name,
				       pool->usage.limit_bytes > pool->usage.used_bytes
					       ? (double)(pool->usage.limit_bytes - pool->usage.used_bytes)
					       : 0);
	}
	volumes_get_info(volumes, &info);
	figure_storage_size_bytes(figures, (double)info.total_bytes);
	figure_storage_free_bytes(figures, (double)info.free_bytes);
	engine_figures_note(FIGURE_CHECK_STORAGE_FAILED, info.state == STORAGE_FAILED);
	engine_figures_note(FIGURE_CHECK_VOLUME_ERRORED, info.damaged);
	engine_figures_note(FIGURE_CHECK_DATA_LOST, info.read_only);
	figure_storage_volumes(figures, "online", (double)(info.volumes - info.damaged - info.read_only));
	figure_storage_volumes(figures, "read_only", (double)info.read_only);
	figure_storage_volumes(figures, "errored", (double)info.damaged);
}

void engine_figures_volumes(struct figures *figures)
{
	struct rows rows;

	read_rows(&rows);
	trace_figures_kept(offer_exemplar, &rows);
	for (size_t i = 0; i < rows.count; i++) {
		keep_exemplars(&rows.rows[i]);
		add_row(figures, &rows.rows[i]);
	}
	figure_engine_series_dropped(figures, "volumes", (double)rows.dropped);
	free(rows.rows);
	if (engine_storage())
		add_pools(figures, engine_storage());
}
