/* SPDX-License-Identifier: BSD-2-Clause */
/* Joins. Joins within a short time (join_wait_ns) become one transaction and one change of the map. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"
#include "control/status/status.h"
#include "base/reactor/reactor.h"

struct mgmt_join {
	TAILQ_ENTRY(mgmt_join) link;
	struct grpc_call *call;
	const Mgmt__JoinReq *request; /* lives as long as the call */
	struct member member;	      /* the new record */
	bool is_refused;	      /* rejected by the rules; other errors are internal */
	int error;
	struct fathom_fault why;
};

/* The first member must use the provider of the configuration. system_join() checks the later members against the first. */
static int check_first_provider(const struct mgmt *mgmt, const Mgmt__JoinReq *request, struct fathom_fault *why)
{
	char given[MEMBER_URI_BYTES];
	size_t bytes = member_provider_bytes(request->uri);

	must(bytes <= strlen(request->uri));
	if (*request->uri && (system_member_count(mgmt->system) > 0 || !*mgmt->provider))
		return 0;
	if (*request->uri && strlen(mgmt->provider) == bytes && memcmp(request->uri, mgmt->provider, bytes) == 0)
		return 0;
	snprintf(given, sizeof(given), "%.*s", (int)min_u64(bytes, sizeof(given) - 1), request->uri);
	return fault_join_provider(why, given, mgmt->provider);
}

/* If the database has no members, reject engines with a rank: the database of their system may be lost. */
static int check_beginning(const struct mgmt *mgmt, const Mgmt__JoinReq *request, struct fathom_fault *why)
{
	if (request->rank == RANK_NONE || mgmt->is_new_system || system_member_count(mgmt->system) > 0)
		return 0;
	return fault_database_empty(why, mgmt->database, request->idx, request->addr, request->rank);
}

static size_t read_fabrics(const Mgmt__JoinReq *request, struct member_fabric *fabrics)
{
	size_t count = 1;

	memset(fabrics, 0, MEMBER_FABRICS_MAX * sizeof(*fabrics));
	(void)text_copy(fabrics[0].uri, sizeof(fabrics[0].uri), request->uri); /* a valid URI is never too long */
	fabrics[0].contexts = request->nctxs;
	for (size_t i = 0; i < request->n_secondary_uris && count < MEMBER_FABRICS_MAX; i++, count++) {
		(void)text_copy(fabrics[count].uri, sizeof(fabrics[count].uri), request->secondary_uris[i]);
		fabrics[count].contexts = i < request->n_secondary_nctxs ? request->secondary_nctxs[i] : 0;
	}
	must(count <= MEMBER_FABRICS_MAX);
	return count;
}

/* Decide about one join. Errors concern only this join, except -ENOMEM. */
static int decide_join(struct mgmt *mgmt, struct mgmt_join *join, struct system_change *change)
{
	const Mgmt__JoinReq *request = join->request;
	struct member_fabric fabrics[MEMBER_FABRICS_MAX];
	struct join_request decision = {
		.uuid = request->uuid,
		.rank = request->rank,
		.incarnation = request->incarnation,
		.map_version = request->map_version,
		.address = request->addr,
		.domain = request->srvfaultdomain,
		.fabrics = fabrics,
		.fabric_count = read_fabrics(request, fabrics),
		.is_replacement = request->replace,
		.is_for_checker = request->check_mode,
		.is_first_instance = request->idx == 0 && mgmt->replica_count > 0 &&
				     strcmp(request->addr, mgmt->replicas[0]) == 0,
	};
	int error = check_beginning(mgmt, request, &join->why);

	if (!error)
		error = check_first_provider(mgmt, request, &join->why);
	if (!error)
		error = system_join(mgmt->system, &decision, clock_realtime_ns(), change, &join->why);
	if (!error)
		join->member = change->member;
	must(error || join->member.state == MEMBER_JOINED || join->member.state == MEMBER_CHECKER_STARTED);
	must(error || join->member.rank <= RANK_MAX);
	probe_mgmt_join(reactor_tick(), error ? request->rank : join->member.rank, request->incarnation, error);
	return error;
}

/* ---- rejected joins ---- */

static struct mgmt_refusal **bucket_of(struct mgmt *mgmt, const uint8_t *uuid)
{
	uint32_t hash = 0;

	for (size_t i = 0; i < MEMBER_UUID_BYTES; i++)
		hash = hash * 31 + uuid[i];
	return &mgmt->refusals[hash % MGMT_REFUSAL_BUCKETS];
}

