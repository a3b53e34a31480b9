/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies the database while the server has it open: the command asks the server through its dRPC socket, to which only the
 * server's user and root can connect. The server writes the file, in steps between its other work.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/fault/fault.h"
#include "control/server/core/core.h"
#include "rpc/drpc/drpc.h"
#include "rpc/proto/fathom.pb-c.h"

enum { BACKUP_SECONDS = 300 };

/* ---- the server's side ---- */

struct backup {
	struct copying copying;
	struct drpc_call *call;
	const char *path; /* the request's */
};

static void reply_backup(struct drpc_call *call, const struct fathom_fault *why, uint64_t revision)
{
	Fathom__BackupResp answer = FATHOM__BACKUP_RESP__INIT;

	answer.status = why->error;
	answer.revision = revision;
	answer.code = (uint32_t)why->code;
	answer.text = (char *)why->text; /* borrowed */
	answer.resolution = (char *)why->resolution;
	drpc_reply(call, &answer.base);
}

static void on_backup_ended(struct copying *copying)
{
	struct backup *backup = container_of(copying, struct backup, copying);

	if (!copying->error)
		log_notice("%s has a copy of the database, up to revision %llu", backup->path,
			   (unsigned long long)copying->revision);
	reply_backup(backup->call, &copying->why, copying->revision);
	free(backup);
}

static int begin_backup(struct server *server, struct drpc_call *call, const char *path, struct fathom_fault *why)
{
	struct backup *backup;
	int error;

	if (!server->db)
		return fault(why, -ENODATA, "this server has no database; the system's is at %s", server->places->replica);
	if (path[0] != '/')
		return fault(why, -EINVAL, "\"%s\" is no absolute path", path);
	backup = calloc(1, sizeof(*backup));
	if (!backup)
		return fault_db_no_memory(why, path);
	backup->copying.ended = on_backup_ended;
	backup->call = call;
	backup->path = path;
	error = copying_begin(server, &backup->copying, path);
	if (error) {
		*why = backup->copying.why;
		free(backup);
	}
	return error;
}

void call_backup(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__BackupReq *request = (const Fathom__BackupReq *)message;
	struct fathom_fault why = { 0 };

	if (begin_backup(drpc_call_ctx(call), call, request->path, &why) != 0)
		reply_backup(call, &why, 0);
}

/* ---- the command's side ---- */

static struct {
	const char *path;
	struct drpc_client *client;
	const char *socket;
	uint64_t revision;
	struct fathom_fault *why;
	int error;
} asking;

static void close_client(void *ctx)
{
	drpc_client_destroy(asking.client);
	reactors_request_stop();
}

static void finish_asking(int error)
{
	asking.error = error;
	thread_send_msg(thread_self(), close_client, NULL);
}

static void on_backup_answered(void *ctx, const struct drpc_result *result)
{
	const Fathom__BackupResp *answer = (const Fathom__BackupResp *)result->response;

	if (result->error) {
		*asking.why = result->why;
	} else if (result->status != DRPC_SUCCESS) {
		fill_fault(asking.why, -EPROTO, "the server at %s cannot do that: %s", asking.socket,
			   drpc_status_name(result->status)); /* reported below */
	} else if (answer->status) {
		fill_fault(asking.why, answer->status, "%s", answer->text); /* reported below */
		asking.why->code = (int)answer->code;
		snprintf(asking.why->resolution, sizeof(asking.why->resolution), "%s", answer->resolution);
	} else {
		asking.revision = answer->revision;
		finish_asking(0);
		return;
	}
	finish_asking(asking.why->error);
}

static void send_backup_request(void *ctx)
{
	const struct drpc_client_options options = { .path = asking.socket };
	Fathom__BackupReq request = FATHOM__BACKUP_REQ__INIT;
	int error = drpc_client_create(&options, &asking.client, asking.why);

	if (error) {
		finish_asking(error);
		return;
	}
	request.path = (char *)asking.path;
	error = drpc_client_call(asking.client, &(struct drpc_request){
							.module = DRPC_MODULE_FATHOM,
							.method = DRPC_FATHOM_BACKUP,
							.message = &request.base,
							.response = &fathom__backup_resp__descriptor,
							.timeout_ns = BACKUP_SECONDS * NS_PER_SEC,
							.done = on_backup_answered,
						});
	if (error)
		finish_asking(fault(asking.why, error, "the server cannot be asked: %s", strerror(-error)));
}

int server_backup(const struct server_config *config, const char *path, uint64_t *revision_ret, struct fathom_fault *why)
{
	const struct reactor_options reactors = { .spin_ns = 0 };
	char socket[SERVER_PATH_BYTES];
	int error = reactors_start(&reactors);

	if (error)
		return fault(why, error, "the reactor cannot start: %s", strerror(-error));
	snprintf(socket, sizeof(socket), "%s/" SERVER_SOCKET, config->socket_dir);
	asking.path = path;
	asking.socket = socket;
	asking.why = why;
	thread_send_msg(thread_control(), send_backup_request, NULL);
	reactors_run();
	reactors_stop();
	*revision_ret = asking.revision;
	return asking.error;
}
