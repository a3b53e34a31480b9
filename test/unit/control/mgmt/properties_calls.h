/* SPDX-License-Identifier: BSD-2-Clause */
/* properties_calls - properties of pools, and ranks that are down when they are set, for tests with fixture.h. */
#ifndef TEST_UNIT_CONTROL_MGMT_PROPERTIES_CALLS_H
#define TEST_UNIT_CONTROL_MGMT_PROPERTIES_CALLS_H

#include "storage_calls.h"

#include "control/mgmt/catalog/catalog.h"
#include "control/mgmt/internal.h"

static inline struct fake_storage *storage_of(uint32_t rank)
{
	return &fixture.fakes[rank].storage;
}

static inline void exclude_system_rank(const char *ranks)
{
	Mgmt__SystemExcludeReq exclude = MGMT__SYSTEM_EXCLUDE_REQ__INIT;

	exclude.ranks = (char *)ranks;
	answer_of(ADMIN_ASK("SystemExclude", exclude, system_exclude));
}

static inline void include_system_rank(const char *ranks)
{
	Mgmt__SystemExcludeReq include = MGMT__SYSTEM_EXCLUDE_REQ__INIT;

	include.ranks = (char *)ranks;
	include.clear = true;
	answer_of(ADMIN_ASK("SystemExclude", include, system_exclude));
}

static inline void stop_rank(const char *ranks)
{
	Mgmt__SystemStopReq request = MGMT__SYSTEM_STOP_REQ__INIT;

	request.ranks = (char *)ranks;
	request.force = true;
	answer_of(ADMIN_ASK("SystemStop", request, system_stop));
}

/* The rank's part of the answer to a query. */
static inline const Mgmt__PoolQueryResp__Rank *query_rank(uint32_t rank)
{
	const Mgmt__PoolQueryResp *pool = query_pool("p");

	assert_true(rank < pool->n_ranks);
	return pool->ranks[rank];
}

static inline const Mgmt__PoolProperty *property_of(const char *name)
{
	Mgmt__PoolGetPropReq request = MGMT__POOL_GET_PROP_REQ__INIT;
	Mgmt__PoolProperty property = MGMT__POOL_PROPERTY__INIT, *properties[] = { &property };
	const Mgmt__PoolGetPropResp *answer;

	property.name = (char *)name;
	request.id = (char *)"p";
	request.properties = properties;
	request.n_properties = 1;
	answer = answer_of(ADMIN_ASK("PoolGetProp", request, pool_get_prop));
	assert_int_equal(answer->n_properties, 1);
	return answer->properties[0];
}

/* Runs on the control reactor. */
static inline bool is_late(void *ctx)
{
	const struct catalog_pool *pool = catalog_find_pool(fixture.mgmt->catalog, "p");

	return catalog_use(&pool->record, (uint32_t)(uintptr_t)ctx).late != 0;
}

static inline bool is_current(void *ctx)
{
	return !is_late(ctx);
}

static inline void wait_current(uint32_t rank)
{
	wait_until(is_current, (void *)(uintptr_t)rank);
}

#endif
