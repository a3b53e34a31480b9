/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of mgmt. */
#ifndef CONTROL_MGMT_INTERNAL_H
#define CONTROL_MGMT_INTERNAL_H

#include "base/list.h"
#include "control/db/system_store.h"
#include "control/events/store.h"
#include "control/hostlist/rankset.h"
#include "control/mgmt/mgmt.h"
#include "control/mgmt/methods.gen.h"
#include "control/mgmt/rank_operation.h"
#include "control/mgmt/states.gen.h"
#include "fathom/trace/trace.h"
#include "rpc/proto/store.pb-c.h"
#include "rpc/ras/event.h"
#include "base/reactor/deadline.h"

enum {
	MGMT_JOINS_MAX = 65536,
	MGMT_OPERATIONS_MAX = 8,
	MGMT_WAITERS_MAX = 64,	/* calls that wait for events; far below a server's connection limit */
	MGMT_PARALLEL_MAX = 64, /* parallel calls to servers of one operation, or for the map */
	MGMT_REFUSALS = 65536,	/* rejected joins remembered, so that a repeated one is not a new event */
	MGMT_REFUSAL_BUCKETS = 4096,
	MGMT_WAIT_MS_MAX = 60000,
	MGMT_ANSWER_BYTES = 3 << 20, /* of events in one answer */
	MGMT_ACTION_BYTES = 24,
	MGMT_HOST_RANKS_MAX = 1024, /* ranks of one server that are processed together */
	MGMT_UNRANKED_MAX = 4096,   /* servers with engines without a rank */
	MGMT_BEATS_MISSED = 3,	    /* missed reports after which a server is silent */
	MGMT_DOUBTFUL_MAX = 8,	    /* parallel map calls to servers that are silent or failed the last call */
};

/* ---- mgmt.c ---- */

/* Changes of members that are decided one after the other and stored in one transaction. */
struct mgmt_batch {
	struct system_change *changes;
	size_t count, room;
};

/* An outgoing call. It is freed when it ends; if the management service was closed before, the answer is ignored. */
struct mgmt_call {
	TAILQ_ENTRY(mgmt_call) link;
	struct mgmt *mgmt; /* NULL: the service was closed */
	grpc_done_fn done;
	void (*release)(void *ctx);
	void *ctx;
};

/* A rejected join for which an event was raised. */
struct mgmt_refusal {
	struct mgmt_refusal *next;
	uint8_t uuid[MEMBER_UUID_BYTES];
	int code;
};

struct mgmt {
	char *name, *version, *provider, *address, *database;
	char **replicas;
	size_t replica_count;
	uint64_t join_wait_ns, rank_timeout_ns, heartbeat_ns;
	uint32_t net_dev_class;
	uint32_t joins_max;	    /* in `joins`, and in `reports` */
	struct fathom_thread *home; /* the light thread that all of it runs on */
	struct grpc_client *client;
	struct db *db;
	struct system *system;
	struct system_store store;
	bool is_leaving, is_new_system;
	bool is_stale; /* `system` differs from the database: load it again */
	struct event_store *events;
	struct deadlines deadlines;
	struct mgmt_stats stats;
	TAILQ_HEAD(mgmt_call_list, mgmt_call) calls;

	TAILQ_HEAD(mgmt_join_list, mgmt_join) joins; /* join.c */
	size_t join_count;
	struct deadline join_deadline;
	struct mgmt_refusal *refusals[MGMT_REFUSAL_BUCKETS];
	size_t refusal_count;

	TAILQ_HEAD(mgmt_report_list, mgmt_report) reports; /* hosts.c */
	size_t report_count;
	struct deadline report_deadline, watch_deadline;
	uint64_t watched; /* tick */

	struct mgmt_health *health; /* health.c */
	size_t health_count;

	struct mgmt_unranked *unranked; /* unranked.c */
	size_t unranked_count;

	struct mgmt_target **targets; /* group.c: sorted by address */
	size_t target_count;
	size_t target_next; /* round-robin position */
	TAILQ_HEAD(mgmt_target_list, mgmt_target) gone_targets;
	uint32_t map_version; /* version of `map` */
	struct mgmt_map *map;
	uint32_t map_calls, doubtful_calls;
	struct deadline map_deadline;

