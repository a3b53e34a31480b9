/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dRPC calls of the engines: they report that they are ready, and send events. An event is answered when it is on disk; all
 * events of one turn are written together.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/fault/fault.h"
#include "control/server/core/core.h"
#include "control/server/core/probes.gen.h"
#include "rpc/drpc/drpc.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/proto/shared.pb-c.h"
#include "rpc/ras/event.h"

/* Status of a response: 0, or one of DAOS's error numbers. INVAL: permanent, the engine must not retry the event. */
enum { DER_INVAL = -1003, DER_NOSPACE = -1007, DER_MISC = -1025, DER_AGAIN = -2035 };

enum { FLUSH_AGAIN_MS = 1000 };

/* An event whose sender waits for the flush. */
struct event_call {
	STAILQ_ENTRY(event_call) link;
	struct drpc_call *call;
	uint64_t sequence;
};

/* Logs once for each process: an engine repeats NOTIFY_READY. */
static void log_stranger(struct server *server, pid_t pid, uint32_t instance)
{
	pid_t *told = &server->strangers[instance % SERVER_ENGINES_MAX];
	struct fathom_fault why;

	if (*told == pid)
		return;
	*told = pid;
	fill_fault_engine_not_configured(&why, (uint32_t)pid, instance); /* reported */
	server_log_fault(LOG_LEVEL_ERROR, "an engine is left to itself", &why);
}

static void call_notify_ready(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Srv__NotifyReadyReq *ready = (const Srv__NotifyReadyReq *)message;
	struct server *server = drpc_call_ctx(call);

	if (ready->instanceidx >= server->instance_count || server->state == SERVER_LEAVING) {
		if (server->state != SERVER_LEAVING)
			log_stranger(server, drpc_call_peer(call)->pid, ready->instanceidx);
		drpc_fail(call, DRPC_FAILURE);
		return;
	}
	instance_notify_ready(server->instances[ready->instanceidx], ready, drpc_call_peer(call)->pid);
	drpc_reply(call, NULL);
}

static void answer_event(struct drpc_call *call, uint64_t sequence, int32_t status)
{
	Shared__ClusterEventResp answer = SHARED__CLUSTER_EVENT_RESP__INIT;

	answer.sequence = sequence;
	answer.status = status;
	drpc_reply(call, &answer.base);
}

static void retry_flush(struct deadline *deadline);

/* Write the events of this turn to the disk, and answer their calls. */
static void flush_events_now(void *ctx)
{
	struct server *server = ctx;
	struct event_call *waiting;
	struct fathom_fault why = { 0 };
	int error;

	server->is_flush_due = false;
	server->jobs--;
	error = spool_flush(server->spool, &why);
	if (error) {
		if (!server->is_flush_failing)
			server_log_fault(LOG_LEVEL_ERROR, "events are kept in memory", &why);
		deadline_set(&server->deadlines, &server->flush_again, FLUSH_AGAIN_MS * NS_PER_MS, retry_flush);
	}
	server->is_flush_failing = error != 0;
	while ((waiting = STAILQ_FIRST(&server->events))) {
		STAILQ_REMOVE_HEAD(&server->events, link);
		answer_event(waiting->call, waiting->sequence, error ? DER_AGAIN : 0);
		free(waiting);
	}
	if (!error)
		uplink_kick(server);
}

void server_flush_events(struct server *server)
{
	if (server->is_flush_due)
		return;
	server->is_flush_due = true;
	server->jobs++;
	thread_send_msg(thread_self(), flush_events_now, server);
}

/* Engines retry their events, but the server's own events are only in this spool: so retry the flush. */
static void retry_flush(struct deadline *deadline)
{
	server_flush_events(container_of(deadline, struct server, flush_again));
}

static void log_event(const Shared__RASEvent *event)
{
	char line[RAS_LINE_BYTES];

	log_line(event->severity == RAS_SEVERITY_ERROR	   ? LOG_LEVEL_ERROR
		 : event->severity == RAS_SEVERITY_WARNING ? LOG_LEVEL_WARNING
							   : LOG_LEVEL_NOTICE,
		 "event %s", ras_event_line(event, line));
}

static int32_t status_of(int error)
{
	return error == 0 || error == -EALREADY ? 0
	       : error == -EINVAL		? DER_INVAL
	       : error == -ENOSPC		? DER_NOSPACE
						: DER_AGAIN;
}

