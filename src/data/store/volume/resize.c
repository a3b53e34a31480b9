/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resize - gives a volume another size, also while hosts use it.
 *
 *   larger      the file and the record, then the block device
 *   smaller     the block device, then the record and the file. Hosts may write until the block device is shorter, so the
 *               end of the data is checked twice: before it, to leave a volume alone that cannot be made smaller, and after
 *               it.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bits.h"
#include "data/store/pool/sums.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/ledger.h"

static bool is_smaller(const struct change *change)
{
	return change->size_bytes < change->record.size_bytes;
}

static int check_new_size(const struct change *change, const struct volume *volume, struct fathom_fault *why)
{
	uint64_t bytes = change->size_bytes, now = volume->record.size_bytes;

	if (bytes == 0 || bytes > INT64_MAX)
		return fault(why, -EINVAL, "a size of %" PRIu64 " bytes is too %s", bytes, bytes ? "large" : "small");
	if (bytes % volume->record.block_bytes != 0)
		return fault(why, -EINVAL, "a size of %" PRIu64 " bytes is not a multiple of the block size, %" PRIu32,
			     bytes, volume->record.block_bytes);
	if (bytes < now && !change->force)
		return fault(why, -EINVAL, "volume %s has %" PRIu64 " bytes, and is made smaller only with force",
			     volume->device, now);
	if (volume->record.checksums && bytes > SUMS_VOLUME_BYTES_MAX)
		return fault(why, -EINVAL, "a volume with checksums has at most %" PRIu64 " bytes", SUMS_VOLUME_BYTES_MAX);
	return bytes > now ? change_check_pool_size(volume->pool, &volume->record, bytes - now, why) : 0;
}

static int check_resize(struct change *change, struct fathom_fault *why)
{
	struct volume *volume = change_find_volume(change, why);
	int error;

	if (!volume)
		return -ENOENT;
	if (volume->state != VOLUME_ONLINE)
		return fault(why, -EIO, "volume %s is %s: %s", volume->device, volume_state_name(volume->state),
			     volume->why.text);
	if (change->size_bytes == volume->record.size_bytes)
		return -EALREADY;
	error = check_new_size(change, volume, why);
	if (!error)
		error = change_check_still(volume, why);
	if (error)
		return error;
	volume_record_deinit(&change->record);
	return volume_record_copy(&change->record, &volume->record);
}

/* Worker thread. */
static int check_used(struct change *change, struct fathom_fault *why)
{
	uint64_t end;
	int error = volume_data_end(change->volumes->tree, change->pool, &change->record, change->size_bytes, &end, why);

	if (error || end <= change->size_bytes)
		return error;
	return fault(why, -EBUSY, "volume %s/%s has data up to %" PRIu64 " bytes: it cannot be made smaller than that",
		     change->pool, change->record.name, round_up(end, change->record.block_bytes));
}

/* ---- smaller: before the work ---- */

static void finish_shrink(void *ctx, int error)
{
	struct change *change = ctx;

	if (error)
		fill_fault(&change->why, error, "volume %s/%s cannot be made smaller now: %s", change->pool,
			   change->record.name,
			   error == -ETIMEDOUT ? "I/O that hosts had submitted does not end: the device is slow or hangs"
					       : strerror(-error));
	change_prepared(change, error);
}

static void run_first_check(struct worker_job *job)
{
	struct change *change = container_of(job, struct change, job);

	change->error = check_used(change, &change->why);
}

static void finish_first_check(struct worker_job *job)
{
	struct change *change = container_of(job, struct change, job);
	const struct volume *volume = change_find_volume(change, NULL);
	struct bdev *bdev = volume ? bdev_find(volume->device) : NULL;

	if (change->error || !bdev) {
		change_prepared(change, change->error);
		return;
	}
	change->is_shrunk = true;
	bdev_shrink(bdev, change->size_bytes / change->record.block_bytes, finish_shrink, change);
}

static void prepare_resize(struct change *change)
{
	int error = 0;

	if (is_smaller(change)) {
		change->job = (struct worker_job){ .work = run_first_check, .done = finish_first_check };
		error = worker_start(&change->job);
		if (!error)
			return;
		fill_fault(&change->why, error, "cannot start a thread: %s", strerror(-error));
	}
	change_prepared(change, error);
}

/* ---- the work ---- */

static int work_resize(struct change *change, struct fathom_fault *why)
{
	const struct volume *volume = change_find_volume(change, NULL);
	uint64_t more;
	int error;

	must(volume); /* only a change can remove it */
	if (is_smaller(change)) {
		error = check_used(change, why);
	} else {
		more = change->size_bytes - change->record.size_bytes;
		if (change->record.thick && ledger_may_share(volume))
			more *= 2; /* it gets blocks now, and its promise is all of its size */
		error = ledger_check(change->volumes, volume->pool, &change->record, more, why);
	}
	return error ? error : volume_resize(change->volumes->tree, change->pool, &change->record, change->size_bytes, why);
}

static void apply_resize(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);

	must(volume);
	volume->record.size_bytes = change->size_bytes;
	if (!is_smaller(change))
		model_grow_device(volume);
}

static void undo_resize(struct change *change)
{
	const struct volume *volume = change_find_volume(change, NULL);

	must(volume);
	/* if the tree has failed, the record on disk may have the new size: the next open drops the blocks behind it */
	if (change->is_shrunk && !pool_tree_is_failed(change->volumes->tree))
		model_grow_device(volume);
}

static const struct change_kind resize_kind = {
	.change = VOLUME_CHANGE_RESIZE,
	.check = check_resize,
	.prepare = prepare_resize,
	.work = work_resize,
	.apply = apply_resize,
	.undo = undo_resize,
};

void volumes_resize(struct volumes *volumes, const struct volume_key *key, uint64_t size_bytes, bool force,
		    volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_volume(volumes, &resize_kind, key, done, ctx);

	change->size_bytes = size_bytes;
	change->force = force;
	change_submit(change);
}
