/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/mgmt/mgmt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/mgmt/catalog/catalog.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"
#include "control/status/status.h"
#include "base/reactor/reactor.h"

enum { JOIN_WAIT_MS = 20, RANK_TIMEOUT_S = 180, HEARTBEAT_S = 10 };
enum { STORAGE_TIMEOUT_S = 30, STORAGE_READ_S = 2, STORAGE_PATIENCE_S = 10 };

/* ---- opening and closing ---- */

static void abandon_calls(struct mgmt *mgmt);

static int copy_options(struct mgmt *mgmt, const struct mgmt_options *options)
{
	must(options->name && options->version && options->provider && options->address);
	must(options->replica_count == 0 || options->replicas);
	must(options->client);
	must(options->db);
	mgmt->name = strdup(options->name);
	mgmt->version = strdup(options->version);
	mgmt->provider = strdup(options->provider);
	mgmt->address = strdup(options->address);
	mgmt->database = strdup(options->database ? options->database : "system.db");
	mgmt->replicas = calloc(options->replica_count + 1, sizeof(*mgmt->replicas));
	if (!mgmt->name || !mgmt->version || !mgmt->provider || !mgmt->address || !mgmt->database || !mgmt->replicas)
		return -ENOMEM;
	for (size_t i = 0; i < options->replica_count; i++) {
		mgmt->replicas[i] = strdup(options->replicas[i]);
		if (!mgmt->replicas[i])
			return -ENOMEM;
		mgmt->replica_count++;
	}
	mgmt->join_wait_ns = options->join_wait_ns ? options->join_wait_ns : JOIN_WAIT_MS * NS_PER_MS;
	mgmt->rank_timeout_ns = options->rank_timeout_ns ? options->rank_timeout_ns : RANK_TIMEOUT_S * NS_PER_SEC;
	mgmt->heartbeat_ns = options->heartbeat_ns ? options->heartbeat_ns : HEARTBEAT_S * NS_PER_SEC;
	mgmt->storage_timeout_ns = options->storage_timeout_ns ? options->storage_timeout_ns
							       : STORAGE_TIMEOUT_S * NS_PER_SEC;
	mgmt->storage_read_ns = options->storage_read_ns ? options->storage_read_ns : STORAGE_READ_S * NS_PER_SEC;
	mgmt->storage_patience_ns = options->storage_patience_ns ? options->storage_patience_ns
								 : STORAGE_PATIENCE_S * NS_PER_SEC;
	mgmt->credentials = options->credentials;
	mgmt->net_dev_class = options->net_dev_class;
	mgmt->joins_max = options->joins_max ? options->joins_max : MGMT_JOINS_MAX;
	mgmt->is_new_system = options->is_new_system;
	mgmt->client = options->client;
	mgmt->db = options->db;
	return 0;
}

int mgmt_open(const struct mgmt_options *options, struct mgmt **mgmt_ret, struct fathom_fault *why)
{
	struct mgmt *mgmt = calloc(1, sizeof(*mgmt));
	int error;

	if (!mgmt)
		return -ENOMEM;
	mgmt->home = thread_self();
	must(mgmt->home);
	TAILQ_INIT(&mgmt->calls);
	TAILQ_INIT(&mgmt->joins);
	TAILQ_INIT(&mgmt->reports);
	TAILQ_INIT(&mgmt->operations);
	TAILQ_INIT(&mgmt->waiters);
	TAILQ_INIT(&mgmt->gone_targets);
	TAILQ_INIT(&mgmt->engines);
	TAILQ_INIT(&mgmt->readings);
	TAILQ_INIT(&mgmt->tasks);
	TAILQ_INIT(&mgmt->snapshots);
	TAILQ_INIT(&mgmt->evictions);
	TAILQ_INIT(&mgmt->lates);
	TAILQ_INIT(&mgmt->abandoned_tasks);
	error = copy_options(mgmt, options);
	if (!error)
		error = deadlines_init(&mgmt->deadlines, "mgmt");
	if (!error)
		error = system_store_load(mgmt->db, reactor_now(), &mgmt->store, &mgmt->system, why);
	if (!error)
		error = event_store_open(mgmt->db, options->events_max, &mgmt->events, why);
	if (!error)
		error = storage_open(mgmt, why);
	if (error) {
		mgmt_close(mgmt);
		return error;
	}
	must(event_store_first(mgmt->events) <= event_store_last(mgmt->events));
	mgmt_map_changed(mgmt);
	mgmt_watch(mgmt);
	*mgmt_ret = mgmt;
	return 0;
}

