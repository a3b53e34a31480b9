/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A copy of the database while the server has it open: the command asks the server, at its dRPC socket, which only its own
 * user and root reach. The server writes the file.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/server/internal.h"
#include "drpc/drpc.h"
#include "proto/fathom.pb-c.h"

enum { BACKUP_SECONDS = 300 };

/* ---- the server's side ---- */

static int copy_to(struct server *server, const char *path, struct fault *why)
{
	if (!server->db)
		return fault(why, -ENODATA, "this server has no database; the system's is at %s", server->places->replica);
	if (path[0] != '/')
		return fault(why, -EINVAL, "\"%s\" is no absolute path", path);
	return db_backup(server->db, path, why);
}

void call_backup(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__BackupReq *request = (const Fathom__BackupReq *)message;
	struct server *server = drpc_call_ctx(call);
	Fathom__BackupResp answer = FATHOM__BACKUP_RESP__INIT;
	struct fault why = { 0 };

	answer.status = copy_to(server, request->path, &why);
	if (answer.status == 0) {
		answer.revision = db_revision(server->db);
		log_notice("%s has a copy of the database, up to revision %llu", request->path,
			   (unsigned long long)answer.revision);
	}
	answer.code = (uint32_t)why.code;
	answer.text = why.text;
	answer.resolution = why.resolution;
	drpc_reply(call, &answer.base);
}

/* ---- the command's ---- */

static struct {
	const char *path;
	struct drpc_client *client;
	const char *socket;
	uint64_t revision;
	struct fault *why;
	int error;
} asking;

static void tidy(void *ctx)
{
	drpc_client_destroy(asking.client);
	reactors_request_stop();
}

static void end(int error)
{
	asking.error = error;
	thread_send_msg(thread_self(), tidy, NULL);
}

static void answered(void *ctx, const struct drpc_result *result)
{
	const Fathom__BackupResp *answer = (const Fathom__BackupResp *)result->response;

	if (result->error) {
		*asking.why = result->why;
	} else if (result->status != DRPC_SUCCESS) {
		(void)!fault(asking.why, -EPROTO, "the server at %s cannot do that: %s", asking.socket,
			     drpc_status_name(result->status)); /* it is told below */
	} else if (answer->status) {
		(void)!fault(asking.why, answer->status, "%s", answer->text); /* likewise */
		asking.why->code = (int)answer->code;
		snprintf(asking.why->resolution, sizeof(asking.why->resolution), "%s", answer->resolution);
	} else {
		asking.revision = answer->revision;
		end(0);
		return;
	}
	end(asking.why->error);
}

static void begin(void *ctx)
{
	const struct drpc_client_options options = { .path = asking.socket };
	Fathom__BackupReq request = FATHOM__BACKUP_REQ__INIT;
	int error = drpc_client_create(&options, &asking.client, asking.why);

	if (error) {
		end(error);
		return;
	}
	request.path = (char *)asking.path;
	error = drpc_client_call(asking.client, DRPC_MODULE_FATHOM, DRPC_FATHOM_BACKUP, &request.base,
				 &fathom__backup_resp__descriptor, BACKUP_SECONDS * NS_PER_SEC, answered, NULL);
	if (error)
		end(fault(asking.why, error, "the server cannot be asked: %s", strerror(-error)));
}

int server_backup(const struct server_config *config, const char *path, uint64_t *revision_ret, struct fault *why)
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
	thread_send_msg(thread_control(), begin, NULL);
	reactors_run();
	reactors_stop();
	*revision_ret = asking.revision;
	return asking.error;
}
