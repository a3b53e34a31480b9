/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engines - the engines' life under this server: creates and starts their instances, joins them to the system, reports
 * their states, and answers calls about them.
 *
 * An instance (control/instance) is one engine; this folder connects it to the management service and to its callers. The
 * spool of events must be open. All functions on the control thread.
 */
#ifndef CONTROL_SERVER_ENGINES_ENGINES_H
#define CONTROL_SERVER_ENGINES_ENGINES_H

#include "control/server/core/core.h"
#include "rpc/drpc/drpc.h"

/* Create an instance for each configured engine. Errors (explained). */
MUST_CHECK int engines_open(struct server *server, struct fathom_fault *why);
/* Adopt or start each engine, and begin the reports. */
void engines_start(struct server *server);
/* Let go of all engines, which keep running. Pending calls to the management service must have ended. Accepts none. */
void engines_close(struct server *server);

/* Start the waiting format calls, unless an engine's state is still unknown. LEAVING: they fail. Accepts none. */
void engines_begin_formats(struct server *server);

/* LEAVING: end the calls of engines about their storage. Accepts none. */
void engines_end_storage_calls(struct server *server);

/* Whether the management service takes the reports of this host. */
struct engines_report {
	uint64_t failing_ns;	 /* CLOCK_REALTIME of the first failure in a row; 0: the last report succeeded */
	struct fathom_fault why; /* of the latest one */
};
/* Borrowed until the next turn. */
const struct engines_report *engines_report(const struct server *server);

/* The dRPC method NOTIFY_READY. */
void call_notify_ready(struct drpc_call *call, const ProtobufCMessage *request);

/*
 * True: the management service rejects this engine, and a retry fails until an operator acts. False: the fault is in the
 * management service or on the way to it (disk, memory, certificates), and the join is retried.
 */
bool engines_is_join_rejected(const struct fathom_fault *why);

#endif