void mgmt_close(struct mgmt *mgmt)
{
	if (!mgmt)
		return;
	must(thread_self() == mgmt->home);
	mgmt_joins_close(mgmt);
	mgmt_reports_close(mgmt);
	mgmt_unranked_close(mgmt);
	mgmt_health_close(mgmt);
	mgmt_waiters_close(mgmt);
	mgmt_operations_close(mgmt);
	storage_close(mgmt);
	mgmt_map_close(mgmt);
	abandon_calls(mgmt);
	must(TAILQ_EMPTY(&mgmt->joins) && mgmt->join_count == 0);
	must(TAILQ_EMPTY(&mgmt->reports) && mgmt->report_count == 0);
	must(TAILQ_EMPTY(&mgmt->operations) && mgmt->operation_count == 0);
	must(TAILQ_EMPTY(&mgmt->waiters) && mgmt->waiter_count == 0);
	must(TAILQ_EMPTY(&mgmt->gone_targets));
	must(TAILQ_EMPTY(&mgmt->calls));
	deadlines_deinit(&mgmt->deadlines);
	event_store_close(mgmt->events);
	system_destroy(mgmt->system);
	for (size_t i = 0; i < mgmt->replica_count; i++)
		free(mgmt->replicas[i]);
	free(mgmt->replicas);
	free(mgmt->name);
	free(mgmt->version);
	free(mgmt->provider);
	free(mgmt->address);
	free(mgmt->database);
	free(mgmt);
}

const struct system *mgmt_system(const struct mgmt *mgmt)
{
	return mgmt->system;
}

struct mgmt_stats mgmt_stats(const struct mgmt *mgmt)
{
	struct mgmt_stats stats = mgmt->stats;

	must(stats.map_behind == 0); /* it is counted here */
	for (size_t i = 0; i < mgmt->target_count; i++)
		stats.map_behind += mgmt->targets[i]->acknowledged != system_map_version(mgmt->system);
	stats.pools = mgmt->catalog->pool_count;
	stats.volumes = mgmt->catalog->volume_count;
	stats.storage_pending = mgmt->task_count;
	stats.shares_draining = storage_drain_shares(mgmt);
	stats.old_copies = mgmt->catalog->old_copy_count;
	return stats;
}

void mgmt_counters(const struct mgmt *mgmt, struct mgmt_counter counters_ret[static MGMT_COUNTERS])
{
	struct mgmt_stats stats = mgmt_stats(mgmt);
	size_t count = 0;

#define ADD_COUNTER(field, text) counters_ret[count++] = (struct mgmt_counter){ #field, text, stats.field };
	MGMT_STATS(ADD_COUNTER)
#undef ADD_COUNTER
	must(count == MGMT_COUNTERS);
}

/* ---- incoming calls ---- */

void mgmt_fail(struct grpc_call *call, int error, struct fathom_fault *why)
{
	struct mgmt *mgmt = ((const struct mgmt_of_call *)grpc_call_ctx(call))->mgmt;

	must(error < 0);
	if (why->error == 0)
		error = fault(why, error, "%s", strerror(-error));
	maybe(error != why->error);
	must(why->error < 0);
	if (mgmt)
		mgmt->stats.calls_refused++;
	probe_mgmt_call_refused(reactor_tick(), trace_intern(grpc_call_method(call)->path), (uint32_t)why->code,
				why->error);
	call_fail(call, why);
}

int mgmt_refuse_full(struct mgmt *mgmt, const char *what, size_t count, struct fathom_fault *why)
{
	must(count > 0);
	mgmt->stats.queue_full++;
	return fault_mgmt_queue_full(why, (uint32_t)count, what);
}

