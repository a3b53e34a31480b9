/* SPDX-License-Identifier: BSD-2-Clause */
/* EngineQuery: the states of the engines of this host. GroupUpdate: passes a group map to them. */
#include <ctype.h>

#include "base/clock.h"
#include "control/server/engines/internal.h"
#include "rpc/proto/fathom.pb-c.h"

void call_group_update(struct grpc_call *call, const ProtobufCMessage *request)
{
	Mgmt__GroupUpdateResp answer = MGMT__GROUP_UPDATE_RESP__INIT;
	struct server *server = server_of(call);

	for (size_t i = 0; i < server->instance_count; i++)
		instance_group_update(server->instances[i], (const Mgmt__GroupUpdateReq *)request);
	grpc_reply(call, &answer.base);
}

static Fathom__EngineQueryResp__Engine *make_engine_row(const struct instance *instance, struct arena *arena)
{
	Fathom__EngineQueryResp__Engine *row = arena_message(arena, fathom__engine_query_resp__engine,
							     Fathom__EngineQueryResp__Engine);
	char uuid[MEMBER_UUID_TEXT_BYTES];
	struct instance_info info;

	instance_get_info(instance, &info);
	must(info.pid >= 0);
	row->index = info.index;
	row->state = arena_text(arena, instance_state_name(info.state));
	for (char *letter = row->state; *letter; letter++)
		*letter = (char)tolower(*letter);
	row->rank = info.rank;
	row->uuid = arena_text(arena, info.has_uuid ? member_uuid_format(info.uuid, uuid) : "");
	row->incarnation = info.incarnation;
	row->pid = (uint64_t)info.pid;
	row->adopted = info.is_adopted;
	row->uri = arena_text(arena, info.uri);
	row->storage = arena_text(arena, info.storage);
	row->info = info.why.error ? arena_format(arena, "%s%s%s", info.why.text, info.why.resolution[0] ? "; " : "",
						  info.why.resolution)
				   : arena_text(arena, "");
	row->starts = info.starts;
	row->restart_in_ms = (info.restart_in_ns + NS_PER_MS - 1) / NS_PER_MS;
	row->last_end = arena_text(arena, info.last_end);
	row->rpc_socket = arena_text(arena, info.rpc_socket);
	row->version = arena_text(arena, info.version);
	return row;
}

void call_engine_query(struct grpc_call *call, const ProtobufCMessage *request)
{
	Fathom__EngineQueryResp answer = FATHOM__ENGINE_QUERY_RESP__INIT;
	struct server *server = server_of(call);
	struct arena arena = { 0 };

	if (!server_is_addressed(server, call, ((const Fathom__EngineQueryReq *)request)->sys))
		return;
	answer.engines = arena_take(&arena, (server->instance_count + 1) * sizeof(*answer.engines));
	for (size_t i = 0; i < server->instance_count; i++)
		answer.engines[answer.n_engines++] = make_engine_row(server->instances[i], &arena);
	must(answer.n_engines == server->instance_count);
	answer.version = (char *)server->options->version;
	grpc_reply(call, &answer.base);
	arena_free(&arena);
}
