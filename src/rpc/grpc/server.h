/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by rpc/grpc/server.c (connections) and rpc/grpc/call.c (calls). */
#ifndef GRPC_SERVER_H
#define GRPC_SERVER_H

#include "rpc/grpc/internal.h"

struct grpc_server {
	struct grpc_server_options options; /* complete */
	const struct trace_istr **names;    /* of the methods, for the trace */
	const struct trace_istr *unknown;
	int fd;
	uint16_t port;
	struct fd_watch *watch;
	struct deadlines deadlines;
	struct deadline accept_again, drain;
	void (*drained)(void *ctx);
	void *drained_ctx;
	TAILQ_HEAD(, grpc_link) links;
	TAILQ_HEAD(, grpc_call) calls;
	struct grpc_server_stats stats;
	struct fathom_thread *thread;
};

/* The stream or its link has closed: free the call, unless its method still has it. */
void call_left(struct grpc_call *call);

#endif
