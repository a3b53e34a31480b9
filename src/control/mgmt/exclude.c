/* SPDX-License-Identifier: BSD-2-Clause */
/* Exclude ranks on an operator's request, and clear exclusions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"

/* Change all ranks of `selection` or none. Ranks whose state changes are added to `changed`. */
static int change_exclusions(struct mgmt *mgmt, const struct mgmt_selection *selection, bool is_clear,
			     struct rank_set *changed, struct fathom_fault *why)
{
	struct mgmt_batch batch = { 0 };
	int error = 0;

	must(!selection->is_all);
	must(changed->count == 0);
	for (size_t i = 0; !error && i < selection->ranks.count; i++) {
		uint32_t rank = selection->ranks.ranks[i];
		struct system_change change;

		if (is_clear)
			error = system_clear_exclude(mgmt->system, rank, clock_realtime_ns(), &change, why);
		else
			error = system_exclude(mgmt->system, rank, clock_realtime_ns(), &change, why);
		if (error == -EALREADY) {
			error = 0;
			continue;
		}
		if (!error)
			error = mgmt_batch_add(mgmt, &batch, &change, why);
		if (!error)
			error = rank_set_add(changed, rank);
	}
	must(changed->count <= selection->ranks.count);
	if (!error)
		return mgmt_batch_commit(mgmt, &batch, why);
	mgmt_batch_drop(mgmt, &batch);
	return error;
}

/* Reject absent ranks and hosts before any change. */
static int check_selection(const struct mgmt_selection *selection, struct fathom_fault *why)
{
	struct rank_set absent = { 0 };
	int error = 0;

	if (selection->is_all)
		return fault_no_ranks_named(why);
	if (selection->absent_hosts && *selection->absent_hosts)
		return fault(why, -ENOENT, "no rank is at %s", selection->absent_hosts);
	if (selection->absent_ranks && *selection->absent_ranks) {
		error = rank_set_parse(selection->absent_ranks, &absent, why);
		must(error || absent.count > 0); /* it is the text of a set with ranks */
		if (!error)
			error = fault_no_such_rank(why, absent.ranks[0]);
		rank_set_deinit(&absent);
	}
	return error;
}

static void reply_exclude(struct grpc_call *call, const struct mgmt *mgmt, const struct mgmt_selection *selection,
			  bool is_clear, struct mgmt_results *results)
{
	Mgmt__SystemExcludeResp response = MGMT__SYSTEM_EXCLUDE_RESP__INIT;

	for (size_t i = 0; i < selection->ranks.count; i++) {
		const struct member *member = system_member_by_rank(mgmt->system, selection->ranks.ranks[i]);

		must(member);
		mgmt_results_add(results, &(struct mgmt_result){
						  .rank = member->rank,
						  .action = is_clear ? "clear-exclude" : "exclude",
						  .message = "",
						  .state = member_state_wire(member->state),
						  .address = member->address,
					  });
	}
	must(results->count == selection->ranks.count);
	response.n_results = results->count;
	response.results = results->places;
	grpc_reply(call, &response.base);
}

static void raise_exclude_event(struct mgmt *mgmt, const struct grpc_call *call, bool is_clear,
				const struct rank_set *changed)
{
	char ranks[MGMT_RANKS_BYTES], who[GRPC_WHO_BYTES];

	if (changed->count == 0)
		return;
	grpc_call_who(call, who);
	mgmt_ranks_text(changed, ranks);
	if (is_clear)
		mgmt_raise_operation(mgmt, RAS_RANK_EXCLUDE_CLEARED, "system clear-exclude", who,
				     "the exclusion of %s was cleared", ranks);
	else
		mgmt_raise_operation(mgmt, RAS_RANK_EXCLUDED, "system exclude", who, "%s %s excluded", ranks,
				     changed->count == 1 ? "was" : "were");
}

void mgmt_system_exclude(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemExcludeReq *asked = (const Mgmt__SystemExcludeReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct mgmt_results results = { 0 };
	struct mgmt_selection selection;
	struct rank_set changed = { 0 };
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	error = mgmt_select(mgmt, asked->ranks, asked->hosts, &selection, &why);
	if (!error)
		error = check_selection(&selection, &why);
	if (!error)
		error = mgmt_results_init(&results, selection.ranks.count);
	if (!error)
		error = change_exclusions(mgmt, &selection, asked->clear, &changed, &why);
	if (!error)
		raise_exclude_event(mgmt, call, asked->clear, &changed);
	if (error)
		mgmt_fail(call, error, &why);
	else
		reply_exclude(call, mgmt, &selection, asked->clear, &results);
	rank_set_deinit(&changed);
	mgmt_results_deinit(&results);
	mgmt_selection_deinit(&selection);
}
