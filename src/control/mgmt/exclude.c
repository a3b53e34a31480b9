/* SPDX-License-Identifier: BSD-2-Clause */
/* Ranks that an operator takes out and lets back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"

/* All ranks of `selection`, or none. */
static int exclude(struct mgmt *mgmt, const struct mgmt_selection *selection, bool is_clear, struct fault *why)
{
	struct mgmt_batch batch = { 0 };
	int error = 0;

	for (size_t i = 0; !error && i < selection->ranks.count; i++) {
		uint32_t rank = selection->ranks.ranks[i];
		struct system_change change;

		if (is_clear)
			error = system_clear_exclude(mgmt->system, rank, clock_realtime_ns(), &change, why);
		else
			error = system_exclude(mgmt->system, rank, clock_realtime_ns(), &change, why);
		if (error == -EALREADY)
			error = 0;
		else if (!error)
			error = mgmt_batch_add(mgmt, &batch, &change, why);
	}
	if (!error)
		return mgmt_batch_commit(mgmt, &batch, why);
	mgmt_batch_drop(mgmt, &batch);
	return error;
}

/* What is not there is said before anything is done. */
static int check(const struct mgmt_selection *selection, struct fault *why)
{
	struct rank_set absent = { 0 };
	int error = 0;

	if (selection->is_all)
		return fault_no_ranks_named(why);
	if (selection->absent_hosts && *selection->absent_hosts)
		return fault(why, -ENOENT, "no rank is at %s", selection->absent_hosts);
	if (selection->absent_ranks && *selection->absent_ranks) {
		error = rank_set_parse(selection->absent_ranks, &absent, why);
		if (!error)
			error = fault_no_such_rank(why, absent.ranks[0]);
		rank_set_deinit(&absent);
	}
	return error;
}

static void reply(struct grpc_call *call, const struct mgmt *mgmt, const struct mgmt_selection *selection, bool is_clear,
		  struct mgmt_results *results)
{
	Mgmt__SystemExcludeResp response = MGMT__SYSTEM_EXCLUDE_RESP__INIT;

	for (size_t i = 0; i < selection->ranks.count; i++) {
		const struct member *member = system_member_by_rank(mgmt->system, selection->ranks.ranks[i]);

		must(member);
		mgmt_results_add(results, member->rank, is_clear ? "clear-exclude" : "exclude", false, "",
				 member_state_wire(member->state), member->address);
	}
	response.n_results = results->count;
	response.results = results->places;
	grpc_reply(call, &response.base);
}

void mgmt_system_exclude(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemExcludeReq *asked = (const Mgmt__SystemExcludeReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct mgmt_results results = { 0 };
	struct mgmt_selection selection;
	struct fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	error = mgmt_select(mgmt, asked->ranks, asked->hosts, &selection, &why);
	if (!error)
		error = check(&selection, &why);
	if (!error)
		error = mgmt_results_init(&results, selection.ranks.count);
	if (!error)
		error = exclude(mgmt, &selection, asked->clear, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		reply(call, mgmt, &selection, asked->clear, &results);
	mgmt_results_deinit(&results);
	mgmt_selection_deinit(&selection);
}
