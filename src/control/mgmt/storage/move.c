/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Move a volume to another rank of its pool, while hosts use it. `change` of its record has the phase and the other place.
 *
 *     COPYING      the volume is at the source, and its hosts use it
 *                  source UNFENCE, target DISCARD, PREPARE, source OFFER, then rounds: source CHANGES, target COPY, STATUS
 *                  The first rounds are those of its snapshots, the oldest first: each ends with target SNAPSHOT
 *     SWITCHING    source FENCE: it serves no host. A last round
 *       one commit of the record makes the target the place of the volume: until it the copy is worth nothing, from it on
 *       the source's data are
 *     SETTLING     target ACCEPT: it serves the hosts. Source: ERASE; if it does not answer, that is noted in the catalog,
 *                  and the move ends (storage/old_copy.c)
 *     UNDOING      source UNFENCE, target DISCARD; for an error, or on request. Not from SETTLING. If the target does not
 *                  answer, that is noted, too
 *
 * Each phase begins with steps that make what an earlier attempt left harmless, so a restart of the service begins the
 * phase again; SWITCHING goes back to COPYING, because hosts must not wait for a whole copy. What an engine knows of a copy
 * is lost with its process: then it answers -ESTALE, and the copy begins again.
 *
 * The source serves the volume's hosts only if its record says that it is in no move, and the target only after ACCEPT. The
 * first is changed by FENCE and UNFENCE, the second by ACCEPT: FENCE comes before the commit, ACCEPT after it, and UNFENCE
 * never after it: an engine rejects an UNFENCE that was delayed until a later session, by the sessions' serials. These grow
 * from move to move, whatever the clock says. So at most one of them serves the volume, at
 * any instant.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/probes.gen.h"
#include "control/mgmt/storage/storage.h"

enum {
	ROUNDS_MAX = 8,		  /* while hosts use the volume; the next one is the last */
	SMALL_BYTES = 64 << 20,	  /* a round of at most this is followed by the last one */
	RESTARTS_MAX = 16,	  /* of the copy, before the move is undone */
	SILENCES_MAX = 4,	  /* of the target in a row, while hosts are disconnected: about 4 s */
	DISCARD_SILENCES_MAX = 2, /* of the target, until what it has is noted as an old copy */
};

bool storage_moves(const struct mgmt_task *task)
{
	return task->volume && task->volume->state == MGMT_VOLUME_READY && task->volume->record.change.kind == CATALOG_MOVE;
}

static void enter_phase(struct mgmt_task *task)
{
	enum mgmt_move_state phase = task->volume->record.change.phase;

	if (task->move.state != phase)
		mgmt_move_state_move(reactor_now(), &task->move, phase);
}

static bool is_step_of_source(Store__Action action)
{
	return action == STORE__ACTION__MOVE_UNFENCE || action == STORE__ACTION__MOVE_OFFER ||
	       action == STORE__ACTION__MOVE_CHANGES || action == STORE__ACTION__MOVE_FENCE ||
	       action == STORE__ACTION__MOVE_ERASE;
}

/* The next call is `action`. */
static void set_step(struct mgmt_task *task, Store__Action action)
{
	const struct catalog_volume_record *record = &task->volume->record;
	bool is_settling = record->change.phase == MGMT_MOVE_SETTLING;

	must(task->calls == 0 && task->part_count == 1);
	task->move.action = action;
	/* the record has the place that the volume has now, the change has the other one */
	task->parts[0].place = is_step_of_source(action) == is_settling ? record->change.place : record->place;
	task->parts[0].is_done = task->parts[0].is_refused = false;
}

