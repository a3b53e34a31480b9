/* SPDX-License-Identifier: BSD-2-Clause */
/* rename - gives a volume another name, also while hosts use it. */
#include <errno.h>
#include <string.h>
#include <uuid/uuid.h>

#include "data/store/volume/internal.h"

/* Whether an earlier call has renamed it: the volume with the UUID of the change has the new name. */
static bool is_renamed(const struct change *change)
{
	const struct pool *pool = change_find_pool(change, NULL);
	const struct volume *volume = pool ? model_find_volume(pool, change->new_name) : NULL;

	return volume && !uuid_is_null(change->record.uuid) && uuid_compare(change->record.uuid, volume->record.uuid) == 0;
}

static int check_rename(struct change *change, struct fathom_fault *why)
{
	struct volume *volume = change_find_volume(change, why);
	int error;

	if (!volume)
		return is_renamed(change) ? -EALREADY : -ENOENT;
	error = pool_name_check("volume", change->new_name, why);
	if (error)
		return error;
	if (strcmp(change->new_name, change->record.name) == 0)
		return -EALREADY;
	if (model_find_volume(volume->pool, change->new_name))
		return fault(why, -EEXIST, "pool \"%s\" has a volume \"%s\" already", change->pool, change->new_name);
	error = change_check_still(volume, why);
	return error ? error : model_reserve_name(volume, change->new_name, why);
}

static int work_rename(struct change *change, struct fathom_fault *why)
{
	return volume_rename(change->volumes->tree, change->pool, change->record.name, change->new_name, why);
}

static void apply_rename(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);

	must(volume);
	model_rename(change->volumes, volume, change->new_name);
}

static void undo_rename(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);

	must(volume);
	model_drop_name(volume);
}

static const struct change_kind rename_kind = {
	.change = VOLUME_CHANGE_RENAME,
	.check = check_rename,
	.work = work_rename,
	.apply = apply_rename,
	.undo = undo_rename,
};

void volumes_rename(struct volumes *volumes, const struct volume_key *key, const char *new_name, volumes_done_fn done,
		    void *ctx)
{
	struct change *change = change_of_volume(volumes, &rename_kind, key, done, ctx);

	change_copy_name(change->new_name, new_name);
	change_submit(change);
}
