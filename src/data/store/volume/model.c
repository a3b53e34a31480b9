/* SPDX-License-Identifier: BSD-2-Clause */
/* model - the copy of the storage in memory: pools, volumes, their states and block devices. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "data/store/backend/backend.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/scrub.h"
#include "data/store/volume/ledger.h"
#include "data/store/volume/snapshots.h"
#include "data/store/volume/upkeep.h"
#include "data/store/volume/probes.gen.h"

/* ---- pools and volumes ---- */

static uint32_t uuid_bucket(const uint8_t uuid[POOL_UUID_BYTES])
{
	uint32_t word;

	memcpy(&word, uuid, sizeof(word)); /* random */
	return word % VOLUME_BUCKETS;
}

static void make_device_name(struct volume *volume)
{
	must((size_t)snprintf(volume->device, sizeof(volume->device), "%s/%s", volume->pool->record.name,
			      volume->record.name) < sizeof(volume->device));
}

struct pool *model_add_pool(struct pool_list *pools, const struct pool_record *record)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	must(!model_find_pool(pools, record->name));
	pool->record = *record;
	usage_init(&pool->usage);
	TAILQ_INIT(&pool->volumes);
	TAILQ_INSERT_TAIL(pools, pool, link);
	return pool;
}

struct volume *model_add_volume(struct pool *pool, const struct volume_record *record)
{
	struct volume *volume = calloc(1, sizeof(*volume));

	if (!volume || volume_record_copy(&volume->record, record)) {
		free(volume);
		return NULL;
	}
	volume->pool = pool;
	TAILQ_INIT(&volume->snapshots);
	make_device_name(volume);
	TAILQ_INSERT_TAIL(&pool->volumes, volume, link);
	pool->volume_count++;
	return volume;
}

struct pool *model_find_pool(const struct pool_list *pools, const char *name)
{
	struct pool *pool;

	TAILQ_FOREACH (pool, pools, link) {
		if (strcmp(pool->record.name, name) == 0)
			return pool;
	}
	return NULL;
}

struct volume *model_find_volume(const struct pool *pool, const char *name)
{
	struct volume *volume;

	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (strcmp(volume->record.name, name) == 0)
			return volume;
	}
	return NULL;
}

struct snapshot *model_add_snapshot(struct volume *volume, const struct snapshot_record *record, uint64_t allocated_bytes)
{
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));

	if (!snapshot)
		return NULL;
	snapshot->record = *record;
	snapshot->allocated_bytes = allocated_bytes;
	TAILQ_INSERT_TAIL(&volume->snapshots, snapshot, link);
	volume->snapshot_count++;
	return snapshot;
}

void model_remove_snapshot(struct volume *volume, struct snapshot *snapshot)
{
	must(volume->snapshot_count > 0);
	volume->snapshot_count--;
	TAILQ_REMOVE(&volume->snapshots, snapshot, link);
	free(snapshot);
}

struct snapshot *volumes_find_snapshot(const struct volume *volume, const char *name)
{
	struct snapshot *snapshot;

	TAILQ_FOREACH (snapshot, &volume->snapshots, link) {
		if (strcmp(snapshot->record.name, name) == 0)
			return snapshot;
	}
	return NULL;
}

void model_index_volume(struct volumes *volumes, struct volume *volume)
{
	LIST_INSERT_HEAD(&volumes->by_uuid[uuid_bucket(volume->record.uuid)], volume, by_uuid);
	volume->is_indexed = true;
}

struct volume *volumes_find_uuid(const struct volumes *volumes, const uint8_t uuid[POOL_UUID_BYTES])
{
	struct volume *volume;

	must(!uuid_is_null(uuid));
	LIST_FOREACH (volume, &volumes->by_uuid[uuid_bucket(uuid)], by_uuid) {
		if (uuid_compare(volume->record.uuid, uuid) == 0)
			return volume;
	}
	return NULL;
}