/* The instance whose process it is, or that the event names. NULL: none. */
static struct instance *instance_of(struct server *server, pid_t pid, const Shared__RASEvent *event)
{
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

int server_keep_event(struct server *server, struct instance *instance, const struct spool_origin *origin,
		      const Shared__RASEvent *event, struct fathom_fault *why)
{
	int error = spool_add(server->spool, origin, event, why);

	if (error)
		return error;
	log_event(event);
	instance_note_event(instance, event);
	return 0;
}

static void call_cluster_event(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Shared__ClusterEventReq *request = (const Shared__ClusterEventReq *)message;
	struct server *server = drpc_call_ctx(call);
	struct spool_origin origin = { .sequence = request->sequence };
	struct event_call *waiting;
	struct instance_info info;
	char about[64];
	struct instance *instance;
	struct fathom_fault why = { 0 };
	int error;

	if (!request->event || ras_event_check(request->event, &why) != 0) {
		log_warning("process %d sends what is no event: %s", drpc_call_peer(call)->pid,
			    request->event ? why.text : "nothing");
		answer_event(call, request->sequence, DER_INVAL);
		return;
	}
	instance = instance_of(server, drpc_call_peer(call)->pid, request->event);
	if (!instance || server->state == SERVER_LEAVING) {
		answer_event(call, request->sequence, DER_AGAIN); /* the engine retries; its instance may be known then */
		return;
	}
	instance_get_info(instance, &info);
	origin.instance = info.index;
	origin.incarnation = request->event->incarnation;
	error = server_keep_event(server, instance, &origin, request->event, &why);
	if (error && error != -EALREADY) {
		snprintf(about, sizeof(about), "an event of engine %u is not taken", info.index);
		if (!why.error)
			error = fault(&why, error, "%s", strerror(-error));
		server_log_fault(LOG_LEVEL_ERROR, about, &why);
		answer_event(call, request->sequence, status_of(error));
		return;
	}
	waiting = malloc(sizeof(*waiting));
	must(waiting);
	*waiting = (struct event_call){ .call = call, .sequence = request->sequence };
	STAILQ_INSERT_TAIL(&server->events, waiting, link);
	server_flush_events(server);
}

void server_add_event(struct server *server, uint32_t instance, const Shared__RASEvent *event)
{
	const struct spool_origin origin = { SPOOL_INSTANCES_MAX + instance, event->incarnation, 1 };
	/* the next server may raise the death event of a note again: the origin lets the spool recognise it */
	bool comes_again = (event->id == RAS_ENGINE_DIED || event->id == RAS_ENGINE_SELF_TERMINATED) &&
			   event->incarnation != 0;
	struct fathom_fault why = { 0 };
	int error = spool_add(server->spool, comes_again ? &origin : NULL, event, &why);

	if (error == -EALREADY)
		return;
	log_event(event);
	if (!error) {
		server_flush_events(server);
		return;
	}
	if (!why.error)
		error = fault(&why, error, "%s", strerror(-error));
	maybe(error != why.error);
	server_log_fault(LOG_LEVEL_ERROR, "an event of this server is not kept", &why);
}

void server_tell(struct server *server, enum ras_id id, const char *operation, const char *who, const char *format, ...)
{
	struct ras_event event;
	va_list args;

	va_start(args, format);
	ras_event_init_done(&event, id, operation, who, format, args);
	va_end(args);
	server_add_event(server, 0, &event.message);
}

void server_cancel_events(struct server *server)
{
	struct event_call *waiting;

	while ((waiting = STAILQ_FIRST(&server->events))) {
		STAILQ_REMOVE_HEAD(&server->events, link);
		answer_event(waiting->call, waiting->sequence, DER_AGAIN);
		free(waiting);
	}
}

static const struct drpc_method methods[] = {
	{ DRPC_MODULE_SRV, DRPC_SRV_NOTIFY_READY, "NOTIFY_READY", &srv__notify_ready_req__descriptor, call_notify_ready },
	{ DRPC_MODULE_SRV, DRPC_SRV_CLUSTER_EVENT, "CLUSTER_EVENT", &shared__cluster_event_req__descriptor,
	  call_cluster_event },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_BACKUP, "BACKUP", &fathom__backup_req__descriptor, call_backup },
};

int server_open_drpc(struct server *server, struct fathom_fault *why)
{
	char path[SERVER_PATH_BYTES];
	const struct drpc_server_options options = {
		.path = path,
		.methods = methods,
		.method_count = ARRAY_COUNT(methods),
		.ctx = server,
		.option = "socket_dir",
	};
	int error;

	snprintf(path, sizeof(path), "%s/" SERVER_SOCKET, server->config->socket_dir);
	error = drpc_server_open(&options, &server->drpc, why);
	return error == -EADDRINUSE ? fault_socket_in_use(why, path) : error;
}
