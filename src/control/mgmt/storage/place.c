/* SPDX-License-Identifier: BSD-2-Clause */
/* Collect what placement.h needs to know of ranks, and apply what it chooses to volumes and pools. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/mgmt/placement.h"
#include "control/mgmt/storage/storage.h"

/* ---- the figures of ranks ---- */

static bool has_failed(const struct mgmt *mgmt, const struct member *member, const struct mgmt_engine *engine)
{
	struct mgmt_health health;

	return (mgmt_find_health(mgmt, member, &health) && health.is_failed) ||
	       (engine && engine->list && strcmp(engine->list->state, "FAILED") == 0);
}

/* `pool` NULL: of a new pool. */
static void fill_rank(struct mgmt *mgmt, const struct catalog_pool *pool, const struct catalog_place *place,
		      struct placement_rank *rank)
{
	const struct member *member = storage_member(mgmt, place);
	const struct mgmt_engine *engine = storage_find_engine(mgmt, place);
	const Store__Pool *listed = engine && pool ? storage_listed_pool(engine, pool->record.uuid) : NULL;
	uint64_t limit = pool ? pool->record.rank_bytes : 0;

	*rank = (struct placement_rank){ .rank = place->rank, .domain = "" };
	if (!member)
		return;
	rank->domain = member->domain;
	rank->is_joined = member->state == MEMBER_JOINED;
	rank->is_excluded = member->state == MEMBER_EXCLUDED || member->state == MEMBER_ADMIN_EXCLUDED;
	rank->is_failed = has_failed(mgmt, member, engine);
	if (!engine || !engine->list)
		return;
	rank->is_known = true;
	rank->room_bytes = rank->free_bytes = engine->list->free_bytes;
	rank->total_bytes = engine->list->total_bytes;
	rank->operations = engine->list->minute_operations;
	rank->bytes = engine->list->minute_bytes;
	if (limit && listed)
		rank->room_bytes = min_u64(rank->room_bytes, limit - min_u64(limit, listed->promised_bytes));
}

static int compare_ranks(const void *key, const void *element)
{
	uint32_t rank = *(const uint32_t *)key, other = ((const struct placement_rank *)element)->rank;

	return rank < other ? -1 : rank > other;
}

static uint64_t promised_bytes(const struct catalog_volume *volume)
{
	if (volume->record.read_only)
		return 0;
	return volume->record.thick || !volume->pool->record.overcommit ? volume->record.size_bytes : 0;
}

/*
 * What a copy of the volume takes: what is promised to it, or more if it has allocated more. Snapshots share blocks, so of
 * these the largest counts.
 */
static uint64_t copied_bytes(struct mgmt *mgmt, const struct catalog_volume *volume)
{
	const struct mgmt_engine *engine = storage_find_engine(mgmt, &volume->record.place);
	const Store__Volume *listed = engine ? storage_listed_volume(engine, volume->record.uuid) : NULL;
	uint64_t bytes = promised_bytes(volume);

	if (!listed)
		return bytes;
	bytes = max_u64(bytes, listed->allocated_bytes);
	for (size_t i = 0; i < listed->n_snapshots; i++)
		bytes = max_u64(bytes, listed->snapshots[i]->allocated_bytes);
	return bytes;
}

/* Count a move at its target: what is still to be copied takes room. */
static void count_move(struct mgmt *mgmt, const struct catalog_volume *volume, struct placement_rank *ranks, size_t count)
{
	const struct catalog_change *change = &volume->record.change;
	struct placement_rank *rank = bsearch(&change->place.rank, ranks, count, sizeof(*ranks), compare_ranks);
	const struct mgmt_engine *engine;
	const Store__Volume *listed;
	uint64_t bytes, used = 0;

	if (!rank)
		return;
	rank->volumes++;
	engine = storage_find_engine(mgmt, &change->place);
	listed = engine ? storage_listed_volume(engine, volume->record.uuid) : NULL;
	if (listed)
		used = max_u64(promised_bytes(volume), listed->allocated_bytes);
	bytes = copied_bytes(mgmt, volume);
	rank->room_bytes -= min_u64(rank->room_bytes, bytes - min_u64(bytes, used));
}

