/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of a client: counts, answers and fails them. */
#include <stdio.h>
#include <stdlib.h>

#include "control/fault/fault.h"
#include "control/helper/client_internal.h"
#include "control/helper/probes.gen.h"

const struct trace_istr *helper_call_operation(const struct helper_call *call)
{
	return trace_intern(helper_operation_name(call->request.operation));
}

void helper_call_finish(struct helper_call *call, const struct helper_reply *reply)
{
	struct helper_client *client = call->client;
	uint64_t now = reactor_now();
	struct fathom_fault why;

	must_be_on(client->thread);
	must(reply->id == call->request.id);
	must(reply->operation == call->request.operation);
	must(call->state == HELPER_CALL_WAITING || call->state == HELPER_CALL_SENT);
	helper_reply_fault(reply, &why);
	client->stats.failed += reply->error != 0;
	client->stats.answered += reply->error == 0;
	TAILQ_REMOVE(&client->calls, call, link);
	probe_helper_call_end(now, call, helper_call_operation(call), reply->error, now - call->began);
	helper_call_state_move(now, call, HELPER_CALL_FREE);
	call->done(call->ctx, reply, &why);
	free(call);
}

void helper_call_fail(struct helper_call *call, const struct fathom_fault *why)
{
	struct helper_reply reply;

	helper_reply_fail(&reply, call->request.operation, call->request.id, why);
	helper_call_finish(call, &reply);
}

/* A `done` may add calls: they are behind `last`, and are left alone. */
void helper_calls_fail(struct helper_client *client, enum helper_call_state state, const struct fathom_fault *why)
{
	struct helper_call *last = TAILQ_LAST(&client->calls, helper_calls), *call, *next;
	bool was_last = false;

	for (call = TAILQ_FIRST(&client->calls); call && !was_last; call = next) {
		next = TAILQ_NEXT(call, link);
		was_last = call == last;
		if (call->state == state)
			helper_call_fail(call, why);
	}
}

uint32_t helper_calls_count(const struct helper_client *client, enum helper_call_state state)
{
	const struct helper_call *call;
	uint32_t found = 0;

	TAILQ_FOREACH (call, &client->calls, link)
		found += call->state == state;
	return found;
}

void helper_call_explain_time_out(const struct helper_call *call, struct fathom_fault *why)
{
	const struct helper_request *request = &call->request;
	char what[HELPER_TARGET_BYTES_MAX + 32];

	snprintf(what, sizeof(what), "%s of %s", helper_operation_name(request->operation),
		 request->device[0] != '\0' ? request->device : request->target);
	fill_fault_helper_timed_out(why, what, request->timeout_ms / 1000); /* the call fails with it */
}

void helper_calls_fail_expired(struct helper_client *client, uint64_t now)
{
	struct helper_call *last = TAILQ_LAST(&client->calls, helper_calls), *call, *next;
	bool was_last = false;

	for (call = TAILQ_FIRST(&client->calls); call && !was_last; call = next) {
		struct fathom_fault why;

		next = TAILQ_NEXT(call, link);
		was_last = call == last; /* calls that a `done` adds wait for the next turn */
		if (call->state != HELPER_CALL_WAITING || (call->limit > now && client->start_why.error == 0))
			continue;
		client->stats.timed_out += client->start_why.error == 0;
		if (client->start_why.error != 0)
			why = client->start_why;
		else
			helper_call_explain_time_out(call, &why);
		helper_call_fail(call, &why);
	}
}
