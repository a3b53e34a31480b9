/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the answers of engines mean for a task.
 *
 *     all done      the next record is stored: ready, changed, or removed
 *     refused       a creation is undone: the object becomes DESTROYING. Another change is dropped.
 *     no answer     the task pauses, and calls the ranks that gave no answer again
 *
 * If a result cannot be stored, the task pauses too. It has nothing to call then, and stores again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

/* ---- kinds of tasks ---- */

/* The task adds ranks to a pool, or undoes that. */
static bool extends(const struct mgmt_task *task)
{
	return !task->volume && task->pool->state == MGMT_POOL_READY && !storage_sets(task);
}

static bool is_destroying(const struct mgmt_task *task)
{
	if (extends(task))
		return catalog_changing_state(task->pool) == MGMT_SHARE_REMOVING;
	return task->volume ? task->volume->state == MGMT_VOLUME_DESTROYING : task->pool->state == MGMT_POOL_DESTROYING;
}

static bool is_creating(const struct mgmt_task *task)
{
	if (extends(task))
		return catalog_changing_state(task->pool) == MGMT_SHARE_EXTENDING;
	return task->volume ? task->volume->state == MGMT_VOLUME_CREATING : task->pool->state == MGMT_POOL_CREATING;
}

/* ---- requests ---- */

/* The host that an unpublish is about now: of all hosts the first one. */
static const char *unpublished_host(const struct catalog_volume_record *record)
{
	must(record->change.kind == CATALOG_UNPUBLISH);
	if (record->change.text[0] || record->host_count == 0)
		return record->change.text;
	return record->hosts[0].nqn;
}

static void fill_change_request(const struct catalog_volume_record *record, Store__StorageReq *request)
{
	const struct catalog_change *change = &record->change;

	request->force = change->is_forced;
	switch (change->kind) {
	case CATALOG_RESIZE:
		request->action = STORE__ACTION__VOLUME_RESIZE;
		request->size_bytes = change->size_bytes;
		break;
	case CATALOG_RENAME:
		request->action = STORE__ACTION__VOLUME_RENAME;
		request->new_name = (char *)change->text;
		break;
	case CATALOG_PUBLISH:
		request->action = STORE__ACTION__VOLUME_PUBLISH;
		request->host_nqn = (char *)change->text;
		break;
	case CATALOG_UNPUBLISH:
		request->action = STORE__ACTION__VOLUME_UNPUBLISH;
		request->host_nqn = (char *)unpublished_host(record);
		break;
	case CATALOG_SET_PROP:
		request->action = STORE__ACTION__VOLUME_SET_THICK;
		request->thick = storage_change_is_thick(change);
		break;
	case CATALOG_MOVE: /* storage_move_fill() */
	case CATALOG_NO_CHANGE:
		must(!"a task has an intent");
	}
}

/* The volume that a clone is made of, by its name; the request has the clone's name and UUID as the new ones. */
static void fill_clone_request(const struct catalog_volume_record *record, Store__StorageReq *request)
{
	static char origin[CATALOG_FULL_BYTES]; /* borrowed until the request is packed */
	char *at;

	(void)text_copy(origin, sizeof(origin), record->origin);
	at = strchr(origin, '@');
	must(at);
	*at = '\0';
	request->action = STORE__ACTION__SNAPSHOT_CLONE;
	request->volume = origin;
	request->volume_uuid = (char *)"";
	request->snapshot = at + 1;
	request->new_name = (char *)record->name;
	request->new_uuid = (char *)record->uuid;
	request->read_only = record->read_only;
}

static void fill_volume_request(const struct mgmt_task *task, Store__StorageReq *request)
{
	const struct catalog_volume_record *record = &task->volume->record;

	request->volume = (char *)record->name;
	request->volume_uuid = (char *)record->uuid;
	switch (record->state) {
	case MGMT_VOLUME_CREATING:
		request->action = STORE__ACTION__VOLUME_CREATE;
		request->size_bytes = record->size_bytes;
		request->block_bytes = record->block_bytes;
		request->thick = record->thick;
		request->checksums = record->checksums;
		if (record->origin[0])
			fill_clone_request(record, request);
		break;
	case MGMT_VOLUME_READY:
		if (storage_moves(task))
			storage_move_fill(task, request);
		else
			fill_change_request(record, request);
		break;
	case MGMT_VOLUME_DESTROYING:
		request->action = STORE__ACTION__VOLUME_DESTROY;
		/* the other one of a move is no volume that hosts use, whatever its record says */
		request->force = record->is_forced || (record->change.kind == CATALOG_MOVE && task->is_other_done);
		if (record->change.kind == CATALOG_RENAME && !task->is_other_done)
			request->volume = (char *)record->change.text;
		break;
	}
}

