/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Evict hosts from a pool: end their connections to its volumes, and withdraw the publications.
 *
 * DAOS evicts handles of pools. Here a host has publications and connections of volumes, so an eviction is a forced
 * unpublication of each volume of the pool: a change of that volume, which is stored first, goes on after a restart, and
 * ends whatever happens to the call. As many as may be under way begin at once.
 * The call waits for all of them. Before anything is stored, all volumes are checked; if
 * one of them cannot be changed now, nothing is evicted. A repeated call joins what is under way.
 *
 * Handles of clients are known to their agents only. Nothing of them is here, so an agent that evicts some succeeds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

enum { WAIT_S_MAX = 600 };

struct evicted_volume {
	char uuid[MEMBER_UUID_TEXT_BYTES];
	uint32_t publications;
	bool is_done;
};

/* A call that waits for the unpublications. */
struct mgmt_eviction {
	TAILQ_ENTRY(mgmt_eviction) link;
	struct mgmt *mgmt;
	struct grpc_call *call;
	struct deadline deadline;
	char host[CATALOG_NQN_BYTES]; /* "": all */
	bool is_beginning;
	uint32_t publications, left; /* that were withdrawn; volumes that are awaited */
	struct fathom_fault why;     /* of the first volume that failed */
	size_t count;
	struct evicted_volume volumes[];
};

static struct grpc_call *free_eviction(struct mgmt_eviction *eviction)
{
	struct grpc_call *call = eviction->call;

	deadline_clear(&eviction->mgmt->deadlines, &eviction->deadline);
	TAILQ_REMOVE(&eviction->mgmt->evictions, eviction, link);
	must(eviction->mgmt->storage_waiter_count > 0);
	eviction->mgmt->storage_waiter_count--;
	free(eviction);
	return call;
}

static void finish(struct mgmt_eviction *eviction)
{
	Mgmt__PoolEvictResp response = MGMT__POOL_EVICT_RESP__INIT;
	struct fathom_fault why = eviction->why;

	must(eviction->left == 0);
	response.count = (int32_t)eviction->publications;
	if (why.error)
		mgmt_fail(free_eviction(eviction), why.error, &why);
	else
		grpc_reply(free_eviction(eviction), &response.base);
}

/* ---- the tasks of the volumes ---- */

static struct evicted_volume *find_awaited(struct mgmt_eviction *eviction, const char *uuid)
{
	for (size_t i = 0; i < eviction->count; i++) {
		if (!eviction->volumes[i].is_done && strcmp(eviction->volumes[i].uuid, uuid) == 0)
			return &eviction->volumes[i];
	}
	return NULL;
}

void storage_evict_ended(const struct mgmt_task *task, const struct fathom_fault *why)
{
	struct mgmt_eviction *eviction, *next;
	struct evicted_volume *volume;

	TAILQ_FOREACH_SAFE (eviction, &task->mgmt->evictions, link, next) {
		volume = find_awaited(eviction, task->uuid);
		if (!volume)
			continue;
		volume->is_done = true;
		must(eviction->left > 0);
		eviction->left--;
		if (!why || why->error == 0) {
			eviction->publications += volume->publications;
			eviction->mgmt->stats.evicted += volume->publications;
		} else if (eviction->why.error == 0) {
			eviction->why = *why;
		}
		if (eviction->left == 0 && !eviction->is_beginning)
			finish(eviction);
	}
}

/* A task that the call waits for; NULL: they will be created. */
static const struct mgmt_task *find_task(struct mgmt_eviction *eviction)
{
	for (size_t i = 0; i < eviction->count; i++) {
		const struct evicted_volume *awaited = &eviction->volumes[i];
		const struct catalog_volume *volume = catalog_find_uuid(eviction->mgmt->catalog, awaited->uuid);

		if (!awaited->is_done && volume && volume->task && volume->task->failures > 0)
			return volume->task;
	}
	for (size_t i = 0; i < eviction->count; i++) {
		const struct catalog_volume *volume = catalog_find_uuid(eviction->mgmt->catalog, eviction->volumes[i].uuid);

		if (!eviction->volumes[i].is_done && volume && volume->task)
			return volume->task;
	}
	return NULL;
}