	TAILQ_HEAD(mgmt_operation_list, mgmt_operation) operations; /* rank_operation.c */
	size_t operation_count;

	TAILQ_HEAD(mgmt_waiter_list, mgmt_waiter) waiters; /* events.c */
	size_t waiter_count;

	struct credential_rules credentials;
	uint64_t storage_timeout_ns, storage_read_ns, storage_patience_ns; /* storage/storage.h */
	struct catalog *catalog;
	TAILQ_HEAD(mgmt_engine_list, mgmt_engine) engines;
	TAILQ_HEAD(mgmt_reading_list, storage_reading) readings;
	TAILQ_HEAD(mgmt_task_list, mgmt_task) tasks, abandoned_tasks;
	TAILQ_HEAD(mgmt_snapshot_list, mgmt_snapshot) snapshots;
	TAILQ_HEAD(mgmt_eviction_list, mgmt_eviction) evictions;
	size_t reading_count, task_count, snapshot_count, storage_waiter_count;
	struct deadline storage_deadline, drain_deadline, old_copies_deadline, intents_deadline, late_deadline;
	TAILQ_HEAD(mgmt_late_list, storage_late) lates; /* storage/late.c */
	bool has_intents_left;				/* of evictions, without room for their tasks */
	bool is_drain_reading;				/* storage/drain.c */
};

/*
 * The management service for `call`. NULL: `call` has been answered with a fault: this server does not run the service, the
 * request is for another system, the calling server has another release, the system cannot be loaded, or it has no members
 * yet (if `needs_members`).
 */
struct mgmt *mgmt_enter(struct grpc_call *call, const char *sys, bool needs_members);

/* Load the system again if it is stale. Errors: those of system_store_load(). */
MUST_CHECK int mgmt_load_again(struct mgmt *mgmt, struct fathom_fault *why);

/*
 * Add a change of one member to `batch`, and apply it in memory. A full batch is committed first. Errors: -ENOMEM, those of
 * mgmt_batch_commit().
 */
MUST_CHECK int mgmt_batch_add(struct mgmt *mgmt, struct mgmt_batch *batch, const struct system_change *change,
			      struct fathom_fault *why);
/* Store the batch and free it. On failure the system is loaded again. Errors: those of system_store_members(). */
MUST_CHECK int mgmt_batch_commit(struct mgmt *mgmt, struct mgmt_batch *batch, struct fathom_fault *why);
/* Drop a batch after a failure, and load the system again, because the changes are already applied in memory. */
void mgmt_batch_drop(struct mgmt *mgmt, struct mgmt_batch *batch);

/* Store and apply a change of attributes or properties. Errors: those of system_store_change(). */
MUST_CHECK int mgmt_change_pairs(struct mgmt *mgmt, const struct system_change *change, struct fathom_fault *why);

/*
 * Call a server. `request->done` is called once, later, but not after mgmt_close(). `release` (NULL: the ctx is lent) frees
 * the ctx after `done`, or in mgmt_close() instead of it. Errors: those of grpc_client_call(), -ENOMEM; the ctx is the
 * caller's then.
 */
MUST_CHECK int mgmt_call(struct mgmt *mgmt, const struct grpc_request *request, void (*release)(void *ctx));

/*
 * Answer `call` with `why`; if `why` is not filled, with the text of the errno `error`, which must be below 0. The call is
 * counted and recorded as refused.
 */
void mgmt_fail(struct grpc_call *call, int error, struct fathom_fault *why);

/* Count a refusal because `count` of `what` ("joins") wait already. Returns the error, with the fault mgmt_queue_full. */
MUST_CHECK int mgmt_refuse_full(struct mgmt *mgmt, const char *what, size_t count, struct fathom_fault *why);

/* Count and record a state of a rank that the rules of the system refused with `error`, except -EALREADY. */
void mgmt_count_refused_state(struct mgmt *mgmt, const struct member_report *report, int error);

/* ---- select.c ---- */

