/* SPDX-License-Identifier: BSD-2-Clause */
/* drpc_call - one call of a command to the dRPC socket of the running server. */
#include <stdio.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/server/command/internal.h"

enum { SOCKET_PATH_BYTES = 4352 };

static struct {
	const struct drpc_request *request;
	struct drpc_client *client;
	char socket[SOCKET_PATH_BYTES];
	int (*take)(void *ctx, const ProtobufCMessage *response, struct fathom_fault *why);
	void *ctx;
	struct fathom_fault *why;
} call;

static void close_client(void)
{
	drpc_client_destroy(call.client);
}

static void on_answered(void *ctx, const struct drpc_result *result)
{
	int error;

	if (result->error) {
		*call.why = result->why;
		error = call.why->error;
	} else if (result->status != DRPC_SUCCESS) {
		error = fault(call.why, -EPROTO, "the server at %s rejects the request: %s", call.socket,
			      drpc_status_name(result->status));
	} else {
		error = call.take(call.ctx, result->response, call.why);
	}
	must(error <= 0);
	command_end(error, close_client);
}

static void send_request(void *ctx)
{
	const struct drpc_client_options options = { .path = call.socket };
	struct drpc_request request = *call.request;
	int error = drpc_client_create(&options, &call.client, call.why);

	must(error || call.client);
	if (error) {
		command_end(error, close_client);
		return;
	}
	request.done = on_answered;
	error = drpc_client_call(call.client, &request);
	if (error)
		command_end(fault(call.why, error, "the request cannot be sent to the server: %s", strerror(-error)),
			    close_client);
}

int command_call(const struct server_config *config, const struct drpc_request *request,
		 int (*take)(void *ctx, const ProtobufCMessage *response, struct fathom_fault *why), void *ctx,
		 struct fathom_fault *why)
{
	must(!call.request);
	must(request->message && request->response);
	must(take && why);
	snprintf(call.socket, sizeof(call.socket), "%s/" SERVER_SOCKET, config->socket_dir);
	call.request = request;
	call.take = take;
	call.ctx = ctx;
	call.why = why;
	return command_run(send_request, why);
}
