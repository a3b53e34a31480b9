/* SPDX-License-Identifier: BSD-2-Clause */
/* What rpc/drpc/server.c (sockets) and rpc/drpc/call.c (what is in the messages) know of each other. */
#ifndef DRPC_SERVER_H
#define DRPC_SERVER_H

#include "base/listener.h"
#include "rpc/drpc/internal.h"

struct drpc_server {
	struct drpc_server_options options; /* complete: nothing is 0 */
	struct listener at;
	struct fd_watch *watch;
	struct deadlines deadlines;
	struct deadline accept_again; /* descriptors had ended */
	TAILQ_HEAD(, drpc_connection) connections;
	TAILQ_HEAD(, drpc_call) calls;
	struct drpc_server_stats stats;
	struct fathom_thread *thread;
	uint32_t stepping_count; /* connections whose step is on the stack */
};

/* ---- server.c ---- */

void drpc_server_connection_close(struct drpc_connection *connection, enum drpc_close_reason reason);
/* Send `bytes` of `data`, which are taken; the state becomes SENDING. May close the connection, unless it is stepping. */
void drpc_server_send(struct drpc_connection *connection, uint8_t *data, uint64_t bytes);

/* ---- call.c ---- */

/* Begin the call that is complete in `connection->in`, which is WORKING. False: no memory. */
MUST_CHECK bool drpc_call_begin(struct drpc_connection *connection);

#endif
