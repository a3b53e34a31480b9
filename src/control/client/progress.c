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

#define LOOK_NS (10 * NS_PER_SEC)

struct look {
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
	struct look *look = ctx;
	struct task *task = look->task;

	if (task) {
		task->look = NULL;
		if (result->code == GRPC_OK) {
			count_members(task, look->state, (const Mgmt__SystemQueryResp *)result->response);
			task_progress(task);
		}
	}
	free(look);
}

void task_look(struct task *task, const char *address, const ProtobufCMessage *query, const char *state)
{
	if (task->look || !task->control->progress)
		return;
	task->look = malloc(sizeof(*task->look));
	must(task->look);
	*task->look = (struct look){ .task = task, .state = state };
	if (task_call(task, address, "/mgmt.MgmtSvc/SystemQuery", query, &mgmt__system_query_resp__descriptor, LOOK_NS,
		      progress_query_done, task->look) == 0)
		return;
	free(task->look);
	task->look = NULL; /* the next tick tries again */
}

void task_look_no_more(struct task *task)
{
	if (task->look)
		task->look->task = NULL;
	task->look = NULL;
}
