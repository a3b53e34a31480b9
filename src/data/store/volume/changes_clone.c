/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changes_clone - make a volume of a snapshot: a new one, or the next generation of the snapshot's own.
 *
 *   SNAPSHOT_CLONE     an empty file is made in `pending`; the snapshot is copied; the volume appears
 *   SNAPSHOT_RESTORE   a volume that has grown gets the size of the snapshot; an empty file of the next generation is made;
 *                      the snapshot is copied; the new file is opened; the I/O of the volume is held; the record names the
 *                      new generation; the block device exchanges its file; the I/O goes on; the old file is deleted
 *
 * Hosts that use a volume while it is restored see the old content up to the exchange, and the new one afterwards.
 *
 * A channel lets its I/O go on if it is held for too long. So after QUIESCE_SEC the record is not replaced any more, and
 * all channels are asked before the exchange. If I/O went on, hosts have written to the old file: the volume keeps it, and
 * the record is made as before. A crash between the two loses these writes. This needs a record whose syncs take longer
 * than BDEV_HOLD_SILENCE_SEC, or a thread that hangs for as long.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "data/store/backend/backend.h"
#include "data/store/pool/sums.h"
#include "data/store/volume/copy.h"
#include "data/store/volume/ledger.h"
#include "data/store/volume/upkeep.h"

static int check_nothing(struct change *change, struct fathom_fault *why)
{
	return 0;
}

/*
 * Copy from the snapshot into the build: the data, and the checksums. Errors: those of the storage; the caller abandons the
 * build.
 */
static int open_snapshot(struct change *change, struct fathom_fault *why)
{
	struct barrier_member *file = &change->copy->files[0];
	struct pool_tree *tree = change->volumes->tree;
	int error;

	file->to = change->copy->build.fd;
	file->bytes = change->snapshot_record.size_bytes;
	file->sums_bytes = change->snapshot_record.checksums ? sums_file_bytes(file->bytes) : 0;
	file->sums_to = change->copy->build.sums_fd;
	must((file->sums_bytes == 0) == (file->sums_to < 0));
	error = snapshot_open_data(tree, change->pool, change->record.name, change->snapshot, &file->from, why);
	if (!error && file->sums_bytes > 0)
		error = snapshot_open_sums(tree, change->pool, change->record.name, change->snapshot, &file->sums_from,
					   why);
	if (error)
		copy_close_sources(change->copy);
	return error;
}

/* A thick volume has blocks for its holes, too. */
static int allocate_holes(struct change *change, const struct volume_record *record, uint64_t bytes,
			  struct fathom_fault *why)
{
	const struct pool_fs *fs = change->volumes->fs;
	const struct volume_build *build = &change->copy->build;
	int error = record->thick ? fs->allocate(fs->ctx, build->fd, 0, bytes) : 0;

	if (!error && record->thick && record->checksums)
		error = fs->allocate(fs->ctx, build->sums_fd, 0, sums_file_bytes(bytes));
	return error ? fault(why, error, "cannot allocate the blocks of volume %s: %s", record->name, strerror(-error)) : 0;
}

/*
 * Promise `bytes` more to the volume, and the blocks that its holes get if it is thick: until the end of the copy by the
 * copy, then by the volume, which may share blocks, so that its promise is all of its size.
 */
static int promise_space(struct change *change, uint64_t bytes, struct fathom_fault *why)
{
	const struct pool *pool = model_find_pool(&change->volumes->pools, change->pool);
	const struct snapshot *snapshot = change_find_snapshot(change, NULL);
	uint64_t size = change->snapshot_record.size_bytes, holes = size - min_u64(snapshot->allocated_bytes, size);
	struct copy *copy = change->copy;
	int error;

	if (!ledger_is_promised(pool, &copy->record))
		return 0;
	copy->new_bytes = bytes;
	bytes += copy->record.thick ? holes : 0;
	error = bytes > 0 ? ledger_check(change->volumes, pool, &copy->record, bytes, why) : 0;
	copy->promised_bytes = error ? 0 : bytes;
	return error;
}

/* ---- clone: begin ---- */

/* The existing volume is this clone: -EALREADY. */
static int compare_clone(const struct change *change, const struct volume *volume, struct fathom_fault *why)
{
	const struct volume_record *record = &volume->record, *asked = &change->copy->record;

	if (!uuid_is_null(asked->uuid) && uuid_compare(asked->uuid, record->uuid) != 0)
		return fault(why, -EEXIST, "there is another volume %s", volume->device);
	if (!record->has_origin || uuid_compare(record->origin_snapshot, change->snapshot_record.uuid) != 0)
		return fault(why, -EEXIST, "volume %s exists, and is no clone of this snapshot", volume->device);
	if (asked->thick != record->thick)
		return fault(why, -EEXIST, "volume %s exists and is %s", volume->device, record->thick ? "thick" : "thin");
	if (asked->read_only != record->read_only)
		return fault(why, -EEXIST, "volume %s exists and is %s", volume->device,
			     record->read_only ? "only read" : "also written");
	return -EALREADY;
}

