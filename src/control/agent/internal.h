/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - the parts of the agent. agent.h says what each does. */
#ifndef CONTROL_AGENT_INTERNAL_H
#define CONTROL_AGENT_INTERNAL_H

#include "base/list.h"
#include "base/reactor/deadline.h"
#include "base/reactor/reactor.h"
#include "base/reactor/worker.h"
#include "control/agent/agent.h"
#include "control/agent/fabric.h"
#include "control/agent/states.gen.h"
#include "control/attach/attach.h"
#include "control/credential/credential.h"
#include "fathom/trace/trace.h"
#include "rpc/drpc/drpc.h"
#include "rpc/grpc/grpc.h"
#include "rpc/grpc/tls.h"
#include "rpc/proto/agent.pb-c.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/proto/mgmt.pb-c.h"

/* DAOS's numbers of errors, for the status of its messages. */
enum agent_status {
	AGENT_STATUS_OK = 0,
	AGENT_STATUS_NO_PERMISSION = -1001,
	AGENT_STATUS_INVALID = -1003,
	AGENT_STATUS_NOT_FOUND = -1005,
	AGENT_STATUS_UNREACHABLE = -1006,
	AGENT_STATUS_NO_MEMORY = -1009,
	AGENT_STATUS_NOT_SUPPORTED = -1010,
	AGENT_STATUS_TIMED_OUT = -1011,
	AGENT_STATUS_BUSY = -1012,
	AGENT_STATUS_MISC = -1025,
};

enum {
	AGENT_SYSTEM_BYTES = 320,
	AGENT_ADDRESSES_MAX = 2 * AGENT_HOSTS_MAX,
	AGENT_LOOKUPS_MAX = 8,	     /* users that are looked up at a time */
	AGENT_ATTACHMENTS_MAX = 512, /* of this host */
};

#define AGENT_STATS(X)                                                                                                     \
	X(attach_info_calls, "calls for attach information")                                                               \
	X(attach_info_failures, "of these, failed: no server answered, or another system was named")                       \
	X(refreshes, "refreshes of the attach information")                                                                \
	X(refresh_failures, "of these, failed")                                                                            \
	X(stale_reports, "reports of clients that the attach information is stale")                                        \
	X(credentials, "credentials that were made")                                                                       \
	X(credential_failures, "calls for a credential that failed")                                                       \
	X(clients_ended, "processes with pool handles that ended")                                                         \
	X(handles_evicted, "pool handles that were evicted")                                                               \
	X(handles_lost, "pool handles that could not be evicted")                                                          \
	X(handles_refused, "pool handles that were not recorded: too many of a process, a user or the host")               \
	X(service_calls, "calls to the management service")                                                                \
	X(service_failures, "of these, failed")                                                                            \
	X(attaches, "volumes that were attached")                                                                          \
	X(attach_failures, "attempts to attach a volume that failed")                                                      \
	X(detaches, "volumes that were detached")

struct agent_stats {
#define AGENT_STATS_FIELD(name, meaning) uint64_t name;
	AGENT_STATS(AGENT_STATS_FIELD)
#undef AGENT_STATS_FIELD
};

/* ---- service.c: calls to the management service ---- */

struct service {
	char addresses[AGENT_ADDRESSES_MAX][GRPC_ADDRESS_BYTES_MAX];
	size_t address_count;
	bool is_resolving, has_names;
	struct fathom_fault why; /* the last failure of a name */
	uint64_t resolved_ns;	 /* 0: not yet */
	TAILQ_HEAD(, service_call) calls;
};

/* `response` NULL: it failed, with `why`. Both are valid until it returns. */
typedef void (*service_done_fn)(void *ctx, const ProtobufCMessage *response, const struct fathom_fault *why);

struct service_request {
	const char *path, *name; /* constants */
	const ProtobufCMessage *message;
	const ProtobufCMessageDescriptor *response;
	uint64_t timeout_ns;
	service_done_fn done; /* called once, after service_start() has returned */
	void *ctx;
};

struct agent;
void service_open(struct agent *agent);
void service_close(struct agent *agent); /* ends all calls with -ECANCELED */
/*
 * Call the management service. It tries the hosts in turn, and again after a pause, until the time is over: the request
 * must be idempotent. `request->message` is lent until `done`.
 */
void service_start(struct agent *agent, const struct service_request *request);

/* ---- attach_info.c ---- */

struct attach_info {
	Mgmt__GetAttachInfoResp *info; /* NULL: none yet */
	uint64_t at_ns, asked_ns;
	bool is_refreshing;
	struct fathom_fault why; /* of the last refresh; error 0: it succeeded */
	uint32_t failures;	 /* in a row */
	TAILQ_HEAD(, attach_waiter) waiters;
	uint32_t waiter_count;
	struct deadline due;
	struct fabric fabric;
	struct fabric_scan_job *scan; /* under way; NULL: none */
	Mgmt__GetAttachInfoReq request;
};

