/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of mgmt share. */
#ifndef CONTROL_MGMT_INTERNAL_H
#define CONTROL_MGMT_INTERNAL_H

#include "base/list.h"
#include "control/db/system_store.h"
#include "control/events/store.h"
#include "control/hostlist/rankset.h"
#include "control/mgmt/mgmt.h"
#include "control/mgmt/states.gen.h"
#include "fathom/trace/trace.h"
#include "rpc/ras/event.h"
#include "base/reactor/deadline.h"

enum {
	MGMT_JOINS_MAX = 65536,
	MGMT_OPERATIONS_MAX = 8,
	MGMT_WAITERS_MAX = 64,	/* far fewer than the connections that a server has */
	MGMT_PARALLEL_MAX = 64, /* calls to servers of one operation, or of one map */
	MGMT_REFUSALS = 65536,	/* of joins that are remembered, so that each is one event */
	MGMT_REFUSAL_BUCKETS = 4096,
	MGMT_WAIT_MS_MAX = 60000,
	MGMT_ANSWER_BYTES = 3 << 20, /* of events in one answer */
	MGMT_ACTION_BYTES = 24,
	MGMT_STATE_BYTES = 24,
	MGMT_HOST_RANKS_MAX = 1024, /* of one server, that are looked at together */
	MGMT_UNRANKED_MAX = 4096,   /* servers that have engines without a rank */
	MGMT_BEATS_MISSED = 3,	    /* then a server is silent */
	MGMT_DOUBTFUL_MAX = 8,	    /* calls of a map to servers that did not answer the last one, or are silent */
};

/* ---- mgmt.c ---- */

/* Changes of members that are decided one after the other and become one transaction. */
struct mgmt_batch {
	struct system_change *changes;
	size_t count, room;
};

/* A call to a server that outlives neither its answer nor, with effect, the management service. */
struct mgmt_call {
	TAILQ_ENTRY(mgmt_call) link;
	struct mgmt *mgmt; /* NULL: closed meanwhile */
	void (*done)(void *ctx, const struct grpc_result *result);
	void *ctx;
};

/* A join that was refused, and told once. */
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
	struct grpc_client *client;
	struct db *db;
	struct system *system;
	struct system_store store;
	bool is_leaving, is_new_system;
	bool is_stale; /* what is in memory is not what is stored: load it again */
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

	struct mgmt_unranked *unranked; /* unranked.c */
	size_t unranked_count;

	struct mgmt_target **targets; /* group.c: by address */
	size_t target_count;
	size_t target_next; /* whose turn it is */
	TAILQ_HEAD(mgmt_target_list, mgmt_target) gone_targets;
	uint32_t map_version; /* that `map` is of */
	struct mgmt_map *map;
	uint32_t map_calls, doubtful_calls;
	struct deadline map_deadline;

	TAILQ_HEAD(mgmt_operation_list, mgmt_operation) operations; /* ranks.c */
	size_t operation_count;

	TAILQ_HEAD(mgmt_waiter_list, mgmt_waiter) waiters; /* events.c */
	size_t waiter_count;
};

/*
 * The management service that `call` is for; NULL: `call` has been answered, because there is none here, the request is for
 * another system, or this one has no members yet (where `needs_members`).
 */
struct mgmt *mgmt_enter(struct grpc_call *call, const char *sys, bool needs_members);

/* What is in memory is what is stored, again, if it was not. Errors: those of system_store_load(). */
MUST_CHECK int mgmt_load_again(struct mgmt *mgmt, struct fault *why);

/* Make a change of one member part of `batch`: it holds in memory at once. Errors: -ENOMEM, those of a commit. */
MUST_CHECK int mgmt_batch_add(struct mgmt *mgmt, struct mgmt_batch *batch, const struct system_change *change,
			      struct fault *why);
/* Store and free it. When it fails everything is as it is stored. Errors: those of system_store_members(). */
MUST_CHECK int mgmt_batch_commit(struct mgmt *mgmt, struct mgmt_batch *batch, struct fault *why);
/* Drop a batch of which something failed: everything is as it is stored. */
void mgmt_batch_drop(struct mgmt *mgmt, struct mgmt_batch *batch);

/* Store and apply a change of attributes or properties. Errors: those of system_store_change(). */
MUST_CHECK int mgmt_change_pairs(struct mgmt *mgmt, const struct system_change *change, struct fault *why);

