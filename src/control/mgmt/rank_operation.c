/* SPDX-License-Identifier: BSD-2-Clause */
/* Run an operation of any kind on ranks: check it, fill it, go through its phases, end it. */
#include "control/mgmt/rank_operation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"
#include "base/reactor/reactor.h"

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

	return operation && operation->kind->is_stop;
}

bool mgmt_is_busy(const struct mgmt *mgmt, uint32_t rank)
{
	return operation_of(mgmt, rank);
}

static int check_no_rank_busy(struct mgmt *mgmt, const struct mgmt_selection *selection, struct fathom_fault *why)
{
	const struct mgmt_operation *operation;

	TAILQ_FOREACH (operation, &mgmt->operations, link) {
		for (size_t i = 0; i < operation->count; i++) {
			if (rank_set_has(&selection->ranks, operation->ranks[i].rank))
				return fault_rank_busy(why, operation->ranks[i].rank, operation->kind->participle);
		}
	}
	must(mgmt->operation_count <= MGMT_OPERATIONS_MAX);
	return mgmt->operation_count < MGMT_OPERATIONS_MAX
		       ? 0
		       : mgmt_refuse_full(mgmt, "operations on ranks", mgmt->operation_count, why);
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

	must(operation->calls == 0);
	must(operation->next == operation->count);
	mgmt_operation_settle(operation);
	if (operation->kind->is_removal && system_member_count(mgmt->system) == 0)
		error = mgmt_forget_pairs(mgmt, &why);
	if (!error && operation->kind->is_removal && system_member_count(mgmt->system) == 0)
		error = storage_forget_all(mgmt, &why);
	mgmt_operation_state_move(reactor_now(), operation, MGMT_OPERATION_IDLE);
	must(mgmt->operation_count > 0);
	TAILQ_REMOVE(&mgmt->operations, operation, link);
	mgmt->operation_count--;
	must(TAILQ_EMPTY(&mgmt->operations) == (mgmt->operation_count == 0));
	qsort(operation->ranks, operation->count, sizeof(*operation->ranks), compare_ranks);
	mgmt_raise_outcome(operation);
	if (error)
		mgmt_fail(operation->call, error, &why);
	else
		mgmt_reply_outcome(operation);
	must(!operation->deadline.set); /* it points to the operation */
	free_operation(operation);
}

/* ---- the phases ---- */

/* Start the second phase of a stop. Ranks whose preparation failed are left out. */
static void start_stop_phase(struct mgmt_operation *operation)
{
	must(operation->kind->is_stop);
	must(operation->calls == 0);
	must(operation->next == operation->count);
	mgmt_operation_settle(operation);
	for (size_t i = 0; i < operation->count; i++)
		operation->ranks[i].is_left_out = operation->ranks[i].errored;
	mgmt_operation_state_move(reactor_now(), operation, MGMT_OPERATION_STOPPING);
	operation->next = 0;
}

void mgmt_operation_run(struct mgmt_operation *operation)
{
	must(operation->state != MGMT_OPERATION_IDLE);
	must(operation->calls <= MGMT_PARALLEL_MAX);
	for (;;) {
		while (operation->next < operation->count && operation->calls < MGMT_PARALLEL_MAX)
			mgmt_operation_call_next(operation);
		if (operation->calls > 0)
			return;
		must(operation->next == operation->count);
		if (operation->state != MGMT_OPERATION_PREPARING)
			break;
		start_stop_phase(operation);
	}
	end_operation(operation);
}

/* ---- the start ---- */

static int compare_addresses(const void *a, const void *b)
{
	const struct mgmt_operation_rank *x = a, *y = b;
	int order = strcmp(x->address, y->address);

	return order ? order : compare_ranks(a, b);
}

/* Fill the rows of the selected ranks and engines. Takes the texts of absent ranks and hosts. */
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
	qsort(operation->ranks, operation->count, sizeof(*operation->ranks), compare_addresses);
	operation->absent_ranks = selection->absent_ranks;
	operation->absent_hosts = selection->absent_hosts;
	selection->absent_ranks = selection->absent_hosts = NULL;
	return 0;
}

