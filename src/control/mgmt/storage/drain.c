/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drain shares of pools: move their volumes to other ranks of the pool, a few at a time, until none is left.
 *
 * The record of the pool says that a share is DRAINING; which volumes are left follows from theirs. So nothing more is
 * stored, and a restart of the service goes on where it was. The record of a move says that a drain began it: when the
 * share is no longer DRAINING, the move is undone, also after a restart. A move that was undone is tried again after a
 * pause, which doubles; until then the volume's `stay` has the reason.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

enum {
	MOVES_MAX = 2, /* at a time, off one rank of a pool */
	RETRY_MS = 1000,
	RETRY_DOUBLINGS_MAX = 9, /* 512 s */
	RETRY_LEAST_MS = 50,	 /* from one look at what is due to the next */
	SILENCES_MAX = 8,	 /* of a target in a row: about a minute */
};

/* Whether the record of the volume says that a part of it is, or may come to be, on the rank. */
static bool is_on(const struct catalog_volume *volume, uint32_t rank)
{
	const struct catalog_change *change = &volume->record.change;

	return volume->record.place.rank == rank || (change->kind == CATALOG_MOVE && change->place.rank == rank);
}

/*
 * Whether its move takes one of the few that run at a time. One that is undone does not, nor a destruction: they copy
 * nothing, and may wait for a rank that is down.
 */
static bool is_running(const struct catalog_volume *volume)
{
	const struct catalog_change *change = &volume->record.change;

	return change->kind == CATALOG_MOVE && change->phase != MGMT_MOVE_UNDOING && volume->state == MGMT_VOLUME_READY;
}

/* It waits to be moved. */
static bool waits(const struct mgmt *mgmt, const struct catalog_volume *volume, uint32_t rank)
{
	return volume->record.place.rank == rank && volume->state == MGMT_VOLUME_READY && !volume->task &&
	       volume->record.change.kind == CATALOG_NO_CHANGE && storage_member(mgmt, &volume->record.place);
}

static bool is_due(const struct catalog_volume *volume)
{
	return !volume->stay || volume->stay->retry_ns <= clock_monotonic_ns();
}

void storage_drain_count(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank,
			 struct storage_drain_progress *progress_ret)
{
	struct storage_drain_progress progress = { 0 };
	const struct catalog_volume *volume;

	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (!is_on(volume, rank))
			continue;
		progress.left++;
		progress.moving += volume->record.change.kind == CATALOG_MOVE;
		progress.running += is_running(volume);
		progress.due += waits(mgmt, volume, rank) && is_due(volume);
		if (volume->stay && volume->record.place.rank == rank) {
			progress.staying++;
			progress.first = progress.first ? progress.first : volume;
		}
	}
	progress.old_copies = catalog_count_old_copies(mgmt->catalog, pool->record.uuid, rank);
	*progress_ret = progress;
}

static bool is_draining(const struct catalog_pool *pool, uint32_t index)
{
	return pool->state == MGMT_POOL_READY && catalog_use(&pool->record, index).state == MGMT_SHARE_DRAINING;
}

uint32_t storage_drain_shares(const struct mgmt *mgmt)
{
	const struct catalog_pool *pool;
	uint32_t count = 0;

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		for (uint32_t i = 0; i < pool->record.place_count; i++)
			count += is_draining(pool, i);
	}
	return count;
}

/* ---- moves ---- */

static void note_stay(struct catalog_volume *volume, const struct fathom_fault *why)
{
	struct catalog_stay *stay = volume->stay ? volume->stay : calloc(1, sizeof(*stay));
	uint64_t doublings;

	if (!stay)
		return; /* it is tried again with the next change of the pool */
	doublings = min_u64(stay->failures++, RETRY_DOUBLINGS_MAX);
	stay->retry_ns = clock_monotonic_ns() + ((uint64_t)RETRY_MS << doublings) * NS_PER_MS;
	text_copy_words(stay->why, sizeof(stay->why), why->text[0] ? why->text : strerror(-why->error));
	volume->stay = stay;
}

void storage_drain_failed(struct mgmt *mgmt, struct catalog_volume *volume, const struct fathom_fault *why)
{
	int index = catalog_share_index(volume->pool, volume->record.place.rank);

	if (index >= 0 && is_draining(volume->pool, (uint32_t)index))
		note_stay(volume, why);
	storage_drain_soon(mgmt, 0);
}

