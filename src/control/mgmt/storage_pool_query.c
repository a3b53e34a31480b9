/* SPDX-License-Identifier: BSD-2-Clause */
/* List and query pools: states from the catalog, space from the engines. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage.h"

enum { TIERS = 2, LAYOUT = 1 };
#define DEFAULT_MASK 0xffffffffffffffabull /* what DAOS's server answers if the request names no fields */

static const char *title_of(enum mgmt_pool_state state)
{
	switch (state) {
	case MGMT_POOL_CREATING:
		return "Creating";
	case MGMT_POOL_READY:
		return "Ready";
	case MGMT_POOL_DESTROYING:
		return "Destroying";
	}
	return "Unknown";
}

static Mgmt__PoolServiceState service_state_of(enum mgmt_pool_state state)
{
	switch (state) {
	case MGMT_POOL_CREATING:
		return MGMT__POOL_SERVICE_STATE__Creating;
	case MGMT_POOL_READY:
		return MGMT__POOL_SERVICE_STATE__Ready;
	case MGMT_POOL_DESTROYING:
		return MGMT__POOL_SERVICE_STATE__Destroying;
	}
	return MGMT__POOL_SERVICE_STATE__Unknown;
}

void mgmt_list_pools(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__ListPoolsReq *asked = (const Mgmt__ListPoolsReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	Mgmt__ListPoolsResp response = MGMT__LIST_POOLS_RESP__INIT;
	struct fathom_fault why = { 0 };
	Mgmt__ListPoolsResp__Pool *shown, **places;
	const struct catalog_pool *pool;

	if (!mgmt)
		return;
	shown = calloc(mgmt->catalog->pool_count + 1, sizeof(*shown));
	places = calloc(mgmt->catalog->pool_count + 1, sizeof(*places));
	if (shown && places) {
		TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
			Mgmt__ListPoolsResp__Pool *one = &shown[response.n_pools];

			mgmt__list_pools_resp__pool__init(one);
			one->uuid = (char *)pool->record.uuid;
			one->label = (char *)pool->record.name;
			one->svc_reps = (uint32_t *)&pool->record.places[0].rank;
			one->n_svc_reps = 1;
			one->state = (char *)title_of(pool->state);
			one->rebuild_state = (char *)"idle";
			places[response.n_pools++] = one;
		}
		must(response.n_pools == mgmt->catalog->pool_count);
		response.pools = places;
		response.data_version = db_revision(mgmt->db);
		grpc_reply(call, &response.base);
	} else {
		mgmt_fail(call, -ENOMEM, &why);
	}
	free(shown);
	free(places);
}

/* The answer to a query, with its storage. */
struct queried {
	Mgmt__PoolQueryResp response;
	Mgmt__PoolRebuildStatus rebuild;
	Mgmt__StorageUsageStats tiers[TIERS], *tier_places[TIERS];
	Mgmt__PoolQueryResp__Rank *ranks, **rank_places;
	struct rank_set enabled, disabled;
	char *enabled_text, *disabled_text;
	char pending[STORAGE_CHANGE_BYTES];
};

static void fill_rank(struct mgmt *mgmt, const struct catalog_pool *pool, const struct catalog_place *place,
		      Mgmt__PoolQueryResp__Rank *rank)
{
	const struct member *member = storage_member(mgmt, place);
	const struct mgmt_engine *engine = storage_find_engine(mgmt, place);
	const Store__Pool *listed = engine ? storage_listed_pool(engine, pool->record.uuid) : NULL;
	const struct catalog_volume *volume;
	uint64_t limit = pool->record.rank_bytes;

	mgmt__pool_query_resp__rank__init(rank);
	rank->rank = place->rank;
	rank->state = (char *)(member ? member_state_wire(member->state) : "gone");
	TAILQ_FOREACH (volume, &pool->volumes, link)
		rank->volume_count += volume->record.place.rank == place->rank;
	rank->total_bytes = limit;
	if (engine && engine->why.error)
		rank->info = (char *)engine->why.text;
	if (!engine || !engine->list)
		return;
	rank->asked_ns = engine->asked_ns;
	rank->total_bytes = limit ? min_u64(limit, engine->list->total_bytes) : engine->list->total_bytes;
	rank->free_bytes = engine->list->free_bytes;
	if (!listed)
		return;
	rank->promised_bytes = listed->promised_bytes;
	rank->allocated_bytes = listed->allocated_bytes;
	if (limit)
		rank->free_bytes = min_u64(rank->free_bytes, limit - min_u64(limit, listed->promised_bytes));
}