static void forget_copy(struct mgmt_task *task)
{
	const struct catalog_volume_record *record = &task->volume->record;
	struct task_move *move = &task->move;

	free(move->regions.data);
	move->regions = (ProtobufCBinaryData){ 0 };
	free(move->snapshots);
	move->snapshots = NULL;
	move->snapshot_count = move->snapshots_done = 0;
	move->round = 0;
	move->copied_bytes = move->total_bytes = 0;
	catalog_new_uuid(move->session);
	/* the clock may have gone back; the record has been READY since the end of the move before */
	move->serial = max_u64(move->serial, max_u64(record->change.serial, record->since_ns)) + 1;
	move->serial = max_u64(max_u64(move->serial, task->volume->move_serial + 1), clock_realtime_ns());
	task->volume->move_serial = move->serial;
}

void storage_move_set_up(struct mgmt_task *task)
{
	if (!storage_moves(task))
		return;
	enter_phase(task);
	forget_copy(task);
	set_step(task, task->move.state == MGMT_MOVE_SETTLING ? STORE__ACTION__MOVE_ACCEPT : STORE__ACTION__MOVE_UNFENCE);
}

void storage_move_free(struct mgmt_task *task)
{
	free(task->move.regions.data);
	free(task->move.snapshots);
}

/* ---- requests and answers ---- */

static uint64_t round_bytes(const struct task_move *move)
{
	return move->region_count * move->region_bytes;
}

void storage_move_fill(const struct mgmt_task *task, Store__StorageReq *request)
{
	const struct catalog_volume_record *record = &task->volume->record;
	const struct task_move *move = &task->move;

	request->action = move->action;
	request->move_session = (char *)move->session;
	request->move_serial = move->serial;
	request->move_round = move->round;
	storage_move_fill_snapshot(move, request);
	switch (move->action) {
	case STORE__ACTION__MOVE_PREPARE:
		request->size_bytes = record->size_bytes;
		request->block_bytes = record->block_bytes;
		request->thick = record->thick;
		request->checksums = record->checksums;
		request->read_only = record->read_only;
		break;
	case STORE__ACTION__MOVE_COPY:
		request->move_address = (char *)move->source;
		request->move_region_bytes = move->region_bytes;
		request->move_regions = move->regions;
		break;
	case STORE__ACTION__MOVE_ACCEPT: {
		static char *hosts[CATALOG_HOSTS_MAX]; /* borrowed until the request is packed */

		for (uint32_t i = 0; i < record->host_count; i++)
			hosts[i] = record->hosts[i].nqn;
		request->move_hosts = hosts;
		request->n_move_hosts = record->host_count;
		break;
	}
	case STORE__ACTION__MOVE_ERASE:
		request->force = true; /* its record has the hosts still */
		break;
	default:
		break;
	}
}

int storage_move_keep(struct mgmt_task *task, const Store__StorageResp *response)
{
	struct task_move *move = &task->move;

	switch (move->action) {
	case STORE__ACTION__MOVE_OFFER:
		(void)text_copy(move->source, sizeof(move->source), response->address);
		return storage_move_keep_snapshots(task);
	case STORE__ACTION__MOVE_ACCEPT:
		(void)text_copy(move->target, sizeof(move->target), response->address);
		break;
	case STORE__ACTION__MOVE_CHANGES: {
		uint8_t *regions = malloc(response->move_regions.len + 1);

		if (!regions)
			return -ENOMEM;
		memcpy(regions, response->move_regions.data, response->move_regions.len);
		free(move->regions.data);
		move->regions = (ProtobufCBinaryData){ .len = response->move_regions.len, .data = regions };
		move->region_bytes = response->move_region_bytes;
		move->region_count = response->move_region_count;
		move->copied_bytes = 0;
		move->total_bytes = round_bytes(move);
		break;
	}
	case STORE__ACTION__MOVE_STATUS:
		move->is_round_done = response->move_done;
		move->copied_bytes = response->move_copied_bytes;
		move->total_bytes = response->move_total_bytes;
		break;
	default:
		break;
	}
	return 0;
}

/* ---- phases ---- */

