/* SPDX-License-Identifier: BSD-2-Clause */
/* List and query pools: states from the catalog, space from the engines. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

enum { TIERS = 2, LAYOUT = 1, LIST_ROWS_MAX = 8192 /* parts of pools in a list: an answer has up to 4 MiB */ };
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

/* The answer to a query, with its storage. */
struct queried {
	Mgmt__PoolQueryResp response;
	Mgmt__PoolRebuildStatus rebuild;
	Mgmt__StorageUsageStats tiers[TIERS], *tier_places[TIERS];
	Mgmt__PoolQueryResp__Rank *ranks, **rank_places;
	struct rank_set enabled, disabled;
	char *enabled_text, *disabled_text;
	struct rank_texts {
		char pool_info[STORAGE_INFO_BYTES]; /* why the rank does not serve the pool */
		char info[STORAGE_INFO_BYTES], late[STORAGE_LATE_BYTES], late_reason[STORAGE_INFO_BYTES];
	} * texts; /* of `ranks` */
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
	rank->domain = (char *)(member ? member->domain : "");
	if (engine && engine->why.error)
		rank->info = (char *)engine->why.text;
	if (!engine || !engine->list)
		return;
	rank->asked_ns = engine->asked_ns;
	rank->total_bytes = limit ? min_u64(limit, engine->list->total_bytes) : engine->list->total_bytes;
	rank->free_bytes = engine->list->free_bytes;
	rank->minute_operations = engine->list->minute_operations;
	rank->minute_bytes = engine->list->minute_bytes;
	if (!listed)
		return;
	rank->promised_bytes = listed->promised_bytes;
	rank->allocated_bytes = listed->allocated_bytes;
	rank->used_bytes = listed->used_bytes;
	rank->limit_bytes = listed->limit_bytes;
	rank->full_in_ns = listed->full_in_ns;
	if (limit)
		rank->free_bytes = min_u64(rank->free_bytes, limit - min_u64(limit, listed->promised_bytes));
}

/* The engine has listed its pools, and cannot use this one or does not have it. */
static void fill_failure(struct mgmt *mgmt, const struct catalog_pool *pool, const struct catalog_place *place, char *text,
			 Mgmt__PoolQueryResp__Rank *rank)
{
	const struct mgmt_engine *engine = storage_find_engine(mgmt, place);
	const Store__Pool *listed, *errored;

	if (!engine || !engine->list || engine->why.error)
		return;
	listed = storage_listed_pool(engine, pool->record.uuid);
	errored = listed && strcmp(listed->state, "ERRORED") == 0 ? listed : storage_listed_errored_pool(engine, pool);
	if (errored) {
		rank->failure = (char *)"errored";
		snprintf(text, STORAGE_INFO_BYTES, "the pool is ERRORED: %s", errored->reason);
	} else if (storage_lacks_pool(engine, pool)) {
		rank->failure = (char *)"missing";
		snprintf(text, STORAGE_INFO_BYTES, "the pool is missing: its engine does not have it");
	} else {
		return;
	}
	rank->info = text;
}

/* The state of the pool's share at `index`. */
static void fill_share(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t index, struct queried *queried)
{
	Mgmt__PoolQueryResp__Rank *rank = &queried->ranks[index];
	struct catalog_use use = catalog_use(&pool->record, index);
	struct rank_texts *texts = &queried->texts[index];
	struct storage_drain_progress progress;

	storage_drain_count(mgmt, pool, rank->rank, &progress);
	storage_drain_explain(mgmt, pool, index, texts->info);
	rank->share = (char *)catalog_share_word(use.state);
	rank->share_since_ns = use.since_ns;
	rank->share_info = texts->info;
	if (storage_share_is_lost(mgmt, pool, index)) {
		rank->share = (char *)"lost";
		rank->share_since_ns = 0; /* nothing has stored it */
		storage_explain_lost(mgmt, pool, rank->rank, texts->info);
	}
	rank->moving_count = progress.moving;
	rank->old_copy_count = progress.old_copies;
	rank->late = texts->late;
	rank->late_reason = texts->late_reason;
	if (use.late) {
		rank->late_ns = use.late_ns;
		storage_late_names(use.late, texts->late);
		storage_late_explain(mgmt, pool, index, UINT32_MAX, texts->late_reason);
	}
	if (use.state != MGMT_SHARE_DRAINING || storage_share_is_lost(mgmt, pool, index))
		return;
	/* DAOS's word for what goes on */
	queried->rebuild.state = queried->rebuild.derived_state = MGMT__POOL_REBUILD_STATUS__STATE__BUSY;
	queried->rebuild.objects += progress.left;
}

