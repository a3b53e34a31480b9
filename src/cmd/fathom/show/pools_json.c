/* SPDX-License-Identifier: BSD-2-Clause */
/* Pools as JSON, with dmg's keys; what dmg does not have stands behind them. */
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/show/parts.h"
#include "cmd/fathom/show/show.h"
#include "control/hostlist/rankset.h"

/* The bits of a query's mask, by name. */
static const struct {
	uint64_t bit;
	const char *name;
} query_bits[] = {
	{ FATHOM_CONTROL_POOL_DEAD_RANKS, "dead_engines" },
	{ FATHOM_CONTROL_POOL_DISABLED_RANKS, "disabled_engines" },
	{ FATHOM_CONTROL_POOL_ENABLED_RANKS, "enabled_engines" },
	{ FATHOM_CONTROL_POOL_REBUILD, "rebuild" },
	{ FATHOM_CONTROL_POOL_SELF_HEAL, "self_heal_policy" },
	{ FATHOM_CONTROL_POOL_SPACE, "space" },
};

json_t *json_pool_query_mask(const struct fathom_control_pool *pool)
{
	const char *names[ARRAY_COUNT(query_bits)];
	char text[CELL_BYTES] = "";
	size_t used = 0;

	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		if (pool->query_mask & query_bits[i].bit)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? "," : "",
						 query_bits[i].name);
	}
	must(used < sizeof(text));
	return json_text(text);
}

json_t *json_pool_state(const struct fathom_control_pool *pool)
{
	return json_text(pool_state(pool));
}

static json_t *json_lower(const char *name)
{
	char text[SIZE_TEXT_BYTES];

	return json_text(lower_text(name, text, sizeof(text)));
}

json_t *json_rebuild_state(const struct fathom_control_pool_rebuild *rebuild)
{
	return json_lower(rebuild->state);
}

json_t *json_rebuild_derived(const struct fathom_control_pool_rebuild *rebuild)
{
	return json_lower(rebuild->derived_state);
}

json_t *json_tier_media(const struct fathom_control_pool_tier *tier)
{
	return json_lower(tier->media);
}

/* "0-2,5" as a list of numbers. */
static json_t *list_of_ranks(const char *text)
{
	struct rank_set set = { 0 };
	json_t *list;

	if (!text[0] || rank_set_parse(text, &set, NULL) < 0)
		return json_null(); /* from a server, so it may be invalid */
	list = list_of_u32s(set.ranks, set.count);
	rank_set_deinit(&set);
	return list;
}

json_t *json_enabled_ranks(const struct fathom_control_pool *pool)
{
	return list_of_ranks(pool->enabled_ranks);
}

json_t *json_pool_usage(const struct fathom_control_pool *pool)
{
	json_t *list = json_array();

	for (size_t i = 0; i < pool->tier_count; i++) {
		json_t *usage = json_object();

		put_text(usage, "tier_name", pool->tiers[i].media);
		put_number(usage, "size", pool->tiers[i].total_bytes);
		put_number(usage, "free", pool->tiers[i].free_bytes);
		put_number(usage, "imbalance", tier_imbalance(pool, &pool->tiers[i]));
		append(list, usage);
	}
	return or_null(list);
}

json_t *json_pool(const struct fathom_control_pool *pool)
{
	json_t *object = json_of_pool(pool), *ranks = json_array();

	if (pool->disabled_ranks[0])
		put(object, "disabled_ranks", list_of_ranks(pool->disabled_ranks));
	if (pool->dead_ranks[0])
		put(object, "dead_ranks", list_of_ranks(pool->dead_ranks));
	for (size_t i = 0; i < pool->rank_count; i++)
		append(ranks, json_of_pool_rank(&pool->ranks[i]));
	if (pool->rank_count == 0) { /* the answer of a server of DAOS */
		json_decref(ranks);
		return object;
	}
	put(object, "ranks", ranks);
	put_number(object, "size_bytes", pool->size_bytes);
	put_bool(object, "overcommit", pool->overcommit);
	put_number(object, "volumes", pool->volume_count);
	put_text(object, "pending", pool->pending);
	put_text(object, "reason", pool->reason);
	put_number(object, "since_ns", pool->since_ns);
	return object;
}

json_t *json_pool_properties(const struct fathom_control_pool_properties *properties)
{
	json_t *list = json_array();

	for (size_t i = 0; i < properties->count; i++) {
		const struct fathom_control_pool_property *property = &properties->properties[i];
		json_t *object = json_of_pool_property(property);

		if (property->late_ranks[0]) {
			put_text(object, "pending_ranks", property->late_ranks);
			put_number(object, "pending_ns", property->late_ns);
			put_text(object, "pending_reason", property->late_reason);
		}
		append(list, object);
	}
	return list;
}

json_t *json_pools(const struct fathom_control_pool *pools, size_t count)
{
	json_t *response = json_object(), *list = json_array();

	for (size_t i = 0; i < count; i++)
		append(list, json_pool(&pools[i]));
	put_number(response, "status", 0);
	put(response, "pools", or_null(list));
	return response;
}