/* Store `next` and enter its phase. False: it could not be stored, and the step is repeated later. */
static bool store(struct mgmt_task *task, struct catalog_volume_record *next)
{
	struct fathom_fault why = { 0 };
	int error;

	if (next->change.kind == CATALOG_MOVE)
		next->change.serial = task->move.serial;
	error = catalog_store_volume(task->mgmt->catalog, task->volume, next, &why);
	if (error) {
		storage_store_later(task, error, &why);
		return false;
	}
	if (task->volume->record.change.kind == CATALOG_MOVE)
		enter_phase(task);
	else
		mgmt_move_state_move(reactor_now(), &task->move, MGMT_MOVE_IDLE);
	return true;
}

static bool store_phase(struct mgmt_task *task, enum mgmt_move_state phase)
{
	struct catalog_volume_record next = task->volume->record;

	if (next.change.phase == phase)
		return true;
	next.change.phase = phase;
	return store(task, &next);
}

static void go_on(struct mgmt_task *task, Store__Action action)
{
	set_step(task, action);
	storage_restart(task);
}

/* Give the move up; the record says so before anything is undone. */
static void undo(struct mgmt_task *task, const struct fathom_fault *refusal)
{
	struct catalog_volume_record next = task->volume->record;
	struct fathom_fault copy = *refusal;

	must(next.change.phase == MGMT_MOVE_COPYING || next.change.phase == MGMT_MOVE_SWITCHING);
	next.change.phase = MGMT_MOVE_UNDOING;
	text_copy_words(next.change.text, sizeof(next.change.text), copy.text);
	if (!store(task, &next))
		return;
	task->refusal = copy;
	task->move.is_cancelled = false;
	forget_copy(task);
	go_on(task, STORE__ACTION__MOVE_UNFENCE);
}

/* The engines do not know the copy: begin another one after a pause. */
static void begin_again(struct mgmt_task *task, const struct fathom_fault *reason)
{
	if (++task->move.restarts > RESTARTS_MAX) {
		undo(task, reason);
		return;
	}
	task->why = *reason;
	task->waits_for = task->parts[0].place.rank;
	task->failures = task->move.restarts;
	forget_copy(task);
	set_step(task, STORE__ACTION__MOVE_UNFENCE);
	storage_pause(task);
}

/* The target is the volume from the moment when this is stored. */
static void commit(struct mgmt_task *task)
{
	struct catalog_volume_record next = task->volume->record;

	must(next.change.phase == MGMT_MOVE_SWITCHING);
	next.place = task->volume->record.change.place;
	next.change.place = task->volume->record.place;
	next.change.phase = MGMT_MOVE_SETTLING;
	if (store(task, &next))
		go_on(task, STORE__ACTION__MOVE_ACCEPT);
}

/* Store that the move has ended. `has_left`: the place of the change has still to erase its copy. False: as of store(). */
static bool store_end(struct mgmt_task *task, struct catalog_volume_record *next, bool has_left)
{
	const struct catalog_place place = task->volume->record.change.place;
	struct fathom_fault why = { 0 };
	int error;

	if (!has_left)
		return store(task, next);
	error = catalog_leave_copy(task->mgmt->catalog, task->volume, next, &place, &why);
	if (error) {
		storage_store_later(task, error, &why);
		return false;
	}
	mgmt_move_state_move(reactor_now(), &task->move, MGMT_MOVE_IDLE);
	storage_old_copies_retry(task->mgmt);
	return true;
}