/* The ranks that a request selects, and the requested ranks and hosts that do not exist. */
struct mgmt_selection {
	struct rank_set ranks;
	bool is_all; /* the request names neither ranks nor hosts */
	char *absent_ranks, *absent_hosts;
	struct mgmt_unranked *unranked; /* mgmt_select_unranked() */
	size_t unranked_count;
};

/* Errors: -EINVAL (both ranks and hosts, or an invalid list), -ERANGE, -ENOMEM. Always call mgmt_selection_deinit(). */
MUST_CHECK int mgmt_select(const struct mgmt *mgmt, const char *ranks, const char *hosts,
			   struct mgmt_selection *selection_ret, struct fathom_fault *why);
void mgmt_selection_deinit(struct mgmt_selection *selection);

enum { MGMT_RANKS_BYTES = 64 };
/* "rank 2", "ranks 0-3,7", or "400 ranks" if the list is too long. Returns `text`, of MGMT_RANKS_BYTES. */
const char *mgmt_ranks_text(const struct rank_set *ranks, char *text);

/* Results per rank for an answer, in the order of their addition. */
struct mgmt_results {
	Shared__RankResult *results, **places;
	size_t count, room;
};
struct mgmt_result {
	uint32_t rank;
	const char *action;
	bool errored;
	const char *message, *state, *address;
};
MUST_CHECK int mgmt_results_init(struct mgmt_results *results, size_t room); /* -ENOMEM */
/* The texts are borrowed until mgmt_results_deinit(). */
void mgmt_results_add(struct mgmt_results *results, const struct mgmt_result *result);
void mgmt_results_deinit(struct mgmt_results *results);

/* ---- unranked.c ---- */

/* A server with engines that have no rank. */
struct mgmt_unranked {
	char address[HOST_BYTES_MAX];
	uint32_t idle, formatted; /* engines that can be started; engines that can be erased */
	uint32_t count;		  /* in a selection: the number of selected engines */
	uint64_t heard;		  /* tick of the last report */
};

/* Count the engines without a rank in a report of the server at `address`. */
void mgmt_note_unranked(struct mgmt *mgmt, const char *address, const Fathom__ReportEnginesReq *request);
void mgmt_unranked_close(struct mgmt *mgmt);
/* Like mgmt_enter(), but the system must have members or engines without a rank. */
struct mgmt *mgmt_enter_for_engines(struct grpc_call *call, const char *sys);
/*
 * Add to `selection` the engines without a rank on `hosts` ("": all), as many of each server as `engine_count` returns.
 * Hosts with such engines are removed from the absent hosts. Errors: -ENOMEM, -EINVAL, -ERANGE.
 */
MUST_CHECK int mgmt_select_unranked(const struct mgmt *mgmt, uint32_t (*engine_count)(const struct mgmt_unranked *unranked),
				    const char *hosts, struct mgmt_selection *selection, struct fathom_fault *why);
size_t mgmt_unranked_engines(const struct mgmt_selection *selection);
/* Fill one row per engine: `rows` has room for mgmt_unranked_engines(). */
void mgmt_fill_unranked(const struct mgmt_selection *selection, struct mgmt_operation_rank *rows);

/* ---- health.c ---- */

/* What is wrong with the storage of a rank. */
struct mgmt_health {
	uint32_t rank;
	uint64_t incarnation;
	bool is_failed;
	uint32_t errored_volumes, read_only_volumes, errored_pools;
	uint64_t since_ns; /* since 1970; 0: not known */
	char reason[MEMBER_INFO_BYTES];
};
/* Keep what the report says of the member's storage. */
void mgmt_note_health(struct mgmt *mgmt, const struct member *member, const Fathom__ReportEnginesReq__Engine *engine);
/* What the server of the rank has reported, and what the engine lacks. False: nothing is wrong, or it is not known. */
bool mgmt_find_health(const struct mgmt *mgmt, const struct member *member, struct mgmt_health *health_ret);
void mgmt_health_close(struct mgmt *mgmt);

/* ---- join.c ---- */

void mgmt_joins_close(struct mgmt *mgmt);

/* ---- group.c ---- */

