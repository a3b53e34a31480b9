/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations that start, stop or erase ranks. Each server is called for its own ranks, up to MGMT_PARALLEL_MAX at a time.
 *
 *     start           StartRanks
 *     stop            PrepShutdownRanks, then StopRanks for the prepared ranks
 *     stop, forced    StopRanks
 *     erase           ResetFormatRanks; ranks whose storage was erased are removed from the system
 *
 * The result that a server returns for a rank becomes the rank's state. If a server does not answer, its ranks become
 * unresponsive. A rank is part of at most one operation.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"
#include "control/status/status.h"
#include "rpc/proto/ctl.pb-c.h"
#include "base/reactor/reactor.h"

enum { SETTLE_MS = 20, ROOM_BYTES = 16384 }; /* ROOM_BYTES: more than the rows of a join need */

#define STOP_INFO "system stop"
#define START_INFO "system start"
#define ERASE_INFO "system erase"

/* A call to one server, with its range of ranks in the operation. */
struct rank_call {
	struct mgmt_operation *operation;
	size_t first, count;
};

static void run_operation(struct mgmt_operation *operation);

/* ---- checks before an operation ---- */

/* The operation that `rank` is part of; NULL: none. */
static const struct mgmt_operation *operation_of(const struct mgmt *mgmt, uint32_t rank)
{
	const struct mgmt_operation *operation;

	TAILQ_FOREACH (operation, &mgmt->operations, link) {
		for (size_t i = 0; i < operation->count; i++) {
			if (operation->ranks[i].rank == rank)
				return operation;
		}
	}
	return NULL;
}

bool mgmt_is_stopping(const struct mgmt *mgmt, uint32_t rank)
{
	const struct mgmt_operation *operation = operation_of(mgmt, rank);

	return operation && operation->is_stop;
}

bool mgmt_is_busy(const struct mgmt *mgmt, uint32_t rank)
{
	return operation_of(mgmt, rank);
}

static int check_busy(const struct mgmt *mgmt, const struct mgmt_selection *selection, struct fathom_fault *why)
{
	const struct mgmt_operation *operation;

	TAILQ_FOREACH (operation, &mgmt->operations, link) {
		for (size_t i = 0; i < operation->count; i++) {
			if (rank_set_has(&selection->ranks, operation->ranks[i].rank))
				return fault_rank_busy(why, operation->ranks[i].rank, mgmt_participle(operation));
		}
	}
	return mgmt->operation_count < MGMT_OPERATIONS_MAX ? 0 : -EAGAIN;
}

/* Leave out ranks that an operator excluded. If the request names one without `is_ignored`, it is an error. */
static int leave_out_excluded(const struct mgmt *mgmt, struct mgmt_selection *selection, bool is_ignored,
			      struct fathom_fault *why)
{
	for (size_t i = selection->ranks.count; i-- > 0;) {
		uint32_t rank = selection->ranks.ranks[i];

		if (system_member_by_rank(mgmt->system, rank)->state != MEMBER_ADMIN_EXCLUDED)
			continue;
		if (!selection->is_all && !is_ignored)
			return fault_rank_excluded(why, rank);
		rank_set_remove(&selection->ranks, rank);
	}
	return 0;
}

/* Reject an erase while any selected rank may run. */
static int check_ended(const struct mgmt *mgmt, const struct mgmt_selection *selection, struct fathom_fault *why)
{
	for (size_t i = 0; i < selection->ranks.count; i++) {
		const struct member *member = system_member_by_rank(mgmt->system, selection->ranks.ranks[i]);
		struct system_change change;

		must(member);
		if (system_remove(mgmt->system, member->rank, &change, why) < 0)
			return fault_system_running(why, member->rank, member_state_title(member->state));
	}
	return 0;
}

/* ---- states ---- */

/*
 * Report a state. An illegal move is ignored: the rank has joined again or was excluded meanwhile. A report about an older
 * process is ignored, too. `incarnation` 0: any.
 */