void storage_fill_request(const struct mgmt_task *task, Store__StorageReq *request)
{
	const struct catalog_pool_record *pool = &task->pool->record;

	request->pool = (char *)pool->key;
	request->pool_uuid = (char *)pool->uuid;
	if (task->volume || storage_sets(task)) {
		if (task->volume)
			fill_volume_request(task, request);
		else
			storage_set_fill(task, request);
		return;
	}
	request->scrub_off = pool->scrub_off;
	request->scrub_seconds = pool->scrub_seconds;
	request->size_bytes = pool->rank_bytes;
	request->overcommit = pool->overcommit;
	request->force = pool->is_forced || extends(task);
	request->action = is_creating(task) ? STORE__ACTION__POOL_CREATE : STORE__ACTION__POOL_DESTROY;
}

void storage_settle_lost(struct mgmt_task *task, struct storage_part *part)
{
	char what[STORAGE_WHAT_BYTES];

	must(!part->is_calling);
	if (is_destroying(task) || storage_sets(task)) {
		part->is_done = true;
		return;
	}
	part->is_refused = true;
	part->error = fault_rank_data_lost(&part->why, storage_what(task->pool, task->volume, what), part->place.rank);
}

/* ---- success ---- */

void storage_store_later(struct mgmt_task *task, int error, const struct fathom_fault *why)
{
	must(error < 0);
	task->why = *why;
	if (why->error == 0)
		fill_fault(&task->why, error, "%s", strerror(-error));
	task->waits_for = task->parts[0].place.rank;
	storage_pause(task);
}

const char *storage_who(const struct mgmt_task *task)
{
	return task->who[0] ? task->who : NULL;
}

static void remove_object(struct mgmt_task *task)
{
	struct fathom_fault why = { 0 }, undone = task->refusal;
	struct mgmt *mgmt = task->mgmt;
	bool is_volume = task->volume;
	char what[STORAGE_WHAT_BYTES];
	int error;

	storage_what(task->pool, task->volume, what);
	if (is_volume) {
		task->volume->task = NULL;
		error = catalog_remove_volume(mgmt->catalog, task->volume, &why);
		if (error)
			task->volume->task = task;
		else
			task->volume = NULL;
	} else {
		task->pool->task = NULL;
		error = catalog_remove_pool(mgmt->catalog, task->pool, &why);
		if (error)
			task->pool->task = task;
	}
	if (error) {
		storage_store_later(task, error, &why);
		return;
	}
	task->pool = NULL;
	if (!undone.error)
		mgmt_raise_operation(mgmt, is_volume ? RAS_VOLUME_DESTROYED : RAS_POOL_DESTROYED,
				     is_volume ? "volume destroy" : "pool destroy", storage_who(task), "%s was destroyed",
				     what);
	storage_end(task, &undone);
}

/* The hosts of `record` without `gone`, or with that of `added`. NULL: out of memory. */
static struct catalog_host *change_hosts(const struct catalog_volume_record *record, const char *gone,
					 const struct catalog_change *added, uint32_t *count_ret)
{
	struct catalog_host *hosts = calloc(record->host_count + 1, sizeof(*hosts)), *found = NULL;
	uint32_t count = 0;

	if (!hosts)
		return NULL;
	for (uint32_t i = 0; i < record->host_count; i++) {
		if (gone && strcmp(record->hosts[i].nqn, gone) == 0)
			continue;
		hosts[count] = record->hosts[i];
		if (added && strcmp(hosts[count].nqn, added->text) == 0)
			found = &hosts[count];
		count++;
	}
	if (added && !found) {
		found = &hosts[count++];
		(void)text_copy(found->nqn, sizeof(found->nqn), added->text);
	}
	/* an administrator who publishes it again does not take it from the agent */
	if (added && added->machine[0])
		(void)text_copy(found->machine, sizeof(found->machine), added->machine);
	*count_ret = count;
	return hosts;
}