static void finish(struct mgmt_task *task, bool has_left)
{
	struct catalog_volume_record next = task->volume->record;
	const struct catalog_change change = next.change;
	struct fathom_fault refusal = task->refusal;
	char what[STORAGE_WHAT_BYTES];

	next.change = (struct catalog_change){ 0 };
	if (change.phase == MGMT_MOVE_SETTLING) /* what the engine listed before says nothing about it */
		next.since_ns = max_u64(clock_realtime_ns(), task->move.serial);
	if (!store_end(task, &next, has_left))
		return;
	if (change.phase == MGMT_MOVE_SETTLING) {
		free(task->volume->stay); /* it was about the former rank */
		task->volume->stay = NULL;
	}
	storage_what(task->pool, task->volume, what);
	if (change.phase == MGMT_MOVE_SETTLING)
		mgmt_raise_operation(task->mgmt, RAS_VOLUME_MOVED, "volume move", storage_who(task),
				     "%s was moved from rank %u to rank %u", what, change.place.rank, next.place.rank);
	else
		mgmt_raise_operation(task->mgmt, RAS_VOLUME_MOVE_UNDONE, "volume move", storage_who(task),
				     "%s stays on rank %u: %.300s", what, next.place.rank, change.text);
	memcpy(task->address, task->move.target, sizeof(task->address)); /* of SETTLING; else the member's */
	if (change.phase == MGMT_MOVE_UNDOING && refusal.error == 0)	 /* after a restart of the service */
		fill_fault(&refusal, -ECANCELED, "%s", change.text);
	if (change.phase == MGMT_MOVE_UNDOING)
		storage_drain_failed(task->mgmt, task->volume, &refusal);
	storage_end(task, &refusal);
}

/* ---- steps ---- */

/* A round is complete. */
static void next_round(struct mgmt_task *task)
{
	const struct task_move *move = &task->move;

	if (storage_move_snapshot(move)) {
		go_on(task, STORE__ACTION__MOVE_SNAPSHOT);
	} else if (move->state == MGMT_MOVE_SWITCHING) {
		commit(task);
	} else if (round_bytes(move) == 0 || (storage_move_round(move) > 1 && round_bytes(move) <= SMALL_BYTES) ||
		   storage_move_round(move) >= ROUNDS_MAX) {
		if (store_phase(task, MGMT_MOVE_SWITCHING))
			go_on(task, STORE__ACTION__MOVE_FENCE);
	} else {
		task->move.round++;
		go_on(task, STORE__ACTION__MOVE_CHANGES);
	}
}

/* UNFENCE is done: in SWITCHING the copy begins again. */
static void unfenced(struct mgmt_task *task)
{
	if (task->move.state == MGMT_MOVE_UNDOING || store_phase(task, MGMT_MOVE_COPYING))
		go_on(task, STORE__ACTION__MOVE_DISCARD);
}

void storage_move_done(struct mgmt_task *task)
{
	struct task_move *move = &task->move;

	switch (move->action) {
	case STORE__ACTION__MOVE_UNFENCE:
		unfenced(task);
		break;
	case STORE__ACTION__MOVE_DISCARD:
		if (move->state == MGMT_MOVE_UNDOING)
			finish(task, false);
		else
			go_on(task, STORE__ACTION__MOVE_PREPARE);
		break;
	case STORE__ACTION__MOVE_PREPARE:
		go_on(task, STORE__ACTION__MOVE_OFFER);
		break;
	case STORE__ACTION__MOVE_OFFER:
	case STORE__ACTION__MOVE_FENCE:
		move->round++;
		go_on(task, STORE__ACTION__MOVE_CHANGES);
		break;
	case STORE__ACTION__MOVE_CHANGES:
		if (storage_move_must_copy(move))
			go_on(task, STORE__ACTION__MOVE_COPY);
		else
			next_round(task);
		break;
	case STORE__ACTION__MOVE_SNAPSHOT:
		move->snapshots_done++;
		move->round++;
		go_on(task, STORE__ACTION__MOVE_CHANGES);
		break;
	case STORE__ACTION__MOVE_COPY:
		go_on(task, STORE__ACTION__MOVE_STATUS);
		break;
	case STORE__ACTION__MOVE_STATUS:
		if (move->is_round_done)
			next_round(task);
		else
			go_on(task, STORE__ACTION__MOVE_STATUS);
		break;
	case STORE__ACTION__MOVE_ACCEPT:
		go_on(task, STORE__ACTION__MOVE_ERASE);
		break;
	case STORE__ACTION__MOVE_ERASE:
		finish(task, false);
		break;
	default:
		must(!"a step of a move");
	}
}

