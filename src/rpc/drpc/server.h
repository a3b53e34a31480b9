/* SPDX-License-Identifier: BSD-2-Clause */
/* server - shared by rpc/drpc/server.c (sockets) and rpc/drpc/call.c (messages). */
#ifndef DRPC_SERVER_H
#define DRPC_SERVER_H

#include "base/listener.h"
#include "rpc/drpc/internal.h"

struct drpc_server {
	struct drpc_server_options options; /* with all defaults filled in */
	struct listener at;
	struct fd_watch *watch;
	struct deadlines deadlines;
	struct deadline accept_again; /* after running out of descriptors */
	TAILQ_HEAD(, drpc_connection) connections;
	TAILQ_HEAD(, drpc_call) calls;
	struct drpc_server_stats stats;
	struct fathom_thread *thread;
	uint32_t stepping_count; /* connections whose step function is on the stack */
};

/* ---- server.c ---- */

void drpc_server_connection_close(struct drpc_connection *connection, enum drpc_close_reason reason);
/* Send `bytes` of `data`, which it takes; the state becomes SENDING. May close the connection, unless it is stepping. */
void drpc_server_send(struct drpc_connection *connection, uint8_t *data, uint64_t bytes);

/* ---- call.c ---- */

/* Begin the call that was received into `connection->in`. The connection is WORKING. False: out of memory. */
MUST_CHECK bool drpc_call_begin(struct drpc_connection *connection);

#endif