/* Remember the members' incarnations and states at the start of the operation. */
static void note_members(struct mgmt_operation *operation)
{
	for (size_t i = 0; i < operation->count; i++) {
		const struct member *member = system_member_by_rank(operation->mgmt->system, operation->ranks[i].rank);

		if (operation->ranks[i].is_unranked)
			continue;
		must(member);
		must(member->rank == operation->ranks[i].rank);
		operation->ranks[i].incarnation = member->incarnation;
		operation->ranks[i].was_joined = member->state == MEMBER_JOINED;
	}
}

/* Create an operation as described by `settings`, which is copied. Errors: -ENOMEM. */
static int create_operation(struct mgmt *mgmt, const struct mgmt_operation *settings, struct mgmt_selection *selection,
			    struct mgmt_operation **operation_ret)
{
	struct mgmt_operation *operation = calloc(1, sizeof(*operation));
	int error;

	if (!operation)
		return -ENOMEM;
	must(settings->call && settings->kind);
	*operation = *settings;
	operation->mgmt = mgmt;
	grpc_call_who(operation->call, operation->who);
	trace_object_init(&operation->trace, TRACE_OBJECT_MGMT_OPERATION);
	error = fill_operation(operation, selection);
	if (error)
		free_operation(operation);
	else
		*operation_ret = operation;
	return error;
}

static int start_operation(struct mgmt *mgmt, const struct mgmt_operation *settings, struct mgmt_selection *selection,
			   bool is_ignored, struct fathom_fault *why)
{
	const struct mgmt_operation_kind *kind = settings->kind;
	struct mgmt_operation *operation;
	int error = check_no_rank_busy(mgmt, selection, why);

	must(kind->check && kind->prepare && kind->reply);
	if (!error)
		error = kind->check(mgmt, selection, is_ignored, why);
	if (!error)
		error = create_operation(mgmt, settings, selection, &operation);
	if (error)
		return error;
	error = kind->prepare(operation, why);
	if (error) {
		free_operation(operation);
		return error;
	}
	must(operation->calls == 0 && operation->next == 0);
	note_members(operation);
	TAILQ_INSERT_TAIL(&mgmt->operations, operation, link);
	mgmt->operation_count++;
	must(mgmt->operation_count <= MGMT_OPERATIONS_MAX);
	mgmt_operation_state_move(reactor_now(), operation,
				  operation->is_forced ? MGMT_OPERATION_STOPPING : kind->first_state);
	mgmt_operation_run(operation);
	return 0;
}

void mgmt_operation_start(struct grpc_call *call, const struct mgmt_operation_kind *kind,
			  const struct mgmt_operation_request *request)
{
	const struct mgmt_operation settings = {
		.call = call,
		.kind = kind,
		.is_forced = request->is_forced,
		.is_for_checker = request->is_for_checker,
	};
	struct mgmt_selection selection;
	struct fathom_fault why = { 0 };
	struct mgmt *mgmt;
	int error;

	must(!request->is_forced || kind->is_stop);
	mgmt = kind->engine_count ? mgmt_enter_for_engines(call, request->sys) : mgmt_enter(call, request->sys, true);
	if (!mgmt)
		return;
	must(kind->counter <= sizeof(mgmt->stats) - sizeof(uint64_t));
	++*(uint64_t *)((char *)&mgmt->stats + kind->counter);
	error = mgmt_select(mgmt, request->ranks, request->hosts, &selection, &why);
	if (!error && kind->engine_count && !*request->ranks)
		error = mgmt_select_unranked(mgmt, kind->engine_count, request->hosts, &selection, &why);
	if (!error)
		error = start_operation(mgmt, &settings, &selection, request->is_ignored, &why);
	if (error)
		mgmt_fail(call, error, &why);
	mgmt_selection_deinit(&selection);
}

void mgmt_operations_close(struct mgmt *mgmt)
{
	struct mgmt_operation *operation;

	while ((operation = TAILQ_FIRST(&mgmt->operations))) {
		TAILQ_REMOVE(&mgmt->operations, operation, link);
		mgmt->operation_count--;
		must(operation->state != MGMT_OPERATION_IDLE);
		deadline_clear(&mgmt->deadlines, &operation->deadline);
		grpc_fail(operation->call, GRPC_UNAVAILABLE, NULL, "the management service ends; what was begun goes on");
		free_operation(operation);
	}
}