/* Whether another copy may succeed where this one was refused. */
static bool is_worth_another(Store__Action action, int error)
{
	static const int final[] = { -ENOSPC, -EINVAL, -EDQUOT, -EFBIG, -EROFS, -EBADMSG };

	if (action != STORE__ACTION__MOVE_STATUS)
		return error == -ESTALE;
	for (size_t i = 0; i < ARRAY_COUNT(final); i++) {
		if (error == final[i])
			return false;
	}
	return true;
}

void storage_move_refused(struct mgmt_task *task, const struct storage_part *part)
{
	struct fathom_fault why = part->why;

	if (storage_move_leave(task))
		return;
	if (task->move.state == MGMT_MOVE_SETTLING || task->move.state == MGMT_MOVE_UNDOING) {
		/* it has been decided which one is the volume: call until that is so */
		if (task->move.action == STORE__ACTION__MOVE_UNFENCE && part->error == -ESTALE)
			forget_copy(task); /* the clock went back: a higher serial is needed */
		task->why = why;
		task->waits_for = part->place.rank;
		task->parts[0].is_refused = false;
		storage_pause(task);
	} else if (is_worth_another(task->move.action, part->error)) {
		begin_again(task, &why);
	} else {
		undo(task, &why);
	}
}

bool storage_move_leave(struct mgmt_task *task)
{
	if (!storage_moves(task))
		return false;
	if (task->move.action != STORE__ACTION__MOVE_ERASE &&
	    (task->move.state != MGMT_MOVE_UNDOING || task->move.action != STORE__ACTION__MOVE_DISCARD ||
	     task->failures < DISCARD_SILENCES_MAX))
		return false;
	finish(task, true);
	return true;
}

bool storage_move_gives_way(struct mgmt_task *task, const struct storage_part *part)
{
	const struct fathom_fault why = part->why;

	if (!storage_moves(task) || is_step_of_source(task->move.action) || !why.error)
		return false;
	if (task->move.state != MGMT_MOVE_COPYING && task->move.state != MGMT_MOVE_SWITCHING)
		return false;
	if (storage_drain_gives_up(task->mgmt, task->volume, task->failures)) {
		undo(task, &why);
		return true;
	}
	if (task->move.state != MGMT_MOVE_SWITCHING || task->failures < SILENCES_MAX)
		return false;
	begin_again(task, &why);
	return true;
}

/* The other place may have the only data, so a loss after the commit is not settled: the operator destroys the volume. */
void storage_move_settle_lost(struct mgmt_task *task, struct storage_part *part)
{
	enum mgmt_move_state state = task->move.state;
	char what[STORAGE_WHAT_BYTES];
	int error;

	if (state == MGMT_MOVE_UNDOING || task->move.action == STORE__ACTION__MOVE_ERASE) {
		part->is_done = true;
		return;
	}
	error = fault_rank_data_lost(&part->why, storage_what(task->pool, task->volume, what), part->place.rank);
	part->error = error;
	part->is_refused = state != MGMT_MOVE_SETTLING;
}

bool storage_move_is_stuck(const struct mgmt_task *task, const struct storage_part *part)
{
	return storage_moves(task) && task->move.action == STORE__ACTION__MOVE_ACCEPT &&
	       !storage_member(task->mgmt, &part->place);
}

/* ---- cancelling ---- */

static void undo_on_request(struct mgmt_task *task)
{
	struct fathom_fault why = { 0 };
	char what[STORAGE_WHAT_BYTES];

	undo(task, (fill_fault_move_cancelled(&why, storage_what(task->pool, task->volume, what)), &why));
}

bool storage_move_check_cancel(struct mgmt_task *task)
{
	struct fathom_fault why = { 0 };

	if (task->move.state != MGMT_MOVE_COPYING && task->move.state != MGMT_MOVE_SWITCHING) {
		task->move.is_cancelled = false;
		return false;
	}
	if (task->move.is_cancelled || storage_drain_has_ended(task->volume)) {
		undo_on_request(task);
		return true;
	}
	if (storage_check_share(task->pool, task->volume->record.change.place.rank, &why) == 0)
		return false;
	undo(task, &why);
	return true;
}

