/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls to the management service: build requests from arguments, and results from answers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/client/internal.h"
#include "control/fault/fault.h"
#include "rpc/proto/mgmt.pb-c.h"

#define ALL_STATES 0xffff /* the mask that DAOS's tools send */

/* ---- requests ---- */

static char *text_of(char *text)
{
	return text ? text : (char *)"";
}

/* Set the fields that all these requests share: system, ranks, hosts. */
#define PREPARE(message, control, chosen)                                                                                  \
	((message).sys = (control)->system, (message).ranks = text_of((chosen).ranks),                                     \
	 (message).hosts = text_of((chosen).hosts))

/* ---- members ---- */

static int compare_members(const void *a, const void *b)
{
	const struct fathom_control_member *left = a, *right = b;

	return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static void take_members(void *ctx, const ProtobufCMessage *message)
{
	const Mgmt__SystemQueryResp *response = (const Mgmt__SystemQueryResp *)message;
	struct fathom_control_members *result = ctx;
	struct arena *arena = result_arena(result);
	struct fathom_control_member *members = arena_array(arena, struct fathom_control_member, response->n_members);

	for (size_t i = 0; i < response->n_members; i++) {
		const Mgmt__SystemMember *from = response->members[i];

		members[i] = (struct fathom_control_member){
			.rank = from->rank,
			.state = arena_text(arena, from->state),
			.uuid = arena_text(arena, from->uuid),
			.address = arena_text(arena, from->addr),
			.fault_domain = arena_text(arena, from->fault_domain),
			.info = arena_text(arena, from->info),
			.incarnation = from->incarnation,
			.fabric_uri = arena_text(arena, from->fabric_uri),
			.fabric_contexts = from->fabric_contexts,
			.secondary_uris = arena_texts(arena, from->secondary_fabric_uris, from->n_secondary_fabric_uris),
			.secondary_uri_count = from->n_secondary_fabric_uris,
			.last_update = arena_text(arena, from->last_update),
		};
	}
	if (response->n_members > 0)
		qsort(members, response->n_members, sizeof(*members), compare_members);
	result->members = members;
	result->count = response->n_members;
	result->absent_ranks = arena_text(arena, response->absentranks);
	result->absent_hosts = arena_text(arena, response->absenthosts);
	result->providers = arena_texts(arena, response->providers, response->n_providers);
	result->provider_count = response->n_providers;
	result->self_heal = arena_text(arena, response->sys_self_heal_policy);
	result->data_version = response->data_version;
}

int fathom_control_query(struct fathom_control *control, const struct fathom_control_choice *choice, uint32_t states,
			 struct fathom_control_members **ret, struct fathom_fault *why)
{
	Mgmt__SystemQueryReq message = MGMT__SYSTEM_QUERY_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/SystemQuery",
		.name = "system query",
		.message = &message.base,
		.response = &mgmt__system_query_resp__descriptor,
		.again = AGAIN_READ,
	};
	struct fathom_control_members *result;
	struct chosen chosen;
	int error = choose(control, choice, &chosen, why);

	if (error)
		return error;
	PREPARE(message, control, chosen);
	message.state_mask = states ? states : ALL_STATES;
	result = result_create(sizeof(*result));
	error = service_result(control, &request, take_members, result, (void **)ret, why);
	chosen_free(&chosen);
	return error;
}

/* ---- leader, version ---- */

static void take_leader(void *ctx, const ProtobufCMessage *message)
{
	const Mgmt__LeaderQueryResp *response = (const Mgmt__LeaderQueryResp *)message;
	struct fathom_control_leader *result = ctx;
	struct arena *arena = result_arena(result);

	result->leader = arena_text(arena, response->current_leader);
	result->replicas = arena_texts(arena, response->replicas, response->n_replicas);
	result->replica_count = response->n_replicas;
	result->down_replicas = arena_texts(arena, response->downreplicas, response->n_downreplicas);
	result->down_replica_count = response->n_downreplicas;
}

int fathom_control_leader(struct fathom_control *control, struct fathom_control_leader **ret, struct fathom_fault *why)
{
	Mgmt__LeaderQueryReq message = MGMT__LEADER_QUERY_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/LeaderQuery",
		.name = "system leader-query",
		.message = &message.base,
		.response = &mgmt__leader_query_resp__descriptor,
		.again = AGAIN_READ,
	};
	struct fathom_control_leader *result = result_create(sizeof(*result));

	message.sys = control->system;
	return service_result(control, &request, take_leader, result, (void **)ret, why);
}

static void take_version(void *ctx, const ProtobufCMessage *message)
{
	const Mgmt__GetAttachInfoResp *response = (const Mgmt__GetAttachInfoResp *)message;
	struct fathom_control_version *result = ctx;
	const Mgmt__BuildInfo *build = response->build_info;

	result->tag = arena_text(result_arena(result), build ? build->tag : NULL);
	if (!build)
		return;
	result->major = build->major;
	result->minor = build->minor;
	result->patch = build->patch;
}

int fathom_control_version(struct fathom_control *control, struct fathom_control_version **ret, struct fathom_fault *why)
{
	Mgmt__GetAttachInfoReq message = MGMT__GET_ATTACH_INFO_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/GetAttachInfo",
		.name = "server version",
		.message = &message.base,
		.response = &mgmt__get_attach_info_resp__descriptor,
		.again = AGAIN_READ,
	};
	struct fathom_control_version *result = result_create(sizeof(*result));

	message.sys = control->system;
	message.all_ranks = true;
	return service_result(control, &request, take_version, result, (void **)ret, why);
}

/* ---- operations on ranks ---- */

