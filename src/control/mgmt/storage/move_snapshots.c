/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The snapshots of a volume that moves: storage/move.c. The source lists them when it is offered, and refuses to change
 * them from then on. Each has one round, the oldest first; then the target has it. The rounds of the volume follow.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/mgmt/storage/storage.h"

const struct move_snapshot *storage_move_snapshot(const struct task_move *move)
{
	return move->snapshots_done < move->snapshot_count ? &move->snapshots[move->snapshots_done] : NULL;
}

/* The one that the target has when the round begins; NULL: none. */
static const struct move_snapshot *former_snapshot(const struct task_move *move)
{
	return move->snapshots_done > 0 ? &move->snapshots[move->snapshots_done - 1] : NULL;
}

uint32_t storage_move_round(const struct task_move *move)
{
	must(move->round >= move->snapshots_done);
	return move->round - move->snapshots_done;
}

bool storage_move_must_copy(const struct task_move *move)
{
	return move->region_count > 0 || storage_move_snapshot(move) ||
	       (move->snapshot_count > 0 && storage_move_round(move) == 1);
}

/* Two of an instant that is the same by the clock are in the order of their names: any order is right. */
static int compare_snapshots(const void *a, const void *b)
{
	const struct move_snapshot *one = a, *other = b;

	if (one->created_ns != other->created_ns)
		return one->created_ns < other->created_ns ? -1 : 1;
	return strcmp(one->name, other->name);
}

int storage_move_keep_snapshots(struct mgmt_task *task)
{
	const Store__Volume *volume = task->answer;
	struct task_move *move = &task->move;
	struct move_snapshot *snapshots = volume ? calloc(volume->n_snapshots + 1, sizeof(*snapshots)) : NULL;

	if (!snapshots)
		return -ENOMEM;
	for (size_t i = 0; i < volume->n_snapshots; i++) {
		const Store__Snapshot *from = volume->snapshots[i];

		/* they fit: names and UUIDs of an engine */
		(void)text_copy(snapshots[i].name, sizeof(snapshots[i].name), from->name);
		(void)text_copy(snapshots[i].uuid, sizeof(snapshots[i].uuid), from->uuid);
		(void)text_copy(snapshots[i].group, sizeof(snapshots[i].group), from->group_uuid);
		snapshots[i].size_bytes = from->size_bytes;
		snapshots[i].created_ns = from->created_ns;
	}
	qsort(snapshots, volume->n_snapshots, sizeof(*snapshots), compare_snapshots);
	free(move->snapshots);
	move->snapshots = snapshots;
	move->snapshot_count = (uint32_t)volume->n_snapshots;
	move->snapshots_done = 0;
	return 0;
}

void storage_move_fill_snapshot(const struct task_move *move, Store__StorageReq *request)
{
	const struct move_snapshot *snapshot = storage_move_snapshot(move), *former = former_snapshot(move);

	if (move->action == STORE__ACTION__MOVE_CHANGES && former && (snapshot || storage_move_round(move) == 1))
		request->from_snapshot = (char *)former->name;
	if (!snapshot)
		return;
	if (move->action == STORE__ACTION__MOVE_COPY || move->action == STORE__ACTION__MOVE_SNAPSHOT) {
		request->new_uuid = (char *)snapshot->uuid;
		request->size_bytes = snapshot->size_bytes;
	}
	request->snapshot = (char *)snapshot->name;
	if (move->action == STORE__ACTION__MOVE_SNAPSHOT) {
		request->snapshot_created_ns = snapshot->created_ns;
		request->snapshot_group_uuid = (char *)snapshot->group;
	}
}
