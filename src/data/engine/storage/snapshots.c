/* SPDX-License-Identifier: BSD-2-Clause */
/* The actions of storage/calls.c that are about snapshots. */
#include <errno.h>
#include <uuid/uuid.h>

#include "base/text.h"
#include "data/engine/storage/calls.h"
#include "data/store/pool/tree.h"
#include "data/store/volume/snapshots.h"

static void end_call(void *ctx, const struct fathom_fault *why)
{
	storage_call_end(ctx, why);
}

/* -ENOENT: the snapshot or its volume does not exist: it was destroyed before. But it exists if its volume was renamed. */
static void end_destroy(void *ctx, const struct fathom_fault *why)
{
	struct storage_call *call = ctx;
	const struct volume *volume = why && why->error == -ENOENT ? storage_call_volume(call) : NULL;
	struct fathom_fault named;

	if (volume && volumes_find_snapshot(volume, call->request->snapshot)) {
		fill_fault(&named, -ENOENT, "%s; the volume is %s", why->text, volume->device);
		storage_call_end(call, &named);
	} else {
		storage_call_end(call, why && why->error == -ENOENT ? NULL : why);
	}
}

void storage_snapshot_create(struct storage_call *call)
{
	const Store__StorageReq *request = call->request;
	struct snapshot_request members[SNAPSHOT_GROUP_MAX] = { 0 };
	struct fathom_fault why = { 0 };

	if (request->n_members < 1 || request->n_members > SNAPSHOT_GROUP_MAX)
		fill_fault(&why, -EINVAL, "a group has 1 to %d snapshots, not %zu", SNAPSHOT_GROUP_MAX, request->n_members);
	for (size_t i = 0; !why.error && i < request->n_members; i++) {
		const Store__SnapshotMember *member = request->members[i];

		members[i].key = (struct volume_key){ .pool = member->pool, .volume = member->volume };
		members[i].name = member->snapshot;
		if (member->uuid[0] && uuid_parse(member->uuid, members[i].uuid) != 0)
			fill_fault(&why, -EINVAL, "the snapshot's uuid \"%.64s\" is not a UUID", member->uuid);
		if (member->volume_uuid[0] && uuid_parse(member->volume_uuid, members[i].key.uuid) != 0)
			fill_fault(&why, -EINVAL, "the volume's uuid \"%.64s\" is not a UUID", member->volume_uuid);
	}
	if (why.error) {
		storage_call_end(call, &why);
		return;
	}
	call->key = members[0].key; /* of the answer */
	volumes_snapshot(call->volumes, members, (uint32_t)request->n_members, end_call, call);
}

void storage_snapshot_destroy(struct storage_call *call)
{
	volumes_destroy_snapshot(call->volumes, &call->key, call->request->snapshot, end_destroy, call);
}

void storage_snapshot_restore(struct storage_call *call)
{
	volumes_restore(call->volumes, &call->key, call->request->snapshot, call->request->force, end_call, call);
}

/* The answer shows the new volume. */
static void end_clone(void *ctx, const struct fathom_fault *why)
{
	struct storage_call *call = ctx;

	call->key.volume = call->request->new_name;
	storage_call_end(call, why);
}

void storage_snapshot_clone(struct storage_call *call)
{
	struct volume_record clone = { .thick = call->request->thick, .read_only = call->request->read_only };
	struct fathom_fault why;

	if (text_copy(clone.name, sizeof(clone.name), call->request->new_name) != 0) {
		fill_fault(&why, -EINVAL, "the name \"%.64s ...\" is longer than %d characters", call->request->new_name,
			   POOL_NAME_BYTES_MAX - 1);
		storage_call_end(call, &why);
		return;
	}
	uuid_copy(clone.uuid, call->new_uuid);
	volumes_clone(call->volumes, &call->key, call->request->snapshot, &clone, end_clone, call);
}

void storage_snapshot_changes(struct storage_call *call)
{
	const Store__StorageReq *request = call->request;
	struct volume_changed *changed = volume_changed_create(request->ranges_max);

	changed->snapshot = request->snapshot;
	changed->from = request->from_snapshot;
	changed->offset = request->offset;
	call->changed = changed;
	volumes_read_changed(call->volumes, &call->key, changed, end_call, call);
}
