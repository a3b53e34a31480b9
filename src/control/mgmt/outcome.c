/* SPDX-License-Identifier: BSD-2-Clause */
/* Report the outcome of an operation on ranks: events for successes and failures, and the answer. */
#include <errno.h>
#include <stdio.h>

#include "control/mgmt/internal.h"

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
	must(failed == 0 || first < operation->count);
	must(failed <= operation->count);
	mgmt->stats.rank_failures += failed;
	if (failed == 0 || operation->kind->failed == RAS_UNKNOWN)
		return;
	if (operation->ranks[first].rank != RANK_NONE)
		snprintf(whose, sizeof(whose), "rank %u", operation->ranks[first].rank);
	else
		snprintf(whose, sizeof(whose), "an engine of %s", operation->ranks[first].address);
	ras_event_init(&event, operation->kind->failed, "%u of %zu ranks could not be %s; %s: %s", failed, operation->count,
		       operation->kind->participle, whose, operation->ranks[first].message);
	mgmt_raise(mgmt, &event);
}

/* Raise an event with the ranks for which the operation succeeded, and with the operator. */
static void raise_successes(const struct mgmt_operation *operation)
{
	const struct mgmt_operation_kind *kind = operation->kind;
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
	must(error || done.count + unranked <= operation->count);
	if (unranked > 0)
		mgmt_raise_operation(operation->mgmt, kind->succeeded, kind->command, operation->who,
				     "%u engine%s without a rank %s %s", unranked, unranked == 1 ? "" : "s",
				     unranked == 1 ? "was" : "were", kind->participle);
	if (done.count > 0)
		mgmt_raise_operation(operation->mgmt, kind->succeeded, kind->command, operation->who, "%s %s %s",
				     mgmt_ranks_text(&done, ranks), done.count == 1 ? "was" : "were", kind->participle);
	rank_set_deinit(&done);
}

void mgmt_raise_outcome(const struct mgmt_operation *operation)
{
	must(operation->state == MGMT_OPERATION_IDLE);
	must(operation->unsettled_count == 0);
	raise_successes(operation);
	raise_failures(operation);
}

void mgmt_reply_outcome(const struct mgmt_operation *operation)
{
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
		mgmt_results_add(&results, &(struct mgmt_result){
						   .rank = rank->rank,
						   .action = rank->action,
						   .errored = rank->errored,
						   .message = rank->message,
						   .state = rank->state,
						   .address = rank->address,
					   });
	}
	must(results.count <= operation->count);
	operation->kind->reply(operation, &results);
	mgmt_results_deinit(&results);
}
