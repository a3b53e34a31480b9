/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * properties - makes a volume thick or thin, also while hosts use it.
 *
 *   thick   the space is promised, then the record says so. The blocks are allocated afterwards (upkeep.h); until then the
 *           promise covers the holes (ledger.h).
 *   thin    the record says so, and in a pool with overcommit the promise is gone. Blocks that the volume has stay: to find
 *           those that were never written, all writes of hosts would have to wait.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/bits.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/ledger.h"
#include "data/store/volume/upkeep.h"

static int check_property(struct change *change, struct fathom_fault *why)
{
	struct volume *volume = change_find_volume(change, why);
	struct volume_record thick = { .thick = true };
	int error;

	if (!volume)
		return -ENOENT;
	if (change->is_thick == volume->record.thick && volume->state != VOLUME_ERRORED)
		return -EALREADY;
	if (volume->state != VOLUME_ONLINE)
		return fault(why, -EIO, "volume %s is %s: %s", volume->device, volume_state_name(volume->state),
			     volume->why.text);
	if (volume->record.read_only)
		return fault(why, -EROFS, "volume %s is a clone that is only read, and has no space of its own",
			     volume->device);
	error = change_check_still(volume, why);
	if (!error && change->is_thick && volume->pool->record.overcommit) {
		change_copy_name(thick.name, volume->record.name);
		error = change_check_pool_size(volume->pool, &thick, volume->record.size_bytes, why);
	}
	if (error)
		return error;
	volume_record_deinit(&change->record);
	return volume_record_copy(&change->record, &volume->record);
}

/* What must be promised more. */
static int read_missing(struct volumes *volumes, const struct volume *volume, const struct volume_record *record,
			uint64_t *bytes_ret, struct fathom_fault *why)
{
	bool may_share = ledger_may_share(volume);
	uint64_t allocated, before = 0, after;
	int error = volume_allocated(volumes->tree, volume->pool->record.name, &volume->record, &allocated, why);

	if (error)
		return error;
	if (ledger_is_promised(volume->pool, &volume->record))
		before = ledger_bytes(&volume->record, may_share, allocated);
	after = ledger_bytes(record, may_share, allocated);
	*bytes_ret = after - min_u64(before, after);
	return 0;
}

static int work_property(struct change *change, struct fathom_fault *why)
{
	struct volumes *volumes = change->volumes;
	const struct volume *volume = change_find_volume(change, NULL);
	uint64_t bytes;
	int error;

	change->record.thick = change->record.allocating = change->is_thick;
	error = read_missing(volumes, volume, &change->record, &bytes, why);
	if (!error && bytes > 0)
		error = ledger_check(volumes, volume->pool, &change->record, bytes, why);
	return error ? error : volume_update(volumes->tree, change->pool, &change->record, why);
}

static void apply_property(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);

	must(volume); /* only a change can remove it */
	volume->record.thick = volume->record.allocating = change->is_thick;
	model_set_limit(volume, false);
	upkeep_note(volume);
}

static const struct change_kind property_kind = {
	.change = VOLUME_CHANGE_PROPERTY,
	.check = check_property,
	.work = work_property,
	.apply = apply_property,
};

void volumes_set_thick(struct volumes *volumes, const struct volume_key *key, bool thick, volumes_done_fn done, void *ctx)
{
	struct change *change = change_of_volume(volumes, &property_kind, key, done, ctx);

	change->is_thick = thick;
	change_submit(change);
}
