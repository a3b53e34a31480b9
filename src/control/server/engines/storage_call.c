/* SPDX-License-Identifier: BSD-2-Clause */
/* Storage: passes a request about pools and volumes to the engine of its rank, and that engine's answer back. */
#include "control/fault/fault.h"
#include "control/server/engines/internal.h"
#include "control/status/status.h"

static struct instance *find_rank(struct server *server, uint32_t rank)
{
	for (uint32_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_learn_rank(server->instances[i]);
		instance_get_info(server->instances[i], &info);
		if (rank != RANK_NONE && info.rank == rank)
			return server->instances[i];
	}
	return NULL;
}

/* It has no other state: the call remembers the server, and the instance the call. */
static void on_storage_answered(void *ctx, const struct fathom_fault *why, const Store__StorageResp *response)
{
	struct grpc_call *call = ctx;
	struct server *server = server_of(call);

	server->stats.storage_failures += why != NULL;
	if (why)
		call_fail(call, why);
	else
		grpc_reply(call, &response->base);
}

void call_storage(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Store__StorageReq *request = (const Store__StorageReq *)message;
	struct server *server = server_of(call);
	struct instance *instance;
	struct fathom_fault why;

	server->stats.storage_calls++;
	instance = server->state == SERVER_LEAVING ? NULL : find_rank(server, request->rank);
	if (instance) {
		instance_storage_call(instance, request, on_storage_answered, call);
		return;
	}
	why.error = server->state == SERVER_LEAVING ? fault_not_started(&why) : fault_rank_elsewhere(&why, request->rank);
	on_storage_answered(call, &why, NULL);
}

void engines_end_storage_calls(struct server *server)
{
	struct fathom_fault why;

	why.error = fault_not_started(&why);
	for (uint32_t i = 0; i < server->instance_count; i++)
		instance_end_storage_calls(server->instances[i], &why);
}