/* Call a server; `done` is called once, later, but not after mgmt_close(). Errors: those of grpc_client_call(). */
MUST_CHECK int mgmt_call(struct mgmt *mgmt, const char *address, const char *path, const ProtobufCMessage *request,
			 const ProtobufCMessageDescriptor *response, uint64_t timeout_ns,
			 void (*done)(void *ctx, const struct grpc_result *result), void *ctx);

/* `error` with or without a fault that says it, as a fault that can be sent. */
void mgmt_fail(struct grpc_call *call, int error, struct fault *why);

/* ---- select.c ---- */

/* Ranks of a request: those that are there, and what was asked for and is not. */
struct mgmt_selection {
	struct rank_set ranks;
	bool is_all; /* nothing was named */
	char *absent_ranks, *absent_hosts;
	struct mgmt_unranked *unranked; /* mgmt_select_unranked() */
	size_t unranked_count;
};

/* Errors: -EINVAL (ranks and hosts, or lists that are wrong), -ENOMEM. mgmt_selection_deinit() in any case. */
MUST_CHECK int mgmt_select(const struct mgmt *mgmt, const char *ranks, const char *hosts,
			   struct mgmt_selection *selection_ret, struct fault *why);
void mgmt_selection_deinit(struct mgmt_selection *selection);

enum { MGMT_RANKS_BYTES = 64 };
/* "rank 2", "ranks 0-3,7", "400 ranks" where that is too long. Returns `text`, of MGMT_RANKS_BYTES. */
const char *mgmt_ranks_text(const struct rank_set *ranks, char *text);

/* Results of ranks for an answer, in the order in which they were added. */
struct mgmt_results {
	Shared__RankResult *results, **places;
	size_t count, room;
};
MUST_CHECK int mgmt_results_init(struct mgmt_results *results, size_t room); /* -ENOMEM */
/* Borrows the texts. */
void mgmt_results_add(struct mgmt_results *results, uint32_t rank, const char *action, bool errored, const char *message,
		      const char *state, const char *address);
void mgmt_results_deinit(struct mgmt_results *results);

/* ---- unranked.c ---- */

/* A server with engines that have no rank. */
struct mgmt_unranked {
	char address[HOST_BYTES_MAX];
	uint32_t idle, formatted; /* engines that can be started, that can be erased */
	uint32_t count;		  /* of a selection: those that are meant */
	uint64_t heard;		  /* tick */
};

/* What the server at `address` reports. */
void mgmt_note_unranked(struct mgmt *mgmt, const char *address, const Fathom__ReportEnginesReq *request);
void mgmt_unranked_close(struct mgmt *mgmt);
/* As mgmt_enter() for a system that has members or engines without a rank. */
struct mgmt *mgmt_enter_for_engines(struct grpc_call *call, const char *sys);
/*
 * Add to `selection` the engines without a rank of `hosts` ("": all) that can be started or erased; hosts that have some
 * are absent no more. Errors: -ENOMEM, -EINVAL.
 */
MUST_CHECK int mgmt_select_unranked(const struct mgmt *mgmt, bool is_erase, const char *hosts,
				    struct mgmt_selection *selection, struct fault *why);
size_t mgmt_unranked_engines(const struct mgmt_selection *selection);
struct mgmt_operation_rank;
/* A row for each of them: `rows` has room for mgmt_unranked_engines(). */
void mgmt_fill_unranked(const struct mgmt_selection *selection, struct mgmt_operation_rank *rows);

/* ---- join.c ---- */

