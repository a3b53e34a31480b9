/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changes - what each kind of change checks, does on disk and applies to the copy.
 *
 * A check runs when the change is the next to run, so it sees the result of all changes before it. `apply` always brings
 * the copy to the state on disk. It reports an error only if a new volume cannot be served.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "data/store/pool/sums.h"
#include "data/store/volume/copy.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/ledger.h"
#include "data/store/volume/upkeep.h"

enum { BLOCK_BYTES_DEFAULT = 4096 };

/* A UUID of zero fits any. */
static bool is_same_uuid(const uint8_t *asked, const uint8_t *uuid)
{
	return uuid_is_null(asked) || uuid_is_null(uuid) || uuid_compare(asked, uuid) == 0;
}

struct pool *change_find_pool(const struct change *change, struct fathom_fault *why)
{
	struct pool *pool = model_find_pool(&change->volumes->pools, change->pool);

	if (pool && is_same_uuid(change->pool_record.uuid, pool->record.uuid))
		return pool;
	fill_fault(why, -ENOENT, pool ? "there is another pool \"%s\"" : "there is no pool \"%s\"", change->pool);
	return NULL;
}

struct volume *change_find_volume(const struct change *change, struct fathom_fault *why)
{
	const struct pool *pool = change_find_pool(change, why);
	struct volume *volume = pool ? model_find_volume(pool, change->record.name) : NULL;

	if (!pool || (volume && is_same_uuid(change->record.uuid, volume->record.uuid)))
		return volume;
	fill_fault(why, -ENOENT,
		   volume ? "there is another volume \"%s\" in pool \"%s\"" : "there is no volume \"%s\" in pool \"%s\"",
		   change->record.name, change->pool);
	return NULL;
}

/* ---- create a pool ---- */

static int check_pool_create(struct change *change, struct fathom_fault *why)
{
	const struct pool_record *asked = &change->pool_record;
	const struct pool *pool = model_find_pool(&change->volumes->pools, asked->name);
	int error = pool_name_check("pool", asked->name, why);

	if (!error && asked->size_bytes > INT64_MAX)
		error = fault(why, -EINVAL, "a size of %" PRIu64 " bytes is too large", asked->size_bytes);
	if (error || !pool)
		return error;
	if (pool->why.error)
		return fault(why, -EEXIST, "pool \"%s\" exists and is ERRORED: %s", asked->name, pool->why.text);
	if (!uuid_is_null(asked->uuid) && uuid_compare(asked->uuid, pool->record.uuid) != 0)
		return fault(why, -EEXIST, "there is another pool \"%s\"", asked->name);
	if (asked->size_bytes != pool->record.size_bytes)
		return fault(why, -EEXIST, "pool \"%s\" exists with a size of %" PRIu64 " bytes, not %" PRIu64, asked->name,
			     pool->record.size_bytes, asked->size_bytes);
	if (asked->overcommit != pool->record.overcommit)
		return fault(why, -EEXIST, "pool \"%s\" exists %s overcommit", asked->name,
			     pool->record.overcommit ? "with" : "without");
	return -EALREADY;
}

static int work_pool_create(struct change *change, struct fathom_fault *why)
{
	if (uuid_is_null(change->pool_record.uuid))
		uuid_generate(change->pool_record.uuid);
	if (change->pool_record.created_ns == 0)
		change->pool_record.created_ns = clock_realtime_ns();
	return pool_create(change->volumes->tree, &change->pool_record, why);
}

static void apply_pool_create(struct change *change)
{
	must(model_add_pool(&change->volumes->pools, &change->pool_record));
	change->volumes->pool_count++;
}

static const struct change_kind pool_create_kind = {
	.change = VOLUME_CHANGE_POOL_CREATE,
	.check = check_pool_create,
	.work = work_pool_create,
	.apply = apply_pool_create,
};

/* ---- destroy a pool ---- */

static void undo_pool_destroy(struct change *change)
{
	const struct pool *pool = change_find_pool(change, NULL);
	struct volume *volume;

	must(pool);
	TAILQ_FOREACH (volume, &pool->volumes, link)
		model_release(volume);
}