/* Apply the change of `next` to it. `is_last_ret`: nothing of the change is left. Errors: -ENOMEM. */
static int apply_change(const struct mgmt_task *task, struct catalog_volume_record *next, bool *is_last_ret)
{
	const struct catalog_change *change = &task->volume->record.change;
	const char *gone = change->kind == CATALOG_UNPUBLISH ? unpublished_host(&task->volume->record) : NULL;

	*is_last_ret = true;
	switch (change->kind) {
	case CATALOG_RESIZE:
		next->size_bytes = task->answer ? min_u64(task->answer->size_bytes, CATALOG_BYTES_MAX) : change->size_bytes;
		break;
	case CATALOG_RENAME:
		memcpy(next->former, next->name, sizeof(next->former));
		must(text_copy(next->name, sizeof(next->name), change->text) == 0);
		break;
	case CATALOG_PUBLISH:
	case CATALOG_UNPUBLISH:
		next->hosts = change_hosts(next, gone, gone ? NULL : change, &next->host_count);
		if (!next->hosts)
			return -ENOMEM;
		*is_last_ret = !gone || change->text[0] || next->host_count == 0;
		break;
	case CATALOG_SET_PROP:
		next->thick = storage_change_is_thick(change);
		break;
	case CATALOG_MOVE: /* storage_move_done() */
	case CATALOG_NO_CHANGE:
		must(!"a task has an intent");
	}
	if (*is_last_ret)
		next->change = (struct catalog_change){ 0 };
	return 0;
}

static void raise_change(const struct mgmt_task *task, const struct catalog_change *change)
{
	char what[STORAGE_WHAT_BYTES];

	storage_what(task->pool, task->volume, what);
	if (change->kind == CATALOG_PUBLISH)
		mgmt_raise_operation(task->mgmt, RAS_VOLUME_PUBLISHED, "volume publish", storage_who(task),
				     "%s was published to %s", what, change->text);
	else if (change->kind == CATALOG_UNPUBLISH)
		mgmt_raise_operation(task->mgmt, RAS_VOLUME_UNPUBLISHED, "volume unpublish", storage_who(task),
				     "%s was unpublished from %s", what, change->text[0] ? change->text : "all hosts");
	else if (change->kind == CATALOG_RENAME)
		mgmt_raise_operation(task->mgmt, RAS_VOLUME_CHANGED, "volume rename", storage_who(task),
				     "%s was renamed from %s", what, task->volume->record.former);
	else if (change->kind == CATALOG_SET_PROP)
		mgmt_raise_operation(task->mgmt, RAS_VOLUME_CHANGED, "volume set-prop", storage_who(task), "%s has now %s",
				     what, change->text);
	else
		mgmt_raise_operation(task->mgmt, RAS_VOLUME_CHANGED, "volume resize", storage_who(task),
				     "%s has now %" PRIu64 " bytes", what, task->volume->record.size_bytes);
}

static void finish_change(struct mgmt_task *task)
{
	struct catalog_volume_record next = task->volume->record;
	const struct catalog_change change = next.change;
	struct fathom_fault why = { 0 };
	bool is_last = true;
	int error = apply_change(task, &next, &is_last);

	if (!error)
		error = catalog_store_volume(task->mgmt->catalog, task->volume, &next, &why);
	if (error) {
		if (next.hosts != task->volume->record.hosts)
			free(next.hosts);
		storage_store_later(task, error, &why);
		return;
	}
	if (!is_last) {
		storage_restart(task);
		return;
	}
	raise_change(task, &change);
	storage_end(task, NULL);
}

static void finish_created_volume(struct mgmt_task *task)
{
	struct catalog_volume_record next = task->volume->record;
	struct fathom_fault why = { 0 };
	char what[STORAGE_WHAT_BYTES];
	int error;

	next.state = MGMT_VOLUME_READY;
	if (task->answer && next.origin[0]) {
		next.size_bytes = min_u64(task->answer->size_bytes, CATALOG_BYTES_MAX);
		if (is_power_of_two(task->answer->block_bytes))
			next.block_bytes = task->answer->block_bytes;
		next.checksums = task->answer->checksums;
	}
	error = catalog_store_volume(task->mgmt->catalog, task->volume, &next, &why);
	if (error) {
		storage_store_later(task, error, &why);
		return;
	}
	mgmt_raise_operation(task->mgmt, RAS_VOLUME_CREATED, "volume create", storage_who(task),
			     "%s was created on rank %u", storage_what(task->pool, task->volume, what), next.place.rank);
	storage_end(task, NULL);
}