/* Count the volume at its rank. What its engine has not listed yet takes room, too. */
static void count_volume(struct mgmt *mgmt, const struct catalog_volume *volume, struct placement_rank *ranks, size_t count)
{
	const struct catalog_volume_record *record = &volume->record;
	struct placement_rank *rank = bsearch(&record->place.rank, ranks, count, sizeof(*ranks), compare_ranks);
	const struct mgmt_engine *engine;

	if (record->change.kind == CATALOG_MOVE &&
	    (record->change.phase == MGMT_MOVE_COPYING || record->change.phase == MGMT_MOVE_SWITCHING))
		count_move(mgmt, volume, ranks, count);
	if (!rank)
		return;
	rank->volumes++;
	rank->published += record->host_count > 0;
	if (volume->state != MGMT_VOLUME_CREATING || !rank->is_known)
		return;
	engine = storage_find_engine(mgmt, &record->place);
	if (!engine || !storage_listed_volume(engine, record->uuid))
		rank->room_bytes -= min_u64(rank->room_bytes, record->size_bytes);
}

/* The ranks at `places`, which are sorted by rank. free() them. NULL: out of memory. */
static struct placement_rank *collect_ranks(struct mgmt *mgmt, const struct catalog_pool *pool,
					    const struct catalog_place *places, size_t count)
{
	struct placement_rank *ranks = calloc(count + 1, sizeof(*ranks));
	const struct catalog_volume *volume;
	const struct catalog_pool *other;

	if (!ranks)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		must(i == 0 || places[i - 1].rank < places[i].rank);
		fill_rank(mgmt, pool, &places[i], &ranks[i]);
	}
	TAILQ_FOREACH (other, &mgmt->catalog->pools, link) {
		TAILQ_FOREACH (volume, &other->volumes, link)
			count_volume(mgmt, volume, ranks, count);
	}
	return ranks;
}

/* ---- a volume ---- */

static void keep_placement(const struct placement_rank *chosen, const struct placement *placement,
			   struct catalog_placement *kept)
{
	*kept = (struct catalog_placement){
		.reason = placement->reason,
		.rank = chosen->rank,
		.possible = placement->possible,
		.volumes = chosen->volumes,
		.published = chosen->published,
		.free_bytes = min_u64(chosen->room_bytes, CATALOG_BYTES_MAX),
		.operations = min_u64(chosen->operations, CATALOG_BYTES_MAX),
		.bytes = min_u64(chosen->bytes, CATALOG_BYTES_MAX),
	};
}

static int explain_full(const char *pool, const struct placement *placement, struct fathom_fault *why)
{
	char ranks[96];

	must(placement->full > 0);
	if (placement->full == 1)
		snprintf(ranks, sizeof(ranks), "1 rank with room is more than 95 %% full: rank %u", placement->full_rank);
	else
		snprintf(ranks, sizeof(ranks), "%u ranks with room are more than 95 %% full; the first is rank %u",
			 placement->full, placement->full_rank);
	return fault_ranks_nearly_full(why, pool, ranks);
}

static int explain(const struct catalog_pool *pool, uint64_t bytes, const struct placement *placement, int error,
		   struct fathom_fault *why)
{
	if (error == -ENOSPC)
		return fault_pool_too_small(why, bytes, pool->record.name, placement->most_rank, placement->most_bytes);
	if (error == -EDQUOT)
		return explain_full(pool->record.name, placement, why);
	return fault_pool_unreachable(why, pool->record.name);
}

/* The ranks that may be chosen; empty: all of the pool. */
struct choices {
	const struct rank_set *only;
	bool is_requested; /* by an operator, who may name a rank that is nearly full */
};

