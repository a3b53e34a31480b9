/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CollectLog: a worker thread makes one archive. It stays in memory until the next collection; clients fetch it in pieces.
 */
#include "control/server/collection/collection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/collection/internal.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

enum { PIECE_BYTES_MAX = 1 << 20 };

void collection_free(struct collection *collection)
{
	if (!collection)
		return;
	free(collection->states);
	free(collection->statistics);
	free(collection->events);
	for (size_t i = 0; i < SERVER_ENGINES_MAX; i++)
		free(collection->sockets[i]);
	free(collection->plain);
	free(collection->packed);
	free(collection);
}

static void reply_piece(const struct collection *collection, struct grpc_call *call, uint64_t offset)
{
	Fathom__CollectLogResp answer = FATHOM__COLLECT_LOG_RESP__INIT;
	uint64_t left = offset < collection->packed_bytes ? collection->packed_bytes - offset : 0;

	must(collection->is_ready);
	must(collection->packed && collection->packed_bytes > 0);
	answer.id = (char *)collection->id;
	answer.name = (char *)collection->name;
	answer.warning = (char *)collection->warning;
	answer.total_bytes = collection->packed_bytes;
	answer.piece.data = collection->packed + (left ? offset : 0);
	answer.piece.len = left < PIECE_BYTES_MAX ? left : PIECE_BYTES_MAX;
	must(answer.piece.len <= left);
	grpc_reply(call, &answer.base);
}

static void fail_collection(struct grpc_call *call, const char *reason)
{
	struct fathom_fault why;

	why.error = fault_collect_failed(&why, reason);
	call_fail(call, &why);
}

static void on_collected(struct worker_job *job)
{
	struct collection *collection = container_of(job, struct collection, job);
	struct server *server = collection->server;
	struct grpc_call *call = collection->call;

	must(server->collection == collection);
	must(call);
	must(!collection->is_ready);
	must(!collection->tar); /* archive_finish() has closed it */
	must(collection->error <= 0);
	server_job_end(server);
	collection->call = NULL;
	if (collection->error) {
		fail_collection(call, collection->reason[0] ? collection->reason : strerror(-collection->error));
		server->collection = NULL;
		collection_free(collection);
		return;
	}
	collection->is_ready = true;
	reply_piece(collection, call, 0);
}

static void copy_engine_sockets(struct collection *collection)
{
	must(collection->server->instance_count <= ARRAY_COUNT(collection->sockets));
	for (uint32_t i = 0; i < collection->server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(collection->server->instances[i], &info);
		if (info.pid != 0 && info.rpc_socket[0])
			collection->sockets[i] = strdup(info.rpc_socket);
	}
}

/* Take the request's choices. NULL: valid; else the reason why not. */
static const char *choose_contents(struct collection *collection, const Fathom__CollectLogReq *request)
{
	log_window_init(&collection->window, request->from_s, request->until_s);
	collection->from_s = request->from_s;
	collection->until_s = request->until_s;
	collection->stop_on_error = request->stop_on_error;
	collection->logs_alone = request->n_types > 0;
	for (size_t i = 0; i < request->n_types; i++) {
		collection->control_log |= strcmp(request->types[i], "control") == 0;
		collection->engine_logs |= strcmp(request->types[i], "server") == 0;
	}
	if (request->extra_folder[0] && request->extra_folder[0] != '/')
		return "the folder of extra logs is not an absolute path";
	if (text_copy(collection->extra_folder, sizeof(collection->extra_folder), request->extra_folder) < 0)
		return "the folder of extra logs has too long a name";
	return NULL;
}

static void begin_collection(struct server *server, struct grpc_call *call, const Fathom__CollectLogReq *request)
{
	struct collection *collection;
	char host[65] = "host";
	const char *reason;
	int error;

	if (server->collection && !server->collection->is_ready) {
		fail_collection(call, "another collection is under way");
		return;
	}
	collection = calloc(1, sizeof(*collection));
	must(collection);
	reason = choose_contents(collection, request);
	if (reason) {
		fail_collection(call, reason);
		collection_free(collection);
		return;
	}
	collection_free(server->collection);
	server->collection = NULL;
	(void)!gethostname(host, sizeof(host) - 1); /* on an error the name is "host" */
	snprintf(collection->id, sizeof(collection->id), "fathom-%" PRIu64, clock_realtime_ns());
	snprintf(collection->name, sizeof(collection->name), "%s-%s.tar.zst", collection->id, host);
	collection->server = server;
	collection->call = call;
	collection->states = engine_states_text(server);
	collection->statistics = server_counters_text(server);
	collection->events = server->of_call.mgmt ? mgmt_events_text(server->of_call.mgmt) : NULL;
	copy_engine_sockets(collection);
	collection->job.work = collection_make;
	collection->job.done = on_collected;
	error = worker_start(&collection->job);
	if (error) {
		collection_free(collection);
		fail_collection(call, strerror(-error));
		return;
	}
	must(!server->collection);
	server->collection = collection;
	server_job_begin(server);
}

void call_collect_log(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__CollectLogReq *request = (const Fathom__CollectLogReq *)message;
	struct server *server = server_of(call);
	struct fathom_fault why;

	if (!server_is_addressed(server, call, request->sys))
		return;
	if (request->id[0] == '\0') {
		begin_collection(server, call, request);
	} else if (server->collection && server->collection->is_ready && strcmp(server->collection->id, request->id) == 0) {
		reply_piece(server->collection, call, request->offset);
	} else {
		why.error = fault_collection_gone(&why, request->id);
		call_fail(call, &why);
	}
}
