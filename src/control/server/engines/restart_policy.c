/* SPDX-License-Identifier: BSD-2-Clause */
/* The restart policies of all engines: from the configuration, changed by EngineSetRestart until the server ends. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/engines/internal.h"
#include "control/server/events/events.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

static uint64_t duration_of(const char *text)
{
	uint64_t ns = 0;

	must(text_parse_duration(text, &ns) == 0); /* checked by server_config_read() */
	return ns;
}

void restart_policies_init(struct server_engines *engines)
{
	const struct server_config *config = engines->server->config;

	static_assert((int)SERVER_CAUSES == (int)INSTANCE_CAUSES, "");
	for (int cause = 0; cause < INSTANCE_CAUSES; cause++) {
		const struct server_restart *configured = &config->restart[cause];

		must(strcmp(server_cause_names[cause], instance_cause_word((enum instance_cause)cause)) == 0);
		engines->restart[cause] = (struct instance_restart){
			.restart = configured->restart && !config->disable_engine_auto_restart,
			.delay_min_ns = duration_of(configured->delay_min),
			.delay_max_ns = duration_of(configured->delay_max),
			.limit = (uint32_t)configured->limit,
		};
	}
	for (int cause = 0; cause < INSTANCE_CAUSES; cause++)
		must(engines->restart[cause].delay_min_ns <= engines->restart[cause].delay_max_ns);
	if (config->engine_auto_restart_min_delay) {
		struct instance_restart *restart = &engines->restart[INSTANCE_SELF_TERMINATED];

		restart->delay_min_ns = config->engine_auto_restart_min_delay * NS_PER_SEC;
		if (restart->delay_max_ns < restart->delay_min_ns)
			restart->delay_max_ns = restart->delay_min_ns;
	}
}

static int check_restart_policy(const Fathom__RestartPolicy *policy, enum instance_cause *cause_ret,
				struct fathom_fault *why)
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

static int set_restart_policies(struct server *server, const Fathom__EngineSetRestartReq *request, struct fathom_fault *why)
{
	enum instance_cause cause;
	int error = 0;

	/* all policies, or none, are set: check them first */
	for (size_t i = 0; !error && i < request->n_policies; i++)
		error = check_restart_policy(request->policies[i], &cause, why);
	for (size_t i = 0; !error && i < request->n_policies; i++) {
		const Fathom__RestartPolicy *policy = request->policies[i];
		const struct instance_restart restart = {
			.restart = policy->restart,
			.delay_min_ns = policy->delay_min_ms * NS_PER_MS,
			.delay_max_ns = policy->delay_max_ms * NS_PER_MS,
			.limit = policy->limit,
		};

		must(check_restart_policy(policy, &cause, why) == 0);
		must(restart.delay_min_ns <= restart.delay_max_ns);
		server->engines->restart[cause] = restart;
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
	if (set_restart_policies(server, request, &why) != 0) {
		call_fail(call, &why);
		return;
	}
	for (size_t i = 0; i < request->n_policies; i++) {
		const Fathom__RestartPolicy *policy = request->policies[i];

		server_raise_operation(server, RAS_RESTART_POLICY_CHANGED, "server restart-policy",
				       grpc_call_who(call, who), "engines that ended as \"%s\" are %sstarted again",
				       policy->cause, policy->restart ? "" : "not ");
	}
	answer.policies = arena_take(&arena, INSTANCE_CAUSES * sizeof(*answer.policies));
	for (int cause = 0; cause < INSTANCE_CAUSES; cause++) {
		Fathom__RestartPolicy *policy = arena_message(&arena, fathom__restart_policy, Fathom__RestartPolicy);
		const struct instance_restart *restart = &server->engines->restart[cause];

		policy->cause = (char *)instance_cause_word((enum instance_cause)cause);
		policy->restart = restart->restart;
		policy->delay_min_ms = restart->delay_min_ns / NS_PER_MS;
		policy->delay_max_ms = restart->delay_max_ns / NS_PER_MS;
		policy->limit = restart->limit;
		answer.policies[answer.n_policies++] = policy;
	}
	must(answer.n_policies == INSTANCE_CAUSES);
	grpc_reply(call, &answer.base);
	arena_free(&arena);
}