static int check_pool_destroy(struct change *change, struct fathom_fault *why)
{
	const struct pool *pool = change_find_pool(change, why);
	struct volume *volume;
	int error = 0;

	if (!pool)
		return -ENOENT;
	if (pool->volume_count > 0 && !change->force)
		return fault(why, -ENOTEMPTY, "pool \"%s\" has %u volume%s: destroy %s first, or use force", change->pool,
			     pool->volume_count, pool->volume_count == 1 ? "" : "s",
			     pool->volume_count == 1 ? "it" : "them");
	if (pool->why.error && !change->force)
		return fault(why, -ENOTEMPTY,
			     "pool \"%s\" is ERRORED, and its volumes are not known: use force to destroy them",
			     change->pool);
	TAILQ_FOREACH (volume, &pool->volumes, link)
		error = error ? error : model_hold(volume, why);
	if (error)
		undo_pool_destroy(change);
	return error;
}

static int work_pool_destroy(struct change *change, struct fathom_fault *why)
{
	return pool_remove(change->volumes->tree, change->pool, why);
}

static void apply_pool_destroy(struct change *change)
{
	struct pool *pool = model_find_pool(&change->volumes->pools, change->pool);

	must(pool);
	while (!TAILQ_EMPTY(&pool->volumes))
		model_remove_volume(change->volumes, TAILQ_FIRST(&pool->volumes));
	model_remove_pool(change->volumes, pool);
	change->volumes->has_trash = true;
}

static const struct change_kind pool_destroy_kind = {
	.change = VOLUME_CHANGE_POOL_DESTROY,
	.check = check_pool_destroy,
	.work = work_pool_destroy,
	.apply = apply_pool_destroy,
	.undo = undo_pool_destroy,
};

/* ---- create a volume ---- */

static int check_new_volume(const struct volume_record *asked, struct fathom_fault *why)
{
	int error = pool_name_check("volume", asked->name, why);

	if (error)
		return error;
	if (!is_power_of_two(asked->block_bytes) || asked->block_bytes < BDEV_BLOCK_BYTES_MIN ||
	    asked->block_bytes > BDEV_BLOCK_BYTES_MAX)
		return fault(why, -EINVAL, "a block size of %" PRIu32 " bytes is not a power of two from %d to %d",
			     asked->block_bytes, BDEV_BLOCK_BYTES_MIN, BDEV_BLOCK_BYTES_MAX);
	if (asked->size_bytes == 0 || asked->size_bytes % asked->block_bytes != 0 || asked->size_bytes > INT64_MAX)
		return fault(why, -EINVAL,
			     "a size of %" PRIu64 " bytes is not a positive multiple of the block size, %" PRIu32,
			     asked->size_bytes, asked->block_bytes);
	if (asked->checksums && asked->block_bytes != SUMS_BLOCK_BYTES)
		return fault(why, -EINVAL, "a volume with checksums has blocks of %d bytes, not %" PRIu32, SUMS_BLOCK_BYTES,
			     asked->block_bytes);
	if (asked->checksums && asked->size_bytes > SUMS_VOLUME_BYTES_MAX)
		return fault(why, -EINVAL, "a volume with checksums has at most %" PRIu64 " bytes", SUMS_VOLUME_BYTES_MAX);
	return 0;
}

int change_check_pool_size(const struct pool *pool, const struct volume_record *asked, uint64_t bytes,
			   struct fathom_fault *why)
{
	const struct volume *volume;
	uint64_t used = copies_new_bytes(pool);

	if (pool->record.size_bytes == 0 || !ledger_is_promised(pool, asked))
		return 0;
	TAILQ_FOREACH (volume, &pool->volumes, link)
		used += ledger_is_promised(pool, &volume->record) ? volume->record.size_bytes : 0;
	if (used <= pool->record.size_bytes && bytes <= pool->record.size_bytes - used)
		return 0;
	return fault(why, -ENOSPC,
		     "volume %s/%s needs %" PRIu64 " bytes, but pool \"%s\" is limited to %" PRIu64
		     ", of which its volumes have %" PRIu64,
		     pool->record.name, asked->name, bytes, pool->record.name, pool->record.size_bytes, used);
}

