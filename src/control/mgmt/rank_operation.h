/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rank operations - start, stop or erase ranks. Each server is called for its own ranks, up to MGMT_PARALLEL_MAX at a time.
 *
 *     rank_operation_kinds.c      what each kind of operation does: its checks, its states, its events, its answer
 *     rank_operation.c            the engine that runs every kind: phases and the end
 *     rank_operation_call.c       the call to one server and its results
 *     rank_operation_results.c    store the results as states of the ranks
 *     outcome.c                   raise the events of the end, and answer the call
 *
 * The result that a server returns for a rank becomes the rank's state. If a server does not answer, its ranks become
 * unresponsive. A rank is part of at most one operation.
 */
#ifndef CONTROL_MGMT_RANK_OPERATION_H
#define CONTROL_MGMT_RANK_OPERATION_H

#include <sys/queue.h>

#include "base/fault.h"
#include "base/must.h"
#include "base/reactor/deadline.h"
#include "control/mgmt/mgmt.h"
#include "control/mgmt/states.gen.h"
#include "control/system/member.h"
#include "fathom/trace/trace.h"
#include "rpc/ras/event.h"

struct mgmt_results;
struct mgmt_selection;
struct mgmt_unranked;
struct mgmt_operation;

enum { MGMT_STATE_BYTES = 24 };

/* ---- the table of kinds: rank_operation_kinds.c ---- */

/* What one kind of operation does. */
struct mgmt_operation_kind {
	const char *command;	/* "system stop": ctl_op of its events, and info of ranks for which it succeeded */
	const char *participle; /* "stopped" */
	enum mgmt_operation_state first_state; /* a forced stop begins with STOPPING instead */
	bool is_stop;	       /* its ranks become Stopping before the first call; an exit of them is no failure */
	bool is_removal;       /* ranks for which it succeeded are removed from the system */
	enum ras_id succeeded; /* the event about ranks for which it succeeded */
	enum ras_id failed;    /* the event about ranks for which it failed; RAS_UNKNOWN: none is raised */
	size_t counter;	       /* offset of the uint64_t in struct mgmt_stats that counts these operations */
	/* The engines without a rank of a server that it includes; NULL: it includes only ranks. */
	uint32_t (*engine_count)(const struct mgmt_unranked *unranked);
	/* Check the selected ranks; may leave out some of them. Errors: the operation is rejected. */
	int (*check)(const struct mgmt *mgmt, struct mgmt_selection *selection, bool is_ignored, struct fathom_fault *why);
	/* Write to the database before the first call. Errors: the operation is rejected. */
	int (*prepare)(struct mgmt_operation *operation, struct fathom_fault *why);
	/* Answer the operation's call. Borrows `results`. */
	void (*reply)(const struct mgmt_operation *operation, const struct mgmt_results *results);
};

/* ---- the engine: rank_operation.c ---- */

/* What a request asks for. The texts are borrowed. */
struct mgmt_operation_request {
	const char *sys, *ranks, *hosts;
	bool is_ignored;     /* leave out ranks that an operator excluded, even if the request names them */
	bool is_forced;	     /* skip the preparation of a stop */
	bool is_for_checker; /* start in check mode */
};

struct mgmt_operation_rank {
	uint32_t rank;
	uint64_t incarnation; /* when the operation began */
	bool was_joined;      /* when the operation began */
	bool is_answered, is_left_out, errored;
	bool is_unranked; /* an engine without a rank: RANK_NONE, until it has joined */
	const char *action;
	char state[MGMT_STATE_BYTES];
	char message[MEMBER_INFO_BYTES];
	char address[HOST_BYTES_MAX];
};

/* An operation under way. */
struct mgmt_operation {
	struct trace_object trace;
	enum mgmt_operation_state state;
	TAILQ_ENTRY(mgmt_operation) link;
	struct mgmt *mgmt;
	struct grpc_call *call;
	const struct mgmt_operation_kind *kind;
	bool is_forced, is_for_checker;
	char *absent_ranks, *absent_hosts;
	struct mgmt_operation_rank *ranks; /* sorted by address, then rank: ranks of a server are adjacent */
	size_t count;
	size_t next; /* index of the first rank of the next server to call */
	uint32_t calls;
	char who[GRPC_WHO_BYTES];
	size_t *unsettled; /* indexes of ranks whose state is not stored yet */
	size_t unsettled_count;
	struct deadline deadline;
};

/* Start an operation of `kind` as `request` describes it, or answer `call` with the fault. */
void mgmt_operation_start(struct grpc_call *call, const struct mgmt_operation_kind *kind,
			  const struct mgmt_operation_request *request);
/* A call of the operation has ended, or could not be made: go on with the next server, the next phase or the end. */
void mgmt_operation_run(struct mgmt_operation *operation);
void mgmt_operations_close(struct mgmt *mgmt);
/* Whether an operation is stopping `rank`; its exit is then no failure. */
bool mgmt_is_stopping(const struct mgmt *mgmt, uint32_t rank);
/* Whether `rank` is part of an operation. Only the operation sets its state then. */
bool mgmt_is_busy(const struct mgmt *mgmt, uint32_t rank);

/* ---- the call to one server: rank_operation_call.c ---- */

/* Call the server whose ranks begin at index `next`, and move `next` behind them. A failure becomes the ranks' result. */
void mgmt_operation_call_next(struct mgmt_operation *operation);

/* ---- states of ranks: rank_operation_results.c ---- */

/* Mark the ranks of a stop as Stopping. Errors: those of the store, -ENOMEM. */
MUST_CHECK int mgmt_operation_mark_stopping(struct mgmt_operation *operation, struct fathom_fault *why);
/* Set the result of the rank at index `at`; it is stored shortly afterwards, together with others. */
void mgmt_operation_set_result(struct mgmt_operation *operation, size_t at, bool errored, const char *state,
			       const char *message);
/* Store the results in a short while, unless none is unsettled. */
void mgmt_operation_settle_soon(struct mgmt_operation *operation);
/* Store the unsettled results now, in one transaction. A failure becomes the result of their ranks. */
void mgmt_operation_settle(struct mgmt_operation *operation);

/* ---- outcome.c ---- */

/* Raise the events of the operation's end, and count its failures. */
void mgmt_raise_outcome(const struct mgmt_operation *operation);
/* Answer the operation's call. */
void mgmt_reply_outcome(const struct mgmt_operation *operation);

#endif
