/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ranks of a pool: extend, exclude, drain, reintegrate.
 *
 * An extension is an intent: its shares are EXTENDING in the pool's record, and a task of the pool calls their ranks. If
 * one refuses, all shares of the request become REMOVING, are destroyed where they may exist, and leave the record. A share
 * that replaces a lost one is an extension, too; if it is undone, the record names the lost member again. The other changes
 * are one transaction each, without calls; storage/drain.c moves the volumes of shares that are DRAINING.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

enum { TIERS = 2 };

/* What a request names: Fathom's text, or DAOS's numbers. Call rank_set_deinit() also after an error. */
static int read_ranks(const char *text, const uint32_t *numbers, size_t count, struct rank_set *ranks,
		      struct fathom_fault *why)
{
	int error = *text ? rank_set_parse(text, ranks, why) : 0;

	for (size_t i = 0; !error && !*text && i < count; i++)
		error = numbers[i] > RANK_MAX ? fault_no_such_rank(why, numbers[i]) : rank_set_add(ranks, numbers[i]);
	if (!error && ranks->count == 0)
		error = fault_no_ranks_named(why);
	return error;
}

static int find_ready(struct mgmt *mgmt, const char *id, struct catalog_pool **pool_ret, struct fathom_fault *why)
{
	struct catalog_pool *pool;
	int error = storage_find_pool(mgmt, id, &pool, why);

	if (!error && pool->state != MGMT_POOL_READY)
		error = storage_refuse_changing(pool, NULL, why);
	if (!error)
		*pool_ret = pool;
	return error;
}

int storage_check_share(const struct catalog_pool *pool, uint32_t rank, struct fathom_fault *why)
{
	int index = catalog_share_index(pool, rank);
	struct catalog_use use = { 0 };

	must(index >= 0);
	use = catalog_use(&pool->record, (uint32_t)index);
	if (use.state == MGMT_SHARE_UP)
		return 0;
	return fault_share_not_up(why, rank, pool->record.name, catalog_share_word(use.state));
}

/* ---- extend ---- */

void storage_reply_extended(const struct catalog_pool *pool, struct grpc_call *call)
{
	Mgmt__PoolExtendResp response = MGMT__POOL_EXTEND_RESP__INIT;
	uint64_t tiers[TIERS] = { 0, pool->record.rank_bytes }; /* DAOS's: memory, and devices */

	response.tier_bytes = tiers;
	response.n_tier_bytes = TIERS;
	grpc_reply(call, &response.base);
}

/* What a request adds. */
struct extension {
	struct catalog_layout layout;
	uint32_t added; /* shares, those in place of lost ones included */
	bool repeats;	/* another rank of the request is being added */
};

/* Give the rank's member a share: a new one, or in place of the lost one. */
static int add_member(struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank, struct extension *extension,
		      struct fathom_fault *why)
{
	const struct member *member = system_member_by_rank(mgmt->system, rank);
	bool replaces = catalog_share_index(pool, rank) >= 0;
	struct catalog_place place = { .rank = rank };
	int error = 0;

	if (!member)
		return fault_no_such_rank(why, rank);
	if (member->state != MEMBER_JOINED)
		return fault_rank_not_joined(why, rank, member_state_wire(member->state));
	if (replaces)
		error = storage_check_replaceable(mgmt, pool, rank, why);
	if (error)
		return error;
	memcpy(place.member, member->uuid, sizeof(place.member));
	if (replaces)
		catalog_layout_replace(&extension->layout, &place);
	else
		catalog_layout_add(&extension->layout, &place, MGMT_SHARE_EXTENDING);
	extension->added++;
	return 0;
}

/* Add the rank, unless the pool has it. */
static int add_rank(struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank, struct extension *extension,
		    struct fathom_fault *why)
{
	int index = catalog_share_index(pool, rank);
	enum mgmt_share_state state;

	if (index < 0 || storage_share_is_lost(mgmt, pool, (uint32_t)index))
		return add_member(mgmt, pool, rank, extension, why);
	state = catalog_use(&pool->record, (uint32_t)index).state;
	if (state == MGMT_SHARE_REMOVING)
		return storage_refuse_changing(pool, NULL, why);
	if (state != MGMT_SHARE_UP && state != MGMT_SHARE_EXTENDING)
		return fault_share_not_up(why, rank, pool->record.name, catalog_share_word(state));
	extension->repeats |= state == MGMT_SHARE_EXTENDING;
	return 0;
}

