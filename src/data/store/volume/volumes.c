/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/volume/volumes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "data/store/backend/limit.h"
#include "data/store/volume/copy.h"
#include "data/store/volume/scrub.h"
#include "data/store/volume/upkeep.h"
#include "data/store/volume/ledger.h"
#include "data/store/volume/probes.gen.h"

void storage_move(struct volumes *volumes, enum storage_state to)
{
	storage_state_move(clock_ticks(), volumes, to);
	volumes->since_ns = clock_realtime_ns();
}

void volumes_note_trash(struct volumes *volumes)
{
	bool was_empty = volumes->trash.objects == 0;

	pool_tree_get_trash(volumes->tree, &volumes->trash);
	if (volumes->trash.objects == 0)
		volumes->trash_since_ns = 0;
	else if (was_empty)
		volumes->trash_since_ns = clock_realtime_ns();
}

/* ---- open ---- */

struct opening {
	struct worker_job job;
	struct volumes *volumes;
	struct pool_list found; /* of the worker thread until `done` */
	uint32_t damaged;
	uint64_t total_bytes, free_bytes; /* of the file system */
	bool has_reflinks;
	volumes_done_fn done;
	void *ctx;
	int error;
	struct fathom_fault why;
};

static void add_pool(void *ctx, const struct pool_record *pool)
{
	struct opening *opening = ctx;

	if (!opening->error && !model_add_pool(&opening->found, pool))
		opening->error = fault(&opening->why, -ENOMEM, "out of memory for pool \"%s\"", pool->name);
}

static void add_volume(void *ctx, const struct pool_record *pool, const struct volume_record *record,
		       uint64_t allocated_bytes)
{
	struct opening *opening = ctx;
	struct pool *found = TAILQ_LAST(&opening->found, pool_list); /* a pool comes before its volumes */
	struct volume *volume;

	if (opening->error)
		return;
	must(found && strcmp(found->record.name, pool->name) == 0);
	volume = model_add_volume(found, record);
	if (volume)
		volume->allocated_bytes = allocated_bytes;
	else
		opening->error = fault(&opening->why, -ENOMEM, "out of memory for volume \"%s\"", record->name);
}

static void add_snapshot(void *ctx, const struct pool_record *pool, const struct volume_record *volume,
			 const struct snapshot_record *snapshot, uint64_t allocated_bytes)
{
	struct opening *opening = ctx;
	struct pool *found = TAILQ_LAST(&opening->found, pool_list);
	struct volume *last; /* a volume comes before its snapshots */

	if (opening->error)
		return;
	last = model_find_volume(found, volume->name);
	must(last);
	if (!model_add_snapshot(last, snapshot, allocated_bytes))
		opening->error = fault(&opening->why, -ENOMEM, "out of memory for snapshot \"%s\"", snapshot->name);
}

/* "pools/POOL/volumes/VOLUME": list the volume as ERRORED, so that it can be seen and destroyed. False: of another kind. */
static bool add_damaged_volume(struct opening *opening, const char *path, const struct fathom_fault *why)
{
	struct volume_record record = { .block_bytes = BDEV_BLOCK_BYTES_MIN };
	char pool_name[POOL_NAME_BYTES_MAX];
	struct volume *volume;
	struct pool *pool;
	int end = 0;

	static_assert((int)POOL_NAME_BYTES_MAX == 64, "as the format says");
	if (sscanf(path, "pools/%63[^/]/volumes/%63[^/]%n", pool_name, record.name, &end) != 2 || path[end] != '\0')
		return false;
	pool = model_find_pool(&opening->found, pool_name);
	volume = pool ? model_add_volume(pool, &record) : NULL;
	if (volume)
		volume->why = *why;
	return volume;
}

/* "pools/POOL", or its folder of volumes: list the pool as ERRORED, so that its name stays taken. False: another kind. */
static bool add_damaged_pool(struct opening *opening, const char *path, const struct fathom_fault *why)
{
	struct pool_record record = { .created_ns = 0 };
	struct pool *pool;
	int end = 0;

	if (sscanf(path, "pools/%63[^/]%n", record.name, &end) != 1 ||
	    (path[end] != '\0' && strcmp(path + end, "/volumes") != 0) || pool_name_check("pool", record.name, NULL) != 0)
		return false;
	pool = model_find_pool(&opening->found, record.name);
	if (!pool)
		pool = model_add_pool(&opening->found, &record);
	if (pool)
		pool->why = *why;
	return pool;
}