void model_mark_origins(struct volumes *volumes)
{
	struct volume *volume, *origin;
	struct pool *pool;

	TAILQ_FOREACH (pool, &volumes->pools, link) {
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			if (volume->snapshot_count > 0)
				volume->record.shares = true; /* a record of a former release does not say so */
			if (!volume->record.has_origin || !volume->record.shares)
				continue;
			volume->may_share = true;
			origin = volumes_find_uuid(volumes, volume->record.origin_volume);
			if (origin)
				origin->may_share = origin->record.shares = true;
		}
	}
}

static void free_volume(struct volume *volume)
{
	while (!TAILQ_EMPTY(&volume->snapshots))
		model_remove_snapshot(volume, TAILQ_FIRST(&volume->snapshots));
	must(volume->pool->volume_count > 0);
	volume->pool->volume_count--;
	if (volume->is_indexed)
		LIST_REMOVE(volume, by_uuid);
	TAILQ_REMOVE(&volume->pool->volumes, volume, link);
	file_volume_abandon(volume->opened);
	volume_record_deinit(&volume->record);
	free(volume);
}

static void free_pool(struct pool_list *pools, struct pool *pool)
{
	must(pool->volume_count == 0 && TAILQ_EMPTY(&pool->volumes));
	TAILQ_REMOVE(pools, pool, link);
	free(pool);
}

void model_free(struct pool_list *pools)
{
	struct pool *pool;

	while ((pool = TAILQ_FIRST(pools))) {
		while (!TAILQ_EMPTY(&pool->volumes))
			free_volume(TAILQ_FIRST(&pool->volumes));
		free_pool(pools, pool);
	}
}

/* ---- states and block devices ---- */

static void move_volume(struct volume *volume, enum volume_state to)
{
	volume_state_move(clock_ticks(), volume, to);
	volume->since_ns = clock_realtime_ns();
}

/* The path of the file "`kind`.N" of the volume, for the file backend. */
static char *file_path(const struct volumes *volumes, const char *pool, const struct volume_record *record,
		       const char *kind, uint32_t generation)
{
	char *path;

	if (asprintf(&path, "%s/pools/%s/volumes/%s/%s.%" PRIu32, volumes->root, pool, record->name, kind, generation) < 0)
		return NULL;
	return path;
}

char *model_data_path(const struct volumes *volumes, const struct volume *volume)
{
	return file_path(volumes, volume->pool->record.name, &volume->record, "data", volume->record.generation);
}

char *model_sums_path(const struct volumes *volumes, const struct volume *volume)
{
	return file_path(volumes, volume->pool->record.name, &volume->record, "sums", volume->record.generation);
}

int model_open_files(const struct volumes *volumes, const char *pool, const struct volume_record *record,
		     uint32_t generation, struct file_bdev **opened_ret, struct fathom_fault *why)
{
	char *path = file_path(volumes, pool, record, "data", generation);
	char *sums_path = record->checksums ? file_path(volumes, pool, record, "sums", generation) : NULL;
	char device[BDEV_NAME_BYTES_MAX];
	struct file_options options = {
		.name = device,
		.filename = path,
		.sums_filename = sums_path,
		.kind = FILE_KIND_VOLUME,
		.block_bytes = record->block_bytes,
		.read_only = record->read_only,
	};
	int error;

	must((size_t)snprintf(device, sizeof(device), "%s/%s", pool, record->name) < sizeof(device));
	memcpy(options.uuid, record->uuid, sizeof(options.uuid));
	if (!path || (record->checksums && !sums_path))
		error = fault(why, -ENOMEM, "out of memory");
	else
		error = file_volume_open(&options, opened_ret, why);
	free(path);
	free(sums_path);
	return error;
}

static int create_device(struct volumes *volumes, struct volume *volume, struct fathom_fault *why)
{
	struct file_bdev *opened = volume->opened;

	must(opened);
	volume->opened = NULL;
	return file_volume_register(opened, volumes->limit, why);
}

