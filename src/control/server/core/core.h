/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core - what the parts of fathom-server share: configuration, clients, instances, and a pointer to each part.
 *
 * grpc_call_ctx() and drpc_call_ctx() of every method are the server. methods.gen.h, made from control/operation, declares
 * the gRPC methods of this host; their functions are in the folders of the parts. A part's structure is known to its own
 * folder only:
 *
 *	events		the spool of events; what is sent to the management service		events/
 *	database	the system's database and its copies, on the management host		database/
 *	engines		the engines' life: start, join, restart, report				engines/
 *	health		the health of this host's devices					health/
 *	scans		scans of this host							host/
 *	doctor		what the doctor finds on this host					doctor/
 *	collection	the latest collection of logs						collection/
 *
 * The frame (control/server/server.c) opens the parts from the lowest to the highest. Everything runs on the control
 * thread; blocking work has a worker thread (base/reactor/worker.h).
 */
#ifndef CONTROL_SERVER_CORE_CORE_H
#define CONTROL_SERVER_CORE_CORE_H

#include "base/log.h"
#include "base/reactor/deadline.h"
#include "base/reactor/reactor.h"
#include "control/helper/client.h"
#include "control/instance/instance.h"
#include "control/mgmt/mgmt.h"
#include "control/server/core/arena.h"
#include "control/server/core/methods.gen.h"
#include "control/server/core/options.h"
#include "control/server/core/statistics.h"
#include "control/server/core/states.gen.h"
#include "fathom/trace/trace.h"
#include "rpc/grpc/grpc.h"
#include "rpc/proto/ctl.pb-c.h"

enum { SERVER_PATH_BYTES = 4352, SERVER_SYSTEM_BYTES = 96 };
static_assert(CONFIG_STRING_BYTES_MAX + 256 <= SERVER_PATH_BYTES, "a folder of the configuration and a name of ours fit");

struct server {
	struct mgmt_of_call of_call; /* first: methods of the management service find it by grpc_call_ctx() */
	struct trace_object trace;
	enum server_state state;
	const struct server_options *options;
	const struct server_config *config;
	const struct server_places *places;
	const char *replicas[1];
	struct provider *os;
	struct deadlines deadlines;
	char system[SERVER_SYSTEM_BYTES]; /* "fathom-0.1.0", as requests name it */
	struct grpc_client *client;
	struct helper_client *helper;
	struct instance *instances[SERVER_ENGINES_MAX]; /* of the configured engines, in their order */
	uint32_t instance_count;
	struct server_stats stats;
	unsigned int jobs; /* worker threads and messages under way; the server is not freed before they end */

	/* the parts; NULL: not open */
	struct server_events *events;
	struct server_database *database; /* NULL also if the management service is elsewhere */
	struct server_engines *engines;
	struct server_health *health;
	struct server_scans *scans;
	struct server_doctor *doctor;
	struct collection *collection; /* NULL also before the first collection */
};

/* All on the control thread. */

static inline struct server *server_of(const struct grpc_call *call)
{
	return grpc_call_ctx(call);
}

/* Job: work outside of this turn that uses the server. server_job_end() is called on the control thread. */
void server_job_begin(struct server *server);
void server_job_end(struct server *server);

/* A call to the management service, by gRPC also if it is in this server, so that there is only one path. */
struct server_mgmt_call {
	const char *path; /* "/mgmt.MgmtSvc/Join" */
	const ProtobufCMessage *request;
	const ProtobufCMessageDescriptor *response;
	uint32_t seconds; /* time-out */
	grpc_done_fn done;
	void *ctx;
};
/* Borrows the request. Errors: those of grpc_client_call(): `done` is not called. */
MUST_CHECK int server_call_mgmt(struct server *server, const struct server_mgmt_call *call);

/* The state of a device or mount in an answer: without a fault success, else `status`, what happened, and what to do. */
Ctl__ResponseState *server_response_state(const struct fathom_fault *why, Ctl__ResponseStatus status, struct arena *arena);

/* False: the request names another system, and is answered with a fault. */
MUST_CHECK bool server_is_addressed(const struct server *server, struct grpc_call *call, const char *sys);

/* The path of a program: `configured`, or `name` in the folder of this program if it is NULL. */
void server_program_path(const struct server *server, const char *configured, const char *name,
			 char path[static SERVER_PATH_BYTES]);

/* Log two lines, what happened and what to do, each with the fault's code, if any, and the prefix "about: " unless "". */
void server_log_fault(enum log_level level, const char *about, const struct fathom_fault *why);
/* Both as one text, for answers that have one field. In `arena`. */
const char *server_fault_text(const struct fathom_fault *why, struct arena *arena);

#endif
