/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Properties of a pool that its engines keep: its size, overcommit, and when its volumes are scrubbed.
 *
 *     the change is stored -> all engines get the new values -> stored as the pool's
 *                          -> an engine refuses them: the reason is stored, all engines get the former ones -> dropped
 *
 * Ranks that are down, excluded, or lack former properties are not called. The end of the change stores what they lack, and
 * storage/late.c gives it to them when they are back. A smaller size and the end of overcommit need the agreement of each
 * engine that the volumes fit: they wait for ranks that are down, and only excluded ranks are left out. A call sets only
 * the properties that change, so what else a rank lacks does not matter.
 *
 * The former size is forced: an engine takes it although the volumes may have more by now, which only prevents new ones.
 * The end of overcommit is never forced: the promises must fit. An undo calls once each engine that may have the new
 * values; one that does not confirm it gets the former values as those of a rank that was down.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

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
	request->pool_properties = storage_set_differences(record, change);
	request->size_bytes = is_undo ? record->rank_bytes : change->rank_bytes;
	request->overcommit = is_undo ? record->overcommit : change->overcommit;
	request->scrub_off = is_undo ? record->scrub_off : change->scrub_off;
	request->scrub_seconds = is_undo ? record->scrub_seconds : change->scrub_seconds;
	request->force = is_undo;
}

/* ---- ranks that are left out ---- */

struct catalog_pool_change storage_set_values(const struct catalog_pool_record *record)
{
	return (struct catalog_pool_change){ .rank_bytes = record->rank_bytes,
					     .overcommit = record->overcommit,
					     .scrub_off = record->scrub_off,
					     .scrub_seconds = record->scrub_seconds };
}

uint32_t storage_set_differences(const struct catalog_pool_record *record, const struct catalog_pool_change *change)
{
	return (record->rank_bytes != change->rank_bytes ? CATALOG_KEPT_SIZE : 0u) |
	       (record->overcommit != change->overcommit ? CATALOG_KEPT_OVERCOMMIT : 0u) |
	       (record->scrub_off != change->scrub_off ? CATALOG_KEPT_SCRUB : 0u) |
	       (record->scrub_seconds != change->scrub_seconds ? CATALOG_KEPT_SCRUB_SECONDS : 0u);
}

/* The property for which each engine must agree that its volumes fit; NULL: there is none. */
static const char *restriction(const struct catalog_pool_record *record, const struct catalog_pool_change *change)
{
	if (record->overcommit && !change->overcommit)
		return "overcommit";
	if (change->rank_bytes && (!record->rank_bytes || change->rank_bytes < record->rank_bytes))
		return "size";
	return NULL;
}

static bool is_excluded(const struct catalog_use *use, const struct member *member)
{
	return use->state == MGMT_SHARE_EXCLUDED || member->state == MEMBER_EXCLUDED ||
	       member->state == MEMBER_ADMIN_EXCLUDED;
}

/* Whether its engine cannot be called, or the pool does not count on it. */
static bool is_away(const struct catalog_use *use, const struct member *member)
{
	return member->state != MEMBER_JOINED || use->state == MGMT_SHARE_EXCLUDED;
}

/* Whether an engine may have the new values, at an undo. After a restart of the service all may. */
static bool may_have_new(const struct mgmt_task *task, const struct storage_part *part)
{
	return (part->was_called && !part->has_refused) || !task->refusal.error;
}

bool storage_set_skips(const struct mgmt_task *task, const struct storage_part *part)
{
	const struct catalog_pool_record *record = &task->pool->record;
	const struct member *member = storage_member(task->mgmt, &part->place);
	int index = catalog_share_index(task->pool, part->place.rank);
	struct catalog_use use;

	must(index >= 0);
	use = catalog_use(record, (uint32_t)index);
	if (!member) /* its data are lost */
		return false;
	if (record->change.undo[0])
		return is_away(&use, member) || !may_have_new(task, part);
	if (!is_away(&use, member) && !use.late)
		return false;
	return is_excluded(&use, member) || !restriction(record, &record->change);
}

bool storage_set_waits(const struct mgmt_task *task, const struct storage_part *part, struct fathom_fault *why)
{
	int index = catalog_share_index(task->pool, part->place.rank);

	must(index >= 0);
	if (!storage_late_is_calling(task->pool, (uint32_t)index))
		return false;
	fill_fault(why, -EAGAIN, "its engine has not answered a former call about properties");
	return true;
}

/* What the rank of the part lacks after the change, of which `set` are the properties. */
static uint32_t late_after(const struct mgmt_task *task, const struct storage_part *part, uint32_t late, uint32_t set)
{
	bool is_undo = task->pool->record.change.undo[0];

	if (part->is_late)
		return !is_undo || may_have_new(task, part) ? late | set : late;
	return !is_undo && part->was_called ? late & ~set : late;
}

/*
 * Note in `next` what the parts lack: those that were left out the properties of the change, others what they lacked
 * before. If something is noted, `next->uses` is another array. Errors: -ENOMEM.
 */