static int check_clone(struct change *change, struct fathom_fault *why)
{
	const struct snapshot *snapshot = change_find_snapshot(change, why);
	struct volume_record *record = &change->copy->record;
	const struct volume *source, *existing;
	char device[2 * POOL_NAME_BYTES_MAX];
	int error;

	if (!snapshot)
		return -ENOENT;
	error = pool_name_check("volume", record->name, why);
	if (error)
		return error;
	source = change_find_volume(change, NULL);
	change->snapshot_record = snapshot->record;
	existing = model_find_volume(source->pool, record->name);
	if (existing)
		return compare_clone(change, existing, why);
	snprintf(device, sizeof(device), "%s/%s", change->pool, record->name);
	if (bdev_find(device))
		return fault(why, -EEXIST, "there is another block device \"%s\"", device);
	record->size_bytes = snapshot->record.size_bytes;
	record->block_bytes = snapshot->record.block_bytes;
	record->checksums = snapshot->record.checksums;
	record->has_origin = record->shares = true;
	uuid_copy(record->origin_volume, source->record.uuid);
	uuid_copy(record->origin_snapshot, snapshot->record.uuid);
	error = change_check_reflinks(change, why);
	return error ? error : change_check_pool_size(source->pool, record, record->size_bytes, why);
}

static int work_clone(struct change *change, struct fathom_fault *why)
{
	struct volumes *volumes = change->volumes;
	struct copy *copy = change->copy;
	struct volume_record *record = &copy->record;
	int error = promise_space(change, record->size_bytes, why);

	if (error)
		return error;
	if (uuid_is_null(record->uuid))
		uuid_generate(record->uuid);
	record->created_ns = clock_realtime_ns();
	record->generation = 1;
	error = volume_build_begin(volumes->tree, record, &copy->build, why);
	if (error)
		return error;
	error = open_snapshot(change, why);
	if (error)
		volume_build_abandon(volumes->tree, &copy->build);
	else
		copy->is_open = true;
	return error;
}

/* ---- clone: end ---- */

static int work_clone_end(struct change *change, struct fathom_fault *why)
{
	struct pool_tree *tree = change->volumes->tree;
	struct copy *copy = change->copy;
	int error = copy->error;

	copy->is_open = false;
	copy_close_sources(copy);
	if (error)
		*why = copy->why;
	else
		error = allocate_holes(change, &copy->record, copy->record.size_bytes, why);
	if (error) {
		volume_build_abandon(tree, &copy->build);
		return error;
	}
	error = volume_build_commit(tree, change->pool, &copy->record, &copy->build, why);
	if (!error)
		change_open_files(change, &copy->record);
	return error;
}

static void apply_clone_end(struct change *change)
{
	struct pool *pool = model_find_pool(&change->volumes->pools, change->pool);
	struct volume *volume, *origin;

	must(pool); /* held */
	volume = model_add_volume(pool, &change->copy->record);
	must(volume);
	model_index_volume(change->volumes, volume);
	volume->may_share = true;
	origin = volumes_find_uuid(change->volumes, change->copy->record.origin_volume);
	if (origin) {
		origin->may_share = true;
		model_set_limit(origin, false);
	}
	if (origin && !origin->record.shares) { /* the snapshot was destroyed meanwhile, and the upkeep had ended */
		origin->record.shares = true;
		upkeep_note(origin);
	}
	change_bring_online(change, volume);
	copy_end(change);
}

static void undo_clone_end(struct change *change)
{
	if (change->copy->is_open) /* no thread could be started */
		volume_build_abandon(change->volumes->tree, &change->copy->build);
	change->copy->is_open = false;
	copy_end(change);
}

static const struct change_kind clone_end_kind = {
	.change = VOLUME_CHANGE_SNAPSHOT_CLONE,
	.check = check_nothing,
	.work = work_clone_end,
	.apply = apply_clone_end,
	.undo = undo_clone_end,
};

static void apply_clone(struct change *change)
{
	copy_begin(change, &clone_end_kind);
}

static const struct change_kind clone_kind = {
	.change = VOLUME_CHANGE_SNAPSHOT_CLONE,
	.check = check_clone,
	.work = work_clone,
	.apply = apply_clone,
};

/* ---- restore: begin ---- */