static int report_rank(struct mgmt *mgmt, struct mgmt_batch *batch, uint32_t rank, uint64_t incarnation,
		       enum member_state to, const char *info, struct fathom_fault *why)
{
	struct system_change change;
	struct fathom_fault not_legal;
	int error = system_report(mgmt->system, rank, incarnation, to, info, clock_realtime_ns(), &change, &not_legal);

	if (error)
		return 0;
	return mgmt_batch_add(mgmt, batch, &change, why);
}

/* Remove a rank whose storage was erased, unless it has joined meanwhile. */
static int remove_erased_rank(struct mgmt *mgmt, struct mgmt_batch *batch, uint32_t rank, struct fathom_fault *why)
{
	struct system_change change;
	struct fathom_fault not_legal;

	if (system_remove(mgmt->system, rank, &change, &not_legal) < 0)
		return 0;
	return mgmt_batch_add(mgmt, batch, &change, why);
}

static int mark_stopping(struct mgmt_operation *operation, struct fathom_fault *why)
{
	struct mgmt *mgmt = operation->mgmt;
	struct mgmt_batch batch = { 0 };
	int error = 0;

	for (size_t i = 0; !error && operation->is_stop && i < operation->count; i++) {
		uint32_t rank = operation->ranks[i].rank;

		/* a stopped rank stays stopped until its server reports another state */
		if (system_member_by_rank(mgmt->system, rank)->state != MEMBER_STOPPED)
			error = report_rank(mgmt, &batch, rank, 0, MEMBER_STOPPING, STOP_INFO, why);
	}
	if (!error)
		return mgmt_batch_commit(mgmt, &batch, why);
	mgmt_batch_drop(mgmt, &batch);
	return error;
}

static enum member_state state_of(const struct mgmt_operation_rank *rank)
{
	enum member_state state;

	if (member_state_parse(rank->state, &state) < 0 || state == MEMBER_UNKNOWN)
		return MEMBER_ERRORED;
	return state;
}

/* Whether the server did not answer for the rank, but the rank has joined since the operation began. */
static bool has_come_back(const struct mgmt *mgmt, const struct mgmt_operation_rank *rank)
{
	const struct member *member = system_member_by_rank(mgmt->system, rank->rank);

	return member && state_of(rank) == MEMBER_UNRESPONSIVE && member->state == MEMBER_JOINED && !rank->was_joined;
}

/* Store the unsettled results in one transaction. */
static void store_results(struct mgmt_operation *operation)
{
	struct mgmt *mgmt = operation->mgmt;
	struct mgmt_batch batch = { 0 };
	struct fathom_fault why = { 0 };
	int error = 0;

	deadline_clear(&mgmt->deadlines, &operation->deadline);
	error = mgmt_load_again(mgmt, &why);
	for (size_t i = 0; !error && i < operation->unsettled_count; i++) {
		const struct mgmt_operation_rank *rank = &operation->ranks[operation->unsettled[i]];

		if (rank->is_unranked)
			continue; /* not a member; if it has joined, the join has stored its state */
		if (operation->is_erase && !rank->errored)
			error = remove_erased_rank(mgmt, &batch, rank->rank, &why);
		else if (!has_come_back(mgmt, rank))
			error = report_rank(mgmt, &batch, rank->rank, rank->incarnation, state_of(rank), rank->message,
					    &why);
	}
	if (error)
		mgmt_batch_drop(mgmt, &batch);
	else
		error = mgmt_batch_commit(mgmt, &batch, &why);
	for (size_t i = 0; error && i < operation->unsettled_count; i++) {
		struct mgmt_operation_rank *rank = &operation->ranks[operation->unsettled[i]];

		/* the server has done it, but the state is not stored: report that as the rank's error */
		rank->errored = true;
		snprintf(rank->message, sizeof(rank->message), "%.250s", why.error ? why.text : strerror(-error));
	}
	operation->unsettled_count = 0;
}

static void store_results_now(struct deadline *deadline)
{
	store_results(container_of(deadline, struct mgmt_operation, deadline));
}

