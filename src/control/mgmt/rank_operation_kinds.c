/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kinds of operations on ranks. rank_operation.c runs them all.
 *
 *     start           StartRanks
 *     stop            PrepShutdownRanks, then StopRanks for the prepared ranks
 *     stop, forced    StopRanks
 *     erase           ResetFormatRanks; ranks whose storage was erased are removed from the system
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/mgmt/internal.h"

enum { ROOM_BYTES = 16384 }; /* more than the rows of a join need */

/* ---- checks before an operation ---- */

/* Leave out ranks that an operator excluded. If the request names one without `is_ignored`, it is an error. */
static int leave_out_excluded(const struct mgmt *mgmt, struct mgmt_selection *selection, bool is_ignored,
			      struct fathom_fault *why)
{
	for (size_t i = selection->ranks.count; i-- > 0;) {
		uint32_t rank = selection->ranks.ranks[i];

		must(system_member_by_rank(mgmt->system, rank)); /* a selection has only members */
		if (system_member_by_rank(mgmt->system, rank)->state != MEMBER_ADMIN_EXCLUDED)
			continue;
		if (!selection->is_all && !is_ignored)
			return fault_rank_excluded(why, rank);
		rank_set_remove(&selection->ranks, rank);
	}
	return 0;
}

/* Reject an erase while any selected rank may run. */
static int check_all_ended(const struct mgmt *mgmt, struct mgmt_selection *selection, bool is_ignored,
			   struct fathom_fault *why)
{
	must(!is_ignored); /* an erase has no such option */
	for (size_t i = 0; i < selection->ranks.count; i++) {
		const struct member *member = system_member_by_rank(mgmt->system, selection->ranks.ranks[i]);
		struct system_change change;

		must(member);
		if (system_remove(mgmt->system, member->rank, &change, why) < 0)
			return fault_system_running(why, member->rank, member_state_title(member->state));
	}
	return 0;
}

/*
 * The results must be stored later. So test with a write whether the database has room (its disk may be full) before any
 * server is called. Otherwise an engine could start and its join could not be stored. A stop writes states anyway.
 */
static int check_database_room(struct mgmt_operation *operation, struct fathom_fault *why)
{
	char note[ROOM_BYTES];
	const struct db_change change = {
		.key = "operation/latest", .expected = DB_VERSION_ANY, .what = DB_PUT, .value = note, .bytes = sizeof(note)
	};

	must(!operation->kind->is_stop);
	must(operation->state == MGMT_OPERATION_IDLE);
	memset(note, ' ', sizeof(note));
	snprintf(note, sizeof(note), "%zu ranks are %s by %s", operation->count, operation->kind->participle,
		 operation->who);
	return db_commit(operation->mgmt->db, &change, 1, NULL, why);
}

/* ---- engines without a rank ---- */

static uint32_t startable_engines(const struct mgmt_unranked *unranked)
{
	return unranked->idle;
}

static uint32_t erasable_engines(const struct mgmt_unranked *unranked)
{
	return unranked->formatted;
}

/* ---- answers ---- */

/* Start and stop have the same answer, in messages of two types. */
#define DEFINE_REPLY(function, type, init)                                                                                 \
	static void function(const struct mgmt_operation *operation, const struct mgmt_results *results)                   \
	{                                                                                                                  \
		type response = init;                                                                                      \
                                                                                                                           \
		response.n_results = results->count;                                                                       \
		response.results = results->places;                                                                        \
		if (operation->absent_ranks)                                                                               \
			response.absentranks = operation->absent_ranks;                                                    \
		if (operation->absent_hosts)                                                                               \
			response.absenthosts = operation->absent_hosts;                                                    \
		grpc_reply(operation->call, &response.base);                                                               \
	}
DEFINE_REPLY(reply_start, Mgmt__SystemStartResp, MGMT__SYSTEM_START_RESP__INIT)
DEFINE_REPLY(reply_stop, Mgmt__SystemStopResp, MGMT__SYSTEM_STOP_RESP__INIT)

static void reply_erase(const struct mgmt_operation *operation, const struct mgmt_results *results)
{
	Mgmt__SystemEraseResp response = MGMT__SYSTEM_ERASE_RESP__INIT;

	response.n_results = results->count;
	response.results = results->places;
	grpc_reply(operation->call, &response.base);
}

/* ---- the table ---- */

/* What follows from the verb, and from its participle. */
#define KIND(verb, past, first, prepares)                                                                                  \
	.command = "system " #verb, .participle = past, .counter = offsetof(struct mgmt_stats, verb##s),                   \
	.first_state = MGMT_OPERATION_##first, .prepare = (prepares), .reply = reply_##verb

static const struct mgmt_operation_kind start_kind = {
	KIND(start, "started", STARTING, check_database_room),
	.check = leave_out_excluded,
	.engine_count = startable_engines,
	.succeeded = RAS_SYSTEM_STARTED,
	.failed = RAS_SYSTEM_START_FAILED,
};

static const struct mgmt_operation_kind stop_kind = {
	KIND(stop, "stopped", PREPARING, mgmt_operation_mark_stopping),
	.check = leave_out_excluded,
	.is_stop = true,
	.succeeded = RAS_SYSTEM_STOPPED,
	.failed = RAS_SYSTEM_STOP_FAILED,
};

static const struct mgmt_operation_kind erase_kind = {
	KIND(erase, "erased", ERASING, check_database_room),
	.check = check_all_ended,
	.engine_count = erasable_engines,
	.is_removal = true,
	.succeeded = RAS_SYSTEM_ERASED,
	.failed = RAS_UNKNOWN,
};

/* ---- methods ---- */

void mgmt_system_start(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemStartReq *asked = (const Mgmt__SystemStartReq *)request;
	const struct mgmt_operation_request start = {
		.sys = asked->sys,
		.ranks = asked->ranks,
		.hosts = asked->hosts,
		.is_ignored = asked->ignore_admin_excluded,
		.is_for_checker = asked->check_mode,
	};

	mgmt_operation_start(call, &start_kind, &start);
}

void mgmt_system_stop(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemStopReq *asked = (const Mgmt__SystemStopReq *)request;
	const struct mgmt_operation_request stop = {
		.sys = asked->sys,
		.ranks = asked->ranks,
		.hosts = asked->hosts,
		.is_ignored = asked->ignore_admin_excluded,
		.is_forced = asked->force,
	};

	mgmt_operation_start(call, &stop_kind, &stop);
}

void mgmt_system_erase(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemEraseReq *asked = (const Mgmt__SystemEraseReq *)request;
	const struct mgmt_operation_request erase = { .sys = asked->sys, .ranks = "", .hosts = "" };

	mgmt_operation_start(call, &erase_kind, &erase);
}
