/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Properties of a pool that its engines keep: its size, overcommit, and when its volumes are scrubbed.
 *
 *     the change is stored -> all engines get the new values -> stored as the pool's
 *                          -> an engine refuses them: the reason is stored, all engines get the former ones -> dropped
 *
 * The former size is forced: an engine takes it although the volumes may have more by now, which only prevents new ones.
 * The end of overcommit is never forced: the promises must fit. So an undo may wait; `fathom pool query` has the reason.
 * While it waits, the pool can get no other values and no ranks. So a change begins only if all ranks can be called.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage.h"

bool storage_sets(const struct mgmt_task *task)
{
	return !task->volume && task->pool->state == MGMT_POOL_READY && task->pool->record.change.is_set;
}

void storage_set_fill(const struct mgmt_task *task, Store__StorageReq *request)
{
	const struct catalog_pool_record *record = &task->pool->record;
	const struct catalog_pool_change *change = &record->change;
	bool is_undo = change->undo[0];

	request->action = STORE__ACTION__POOL_SET;
	request->size_bytes = is_undo ? record->rank_bytes : change->rank_bytes;
	request->overcommit = is_undo ? record->overcommit : change->overcommit;
	request->scrub_off = is_undo ? record->scrub_off : change->scrub_off;
	request->scrub_seconds = is_undo ? record->scrub_seconds : change->scrub_seconds;
	request->force = is_undo;
}

void storage_set_done(struct mgmt_task *task)
{
	struct catalog_pool_record next = task->pool->record;
	struct fathom_fault why = { 0 }, refusal = task->refusal;
	char undo[CATALOG_TEXT_BYTES];
	int error;

	memcpy(undo, next.change.undo, sizeof(undo));
	if (!undo[0]) {
		next.rank_bytes = next.change.rank_bytes;
		next.overcommit = next.change.overcommit;
		next.scrub_off = next.change.scrub_off;
		next.scrub_seconds = next.change.scrub_seconds;
	}
	next.change = (struct catalog_pool_change){ 0 };
	error = catalog_store_pool(task->mgmt->catalog, task->pool, &next, &why);
	if (error) {
		storage_store_later(task, error, &why);
		return;
	}
	if (!undo[0])
		mgmt_raise_operation(task->mgmt, RAS_POOL_CHANGED, "pool set-prop", storage_who(task),
				     "properties of pool \"%s\" were set on its ranks", next.name);
	else if (!refusal.error) /* the service was restarted meanwhile */
		fill_fault(&refusal, -EIO, "%s", undo);
	storage_end(task, undo[0] ? &refusal : NULL);
}

/*
 * An engine that does not know the request has not done it, and neither has one that has refused the new values, so there
 * is nothing to undo. Others are called again.
 */
static void go_on_undoing(struct mgmt_task *task)
{
	const struct storage_part *silent = NULL;

	for (uint32_t i = 0; i < task->part_count; i++) {
		struct storage_part *part = &task->parts[i];

		part->is_done |= part->is_refused &&
				 (part->has_refused || part->error == -EOPNOTSUPP || part->error == -ENOENT);
		part->is_refused = false;
		if (!part->is_done && !silent)
			silent = part;
	}
	if (!silent) {
		storage_set_done(task);
		return;
	}
	task->why = silent->why;
	if (task->why.error == 0)
		fill_fault(&task->why, -EAGAIN, "it was not called");
	task->waits_for = silent->place.rank;
	storage_pause(task);
}

void storage_set_refused(struct mgmt_task *task, const struct storage_part *part)
{
	struct catalog_pool_record next = task->pool->record;
	struct fathom_fault why = { 0 }, copy = part->why;
	int error;

	if (next.change.undo[0]) {
		go_on_undoing(task);
		return;
	}
	storage_raise_failure(task, &copy);
	text_copy_words(next.change.undo, sizeof(next.change.undo), copy.text);
	error = catalog_store_pool(task->mgmt->catalog, task->pool, &next, &why);
	if (error) {
		storage_store_later(task, error, &why);
		return;
	}
	task->refusal = copy;
	for (uint32_t i = 0; i < task->part_count; i++)
		task->parts[i].has_refused = task->parts[i].is_refused;
	storage_restart(task);
}

/* ---- begin ---- */

static bool is_same(const struct catalog_pool_change *one, const struct catalog_pool_change *other)
{
	return !one->undo[0] && one->rank_bytes == other->rank_bytes && one->overcommit == other->overcommit &&
	       one->scrub_off == other->scrub_off && one->scrub_seconds == other->scrub_seconds;
}

/* A rank that is gone for good has lost its share, and is left out. */
static int check_ranks(struct mgmt *mgmt, const struct catalog_pool_record *record, struct fathom_fault *why)
{
	for (uint32_t i = 0; i < record->place_count; i++) {
		const struct member *member = storage_member(mgmt, &record->places[i]);

		if (member && member->state != MEMBER_JOINED)
			return fault_rank_not_joined(why, member->rank, member_state_wire(member->state));
	}
	return 0;
}

void storage_set_begin(struct mgmt *mgmt, struct grpc_call *call, struct catalog_pool *pool,
		       const struct catalog_pool_change *change)
{
	struct catalog_pool_record next = pool->record;
	struct fathom_fault why = { 0 };
	int error = 0;

	must(pool->state == MGMT_POOL_READY);
	if (next.change.is_set && is_same(&next.change, change) && pool->task) {
		storage_wait(pool->task, call);
		return;
	}
	if (next.change.is_set || catalog_changing_shares(pool) > 0)
		error = storage_refuse_changing(pool, NULL, &why);
	if (!error)
		error = check_ranks(mgmt, &next, &why);
	if (!error)
		error = storage_check_room(mgmt, next.places, next.place_count, &why);
	next.change = *change;
	next.change.is_set = true;
	next.change.since_ns = clock_realtime_ns();
	if (!error)
		error = catalog_store_pool(mgmt->catalog, pool, &next, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		storage_start(mgmt, pool, NULL, call);
}