static void report_failure(const struct volume *volume)
{
	const struct volumes *volumes = volume->volumes;

	if (volumes->failed)
		volumes->failed(volumes->failed_ctx, volume);
}

/*
 * A sync of the file has failed: of what hosts had written an unknown part may be lost. A later sync may succeed without
 * it, so the volume is not trusted with writes again before its file has been opened again.
 */
static void note_stop(void *ctx, int error)
{
	struct volume *volume = ctx;

	if (volume->state != VOLUME_ONLINE)
		return;
	fill_fault(&volume->why, error,
		   "a sync of its file failed: %s; what hosts had written may be lost; restart the engine",
		   strerror(-error));
	log_error("volume %s: %s", volume->device, volume->why.text);
	volume->volumes->read_only_count++;
	move_volume(volume, VOLUME_READ_ONLY);
	bdev_make_read_only(bdev_find(volume->device));
	report_failure(volume);
}

void model_forget_devices(struct volumes *volumes)
{
	struct volume *volume;
	struct pool *pool;
	struct bdev *bdev;

	TAILQ_FOREACH (pool, &volumes->pools, link) {
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			bdev = volume_is_served(volume) ? bdev_find(volume->device) : NULL;
			if (bdev)
				file_on_stop(bdev, NULL, NULL);
		}
	}
}

void model_set_limit(struct volume *volume, bool shares)
{
	struct bdev *bdev = volume->state == VOLUME_ONLINE ? bdev_find(volume->device) : NULL;
	enum file_limit kind = shares || ledger_may_share(volume) ? FILE_LIMIT_ALL : FILE_LIMIT_NEW;

	if (bdev)
		file_set_limit(bdev, ledger_is_promised(volume->pool, &volume->record) ? FILE_LIMIT_NONE : kind);
}

void model_bring_online(struct volumes *volumes, struct volume *volume)
{
	int error;

	trace_object_init(&volume->trace, TRACE_OBJECT_VOLUME);
	volume->volumes = volumes;
	volumes->volume_count++;
	error = volume->why.error ? volume->why.error : create_device(volumes, volume, &volume->why);
	if (error) {
		volumes->damaged_count++;
		log_error("volume %s: %s; it is not served", volume->device, volume->why.text);
	}
	move_volume(volume, error ? VOLUME_ERRORED : VOLUME_ONLINE);
	if (!error)
		file_on_stop(bdev_find(volume->device), note_stop, volume);
	model_set_limit(volume, false);
	if (!error && volume->record.checksums)
		scrub_add_volume(volumes->scrub, volume);
	upkeep_note(volume);
}

void model_grow_device(const struct volume *volume)
{
	struct bdev *bdev = bdev_find(volume->device);

	if (!bdev)
		return;
	if (file_has_sums(bdev))
		file_sums_grow(bdev, volume->record.size_bytes / bdev->block_bytes);
	file_forget_written(bdev); /* of blocks that a former, longer volume had */
	bdev_grow(bdev, volume->record.size_bytes / bdev->block_bytes);
}

static void remove_device(struct bdev *bdev)
{
	file_on_stop(bdev, NULL, NULL); /* the volume may be freed before its device has gone */
	must(bdev_unregister(bdev, NULL, NULL) == 0);
}

int model_check_exchange(const struct volume *volume, struct file_bdev *opened, struct fathom_fault *why)
{
	const struct bdev *bdev = bdev_find(volume->device);

	if (volume->state != VOLUME_ONLINE)
		return fault(why, -EROFS, "volume %s is %s: %s", volume->device, volume_state_name(volume->state),
			     volume->why.text);
	return bdev ? file_volume_check(bdev, opened, why) : 0;
}

