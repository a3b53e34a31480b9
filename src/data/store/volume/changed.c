/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changed - in which ranges two snapshots of a volume differ. It runs as a change, on the worker thread, because calls that
 * read the maps of files block; and so a snapshot is not removed meanwhile. It changes nothing on disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "data/store/pool/changed.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/snapshots.h"

static int check_offset(const struct volume_changed *changed, struct fathom_fault *why)
{
	if (changed->offset > changed->size_bytes)
		return fault(why, -EINVAL, "offset %" PRIu64 " is behind the end, %" PRIu64, changed->offset,
			     changed->size_bytes);
	if (changed->offset % changed->block_bytes != 0)
		return fault(why, -EINVAL, "offset %" PRIu64 " is no multiple of the block size, %" PRIu32, changed->offset,
			     changed->block_bytes);
	return 0;
}

/* The newer side: a snapshot, or the volume itself. */
static int check_newer(const struct change *change, const struct volume *volume, struct fathom_fault *why)
{
	struct volume_changed *changed = change->changed;
	const struct snapshot *snapshot;

	if (!changed->snapshot[0]) {
		if (volume->state != VOLUME_ONLINE)
			return fault(why, -EIO, "volume %s is %s: %s", volume->device, volume_state_name(volume->state),
				     volume->why.text);
		changed->size_bytes = volume->record.size_bytes;
		changed->block_bytes = volume->record.block_bytes;
		uuid_clear(changed->uuid);
		return 0;
	}
	snapshot = volumes_find_snapshot(volume, changed->snapshot);
	if (!snapshot)
		return fault(why, -ENOENT, "volume %s has no snapshot \"%s\"", volume->device, changed->snapshot);
	changed->size_bytes = snapshot->record.size_bytes;
	changed->block_bytes = snapshot->record.block_bytes;
	uuid_copy(changed->uuid, snapshot->record.uuid);
	return 0;
}

static int check_changed(struct change *change, struct fathom_fault *why)
{
	const struct volume *volume = change_find_volume(change, why);
	struct volume_changed *changed = change->changed;
	const struct snapshot *from;
	int error;

	if (!volume)
		return -ENOENT;
	error = check_newer(change, volume, why);
	if (error)
		return error;
	uuid_clear(changed->from_uuid);
	changed->from_bytes = 0;
	if (changed->from[0]) {
		from = volumes_find_snapshot(volume, changed->from);
		if (!from)
			return fault(why, -ENOENT, "volume %s has no snapshot \"%s\"", volume->device, changed->from);
		changed->from_bytes = from->record.size_bytes;
		uuid_copy(changed->from_uuid, from->record.uuid);
	}
	return check_offset(changed, why);
}

static int open_side(struct change *change, const char *snapshot, int *fd_ret, struct fathom_fault *why)
{
	struct pool_tree *tree = change->volumes->tree;

	if (snapshot[0])
		return snapshot_open_data(tree, change->pool, change->record.name, snapshot, fd_ret, why);
	return volume_open_data(tree, change->pool, &change_find_volume(change, NULL)->record, O_RDONLY, fd_ret, why);
}

static int work_changed(struct change *change, struct fathom_fault *why)
{
	const struct pool_fs *fs = change->volumes->fs;
	struct volume_changed *changed = change->changed;
	struct changed_query query = {
		.from = -1,
		.from_bytes = changed->from_bytes,
		.to = -1,
		.to_bytes = changed->size_bytes,
		.offset = changed->offset,
		.ranges_max = changed->ranges_max,
	};
	int error = open_side(change, changed->snapshot, &query.to, why);

	if (!error && changed->from[0])
		error = open_side(change, changed->from, &query.from, why);
	if (!error)
		error = changed_read(fs, &query, changed->ranges, &changed->count, &changed->next_offset, why);
	if (query.from >= 0)
		fs->close(fs->ctx, query.from);
	if (query.to >= 0)
		fs->close(fs->ctx, query.to);
	return error;
}

static void apply_nothing(struct change *change)
{
}

static const struct change_kind changed_kind = {
	.change = VOLUME_CHANGE_SNAPSHOT_CHANGES,
	.check = check_changed,
	.work = work_changed,
	.apply = apply_nothing,
};

struct volume_changed *volume_changed_create(uint32_t ranges_max)
{
	struct volume_changed *changed;

	if (ranges_max == 0 || ranges_max > CHANGED_RANGES_MAX)
		ranges_max = CHANGED_RANGES_MAX;
	changed = calloc(1, sizeof(*changed) + ranges_max * sizeof(changed->ranges[0]));
	must(changed);
	changed->ranges_max = ranges_max;
	return changed;
}

void volume_changed_free(struct volume_changed *changed)
{
	free(changed);
}

void volumes_read_changed(struct volumes *volumes, const struct volume_key *key, struct volume_changed *changed,
			  volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_volume(volumes, &changed_kind, key, done, ctx);

	must(changed->snapshot && changed->from);
	change->changed = changed;
	change_submit(change);
}
