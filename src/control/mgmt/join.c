/* SPDX-License-Identifier: BSD-2-Clause */
/* Joins: those that come within a moment are one transaction and one change of the map. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"
#include "control/status/status.h"
#include "reactor/reactor.h"

struct mgmt_join {
	TAILQ_ENTRY(mgmt_join) link;
	struct grpc_call *call;
	const Mgmt__JoinReq *request; /* lives as long as the call */
	struct member member;	      /* what it became */
	int error;
	struct fault why;
};

static size_t provider_bytes(const char *uri)
{
	const char *end = strstr(uri, "://");

	return end ? (size_t)(end - uri) : strlen(uri);
}

/* The first member's provider is the one that the configuration has; those after it must have the same. */
static int check_first_provider(const struct mgmt *mgmt, const Mgmt__JoinReq *request, struct fault *why)
{
	char given[MEMBER_URI_BYTES];
	size_t bytes = provider_bytes(request->uri);

	if (*request->uri && (system_member_count(mgmt->system) > 0 || !*mgmt->provider))
		return 0;
	if (*request->uri && strlen(mgmt->provider) == bytes && memcmp(request->uri, mgmt->provider, bytes) == 0)
		return 0;
	snprintf(given, sizeof(given), "%.*s", (int)min_u64(bytes, sizeof(given) - 1), request->uri);
	return fault_join_provider(why, given, mgmt->provider);
}

static size_t read_fabrics(const Mgmt__JoinReq *request, struct member_fabric *fabrics)
{
	size_t count = 1;

	memset(fabrics, 0, MEMBER_FABRICS_MAX * sizeof(*fabrics));
	(void)text_copy(fabrics[0].uri, sizeof(fabrics[0].uri), request->uri); /* it is that long only if it is no URI */
	fabrics[0].contexts = request->nctxs;
	for (size_t i = 0; i < request->n_secondary_uris && count < MEMBER_FABRICS_MAX; i++, count++) {
		(void)text_copy(fabrics[count].uri, sizeof(fabrics[count].uri), request->secondary_uris[i]);
		fabrics[count].contexts = i < request->n_secondary_nctxs ? request->secondary_nctxs[i] : 0;
	}
	return count;
}

/* Decide, and make it part of `batch`. */
static int decide(struct mgmt *mgmt, struct mgmt_join *join, struct mgmt_batch *batch)
{
	const Mgmt__JoinReq *request = join->request;
	struct member_fabric fabrics[MEMBER_FABRICS_MAX];
	struct join_request decision = {
		.uuid = request->uuid,
		.rank = request->rank,
		.incarnation = request->incarnation,
		.address = request->addr,
		.domain = request->srvfaultdomain,
		.fabrics = fabrics,
		.fabric_count = read_fabrics(request, fabrics),
		.is_replacement = request->replace,
		.is_for_checker = request->check_mode,
		.is_first_instance = request->idx == 0 && mgmt->replica_count > 0 &&
				     strcmp(request->addr, mgmt->replicas[0]) == 0,
	};
	struct system_change change;
	int error = check_first_provider(mgmt, request, &join->why);

	if (!error)
		error = system_join(mgmt->system, &decision, clock_realtime_ns(), &change, &join->why);
	if (!error) {
		error = mgmt_batch_add(mgmt, batch, &change, &join->why);
		join->member = change.member;
	}
	probe_mgmt_join(reactor_tick(), error ? request->rank : join->member.rank, request->incarnation, error);
	return error;
}

/* An engine that is refused tries again and again: that is one event. */
static bool is_news(struct mgmt *mgmt, const struct mgmt_join *join)
{
	struct mgmt_refusal refusal = { .code = join->why.code };

	if (member_uuid_parse(join->request->uuid, refusal.uuid) < 0)
		memset(refusal.uuid, 0, sizeof(refusal.uuid));
	for (size_t i = 0; i < MGMT_REFUSALS; i++) {
		if (mgmt->refusals[i].code == refusal.code &&
		    memcmp(mgmt->refusals[i].uuid, refusal.uuid, sizeof(refusal.uuid)) == 0)
			return false;
	}
	mgmt->refusals[mgmt->refusal_next++ % MGMT_REFUSALS] = refusal;
	return true;
}