static bool has_place(const struct catalog_pool *pool, const struct catalog_place *place)
{
	int index = catalog_share_index(pool, place->rank);

	return index >= 0 && memcmp(pool->record.places[index].member, place->member, sizeof(place->member)) == 0;
}

/* The places of `layout` that the pool does not have must have room for one more change. */
static int check_room(struct mgmt *mgmt, const struct catalog_pool *pool, const struct catalog_layout *layout,
		      struct fathom_fault *why)
{
	int error = 0;

	for (uint32_t i = 0; !error && i < layout->count; i++) {
		if (!has_place(pool, &layout->places[i]))
			error = storage_check_room(mgmt, &layout->places[i], 1, why);
	}
	return error;
}

/* Answer the call, unless it waits for the task. */
static int extend(struct mgmt *mgmt, struct grpc_call *call, struct catalog_pool *pool, const struct rank_set *ranks,
		  struct fathom_fault *why)
{
	struct extension extension = { .added = 0 };
	size_t more = 0;
	int error;

	for (size_t i = 0; i < ranks->count; i++)
		more += catalog_share_index(pool, ranks->ranks[i]) < 0;
	if (more > CATALOG_PLACES_MAX - pool->record.place_count)
		return fault_catalog_full(why, pool->record.place_count, "ranks in the pool");
	error = catalog_layout(pool, (uint32_t)ranks->count, &extension.layout);
	if (error)
		return error;
	for (size_t i = 0; !error && i < ranks->count; i++)
		error = add_rank(mgmt, pool, ranks->ranks[i], &extension, why);
	if (!error && extension.added > 0 && (catalog_changing_shares(pool) > 0 || pool->record.change.is_set))
		error = storage_refuse_changing(pool, NULL, why);
	if (!error && extension.added > 0)
		error = check_room(mgmt, pool, &extension.layout, why);
	if (!error && extension.added > 0)
		error = catalog_set_layout(mgmt->catalog, pool, &extension.layout, why);
	catalog_layout_free(&extension.layout);
	if (error)
		return error;
	if (extension.added > 0 || (extension.repeats && !pool->task))
		storage_start(mgmt, pool, NULL, call);
	else if (extension.repeats)
		storage_wait(pool->task, call);
	else
		storage_reply_extended(pool, call);
	return 0;
}