void mgmt_count_refused_state(struct mgmt *mgmt, const struct member_report *report, int error)
{
	must(error < 0);
	must(report->to < MEMBER_STATES);
	if (error == -EALREADY)
		return;
	mgmt->stats.states_refused++;
	probe_mgmt_state_refused(reactor_tick(), report->rank, report->incarnation, (uint32_t)report->to, error);
}

/* Bytes of NAME in "NAME-VERSION": the part before the last '-' that a digit follows. */
static size_t name_bytes(const char *sys)
{
	size_t bytes = strlen(sys);

	for (size_t at = bytes; at-- > 0;) {
		if (sys[at] == '-' && sys[at + 1] >= '0' && sys[at + 1] <= '9')
			return at;
	}
	return bytes;
}

int mgmt_check_system(const char *sys, const char *name, struct fathom_fault *why)
{
	size_t bytes = name_bytes(sys);
	char given[SYSTEM_NAME_BYTES];

	must(*name);
	must(bytes <= strlen(sys));
	/* also compare the whole text, because a name may end like a version */
	if (!*sys || strcmp(sys, name) == 0 || (strlen(name) == bytes && memcmp(sys, name, bytes) == 0))
		return 0;
	snprintf(given, sizeof(given), "%.*s", (int)min_u64(bytes, sizeof(given) - 1), sys);
	return fault_wrong_system(why, given, name);
}

int mgmt_load_again(struct mgmt *mgmt, struct fathom_fault *why)
{
	struct system *system;
	int error;

	if (!mgmt->is_stale)
		return 0;
	error = system_store_load(mgmt->db, reactor_now(), &mgmt->store, &system, why);
	if (error)
		return error;
	system_destroy(mgmt->system);
	mgmt->system = system;
	mgmt->is_stale = false;
	return 0;
}

/* Bytes of "0.1" in "0.1.7-rc2". Servers are compatible if this part is equal. */
static size_t release_bytes(const char *version)
{
	size_t bytes = strcspn(version, ".");

	return version[bytes] ? bytes + 1 + strcspn(version + bytes + 1, ".-+") : bytes;
}

/* Reject servers of another release. Other roles are not checked: DAOS's tools send their own versions. */
static int check_version(const struct mgmt *mgmt, const struct grpc_call *call, struct fathom_fault *why)
{
	const char *version = grpc_call_header(call, GRPC_HEADER_VERSION);
	size_t bytes = release_bytes(mgmt->version);

	if (grpc_call_role(call) != GRPC_ROLE_SERVER || !version ||
	    (release_bytes(version) == bytes && memcmp(version, mgmt->version, bytes) == 0))
		return 0;
	return fault_incompatible(why, "a server of version", version, mgmt->version);
}

struct mgmt *mgmt_enter(struct grpc_call *call, const char *sys, bool needs_members)
{
	const struct mgmt_of_call *of_call = grpc_call_ctx(call);
	struct mgmt *mgmt = of_call->mgmt;
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt) {
		call_fail_not_replica(call, of_call->replicas, of_call->replica_count);
		return NULL;
	}
	must(thread_self() == mgmt->home);
	error = mgmt_check_system(sys, mgmt->name, &why);
	if (!error)
		error = check_version(mgmt, call, &why);
	if (!error)
		error = mgmt_load_again(mgmt, &why);
	if (error) {
		mgmt_fail(call, error, &why);
		return NULL;
	}
	if (needs_members && system_member_count(mgmt->system) == 0) {
		grpc_fail(call, GRPC_UNKNOWN, NULL, "%s", STATUS_UNINITIALIZED);
		return NULL;
	}
	must(!mgmt->is_stale);
	return mgmt;
}

/* ---- changes ---- */

int mgmt_batch_add(struct mgmt *mgmt, struct mgmt_batch *batch, const struct system_change *change,
		   struct fathom_fault *why)
{
	int error = 0;

