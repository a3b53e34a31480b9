/* SPDX-License-Identifier: BSD-2-Clause */
/* Ranks that an operator takes out and lets back, and the end of a system. */
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

/* ---- erasing ---- */

static int remove_members(struct mgmt *mgmt, struct mgmt_results *results, struct member *erased, struct fault *why)
{
	struct mgmt_batch batch = { 0 };
	int error = 0;

	for (size_t i = 0; !error && system_member_count(mgmt->system) > 0; i++) {
		struct system_change change;

		erased[i] = *system_member_at(mgmt->system, 0);
		error = system_remove(mgmt->system, erased[i].rank, &change, why);
		if (error == -EPERM)
			error = fault_system_running(why, erased[i].rank, member_state_title(erased[i].state));
		if (!error)
			error = mgmt_batch_add(mgmt, &batch, &change, why);
		if (!error)
			mgmt_results_add(results, erased[i].rank, "erase", false, "", "awaitformat", erased[i].address);
	}
	if (!error)
		return mgmt_batch_commit(mgmt, &batch, why);
	mgmt_batch_drop(mgmt, &batch);
	return error;
}

/* An empty value is what there was at first. */
static int forget_pairs(struct mgmt *mgmt, enum system_change_kind kind, struct fault *why)
{
	bool is_attributes = kind == SYSTEM_ATTRIBUTES;
	size_t count = is_attributes ? system_attribute_count(mgmt->system) : system_property_count(mgmt->system);
	struct system_pair *pairs = calloc(count + 1, sizeof(*pairs));
	struct system_change change;
	int error = 0;

	if (!pairs)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct system_pair pair = is_attributes ? system_attribute_at(mgmt->system, i)
							: system_property_at(mgmt->system, i);

		pairs[i].value = "";
		pairs[i].name = strdup(pair.name); /* it goes with the attribute */
		if (!pairs[i].name)
			error = -ENOMEM;
	}
	if (!error && count > 0) {
		error = is_attributes ? system_set_attributes(mgmt->system, pairs, count, &change, why)
				      : system_set_properties(mgmt->system, pairs, count, &change, why);
		if (!error)
			error = mgmt_change_pairs(mgmt, &change, why);
	}
	for (size_t i = 0; i < count; i++)
		free((char *)(uintptr_t)pairs[i].name);
	free(pairs);
	return error;
}

void mgmt_system_erase(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemEraseReq *asked = (const Mgmt__SystemEraseReq *)request;
	Mgmt__SystemEraseResp response = MGMT__SYSTEM_ERASE_RESP__INIT;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct mgmt_results results = { 0 };
	struct member *erased;
	struct fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	erased = calloc(system_member_count(mgmt->system), sizeof(*erased));
	error = erased ? mgmt_results_init(&results, system_member_count(mgmt->system)) : -ENOMEM;
	if (!error)
		error = remove_members(mgmt, &results, erased, &why);
	if (!error)
		error = forget_pairs(mgmt, SYSTEM_ATTRIBUTES, &why);
	if (!error)
		error = forget_pairs(mgmt, SYSTEM_PROPERTIES, &why);
	if (error) {
		mgmt_fail(call, error, &why);
	} else {
		response.n_results = results.count;
		response.results = results.places;
		grpc_reply(call, &response.base);
	}
	mgmt_results_deinit(&results);
	free(erased);
}
