/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Erase what moves of volumes have left on ranks that were down: the original, or of a move that was undone the copy. The
 * record does not say which, so the engine is asked for both. It erases only what its own record says was moved away, or is
 * a copy that is incomplete, so a call that is repeated or delayed never erases a volume that hosts use.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

enum { RETRY_MS = 500, RETRY_DOUBLINGS_MAX = 7 /* 64 s */ };

static void copies_due(struct deadline *deadline);

static void run_later(struct mgmt *mgmt, uint64_t after_ns)
{
	deadline_set(&mgmt->deadlines, &mgmt->old_copies_deadline, after_ns, copies_due);
}

static void pause_calls(struct catalog_old_copy *copy)
{
	uint64_t doublings = min_u64(copy->failures++, RETRY_DOUBLINGS_MAX);

	copy->retry_ns = clock_monotonic_ns() + ((uint64_t)RETRY_MS << doublings) * NS_PER_MS;
}

/* The engine has erased it, or its member is gone. If that cannot be stored, it is tried again. */
static void remove_copy(struct mgmt *mgmt, struct catalog_old_copy *copy)
{
	if (catalog_remove_old_copy(mgmt->catalog, copy, NULL) < 0)
		pause_calls(copy);
	else
		storage_drain_soon(mgmt, 0);
}

static void ended(struct catalog_old_copy *copy, const struct storage_result *result)
{
	struct mgmt *mgmt = copy->mgmt;

	if (result->kind == STORAGE_DONE)
		remove_copy(mgmt, copy);
	else
		pause_calls(copy);
	run_later(mgmt, 0);
}

static void discarded(void *ctx, const struct storage_result *result)
{
	struct catalog_old_copy *copy = ctx;

	must(copy->is_calling);
	copy->is_calling = false;
	ended(copy, result);
}

static void call_engine(struct mgmt *mgmt, struct catalog_old_copy *copy, Store__Action action);

static void erased(void *ctx, const struct storage_result *result)
{
	struct catalog_old_copy *copy = ctx;

	must(copy->is_calling);
	copy->is_calling = false;
	if (result->kind == STORAGE_REFUSED && result->error == -EINVAL) {
		call_engine(copy->mgmt, copy, STORE__ACTION__MOVE_DISCARD); /* it was not moved away */
		if (!copy->is_calling)
			run_later(copy->mgmt, 0);
	} else {
		ended(copy, result);
	}
}

/*
 * The engine knows the pool by its key. The copy's text may be a label of that time: records of a pool that had been
 * renamed were written so. Of a pool that is gone the engine has nothing, and the text is as good as any.
 */
static void call_engine(struct mgmt *mgmt, struct catalog_old_copy *copy, Store__Action action)
{
	const struct catalog_pool *pool = catalog_find_pool(mgmt->catalog, copy->pool_uuid);
	bool is_discard = action == STORE__ACTION__MOVE_DISCARD;
	Store__StorageReq request = STORE__STORAGE_REQ__INIT;
	char what[STORAGE_SENTENCE_BYTES];

	request.action = action;
	request.pool = pool ? (char *)pool->record.key : copy->pool;
	request.pool_uuid = copy->pool_uuid;
	request.volume = copy->volume;
	request.volume_uuid = copy->uuid;
	request.move_serial = copy->since_ns;
	request.force = true; /* its record has the hosts still */
	snprintf(what, sizeof(what), "erase the old copy of volume \"%s/%s\"", pool ? pool->record.name : copy->pool,
		 copy->volume);
	copy->mgmt = mgmt;
	if (storage_call(mgmt, &copy->place, &request, what, is_discard ? discarded : erased, copy) < 0)
		pause_calls(copy);
	else
		copy->is_calling = true;
}

/* Erase what can be erased now. Returns when the next attempt is due; UINT64_MAX: when a rank joins, or a call ends. */
static uint64_t run(struct mgmt *mgmt, uint64_t now_ns)
{
	struct catalog_old_copy *copy, *next;
	uint64_t next_ns = UINT64_MAX;

	TAILQ_FOREACH_SAFE (copy, &mgmt->catalog->old_copies, link, next) {
		const struct member *member = storage_member(mgmt, &copy->place);

		if (copy->is_calling || (member && member->state != MEMBER_JOINED))
			continue;
		if (copy->retry_ns > now_ns) {
			next_ns = min_u64(next_ns, copy->retry_ns);
		} else if (!member) {
			remove_copy(mgmt, copy);
		} else {
			call_engine(mgmt, copy, STORE__ACTION__MOVE_ERASE);
			next_ns = copy->is_calling ? next_ns : min_u64(next_ns, copy->retry_ns);
		}
	}
	return next_ns;
}

static void copies_due(struct deadline *deadline)
{
	struct mgmt *mgmt = container_of(deadline, struct mgmt, old_copies_deadline);
	uint64_t now_ns = clock_monotonic_ns(), next_ns = run(mgmt, now_ns);

	if (next_ns != UINT64_MAX)
		run_later(mgmt, next_ns - now_ns);
}

void storage_old_copies_retry(struct mgmt *mgmt)
{
	struct catalog_old_copy *copy;

	TAILQ_FOREACH (copy, &mgmt->catalog->old_copies, link)
		copy->retry_ns = 0;
	run_later(mgmt, 0);
}