void model_exchange_file(struct volume *volume, uint64_t size_bytes, struct file_bdev *opened)
{
	struct bdev *bdev = bdev_find(volume->device);

	must(volume->state == VOLUME_ONLINE);
	volume->record.generation++;
	volume->record.size_bytes = size_bytes;
	if (!bdev) { /* it is going: the next start opens the new file */
		file_volume_abandon(opened);
		return;
	}
	file_volume_exchange(bdev, opened);
	if (size_bytes > bdev_block_count(bdev) * bdev->block_bytes)
		bdev_grow(bdev, size_bytes / bdev->block_bytes);
}

void model_fail(struct volumes *volumes, struct volume *volume, const struct fathom_fault *why)
{
	struct bdev *bdev = bdev_find(volume->device);

	volume->why = *why;
	log_error("volume %s: %s; it is not served", volume->device, why->text);
	volumes->damaged_count++;
	volumes->read_only_count -= volume->state == VOLUME_READ_ONLY;
	scrub_remove_volume(volumes->scrub, volume);
	move_volume(volume, VOLUME_ERRORED);
	report_failure(volume);
	if (!bdev)
		return;
	file_stop_writes(bdev, why->error); /* its users may need a moment to leave it */
	remove_device(bdev);
}

int model_hold(struct volume *volume, struct fathom_fault *why)
{
	struct bdev *bdev = volume_is_served(volume) ? bdev_find(volume->device) : NULL;

	must(!volume->is_held);
	if (!bdev)
		return 0;
	if (bdev_claim(bdev) != 0)
		return fault(why, -EBUSY,
			     "volume %s is in use by a namespace or another block device: remove that first, or use force",
			     volume->device);
	volume->is_held = true;
	return 0;
}

void model_release(struct volume *volume)
{
	if (volume->is_held)
		bdev_release(bdev_find(volume->device));
	volume->is_held = false;
}

int model_reserve_name(struct volume *volume, const char *new_name, struct fathom_fault *why)
{
	struct bdev *bdev = volume_is_served(volume) ? bdev_find(volume->device) : NULL;
	char device[2 * POOL_NAME_BYTES_MAX];

	must((size_t)snprintf(device, sizeof(device), "%s/%s", volume->pool->record.name, new_name) < sizeof(device));
	return bdev ? bdev_reserve_name(bdev, device, why) : 0;
}

void model_drop_name(struct volume *volume)
{
	struct bdev *bdev = volume_is_served(volume) ? bdev_find(volume->device) : NULL;

	if (bdev)
		bdev_drop_name(bdev);
}

void model_rename(struct volumes *volumes, struct volume *volume, const char *new_name)
{
	struct bdev *bdev = volume_is_served(volume) ? bdev_find(volume->device) : NULL;
	char *path;

	must(text_copy(volume->record.name, sizeof(volume->record.name), new_name) == 0);
	make_device_name(volume);
	if (!bdev)
		return;
	bdev_rename(bdev);
	path = model_data_path(volumes, volume);
	must(path);
	file_set_path(bdev, path);
	free(path);
}

void model_remove_volume(struct volumes *volumes, struct volume *volume)
{
	struct bdev *bdev = volume_is_served(volume) ? bdev_find(volume->device) : NULL;

	must(volumes->volume_count > 0);
	volumes->volume_count--;
	model_release(volume);
	volumes->read_only_count -= volume->state == VOLUME_READ_ONLY;
	volumes->damaged_count -= volume->state == VOLUME_ERRORED;
	scrub_remove_volume(volumes->scrub, volume);
	upkeep_remove_volume(volume);
	move_volume(volume, VOLUME_REMOVED);
	if (bdev)
		remove_device(bdev);
	free_volume(volume);
}

void model_remove_pool(struct volumes *volumes, struct pool *pool)
{
	must(volumes->pool_count > 0);
	volumes->pool_count--;
	volumes->damaged_count -= pool->why.error != 0;
	free_pool(&volumes->pools, pool);
}
