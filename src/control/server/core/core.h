/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations that the files of the server share.
 *
 *	server.c	opens and closes the parts; the table of methods
 *	home.c		opens the spool of events and the system's database
 *	certificates.c	loads, reloads and watches the certificates
 *	copying.c	copies the database	copies.c	daily copies	backup.c	copies on request
 *	crew.c		creates and starts the engines' instances
 *	notify.c	dRPC calls of the engines: readiness, events
 *	left.c		events in the spools of dead engines
 *	uplink.c	gRPC calls to the management service: joins, events
 *	report.c	periodic reports of the engines' states
 *	scan.c		StorageScan, NetworkScan		ranks.c		starting, stopping, formatting
 *	engines.c	EngineQuery, restart policies, groups	collect.c	logs for support
 *	unread.c	reads the labels of devices through the helper
 */
#ifndef CONTROL_SERVER_INTERNAL_H
#define CONTROL_SERVER_INTERNAL_H

#include "base/list.h"
#include "base/log.h"
#include "base/random.h"
#include "control/db/db.h"
#include "control/events/spool.h"
#include "control/helper/client.h"
#include "control/instance/instance.h"
#include "control/mgmt/mgmt.h"
#include "control/server/host/facts.h"
#include "control/server/server.h"
#include "control/server/core/methods.gen.h"
#include "control/server/core/states.gen.h"
#include "control/server/core/worker.h"
#include "rpc/drpc/drpc.h"
#include "fathom/trace/trace.h"
#include "rpc/grpc/grpc.h"
#include "rpc/grpc/tls.h"
#include "base/reactor/deadline.h"

enum { SERVER_PATH_BYTES = 4352, SERVER_SYSTEM_BYTES = 96 };

/* A copy of the database under way. The caller's storage, zeroed except the functions; lent until `ended`. */
struct copying {
	void (*written)(struct copying *copying); /* complete; on a worker thread or in copying_at_once(); may be NULL */
	void (*ended)(struct copying *copying);	  /* on the control thread */
	int error;				  /* with `why`; -ECANCELED: the server is leaving */
	struct fathom_fault why;
	uint64_t revision; /* of the copy, if there is no error */
	struct server *server;
	/* copying.c's */
	LIST_ENTRY(copying) link;
	struct worker_job job;
	struct deadline next;
	struct db_copy *copy;
	const char *path;
	uint64_t began;
	bool is_finishing;
};

/* A call that waits for the scan. */
struct scan_caller {
	TAILQ_ENTRY(scan_caller) link;
	struct grpc_call *call;
	const ProtobufCMessage *request;
};

/* One kind of scan: at most one runs, and its result answers all waiting calls. */
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
		struct host_facts host;
	};
};

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

	struct grpc_tls *tls; /* NULL: without TLS */
	struct deadline certificate_due;
	int certificate_told[2]; /* certificate_step(), of our own and of the authority's */
	struct grpc_server *grpc;
	struct grpc_client *client;
	struct drpc_server *drpc;
	struct db *db; /* NULL: the management service is elsewhere */
	struct deadline copy_due;
	struct server_copy *copy; /* the daily copy; NULL: none is under way */
	LIST_HEAD(, copying) copyings;
	uint64_t copied_revision;

	struct helper_client *helper;
	struct instance_restart restart[INSTANCE_CAUSES]; /* the current policies, of all engines */
	struct instance *instances[SERVER_ENGINES_MAX];
	uint32_t instance_count, starting;
	pid_t strangers[SERVER_ENGINES_MAX]; /* logged processes that reported as an engine which is not configured */
	STAILQ_HEAD(, format_wait) formats;  /* format calls that wait until each engine's state is known */

	struct spool *spool;
	STAILQ_HEAD(, event_call) events; /* calls that are answered when their event is on disk */
	bool is_flush_due, is_flush_failing, is_sending;
	struct deadline flush_again, event_pause;
	uint64_t event_pause_ms;
	bool is_join_waiting; /* the latest answered join is being retried */
	bool is_reporting;
	struct deadline report_due;
	uint64_t report_pause_ms; /* 0: the last report succeeded */
	struct random chance;

	struct scan storage_scan, network_scan, host_scan;
	struct collection *collection; /* the latest collection; NULL: none */
	unsigned int jobs;	       /* worker threads and messages under way; the server is not freed before they end */
	uint64_t leave_by;	       /* tick */
	struct poller *leave_poller;
	void (*left)(void *ctx, bool is_clean);
	void *left_ctx;
};

/* All on the control thread. */

/* ---- server.c ---- */

/* Errors (explained); then server_leave() must not be called. */
MUST_CHECK int server_open(const struct server_options *options, struct server **server_ret, struct fathom_fault *why);
/*
 * Finish the calls under way, then close all parts. `left` is called once, later, when `server` is freed; `is_clean` false:
 * a worker thread still waits for a device, `server` still exists, and the process must _exit().
 */
void server_leave(struct server *server, void (*left)(void *ctx, bool is_clean), void *ctx);
/* Raise the event server_ended with a reason: "signal 15 of process 1, uid 0". Before server_leave(). */
void server_tell_end(struct server *server, const char *why);

static inline struct server *server_of(const struct grpc_call *call)
{
	return grpc_call_ctx(call);
}