static void finish_created_pool(struct mgmt_task *task)
{
	struct catalog_pool_record next = task->pool->record;
	struct fathom_fault why = { 0 };
	int error;

	next.state = MGMT_POOL_READY;
	error = catalog_store_pool(task->mgmt->catalog, task->pool, &next, &why);
	if (error) {
		storage_store_later(task, error, &why);
		return;
	}
	mgmt_raise_operation(task->mgmt, RAS_POOL_CREATED, "pool create", storage_who(task),
			     "pool \"%s\" was created on %u rank%s", next.name, next.place_count,
			     next.place_count == 1 ? "" : "s");
	storage_end(task, NULL);
}

static void finish_done(struct mgmt_task *task)
{
	task->why.error = 0;
	if (extends(task)) {
		storage_extension_done(task);
	} else if (is_destroying(task)) {
		const struct catalog_change *change = task->volume ? &task->volume->record.change : NULL;
		bool has_other = change && (change->kind == CATALOG_RENAME || change->kind == CATALOG_MOVE);

		if (has_other && !task->is_other_done) {
			task->is_other_done = true;
			if (change->kind == CATALOG_MOVE)
				task->parts[0].place = change->place;
			storage_restart(task);
			return;
		}
		remove_object(task);
	} else if (storage_moves(task)) {
		storage_move_done(task);
	} else if (storage_sets(task)) {
		storage_set_done(task);
	} else if (!is_creating(task)) {
		finish_change(task);
	} else if (task->volume) {
		finish_created_volume(task);
	} else {
		finish_created_pool(task);
	}
}

/* ---- refusals ---- */

void storage_raise_failure(const struct mgmt_task *task, const struct fathom_fault *why)
{
	/* a repetition, because the result could not be stored, raises no second event */
	if (task->failures == 0)
		mgmt_raise_operation(task->mgmt, RAS_STORAGE_CHANGE_FAILED, "storage change", storage_who(task), "%.400s",
				     why->text);
}

/* The creation was refused: destroy what may exist of the object. */
static void undo_creation(struct mgmt_task *task, const struct fathom_fault *refusal)
{
	struct fathom_fault why = { 0 }, copy = *refusal;
	int error;

	storage_raise_failure(task, refusal);
	if (extends(task)) {
		storage_extension_refused(task, refusal);
		return;
	}
	if (task->volume) {
		struct catalog_volume_record next = task->volume->record;

		next.state = MGMT_VOLUME_DESTROYING;
		next.is_forced = true;
		text_copy_words(next.undo, sizeof(next.undo), refusal->text);
		error = catalog_store_volume(task->mgmt->catalog, task->volume, &next, &why);
	} else {
		struct catalog_pool_record next = task->pool->record;

		next.state = MGMT_POOL_DESTROYING;
		next.is_forced = true;
		text_copy_words(next.undo, sizeof(next.undo), refusal->text);
		error = catalog_store_pool(task->mgmt->catalog, task->pool, &next, &why);
	}
	if (error) {
		storage_store_later(task, error, &why);
		return;
	}
	task->refusal = copy;
	storage_restart(task);
}

/* The change was refused, and the volume is as before. */
static void drop_change(struct mgmt_task *task, const struct fathom_fault *refusal)
{
	struct catalog_volume_record next = task->volume->record;
	struct fathom_fault why = { 0 }, copy = *refusal;
	int error;

	next.change = (struct catalog_change){ 0 };
	storage_raise_failure(task, refusal);
	error = catalog_store_volume(task->mgmt->catalog, task->volume, &next, &why);
	if (error)
		storage_store_later(task, error, &why);
	else
		storage_end(task, &copy);
}