static void expired(struct deadline *deadline)
{
	struct mgmt_eviction *eviction = container_of(deadline, struct mgmt_eviction, deadline);
	const struct mgmt_task *task = find_task(eviction);
	struct fathom_fault why = { 0 };

	if (task)
		storage_explain_wait(task, &why);
	else
		fill_fault(&why, -EAGAIN, "%u changes of volumes have not begun, and are made later", eviction->left);
	eviction->mgmt->stats.storage_late++;
	mgmt_fail(free_eviction(eviction), why.error, &why);
}

/* The answer must arrive before the call's deadline; and soon, if an engine cannot be reached. */
static void bound(struct mgmt_eviction *eviction, bool is_unreached)
{
	uint64_t wait_ns = min_u64(grpc_call_time_left_ns(eviction->call), WAIT_S_MAX * NS_PER_SEC) / 10 * 9;

	if (is_unreached)
		wait_ns = min_u64(wait_ns, eviction->mgmt->storage_patience_ns);
	deadline_set(&eviction->mgmt->deadlines, &eviction->deadline, wait_ns, expired);
}

void storage_evict_delayed(const struct mgmt_task *task)
{
	struct mgmt_eviction *eviction;

	TAILQ_FOREACH (eviction, &task->mgmt->evictions, link) {
		if (find_awaited(eviction, task->uuid))
			bound(eviction, true);
	}
}

void storage_evictions_fail(struct mgmt *mgmt, const struct fathom_fault *why)
{
	struct mgmt_eviction *eviction;

	while ((eviction = TAILQ_FIRST(&mgmt->evictions))) {
		struct fathom_fault copy = *why;

		mgmt_fail(free_eviction(eviction), copy.error, &copy);
	}
}

void storage_evictions_close(struct mgmt *mgmt)
{
	struct mgmt_eviction *eviction;

	while ((eviction = TAILQ_FIRST(&mgmt->evictions)))
		grpc_fail(free_eviction(eviction), GRPC_UNAVAILABLE, NULL,
			  "the management service ends; what was begun goes on");
}

/* ---- the request ---- */

/* How many publications of the volume the eviction is about, with one under way. */
static uint32_t count_matches(const struct catalog_volume *volume, const char *host)
{
	const struct catalog_volume_record *record = &volume->record;
	uint32_t count = 0;

	for (uint32_t i = 0; i < record->host_count; i++)
		count += !*host || strcmp(record->hosts[i].nqn, host) == 0;
	if (record->change.kind == CATALOG_PUBLISH && (!*host || strcmp(record->change.text, host) == 0) &&
	    !catalog_has_host(record, record->change.text))
		count++;
	return count;
}

/* No host can use it: its data are lost, or it is destroyed by force. */
static bool is_gone(const struct mgmt *mgmt, const struct catalog_volume *volume)
{
	return !storage_member(mgmt, &volume->record.place) ||
	       (volume->state == MGMT_VOLUME_DESTROYING && volume->record.is_forced);
}

/* Whether the volume can be unpublished now, or is being. */
static int check_volume(const struct catalog_volume *volume, const char *host, struct fathom_fault *why)
{
	const struct catalog_change *change = &volume->record.change;

	if (volume->state == MGMT_VOLUME_READY &&
	    (change->kind == CATALOG_NO_CHANGE || (change->kind == CATALOG_UNPUBLISH && strcmp(change->text, host) == 0)))
		return 0;
	return storage_refuse_changing(volume->pool, volume, why);
}

static int check_request(const struct grpc_call *call, const Mgmt__PoolEvictReq *asked, struct fathom_fault *why)
{
	bool is_agent = grpc_call_role(call) == GRPC_ROLE_AGENT;

	if (is_agent && asked->n_handles == 0)
		return fault_evict_refused(why, "an agent may evict handles of its own clients only",
					   "run `fathom pool evict` as an operator");
	if (!is_agent && asked->n_handles > 0)
		return fault_evict_refused(why, "handles of clients are known to their agents only",
					   "name the host by its NQN: `fathom pool evict POOL --host NQN`");
	if (asked->destroy || asked->force_destroy)
		return fault_evict_refused(why, "an eviction destroys no pool",
					   "use `fathom pool destroy --recursive --force`");
	return *asked->machine ? catalog_check_nqn(asked->machine, why) : 0;
}

/* Check all volumes; `count_ret`: those that have to be changed. */
static int check_pool(const struct mgmt *mgmt, const struct catalog_pool *pool, const char *host, size_t *count_ret,
		      struct fathom_fault *why)
{
	const struct catalog_volume *volume;
	int error = 0;