static bool is_in_use(const struct member *member, enum mgmt_share_state state)
{
	return member && system_is_in_map(member) && (state == MGMT_SHARE_UP || state == MGMT_SHARE_DRAINING);
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
	queried->texts = calloc(count, sizeof(*queried->texts));
	if (!queried->ranks || !queried->rank_places || !queried->texts)
		return -ENOMEM;
	mgmt__pool_rebuild_status__init(&queried->rebuild);
	queried->rebuild.state = queried->rebuild.derived_state = MGMT__POOL_REBUILD_STATUS__STATE__IDLE;
	for (uint32_t i = 0; !error && i < count; i++) {
		const struct member *member = storage_member(mgmt, &pool->record.places[i]);
		bool is_enabled = is_in_use(member, catalog_use(&pool->record, i).state);

		fill_rank(mgmt, pool, &pool->record.places[i], &queried->ranks[i]);
		fill_failure(mgmt, pool, &pool->record.places[i], queried->texts[i].pool_info, &queried->ranks[i]);
		is_enabled = is_enabled && !queried->ranks[i].failure[0];
		fill_share(mgmt, pool, i, queried);
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

/* If nothing else of the pool is pending: the ranks that have not got its properties. */
static void fill_late(const struct catalog_pool *pool, struct queried *queried)
{
	char ranks[MGMT_RANKS_BYTES];
	uint32_t first = 0;

	if (queried->pending[0] || !storage_late_ranks(&pool->record, UINT32_MAX, ranks, &first)[0])
		return;
	snprintf(queried->pending, sizeof(queried->pending), "set properties on %s", ranks);
	queried->response.reason = queried->texts[first].late_reason;
}

static void fill_query(struct mgmt *mgmt, const struct catalog_pool *pool, uint64_t mask, struct queried *queried)
{
	const struct catalog_pool_record *record = &pool->record;
	Mgmt__PoolQueryResp *response = &queried->response;

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
	fill_late(pool, queried);
}

static void free_queried(struct queried *queried)
{
	rank_set_deinit(&queried->enabled);
	rank_set_deinit(&queried->disabled);
	free(queried->enabled_text);
	free(queried->disabled_text);
	free(queried->ranks);
	free(queried->rank_places);
	free(queried->texts);
}

/* Always call free_queried(). Errors: -ENOMEM. */
static int query_pool(struct mgmt *mgmt, const struct catalog_pool *pool, uint64_t mask, struct queried *queried)
{
	int error;

	*queried = (struct queried){ 0 };
	mgmt__pool_query_resp__init(&queried->response);
	error = fill_ranks(mgmt, pool, queried);
	if (!error)
		fill_query(mgmt, pool, mask, queried);
	return error;
}

static void reply_query(struct mgmt *mgmt, struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolQueryReq *asked = (const Mgmt__PoolQueryReq *)request;
	struct queried queried = { 0 };
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error = storage_find_pool(mgmt, asked->id, &pool, &why);

	if (!error)
		error = query_pool(mgmt, pool, asked->query_mask, &queried);
	if (error)
		mgmt_fail(call, error, &why);
	else
		grpc_reply(call, &queried.response.base);
	free_queried(&queried);
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

/* ---- list ---- */

/* An answer with all pools. */
struct listed {
	Mgmt__ListPoolsResp response;
	Mgmt__ListPoolsResp__Pool *pools, **places;
	struct queried *queried;
	Mgmt__PoolQueryResp **queried_places;
	size_t queried_count;
};

static void free_listed(struct listed *listed)
{
	for (size_t i = 0; i < listed->queried_count; i++)
		free_queried(&listed->queried[i]);
	free(listed->pools);
	free(listed->places);
	free(listed->queried);
	free(listed->queried_places);
}

/* Errors: -ENOMEM. */
static int query_pools(struct mgmt *mgmt, struct listed *listed)
{
	const struct catalog_pool *pool;
	uint32_t rows = 0;
	int error;

	listed->queried = calloc(mgmt->catalog->pool_count + 1, sizeof(*listed->queried));
	listed->queried_places = calloc(mgmt->catalog->pool_count + 1, sizeof(*listed->queried_places));
	if (!listed->queried || !listed->queried_places)
		return -ENOMEM;
	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		struct queried *one = &listed->queried[listed->queried_count];

		if (pool->state != MGMT_POOL_READY || pool->record.place_count > LIST_ROWS_MAX - rows)
			continue;
		rows += pool->record.place_count;
		listed->queried_places[listed->queried_count++] = &one->response;
		error = query_pool(mgmt, pool, 0, one);
		if (error)
			return error;
	}
	listed->response.queried = listed->queried_places;
	listed->response.n_queried = listed->queried_count;
	return 0;
}

/* Errors: -ENOMEM. */
static int list_pools(struct mgmt *mgmt, struct listed *listed)
{
	const struct catalog_pool *pool;

	listed->pools = calloc(mgmt->catalog->pool_count + 1, sizeof(*listed->pools));
	listed->places = calloc(mgmt->catalog->pool_count + 1, sizeof(*listed->places));
	if (!listed->pools || !listed->places)
		return -ENOMEM;
	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		Mgmt__ListPoolsResp__Pool *one = &listed->pools[listed->response.n_pools];

		mgmt__list_pools_resp__pool__init(one);
		one->uuid = (char *)pool->record.uuid;
		one->label = (char *)pool->record.name;
		one->svc_reps = (uint32_t *)&pool->record.places[0].rank;
		one->n_svc_reps = 1;
		one->state = (char *)title_of(pool->state);
		one->rebuild_state = (char *)"idle";
		listed->places[listed->response.n_pools++] = one;
	}
	must(listed->response.n_pools == mgmt->catalog->pool_count);
	listed->response.pools = listed->places;
	listed->response.data_version = db_revision(mgmt->db);
	return 0;
}

static void reply_list(struct mgmt *mgmt, struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__ListPoolsReq *asked = (const Mgmt__ListPoolsReq *)request;
	struct listed listed = { 0 };
	struct fathom_fault why = { 0 };
	int error;

	mgmt__list_pools_resp__init(&listed.response);
	error = list_pools(mgmt, &listed);
	if (!error && asked->query)
		error = query_pools(mgmt, &listed);
	if (error)
		mgmt_fail(call, error, &why);
	else
		grpc_reply(call, &listed.response.base);
	free_listed(&listed);
}

/* The ranks of all pools that are ready, each once. `places_ret` is the caller's to free. Errors: -ENOMEM. */
static int collect_places(const struct mgmt *mgmt, struct catalog_place **places_ret, size_t *count_ret)
{
	size_t room = system_member_count(mgmt->system), count = 0;
	struct catalog_place *places = calloc(room + 1, sizeof(*places));

	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < room; i++) {
		const struct member *member = system_member_at(mgmt->system, i);
		const struct catalog_place *place = NULL;
		const struct catalog_pool *pool;

		TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
			if (!place && pool->state == MGMT_POOL_READY)
				place = catalog_pool_place(pool, member->rank);
		}
		if (place && storage_member(mgmt, place) == member)
			places[count++] = *place;
	}
	*places_ret = places;
	*count_ret = count;
	return 0;
}

