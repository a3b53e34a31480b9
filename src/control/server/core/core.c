/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/server/core/core.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/status/status.h"

void server_job_begin(struct server *server)
{
	must(thread_self() == thread_control());
	must(server->state != SERVER_CLOSED);
	must(server->jobs < UINT_MAX);
	server->jobs++;
}

void server_job_end(struct server *server)
{
	must(thread_self() == thread_control());
	must(server->jobs > 0);
	must(server->state != SERVER_CLOSED);
	server->jobs--;
}

int server_call_mgmt(struct server *server, const struct server_mgmt_call *call)
{
	must(server->client);
	must(call->done && call->path[0] == '/');
	must(thread_self() == thread_control());
	must(call->seconds > 0);
	return grpc_client_call(server->client, &(struct grpc_request){
							.address = server->places->replica,
							.path = call->path,
							.message = call->request,
							.response = call->response,
							.timeout_ns = call->seconds * NS_PER_SEC,
							.done = call->done,
							.ctx = call->ctx,
						});
}

bool server_is_addressed(const struct server *server, struct grpc_call *call, const char *sys)
{
	struct fathom_fault why;

	must(server_of(call) == server);
	if (mgmt_check_system(sys, server->config->name, &why) == 0)
		return true;
	call_fail(call, &why);
	return false;
}

void server_program_path(const struct server *server, const char *configured, const char *name,
			 char path[static SERVER_PATH_BYTES])
{
	must(!configured || configured[0] == '/');
	if (configured)
		snprintf(path, SERVER_PATH_BYTES, "%s", configured);
	else
		snprintf(path, SERVER_PATH_BYTES, "%s/%s", server->options->programs, name);
}