void mgmt_pool_extend(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolExtendReq *asked = (const Mgmt__PoolExtendReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct rank_set ranks = { 0 };
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error;

	if (!mgmt)
		return;
	error = find_ready(mgmt, asked->id, &pool, &why);
	if (!error)
		error = read_ranks(asked->rank_set, asked->ranks, asked->n_ranks, &ranks, &why);
	if (!error)
		error = extend(mgmt, call, pool, &ranks, &why);
	if (error)
		mgmt_fail(call, error, &why);
	rank_set_deinit(&ranks);
}

/* ---- the end of an extension ---- */

const char *storage_changing_ranks(const struct catalog_pool *pool, char *text)
{
	struct rank_set ranks = { 0 };

	snprintf(text, MGMT_RANKS_BYTES, "%u ranks", catalog_changing_shares(pool));
	for (uint32_t i = 0; i < pool->record.place_count; i++) {
		if (catalog_share_changes(pool, i) && rank_set_add(&ranks, pool->record.places[i].rank) < 0) {
			rank_set_deinit(&ranks);
			return text;
		}
	}
	mgmt_ranks_text(&ranks, text);
	rank_set_deinit(&ranks);
	return text;
}

/* Give all shares that change the state `to`. Errors: those of catalog_set_layout(), -ENOMEM. */
static int move_changing(struct mgmt *mgmt, struct catalog_pool *pool, enum mgmt_share_state to, struct fathom_fault *why)
{
	struct catalog_layout layout;
	int error = catalog_layout(pool, 0, &layout);

	if (error)
		return error;
	for (uint32_t i = pool->record.place_count; i-- > 0;) {
		if (catalog_share_changes(pool, i))
			catalog_layout_move(&layout, i, to);
	}
	error = catalog_set_layout(mgmt->catalog, pool, &layout, why);
	catalog_layout_free(&layout);
	return error;
}

void storage_extension_done(struct mgmt_task *task)
{
	bool is_undo = catalog_changing_state(task->pool) == MGMT_SHARE_REMOVING;
	struct fathom_fault why = { 0 }, refusal = task->refusal;
	char what[STORAGE_WHAT_BYTES], ranks[MGMT_RANKS_BYTES];
	int error;

	storage_changing_ranks(task->pool, ranks);
	error = move_changing(task->mgmt, task->pool, is_undo ? MGMT_SHARE_ABSENT : MGMT_SHARE_UP, &why);
	if (error) {
		storage_store_later(task, error, &why);
		return;
	}
	if (!is_undo)
		mgmt_raise_operation(task->mgmt, RAS_POOL_EXTENDED, "pool extend", storage_who(task), "%s: %s added",
				     storage_what(task->pool, NULL, what), ranks);
	storage_end(task, &refusal);
}

void storage_extension_refused(struct mgmt_task *task, const struct fathom_fault *refusal)
{
	struct fathom_fault why = { 0 }, copy = *refusal;
	int error = move_changing(task->mgmt, task->pool, MGMT_SHARE_REMOVING, &why);

	if (error) {
		storage_store_later(task, error, &why);
		return;
	}
	task->refusal = copy;
	storage_restart(task);
}

/* ---- exclude, drain, reintegrate ---- */

/* One of these requests. */
struct share_change {
	const char *operation, *said;
	enum mgmt_share_state to;
	const ProtobufCMessage *answer;
	const uint32_t *targets; /* DAOS's: only these of the rank; none: all */
	size_t target_count;
};

static bool is_there(enum mgmt_share_state state, enum mgmt_share_state to)
{
	return state == to || (to == MGMT_SHARE_DRAINING && state == MGMT_SHARE_DRAINED);
}

/* The pool has the rank, and its share can get the state. */
static int check_share(struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank, enum mgmt_share_state to,
		       struct fathom_fault *why)
{
	int index = catalog_share_index(pool, rank);
	const struct member *member = index >= 0 ? storage_member(mgmt, &pool->record.places[index]) : NULL;

	if (index < 0)
		return fault_rank_not_of_pool(why, rank, pool->record.name);
	if (catalog_share_changes(pool, (uint32_t)index))
		return storage_refuse_changing(pool, NULL, why);
	if (to != MGMT_SHARE_EXCLUDED && !member)
		return storage_refuse_lost(mgmt, pool, rank, why);
	if (to != MGMT_SHARE_UP)
		return 0;
	if (is_there(catalog_use(&pool->record, (uint32_t)index).state, to))
		return 0;
	return member->state == MEMBER_JOINED ? 0 : fault_rank_not_joined(why, rank, member_state_wire(member->state));
}

/* A drain needs a rank that stays. */
static int check_target(const struct mgmt *mgmt, const struct catalog_pool *pool, const struct rank_set *ranks,
			struct fathom_fault *why)
{
	for (uint32_t i = 0; i < pool->record.place_count; i++) {
		if (catalog_use(&pool->record, i).state == MGMT_SHARE_UP && !storage_share_is_lost(mgmt, pool, i) &&
		    !rank_set_has(ranks, pool->record.places[i].rank))
			return 0;
	}
	return fault_drain_without_target(why, pool->record.name);
}

/*
 * Cancel moves that the new state of the rank makes wrong: to a rank that gets no volumes any more, and those of a drain
 * that has ended. After a restart storage_move_check_cancel() finds the same. Forget why volumes stayed there.
 */
static void adapt_moves(struct catalog_pool *pool, uint32_t rank, enum mgmt_share_state to)
{
	struct catalog_volume *volume;

	TAILQ_FOREACH (volume, &pool->volumes, link) {
		const struct catalog_change *change = &volume->record.change;
		bool is_off = volume->record.place.rank == rank && storage_drain_has_ended(volume);
		bool is_to = change->kind == CATALOG_MOVE && change->place.rank == rank && to != MGMT_SHARE_UP;

		if (volume->record.place.rank == rank) {
			free(volume->stay);
			volume->stay = NULL;
		}
		if (is_off || is_to)
			storage_move_cancel(volume);
	}
}

static int store_shares(struct mgmt *mgmt, struct catalog_pool *pool, const struct rank_set *ranks,
			const struct share_change *change, bool *is_changed_ret, struct fathom_fault *why)
{
	struct catalog_layout layout;
	bool is_changed = false;
	int error = catalog_layout(pool, 0, &layout);

	if (error)
		return error;
	for (size_t i = 0; !error && i < ranks->count; i++) {
		int index = catalog_share_index(pool, ranks->ranks[i]);

		error = check_share(mgmt, pool, ranks->ranks[i], change->to, why);
		if (error || is_there(layout.uses[index].state, change->to))
			continue;
		catalog_layout_move(&layout, (uint32_t)index, change->to);
		is_changed = true;
	}
	if (!error && is_changed && change->to == MGMT_SHARE_DRAINING)
		error = check_target(mgmt, pool, ranks, why);
	if (!error && is_changed)
		error = catalog_set_layout(mgmt->catalog, pool, &layout, why);
	catalog_layout_free(&layout);
	*is_changed_ret = is_changed;
	return error;
}

/* Answer the call. */
static void change_shares(struct mgmt *mgmt, struct grpc_call *call, const char *id, const struct rank_set *ranks,
			  const struct share_change *change)
{
	char what[STORAGE_WHAT_BYTES], text[MGMT_RANKS_BYTES], who[GRPC_WHO_BYTES];
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	bool is_changed;
	int error = find_ready(mgmt, id, &pool, &why);

	if (!error)
		error = store_shares(mgmt, pool, ranks, change, &is_changed, &why);
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	for (size_t i = 0; i < ranks->count; i++)
		adapt_moves(pool, ranks->ranks[i], change->to);
	if (is_changed)
		mgmt_raise_operation(mgmt, RAS_POOL_RANK_CHANGED, change->operation, grpc_call_who(call, who), "%s: %s %s",
				     storage_what(pool, NULL, what), mgmt_ranks_text(ranks, text), change->said);
	if (is_changed)
		storage_members_changed(mgmt); /* a change of properties waits for an excluded rank no more */
	storage_drain_soon(mgmt, 0);
	grpc_reply(call, change->answer);
}

/* An engine is one target. */
static int check_targets(const struct share_change *change, uint32_t rank, struct fathom_fault *why)
{
	for (size_t i = 0; i < change->target_count; i++) {
		if (change->targets[i] != 0)
			return fault_no_such_target(why, rank, change->targets[i]);
	}
	return 0;
}

static void request_change(struct grpc_call *call, const char *sys, const char *id, const char *rank_set, uint32_t rank,
			   const struct share_change *change)
{
	struct mgmt *mgmt = mgmt_enter(call, sys, true);
	struct rank_set ranks = { 0 };
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	error = read_ranks(rank_set, &rank, 1, &ranks, &why);
	if (!error)
		error = check_targets(change, rank, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		change_shares(mgmt, call, id, &ranks, change);
	rank_set_deinit(&ranks);
}

void mgmt_pool_exclude(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolExcludeReq *asked = (const Mgmt__PoolExcludeReq *)request;
	const Mgmt__PoolExcludeResp response = MGMT__POOL_EXCLUDE_RESP__INIT;
	const struct share_change change = { "pool exclude", "excluded",	MGMT_SHARE_EXCLUDED,
					     &response.base, asked->target_idx, asked->n_target_idx };

	request_change(call, asked->sys, asked->id, asked->rank_set, asked->rank, &change);
}

void mgmt_pool_drain(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolDrainReq *asked = (const Mgmt__PoolDrainReq *)request;
	const Mgmt__PoolDrainResp response = MGMT__POOL_DRAIN_RESP__INIT;
	const struct share_change change = { "pool drain",   "to be drained",	MGMT_SHARE_DRAINING,
					     &response.base, asked->target_idx, asked->n_target_idx };

	request_change(call, asked->sys, asked->id, asked->rank_set, asked->rank, &change);
}

void mgmt_pool_reintegrate(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolReintReq *asked = (const Mgmt__PoolReintReq *)request;
	const Mgmt__PoolReintResp response = MGMT__POOL_REINT_RESP__INIT;
	const struct share_change change = { "pool reintegrate", "used for new volumes again",
					     MGMT_SHARE_UP,	 &response.base,
					     asked->target_idx,	 asked->n_target_idx };

	request_change(call, asked->sys, asked->id, asked->rank_set, asked->rank, &change);
}
