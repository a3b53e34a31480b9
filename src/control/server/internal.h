/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the server share.
 *
 *	server.c	the parts, taken up and let go of; the table of methods
 *	home.c		the spool of events, the system's database
 *	certificates.c	whether they are valid, and for how long
 *	copying.c	copies of that		copies.c	those of each day	backup.c	those asked for
 *	crew.c		the engines
 *	notify.c	what engines say (dRPC)
 *	left.c		and what dead ones had not said
 *	uplink.c	what the management service is told (gRPC): joins, events
 *	report.c	and how the engines are, every so often
 *	scan.c		StorageScan, NetworkScan		ranks.c		starting, stopping, formatting
 *	engines.c	how engines are, restarts, groups	collect.c	logs for support
 *	unread.c	devices into which only the helper may look
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
#include "control/server/facts.h"
#include "control/server/server.h"
#include "control/server/states.gen.h"
#include "control/server/worker.h"
#include "rpc/drpc/drpc.h"
#include "fathom/trace/trace.h"
#include "rpc/grpc/grpc.h"
#include "rpc/grpc/tls.h"
#include "base/reactor/deadline.h"

enum { SERVER_PATH_BYTES = 4352, SERVER_SYSTEM_BYTES = 96 };

/* A copy of the database that is being made. The caller's storage, zeroed but for the functions; lent until `ended`. */
struct copying {
	void (*written)(struct copying *copying); /* it is in its place: there, on another thread; may be NULL */
	void (*ended)(struct copying *copying);	  /* here */
	int error;				  /* with `why`; -ECANCELED: the server leaves */
	struct fault why;
	uint64_t revision; /* up to which it has all, if it was made */
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

	struct grpc_tls *tls; /* NULL: in the clear */
	struct deadline certificate_due;
	int certificate_told[2]; /* certificate_step(), of our own and of the authority's */
	struct grpc_server *grpc;
	struct grpc_client *client;
	struct drpc_server *drpc;
	struct db *db; /* NULL: the management service is elsewhere */
	struct deadline copy_due;
	struct server_copy *copy; /* of the day; NULL: none is under way */
	LIST_HEAD(, copying) copyings;
	uint64_t copied_revision;

	struct helper_client *helper;
	struct instance_restart restart[INSTANCE_CAUSES]; /* as they are now, of all engines */
	struct instance *instances[SERVER_ENGINES_MAX];
	uint32_t instance_count, starting;
	pid_t strangers[SERVER_ENGINES_MAX]; /* that were told of: they say that they are engines which we do not have */
	STAILQ_HEAD(, format_wait) formats;  /* asked for while engines are looked at */

	struct spool *spool;
	STAILQ_HEAD(, event_call) events; /* whose senders wait until they are on disk */
	bool is_flush_due, is_flush_failing, is_sending;
	struct deadline flush_again, event_pause;
	uint64_t event_pause_ms;
	bool is_join_waiting; /* the latest join that was answered is tried again */
	bool is_reporting;
	struct deadline report_due;
	uint64_t report_pause_ms; /* 0: the last one was heard */
	struct random chance;

	struct scan storage_scan, network_scan, host_scan;
	struct collection *collection; /* what was collected last; NULL: nothing */
	unsigned int jobs;	       /* on threads of their own, and messages on their way */
	uint64_t leave_by;	       /* tick */
	struct poller *leave_poller;
	void (*left)(void *ctx, bool is_clean);
	void *left_ctx;
};

/* All on the control thread. */

/* ---- server.c ---- */

/* Errors (explained); then there is nothing to leave. */
MUST_CHECK int server_open(const struct server_options *options, struct server **server_ret, struct fault *why);
/*
 * Finish calls under way, let go of everything. `left` is called once, later, when the server is gone; `is_clean` false: a
 * thread still waits for a device, and the process should end without another word.
 */
void server_leave(struct server *server, void (*left)(void *ctx, bool is_clean), void *ctx);
/* An event says why it leaves: "signal 15 of process 1, uid 0". Before server_leave(). */
void server_tell_end(struct server *server, const char *why);

static inline struct server *server_of(const struct grpc_call *call)
{
	return grpc_call_ctx(call);
}

/* ---- certificates.c ---- */

/* Certificates are read again. What is wrong is logged, and all stays as it was. */
void server_reload(struct server *server);
/* Look at once and then every hour whether one of them ends soon, or has ended: each stage is one event. */
void server_watch_certificates(struct server *server);
/* Look as if it were `at_s`, in seconds since 1970. */
void server_look_at_certificates(struct server *server, int64_t at_s);

/* ---- log.c ---- */

/* Two lines: what happened and what to do, each with the code (of one that has any), behind "about: " unless that is "". */
void server_log_fault(enum log_level level, const char *about, const struct fault *why);
/* Both as one text, for answers that have room for one. */
const char *server_fault_text(const struct fault *why, struct arena *arena);

/* ---- home.c ---- */

MUST_CHECK int server_open_spool(struct server *server, struct fault *why);
/* The database and the management service, if they are here. Errors (explained). */
MUST_CHECK int server_open_system(struct server *server, struct fault *why);