static void forget_refusals(struct mgmt *mgmt, const uint8_t *uuid)
{
	struct mgmt_refusal **place = bucket_of(mgmt, uuid), *refusal;

	while ((refusal = *place)) {
		if (memcmp(refusal->uuid, uuid, MEMBER_UUID_BYTES) != 0) {
			place = &refusal->next;
			continue;
		}
		*place = refusal->next;
		free(refusal);
		must(mgmt->refusal_count > 0);
		mgmt->refusal_count--;
	}
}

static void forget_all_refusals(struct mgmt *mgmt)
{
	for (size_t i = 0; i < MGMT_REFUSAL_BUCKETS; i++) {
		struct mgmt_refusal *refusal;

		while ((refusal = mgmt->refusals[i])) {
			mgmt->refusals[i] = refusal->next;
			must(mgmt->refusal_count > 0);
			mgmt->refusal_count--;
			free(refusal);
		}
	}
	must(mgmt->refusal_count == 0);
}

/* Whether this rejection was not reported yet. A rejected engine keeps trying, and must cause only one event. */
static bool is_new_refusal(struct mgmt *mgmt, const struct mgmt_join *join)
{
	uint8_t uuid[MEMBER_UUID_BYTES];
	struct mgmt_refusal *refusal;

	must(join->why.error < 0);
	if (member_uuid_parse(join->request->uuid, uuid) < 0)
		memset(uuid, 0, sizeof(uuid));
	for (refusal = *bucket_of(mgmt, uuid); refusal; refusal = refusal->next) {
		if (refusal->code == join->why.code && memcmp(refusal->uuid, uuid, sizeof(uuid)) == 0)
			return false;
	}
	if (mgmt->refusal_count >= MGMT_REFUSALS)
		forget_all_refusals(mgmt);
	must(mgmt->refusal_count < MGMT_REFUSALS);
	refusal = calloc(1, sizeof(*refusal));
	if (!refusal)
		return true;
	memcpy(refusal->uuid, uuid, sizeof(uuid));
	refusal->code = join->why.code;
	refusal->next = *bucket_of(mgmt, uuid);
	*bucket_of(mgmt, uuid) = refusal;
	mgmt->refusal_count++;
	return true;
}

static void reject_join(struct mgmt *mgmt, struct mgmt_join *join)
{
	struct ras_event event;

	must(join->error < 0);
	mgmt->stats.joins_refused++;
	if (join->is_refused && !join->request->serves && is_new_refusal(mgmt, join)) {
		ras_event_init(&event, RAS_ENGINE_JOIN_FAILED, "%s", join->why.text);
		event.message.rank = join->request->rank;
		mgmt_raise(mgmt, &event);
	}
	mgmt_fail(join->call, join->error, &join->why);
}

/* Pack major, minor and patch into one number, in the form that DAOS's engines compare. */
static uint32_t version_number(const char *version)
{
	unsigned int major = 0, minor = 0, patch = 0;

	if (sscanf(version, "%u.%u.%u", &major, &minor, &patch) < 2)
		return 0;
	return major << 16 | (minor & 0xff) << 8 | (patch & 0xff);
}

static void accept_join(struct mgmt *mgmt, struct mgmt_join *join)
{
	Mgmt__JoinResp response = MGMT__JOIN_RESP__INIT;
	Store__StorageReq **late = NULL;

	must(join->error == 0);
	must(system_member_by_rank(mgmt->system, join->member.rank));
	mgmt->stats.joins++;
	forget_refusals(mgmt, join->member.uuid);
	mgmt_map_forgotten(mgmt, join->member.address);
	mgmt_heard(mgmt, join->member.address);
	response.rank = join->member.rank;
	response.state = join->member.state == MEMBER_CHECKER_STARTED ? MGMT__JOIN_RESP__STATE__CHECK
								      : MGMT__JOIN_RESP__STATE__IN;
	response.faultdomain = join->member.domain;
	response.map_version = system_map_version(mgmt->system);
	response.daos_version = version_number(mgmt->version);
	if (!join->request->serves)
		response.n_storage = storage_late_requests(mgmt, join->member.rank, &late);
	response.storage = late;
	grpc_reply(join->call, &response.base);
	free(late);
	storage_check_missing(mgmt, system_member_by_rank(mgmt->system, join->member.rank));
}

/* Store the accepted joins from `first` up to `end` (exclusive; NULL: all), all or none. Returns their number. */
static uint32_t store_joins(struct mgmt *mgmt, struct mgmt_batch *batch, struct mgmt_join *first,
			    const struct mgmt_join *end, int error)
{
	struct fathom_fault why = { 0 };
	size_t decided = batch->count;
	uint32_t count = 0;

	must(first || decided == 0);
	if (error)
		mgmt_batch_drop(mgmt, batch);
	else
		error = mgmt_batch_commit(mgmt, batch, &why);
	mgmt->stats.join_batches += !error;
	for (struct mgmt_join *join = first; join != end; join = TAILQ_NEXT(join, link)) {
		if (join->error)
			continue;
		join->error = error;
		join->why = why;
		count += !error;
	}
	must(error || count == decided);
	must(batch->count == 0);
	return count;
}