void storage_move_cancel(struct catalog_volume *volume)
{
	const struct catalog_change *change = &volume->record.change;
	struct mgmt_task *task = volume->task;

	if (!task || !storage_moves(task) || (change->phase != MGMT_MOVE_COPYING && change->phase != MGMT_MOVE_SWITCHING))
		return;
	task->move.is_cancelled = true; /* until storage_move_check_cancel(), after the call under way */
	if (task->calls > 0)
		return;
	task->parts[0].is_done = true;
	storage_run(task);
}

static void cancel(struct mgmt *mgmt, struct grpc_call *call, struct catalog_volume *volume)
{
	const struct catalog_change *change = &volume->record.change;
	char what[STORAGE_WHAT_BYTES];
	struct fathom_fault why = { 0 };
	int error = 0;

	storage_what(volume->pool, volume, what);
	if (change->kind != CATALOG_MOVE)
		error = fault_move_absent(&why, what);
	else if (change->phase == MGMT_MOVE_SETTLING)
		error = fault_move_committed(&why, what, volume->record.place.rank);
	else if (!volume->task)
		error = -ENOMEM; /* it starts soon */
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	storage_move_cancel(volume);
	storage_reply_volume(mgmt, call, volume);
}

/* ---- the method ---- */

static int check_move(struct mgmt *mgmt, const struct catalog_volume *volume, const Fathom__VolumeMoveReq *asked,
		      struct catalog_place *place_ret, struct fathom_fault *why)
{
	const struct catalog_place *place = catalog_pool_place(volume->pool, asked->rank);
	const struct member *member = place ? storage_member(mgmt, place) : NULL;
	char what[STORAGE_WHAT_BYTES];

	if (!place)
		return fault_rank_not_of_pool(why, asked->rank, volume->pool->record.name);
	if (!member)
		return fault_rank_not_joined(why, asked->rank, "gone");
	if (member->state != MEMBER_JOINED)
		return fault_rank_not_joined(why, asked->rank, member_state_wire(member->state));
	if (storage_check_share(volume->pool, asked->rank, why) < 0)
		return why->error;
	if (catalog_find_old_copy(mgmt->catalog, volume->record.uuid, asked->rank))
		return fault_old_copy_left(why, storage_what(volume->pool, volume, what), asked->rank);
	*place_ret = *place;
	return storage_check_room(mgmt, place, 1, why);
}

void mgmt_volume_move(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumeMoveReq *asked = (const Fathom__VolumeMoveReq *)request;
	struct catalog_change change = { .kind = CATALOG_MOVE, .phase = MGMT_MOVE_COPYING };
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct catalog_volume *volume;
	struct fathom_fault why = { 0 };
	bool is_there;
	int error;

	if (!mgmt)
		return;
	error = storage_find_changeable(mgmt, asked->name, &volume, &why);
	if (!error && asked->cancel) {
		cancel(mgmt, call, volume);
		return;
	}
	is_there = !error && volume->record.place.rank == asked->rank;
	if (is_there && volume->record.change.kind == CATALOG_NO_CHANGE) {
		storage_reply_volume(mgmt, call, volume);
		return;
	}
	if (is_there && volume->record.change.phase == MGMT_MOVE_SETTLING && volume->task) {
		storage_wait(volume->task, call); /* repeated: the first call has moved it here */
		return;
	}
	if (!error)
		error = check_move(mgmt, volume, asked, &change.place, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		storage_begin_change(mgmt, call, volume, &change);
}

bool storage_move_publish(struct mgmt *mgmt, struct grpc_call *call, struct catalog_volume *volume, const char *host)
{
	const struct catalog_change *change = &volume->record.change;

	if (change->kind != CATALOG_MOVE || !catalog_has_host(&volume->record, host))
		return false;
	if (change->phase == MGMT_MOVE_COPYING || !volume->task)
		storage_reply_volume(mgmt, call, volume);
	else
		storage_wait_any(volume->task, call); /* then the answer has the address, wherever the volume is */
	return true;
}
