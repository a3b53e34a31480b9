/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * framework_get_summary: the engine in a few figures, for `fathom top`. It uses only what the control thread owns, so it
 * also answers while a reactor hangs.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "data/engine/control.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"
#include "data/store/volume/volumes.h"
#include "data/target/target.h"

/* ---- hosts ---- */

enum { HOSTS_ROOM_FIRST = 64 };

/* The NQNs of hosts, each once: a hash table with open addressing, at most half full. */
struct host_set {
	const char **nqns; /* borrowed from the controllers; NULL: free */
	size_t room;	   /* a power of two */
	size_t count;
	uint64_t controllers;
};

/* The place of `nqn`, or the free one where it belongs. */
static const char **find_place(const struct host_set *set, const char *nqn)
{
	size_t at = text_hash(nqn) & (set->room - 1);

	while (set->nqns[at] && strcmp(set->nqns[at], nqn) != 0)
		at = (at + 1) & (set->room - 1);
	return &set->nqns[at];
}

static void grow_set(struct host_set *set)
{
	struct host_set old = *set;

	set->room = old.room ? old.room * 2 : HOSTS_ROOM_FIRST;
	set->nqns = calloc(set->room, sizeof(*set->nqns));
	must(set->nqns);
	for (size_t i = 0; i < old.room; i++) {
		if (old.nqns[i])
			*find_place(set, old.nqns[i]) = old.nqns[i];
	}
	free(old.nqns);
}

static void add_connection(void *ctx, const struct nvmf_connection *connection)
{
	struct host_set *set = ctx;
	const char **place;

	set->controllers++;
	if (set->count * 2 >= set->room)
		grow_set(set);
	place = find_place(set, connection->host_nqn);
	set->count += *place == NULL;
	*place = connection->host_nqn;
}

static void put_hosts(json_t *result)
{
	const struct nvmf_subsystem *subsystem;
	struct host_set set = { .count = 0 };

	for (subsystem = nvmf_subsystem_first(); subsystem; subsystem = nvmf_subsystem_next(subsystem)) {
		if (nvmf_subsystem_get_type(subsystem) == NVMF_SUBSYSTEM_NVME)
			nvmf_subsystem_each_connection(subsystem, add_connection, &set);
	}
	free(set.nqns);
	json_put(result, "hosts", json_integer((json_int_t)set.count));
	json_put(result, "controllers", json_integer((json_int_t)set.controllers));
}

/* ---- alarms ---- */

/* Add an alarm if `count` is not 0. `name`: one of the objects; "": none. `since_ns` of a monotonic clock; 0: unknown. */
static void add_alarm(json_t *alarms, const char *alarm, uint64_t count, const char *name, uint64_t since_ns)
{
	uint64_t now_ns = clock_monotonic_ns();
	json_t *object;

	if (count == 0)
		return;
	object = json_made(json_object());
	json_put(object, "alarm", json_string(alarm));
	json_put(object, "count", json_integer((json_int_t)count));
	json_put(object, "name", json_text(name));
	if (since_ns && since_ns <= now_ns)
		json_put(object, "seconds", json_integer((json_int_t)((now_ns - since_ns) / NS_PER_SEC)));
	json_add(alarms, object);
}

static bool is_nearly_full(const struct usage *usage)
{
	return usage->state == SPACE_OVER_90 || usage->state == SPACE_OVER_95;
}

static void add_space_alarms(json_t *alarms)
{
	const struct volumes *volumes = engine_storage();
	const struct pool *pool = volumes ? volumes_first_pool(volumes) : NULL;
	const char *name = "";
	uint64_t count = 0;

	for (; pool; pool = TAILQ_NEXT(pool, link)) {
		if (is_nearly_full(&pool->usage) && count++ == 0)
			name = pool->record.name;
	}
	add_alarm(alarms, "pool_space_low", count, name, 0);
	add_alarm(alarms, "storage_space_low", volumes && is_nearly_full(volumes_usage(volumes)), "", 0);
}

static void put_alarms(json_t *result)
{
	json_t *alarms = json_made(json_array());
	struct device_alarm stalled, slow;
	struct engine_health health;
	const Shared__StorageHealth *storage = engine_storage_health(&health);

	device_health_get(&stalled, &slow);
	add_alarm(alarms, "device_not_responding", stalled.count, stalled.name, stalled.since_ns);
	add_alarm(alarms, "device_slow", slow.count, slow.name, slow.since_ns);
	if (storage) {
		add_alarm(alarms, "storage_failed", storage->failed, "", 0);
		add_alarm(alarms, "pool_errored", storage->errored_pools, "", 0);
		add_alarm(alarms, "volume_errored", storage->errored_volumes, "", 0);
		add_alarm(alarms, "volume_read_only", storage->read_only_volumes, "", 0);
	}
	add_space_alarms(alarms);
	json_put(result, "alarms", alarms);
}

void method_framework_get_summary(struct rpc_request *request)
{
	json_t *result = json_made(json_object());
	json_int_t devices = 0;
	struct bdev *bdev;

	for (bdev = bdev_first(); bdev; bdev = bdev_next(bdev))
		devices++;
	json_put(result, "version", json_text(engine_options()->version));
	json_put(result, "pid", json_integer(getpid()));
	json_put(result, "uptime_seconds", json_integer((json_int_t)(engine_uptime_ns() / NS_PER_SEC)));
	put_hosts(result);
	json_put(result, "devices", json_integer(devices));
	put_alarms(result);
	rpc_reply(request, result);
}