bool storage_drain_gives_up(const struct mgmt *mgmt, const struct catalog_volume *volume, uint32_t silences)
{
	const struct member *target = storage_member(mgmt, &volume->record.change.place);
	int index = catalog_share_index(volume->pool, volume->record.place.rank);

	if (index < 0 || !is_draining(volume->pool, (uint32_t)index))
		return false;
	return !target || target->state != MEMBER_JOINED || silences >= SILENCES_MAX;
}

bool storage_drain_has_ended(const struct catalog_volume *volume)
{
	int index = catalog_share_index(volume->pool, volume->record.place.rank);

	if (!volume->record.change.is_drain)
		return false;
	return index < 0 || catalog_use(&volume->pool->record, (uint32_t)index).state != MGMT_SHARE_DRAINING;
}

static int begin_move(struct mgmt *mgmt, struct catalog_volume *volume, struct fathom_fault *why)
{
	struct catalog_volume_record next = volume->record;
	int error;

	next.change = (struct catalog_change){
		.kind = CATALOG_MOVE, .phase = MGMT_MOVE_COPYING, .is_drain = true, .since_ns = clock_realtime_ns()
	};
	error = storage_choose_target(mgmt, volume, &next.change.place, why);
	if (!error)
		error = storage_check_room(mgmt, &next.place, 1, why);
	if (!error)
		error = storage_check_room(mgmt, &next.change.place, 1, why);
	if (!error)
		error = catalog_store_volume(mgmt->catalog, volume, &next, why);
	if (!error)
		storage_start(mgmt, volume->pool, volume, NULL);
	return error;
}

static void start_moves(struct mgmt *mgmt, struct catalog_pool *pool, uint32_t rank)
{
	struct storage_drain_progress progress;
	struct catalog_volume *volume;

	storage_drain_count(mgmt, pool, rank, &progress);
	TAILQ_FOREACH (volume, &pool->volumes, link) {
		struct fathom_fault why = { 0 };
		int error;

		if (progress.running >= MOVES_MAX)
			break;
		if (!waits(mgmt, volume, rank) || !is_due(volume))
			continue;
		error = begin_move(mgmt, volume, &why);
		if (error && !why.error)
			fill_fault(&why, error, "%s", strerror(-error));
		if (error)
			note_stay(volume, &why);
		else
			progress.running++;
	}
}

/* ---- the end ---- */

/* Store that the share has no volumes any more. If that fails, it is stored with the next change. */
static void settle(struct mgmt *mgmt, struct catalog_pool *pool, uint32_t index)
{
	uint32_t rank = pool->record.places[index].rank;
	char what[STORAGE_WHAT_BYTES];
	struct catalog_layout layout;

	if (catalog_layout(pool, 0, &layout) < 0)
		return;
	catalog_layout_move(&layout, index, MGMT_SHARE_DRAINED);
	if (catalog_set_layout(mgmt->catalog, pool, &layout, NULL) == 0)
		mgmt_raise_operation(mgmt, RAS_POOL_RANK_DRAINED, "pool drain", NULL,
				     "%s: rank %u is drained, it has no volumes of the pool",
				     storage_what(pool, NULL, what), rank);
	catalog_layout_free(&layout);
}

/* ---- when ---- */

static void drain_due(struct deadline *deadline);

void storage_drain_soon(struct mgmt *mgmt, uint64_t after_ns)
{
	deadline_set(&mgmt->deadlines, &mgmt->drain_deadline, after_ns, drain_due);
}

/* When the first volume that stays on the rank can be tried again. UINT64_MAX: not before a move ends, which wakes us. */
static uint64_t next_retry(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank)
{
	struct storage_drain_progress progress;
	const struct catalog_volume *volume;
	uint64_t next_ns = UINT64_MAX;

	storage_drain_count(mgmt, pool, rank, &progress);
	if (progress.running >= MOVES_MAX)
		return UINT64_MAX;
	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (volume->stay && waits(mgmt, volume, rank))
			next_ns = min_u64(next_ns, volume->stay->retry_ns);
	}
	return next_ns;
}

/* Wake up when the first volume that stays can be tried again. Never at once: this may run because of that deadline. */
static void wait_for_retry(struct mgmt *mgmt)
{
	uint64_t now_ns = clock_monotonic_ns(), next_ns = UINT64_MAX;
	const struct catalog_pool *pool;

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		for (uint32_t i = 0; i < pool->record.place_count; i++) {
			if (is_draining(pool, i))
				next_ns = min_u64(next_ns, next_retry(mgmt, pool, pool->record.places[i].rank));
		}
	}
	if (next_ns != UINT64_MAX)
		storage_drain_soon(mgmt, max_u64(next_ns - min_u64(next_ns, now_ns), RETRY_LEAST_MS * NS_PER_MS));
}