	*count_ret = 0;
	if (pool->state != MGMT_POOL_READY)
		return storage_refuse_changing(pool, NULL, why);
	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (error || count_matches(volume, host) == 0 || is_gone(mgmt, volume))
			continue;
		(*count_ret)++;
		error = check_volume(volume, host, why);
	}
	return error;
}

static struct mgmt_eviction *create_eviction(struct mgmt *mgmt, struct grpc_call *call, const char *host, size_t count)
{
	struct mgmt_eviction *eviction = calloc(1, sizeof(*eviction) + count * sizeof(eviction->volumes[0]));

	if (!eviction)
		return NULL;
	eviction->mgmt = mgmt;
	eviction->call = call;
	must(text_copy(eviction->host, sizeof(eviction->host), host) == 0); /* it was checked */
	TAILQ_INSERT_TAIL(&mgmt->evictions, eviction, link);
	mgmt->storage_waiter_count++;
	bound(eviction, false);
	return eviction;
}

/* Store the change of a volume, and start its task. */
static int begin_volume(struct mgmt_eviction *eviction, struct catalog_volume *volume, struct fathom_fault *why)
{
	struct evicted_volume *awaited = &eviction->volumes[eviction->count];
	struct catalog_change change = { .kind = CATALOG_UNPUBLISH, .is_forced = true };
	int error;

	memcpy(change.text, eviction->host, sizeof(change.text));
	awaited->publications = count_matches(volume, eviction->host);
	memcpy(awaited->uuid, volume->record.uuid, sizeof(awaited->uuid));
	if (!volume->record.change.is_forced || !volume->task) {
		error = storage_store_change(eviction->mgmt, volume, &change, why);
		if (error)
			return error;
	}
	eviction->count++;
	eviction->left++;
	if (volume->task)
		return 0;
	if (!storage_has_room(eviction->mgmt, &volume->record.place)) {
		eviction->mgmt->has_intents_left = true; /* it starts when another task ends */
		return 0;
	}
	storage_start(eviction->mgmt, volume->pool, volume, NULL);
	if (volume->task)
		grpc_call_who(eviction->call, volume->task->who);
	return 0;
}

static void begin(struct mgmt_eviction *eviction, struct catalog_pool *pool)
{
	uint32_t publications = 0;
	struct catalog_volume *volume;
	struct fathom_fault why = { 0 };
	char who[GRPC_WHO_BYTES];
	int error = 0;

	eviction->is_beginning = true;
	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (error || count_matches(volume, eviction->host) == 0 || is_gone(eviction->mgmt, volume))
			continue;
		publications += count_matches(volume, eviction->host);
		error = begin_volume(eviction, volume, &why);
	}
	eviction->is_beginning = false;
	if (eviction->count > 0)
		mgmt_raise_operation(eviction->mgmt, RAS_POOL_EVICTED, "pool evict", grpc_call_who(eviction->call, who),
				     "%s evicted from pool \"%s\": %u publications of %zu volumes are withdrawn",
				     eviction->host[0] ? eviction->host : "all hosts", pool->record.name, publications,
				     eviction->count);
	if (error) /* what was begun goes on */
		mgmt_fail(free_eviction(eviction), error, &why);
	else if (eviction->left == 0)
		finish(eviction);
}

void mgmt_pool_evict(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolEvictReq *asked = (const Mgmt__PoolEvictReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	Mgmt__PoolEvictResp response = MGMT__POOL_EVICT_RESP__INIT;
	struct mgmt_eviction *eviction = NULL;
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	size_t count = 0;
	int error;

	if (!mgmt)
		return;
	error = check_request(call, asked, &why);
	if (!error)
		error = storage_find_pool(mgmt, asked->id, &pool, &why);
	if (!error && asked->n_handles == 0)
		error = check_pool(mgmt, pool, asked->machine, &count, &why);
	if (!error && count > 0 && mgmt->storage_waiter_count >= STORAGE_WAITERS_MAX)
		error = mgmt_refuse_full(mgmt, "calls that wait for changes", mgmt->storage_waiter_count, &why);
	if (!error && count > 0) {
		eviction = create_eviction(mgmt, call, asked->machine, count);
		error = eviction ? 0 : -ENOMEM;
	}
	if (error) {
		mgmt_fail(call, error, &why);
	} else if (eviction) {
		begin(eviction, pool);
	} else {
		response.count = (int32_t)asked->n_handles;
		grpc_reply(call, &response.base);
	}
}
