/* SPDX-License-Identifier: BSD-2-Clause */
/* Events that engines report over dRPC: CLUSTER_EVENT. A call is answered when its event is on disk. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/server/events/internal.h"
#include "rpc/proto/shared.pb-c.h"

static void answer_event(struct drpc_call *call, uint64_t sequence, int32_t status)
{
	Shared__ClusterEventResp answer = SHARED__CLUSTER_EVENT_RESP__INIT;

	must(status <= 0);
	answer.sequence = sequence;
	answer.status = status;
	drpc_reply(call, &answer.base);
}

void events_answer_calls(struct server_events *events, int32_t status)
{
	struct event_call *waiting;

	while ((waiting = STAILQ_FIRST(&events->calls))) {
		STAILQ_REMOVE_HEAD(&events->calls, link);
		answer_event(waiting->call, waiting->sequence, status);
		free(waiting);
	}
	must(STAILQ_EMPTY(&events->calls));
}

void events_cancel_calls(struct server *server)
{
	if (server->events)
		events_answer_calls(server->events, DER_AGAIN);
}

static int32_t event_status(int error)
{
	must(error <= 0);
	return error == 0 || error == -EALREADY ? 0
	       : error == -EINVAL		? DER_INVAL
	       : error == -ENOSPC		? DER_NOSPACE
						: DER_AGAIN;
}

/* The instance whose process it is, or that the event names. NULL: none. */
static struct instance *find_event_instance(struct server *server, pid_t pid, const Shared__RASEvent *event)
{
	must(server->instance_count <= SERVER_ENGINES_MAX);
	for (size_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(server->instances[i], &info);
		if (info.pid == pid)
			return server->instances[i];
	}
	/* an engine that has just started, or is not adopted yet */
	if (event->extended_info_case == SHARED__RASEVENT__EXTENDED_INFO_ENGINE_STATE_INFO &&
	    event->engine_state_info->instance < server->instance_count)
		return server->instances[event->engine_state_info->instance];
	return NULL;
}

static void wait_for_flush(struct server_events *events, struct drpc_call *call, uint64_t sequence)
{
	struct event_call *waiting = malloc(sizeof(*waiting));

	must(waiting);
	*waiting = (struct event_call){ .call = call, .sequence = sequence };
	STAILQ_INSERT_TAIL(&events->calls, waiting, link);
	must(spool_pending(events->spool) > 0 || spool_last(events->spool) > 0); /* its event is there */
	events_flush_soon(events);
}

void call_cluster_event(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Shared__ClusterEventReq *request = (const Shared__ClusterEventReq *)message;
	struct server *server = drpc_call_ctx(call);
	struct spool_origin origin = { .sequence = request->sequence };
	struct instance_info info;
	char about[64];
	struct instance *instance;
	struct fathom_fault why = { 0 };
	int error;

	must(server->events);
	if (!request->event || ras_event_check(request->event, &why) != 0) {
		log_warning("process %d reported an invalid event: %s", drpc_call_peer(call)->pid,
			    request->event ? why.text : "the request has none");
		answer_event(call, request->sequence, DER_INVAL);
		return;
	}
	instance = find_event_instance(server, drpc_call_peer(call)->pid, request->event);
	if (!instance || server->state == SERVER_LEAVING) {
		answer_event(call, request->sequence, DER_AGAIN); /* the engine retries; its instance may be known then */
		return;
	}
	instance_get_info(instance, &info);
	must(info.index < server->instance_count);
	origin.instance = info.index;
	origin.incarnation = request->event->incarnation;
	error = events_keep(server->events, instance, &origin, request->event, &why);
	if (error && error != -EALREADY) {
		snprintf(about, sizeof(about), "an event of engine %u is rejected", info.index);
		if (!why.error)
			error = fault(&why, error, "%s", strerror(-error));
		server_log_fault(LOG_LEVEL_ERROR, about, &why);
		answer_event(call, request->sequence, event_status(error));
		return;
	}
	wait_for_flush(server->events, call, request->sequence);
}