/* The map may have changed: send it to all servers that lack the latest version. */
void mgmt_map_changed(struct mgmt *mgmt);
/* The server at `address` may have lost its map: send it again. */
void mgmt_map_forgotten(struct mgmt *mgmt, const char *address);
void mgmt_map_close(struct mgmt *mgmt);

struct mgmt_target;
/* The server at `address`; NULL: it has no member, or the targets are not yet updated for the current map. */
struct mgmt_target *mgmt_find_target(const struct mgmt *mgmt, const char *address);
/* The server answers again: end the pause before the next call. */
void mgmt_target_back(struct mgmt_target *target);

struct mgmt_target {
	struct trace_object trace;
	enum mgmt_target_state state;
	TAILQ_ENTRY(mgmt_target) link; /* in gone_targets */
	struct mgmt *mgmt;
	const struct trace_istr *name;
	char address[HOST_BYTES_MAX];
	uint32_t sent, acknowledged; /* versions of the map; 0: none */
	uint32_t failures;	     /* consecutive failed calls */
	bool is_gone;		     /* no member has this address any more; freed when the call ends */
	bool is_doubtful;	     /* the current call counts in doubtful_calls */
	uint64_t heard;		     /* hosts.c: tick of the last report */
	bool is_silent, is_told;     /* three reports were missed; an event about it was raised */
	struct deadline deadline;
};

/* ---- storage/missing.c ---- */

struct storage_missing;
/* The engine of the member has joined, or reports: ask what it has, unless this incarnation is known to lack nothing. */
void storage_check_missing(struct mgmt *mgmt, const struct member *member);
/* NULL: it lacks nothing, or it is not known. */
const struct storage_missing *storage_find_missing(const struct mgmt *mgmt, const struct member *member);

/* ---- storage/task.c ---- */

/* Load the catalog, and go on with the changes that it has. Errors: those of catalog_open(). */
MUST_CHECK int storage_open(struct mgmt *mgmt, struct fathom_fault *why);
void storage_close(struct mgmt *mgmt);
/* How many shares of pools are being drained. */
uint32_t storage_drain_shares(const struct mgmt *mgmt);
/*
 * Requests that give the engine of the rank the properties of pools that it lacks. Returns their number. `requests_ret`
 * is to be freed with one call of free(), and borrows from the catalog. Some are left out if they are too many, or if
 * memory is short.
 */
size_t storage_late_requests(const struct mgmt *mgmt, uint32_t rank, Store__StorageReq ***requests_ret);
/* Members have changed: changes that wait for one that is back go on soon. */
void storage_members_changed(struct mgmt *mgmt);
/* A rank was replaced: report what pools and volumes have lost. */
void storage_raise_lost(struct mgmt *mgmt, uint32_t rank);
/* The last member was removed: all pools and volumes are gone. Errors: those of catalog_remove_pool(). */
MUST_CHECK int storage_forget_all(struct mgmt *mgmt, struct fathom_fault *why);

/* ---- pairs.c ---- */

/* Remove all attributes and reset all properties. Errors: those of mgmt_change_pairs(), -ENOMEM. */
MUST_CHECK int mgmt_forget_pairs(struct mgmt *mgmt, struct fathom_fault *why);

/* ---- hosts.c ---- */

/* The interval between two reports of a server; it is sent in the answer to a report. */
uint64_t mgmt_beat_ns(const struct mgmt *mgmt);
/* The server at `address` has sent a report or a join. */
void mgmt_heard(struct mgmt *mgmt, const char *address);
/* Arm the timer that detects silent servers. */
void mgmt_watch(struct mgmt *mgmt);
void mgmt_reports_close(struct mgmt *mgmt);

/* Raise an event of the management service. If it cannot be stored, it is logged and counted as lost. */
void mgmt_raise(struct mgmt *mgmt, const struct ras_event *event);
/*
 * Raise an event about a completed operation: "WHAT by WHO". If the text is too long, WHAT is cut. `operation` ("system
 * stop") becomes the event's ctl_op. `who` NULL: no operator requested it.
 */
void mgmt_raise_operation(struct mgmt *mgmt, enum ras_id id, const char *operation, const char *who, const char *what, ...)
	PRINTF_LIKE(5, 6);
void mgmt_waiters_close(struct mgmt *mgmt);

#endif
