/* SPDX-License-Identifier: BSD-2-Clause */
/* framework_get_control: the current state of an engine under a server. */
#include "base/bits.h"
#include "data/engine/control.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"
#include "data/engine/move/move.h"
#include "data/engine/storage/calls.h"

static void put_rank(json_t *result)
{
	if (engine_control.rank == ENGINE_RANK_NONE)
		json_put(result, "rank", json_null());
	else
		json_put(result, "rank", json_integer(engine_control.rank));
}

static void put_server(json_t *result)
{
	const struct engine_server_options *server = &engine_control.options->server;
	json_t *uplink = json_made(json_object()), *events = json_made(json_object());
	json_t *storage_calls = json_made(json_object()), *moves = json_made(json_object());

	json_put(result, "instance", json_integer(server->instance));
	json_put(result, "uuid", json_text(server->uuid));
	json_put(result, "storage", json_text(engine_options()->storage ? engine_options()->storage : ""));
	json_put(result, "socket", json_text(engine_control.socket_path));
	json_put(result, "uri", json_text(engine_control.uri));
	json_put(result, "incarnation", json_integer((json_int_t)engine_control.incarnation));
	put_rank(result);
	json_put(result, "map_version", json_integer(group_version()));
	json_put(result, "map_engines", json_integer(group_size()));
	uplink_stats(uplink);
	json_put(result, "server", uplink);
	events_stats(events);
	json_put(result, "events", events);
	storage_calls_stats(storage_calls);
	json_put(result, "storage_calls", storage_calls);
	moves_stats(moves);
	json_put(result, "moves", moves);
}

void method_framework_get_control(struct rpc_request *request)
{
	json_t *result;

	result = json_made(json_object());
	json_put(result, "state", json_text(engine_rank_state_name(engine_control.state)));
	state_file_stats(result);
	if (engine_control_is_on())
		put_server(result);
	rpc_reply(request, result);
}