static int check_restore(struct change *change, struct fathom_fault *why)
{
	const struct snapshot *snapshot = change_find_snapshot(change, why);
	struct volume *volume = snapshot ? change_find_volume(change, NULL) : NULL;
	const struct bdev *bdev;
	int error;

	if (!snapshot)
		return -ENOENT;
	if (volume->state != VOLUME_ONLINE)
		return fault(why, -EIO, "volume %s is %s: %s", volume->device, volume_state_name(volume->state),
			     volume->why.text);
	if (volume->record.read_only)
		return fault(why, -EROFS, "volume %s is a clone that is only read", volume->device);
	if (volume->record.generation == INT32_MAX)
		return fault(why, -EOVERFLOW, "volume %s was restored too often: clone the snapshot", volume->device);
	bdev = bdev_find(volume->device);
	if (bdev && bdev->claimed && !change->force)
		return fault(why, -EBUSY,
			     "volume %s is in use, and hosts would see its content change: disconnect them, or use force",
			     volume->device);
	error = change_check_reflinks(change, why);
	if (!error)
		error = change_check_still(volume, why);
	if (error)
		return error;
	change->snapshot_record = snapshot->record;
	change->size_bytes = snapshot->record.size_bytes;
	return volume_record_copy(&change->copy->record, &volume->record);
}

/* ---- restore: a volume that has grown since becomes smaller; hosts see that before the content changes ---- */

static void finish_shrink(void *ctx, int error)
{
	struct change *change = ctx;

	if (error)
		fill_fault(&change->why, error, "volume %s/%s cannot get the size of its snapshot now: %s", change->pool,
			   change->record.name,
			   error == -ETIMEDOUT ? "I/O that hosts had submitted does not end: the device is slow or hangs"
					       : strerror(-error));
	change_prepared(change, error);
}

static void prepare_restore(struct change *change)
{
	const struct volume_record *record = &change->copy->record;
	const struct volume *volume = change_find_volume(change, NULL);
	struct bdev *bdev = change->size_bytes < record->size_bytes ? bdev_find(volume->device) : NULL;

	if (!bdev) {
		change_prepared(change, 0);
		return;
	}
	change->is_shrunk = true;
	bdev_shrink(bdev, change->size_bytes / record->block_bytes, finish_shrink, change);
}

/* The volume stays as it was. If it is ERRORED, its block device is going. */
static void grow_again(const struct change *change)
{
	const struct volume *volume = change_find_volume(change, NULL);

	if (change->is_shrunk && volume_is_served(volume))
		model_grow_device(volume);
}

static void undo_restore(struct change *change)
{
	grow_again(change);
}

static int work_restore(struct change *change, struct fathom_fault *why)
{
	struct volumes *volumes = change->volumes;
	struct copy *copy = change->copy;
	const struct volume_record *record = &copy->record;
	int error = promise_space(change, change->size_bytes - min_u64(change->size_bytes, record->size_bytes), why);

	if (!error)
		error = volume_restore_begin(volumes->tree, change->pool, record, change->size_bytes, &copy->build, why);
	if (error)
		return error;
	error = open_snapshot(change, why);
	if (error)
		volume_restore_abandon(volumes->tree, record, &copy->build);
	else
		copy->is_open = true;
	return error;
}

/* The commit syncs the file again, which is short then: channels let I/O go on if it is held for long. */
static int settle_restore(struct change *change, struct fathom_fault *why)
{
	const struct pool_fs *fs = change->volumes->fs;
	int error = allocate_holes(change, &change->copy->record, change->size_bytes, why);

	if (error)
		return error;
	error = fs->sync(fs->ctx, change->copy->build.fd);
	if (!error && change->copy->build.sums_fd >= 0)
		error = fs->sync(fs->ctx, change->copy->build.sums_fd);
	if (error)
		return fault(why, error, "cannot sync the restored data of volume %s: %s", change->copy->record.name,
			     strerror(-error));
	return model_open_files(change->volumes, change->pool, &change->copy->record, change->copy->record.generation + 1,
				&change->copy->replacement, why);
}

/* ---- restore: the record; the I/O of the volume is held, unless the copy failed ---- */

static void abandon_restore(struct change *change)
{
	struct copy *copy = change->copy;

	if (copy->is_open)
		volume_restore_abandon(change->volumes->tree, &copy->record, &copy->build);
	copy->is_open = false;
}

static void prepare_restore_end(struct change *change)
{
	const struct volume *volume = change_find_volume(change, NULL);
	struct copy *copy = change->copy;

	must(volume); /* held */
	if (!copy->error)
		copy->error = model_check_exchange(volume, copy->replacement, &copy->why);
	copy->build.deadline_ns = copy->quiesced_ns + QUIESCE_SEC * NS_PER_SEC;
	change_prepared(change, 0);
}

static int work_restore_end(struct change *change, struct fathom_fault *why)
{
	struct copy *copy = change->copy;

	copy_close_sources(copy);
	if (copy->error) {
		*why = copy->why;
		abandon_restore(change);
		return copy->error;
	}
	copy->is_open = false;
	return volume_restore_commit(change->volumes->tree, &copy->record, change->size_bytes, &copy->build,
				     &copy->is_unknown, why);
}