/* The engines have said how much space they have, or have not answered. */
static void read_done(void *ctx)
{
	struct mgmt *mgmt = ctx;
	struct catalog_pool *pool;

	must(mgmt->is_drain_reading);
	mgmt->is_drain_reading = false;
	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		for (uint32_t i = 0; i < pool->record.place_count; i++) {
			if (is_draining(pool, i))
				start_moves(mgmt, pool, pool->record.places[i].rank);
		}
	}
	wait_for_retry(mgmt);
}

static void read_closed(void *ctx)
{
	(void)ctx; /* the service closes */
}

/* Whether moves off the pool's ranks can begin now. Shares without volumes are settled. */
static bool examine_pool(struct mgmt *mgmt, struct catalog_pool *pool)
{
	struct storage_drain_progress progress;
	bool has_work = false;

	for (uint32_t i = 0; i < pool->record.place_count; i++) {
		if (!is_draining(pool, i))
			continue;
		storage_drain_count(mgmt, pool, pool->record.places[i].rank, &progress);
		if (progress.left == 0 && progress.old_copies == 0)
			settle(mgmt, pool, i);
		else
			has_work |= progress.due > 0 && progress.running < MOVES_MAX;
	}
	return has_work;
}

static void drain_due(struct deadline *deadline)
{
	struct mgmt *mgmt = container_of(deadline, struct mgmt, drain_deadline);
	struct catalog_place *places = NULL;
	struct catalog_pool *pool;
	size_t count = 0;
	int error = 0;

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		struct catalog_place *more;

		if (!examine_pool(mgmt, pool) || mgmt->is_drain_reading)
			continue;
		more = realloc(places, (count + pool->record.place_count) * sizeof(*places));
		if (!more) {
			error = -ENOMEM;
			continue;
		}
		places = more;
		memcpy(places + count, pool->record.places, pool->record.place_count * sizeof(*places));
		count += pool->record.place_count;
	}
	if (count > 0) {
		mgmt->is_drain_reading = true;
		error = storage_read(mgmt, places, count,
				     &(struct storage_reader){ .done = read_done,
							       .release = read_closed,
							       .ctx = mgmt,
							       .wait_ns = UINT64_MAX });
		if (error)
			mgmt->is_drain_reading = false;
	}
	free(places);
	if (error)
		storage_drain_soon(mgmt, RETRY_MS * NS_PER_MS);
	else if (!mgmt->is_drain_reading)
		wait_for_retry(mgmt);
}

void storage_drain_retry(struct mgmt *mgmt)
{
	struct catalog_volume *volume;
	struct catalog_pool *pool;

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		for (uint32_t i = 0; i < pool->record.place_count; i++) {
			if (!is_draining(pool, i))
				continue;
			TAILQ_FOREACH (volume, &pool->volumes, link) {
				if (volume->stay && volume->record.place.rank == pool->record.places[i].rank)
					volume->stay->retry_ns = 0;
			}
		}
	}
	storage_drain_soon(mgmt, 0);
}

/* ---- for people ---- */

void storage_drain_explain(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t index, char *text)
{
	uint32_t rank = pool->record.places[index].rank;
	struct storage_drain_progress progress;
	size_t used;

	text[0] = '\0';
	storage_drain_count(mgmt, pool, rank, &progress);
	if (is_draining(pool, index)) {
		snprintf(text, STORAGE_INFO_BYTES, "%" PRIu32 " volume%s left, %" PRIu32 " of them being moved",
			 progress.left, progress.left == 1 ? "" : "s", progress.moving);
		used = strlen(text);
		if (progress.first)
			snprintf(text + used, STORAGE_INFO_BYTES - used, "; %" PRIu32 " cannot be moved, first %s: %s",
				 progress.staying, progress.first->record.name, progress.first->stay->why);
	}
	used = strlen(text);
	if (progress.old_copies > 0)
		snprintf(text + used, STORAGE_INFO_BYTES - used, "%s%" PRIu32 " old %s to be erased", used ? "; " : "",
			 progress.old_copies, progress.old_copies == 1 ? "copy" : "copies");
}

uint64_t storage_drain_pending(const struct catalog_volume *volume, char *pending)
{
	int index = catalog_share_index(volume->pool, volume->record.place.rank);

	if (index < 0 || volume->state != MGMT_VOLUME_READY || !is_draining(volume->pool, (uint32_t)index))
		return 0;
	snprintf(pending, STORAGE_CHANGE_BYTES, "drain of rank %u", volume->record.place.rank);
	return catalog_use(&volume->pool->record, (uint32_t)index).since_ns;
}