/* The existing volume is what was asked for: -EALREADY; else say what differs. */
static int compare_volume(const struct volume *volume, const struct volume_record *asked, struct fathom_fault *why)
{
	const struct volume_record *record = &volume->record;

	if (!uuid_is_null(asked->uuid) && uuid_compare(asked->uuid, record->uuid) != 0)
		return fault(why, -EEXIST, "there is another volume %s", volume->device);
	if (volume->state == VOLUME_ERRORED)
		return fault(why, -EEXIST, "volume %s exists and is ERRORED: %s", volume->device, volume->why.text);
	if (asked->size_bytes != record->size_bytes)
		return fault(why, -EEXIST, "volume %s exists with a size of %" PRIu64 " bytes, not %" PRIu64,
			     volume->device, record->size_bytes, asked->size_bytes);
	if (asked->block_bytes != record->block_bytes)
		return fault(why, -EEXIST, "volume %s exists with a block size of %" PRIu32 " bytes, not %" PRIu32,
			     volume->device, record->block_bytes, asked->block_bytes);
	if (asked->thick != record->thick)
		return fault(why, -EEXIST, "volume %s exists and is %s", volume->device, record->thick ? "thick" : "thin");
	if (asked->checksums != record->checksums)
		return fault(why, -EEXIST, "volume %s exists %s checksums", volume->device,
			     record->checksums ? "with" : "without");
	if (asked->move != record->move)
		return fault(why, -EEXIST, "volume %s exists and is %s", volume->device,
			     record->move == VOLUME_MOVE_NONE ? "not a copy" : volume_move_text(record->move));
	return -EALREADY;
}

static int check_create(struct change *change, struct fathom_fault *why)
{
	const struct pool *pool = change_find_pool(change, why);
	const struct volume *volume;
	char device[2 * POOL_NAME_BYTES_MAX];
	int error;

	if (!pool)
		return -ENOENT;
	error = check_new_volume(&change->record, why);
	if (error)
		return error;
	if (pool->why.error)
		return fault(why, -EIO, "pool \"%s\" is ERRORED: %s", change->pool, pool->why.text);
	volume = model_find_volume(pool, change->record.name);
	if (volume)
		return compare_volume(volume, &change->record, why);
	snprintf(device, sizeof(device), "%s/%s", change->pool, change->record.name);
	if (bdev_find(device))
		return fault(why, -EEXIST, "there is another block device \"%s\"", device);
	return change_check_pool_size(pool, &change->record, change->record.size_bytes, why);
}

static int work_create(struct change *change, struct fathom_fault *why)
{
	int error;

	if (uuid_is_null(change->record.uuid))
		uuid_generate(change->record.uuid);
	if (change->record.created_ns == 0)
		change->record.created_ns = clock_realtime_ns();
	change->record.generation = 1;
	error = ledger_check(change->volumes, model_find_pool(&change->volumes->pools, change->pool), &change->record,
			     change->record.size_bytes, why);
	if (!error)
		error = volume_create(change->volumes->tree, change->pool, &change->record, why);
	if (!error)
		change_open_files(change, &change->record);
	return error;
}

void change_open_files(struct change *change, const struct volume_record *record)
{
	must(!change->opened);
	change->opened_why.error = 0;
	if (model_open_files(change->volumes, change->pool, record, record->generation, &change->opened,
			     &change->opened_why))
		must(change->opened_why.error); /* the volume is ERRORED then */
}

void change_bring_online(struct change *change, struct volume *volume)
{
	volume->opened = change->opened;
	change->opened = NULL;
	if (!volume->opened)
		volume->why = change->opened_why;
	model_bring_online(change->volumes, volume);
	if (volume->state == VOLUME_ERRORED) {
		change->error = volume->why.error;
		change->why = volume->why;
	}
}

static void apply_create(struct change *change)
{
	struct pool *pool = model_find_pool(&change->volumes->pools, change->pool);
	struct volume *volume;

	must(pool);
	volume = model_add_volume(pool, &change->record);
	must(volume);
	model_index_volume(change->volumes, volume);
	change_bring_online(change, volume);
}

static const struct change_kind create_kind = {
	.change = VOLUME_CHANGE_CREATE,
	.check = check_create,
	.work = work_create,
	.apply = apply_create,
};

/* ---- destroy a volume ---- */

