/* SPDX-License-Identifier: BSD-2-Clause */
/* Call one server for its ranks of an operation, and take its results. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"
#include "base/reactor/reactor.h"
#include "control/status/status.h"
#include "rpc/proto/ctl.pb-c.h"

/* A call to one server, with its range of ranks in the operation. */
struct rank_call {
	struct mgmt_operation *operation;
	size_t first, count;
};

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

/* The row for `result`: the row of its rank, else the next row of an engine without a rank. SIZE_MAX: none. */
static size_t result_row(const struct rank_call *rank_call, const Shared__RankResult *result)
{
	const struct mgmt_operation_rank *ranks = rank_call->operation->ranks;
	size_t end = rank_call->first + rank_call->count;

	must(end <= rank_call->operation->count);
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

		if (at == SIZE_MAX) {
			operation->mgmt->stats.results_refused++;
			probe_mgmt_result_refused(reactor_now(), operation, result->rank);
			continue;
		}
		must(at >= rank_call->first && at < rank_call->first + rank_call->count);
		operation->ranks[at].rank = result->rank;
		mgmt_operation_set_result(operation, at, result->errored, result->state,
					  result->errored ? result->msg : operation->kind->command);
	}
	for (size_t at = rank_call->first; at < rank_call->first + rank_call->count; at++)
		operation->ranks[at].is_left_out |= operation->ranks[at].is_unranked && !operation->ranks[at].is_answered;
}

/* Set all unanswered ranks of the call to an error. */
static void fail_unanswered(const struct rank_call *rank_call, enum member_state state, const char *message)
{
	struct mgmt_operation *operation = rank_call->operation;

	must(rank_call->first + rank_call->count <= operation->count);
	for (size_t at = rank_call->first; at < rank_call->first + rank_call->count; at++) {
		if (!operation->ranks[at].is_answered && !operation->ranks[at].is_left_out)
			mgmt_operation_set_result(operation, at, true, member_state_wire(state), message);
	}
}

static void ranks_done(void *ctx, const struct grpc_result *result)
{
	struct rank_call *rank_call = ctx;
	struct mgmt_operation *operation = rank_call->operation;
	struct fathom_fault why;

	must(operation->calls > 0);
	must(operation->state != MGMT_OPERATION_IDLE);
	must(rank_call->count > 0);
	if (result->code == GRPC_OK) {
		take_results(rank_call, (const Ctl__RanksResp *)result->response);
		fail_unanswered(rank_call, MEMBER_ERRORED, "its server does not know it");
	} else {
		fault_from_result(result, operation->ranks[rank_call->first].address, &why);
		fail_unanswered(rank_call, MEMBER_UNRESPONSIVE, why.text);
	}
	operation->calls--;
	mgmt_operation_settle_soon(operation);
	mgmt_operation_run(operation); /* may free the operation */
}

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

/* Takes `rank_call`, if it succeeds. */
static int call_server(struct rank_call *rank_call)
{
	struct mgmt_operation *operation = rank_call->operation;
	Ctl__RanksReq request = CTL__RANKS_REQ__INIT;
	char *ranks = NULL;
	int error;

	must(rank_call->first + rank_call->count <= operation->count);
	must((size_t)operation->state < ARRAY_COUNT(phases));
	error = list_ranks(rank_call, &ranks);
	if (error)
		return error;
	request.ranks = ranks;
	request.force = operation->is_forced;
	request.check_mode = operation->is_for_checker;
	for (size_t at = rank_call->first; at < rank_call->first + rank_call->count; at++)
		request.unranked |= operation->ranks[at].is_unranked;
	error = mgmt_call(operation->mgmt,
			  &(struct grpc_request){
				  .address = operation->ranks[rank_call->first].address,
				  .path = phases[operation->state].path,
				  .message = &request.base,
				  .response = &ctl__ranks_resp__descriptor,
				  .timeout_ns = operation->mgmt->rank_timeout_ns,
				  .done = ranks_done,
				  .ctx = rank_call,
			  },
			  free);
	free(ranks);
	return error;
}

/* Reset the ranks of the next server for this phase. Returns how many take part; `range_ret` has all of them. */
static size_t take_next_range(struct mgmt_operation *operation, struct rank_call *range_ret)
{
	struct rank_call range = { operation, operation->next, 0 };
	size_t taking_part = 0;

	must(operation->next < operation->count);
	while (operation->next < operation->count &&
	       strcmp(operation->ranks[operation->next].address, operation->ranks[range.first].address) == 0) {
		struct mgmt_operation_rank *rank = &operation->ranks[operation->next++];

		range.count++;
		if (rank->is_left_out)
			continue;
		rank->action = phases[operation->state].action;
		rank->is_answered = false;
		taking_part++;
	}
	must(range.count > 0);
	must(range.first + range.count == operation->next);
	*range_ret = range;
	return taking_part;
}

void mgmt_operation_call_next(struct mgmt_operation *operation)
{
	struct rank_call range, *rank_call;
	int error;

	must(operation->calls < MGMT_PARALLEL_MAX);
	must(phases[operation->state].path);
	if (take_next_range(operation, &range) == 0)
		return;
	rank_call = malloc(sizeof(*rank_call));
	error = rank_call ? 0 : -ENOMEM;
	if (rank_call) {
		*rank_call = range;
		error = call_server(rank_call);
	}
	if (error) {
		fail_unanswered(&range, MEMBER_UNRESPONSIVE, strerror(-error));
		free(rank_call);
		return;
	}
	operation->calls++;
	operation->mgmt->stats.rank_calls++;
}