/* The destruction was refused because the object is in use, and nothing was destroyed: it is ready again. */
static void revert_destruction(struct mgmt_task *task, const struct fathom_fault *refusal)
{
	struct fathom_fault why = { 0 }, copy = *refusal;
	int error;

	storage_raise_failure(task, refusal);
	if (task->volume) {
		struct catalog_volume_record next = task->volume->record;

		next.state = MGMT_VOLUME_READY;
		next.is_forced = false;
		error = catalog_store_volume(task->mgmt->catalog, task->volume, &next, &why);
	} else {
		struct catalog_pool_record next = task->pool->record;

		next.state = MGMT_POOL_READY;
		next.is_forced = false;
		error = catalog_store_pool(task->mgmt->catalog, task->pool, &next, &why);
	}
	if (error) {
		storage_store_later(task, error, &why);
		return;
	}
	task->is_other_done = false;
	if (task->volume && task->volume->record.change.kind != CATALOG_NO_CHANGE) {
		storage_refuse_waiters(task, &copy);
		storage_move_set_up(task);
		storage_restart(task); /* the change that the destruction had replaced */
		return;
	}
	if (!task->volume)
		storage_members_changed(task->mgmt); /* changes of its volumes go on */
	if (storage_sets(task)) {
		storage_refuse_waiters(task, &copy);
		storage_restart(task); /* its own, too */
		return;
	}
	storage_end(task, &copy);
}

static bool is_in_use_error(int error)
{
	return error == -EBUSY || error == -ENOTEMPTY;
}

/*
 * An engine that does not have the object answers success. -ENOENT says that it has the object under another name. A volume
 * with a rename under way is destroyed by both names, so this is expected for the first one, and for no other.
 */
static void settle_other_name(struct mgmt_task *task)
{
	if (!task->volume || task->volume->record.change.kind != CATALOG_RENAME || task->is_other_done)
		return;
	for (uint32_t i = 0; i < task->part_count; i++) {
		struct storage_part *part = &task->parts[i];

		if (!part->is_refused || part->error != -ENOENT)
			continue;
		part->is_refused = false;
		part->is_done = true;
	}
}

/* Give the destruction up, or go on until all is destroyed: a part of it is, or the engine has failed. */
static void finish_refused_destruction(struct mgmt_task *task, const struct storage_part *refused)
{
	bool is_undo = task->volume ? task->volume->record.undo[0] : task->pool->record.undo[0];
	bool is_whole = true;

	for (uint32_t i = 0; i < task->part_count; i++)
		is_whole &= task->parts[i].is_refused;
	if (!is_undo && !extends(task) && is_whole && is_in_use_error(refused->error)) {
		revert_destruction(task, &refused->why);
		return;
	}
	task->why = refused->why;
	task->waits_for = refused->place.rank;
	if (!task->volume || task->volume->record.change.kind != CATALOG_MOVE)
		task->is_other_done = false; /* the rename may have been done between the calls by the two names */
	for (uint32_t i = 0; i < task->part_count; i++)
		task->parts[i].is_refused = false;
	storage_pause(task);
}

void storage_finish(struct mgmt_task *task)
{
	const struct storage_part *refused = NULL, *silent = NULL;

	must(task->calls == 0);
	if (storage_moves(task) && storage_move_check_cancel(task))
		return;
	if (is_destroying(task))
		settle_other_name(task);
	for (uint32_t i = 0; i < task->part_count; i++) {
		const struct storage_part *part = &task->parts[i];

		if (part->is_refused && !refused)
			refused = part;
		else if (!part->is_done && !part->is_refused && !silent)
			silent = part;
	}
	if (refused && is_destroying(task)) {
		finish_refused_destruction(task, refused);
	} else if (refused && is_creating(task)) {
		undo_creation(task, &refused->why);
	} else if (refused && storage_moves(task)) {
		storage_move_refused(task, refused);
	} else if (refused && storage_sets(task)) {
		storage_set_refused(task, refused);
	} else if (refused) {
		drop_change(task, &refused->why);
	} else if (silent &&
		   (storage_move_gives_way(task, silent) || storage_move_leave(task) || storage_set_leave(task))) {
		return;
	} else if (silent) {
		task->why = silent->why;
		task->waits_for = silent->place.rank;
		if (task->why.error == 0)
			fill_fault(&task->why, -EAGAIN, "it was not called");
		storage_pause(task);
	} else {
		finish_done(task);
	}
}