/* ---- copying.c ---- */

/* Lent: `copying` and `path` until `ended`, which comes later. Errors, also in `copying`, with `why`: it does not come. */
MUST_CHECK int copying_begin(struct server *server, struct copying *copying, const char *path);
/* The same without a pause, and with `ended` before it returns. */
MUST_CHECK int copying_at_once(struct server *server, struct copying *copying, const char *path);
/* No job is under way. */
void copying_cancel_all(struct server *server);

/* ---- copies.c: copies of the database, if it has changed. What goes wrong is logged ---- */

void server_begin_copies(struct server *server);
/* The last one, at once. */
void server_copy_at_end(struct server *server);

/* ---- crew.c ---- */

MUST_CHECK int server_open_helper(struct server *server, struct fault *why);
/* Start it and say what is wrong with it: an error where an engine's storage needs it. */
void server_greet_helper(struct server *server);
MUST_CHECK int server_create_engines(struct server *server, struct fault *why);
/* Adopt or start each. */
void server_start_engines(struct server *server);
void server_destroy_engines(struct server *server);

/* ---- notify.c ---- */

MUST_CHECK int server_open_drpc(struct server *server, struct fault *why);
/* Log and spool what is said of that engine, once. Borrows. */
void server_add_event(struct server *server, uint32_t instance, const Shared__RASEvent *event);
/* An event of this server: as mgmt_tell() has it, but spooled. */
void server_tell(struct server *server, enum ras_id id, const char *operation, const char *who, const char *what, ...)
	PRINTF_LIKE(5, 6);
/*
 * Add an engine's event to the spool; one that is new is logged, and its instance knows of it. Errors: as of spool_add().
 */
MUST_CHECK int server_keep_event(struct server *server, struct instance *instance, const struct spool_origin *origin,
				 const Shared__RASEvent *event, struct fault *why);
/* What was added goes to the disk after this turn, and from there to the management service. */
void server_flush_events(struct server *server);
/* Those who wait are told to come again. */
void server_cancel_events(struct server *server);

/* ---- left.c ---- */

/* That engine has no process: what it raised and no server had taken is taken now, once. */
void server_take_left(struct server *server, struct instance *instance);

/* ---- uplink.c ---- */

/* As instance_hooks has it; `ctx` is the server. */
void server_join(void *ctx, struct instance *instance, const struct instance_join *join, instance_joined_fn done,
		 void *done_ctx);
/*
 * It is the engine that may not join, and trying again does not help before somebody acts. All else is the management
 * service's, or of the way there: its disk, its memory, its certificates.
 */
bool server_is_join_refused(const struct fault *why);
/* There are events on disk. */
void uplink_kick(struct server *server);

/* ---- report.c ---- */

void server_begin_reports(struct server *server);
/* An engine has changed. */
void server_report_soon(struct server *server);
/* Of the newest group map that an engine here has; 0: none. */
uint32_t server_map_version(const struct server *server);

/* ---- unread.c ---- */

/*
 * Have the helper read the labels that our user may not. `done` comes later, always; `scan` and `why` are lent until then.
 * `why->error` is then the first reason for which one could not be read; it keeps its signature_error.
 */
void server_read_unread(struct server *server, struct storage_scan *scan, struct fault *why, void (*done)(void *ctx),
			void *ctx);

/* ---- methods ---- */

void scan_init(struct scan *scan, struct server *server, const char *what);
void call_storage_scan(struct grpc_call *call, const ProtobufCMessage *request);
void call_smd_query(struct grpc_call *call, const ProtobufCMessage *request);
void call_network_scan(struct grpc_call *call, const ProtobufCMessage *request);
void call_host_devices(struct grpc_call *call, const ProtobufCMessage *request);

void call_storage_format(struct grpc_call *call, const ProtobufCMessage *request);
/* Those that wait, if no engine is still being looked at. */
void server_begin_formats(struct server *server);
void call_start_ranks(struct grpc_call *call, const ProtobufCMessage *request);
void call_prep_shutdown_ranks(struct grpc_call *call, const ProtobufCMessage *request);
void call_stop_ranks(struct grpc_call *call, const ProtobufCMessage *request);
void call_reset_format_ranks(struct grpc_call *call, const ProtobufCMessage *request);
void call_set_engine_log_masks(struct grpc_call *call, const ProtobufCMessage *request);

/* A request that names another system is answered with a fault: then false. */
MUST_CHECK bool server_is_addressed(const struct server *server, struct grpc_call *call, const char *sys);
void call_group_update(struct grpc_call *call, const ProtobufCMessage *request);
void call_engine_query(struct grpc_call *call, const ProtobufCMessage *request);
void call_engine_set_restart(struct grpc_call *call, const ProtobufCMessage *request);

void call_config_generate(struct grpc_call *call, const ProtobufCMessage *request);
void call_collect_log(struct grpc_call *call, const ProtobufCMessage *request);

/* ---- backup.c ---- */

#define SERVER_SOCKET "fathom_server.sock" /* in socket_dir */
void call_backup(struct drpc_call *call, const ProtobufCMessage *request);
void collection_free(struct collection *collection);

#endif
