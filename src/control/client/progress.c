/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress of a start or a stop. While the management service works on it, the members are queried about once a second,
 * and those in the wanted state are counted. The answers are used only for the progress display. The task does not wait for
 * them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/client/internal.h"
#include "rpc/proto/mgmt.pb-c.h"

#define PROGRESS_QUERY_NS (10 * NS_PER_SEC)

struct progress_query {
	struct task *task; /* NULL: the task has ended */
	const char *state;
};

/* Starts and stops skip ranks that an operator has excluded, so these do not count. */
static void count_members(struct task *task, const char *state, const Mgmt__SystemQueryResp *response)
{
	task->unit = FATHOM_CONTROL_UNIT_RANKS;
	task->done = task->total = 0;
	for (size_t i = 0; i < response->n_members; i++) {
		task->done += strcmp(response->members[i]->state, state) == 0;
		task->total += strcmp(response->members[i]->state, "adminexcluded") != 0;
	}
}

static void progress_query_done(void *ctx, const struct grpc_result *result)
{
	struct progress_query *query = ctx;
	struct task *task = query->task;

	if (task) {
		task->progress_query = NULL;
		if (result->code == GRPC_OK) {
			count_members(task, query->state, (const Mgmt__SystemQueryResp *)result->response);
			task_progress(task);
		}
	}
	free(query);
}

void task_query_progress(struct task *task, const char *address, const ProtobufCMessage *query, const char *state)
{
	if (task->progress_query || !task->control->progress)
		return;
	task->progress_query = malloc(sizeof(*task->progress_query));
	must(task->progress_query);
	*task->progress_query = (struct progress_query){ .task = task, .state = state };
	if (task_call(task, &(struct grpc_request){
				    .address = address,
				    .path = "/mgmt.MgmtSvc/SystemQuery",
				    .message = query,
				    .response = &mgmt__system_query_resp__descriptor,
				    .timeout_ns = PROGRESS_QUERY_NS,
				    .done = progress_query_done,
				    .ctx = task->progress_query,
			    }) == 0)
		return;
	free(task->progress_query);
	task->progress_query = NULL; /* the next tick tries again */
}

void task_forget_progress_query(struct task *task)
{
	if (task->progress_query)
		task->progress_query->task = NULL;
	task->progress_query = NULL;
}