static void fill_tiers(struct queried *queried)
{
	Mgmt__StorageUsageStats *devices = &queried->tiers[1];
	size_t count = queried->response.n_ranks;

	for (size_t i = 0; i < TIERS; i++) {
		mgmt__storage_usage_stats__init(&queried->tiers[i]);
		queried->tier_places[i] = &queried->tiers[i];
	}
	queried->tiers[0].media_type = MGMT__STORAGE_MEDIA_TYPE__SCM;
	devices->media_type = MGMT__STORAGE_MEDIA_TYPE__NVME;
	for (size_t i = 0; i < count; i++) {
		const Mgmt__PoolQueryResp__Rank *rank = &queried->ranks[i];

		devices->total += rank->total_bytes;
		devices->free += rank->free_bytes;
		devices->min = i == 0 ? rank->free_bytes : min_u64(devices->min, rank->free_bytes);
		devices->max = max_u64(devices->max, rank->free_bytes);
	}
	devices->mean = devices->free / count;
	queried->response.tier_stats = queried->tier_places;
	queried->response.n_tier_stats = TIERS;
}

/* Errors: -ENOMEM. */
static int fill_ranks(struct mgmt *mgmt, const struct catalog_pool *pool, struct queried *queried)
{
	uint32_t count = pool->record.place_count;
	int error = 0;

	queried->ranks = calloc(count, sizeof(*queried->ranks));
	queried->rank_places = calloc(count, sizeof(*queried->rank_places));
	if (!queried->ranks || !queried->rank_places)
		return -ENOMEM;
	for (uint32_t i = 0; !error && i < count; i++) {
		const struct member *member = storage_member(mgmt, &pool->record.places[i]);
		bool is_enabled = member && system_is_in_map(member);

		fill_rank(mgmt, pool, &pool->record.places[i], &queried->ranks[i]);
		queried->rank_places[i] = &queried->ranks[i];
		queried->response.active_targets += is_enabled;
		error = rank_set_add(is_enabled ? &queried->enabled : &queried->disabled, pool->record.places[i].rank);
	}
	if (!error && queried->enabled.count > 0)
		error = rank_set_fold(&queried->enabled, false, &queried->enabled_text);
	if (!error && queried->disabled.count > 0)
		error = rank_set_fold(&queried->disabled, false, &queried->disabled_text);
	queried->response.ranks = queried->rank_places;
	queried->response.n_ranks = count;
	return error;
}

static void fill_query(struct mgmt *mgmt, const struct catalog_pool *pool, uint64_t mask, struct queried *queried)
{
	const struct catalog_pool_record *record = &pool->record;
	Mgmt__PoolQueryResp *response = &queried->response;

	mgmt__pool_rebuild_status__init(&queried->rebuild);
	queried->rebuild.state = queried->rebuild.derived_state = MGMT__POOL_REBUILD_STATUS__STATE__IDLE;
	response->rebuild = &queried->rebuild;
	response->uuid = (char *)record->uuid;
	response->label = (char *)record->name;
	response->total_targets = response->total_engines = record->place_count;
	response->disabled_targets = record->place_count - response->active_targets;
	response->version = 1;
	response->leader = response->svc_ldr = record->places[0].rank;
	response->svc_reps = (uint32_t *)&record->places[0].rank;
	response->n_svc_reps = 1;
	response->pool_layout_ver = response->upgrade_layout_ver = LAYOUT;
	response->state = service_state_of(pool->state);
	response->query_mask = mask ? mask : DEFAULT_MASK;
	response->sys_self_heal_policy = (char *)system_property(mgmt->system, "self_heal");
	if (queried->enabled_text)
		response->enabled_ranks = queried->enabled_text;
	if (queried->disabled_text)
		response->disabled_ranks = queried->disabled_text;
	response->size_bytes = record->rank_bytes * record->place_count;
	response->overcommit = record->overcommit;
	response->volume_count = pool->volume_count;
	response->pending = (char *)storage_pending(pool, NULL, queried->pending);
	response->since_ns = record->since_ns;
	if (pool->task && pool->task->why.error)
		response->reason = pool->task->why.text;
	else if (record->undo[0])
		response->reason = (char *)record->undo;
	fill_tiers(queried);
}

static void reply_query(struct mgmt *mgmt, struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolQueryReq *asked = (const Mgmt__PoolQueryReq *)request;
	struct queried queried = { 0 };
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error = storage_find_pool(mgmt, asked->id, &pool, &why);

	mgmt__pool_query_resp__init(&queried.response);
	if (!error)
		error = fill_ranks(mgmt, pool, &queried);
	if (error) {
		mgmt_fail(call, error, &why);
	} else {
		fill_query(mgmt, pool, asked->query_mask, &queried);
		grpc_reply(call, &queried.response.base);
	}
	rank_set_deinit(&queried.enabled);
	rank_set_deinit(&queried.disabled);
	free(queried.enabled_text);
	free(queried.disabled_text);
	free(queried.ranks);
	free(queried.rank_places);
}

void mgmt_pool_query(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolQueryReq *asked = (const Mgmt__PoolQueryReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error;

	if (!mgmt)
		return;
	error = storage_find_pool(mgmt, asked->id, &pool, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		storage_read_then(mgmt, call, request, pool->record.places, pool->record.place_count, reply_query);
}
