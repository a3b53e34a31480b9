/* SPDX-License-Identifier: BSD-2-Clause */
/* Methods of /fathom.ControlSvc about the engines of this host: states, restart policies, group maps. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/core/core.h"
#include "control/status/status.h"

bool server_is_addressed(const struct server *server, struct grpc_call *call, const char *sys)
{
	struct fathom_fault why;

	if (mgmt_check_system(sys, server->config->name, &why) == 0)
		return true;
	call_fail(call, &why);
	return false;
}

void call_group_update(struct grpc_call *call, const ProtobufCMessage *request)
{
	Mgmt__GroupUpdateResp answer = MGMT__GROUP_UPDATE_RESP__INIT;
	struct server *server = server_of(call);

	for (size_t i = 0; i < server->instance_count; i++)
		instance_group_update(server->instances[i], (const Mgmt__GroupUpdateReq *)request);
	grpc_reply(call, &answer.base);
}

static Fathom__EngineQueryResp__Engine *engine_row(const struct instance *instance, struct arena *arena)
{
	Fathom__EngineQueryResp__Engine *row = arena_message(arena, fathom__engine_query_resp__engine,
							     Fathom__EngineQueryResp__Engine);
	char uuid[MEMBER_UUID_TEXT_BYTES];
	struct instance_info info;

	instance_get_info(instance, &info);
	row->index = info.index;
	row->state = arena_text(arena, instance_state_name(info.state));
	for (char *letter = row->state; *letter; letter++)
		*letter = (char)tolower(*letter);
	row->rank = info.rank;
	row->uuid = arena_text(arena, info.has_uuid ? member_uuid_format(info.uuid, uuid) : "");
	row->incarnation = info.incarnation;
	row->pid = (uint64_t)info.pid;
	row->adopted = info.is_adopted;
	row->uri = arena_text(arena, info.uri);
	row->storage = arena_text(arena, info.storage);
	row->info = info.why.error ? arena_format(arena, "%s%s%s", info.why.text, info.why.resolution[0] ? "; " : "",
						  info.why.resolution)
				   : arena_text(arena, "");
	row->starts = info.starts;
	row->restart_in_ms = (info.restart_in_ns + NS_PER_MS - 1) / NS_PER_MS;
	row->last_end = arena_text(arena, info.last_end);
	row->rpc_socket = arena_text(arena, info.rpc_socket);
	row->version = arena_text(arena, info.version);
	return row;
}

void call_engine_query(struct grpc_call *call, const ProtobufCMessage *request)
{
	Fathom__EngineQueryResp answer = FATHOM__ENGINE_QUERY_RESP__INIT;
	struct server *server = server_of(call);
	struct arena arena = { 0 };

	if (!server_is_addressed(server, call, ((const Fathom__EngineQueryReq *)request)->sys))
		return;
	answer.engines = arena_take(&arena, (server->instance_count + 1) * sizeof(*answer.engines));
	for (size_t i = 0; i < server->instance_count; i++)
		answer.engines[answer.n_engines++] = engine_row(server->instances[i], &arena);
	answer.version = (char *)server->options->version;
	grpc_reply(call, &answer.base);
	arena_free(&arena);
}

/* ---- restart policies ---- */

static int check_policy(const Fathom__RestartPolicy *policy, enum instance_cause *cause_ret, struct fathom_fault *why)
{
	for (int cause = 0; cause < INSTANCE_CAUSES; cause++) {
		if (strcmp(instance_cause_word((enum instance_cause)cause), policy->cause) != 0)
			continue;
		if (policy->delay_min_ms > policy->delay_max_ms || policy->delay_max_ms > DURATION_NS_MAX / NS_PER_MS)
			return fault_restart_delay(why, policy->cause, policy->delay_min_ms, policy->delay_max_ms);
		*cause_ret = (enum instance_cause)cause;
		return 0;
	}
	return fault_restart_cause(why, policy->cause);
}

static int set_policies(struct server *server, const Fathom__EngineSetRestartReq *request, struct fathom_fault *why)
{
	enum instance_cause cause;
	int error = 0;

	/* all policies, or none, are set: check them first */
	for (size_t i = 0; !error && i < request->n_policies; i++)
		error = check_policy(request->policies[i], &cause, why);
	for (size_t i = 0; !error && i < request->n_policies; i++) {
		const Fathom__RestartPolicy *policy = request->policies[i];
		const struct instance_restart restart = {
			.restart = policy->restart,
			.delay_min_ns = policy->delay_min_ms * NS_PER_MS,
			.delay_max_ns = policy->delay_max_ms * NS_PER_MS,
			.limit = policy->limit,
		};

		must(check_policy(policy, &cause, why) == 0);
		server->restart[cause] = restart;
		for (size_t instance = 0; instance < server->instance_count; instance++)
			instance_set_restart(server->instances[instance], cause, &restart);
	}
	return error;
}

void call_engine_set_restart(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__EngineSetRestartReq *request = (const Fathom__EngineSetRestartReq *)message;
	Fathom__EngineSetRestartResp answer = FATHOM__ENGINE_SET_RESTART_RESP__INIT;
	struct server *server = server_of(call);
	struct arena arena = { 0 };
	char who[GRPC_WHO_BYTES];
	struct fathom_fault why;

	if (!server_is_addressed(server, call, request->sys))
		return;
	if (set_policies(server, request, &why) != 0) {
		call_fail(call, &why);
		return;
	}
	for (size_t i = 0; i < request->n_policies; i++) {
		const Fathom__RestartPolicy *policy = request->policies[i];

		server_tell(server, RAS_RESTART_POLICY_CHANGED, "server restart-policy", grpc_call_who(call, who),
			    "engines that ended as \"%s\" are %sstarted again", policy->cause,
			    policy->restart ? "" : "not ");
	}
	answer.policies = arena_take(&arena, INSTANCE_CAUSES * sizeof(*answer.policies));
	for (int cause = 0; cause < INSTANCE_CAUSES; cause++) {
		Fathom__RestartPolicy *policy = arena_message(&arena, fathom__restart_policy, Fathom__RestartPolicy);
		const struct instance_restart *restart = &server->restart[cause];

		policy->cause = (char *)instance_cause_word((enum instance_cause)cause);
		policy->restart = restart->restart;
		policy->delay_min_ms = restart->delay_min_ns / NS_PER_MS;
		policy->delay_max_ms = restart->delay_max_ns / NS_PER_MS;
		policy->limit = restart->limit;
		answer.policies[answer.n_policies++] = policy;
	}
	grpc_reply(call, &answer.base);
	arena_free(&arena);
}