static void report_damage(void *ctx, const char *path, const struct fathom_fault *why)
{
	struct opening *opening = ctx;

	if (add_damaged_volume(opening, path, why))
		return;				    /* it is logged when it becomes ERRORED */
	(void)add_damaged_pool(opening, path, why); /* others are only logged */
	log_error("storage %s: %s cannot be used: %s", opening->volumes->root, path, why->text);
	opening->damaged++;
}

/* All of the storage at once: a disk that hangs then stops nothing but the open. */
static void open_files(struct opening *opening)
{
	struct volume *volume;
	struct pool *pool;

	TAILQ_FOREACH (pool, &opening->found, link) {
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			if (volume->why.error) /* it is damaged */
				continue;
			if (model_open_files(opening->volumes, pool->record.name, &volume->record,
					     volume->record.generation, &volume->opened, &volume->why))
				must(volume->why.error); /* it is ERRORED then */
		}
	}
}

/* Worker thread. */
static void open_tree(struct worker_job *job)
{
	struct opening *opening = container_of(job, struct opening, job);
	const struct pool_tree_visitor visitor = { opening, add_pool, add_volume, add_snapshot, report_damage };
	int error = pool_tree_open(opening->volumes->fs, opening->volumes->root, &visitor, &opening->volumes->tree,
				   &opening->why);

	if (!error)
		opening->has_reflinks = pool_tree_has_reflinks(opening->volumes->tree);
	if (!error)
		error = pool_tree_space(opening->volumes->tree, &opening->total_bytes, &opening->free_bytes, &opening->why);
	if (error)
		opening->error = error;
	if (!opening->error)
		open_files(opening);
}

/* Before the volumes can be written to: those without a promise must not use what was promised. */
static void set_first_limit(struct volumes *volumes, const struct opening *opening)
{
	struct ledger ledger;

	ledger_from_open(volumes, opening->total_bytes, opening->free_bytes, &ledger);
	ledger_set_limit(volumes, &ledger, 0);
	volumes->total_bytes = ledger.total_bytes;
	volumes->free_bytes = ledger_headroom(&ledger);
}

static void bring_all_online(struct volumes *volumes, const struct opening *opening)
{
	struct pool *pool;
	struct volume *volume;

	volumes->damaged_count = opening->damaged;
	TAILQ_FOREACH (pool, &volumes->pools, link) {
		TAILQ_FOREACH (volume, &pool->volumes, link)
			model_index_volume(volumes, volume);
	}
	model_mark_origins(volumes);
	set_first_limit(volumes, opening);
	TAILQ_FOREACH (pool, &volumes->pools, link) {
		volumes->pool_count++;
		TAILQ_FOREACH (volume, &pool->volumes, link)
			model_bring_online(volumes, volume);
	}
}

static void finish_open(struct worker_job *job)
{
	struct opening *opening = container_of(job, struct opening, job);
	struct volumes *volumes = opening->volumes;

	volumes->is_opening = false;
	if (opening->error) {
		model_free(&opening->found);
		storage_move(volumes, STORAGE_CLOSED);
	} else {
		storage_move(volumes, STORAGE_OPEN);
		TAILQ_CONCAT(&volumes->pools, &opening->found, link);
		volumes_note_trash(volumes);
		if (volumes->closed) /* the engine is stopping */
			storage_move(volumes, STORAGE_CLOSING);
		else
			bring_all_online(volumes, opening);
	}
	volumes->has_trash = !opening->error; /* a crash may have left some */
	volumes->has_reflinks = opening->has_reflinks;
	opening->done(opening->ctx, opening->error ? &opening->why : NULL);
	free(opening);
	queue_wake(volumes);
}