void attach_info_open(struct agent *agent);
void attach_info_close(struct agent *agent);
/* Refresh it now, unless a refresh is under way. */
void attach_info_refresh(struct agent *agent);
void call_get_attach_info(struct drpc_call *call, const ProtobufCMessage *request);
void call_refresh(struct drpc_call *call, const ProtobufCMessage *request);

/* ---- identity.c: credentials ---- */

struct identities {
	TAILQ_HEAD(, identity) known;
	uint32_t count, lookups;
};

void identities_open(struct agent *agent);
void identities_close(struct agent *agent);
void call_request_credentials(struct drpc_call *call, const ProtobufCMessage *request);
/* `credential`: lent, NULL if `status` (of enum agent_status) is not 0. */
typedef void (*credential_done_fn)(void *ctx, int status, Auth__Credential *credential);
/* A credential of a user of this host, for the agent itself. `done` is called once, here or later. */
void identities_ask(struct agent *agent, uid_t uid, gid_t gid, credential_done_fn done, void *ctx);

/* ---- clients.c: processes with pool handles ---- */

struct agent_client {
	struct trace_object trace;
	enum agent_client_state state;
	TAILQ_ENTRY(agent_client) link;
	struct agent *agent;
	pid_t pid;
	uid_t uid;
	int pid_fd;
	struct fd_watch *watch;
	TAILQ_HEAD(, client_handle) handles;
	uint32_t handle_count;
};

struct clients {
	TAILQ_HEAD(, agent_client) list;
	uint32_t count, handle_count;
	TAILQ_HEAD(, client_handle) evictions; /* handles without a process */
	bool is_evicting;
	bool is_over;		 /* the time for evictions at the agent's end */
	uint32_t eviction_count; /* handles of the call under way */
	Agent__EvictReq request; /* of that call */
	char **request_handles;
};

void clients_open(struct agent *agent);
/* Evict the handles of all clients; `clients_is_idle()` when that is over. */
void clients_leave(struct agent *agent);
bool clients_is_idle(const struct agent *agent);
/* Begin no more evictions. Before service_close(), which ends the one under way. */
void clients_stop(struct agent *agent);
void clients_close(struct agent *agent);
void call_notify_connect(struct drpc_call *call, const ProtobufCMessage *request);
void call_notify_disconnect(struct drpc_call *call, const ProtobufCMessage *request);
void call_notify_exit(struct drpc_call *call, const ProtobufCMessage *request);

/* ---- attachments.c ---- */

struct attachments {
	TAILQ_HEAD(attachment_list, attachment) list;
	uint32_t count;
	struct attach_host *host;
};

/* Read the records and attach their volumes again. Errors (explained): the folders cannot be made or trusted. */
MUST_CHECK int attachments_open(struct agent *agent, struct fathom_fault *why);
void attachments_close(struct agent *agent);
void call_attach(struct drpc_call *call, const ProtobufCMessage *request);
void call_detach(struct drpc_call *call, const ProtobufCMessage *request);
void call_list(struct drpc_call *call, const ProtobufCMessage *request);

/* ---- the agent ---- */

struct agent {
	struct trace_object trace;
	enum agent_state state;
	const struct agent_options *options;
	const struct agent_config *config;
	char system[AGENT_SYSTEM_BYTES]; /* "fathom-0.1.0" */
	char machine[256];		 /* this host's name */
	struct grpc_tls *tls;		 /* NULL: insecure */
	struct credential_key *key;	 /* NULL: insecure */
	struct grpc_client *client;
	struct drpc_server *drpc;
	struct deadlines deadlines;
	uint32_t jobs; /* worker threads under way */
	struct poller *leave_poller;
	uint64_t leave_by_ns;
	struct agent_stats stats;
	struct service service;
	struct attach_info attach_info;
	struct identities identities;
	struct clients clients;
	struct attachments attachments;
};

/* Opened: the agent answers calls. Errors (explained). */
MUST_CHECK int agent_open(const struct agent_options *options, struct agent **agent_ret, struct fathom_fault *why);
/* Call `left` once, when all parts are closed. `is_clean`: false if a worker thread still blocks. */
void agent_leave(struct agent *agent, void (*left)(bool is_clean));
/* Read the certificates and the key again, and refresh the attach information. */
void agent_reload(struct agent *agent);
void agent_log_fault(int level, const char *prefix, const struct fathom_fault *why);
/* The status of DAOS's messages for a fault. */
enum agent_status agent_status_of(const struct fathom_fault *why);
void call_agent_stats(struct drpc_call *call, const ProtobufCMessage *request);
void call_setup_telemetry(struct drpc_call *call, const ProtobufCMessage *request);

/* Start `job` and count it; `job->done` must call agent_job_done(). Errors: of worker_start(). */
MUST_CHECK int agent_job_start(struct agent *agent, struct worker_job *job);
void agent_job_done(struct agent *agent);

#endif