static int place(struct mgmt *mgmt, const struct catalog_pool *pool, uint64_t bytes, const struct choices *choices,
		 struct catalog_volume_record *record, struct fathom_fault *why)
{
	const struct rank_set *only = choices->only;
	const struct catalog_place *places = pool->record.places;
	uint32_t count = pool->record.place_count;
	struct placement_rank *ranks = collect_ranks(mgmt, pool, places, count);
	struct placement placement;
	int error;

	if (!ranks)
		return -ENOMEM;
	if (only->count == 1 && storage_check_share(pool, only->ranks[0], why) < 0) {
		free(ranks);
		return why->error;
	}
	for (uint32_t i = 0; only->count > 0 && i < count; i++) {
		ranks[i].is_joined = ranks[i].is_joined && rank_set_has(only, ranks[i].rank);
		ranks[i].is_named = choices->is_requested && rank_set_has(only, ranks[i].rank);
	}
	for (uint32_t i = 0; i < count; i++)
		ranks[i].is_excluded |= !catalog_share_is_up(pool, ranks[i].rank);
	error = placement_choose(ranks, count, bytes, &placement);
	if (error) {
		error = explain(pool, bytes, &placement, error, why);
	} else {
		if (only->count == 1)
			placement.reason = PLACEMENT_REQUESTED;
		record->place = places[placement.index];
		keep_placement(&ranks[placement.index], &placement, &record->placement);
	}
	free(ranks);
	return error;
}

int storage_place_volume(struct mgmt *mgmt, const struct catalog_pool *pool, uint64_t bytes, const struct rank_set *only,
			 struct catalog_volume_record *record, struct fathom_fault *why)
{
	const struct choices choices = { only, true };

	return place(mgmt, pool, bytes, &choices, record, why);
}

int storage_choose_target(struct mgmt *mgmt, const struct catalog_volume *volume, struct catalog_place *place_ret,
			  struct fathom_fault *why)
{
	const struct catalog_pool *pool = volume->pool;
	struct catalog_volume_record placed = { 0 };
	struct rank_set only = { 0 };
	const struct choices choices = { &only, false };
	int error = 0;

	for (uint32_t i = 0; !error && i < pool->record.place_count; i++) {
		uint32_t rank = pool->record.places[i].rank;

		if (rank != volume->record.place.rank && catalog_share_is_up(pool, rank) &&
		    !catalog_find_old_copy(mgmt->catalog, volume->record.uuid, rank))
			error = rank_set_add(&only, rank);
	}
	if (!error && only.count == 0)
		error = fault_drain_without_target(why, pool->record.name);
	if (!error)
		error = place(mgmt, pool, copied_bytes(mgmt, volume), &choices, &placed, why);
	if (!error)
		*place_ret = placed.place;
	rank_set_deinit(&only);
	return error;
}

/* ---- a pool ---- */

int storage_place_pool(struct mgmt *mgmt, const char *label, uint32_t wanted, struct catalog_place *places, uint32_t *count,
		       struct fathom_fault *why)
{
	struct placement_rank *ranks = collect_ranks(mgmt, NULL, places, *count);
	struct placement placement;
	uint32_t chosen, kept = 0;
	int error = 0;

	if (!ranks)
		return -ENOMEM;
	chosen = placement_spread(ranks, *count, wanted ? wanted : UINT32_MAX, &placement);
	if (chosen < max_u64(wanted, 1)) {
		if (placement.full > 0)
			error = explain_full(label, &placement, why);
		else
			error = fault_ranks_too_few(why, chosen, (uint32_t)max_u64(wanted, 1));
	}
	for (uint32_t i = 0; !error && i < *count; i++) {
		if (ranks[i].is_chosen)
			places[kept++] = places[i];
	}
	free(ranks);
	if (!error)
		*count = kept;
	must(error || kept == chosen);
	return error;
}