	must(change->kind == SYSTEM_MEMBER || change->kind == SYSTEM_MEMBER_GONE);
	must(batch->count <= batch->room);
	must(batch->count <= SYSTEM_STORE_MEMBERS_MAX);
	if (batch->count == SYSTEM_STORE_MEMBERS_MAX)
		error = mgmt_batch_commit(mgmt, batch, why);
	if (!error && batch->count == batch->room) {
		size_t room = max_u64(2 * batch->room, 4);
		struct system_change *changes = realloc(batch->changes, room * sizeof(*changes));

		if (!changes)
			return -ENOMEM;
		batch->changes = changes;
		batch->room = room;
	}
	if (!error)
		error = system_apply(mgmt->system, change, reactor_tick());
	if (!error)
		batch->changes[batch->count++] = *change;
	must(error || batch->changes[batch->count - 1].version == system_version(mgmt->system));
	return error;
}

static void free_batch(struct mgmt_batch *batch)
{
	free(batch->changes);
	*batch = (struct mgmt_batch){ 0 };
}

int mgmt_batch_commit(struct mgmt *mgmt, struct mgmt_batch *batch, struct fathom_fault *why)
{
	int error = 0;

	must(batch->count == 0 || batch->changes[batch->count - 1].version == system_version(mgmt->system));
	if (batch->count > 0)
		error = system_store_members(&mgmt->store, batch->changes, batch->count, why);
	if (error) {
		mgmt_batch_drop(mgmt, batch);
		return error;
	}
	free_batch(batch);
	mgmt_map_changed(mgmt);
	storage_members_changed(mgmt);
	return 0;
}

void mgmt_batch_drop(struct mgmt *mgmt, struct mgmt_batch *batch)
{
	struct fathom_fault why;
	int error;

	free_batch(batch);
	mgmt->is_stale = true;
	error = mgmt_load_again(mgmt, &why);
	maybe(error < 0); /* is_stale stays set, so the next call tries again */
}

int mgmt_change_pairs(struct mgmt *mgmt, const struct system_change *change, struct fathom_fault *why)
{
	int error;

	must(change->kind == SYSTEM_ATTRIBUTES || change->kind == SYSTEM_PROPERTIES);
	must(change->version == system_version(mgmt->system) + 1);
	error = system_store_change(&mgmt->store, change, why);
	if (error == -ESTALE)
		mgmt->is_stale = true;
	if (error)
		return error;
	error = system_apply(mgmt->system, change, reactor_now());
	if (error) {
		struct mgmt_batch none = { 0 };

		mgmt_batch_drop(mgmt, &none);
	}
	return error;
}

/* ---- outgoing calls ---- */

static void end_call(void *ctx, const struct grpc_result *result)
{
	struct mgmt_call *call = ctx;

	must(call->done);
	if (call->mgmt) {
		TAILQ_REMOVE(&call->mgmt->calls, call, link);
		call->done(call->ctx, result);
		if (call->release)
			call->release(call->ctx);
	}
	free(call);
}

int mgmt_call(struct mgmt *mgmt, const struct grpc_request *request, void (*release)(void *ctx))
{
	struct mgmt_call *call = calloc(1, sizeof(*call));
	struct grpc_request own = *request;
	int error;

	must(request->address && request->path);
	must(request->timeout_ns > 0);
	must(thread_self() == mgmt->home);
	if (!call)
		return -ENOMEM;
	call->mgmt = mgmt;
	call->done = request->done;
	call->release = release;
	call->ctx = request->ctx;
	own.done = end_call;
	own.ctx = call;
	error = grpc_client_call(mgmt->client, &own);
	if (error)
		free(call);
	else
		TAILQ_INSERT_TAIL(&mgmt->calls, call, link);
	return error;
}

/* The client keeps the calls and ends them later; the service can no longer take their answers. */
static void abandon_calls(struct mgmt *mgmt)
{
	struct mgmt_call *call;

	while ((call = TAILQ_FIRST(&mgmt->calls))) {
		TAILQ_REMOVE(&mgmt->calls, call, link);
		must(call->mgmt == mgmt);
		call->mgmt = NULL;
		if (call->release)
			call->release(call->ctx);
	}
}