/* The disk may have either generation, so neither can be served: a restart may find the other one. */
static void fail_unknown(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);
	struct fathom_fault why;

	must(volume && change->error);
	fill_fault(&why, change->error,
		   "the end of a restore could not be synced, so it is not known which data the disk has: %s; restart the"
		   " engine when the device works",
		   change->why.text);
	change->why = why;
	model_fail(change->volumes, volume, &why);
}

static void undo_restore_end(struct change *change)
{
	struct copy *copy = change->copy;

	abandon_restore(change); /* no thread could be started */
	file_volume_abandon(copy->replacement);
	copy->replacement = NULL;
	if (copy->is_unknown)
		fail_unknown(change);
	copy_end(change);
	grow_again(change);
}

/* ---- restore: the exchange ---- */

static void note_confirmed(void *ctx, const struct fathom_fault *why)
{
	struct change *change = ctx;
	struct volume *volume = change_find_volume(change, NULL);
	struct copy *copy = change->copy;

	must(volume);
	if (why) { /* hosts have written to the old file */
		copy->error = why->error;
		copy->why = *why;
		file_volume_abandon(copy->replacement);
	} else {
		model_exchange_file(volume, change->size_bytes, copy->replacement);
		quiesce_end(copy->quiesce);
	}
	copy->replacement = NULL;
	copy->quiesce = NULL;
	change_prepared(change, 0);
}

static void prepare_exchange(struct change *change)
{
	quiesce_confirm(change->copy->quiesce, note_confirmed, change);
}

static int work_exchange(struct change *change, struct fathom_fault *why)
{
	struct pool_tree *tree = change->volumes->tree;
	struct copy *copy = change->copy;

	if (copy->error)
		return volume_restore_revert(tree, &copy->record, &copy->build, why);
	volume_restore_close(tree, &copy->record, &copy->build);
	return 0;
}

/* If it was reverted, the reason is the result of the change. */
static void apply_exchange(struct change *change)
{
	if (change->error) {
		fail_unknown(change);
	} else if (change->copy->error) {
		change->error = change->copy->error;
		change->why = change->copy->why;
	}
	copy_end(change);
	if (change->error)
		grow_again(change);
}

static void undo_exchange(struct change *change)
{
	if (change->copy->build.folder >= 0) /* no thread could be started */
		change->error = work_exchange(change, &change->why);
	apply_exchange(change);
}

static const struct change_kind exchange_kind = {
	.change = VOLUME_CHANGE_SNAPSHOT_RESTORE,
	.check = check_nothing,
	.prepare = prepare_exchange,
	.work = work_exchange,
	.apply = apply_exchange,
	.undo = undo_exchange,
};

static void apply_restore_end(struct change *change)
{
	copy_go_on(change, &exchange_kind);
}

static const struct change_kind restore_end_kind = {
	.change = VOLUME_CHANGE_SNAPSHOT_RESTORE,
	.check = check_nothing,
	.prepare = prepare_restore_end,
	.work = work_restore_end,
	.apply = apply_restore_end,
	.undo = undo_restore_end,
};

static void apply_restore(struct change *change)
{
	change->copy->settle = settle_restore;
	change->copy->quiesced = change_find_volume(change, NULL);
	copy_begin(change, &restore_end_kind);
}

static const struct change_kind restore_kind = {
	.change = VOLUME_CHANGE_SNAPSHOT_RESTORE,
	.check = check_restore,
	.prepare = prepare_restore,
	.work = work_restore,
	.apply = apply_restore,
	.undo = undo_restore,
};

/* ---- calls ---- */

void volumes_clone(struct volumes *volumes, const struct volume_key *key, const char *snapshot,
		   const struct volume_record *clone, volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_volume(volumes, &clone_kind, key, done, ctx);

	change_copy_name(change->snapshot, snapshot);
	change->copy = copy_create(1);
	change_copy_name(change->copy->record.name, clone->name);
	uuid_copy(change->copy->record.uuid, clone->uuid);
	change->copy->record.thick = clone->thick && !clone->read_only;
	change->copy->record.read_only = clone->read_only;
	change_copy_name(change->copy->volumes[0].pool, key->pool);
	change_copy_name(change->copy->volumes[0].name, clone->name);
	change_submit(change);
}

void volumes_restore(struct volumes *volumes, const struct volume_key *key, const char *snapshot, bool force,
		     volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_volume(volumes, &restore_kind, key, done, ctx);

	change_copy_name(change->snapshot, snapshot);
	change->force = force;
	change->copy = copy_create(1);
	change_copy_name(change->copy->volumes[0].pool, key->pool);
	change_copy_name(change->copy->volumes[0].name, key->volume);
	change_submit(change);
}
