/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls for some or all engines of this host, by rank: starting, stopping, erasing. The answer has a row for each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/server/engines/internal.h"
#include "control/server/events/events.h"
#include "control/status/status.h"
#include "rpc/proto/ctl.pb-c.h"

struct ranks_call;

/* One engine's part. */
struct ranks_part {
	struct ranks_call *call;
	uint32_t instance, rank;
};

struct ranks_call {
	struct grpc_call *call;
	struct server *server;
	struct arena arena;
	char who[GRPC_WHO_BYTES]; /* the caller, for the event; "": the management service raises the event */
	Ctl__RanksResp answer;
	const char *action, *state; /* of the answer: the action, and the state after its success */
	size_t left, total;	    /* engines without a result, and all of the request */
	struct ranks_part parts[SERVER_ENGINES_MAX];
};

static void on_part_done(void *ctx, const struct fathom_fault *why)
{
	struct ranks_part *part = ctx;
	struct ranks_call *ranks = part->call;
	Shared__RankResult *row = arena_message(&ranks->arena, shared__rank_result, Shared__RankResult);
	struct instance_info info;

	must(ranks->left > 0);
	must(ranks->left + ranks->answer.n_results == ranks->total);
	must(part->instance < ranks->server->instance_count);
	must(ranks->answer.n_results < ranks->server->instance_count);
	must(!why || why->error < 0);
	instance_get_info(ranks->server->instances[part->instance], &info);
	row->rank = part->rank == RANK_NONE ? info.rank : part->rank; /* it may have joined */
	row->place = part->instance + 1;
	row->action = (char *)ranks->action;
	row->state = (char *)(!why ? ranks->state : info.is_hung ? "unresponsive" : "errored");
	row->addr = (char *)ranks->server->places->control;
	if (why) {
		row->errored = true;
		row->msg = (char *)server_fault_text(why, &ranks->arena);
	}
	ranks->answer.results[ranks->answer.n_results++] = row;
	if (!why && ranks->who[0])
		server_raise_operation(ranks->server, RAS_ENGINE_STOPPED, "stop-engines", ranks->who,
				       "engine %u of this host was stopped", part->instance);
	if (--ranks->left > 0)
		return;
	grpc_reply(ranks->call, &ranks->answer.base);
	arena_free(&ranks->arena);
	free(ranks);
}

/*
 * `is_meant`: selects among the engines without a rank, if the request includes those; NULL: none of them. Returns NULL if
 * the call is answered already.
 */
static struct ranks_call *begin_ranks_call(struct grpc_call *call, const Ctl__RanksReq *request, const char *action,
					   const char *state, bool (*is_meant)(const struct instance_info *info))
{
	struct server *server = server_of(call);
	struct ranks_call *ranks;
	struct rank_set set = { 0 };
	struct fathom_fault why;
	bool all = request->ranks[0] == '\0' && !request->unranked;

	if (request->ranks[0] && rank_set_parse(request->ranks, &set, &why) != 0) {
		call_fail(call, &why);
		return NULL;
	}
	ranks = calloc(1, sizeof(*ranks));
	must(ranks);
	ranks->call = call;
	ranks->server = server;
	ranks->action = action;
	ranks->state = state;
	ctl__ranks_resp__init(&ranks->answer);
	ranks->answer.results = arena_take(&ranks->arena, (server->instance_count + 1) * sizeof(Shared__RankResult *));
	for (uint32_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_learn_rank(server->instances[i]);
		instance_get_info(server->instances[i], &info);
		if (!all && info.rank != RANK_NONE && !rank_set_has(&set, info.rank))
			continue;
		if (!all && info.rank == RANK_NONE && !(request->unranked && is_meant && is_meant(&info)))
			continue;
		ranks->parts[ranks->left++] = (struct ranks_part){ .call = ranks, .instance = i, .rank = info.rank };
	}
	must(ranks->left <= server->instance_count);
	ranks->total = ranks->left;
	rank_set_deinit(&set);
	if (ranks->left > 0)
		return ranks;
	grpc_reply(call, &ranks->answer.base);
	arena_free(&ranks->arena);
	free(ranks);
	return NULL;
}

/* on_part_done() is never called from within the loop, so `ranks` is not freed in it. */
#define FOR_EACH_PART(ranks, part, count)                                                                                  \
	for (size_t count = (ranks)->left, at = 0; at < count && ((part) = &(ranks)->parts[at], true); at++)

static struct instance *instance_of(const struct ranks_part *part)
{
	return part->call->server->instances[part->instance];
}

static bool is_idle(const struct instance_info *info)
{
	return info->state == INSTANCE_ERRORED || info->state == INSTANCE_STOPPED || info->state == INSTANCE_MISSING;
}

static bool is_formatted(const struct instance_info *info)
{
	return info->state != INSTANCE_AWAIT_FORMAT && info->state != INSTANCE_MISSING;
}

void call_start_ranks(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct ranks_call *ranks = begin_ranks_call(call, (const Ctl__RanksReq *)request, "start", "ready", is_idle);
	struct ranks_part *part;

	if (!ranks)
		return;
	FOR_EACH_PART(ranks, part, count)
	instance_start(instance_of(part), on_part_done, part);
}

void call_prep_shutdown_ranks(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct ranks_call *ranks = begin_ranks_call(call, (const Ctl__RanksReq *)request, "prep shutdown", "stopping",
						    NULL);
	struct ranks_part *part;

	if (!ranks)
		return;
	FOR_EACH_PART(ranks, part, count)
	instance_prepare_stop(instance_of(part), on_part_done, part);
}

void call_stop_ranks(struct grpc_call *call, const ProtobufCMessage *request)
{
	bool force = ((const Ctl__RanksReq *)request)->force;
	struct ranks_call *ranks = begin_ranks_call(call, (const Ctl__RanksReq *)request, "stop", "stopped", NULL);
	struct ranks_part *part;

	if (!ranks)
		return;
	/* the management service names the ranks, and raises the events itself */
	if (((const Ctl__RanksReq *)request)->ranks[0] == '\0')
		grpc_call_who(call, ranks->who);
	FOR_EACH_PART(ranks, part, count)
	instance_stop(instance_of(part), force, on_part_done, part);
}

static void on_stopped_erase(void *ctx, const struct fathom_fault *why)
{
	struct ranks_part *part = ctx;

	if (why)
		on_part_done(part, why);
	else
		instance_erase(instance_of(part), on_part_done, part);
}

/* The management service has stopped its ranks. An engine without a rank may run; it serves no hosts, so kill it first. */
static void erase_part(struct ranks_part *part)
{
	struct instance_info info;

	instance_get_info(instance_of(part), &info);
	if (part->rank == RANK_NONE && info.pid != 0)
		instance_stop(instance_of(part), true, on_stopped_erase, part);
	else
		instance_erase(instance_of(part), on_part_done, part);
}

void call_reset_format_ranks(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct ranks_call *ranks = begin_ranks_call(call, (const Ctl__RanksReq *)request, "reset format", "awaitformat",
						    is_formatted);
	struct ranks_part *part;

	if (!ranks)
		return;
	FOR_EACH_PART(ranks, part, count)
	erase_part(part);
}