int volumes_open(const struct pool_fs *fs, const char *root, volumes_done_fn done, void *ctx, struct volumes **volumes_ret)
{
	struct volumes *volumes = calloc(1, sizeof(*volumes));
	struct opening *opening = calloc(1, sizeof(*opening));
	int error = volumes && opening ? 0 : -ENOMEM;

	must_be_on(thread_control());
	if (!error) {
		volumes->limit = space_limit_create();
		error = volumes->limit ? 0 : -ENOMEM;
	}
	if (!error) {
		volumes->fs = fs;
		volumes->root = root;
		TAILQ_INIT(&volumes->pools);
		STAILQ_INIT(&volumes->changes);
		TAILQ_INIT(&volumes->copies);
		trace_object_init(&volumes->trace, TRACE_OBJECT_STORAGE);
		volumes->scrub = scrub_create(volumes);
		volumes->upkeep = upkeep_create(volumes);
		usage_init(&volumes->usage);
		*opening = (struct opening){
			.job = { .work = open_tree, .done = finish_open }, .volumes = volumes, .done = done, .ctx = ctx
		};
		TAILQ_INIT(&opening->found);
		error = worker_start(&opening->job);
	}
	if (error) {
		if (volumes) {
			must(scrub_stop(volumes->scrub));
			upkeep_destroy(volumes->upkeep);
			space_limit_unref(volumes->limit);
		}
		free(volumes);
		free(opening);
		return error;
	}
	volumes->is_opening = true;
	storage_move(volumes, STORAGE_OPENING);
	*volumes_ret = volumes;
	return 0;
}

/* ---- close ---- */

void volumes_continue_close(struct volumes *volumes)
{
	void (*closed)(void *ctx) = volumes->closed;
	void *ctx = volumes->closed_ctx;

	if (!closed || volumes->running || volumes->is_opening || volumes->is_start_sent || !TAILQ_EMPTY(&volumes->copies))
		return;
	if (volumes->scrub && !scrub_stop(volumes->scrub))
		return;
	volumes->scrub = NULL;
	must(STAILQ_EMPTY(&volumes->changes) && volumes->change_count == 0);
	pool_tree_close(volumes->tree);
	model_forget_devices(volumes);
	model_free(&volumes->pools);
	if (volumes->state == STORAGE_CLOSING)
		storage_move(volumes, STORAGE_CLOSED);
	must(volumes->state == STORAGE_CLOSED);
	space_limit_unref(volumes->limit);
	upkeep_destroy(volumes->upkeep);
	free(volumes);
	closed(ctx);
}

void volumes_close(struct volumes *volumes, void (*closed)(void *ctx), void *ctx)
{
	must_be_on(thread_control());
	must(closed && !volumes->closed);
	volumes->closed = closed;
	volumes->closed_ctx = ctx;
	if (volumes->state == STORAGE_OPEN || volumes->state == STORAGE_FAILED)
		storage_move(volumes, STORAGE_CLOSING);
	changes_fail_waiting(volumes, -ESHUTDOWN, "the engine is stopping");
	copies_cancel(volumes);
	queue_wake(volumes);
}

/* ---- queries ---- */

void volumes_on_failure(struct volumes *volumes, void (*failed)(void *ctx, const struct volume *volume), void *ctx)
{
	must_be_on(thread_control());
	volumes->failed = failed;
	volumes->failed_ctx = ctx;
}

void volumes_get_info(const struct volumes *volumes, struct volumes_info *info_ret)
{
	const struct change *running = volumes->running;
	const struct copy *copy;

	must_be_on(thread_control());
	*info_ret = (struct volumes_info){
		.state = volumes->state,
		.since_ns = volumes->since_ns,
		.pools = volumes->pool_count,
		.volumes = volumes->volume_count,
		.damaged = volumes->damaged_count,
		.read_only = volumes->read_only_count,
		.changes_waiting = volumes->change_count,
		.is_changing = running,
		.change = running ? running->kind->change : VOLUME_CHANGE_POOL_CREATE,
		.change_since_ns = running ? running->since_ns : 0,
		.changes_done = volumes->changes_done,
		.changes_failed = volumes->changes_failed,
		.total_bytes = volumes->total_bytes,
		.free_bytes = volumes->free_bytes,
		.space_refusals = space_limit_refusals(volumes->limit),
		.has_reflinks = volumes->has_reflinks,
		.trash_objects = volumes->trash.objects,
		.trash_bytes = volumes->trash.bytes,
		.trash_undeletable = volumes->trash.undeletable,
		.trash_since_ns = volumes->trash_since_ns,
	};
	TAILQ_FOREACH (copy, &volumes->copies, link)
		info_ret->copies++;
}

struct pool *volumes_first_pool(const struct volumes *volumes)
{
	return TAILQ_FIRST(&volumes->pools);
}

struct pool *volumes_find_pool(const struct volumes *volumes, const char *name)
{
	return model_find_pool(&volumes->pools, name);
}

struct volume *volumes_find(const struct volumes *volumes, const char *pool, const char *name)
{
	const struct pool *found = model_find_pool(&volumes->pools, pool);

	return found ? model_find_volume(found, name) : NULL;
}