static int note_late(const struct mgmt_task *task, struct catalog_pool_record *next)
{
	uint32_t set = storage_set_differences(&task->pool->record, &task->pool->record.change);
	struct catalog_use *uses = NULL;

	for (uint32_t i = 0; i < task->part_count; i++) {
		const struct storage_part *part = &task->parts[i];
		int index = catalog_share_index(task->pool, part->place.rank);
		uint32_t before, late;

		must(index >= 0);
		before = catalog_use(&task->pool->record, (uint32_t)index).late;
		late = late_after(task, part, before, set);
		if (late == before)
			continue;
		if (!uses && !(uses = catalog_copy_uses(&task->pool->record)))
			return -ENOMEM;
		uses[index].late = late;
		if (!late)
			uses[index].late_ns = 0;
		else if (!uses[index].late_ns)
			uses[index].late_ns = next->change.since_ns;
	}
	if (uses)
		next->uses = uses;
	return 0;
}

/* ---- the end ---- */

void storage_set_done(struct mgmt_task *task)
{
	struct catalog_pool_record next = task->pool->record;
	struct fathom_fault why = { 0 }, refusal = task->refusal;
	char undo[CATALOG_TEXT_BYTES], late[MGMT_RANKS_BYTES];
	uint32_t first;
	int error = note_late(task, &next);

	memcpy(undo, next.change.undo, sizeof(undo));
	if (!undo[0]) {
		next.rank_bytes = next.change.rank_bytes;
		next.overcommit = next.change.overcommit;
		next.scrub_off = next.change.scrub_off;
		next.scrub_seconds = next.change.scrub_seconds;
	}
	next.change = (struct catalog_pool_change){ 0 };
	if (!error)
		error = catalog_store_pool(task->mgmt->catalog, task->pool, &next, &why);
	if (error) {
		if (next.uses != task->pool->record.uses)
			free(next.uses);
		storage_store_later(task, error, &why);
		return;
	}
	storage_late_ranks(&next, UINT32_MAX, late, &first);
	if (!undo[0])
		mgmt_raise_operation(task->mgmt, RAS_POOL_CHANGED, "pool set-prop", storage_who(task),
				     "properties of pool \"%s\" were set on its ranks%s%s", next.name,
				     late[0] ? ", not yet on " : "", late);
	else if (!refusal.error) /* the service was restarted meanwhile */
		fill_fault(&refusal, -EIO, "%s", undo);
	storage_late_retry(task->mgmt);
	storage_end(task, undo[0] ? &refusal : NULL);
}

/*
 * The engines were called for an undo. One that does not know the request has not done it, and neither has one that has
 * refused the new values, so there is nothing to undo. All others without a confirmation get the former values later.
 */
static void end_undo(struct mgmt_task *task)
{
	for (uint32_t i = 0; i < task->part_count; i++) {
		struct storage_part *part = &task->parts[i];
		bool has_former = part->is_done || (part->is_refused && (part->has_refused || part->error == -EOPNOTSUPP ||
									 part->error == -ENOENT));

		part->is_late |= !has_former;
		part->is_done = true;
		part->is_refused = false;
	}
	storage_set_done(task);
}

bool storage_set_leave(struct mgmt_task *task)
{
	if (!storage_sets(task) || !task->pool->record.change.undo[0])
		return false;
	end_undo(task);
	return true;
}

void storage_set_refused(struct mgmt_task *task, const struct storage_part *part)
{
	struct catalog_pool_record next = task->pool->record;
	struct fathom_fault why = { 0 }, copy = part->why;
	int error;

	if (storage_set_leave(task))
		return;
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

static bool is_same(const struct catalog_pool_record *record, const struct catalog_pool_change *change)
{
	return record->change.is_set && !record->change.undo[0] && record->change.rank_bytes == change->rank_bytes &&
	       record->change.overcommit == change->overcommit && record->change.scrub_off == change->scrub_off &&
	       record->change.scrub_seconds == change->scrub_seconds;
}

static int refuse_down(const struct catalog_pool *pool, const char *property, const struct member *member,
		       struct fathom_fault *why)
{
	return fault_pool_rank_down(why, pool->record.name, property, member->rank, member_state_wire(member->state));
}

/* Whether all ranks that must agree can be called, and those that are called have room for one more change. */
static int check_ranks(struct mgmt *mgmt, const struct catalog_pool *pool, const struct catalog_pool_change *change,
		       struct fathom_fault *why)
{
	const struct catalog_pool_record *record = &pool->record;
	const char *property = restriction(record, change);
	int error = 0;

	for (uint32_t i = 0; !error && i < record->place_count; i++) {
		const struct member *member = storage_member(mgmt, &record->places[i]);
		struct catalog_use use = catalog_use(record, i);

		if (!member)
			continue;
		if (!is_away(&use, member))
			error = storage_check_room(mgmt, &record->places[i], 1, why); /* also if it is left out */
		else if (property && !is_excluded(&use, member))
			error = refuse_down(pool, property, member, why);
	}
	return error;
}

void storage_set_begin(struct mgmt *mgmt, struct grpc_call *call, struct catalog_pool *pool,
		       const struct catalog_pool_change *change)
{
	struct catalog_pool_record next = pool->record;
	struct fathom_fault why = { 0 };
	int error = 0;

	must(pool->state == MGMT_POOL_READY);
	if (is_same(&next, change) && pool->task) {
		storage_wait(pool->task, call);
		return;
	}
	if (next.change.is_set || catalog_changing_shares(pool) > 0)
		error = storage_refuse_changing(pool, NULL, &why);
	if (!error)
		error = check_ranks(mgmt, pool, change, &why);
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