/* Decide about each join after the previous ones are applied. As many as fit are stored in one transaction. */
static uint32_t decide_all(struct mgmt *mgmt)
{
	struct mgmt_join *first = TAILQ_FIRST(&mgmt->joins), *join;
	struct mgmt_batch batch = { 0 };
	struct fathom_fault why = { 0 };
	int error = mgmt_load_again(mgmt, &why);
	uint32_t count = 0;

	TAILQ_FOREACH (join, &mgmt->joins, link) {
		struct system_change change;

		if (batch.count == SYSTEM_STORE_MEMBERS_MAX) {
			count += store_joins(mgmt, &batch, first, join, error);
			error = mgmt_load_again(mgmt, &why);
			first = join;
		}
		if (error)
			continue; /* the error applies to all joins of this transaction */
		join->error = decide_join(mgmt, join, &change);
		join->is_refused = join->error && join->error != -ENOMEM;
		if (!join->error)
			error = mgmt_batch_add(mgmt, &batch, &change, &why);
	}
	return count + store_joins(mgmt, &batch, first, NULL, error);
}

/* Raise one event for the whole batch, because the start of a large system has many joins. */
static void raise_joined(struct mgmt *mgmt)
{
	struct rank_set joined = { 0 };
	const struct mgmt_join *join;
	char ranks[MGMT_RANKS_BYTES];
	int error = 0;

	TAILQ_FOREACH (join, &mgmt->joins, link) {
		if (!join->error && !error)
			error = rank_set_add(&joined, join->member.rank);
	}
	if (joined.count > 0)
		mgmt_raise_operation(mgmt, RAS_ENGINE_JOINED, NULL, NULL, "%s joined", mgmt_ranks_text(&joined, ranks));
	rank_set_deinit(&joined);
}

static void join_all(struct deadline *deadline)
{
	struct mgmt *mgmt = container_of(deadline, struct mgmt, join_deadline);
	uint64_t began = reactor_now();
	uint32_t count = decide_all(mgmt);
	struct mgmt_join *join;

	must(count <= mgmt->join_count);
	raise_joined(mgmt);
	TAILQ_FOREACH (join, &mgmt->joins, link) {
		if (!join->error && join->request->replace)
			storage_raise_lost(mgmt, join->member.rank);
	}
	probe_mgmt_joined(reactor_now(), count, system_map_version(mgmt->system), reactor_now() - began);
	while ((join = TAILQ_FIRST(&mgmt->joins))) {
		TAILQ_REMOVE(&mgmt->joins, join, link);
		mgmt->join_count--;
		if (join->error)
			reject_join(mgmt, join);
		else
			accept_join(mgmt, join);
		free(join);
	}
	must(mgmt->join_count == 0);
}

void mgmt_join(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__JoinReq *asked = (const Mgmt__JoinReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, false);
	struct fathom_fault why = { 0 };
	struct mgmt_join *join;
	int error;

	if (!mgmt)
		return;
	error = inject(INJECT_JOIN);
	if (error) {
		fill_fault(&why, error, "the join cannot be handled: %s", strerror(-error));
		mgmt_fail(call, error, &why);
		return;
	}
	if (mgmt->join_count >= mgmt->joins_max) {
		mgmt_fail(call, mgmt_refuse_full(mgmt, "joins", mgmt->join_count, &why), &why);
		return;
	}
	join = calloc(1, sizeof(*join));
	if (!join) {
		mgmt_fail(call, -ENOMEM, &why);
		return;
	}
	join->call = call;
	join->request = asked;
	TAILQ_INSERT_TAIL(&mgmt->joins, join, link);
	mgmt->join_count++;
	must(mgmt->join_count <= mgmt->joins_max);
	if (!mgmt->join_deadline.set)
		deadline_set(&mgmt->deadlines, &mgmt->join_deadline, mgmt->join_wait_ns, join_all);
}

void mgmt_joins_close(struct mgmt *mgmt)
{
	struct mgmt_join *join;

	while ((join = TAILQ_FIRST(&mgmt->joins))) {
		TAILQ_REMOVE(&mgmt->joins, join, link);
		mgmt->join_count--;
		grpc_fail(join->call, GRPC_UNAVAILABLE, NULL, "the management service ends");
		free(join);
	}
	forget_all_refusals(mgmt);
}
