/* SPDX-License-Identifier: BSD-2-Clause */
/* NOTIFY_READY: an engine reports over dRPC that it is ready. It repeats the call until it has an answer. */
#include "control/fault/fault.h"
#include "control/server/engines/internal.h"
#include "rpc/proto/srv.pb-c.h"

/* Logs once for each process: an engine repeats NOTIFY_READY. */
static void log_stranger(struct server *server, pid_t pid, uint32_t instance)
{
	pid_t *logged = &server->engines->strangers[instance % SERVER_ENGINES_MAX];
	struct fathom_fault why;

	must(instance >= server->instance_count);
	if (*logged == pid)
		return;
	*logged = pid;
	fill_fault_engine_not_configured(&why, (uint32_t)pid, instance); /* reported */
	server_log_fault(LOG_LEVEL_ERROR, "an engine is not managed", &why);
}

void call_notify_ready(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Srv__NotifyReadyReq *ready = (const Srv__NotifyReadyReq *)message;
	struct server *server = drpc_call_ctx(call);

	must(server->engines);
	if (ready->instanceidx >= server->instance_count || server->state == SERVER_LEAVING) {
		if (server->state != SERVER_LEAVING)
			log_stranger(server, drpc_call_peer(call)->pid, ready->instanceidx);
		drpc_fail(call, DRPC_FAILURE);
		return;
	}
	instance_notify_ready(server->instances[ready->instanceidx], ready, drpc_call_peer(call)->pid);
	drpc_reply(call, NULL);
}
