/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Store the results of an operation as states of its ranks. Results that arrive within SETTLE_MS are stored in one
 * transaction. A state that the rules refuse is not stored: the rank has joined again or was excluded meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "base/text.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"

enum { SETTLE_MS = 20 };

/* Report a state. A state that the rules refuse, and a report about an older process, are counted and otherwise ignored. */
static int report_rank(struct mgmt *mgmt, struct mgmt_batch *batch, const struct member_report *report,
		       struct fathom_fault *why)
{
	struct system_change change;
	struct fathom_fault not_legal;
	int error;

	must(report->to != MEMBER_UNKNOWN);
	error = system_report(mgmt->system, report, &change, &not_legal);
	if (error) {
		mgmt_count_refused_state(mgmt, report, error);
		return 0;
	}
	return mgmt_batch_add(mgmt, batch, &change, why);
}

/* Remove a rank whose storage was erased, unless it has joined meanwhile. */
static int remove_erased_rank(struct mgmt *mgmt, struct mgmt_batch *batch, uint32_t rank, struct fathom_fault *why)
{
	struct system_change change;
	struct fathom_fault not_legal;
	int error = system_remove(mgmt->system, rank, &change, &not_legal);

	if (error) {
		mgmt_count_refused_state(mgmt, &(struct member_report){ .rank = rank, .to = MEMBER_UNKNOWN }, error);
		return 0;
	}
	return mgmt_batch_add(mgmt, batch, &change, why);
}

int mgmt_operation_mark_stopping(struct mgmt_operation *operation, struct fathom_fault *why)
{
	struct mgmt *mgmt = operation->mgmt;
	struct mgmt_batch batch = { 0 };
	int error = 0;

	must(operation->kind->is_stop);
	must(operation->state == MGMT_OPERATION_IDLE); /* no server was called yet */
	must(operation->calls == 0);
	for (size_t i = 0; !error && i < operation->count; i++) {
		const struct member *member = system_member_by_rank(mgmt->system, operation->ranks[i].rank);
		const struct member_report report = {
			.rank = operation->ranks[i].rank,
			.to = MEMBER_STOPPING,
			.info = operation->kind->command,
			.now_ns = clock_realtime_ns(),
		};

		must(member); /* a stop has only ranks */
		/* a stopped rank stays stopped until its server reports another state */
		if (member->state != MEMBER_STOPPED)
			error = report_rank(mgmt, &batch, &report, why);
	}
	if (!error)
		return mgmt_batch_commit(mgmt, &batch, why);
	mgmt_batch_drop(mgmt, &batch);
	return error;
}

static enum member_state state_of_result(const struct mgmt_operation_rank *rank)
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

	return member && state_of_result(rank) == MEMBER_UNRESPONSIVE && member->state == MEMBER_JOINED &&
	       !rank->was_joined;
}

static int store_result(struct mgmt_operation *operation, struct mgmt_batch *batch, const struct mgmt_operation_rank *rank,
			struct fathom_fault *why)
{
	const struct member_report report = {
		.rank = rank->rank,
		.incarnation = rank->incarnation,
		.to = state_of_result(rank),
		.info = rank->message,
		.now_ns = clock_realtime_ns(),
	};

	must(rank->is_answered);
	must(rank >= operation->ranks && rank < operation->ranks + operation->count);
	if (rank->is_unranked)
		return 0; /* not a member; if it has joined, the join has stored its state */
	if (operation->kind->is_removal && !rank->errored)
		return remove_erased_rank(operation->mgmt, batch, rank->rank, why);
	if (has_come_back(operation->mgmt, rank))
		return 0;
	return report_rank(operation->mgmt, batch, &report, why);
}

void mgmt_operation_settle(struct mgmt_operation *operation)
{
	struct mgmt *mgmt = operation->mgmt;
	struct mgmt_batch batch = { 0 };
	struct fathom_fault why = { 0 };
	int error = 0;

	must(operation->unsettled_count <= operation->count);
	deadline_clear(&mgmt->deadlines, &operation->deadline);
	error = mgmt_load_again(mgmt, &why);
	for (size_t i = 0; !error && i < operation->unsettled_count; i++) {
		must(operation->unsettled[i] < operation->count);
		error = store_result(operation, &batch, &operation->ranks[operation->unsettled[i]], &why);
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
	must(!operation->deadline.set);
}

static void settle_expired(struct deadline *deadline)
{
	mgmt_operation_settle(container_of(deadline, struct mgmt_operation, deadline));
}

void mgmt_operation_settle_soon(struct mgmt_operation *operation)
{
	must(operation->state != MGMT_OPERATION_IDLE);
	if (operation->unsettled_count > 0 && !operation->deadline.set)
		deadline_set(&operation->mgmt->deadlines, &operation->deadline, SETTLE_MS * NS_PER_MS, settle_expired);
}

void mgmt_operation_set_result(struct mgmt_operation *operation, size_t at, bool errored, const char *state,
			       const char *message)
{
	struct mgmt_operation_rank *rank = &operation->ranks[at];

	must(at < operation->count);
	must(!rank->is_answered);
	must(!rank->is_left_out);
	must(operation->state != MGMT_OPERATION_IDLE);
	must(operation->unsettled_count < operation->count);
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