static int check_destroy(struct change *change, struct fathom_fault *why)
{
	struct volume *volume = change_find_volume(change, why);
	int error;

	if (!volume)
		return -ENOENT;
	if (volume->record.host_count > 0 && !change->force)
		return fault(why, -EBUSY,
			     "volume %s is published to %u host%s, the first is %s: unpublish it, or use force",
			     volume->device, volume->record.host_count, volume->record.host_count == 1 ? "" : "s",
			     volume->record.hosts[0].nqn);
	if (volume->snapshot_count > 0 && !change->force)
		return change_fault_snapshots(volume, why);
	error = model_hold(volume, why);
	/* the removal of the block device removes its namespaces */
	return error == -EBUSY && change->force ? 0 : error;
}

static void undo_destroy(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);

	must(volume);
	model_release(volume);
}

static int work_destroy(struct change *change, struct fathom_fault *why)
{
	return volume_remove(change->volumes->tree, change->pool, change->record.name, why);
}

static void apply_destroy(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);

	must(volume);
	model_remove_volume(change->volumes, volume);
	change->volumes->has_trash = true;
	upkeep_note_removal(change->volumes->upkeep);
}

static const struct change_kind destroy_kind = {
	.change = VOLUME_CHANGE_DESTROY,
	.check = check_destroy,
	.work = work_destroy,
	.apply = apply_destroy,
	.undo = undo_destroy,
};

/* ---- delete the files of a removed object ---- */

static int check_empty_trash(struct change *change, struct fathom_fault *why)
{
	return 0;
}

static int work_empty_trash(struct change *change, struct fathom_fault *why)
{
	change->trash_result = pool_tree_delete_trash(change->volumes->tree, why);
	return change->trash_result < 0 ? change->trash_result : 0;
}

static void apply_empty_trash(struct change *change)
{
	if (change->trash_result == 0)
		change->volumes->has_trash = false;
	if (change->trash_result == 2)
		log_warning("storage %s: the files of a removed volume or pool stay until the engine starts again: %s",
			    change->volumes->root, change->why.text);
}

const struct change_kind empty_trash_kind = {
	.change = VOLUME_CHANGE_EMPTY_TRASH,
	.check = check_empty_trash,
	.work = work_empty_trash,
	.apply = apply_empty_trash,
};

/* ---- calls ---- */

void change_copy_name(char to[POOL_NAME_BYTES_MAX], const char *name)
{
	if (text_copy(to, POOL_NAME_BYTES_MAX, name) != 0)
		to[0] = '\0';
}

struct change *change_of_pool(struct volumes *volumes, const struct change_kind *kind, const struct volume_key *key,
			      volumes_done_fn done, void *ctx)
{
	struct change *change = change_create(volumes, kind, done, ctx);

	change_copy_name(change->pool, key->pool);
	uuid_copy(change->pool_record.uuid, key->pool_uuid);
	return change;
}

struct change *change_of_volume(struct volumes *volumes, const struct change_kind *kind, const struct volume_key *key,
				volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_pool(volumes, kind, key, done, ctx);

	change_copy_name(change->record.name, key->volume);
	uuid_copy(change->record.uuid, key->uuid);
	return change;
}

void volumes_create_pool(struct volumes *volumes, const struct pool_record *pool, volumes_done_fn done, void *ctx)
{
	struct change *change = change_create(volumes, &pool_create_kind, done, ctx);

	change->pool_record = *pool;
	change_copy_name(change->pool, pool->name);
	change_submit(change);
}

void volumes_destroy_pool(struct volumes *volumes, const struct volume_key *key, bool force, volumes_done_fn done,
			  void *ctx)
{
	struct change *change = change_of_pool(volumes, &pool_destroy_kind, key, done, ctx);

	change->force = force;
	change_submit(change);
}

void volumes_create(struct volumes *volumes, const struct volume_key *key, const struct volume_record *volume,
		    volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_pool(volumes, &create_kind, key, done, ctx);

	must(volume_record_copy(&change->record, volume) == 0);
	if (change->record.block_bytes == 0)
		change->record.block_bytes = BLOCK_BYTES_DEFAULT;
	change_submit(change);
}

void volumes_destroy(struct volumes *volumes, const struct volume_key *key, bool force, volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_volume(volumes, &destroy_kind, key, done, ctx);

	change->force = force;
	change_submit(change);
}
