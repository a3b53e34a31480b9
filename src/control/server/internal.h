/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server, internal: the frame.
 *
 *	daemon.c	the process		server.c	opens and closes the parts
 *	methods.c	the tables of gRPC and dRPC methods
 *	certificates.c	loads, reloads and watches the certificates
 *	helper.c	starts the privileged helper
 *	statistics.c	answers with the counters
 *	telemetry.c	serves the metrics of this host; see telemetry.h
 *	status.c	what the status page shows beside the metrics
 */
#ifndef CONTROL_SERVER_INTERNAL_H
#define CONTROL_SERVER_INTERNAL_H

#include "control/server/core/core.h"
#include "control/server/server.h"
#include "rpc/drpc/drpc.h"

struct server_frame {
	struct server server; /* first: the methods of the server find it by grpc_call_ctx() */
	struct grpc_tls *tls; /* NULL: without TLS */
	struct deadline certificate_due;
	int certificate_stages[2]; /* announced last, of certificate_step(): of our own and of the authority's */
	struct grpc_server *grpc;
	struct grpc_server *local_grpc; /* at 127.0.0.1; NULL: `grpc` is on loopback, or the port is taken */
	unsigned int local_failures;	/* to open it */
	struct deadline local_due;	/* of the next attempt */
	unsigned int grpc_drains;	/* of the two that are not over */
	struct drpc_server *drpc;
	struct telemetry *telemetry; /* NULL: without telemetry_port */
	uint64_t leave_by;	     /* tick */
	struct poller *leave_poller;
	void (*left)(void *ctx, bool is_clean);
	void *left_ctx;
};

/* All on the control thread. */

/* ---- server.c ---- */

/* Errors (explained); then server_leave() must not be called. */
MUST_CHECK int server_open(const struct server_options *options, struct server_frame **frame_ret, struct fathom_fault *why);
/*
 * Finish the calls under way, then close all parts. `left` is called once, later, when `frame` is freed; `is_clean` false:
 * a worker thread still waits for a device, `frame` still exists, and the process must _exit().
 */
void server_leave(struct server_frame *frame, void (*left)(void *ctx, bool is_clean), void *ctx);
/* Raise the event server_ended with a reason: "signal 15 of process 1, uid 0". Before server_leave(). */
void server_raise_end(struct server_frame *frame, const char *why);

/* ---- methods.c ---- */

/* All gRPC methods: of the host, of the management service, and those that are rejected with a reason. */
const struct grpc_method *server_grpc_methods(size_t *count_ret);
const struct drpc_method *server_drpc_methods(size_t *count_ret);

/* ---- statistics.c ---- */

/* The dRPC method STATS. */
void call_stats(struct drpc_call *call, const ProtobufCMessage *request);

/* ---- telemetry.c ---- */

/*
 * Serve the metrics of this host and its engines, if telemetry_port is set. A port that cannot be used is logged. Errors
 * (explained): -ENOMEM.
 */
MUST_CHECK int telemetry_open(struct server_frame *frame, struct fathom_fault *why);
void telemetry_close(struct server_frame *frame);
/* The certificates changed: read them again, and end connections with the old ones. */
void telemetry_renew(struct server_frame *frame);

/* ---- status.c ---- */

/* The text of /status.json; `frame` is a struct server_frame. The caller frees it. NULL: out of memory. */
char *server_status_text(void *frame);

/* ---- credentials.c ---- */

/* The dRPC method VALIDATE_CREDS of engines. */
void call_validate_credentials(struct drpc_call *call, const ProtobufCMessage *request);

/* ---- certificates.c ---- */

/* Read the certificates again. An error is logged, and the former certificates stay in use. */
void certificates_reload(struct server_frame *frame);
/* Check now and then every hour whether a certificate expires soon, or has expired: one event for each stage. */
void certificates_watch(struct server_frame *frame);

/* ---- helper.c ---- */

MUST_CHECK int helper_open(struct server_frame *frame, struct fathom_fault *why);
/* Ping the helper, which starts it, and log its fault: as an error if an engine's storage needs it. */
void helper_check(struct server_frame *frame);

#endif