void mgmt_list_pools(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__ListPoolsReq *asked = (const Mgmt__ListPoolsReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct fathom_fault why = { 0 };
	struct catalog_place *places;
	size_t count;

	if (!mgmt)
		return;
	if (!asked->query) {
		reply_list(mgmt, call, request);
	} else if (collect_places(mgmt, &places, &count) < 0) {
		mgmt_fail(call, -ENOMEM, &why);
	} else {
		storage_read_then(mgmt, call, request, places, count, reply_list);
		free(places);
	}
}

/* A container is a volume. */
void mgmt_list_containers(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__ListContReq *asked = (const Mgmt__ListContReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	Mgmt__ListContResp response = MGMT__LIST_CONT_RESP__INIT;
	Mgmt__ListContResp__Cont *conts = NULL, **places = NULL;
	const struct catalog_volume *volume;
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error;

	if (!mgmt)
		return;
	error = storage_find_pool(mgmt, asked->id, &pool, &why);
	if (!error) {
		conts = calloc(pool->volume_count + 1, sizeof(*conts));
		places = calloc(pool->volume_count + 1, sizeof(Mgmt__ListContResp__Cont *));
		error = conts && places ? 0 : -ENOMEM;
	}
	if (error) {
		mgmt_fail(call, error, &why);
	} else {
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			Mgmt__ListContResp__Cont *cont = &conts[response.n_containers];

			mgmt__list_cont_resp__cont__init(cont);
			cont->uuid = (char *)volume->record.uuid;
			cont->label = (char *)volume->record.name;
			places[response.n_containers++] = cont;
		}
		response.containers = places;
		grpc_reply(call, &response.base);
	}
	free(conts);
	free(places);
}
