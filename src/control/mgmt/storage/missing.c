/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What engines lack: pools and volumes of the catalog that their storage does not have.
 *
 * An engine reports what it cannot use, but it does not know what it had: a folder that is gone is no error there. So each
 * engine with a share of a pool is asked for its list when it joins, and each LIST is compared with the catalog. `fathom
 * system query` shows the result with the rank. An engine that did not answer, or lacks something, is asked again with each
 * report of its server. What is lacked for the first time raises an event, also if something else is back.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "control/mgmt/storage/storage.h"
#include "rpc/ras/event.h"

/* The engine has said so itself: the pool is ERRORED, and only its name is known. */
static const Store__Pool *find_errored_pool(const struct mgmt_engine *engine, const struct catalog_pool *pool)
{
	for (size_t i = 0; engine->list && i < engine->list->n_pools; i++) {
		const Store__Pool *listed = engine->list->pools[i];

		if (strcmp(listed->state, "ERRORED") == 0 && strcmp(listed->name, pool->record.key) == 0)
			return listed;
	}
	return NULL;
}

const Store__Pool *storage_listed_errored_pool(const struct mgmt_engine *engine, const struct catalog_pool *pool)
{
	return storage_listed_pool(engine, pool->record.uuid) ? NULL : find_errored_pool(engine, pool);
}

const Store__Volume *storage_listed_errored_volume(const struct mgmt_engine *engine, const struct catalog_volume *volume)
{
	const Store__Pool *pool = storage_listed_pool(engine, volume->pool->record.uuid);

	for (size_t i = 0; pool && i < pool->n_volumes; i++) {
		const Store__Volume *listed = pool->volumes[i];

		if (strcmp(listed->state, "ERRORED") == 0 && strcmp(listed->name, volume->record.name) == 0)
			return listed;
	}
	return NULL;
}

bool storage_lacks_volume(const struct mgmt_engine *engine, const struct catalog_volume *volume)
{
	return engine->list && volume->state == MGMT_VOLUME_READY && volume->record.change.kind == CATALOG_NO_CHANGE &&
	       engine->asked_ns > volume->record.since_ns && !storage_listed_volume(engine, volume->record.uuid) &&
	       !storage_listed_errored_volume(engine, volume);
}

bool storage_lacks_pool(const struct mgmt_engine *engine, const struct catalog_pool *pool)
{
	int index = catalog_share_index(pool, engine->place.rank);

	return index >= 0 && pool->state == MGMT_POOL_READY && !catalog_share_changes(pool, (uint32_t)index) &&
	       memcmp(&pool->record.places[index], &engine->place, sizeof(engine->place)) == 0 &&
	       engine->asked_ns > pool->record.since_ns &&
	       engine->asked_ns > catalog_use(&pool->record, (uint32_t)index).since_ns &&
	       !storage_listed_pool(engine, pool->record.uuid) && !find_errored_pool(engine, pool);
}

/* What a LIST lacks, of which `more` are pools and volumes that the LIST before did not lack. */
struct comparison {
	const struct mgmt_engine *engine;
	struct storage_missing missing;
	uint32_t more;
};

/* Keep that a pool or a volume is lacked, and name it as the reason if it is the first one. */
static void note(struct comparison *comparison, bool *is_missing, const char *name)
{
	struct storage_missing *missing = &comparison->missing;

	if (missing->pools + missing->volumes == 0)
		snprintf(missing->reason, sizeof(missing->reason), "%s: its engine does not have it", name);
	comparison->more += !*is_missing;
	*is_missing = true;
}

static void compare_volumes(struct comparison *comparison, struct catalog_pool *pool, bool has_pool)
{
	const struct mgmt_engine *engine = comparison->engine;
	struct catalog_volume *volume;
	char name[CATALOG_FULL_BYTES + 8];

	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (memcmp(&volume->record.place, &engine->place, sizeof(engine->place)) != 0)
			continue;
		if (!has_pool || !storage_lacks_volume(engine, volume)) {
			volume->is_missing = false;
			continue;
		}
		snprintf(name, sizeof(name), "volume %s/%s", pool->record.name, volume->record.name);
		note(comparison, &volume->is_missing, name);
		comparison->missing.volumes++;
	}
}

static void compare_pool(struct comparison *comparison, struct catalog_pool *pool)
{
	const struct mgmt_engine *engine = comparison->engine;
	int index = catalog_share_index(pool, engine->place.rank);
	bool lacks_it = storage_lacks_pool(engine, pool);
	char name[CATALOG_NAME_BYTES + 32];

	if (lacks_it) {
		snprintf(name, sizeof(name), "pool %s with all its volumes", pool->record.name);
		note(comparison, &pool->shares[index].is_missing, name);
		comparison->missing.pools++;
	} else if (index >= 0) {
		pool->shares[index].is_missing = false;
	}
	compare_volumes(comparison, pool, !lacks_it && !find_errored_pool(engine, pool));
}

static void raise_missing(struct mgmt *mgmt, const struct mgmt_engine *engine)
{
	const struct storage_missing *missing = &engine->missing;
	struct ras_event event;

	ras_event_init(&event, RAS_VOLUME_ERRORED, "rank %u lacks pools: %u, volumes: %u; %s", engine->place.rank,
		       missing->pools, missing->volumes, missing->reason);
	event.message.rank = engine->place.rank;
	mgmt_raise(mgmt, &event);
}

void storage_compare(struct mgmt *mgmt, struct mgmt_engine *engine, uint64_t incarnation)
{
	struct comparison comparison = { .engine = engine, .missing.incarnation = incarnation };
	struct storage_missing *missing = &comparison.missing;
	struct catalog_pool *pool;
	bool is_new;

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link)
		compare_pool(&comparison, pool);
	is_new = missing->pools + missing->volumes > 0 &&
		 (incarnation != engine->missing.incarnation || comparison.more > 0);
	if (missing->pools + missing->volumes > 0)
		missing->since_ns = is_new || engine->missing.since_ns == 0 ? engine->asked_ns : engine->missing.since_ns;
	engine->missing = *missing;
	if (is_new)
		raise_missing(mgmt, engine);
}

static bool is_of_pool(const struct mgmt *mgmt, const struct catalog_place *place)
{
	const struct catalog_pool *pool;

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		if (catalog_pool_place(pool, place->rank))
			return true;
	}
	return false;
}

void storage_check_missing(struct mgmt *mgmt, const struct member *member)
{
	struct catalog_place place = { .rank = member->rank };
	const struct mgmt_engine *engine;

	memcpy(place.member, member->uuid, sizeof(place.member));
	engine = storage_find_engine(mgmt, &place);
	if (engine && engine->missing.incarnation == member->incarnation &&
	    engine->missing.pools + engine->missing.volumes == 0)
		return;
	if (is_of_pool(mgmt, &place))
		storage_ask(mgmt, &place);
}

const struct storage_missing *storage_find_missing(const struct mgmt *mgmt, const struct member *member)
{
	const struct mgmt_engine *engine;

	TAILQ_FOREACH (engine, &mgmt->engines, link) {
		if (engine->place.rank == member->rank && engine->missing.incarnation == member->incarnation &&
		    memcmp(engine->place.member, member->uuid, sizeof(engine->place.member)) == 0)
			return engine->missing.pools + engine->missing.volumes > 0 ? &engine->missing : NULL;
	}
	return NULL;
}