static void set_rank_result(struct mgmt_operation *operation, size_t at, bool errored, const char *state,
			    const char *message)
{
	struct mgmt_operation_rank *rank = &operation->ranks[at];

	rank->is_answered = true;
	rank->errored = errored;
	if (text_copy(rank->state, sizeof(rank->state), state) < 0)
		rank->state[0] = '\0';
	rank->message[text_utf8_copy(rank->message, sizeof(rank->message) - 1, message, strlen(message))] = '\0';
	/* a successful preparation does not change the state: it is already Stopping */
	if (operation->state != MGMT_OPERATION_PREPARING || errored)
		operation->unsettled[operation->unsettled_count++] = at;
	probe_mgmt_rank_done(reactor_now(), operation, rank->rank, errored);
}

/* ---- the end ---- */

static int compare_ranks(const void *a, const void *b)
{
	const struct mgmt_operation_rank *x = a, *y = b;

	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void free_operation(struct mgmt_operation *operation)
{
	free(operation->ranks);
	free(operation->unsettled);
	free(operation->absent_ranks);
	free(operation->absent_hosts);
	free(operation);
}

static void end_operation(struct mgmt_operation *operation)
{
	struct mgmt *mgmt = operation->mgmt;

	struct fathom_fault why = { 0 };
	int error = 0;

	store_results(operation);
	if (operation->is_erase && system_member_count(mgmt->system) == 0)
		error = mgmt_forget_pairs(mgmt, &why);
	mgmt_operation_state_move(reactor_now(), operation, MGMT_OPERATION_IDLE);
	TAILQ_REMOVE(&mgmt->operations, operation, link);
	mgmt->operation_count--;
	qsort(operation->ranks, operation->count, sizeof(*operation->ranks), compare_ranks);
	mgmt_tell_outcome(operation);
	if (error)
		mgmt_fail(operation->call, error, &why);
	else
		mgmt_reply_outcome(operation);
	free_operation(operation);
}

/* ---- one server ---- */

static const char *success_info(const struct mgmt_operation *operation)
{
	return operation->is_stop ? STOP_INFO : operation->is_erase ? ERASE_INFO : START_INFO;
}

/* The row for `result`: the row of its rank, else the next row of an engine without a rank. SIZE_MAX: none. */
static size_t result_row(const struct rank_call *rank_call, const Shared__RankResult *result)
{
	const struct mgmt_operation_rank *ranks = rank_call->operation->ranks;
	size_t end = rank_call->first + rank_call->count;

	for (size_t at = rank_call->first; at < end; at++) {
		if (ranks[at].rank == result->rank && !ranks[at].is_answered && !ranks[at].is_left_out)
			return at;
	}
	for (size_t at = rank_call->first; at < end; at++) {
		if (ranks[at].is_unranked && !ranks[at].is_answered)
			return at;
	}
	return SIZE_MAX;
}

static void take_results(const struct rank_call *rank_call, const Ctl__RanksResp *response)
{
	struct mgmt_operation *operation = rank_call->operation;

	for (size_t i = 0; i < response->n_results; i++) {
		const Shared__RankResult *result = response->results[i];
		size_t at = result_row(rank_call, result);

		if (at == SIZE_MAX)
			continue;
		operation->ranks[at].rank = result->rank;
		set_rank_result(operation, at, result->errored, result->state,
				result->errored ? result->msg : success_info(operation));
	}
	for (size_t at = rank_call->first; at < rank_call->first + rank_call->count; at++)
		operation->ranks[at].is_left_out |= operation->ranks[at].is_unranked && !operation->ranks[at].is_answered;
}

/* Set all unanswered ranks of the call to an error. */
static void fail_unanswered(const struct rank_call *rank_call, const char *state, const char *message)
{
	struct mgmt_operation *operation = rank_call->operation;

	for (size_t at = rank_call->first; at < rank_call->first + rank_call->count; at++) {
		if (!operation->ranks[at].is_answered && !operation->ranks[at].is_left_out)
			set_rank_result(operation, at, true, state, message);
	}
}

static void ranks_done(void *ctx, const struct grpc_result *result)
{
	struct rank_call *rank_call = ctx;
	struct mgmt_operation *operation = rank_call->operation;
	struct fathom_fault why;

	if (result->code == GRPC_OK) {
		take_results(rank_call, (const Ctl__RanksResp *)result->response);
		fail_unanswered(rank_call, member_state_wire(MEMBER_ERRORED), "its server does not know it");
	} else {
		fault_from_result(result, operation->ranks[rank_call->first].address, &why);
		fail_unanswered(rank_call, member_state_wire(MEMBER_UNRESPONSIVE), why.text);
	}
	free(rank_call);
	operation->calls--;
	if (operation->unsettled_count > 0 && !operation->deadline.set)
		deadline_set(&operation->mgmt->deadlines, &operation->deadline, SETTLE_MS * NS_PER_MS, store_results_now);
	run_operation(operation);
}

/* The method that is called in each state, and its name in the results. */
static const struct {
	const char *path;
	const char *action;
} phases[] = {
	[MGMT_OPERATION_PREPARING] = { "/ctl.CtlSvc/PrepShutdownRanks", "prep shutdown" },
	[MGMT_OPERATION_STOPPING] = { "/ctl.CtlSvc/StopRanks", "stop" },
	[MGMT_OPERATION_STARTING] = { "/ctl.CtlSvc/StartRanks", "start" },
	[MGMT_OPERATION_ERASING] = { "/ctl.CtlSvc/ResetFormatRanks", "erase" },
};

/* List the ranks of the call that take part in this phase: "0-3,7". Errors: -ENOMEM. */
static int list_ranks(const struct rank_call *rank_call, char **text_ret)
{
	struct rank_set set = { 0 };
	int error = 0;

	for (size_t at = rank_call->first; !error && at < rank_call->first + rank_call->count; at++) {
		struct mgmt_operation_rank *rank = &rank_call->operation->ranks[at];

		if (!rank->is_left_out && !rank->is_unranked)
			error = rank_set_add(&set, rank->rank);
	}
	if (!error)
		error = rank_set_fold(&set, false, text_ret);
	rank_set_deinit(&set);
	return error;
}

static int call_server(struct rank_call *rank_call)
{
	struct mgmt_operation *operation = rank_call->operation;
	struct mgmt *mgmt = operation->mgmt;
	Ctl__RanksReq request = CTL__RANKS_REQ__INIT;
	char *ranks = NULL;
	int error = list_ranks(rank_call, &ranks);

	if (error)
		return error;
	request.ranks = ranks;
	request.force = operation->is_forced;
	request.check_mode = operation->is_for_checker;
	for (size_t at = rank_call->first; at < rank_call->first + rank_call->count; at++)
		request.unranked |= operation->ranks[at].is_unranked;
	error = mgmt_call(mgmt, operation->ranks[rank_call->first].address, phases[operation->state].path, &request.base,
			  &ctl__ranks_resp__descriptor, mgmt->rank_timeout_ns, ranks_done, rank_call);
	free(ranks);
	return error;
}

/* Call the server whose ranks begin at index `next`. */
static void call_next_server(struct mgmt_operation *operation)
{
	struct rank_call none = { operation, operation->next, 0 }, *rank_call;
	size_t left = 0;
	int error;

	while (operation->next < operation->count &&
	       strcmp(operation->ranks[operation->next].address, operation->ranks[none.first].address) == 0) {
		struct mgmt_operation_rank *rank = &operation->ranks[operation->next++];

		if (!rank->is_left_out) {
			rank->action = phases[operation->state].action;
			rank->is_answered = false;
			left++;
		}
		none.count++;
	}
	if (left == 0)
		return;
	rank_call = malloc(sizeof(*rank_call));
	error = rank_call ? 0 : -ENOMEM;
	if (rank_call) {
		*rank_call = none;
		error = call_server(rank_call);
	}
	if (error) {
		fail_unanswered(&none, member_state_wire(MEMBER_UNRESPONSIVE), strerror(-error));
		free(rank_call);
		return;
	}
	operation->calls++;
	operation->mgmt->stats.rank_calls++;
}

/* ---- the phases ---- */

/* Start the second phase of a stop. Ranks whose preparation failed are left out. */
static void start_stopping(struct mgmt_operation *operation)
{
	store_results(operation);
	for (size_t i = 0; i < operation->count; i++)
		operation->ranks[i].is_left_out = operation->ranks[i].errored;
	mgmt_operation_state_move(reactor_now(), operation, MGMT_OPERATION_STOPPING);
	operation->next = 0;
}

static void run_operation(struct mgmt_operation *operation)
{
	for (;;) {
		while (operation->next < operation->count && operation->calls < MGMT_PARALLEL_MAX)
			call_next_server(operation);
		if (operation->calls > 0)
			return;
		if (operation->state != MGMT_OPERATION_PREPARING)
			break;
		start_stopping(operation);
	}
	end_operation(operation);
}

static int compare_places(const void *a, const void *b)
{
	const struct mgmt_operation_rank *x = a, *y = b;
	int order = strcmp(x->address, y->address);

	return order ? order : compare_ranks(a, b);
}

static int fill_operation(struct mgmt_operation *operation, struct mgmt_selection *selection)
{
	operation->count = selection->ranks.count + mgmt_unranked_engines(selection);
	operation->ranks = calloc(operation->count + 1, sizeof(*operation->ranks));
	operation->unsettled = calloc(operation->count + 1, sizeof(*operation->unsettled));
	if (!operation->ranks || !operation->unsettled)
		return -ENOMEM;
	for (size_t i = 0; i < selection->ranks.count; i++) {
		const struct member *member = system_member_by_rank(operation->mgmt->system, selection->ranks.ranks[i]);

		must(member);
		operation->ranks[i].rank = member->rank;
		memcpy(operation->ranks[i].address, member->address, sizeof(member->address));
	}
	mgmt_fill_unranked(selection, &operation->ranks[selection->ranks.count]);
	qsort(operation->ranks, operation->count, sizeof(*operation->ranks), compare_places);
	operation->absent_ranks = selection->absent_ranks;
	operation->absent_hosts = selection->absent_hosts;
	selection->absent_ranks = selection->absent_hosts = NULL;
	return 0;
}

static enum mgmt_operation_state first_state(const struct mgmt_operation *operation)
{
	if (operation->is_erase)
		return MGMT_OPERATION_ERASING;
	if (!operation->is_stop)
		return MGMT_OPERATION_STARTING;
	return operation->is_forced ? MGMT_OPERATION_STOPPING : MGMT_OPERATION_PREPARING;
}

/* Remember the members' incarnations and states at the start of the operation. */
static void note_members(struct mgmt_operation *operation)
{
	for (size_t i = 0; i < operation->count; i++) {
		const struct member *member = system_member_by_rank(operation->mgmt->system, operation->ranks[i].rank);

		if (operation->ranks[i].is_unranked)
			continue;
		must(member);
		operation->ranks[i].incarnation = member->incarnation;
		operation->ranks[i].was_joined = member->state == MEMBER_JOINED;
	}
}

/*
 * The results must be stored later. So test with a write whether the database has room (its disk may be full) before any
 * server is called. Otherwise an engine could start and its join could not be stored. A stop writes states anyway.
 */
static int check_room(struct mgmt *mgmt, const struct mgmt_operation *operation, struct fathom_fault *why)
{
	char note[ROOM_BYTES];
	const struct db_change change = {
		.key = "operation/latest", .expected = DB_VERSION_ANY, .what = DB_PUT, .value = note, .bytes = sizeof(note)
	};

	memset(note, ' ', sizeof(note));
	snprintf(note, sizeof(note), "%zu ranks are %s by %s", operation->count, mgmt_participle(operation),
		 operation->who);
	return operation->is_stop ? 0 : db_commit(mgmt->db, &change, 1, NULL, why);
}

/* Start an operation as described by `settings`, which is copied. */
static int start_operation(struct mgmt *mgmt, struct mgmt_selection *selection, const struct mgmt_operation *settings,
			   bool is_ignored, struct fathom_fault *why)
{
	struct mgmt_operation *operation;
	int error = check_busy(mgmt, selection, why);

	if (!error)
		error = settings->is_erase ? check_ended(mgmt, selection, why)
					   : leave_out_excluded(mgmt, selection, is_ignored, why);
	if (error)
		return error;
	operation = calloc(1, sizeof(*operation));
	if (!operation)
		return -ENOMEM;
	*operation = *settings;
	operation->mgmt = mgmt;
	grpc_call_who(operation->call, operation->who);
	trace_object_init(&operation->trace, TRACE_OBJECT_MGMT_OPERATION);
	error = fill_operation(operation, selection);
	if (!error)
		error = check_room(mgmt, operation, why);
	if (!error)
		error = mark_stopping(operation, why);
	if (error) {
		free_operation(operation);
		return error;
	}
	note_members(operation);
	TAILQ_INSERT_TAIL(&mgmt->operations, operation, link);
	mgmt->operation_count++;
	mgmt_operation_state_move(reactor_now(), operation, first_state(operation));
	run_operation(operation);
	return 0;
}

static void start_or_fail(struct mgmt *mgmt, const char *ranks, const char *hosts, const struct mgmt_operation *settings,
			  bool is_ignored)
{
	struct mgmt_selection selection;
	struct fathom_fault why = { 0 };
	int error = mgmt_select(mgmt, ranks, hosts, &selection, &why);

	if (!error && !settings->is_stop && !*ranks)
		error = mgmt_select_unranked(mgmt, settings->is_erase, hosts, &selection, &why);
	if (!error)
		error = start_operation(mgmt, &selection, settings, is_ignored, &why);
	if (error)
		mgmt_fail(settings->call, error, &why);
	mgmt_selection_deinit(&selection);
}

void mgmt_system_start(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemStartReq *asked = (const Mgmt__SystemStartReq *)request;
	struct mgmt_operation settings = { .call = call, .is_for_checker = asked->check_mode };
	struct mgmt *mgmt = mgmt_enter_for_engines(call, asked->sys);

	if (!mgmt)
		return;
	mgmt->stats.starts++;
	start_or_fail(mgmt, asked->ranks, asked->hosts, &settings, asked->ignore_admin_excluded);
}

void mgmt_system_stop(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemStopReq *asked = (const Mgmt__SystemStopReq *)request;
	struct mgmt_operation settings = { .call = call, .is_stop = true, .is_forced = asked->force };
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);

	if (!mgmt)
		return;
	mgmt->stats.stops++;
	start_or_fail(mgmt, asked->ranks, asked->hosts, &settings, asked->ignore_admin_excluded);
}

void mgmt_system_erase(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemEraseReq *asked = (const Mgmt__SystemEraseReq *)request;
	struct mgmt_operation settings = { .call = call, .is_erase = true };
	struct mgmt *mgmt = mgmt_enter_for_engines(call, asked->sys);

	if (mgmt)
		start_or_fail(mgmt, "", "", &settings, false);
}

void mgmt_operations_close(struct mgmt *mgmt)
{
	struct mgmt_operation *operation;
	struct mgmt_call *call;

	/* mgmt_call() does not call back after the close: free the contexts of calls under way */
	TAILQ_FOREACH (call, &mgmt->calls, link) {
		if (call->done == ranks_done)
			free(call->ctx);
	}
	while ((operation = TAILQ_FIRST(&mgmt->operations))) {
		TAILQ_REMOVE(&mgmt->operations, operation, link);
		deadline_clear(&mgmt->deadlines, &operation->deadline);
		grpc_fail(operation->call, GRPC_UNAVAILABLE, NULL, "the management service ends; what was begun goes on");
		free_operation(operation);
	}
}
