/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the server share. */
#ifndef CONTROL_SERVER_INTERNAL_H
#define CONTROL_SERVER_INTERNAL_H

#include "base/list.h"
#include "control/server/facts.h"
#include "control/server/server.h"
#include "control/server/states.gen.h"
#include "control/server/worker.h"
#include "fathom/trace/trace.h"
#include "grpc/grpc.h"
#include "grpc/tls.h"

/* A call that waits for the scan. */
struct scan_caller {
	TAILQ_ENTRY(scan_caller) link;
	struct grpc_call *call;
	const ProtobufCMessage *request;
};

/* One kind of scan: one at a time, its answer for all who wait. */
struct scan {
	struct worker_job job;
	struct server *server;
	const char *what;
	bool is_running;
	uint64_t began;
	TAILQ_HEAD(scan_callers, scan_caller) callers;
	union {
		struct storage_facts storage;
		struct network_facts network;
	};
};

struct server {
	struct trace_object trace;
	enum server_state state;
	const struct server_options *options;
	const struct server_config *config;
	const struct server_places *places;
	struct provider *os;

	struct grpc_tls *tls; /* NULL: in the clear */
	struct grpc_server *grpc;
	struct scan storage_scan, network_scan;
	unsigned int jobs; /* on threads of their own */
	uint64_t leave_by; /* tick */
	struct poller *leave_poller;
	void (*left)(void *ctx, bool is_clean);
	void *left_ctx;
};

/* ---- server.c ---- */

/* On the control thread. Errors (explained); then there is nothing to leave. */
MUST_CHECK int server_open(const struct server_options *options, struct server **server_ret, struct fault *why);
/*
 * Finish calls under way, let go of everything. `left` is called once, later, when the server is gone; `is_clean` false: a
 * thread still waits for a device, and the process should end without another word.
 */
void server_leave(struct server *server, void (*left)(void *ctx, bool is_clean), void *ctx);
/* Certificates are read again. What is wrong is logged, and all stays as it was. */
void server_reload(struct server *server);

/* ---- scan.c ---- */

void scan_init(struct scan *scan, struct server *server, const char *what);
void call_storage_scan(struct grpc_call *call, const ProtobufCMessage *request);
void call_network_scan(struct grpc_call *call, const ProtobufCMessage *request);

static inline struct server *server_of(const struct grpc_call *call)
{
	return grpc_call_ctx(call);
}

#endif