static int compare_ranks(const void *a, const void *b)
{
	const struct fathom_control_rank *left = a, *right = b;

	return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static void take_ranks(struct fathom_control_ranks *result, Shared__RankResult *const *from, size_t count,
		       const char *absent_ranks, const char *absent_hosts)
{
	struct arena *arena = result_arena(result);
	struct fathom_control_rank *ranks = arena_array(arena, struct fathom_control_rank, count);

	for (size_t i = 0; i < count; i++) {
		ranks[i] = (struct fathom_control_rank){
			.rank = from[i]->rank,
			.action = arena_text(arena, from[i]->action),
			.errored = from[i]->errored,
			.message = arena_text(arena, from[i]->msg),
			.state = arena_text(arena, from[i]->state),
			.address = arena_text(arena, from[i]->addr),
		};
	}
	if (count > 0)
		qsort(ranks, count, sizeof(*ranks), compare_ranks);
	result->ranks = ranks;
	result->count = count;
	result->absent_ranks = arena_text(arena, absent_ranks);
	result->absent_hosts = arena_text(arena, absent_hosts);
}

static void take_started(void *ctx, const ProtobufCMessage *message)
{
	const Mgmt__SystemStartResp *response = (const Mgmt__SystemStartResp *)message;

	take_ranks(ctx, response->results, response->n_results, response->absentranks, response->absenthosts);
}

static void take_stopped(void *ctx, const ProtobufCMessage *message)
{
	const Mgmt__SystemStopResp *response = (const Mgmt__SystemStopResp *)message;

	take_ranks(ctx, response->results, response->n_results, response->absentranks, response->absenthosts);
}

static void take_excluded(void *ctx, const ProtobufCMessage *message)
{
	const Mgmt__SystemExcludeResp *response = (const Mgmt__SystemExcludeResp *)message;

	take_ranks(ctx, response->results, response->n_results, NULL, NULL);
}

static void take_erased(void *ctx, const ProtobufCMessage *message)
{
	const Mgmt__SystemEraseResp *response = (const Mgmt__SystemEraseResp *)message;

	take_ranks(ctx, response->results, response->n_results, NULL, NULL);
}

int fathom_control_start(struct fathom_control *control, const struct fathom_control_choice *choice,
			 bool ignore_admin_excluded, struct fathom_control_ranks **ret, struct fathom_fault *why)
{
	Mgmt__SystemStartReq message = MGMT__SYSTEM_START_REQ__INIT;
	Mgmt__SystemQueryReq look = MGMT__SYSTEM_QUERY_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/SystemStart",
		.name = "system start",
		.message = &message.base,
		.response = &mgmt__system_start_resp__descriptor,
		.again = AGAIN_SAME,
		.look = &look.base,
		.look_for = "joined",
	};
	struct fathom_control_ranks *result;
	struct chosen chosen;
	int error = choose(control, choice, &chosen, why);

	if (error)
		return error;
	PREPARE(message, control, chosen);
	PREPARE(look, control, chosen);
	look.state_mask = ALL_STATES;
	message.ignore_admin_excluded = ignore_admin_excluded;
	result = result_create(sizeof(*result));
	error = service_result(control, &request, take_started, result, (void **)ret, why);
	chosen_free(&chosen);
	return error;
}

int fathom_control_stop(struct fathom_control *control, const struct fathom_control_choice *choice, bool force,
			bool ignore_admin_excluded, struct fathom_control_ranks **ret, struct fathom_fault *why)
{
	Mgmt__SystemStopReq message = MGMT__SYSTEM_STOP_REQ__INIT;
	Mgmt__SystemQueryReq look = MGMT__SYSTEM_QUERY_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/SystemStop",
		.name = "system stop",
		.message = &message.base,
		.response = &mgmt__system_stop_resp__descriptor,
		.again = AGAIN_SAME,
		.look = &look.base,
		.look_for = "stopped",
	};
	struct fathom_control_ranks *result;
	struct chosen chosen;
	int error = choose(control, choice, &chosen, why);

	if (error)
		return error;
	PREPARE(message, control, chosen);
	PREPARE(look, control, chosen);
	look.state_mask = ALL_STATES;
	message.force = force;
	message.ignore_admin_excluded = ignore_admin_excluded;
	result = result_create(sizeof(*result));
	error = service_result(control, &request, take_stopped, result, (void **)ret, why);
	chosen_free(&chosen);
	return error;
}

int fathom_control_exclude(struct fathom_control *control, const struct fathom_control_choice *choice, bool clear,
			   struct fathom_control_ranks **ret, struct fathom_fault *why)
{
	Mgmt__SystemExcludeReq message = MGMT__SYSTEM_EXCLUDE_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/SystemExclude",
		.name = clear ? "system clear-exclude" : "system exclude",
		.message = &message.base,
		.response = &mgmt__system_exclude_resp__descriptor,
		.again = AGAIN_SAME,
	};
	struct fathom_control_ranks *result;
	struct chosen chosen;
	int error = choose(control, choice, &chosen, why);

	if (error)
		return error;
	PREPARE(message, control, chosen);
	message.clear = clear;
	result = result_create(sizeof(*result));
	error = service_result(control, &request, take_excluded, result, (void **)ret, why);
	chosen_free(&chosen);
	return error;
}

int fathom_control_erase(struct fathom_control *control, struct fathom_control_ranks **ret, struct fathom_fault *why)
{
	Mgmt__SystemEraseReq message = MGMT__SYSTEM_ERASE_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/SystemErase",
		.name = "system erase",
		.message = &message.base,
		.response = &mgmt__system_erase_resp__descriptor,
		.again = AGAIN_NEVER,
	};
	struct fathom_control_ranks *result = result_create(sizeof(*result));

	message.sys = control->system;
	return service_result(control, &request, take_erased, result, (void **)ret, why);
}
