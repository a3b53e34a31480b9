/* SPDX-License-Identifier: BSD-2-Clause */
/* Report the outcome of an operation on ranks: events for successes and failures, and the answer. */
#include <errno.h>
#include <stdio.h>

#include "control/mgmt/internal.h"

const char *mgmt_participle(const struct mgmt_operation *operation)
{
	return operation->is_stop ? "stopped" : operation->is_erase ? "erased" : "started";
}

static void raise_failures(const struct mgmt_operation *operation)
{
	struct mgmt *mgmt = operation->mgmt;
	struct ras_event event;
	uint32_t failed = 0, first = 0;
	char whose[HOST_BYTES_MAX + 32];

	for (size_t i = operation->count; i-- > 0;) {
		if (operation->ranks[i].errored) {
			failed++;
			first = (uint32_t)i;
		}
	}
	mgmt->stats.rank_failures += failed;
	if (failed == 0 || operation->is_erase)
		return;
	if (operation->ranks[first].rank != RANK_NONE)
		snprintf(whose, sizeof(whose), "rank %u", operation->ranks[first].rank);
	else
		snprintf(whose, sizeof(whose), "an engine of %s", operation->ranks[first].address);
	ras_event_init(&event, operation->is_stop ? RAS_SYSTEM_STOP_FAILED : RAS_SYSTEM_START_FAILED,
		       "%u of %zu ranks could not be %s; %s: %s", failed, operation->count, mgmt_participle(operation),
		       whose, operation->ranks[first].message);
	mgmt_raise(mgmt, &event);
}

static const struct {
	enum ras_id id;
	const char *operation;
} endings[] = {
	{ RAS_SYSTEM_STARTED, "system start" },
	{ RAS_SYSTEM_STOPPED, "system stop" },
	{ RAS_SYSTEM_ERASED, "system erase" },
};

/* Raise an event with the ranks for which the operation succeeded, and with the operator. */
static void raise_successes(const struct mgmt_operation *operation)
{
	size_t ending = operation->is_erase ? 2 : operation->is_stop ? 1 : 0;
	struct rank_set done = { 0 };
	char ranks[MGMT_RANKS_BYTES];
	uint32_t unranked = 0;
	int error = 0;

	for (size_t i = 0; !error && i < operation->count; i++) {
		const struct mgmt_operation_rank *rank = &operation->ranks[i];

		if (!rank->errored && rank->rank != RANK_NONE)
			error = rank_set_add(&done, rank->rank);
		unranked += !rank->errored && rank->rank == RANK_NONE && !rank->is_left_out;
	}
	if (unranked > 0)
		mgmt_tell(operation->mgmt, endings[ending].id, endings[ending].operation, operation->who,
			  "%u engine%s without a rank %s %s", unranked, unranked == 1 ? "" : "s",
			  unranked == 1 ? "was" : "were", mgmt_participle(operation));
	if (done.count > 0)
		mgmt_tell(operation->mgmt, endings[ending].id, endings[ending].operation, operation->who, "%s %s %s",
			  mgmt_ranks_text(&done, ranks), done.count == 1 ? "was" : "were", mgmt_participle(operation));
	rank_set_deinit(&done);
}

void mgmt_tell_outcome(const struct mgmt_operation *operation)
{
	raise_successes(operation);
	raise_failures(operation);
}

void mgmt_reply_outcome(const struct mgmt_operation *operation)
{
	Mgmt__SystemStopResp stopped = MGMT__SYSTEM_STOP_RESP__INIT;
	Mgmt__SystemStartResp started = MGMT__SYSTEM_START_RESP__INIT;
	Mgmt__SystemEraseResp erased = MGMT__SYSTEM_ERASE_RESP__INIT;
	struct mgmt_results results;
	struct fathom_fault why = { 0 };

	if (mgmt_results_init(&results, operation->count) < 0) {
		mgmt_fail(operation->call, -ENOMEM, &why);
		return;
	}
	for (size_t i = 0; i < operation->count; i++) {
		const struct mgmt_operation_rank *rank = &operation->ranks[i];

		if (rank->is_unranked && rank->is_left_out)
			continue; /* the engine has joined meanwhile */
		mgmt_results_add(&results, rank->rank, rank->action, rank->errored, rank->message, rank->state,
				 rank->address);
	}
	stopped.n_results = started.n_results = erased.n_results = results.count;
	stopped.results = started.results = erased.results = results.places;
	if (operation->absent_ranks)
		stopped.absentranks = started.absentranks = operation->absent_ranks;
	if (operation->absent_hosts)
		stopped.absenthosts = started.absenthosts = operation->absent_hosts;
	grpc_reply(operation->call, operation->is_stop	  ? &stopped.base
				    : operation->is_erase ? &erased.base
							  : &started.base);
	mgmt_results_deinit(&results);
}
