/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * events - the events of this host: received from its engines and from the server, kept on disk, and sent to the
 * management service.
 *
 *	engine -> dRPC, or its spool after its death -> the host's spool (control/events) -> management service
 *
 * An event is answered when it is on disk, and leaves the spool when the management service has stored it: a crash of
 * either loses none. Each event has a number, so that none is stored twice. All functions on the control thread.
 */
#ifndef CONTROL_SERVER_EVENTS_EVENTS_H
#define CONTROL_SERVER_EVENTS_EVENTS_H

#include "control/server/core/core.h"
#include "rpc/drpc/drpc.h"
#include "rpc/ras/event.h"

/* Open the spool. Errors (explained). */
MUST_CHECK int events_open(struct server *server, struct fathom_fault *why);
/* Close the spool; events that were not sent stay on disk. Accepts events that are not open. */
void events_close(struct server *server);

/* Log and spool the server's event about that engine, unless the spool has it already. Borrows. */
void server_add_event(struct server *server, uint32_t instance, const Shared__RASEvent *event);
/* Log and spool an event of this server. Arguments as of mgmt_raise_operation(). */
void server_raise_operation(struct server *server, enum ras_id id, const char *operation, const char *who, const char *what,
			    ...) PRINTF_LIKE(5, 6);
/* Send the events that are on disk, unless a call for that is under way. */
void events_send(struct server *server);
/* The engine has no process: add the events of its own spool that no server has received, each once. */
void events_collect_engine_spool(struct server *server, struct instance *instance);

/* The dRPC method CLUSTER_EVENT. */
void call_cluster_event(struct drpc_call *call, const ProtobufCMessage *request);
/* Answer the waiting calls with DER_AGAIN: the engines retry them. Accepts events that are not open. */
void events_cancel_calls(struct server *server);

#endif
