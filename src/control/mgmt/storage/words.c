/* SPDX-License-Identifier: BSD-2-Clause */
/* What a task is about, in words for people: faults, events, and `pending` of pools and volumes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

const char *storage_what(const struct catalog_pool *pool, const struct catalog_volume *volume, char *what)
{
	if (volume)
		snprintf(what, STORAGE_WHAT_BYTES, "volume \"%s/%s\"", pool->record.name, volume->record.name);
	else
		snprintf(what, STORAGE_WHAT_BYTES, "pool \"%s\"", pool->record.name);
	return what;
}

static void write_change(const struct catalog_change *change, char *text)
{
	switch (change->kind) {
	case CATALOG_NO_CHANGE:
		text[0] = '\0';
		break;
	case CATALOG_RESIZE:
		snprintf(text, STORAGE_CHANGE_BYTES, "resize to %" PRIu64 " bytes", change->size_bytes);
		break;
	case CATALOG_RENAME:
		snprintf(text, STORAGE_CHANGE_BYTES, "rename to %s", change->text);
		break;
	case CATALOG_PUBLISH:
		snprintf(text, STORAGE_CHANGE_BYTES, "publish to %s", change->text);
		break;
	case CATALOG_UNPUBLISH:
		snprintf(text, STORAGE_CHANGE_BYTES, "unpublish from %s", change->text[0] ? change->text : "all hosts");
		break;
	case CATALOG_SET_PROP:
		snprintf(text, STORAGE_CHANGE_BYTES, "set %s", change->text);
		break;
	case CATALOG_MOVE:
		snprintf(text, STORAGE_CHANGE_BYTES,
			 change->phase == MGMT_MOVE_SETTLING  ? "move from rank %u"
			 : change->phase == MGMT_MOVE_UNDOING ? "undo of a move to rank %u"
							      : "move to rank %u",
			 change->place.rank);
		break;
	}
}

const char *storage_pending(const struct catalog_pool *pool, const struct catalog_volume *volume, char *text)
{
	bool is_creating = volume ? volume->state == MGMT_VOLUME_CREATING : pool->state == MGMT_POOL_CREATING;
	bool is_destroying = volume ? volume->state == MGMT_VOLUME_DESTROYING : pool->state == MGMT_POOL_DESTROYING;
	bool is_undo = volume ? volume->record.undo[0] : pool->record.undo[0];
	char ranks[MGMT_RANKS_BYTES];

	text[0] = '\0';
	if (!volume && pool->state == MGMT_POOL_READY && catalog_changing_shares(pool) > 0)
		snprintf(text, STORAGE_CHANGE_BYTES,
			 catalog_changing_state(pool) == MGMT_SHARE_REMOVING ? "undo of extend by %s" : "extend by %s",
			 storage_changing_ranks(pool, ranks));
	else if (is_creating)
		snprintf(text, STORAGE_CHANGE_BYTES, "create");
	else if (is_destroying)
		snprintf(text, STORAGE_CHANGE_BYTES, is_undo ? "undo of create" : "destroy");
	else if (volume)
		write_change(&volume->record.change, text);
	else if (pool->record.change.is_set)
		snprintf(text, STORAGE_CHANGE_BYTES,
			 pool->record.change.undo[0] ? "undo of set properties" : "set properties");
	return text;
}

/* Its engines are called for a limit. They name that of each rank, and the request that of the pool. */
static bool sets_size(const struct catalog_pool_record *record)
{
	const struct catalog_pool_change *change = &record->change;

	return record->state == MGMT_POOL_READY && change->is_set && !change->undo[0] && change->rank_bytes > 0 &&
	       change->rank_bytes != record->rank_bytes;
}

const char *storage_sentence(const struct catalog_pool *pool, const struct catalog_volume *volume, char *sentence)
{
	char what[STORAGE_WHAT_BYTES], pending[STORAGE_CHANGE_BYTES], *rest;
	bool is_undo = volume ? volume->record.undo[0]
			      : pool->record.undo[0] || catalog_changing_state(pool) == MGMT_SHARE_REMOVING;

	storage_what(pool, volume, what);
	storage_pending(pool, volume, pending);
	rest = pending + strcspn(pending, " ");
	if (!volume && sets_size(&pool->record))
		snprintf(sentence, STORAGE_SENTENCE_BYTES,
			 "set the size of %s to %" PRIu64 " bytes, %" PRIu64 " on each rank", what,
			 pool->record.change.rank_bytes * pool->record.place_count, pool->record.change.rank_bytes);
	else if (is_undo)
		snprintf(sentence, STORAGE_SENTENCE_BYTES, "destroy %s", what);
	else
		snprintf(sentence, STORAGE_SENTENCE_BYTES, "%.*s %s%s", (int)(rest - pending), pending, what, rest);
	return sentence;
}

const char *storage_or_none(const char *text)
{
	return text[0] ? text : "none";
}

int storage_refuse_changing(const struct catalog_pool *pool, const struct catalog_volume *volume, struct fathom_fault *why)
{
	char what[STORAGE_WHAT_BYTES], pending[STORAGE_CHANGE_BYTES];

	return fault_storage_changing(why, storage_what(pool, volume, what), storage_pending(pool, volume, pending));
}

const char *storage_move_progress(const struct mgmt_task *task, char *text)
{
	const struct task_move *move = &task->move;
	const struct move_snapshot *snapshot = storage_move_snapshot(move);

	text[0] = '\0';
	if (!storage_moves(task) || move->total_bytes == 0 ||
	    (move->state != MGMT_MOVE_COPYING && move->state != MGMT_MOVE_SWITCHING))
		return text;
	if (snapshot)
		snprintf(text, STORAGE_CHANGE_BYTES,
			 "hosts use it: %" PRIu64 " of %" PRIu64 " bytes of snapshot \"%s\" (%u of %u) are copied",
			 move->copied_bytes, move->total_bytes, snapshot->name, move->snapshots_done + 1,
			 move->snapshot_count);
	else
		snprintf(text, STORAGE_CHANGE_BYTES, "%s: %" PRIu64 " of %" PRIu64 " bytes of round %u are copied",
			 move->state == MGMT_MOVE_COPYING ? "hosts use it" : "hosts are disconnected", move->copied_bytes,
			 move->total_bytes, storage_move_round(move));
	return text;
}