static void forget_refusals(struct mgmt *mgmt, const uint8_t *uuid)
{
	for (size_t i = 0; i < MGMT_REFUSALS; i++) {
		if (memcmp(mgmt->refusals[i].uuid, uuid, MEMBER_UUID_BYTES) == 0)
			mgmt->refusals[i].code = 0;
	}
}

static void refuse(struct mgmt *mgmt, struct mgmt_join *join)
{
	struct ras_event event;

	mgmt->stats.joins_refused++;
	if (join->why.code != 0 && is_news(mgmt, join)) {
		ras_event_init(&event, RAS_ENGINE_JOIN_FAILED, "%s", join->why.text);
		event.message.rank = join->request->rank;
		mgmt_raise(mgmt, &event);
	}
	mgmt_fail(join->call, join->error, &join->why);
}

/* Three numbers of a version in one, as DAOS's engines compare them. */
static uint32_t version_number(const char *version)
{
	unsigned int major = 0, minor = 0, patch = 0;

	if (sscanf(version, "%u.%u.%u", &major, &minor, &patch) < 2)
		return 0;
	return major << 16 | (minor & 0xff) << 8 | (patch & 0xff);
}

static void accept(struct mgmt *mgmt, struct mgmt_join *join)
{
	Mgmt__JoinResp response = MGMT__JOIN_RESP__INIT;

	mgmt->stats.joins++;
	forget_refusals(mgmt, join->member.uuid);
	mgmt_map_forgotten(mgmt, join->member.address);
	response.rank = join->member.rank;
	response.state = join->member.state == MEMBER_CHECKER_STARTED ? MGMT__JOIN_RESP__STATE__CHECK
								      : MGMT__JOIN_RESP__STATE__IN;
	response.faultdomain = join->member.domain;
	response.map_version = system_map_version(mgmt->system);
	response.daos_version = version_number(mgmt->version);
	grpc_reply(join->call, &response.base);
}

static void join_all(struct deadline *deadline)
{
	struct mgmt *mgmt = container_of(deadline, struct mgmt, join_deadline);
	struct mgmt_batch batch = { 0 };
	uint64_t began = reactor_now();
	uint32_t count = 0;
	struct fault why = { 0 };
	struct mgmt_join *join;
	int error = 0;

	TAILQ_FOREACH (join, &mgmt->joins, link) {
		join->error = error ? error : decide(mgmt, join, &batch);
		count += !join->error;
		/* a refusal is that join's alone; a store or memory that fails is that of all */
		if (join->error && join->why.code == 0)
			error = join->error;
	}
	if (error)
		mgmt_batch_drop(mgmt, &batch);
	else
		error = mgmt_batch_commit(mgmt, &batch, &why);
	if (!error)
		mgmt->stats.join_batches++;
	probe_mgmt_joined(reactor_now(), count, system_map_version(mgmt->system), reactor_now() - began);
	while ((join = TAILQ_FIRST(&mgmt->joins))) {
		TAILQ_REMOVE(&mgmt->joins, join, link);
		if (error && !join->error) {
			join->error = error;
			join->why = why;
		}
		if (join->error)
			refuse(mgmt, join);
		else
			accept(mgmt, join);
		free(join);
	}
	mgmt->join_count = 0;
}

void mgmt_join(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__JoinReq *asked = (const Mgmt__JoinReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, false);
	struct fault why = { 0 };
	struct mgmt_join *join;

	if (!mgmt)
		return;
	join = mgmt->join_count < MGMT_JOINS_MAX ? calloc(1, sizeof(*join)) : NULL;
	if (!join) {
		mgmt_fail(call, -ENOMEM, &why);
		return;
	}
	join->call = call;
	join->request = asked;
	TAILQ_INSERT_TAIL(&mgmt->joins, join, link);
	mgmt->join_count++;
	if (!mgmt->join_deadline.set)
		deadline_set(&mgmt->deadlines, &mgmt->join_deadline, mgmt->join_wait_ns, join_all);
}

void mgmt_joins_close(struct mgmt *mgmt)
{
	struct mgmt_join *join;

	while ((join = TAILQ_FIRST(&mgmt->joins))) {
		TAILQ_REMOVE(&mgmt->joins, join, link);
		grpc_fail(join->call, GRPC_UNAVAILABLE, NULL, "the management service ends");
		free(join);
	}
}