void mgmt_join(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_joins_close(struct mgmt *mgmt);

/* ---- group.c ---- */

/* The map may have changed: whoever has not the latest is sent it. */
void mgmt_map_changed(struct mgmt *mgmt);
/* The server at `address` may have forgotten it. */
void mgmt_map_forgotten(struct mgmt *mgmt, const char *address);
void mgmt_map_close(struct mgmt *mgmt);

struct mgmt_target;
/* The server at `address`; NULL: no member is there, or the map that it is in is not out yet. */
struct mgmt_target *mgmt_find_target(const struct mgmt *mgmt, const char *address);
/* It is there again: no need to wait before it is called. */
void mgmt_target_back(struct mgmt_target *target);

struct mgmt_target {
	struct trace_object trace;
	enum mgmt_target_state state;
	TAILQ_ENTRY(mgmt_target) link; /* of those that are gone */
	struct mgmt *mgmt;
	const struct trace_istr *name;
	char address[HOST_BYTES_MAX];
	uint32_t sent, acknowledged; /* versions of the map; 0: none */
	uint32_t failures;	     /* in a row */
	bool is_gone;		     /* nobody is there any more; freed when its call is over */
	bool is_doubtful;	     /* of the call under way: it counts among the few of those */
	uint64_t heard;		     /* hosts.c: tick */
	bool is_silent, is_told;     /* its ranks are unresponsive; there was an event of it */
	struct deadline deadline;
};

/* ---- query.c ---- */

void mgmt_system_query(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_leader_query(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_get_attach_info(struct grpc_call *call, const ProtobufCMessage *request);

/* ---- pairs.c ---- */

void mgmt_set_attributes(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_get_attributes(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_set_properties(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_get_properties(struct grpc_call *call, const ProtobufCMessage *request);
/* Attributes and properties are as at first. Errors: those of mgmt_change_pairs(), -ENOMEM. */
MUST_CHECK int mgmt_forget_pairs(struct mgmt *mgmt, struct fault *why);

/* ---- ranks.c ---- */

struct mgmt_operation_rank {
	uint32_t rank;
	uint64_t incarnation; /* as it was when the operation began */
	bool was_joined;      /* likewise */
	bool is_answered, is_left_out, errored;
	bool is_unranked; /* unranked.c: RANK_NONE, until it has joined */
	const char *action;
	char state[MGMT_STATE_BYTES];
	char message[MEMBER_INFO_BYTES];
	char address[HOST_BYTES_MAX];
};

/* A start, a stop or an erasing that is under way. */
struct mgmt_operation {
	struct trace_object trace;
	enum mgmt_operation_state state;
	TAILQ_ENTRY(mgmt_operation) link;
	struct mgmt *mgmt;
	struct grpc_call *call;
	bool is_stop, is_erase; /* neither: a start */
	bool is_forced, is_for_checker;
	char *absent_ranks, *absent_hosts;
	struct mgmt_operation_rank *ranks; /* by address, then by rank: those of a server follow each other */
	size_t count;
	size_t next; /* the first rank of the next server to be called */
	uint32_t calls;
	char who[GRPC_WHO_BYTES];
	size_t *unsettled; /* ranks whose state is to be stored */
	size_t unsettled_count;
	struct deadline deadline;
};

void mgmt_system_start(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_system_stop(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_system_erase(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_operations_close(struct mgmt *mgmt);
/* ---- outcome.c ---- */

/* "stopped": what is done with its ranks. */
const char *mgmt_participle(const struct mgmt_operation *operation);
/* Events of its end; its failures are counted. */
void mgmt_tell_outcome(const struct mgmt_operation *operation);
/* Answer its call. */
void mgmt_reply_outcome(const struct mgmt_operation *operation);

/* ---- ranks.c ---- */

/* Whether `rank` is being stopped, so that its end is no failure. */
bool mgmt_is_stopping(const struct mgmt *mgmt, uint32_t rank);
/* Whether it is part of an operation, which says what becomes of it. */
bool mgmt_is_busy(const struct mgmt *mgmt, uint32_t rank);

/* ---- hosts.c ---- */

void mgmt_report_engines(struct grpc_call *call, const ProtobufCMessage *request);
/* The interval between two reports of a server, which its answers have. */
uint64_t mgmt_beat_ns(const struct mgmt *mgmt);
/* The server at `address` has said something. */
void mgmt_heard(struct mgmt *mgmt, const char *address);
/* Look in a while who is silent. */
void mgmt_watch(struct mgmt *mgmt);
void mgmt_reports_close(struct mgmt *mgmt);

/* ---- exclude.c ---- */

void mgmt_system_exclude(struct grpc_call *call, const ProtobufCMessage *request);

/* ---- events.c ---- */

void mgmt_take_events(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_cluster_event(struct grpc_call *call, const ProtobufCMessage *request);
void mgmt_system_events(struct grpc_call *call, const ProtobufCMessage *request);
/* An event of its own. One that the database does not take is logged, and counted as lost. */
void mgmt_raise(struct mgmt *mgmt, const struct ras_event *event);
/*
 * An event of what was done: "WHAT by WHO", of which WHAT is cut where both are too long. `operation` ("system stop") is
 * its ctl_op; `who` NULL: no operator asked for it.
 */
void mgmt_tell(struct mgmt *mgmt, enum ras_id id, const char *operation, const char *who, const char *what, ...)
	PRINTF_LIKE(5, 6);
void mgmt_waiters_close(struct mgmt *mgmt);

#endif
