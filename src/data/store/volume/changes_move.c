/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changes_move - the part of a volume in a move between engines: the `move` of its record.
 *
 * The record decides whether the volume is served, also after a crash: an INCOMING volume is a copy that is not complete,
 * an OUTGOING one has been given away. The management service decides which of the two becomes the volume; each of its
 * steps is one replacement of a record here. The data are copied elsewhere (data/engine/move_in.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/store/volume/internal.h"
#include "data/store/volume/ledger.h"
#include "data/store/volume/snapshots.h"

int change_check_still(const struct volume *volume, struct fathom_fault *why)
{
	const struct bdev *bdev = volume->state == VOLUME_ONLINE ? bdev_find(volume->device) : NULL;

	if (volume->record.move == VOLUME_MOVE_NONE && (!bdev || !bdev->track))
		return 0;
	return fault(why, -EBUSY, "volume %s is being moved %s another engine", volume->device,
		     volume->record.move == VOLUME_MOVE_INCOMING ? "from" : "to");
}

char *volumes_data_path(const struct volumes *volumes, const struct volume *volume)
{
	must_be_on(thread_control());
	must(volume->state == VOLUME_ONLINE);
	return model_data_path(volumes, volume);
}

char *volumes_sums_path(const struct volumes *volumes, const struct volume *volume)
{
	must_be_on(thread_control());
	must(volume->state == VOLUME_ONLINE && volume->record.checksums);
	return model_sums_path(volumes, volume);
}

char *volumes_snapshot_path(const struct volumes *volumes, const struct volume *volume, const struct snapshot *snapshot,
			    bool sums)
{
	char *path;

	must_be_on(thread_control());
	if (asprintf(&path, "%s/pools/%s/volumes/%s/snapshots/%s/%s", volumes->root, volume->pool->record.name,
		     volume->record.name, snapshot->record.name, sums ? "sums" : "data") < 0)
		return NULL;
	return path;
}

struct space_limit *volumes_space_limit(const struct volumes *volumes, const struct volume *volume)
{
	must_be_on(thread_control());
	return ledger_is_promised(volume->pool, &volume->record) ? NULL : volumes->limit;
}

/* The record of the change becomes that of the volume, with the new part. A copy gets the hosts of the change. */
static int fill_record(struct change *change, const struct volume *volume, struct fathom_fault *why)
{
	struct volume_record next;

	if (volume_record_copy(&next, &volume->record))
		return fault(why, -ENOMEM, "out of memory");
	if (change->from == VOLUME_MOVE_INCOMING) {
		volume_record_deinit(&next);
		next.hosts = change->record.hosts;
		next.host_count = change->record.host_count;
		change->record.hosts = NULL;
		change->record.host_count = 0;
	}
	volume_record_deinit(&change->record);
	next.move = change->to;
	change->record = next;
	return 0;
}

static int check_move(struct change *change, struct fathom_fault *why)
{
	const struct volume *volume = change_find_volume(change, why);
	const char *part;

	if (!volume)
		return -ENOENT;
	/* in every state, or the service would repeat the call for ever; but not for a lost copy: the original must stay */
	if (volume->record.move == change->to && !(change->from == VOLUME_MOVE_INCOMING && volume->state == VOLUME_ERRORED))
		return -EALREADY;
	if (change->to == VOLUME_MOVE_OUTGOING ? volume->state != VOLUME_ONLINE : !volume_is_served(volume))
		return fault(why, -EIO, "volume %s is %s: %s", volume->device, volume_state_name(volume->state),
			     volume->why.text);
	part = volume_move_text(volume->record.move);
	if (volume->record.move != change->from)
		return fault(why, -EINVAL, "volume %s is %s, not %s", volume->device, part[0] ? part : "not in a move",
			     volume_move_text(change->from));
	/* a snapshot in progress at the begin of the move is not in the copy: it must not be lost with the volume */
	if (change->to == VOLUME_MOVE_OUTGOING && volume->snapshot_count != change->snapshot_count)
		return fault(why, -ESTALE, "volume %s has %u snapshots, not the %u that were copied: begin another copy",
			     volume->device, volume->snapshot_count, change->snapshot_count);
	return fill_record(change, volume, why);
}

static int work_move(struct change *change, struct fathom_fault *why)
{
	return volume_update(change->volumes->tree, change->pool, &change->record, why);
}

static void apply_move(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);

	must(volume);
	volume_record_deinit(&volume->record);
	volume->record.hosts = change->record.hosts;
	volume->record.host_count = change->record.host_count;
	volume->record.move = change->to;
	change->record.hosts = NULL;
	change->record.host_count = 0;
}

static const struct change_kind move_kind = {
	.change = VOLUME_CHANGE_MOVE,
	.check = check_move,
	.work = work_move,
	.apply = apply_move,
};

void volumes_move(struct volumes *volumes, const struct volume_key *key, const struct volume_moving *moving,
		  volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_volume(volumes, &move_kind, key, done, ctx);
	uint32_t count = moving->host_count;

	must(moving->from != moving->to);
	must(count <= POOL_VOLUME_HOSTS_MAX);
	must(count == 0 || moving->from == VOLUME_MOVE_INCOMING);
	change->from = moving->from;
	change->to = moving->to;
	change->snapshot_count = moving->snapshot_count;
	if (count > 0) {
		change->record.hosts = calloc(count, sizeof(*moving->hosts));
		must(change->record.hosts); /* as the change itself */
		memcpy(change->record.hosts, moving->hosts, count * sizeof(*moving->hosts));
		change->record.host_count = count;
	}
	change_submit(change);
}
