/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom-server backup` while the server runs: the server has the database open, so it makes the copy. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "control/fault/fault.h"
#include "control/server/command/command.h"
#include "rpc/drpc/drpc.h"
#include "rpc/proto/fathom.pb-c.h"

enum { BACKUP_SECONDS = 300, SOCKET_PATH_BYTES = 4352 };

static struct {
	const char *path;
	struct drpc_client *client;
	const char *socket;
	uint64_t revision;
	struct fathom_fault *why;
	int error;
} backup;

static void close_backup_client(void *ctx)
{
	drpc_client_destroy(backup.client);
	reactors_request_stop();
}

static void finish_backup(int error)
{
	backup.error = error;
	thread_send_msg(thread_self(), close_backup_client, NULL);
}

static void on_backup_answered(void *ctx, const struct drpc_result *result)
{
	const Fathom__BackupResp *answer = (const Fathom__BackupResp *)result->response;

	if (result->error) {
		*backup.why = result->why;
	} else if (result->status != DRPC_SUCCESS) {
		fill_fault(backup.why, -EPROTO, "the server at %s rejects the request: %s", backup.socket,
			   drpc_status_name(result->status)); /* reported below */
	} else if (answer->status) {
		fill_fault(backup.why, answer->status, "%s", answer->text); /* reported below */
		backup.why->code = (int)answer->code;
		snprintf(backup.why->resolution, sizeof(backup.why->resolution), "%s", answer->resolution);
	} else {
		backup.revision = answer->revision;
		finish_backup(0);
		return;
	}
	finish_backup(backup.why->error);
}

static void send_backup_request(void *ctx)
{
	const struct drpc_client_options options = { .path = backup.socket };
	Fathom__BackupReq request = FATHOM__BACKUP_REQ__INIT;
	int error = drpc_client_create(&options, &backup.client, backup.why);

	if (error) {
		finish_backup(error);
		return;
	}
	request.path = (char *)backup.path;
	error = drpc_client_call(backup.client, &(struct drpc_request){
							.module = DRPC_MODULE_FATHOM,
							.method = DRPC_FATHOM_BACKUP,
							.message = &request.base,
							.response = &fathom__backup_resp__descriptor,
							.timeout_ns = BACKUP_SECONDS * NS_PER_SEC,
							.done = on_backup_answered,
						});
	if (error)
		finish_backup(fault(backup.why, error, "the request cannot be sent to the server: %s", strerror(-error)));
}

int server_backup(const struct server_config *config, const char *path, uint64_t *revision_ret, struct fathom_fault *why)
{
	const struct reactor_options reactors = { .spin_ns = 0 };
	char socket[SOCKET_PATH_BYTES];
	int error = reactors_start(&reactors);

	if (error)
		return fault(why, error, "the reactor cannot start: %s", strerror(-error));
	snprintf(socket, sizeof(socket), "%s/" SERVER_SOCKET, config->socket_dir);
	backup.path = path;
	backup.socket = socket;
	backup.why = why;
	thread_send_msg(thread_control(), send_backup_request, NULL);
	reactors_run();
	reactors_stop();
	*revision_ret = backup.revision;
	return backup.error;
}