/* ---- certificates.c ---- */

/* Read the certificates again. An error is logged, and the former certificates stay in use. */
void server_reload(struct server *server);
/* Check now and then every hour whether a certificate expires soon, or has expired: one event for each stage. */
void server_watch_certificates(struct server *server);
/* Check once, with the time `at_s` in seconds since 1970. */
void server_look_at_certificates(struct server *server, int64_t at_s);

/* ---- log.c ---- */

/* Log two lines, what happened and what to do, each with the fault's code, if any, and the prefix "about: " unless "". */
void server_log_fault(enum log_level level, const char *about, const struct fathom_fault *why);
/* Both as one text, for answers that have one field. In `arena`. */
const char *server_fault_text(const struct fathom_fault *why, struct arena *arena);

/* ---- home.c ---- */

MUST_CHECK int server_open_spool(struct server *server, struct fathom_fault *why);
/* Open the database and the management service, if this is the management host. Errors (explained). */
MUST_CHECK int server_open_system(struct server *server, struct fathom_fault *why);

/* ---- copying.c ---- */

/* `copying` and `path` are lent until `ended`, later. On an error, also in `copying`, `ended` is not called. */
MUST_CHECK int copying_begin(struct server *server, struct copying *copying, const char *path);
/* The same, blocking: `ended` is called before it returns. */
MUST_CHECK int copying_at_once(struct server *server, struct copying *copying, const char *path);
/* End all copies with -ECANCELED. Their worker threads must have ended. */
void copying_cancel_all(struct server *server);

/* ---- copies.c: copies of the database, if it has changed. Errors are logged ---- */

void server_begin_copies(struct server *server);
/* Make the last copy now, blocking. */
void server_copy_at_end(struct server *server);

/* ---- crew.c ---- */

MUST_CHECK int server_open_helper(struct server *server, struct fathom_fault *why);
/* Ping the helper, which starts it, and log its fault: as an error if an engine's storage needs it. */
void server_greet_helper(struct server *server);
MUST_CHECK int server_create_engines(struct server *server, struct fathom_fault *why);
/* Adopt or start each. */
void server_start_engines(struct server *server);
void server_destroy_engines(struct server *server);

/* ---- notify.c ---- */

MUST_CHECK int server_open_drpc(struct server *server, struct fathom_fault *why);
/* Log and spool the server's event about that engine, unless the spool has it already. Borrows. */
void server_add_event(struct server *server, uint32_t instance, const Shared__RASEvent *event);
/* Log and spool an event of this server. Arguments as of mgmt_tell(). */
void server_tell(struct server *server, enum ras_id id, const char *operation, const char *who, const char *what, ...)
	PRINTF_LIKE(5, 6);
/*
 * Add an engine's event to the spool. A new event is logged and passed to its instance. Errors: as of spool_add().
 */
MUST_CHECK int server_keep_event(struct server *server, struct instance *instance, const struct spool_origin *origin,
				 const Shared__RASEvent *event, struct fathom_fault *why);
/* After this turn, write added events to the disk, and then send them to the management service. */
void server_flush_events(struct server *server);
/* Answer the waiting calls with DER_AGAIN: the engines retry them. */
void server_cancel_events(struct server *server);

/* ---- left.c ---- */

/* The engine has no process: add the events of its own spool that no server has received, each once. */
void server_take_left(struct server *server, struct instance *instance);

/* ---- uplink.c ---- */

/* The hook instance_hooks.join; `ctx` is the server. */
void server_join(void *ctx, struct instance *instance, const struct instance_join *join, instance_joined_fn done,
		 void *done_ctx);
/*
 * True: the management service rejects this engine, and a retry fails until an operator acts. False: the fault is in the
 * management service or on the way to it (disk, memory, certificates), and the join is retried.
 */
bool server_is_join_refused(const struct fathom_fault *why);
/* Send the events that are on disk. */
void uplink_kick(struct server *server);

/* ---- report.c ---- */

void server_begin_reports(struct server *server);
/* An engine's state has changed: report after SETTLE_MS. */
void server_report_soon(struct server *server);
/* The version of the newest group map that an engine here has; 0: none. */
uint32_t server_map_version(const struct server *server);

/* ---- unread.c ---- */

/*
 * Let the helper read the labels of devices that our user may not read. `done` is always called, later; `scan` and `why`
 * are lent until then. `why` is then the first fault of the helper; a device that was not read keeps its signature_error.
 */
void server_read_unread(struct server *server, struct storage_scan *scan, struct fathom_fault *why, void (*done)(void *ctx),
			void *ctx);

/* ---- methods ---- */

void scan_init(struct scan *scan, struct server *server, const char *what);

/* Start the waiting format calls, unless an engine's state is still unknown. LEAVING: they fail. */
void server_begin_formats(struct server *server);

/* False: the request names another system, and is answered with a fault. */
MUST_CHECK bool server_is_addressed(const struct server *server, struct grpc_call *call, const char *sys);

/* ---- backup.c ---- */

#define SERVER_SOCKET "fathom_server.sock" /* in socket_dir */
void call_backup(struct drpc_call *call, const ProtobufCMessage *request);
void collection_free(struct collection *collection);

#endif
