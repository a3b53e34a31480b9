/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/agent/command/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "control/fault/fault.h"
#include "rpc/drpc/drpc.h"
#include "rpc/proto/fathom.pb-c.h"

enum { SHORT_SECONDS = 10, GRACE_SECONDS = 45, TIMEOUT_MS_DEFAULT = 60000, SOCKET_PATH_BYTES = 4352 };

/* The call under way, and where its result goes. */
static struct {
	const struct drpc_request *request;
	struct drpc_client *client;
	char socket[SOCKET_PATH_BYTES];
	int (*take)(const ProtobufCMessage *response, struct fathom_fault *why);
	struct fathom_fault *why;
	int error;
	agent_attachment_fn attachment;
	agent_counter_fn counter;
	void *ctx;
} call;

static void stop_reactor(void *ctx)
{
	drpc_client_destroy(call.client);
	reactors_request_stop();
}

static void end_call(int error)
{
	must(error <= 0);
	call.error = error;
	thread_send_msg(thread_self(), stop_reactor, NULL);
}

static int explain_failure(const struct drpc_result *result)
{
	if (result->error == -ECONNREFUSED || result->error == -ENOENT)
		return fault_agent_not_running(call.why, call.socket);
	if (result->error) {
		*call.why = result->why;
		return call.why->error;
	}
	return fault(call.why, -EPROTO, "the agent at %s rejects the request: %s", call.socket,
		     drpc_status_name(result->status));
}

static void answered(void *ctx, const struct drpc_result *result)
{
	if (result->error || result->status != DRPC_SUCCESS)
		end_call(explain_failure(result));
	else
		end_call(call.take(result->response, call.why));
}

static void send_request(void *ctx)
{
	const struct drpc_client_options options = { .path = call.socket };
	struct drpc_request request = *call.request;
	int error = drpc_client_create(&options, &call.client, call.why);

	if (error) {
		end_call(error);
		return;
	}
	request.done = answered;
	error = drpc_client_call(call.client, &request);
	if (error)
		end_call(fault(call.why, error, "the request cannot be sent to the agent: %s", strerror(-error)));
}

static int make_call(const struct agent_config *config, const struct drpc_request *request,
		     int (*take)(const ProtobufCMessage *response, struct fathom_fault *why), struct fathom_fault *why)
{
	const struct reactor_options reactors = { .spin_ns = 0 };
	int error;

	must(!call.request);
	if (snprintf(call.socket, sizeof(call.socket), "%s/" AGENT_SOCKET, config->runtime_dir) >= (int)sizeof(call.socket))
		return fault(why, -ENAMETOOLONG, "runtime_dir is too long");
	error = reactors_start(&reactors);
	if (error)
		return fault(why, error, "the reactor cannot start: %s", strerror(-error));
	call.request = request;
	call.take = take;
	call.why = why;
	thread_send_msg(thread_control(), send_request, NULL);
	reactors_run();
	reactors_stop();
	return call.error;
}

/* ---- attachments ---- */

static int take_attachment(const ProtobufCMessage *response, struct fathom_fault *why)
{
	const Agent__AttachResp *answer = (const Agent__AttachResp *)response;

	if (answer->status < 0) {
		if (answer->code == 0)
			return fault(why, answer->status, "%s", answer->text);
		fault_coded(why, answer->status, (int)answer->code, "%s", answer->text);
		fault_resolve(why, "%s", answer->resolution);
		return answer->status;
	}
	return call.attachment && answer->attachment ? call.attachment(call.ctx, answer->attachment) : 0;
}

/* The agent ends the request in its own time; the call only ends if the agent does not answer. */
static uint64_t call_timeout_ns(const struct agent_request *request)
{
	return (request->timeout_ms ? request->timeout_ms : TIMEOUT_MS_DEFAULT) * NS_PER_MS + GRACE_SECONDS * NS_PER_SEC;
}

int agent_attach(const struct agent_config *config, const struct agent_request *request, agent_attachment_fn take,
		 void *ctx, struct fathom_fault *why)
{
	Agent__AttachReq message = AGENT__ATTACH_REQ__INIT;
	const struct drpc_request of_call = {
		.module = DRPC_MODULE_FATHOM,
		.method = DRPC_FATHOM_ATTACH,
		.message = &message.base,
		.response = &agent__attach_resp__descriptor,
		.timeout_ns = call_timeout_ns(request),
	};

	message.name = (char *)request->name;
	message.temporary = request->is_temporary;
	message.timeout_ms = request->timeout_ms;
	call.attachment = take;
	call.ctx = ctx;
	return make_call(config, &of_call, take_attachment, why);
}

int agent_detach(const struct agent_config *config, const struct agent_request *request, struct fathom_fault *why)
{
	Agent__DetachReq message = AGENT__DETACH_REQ__INIT;
	const struct drpc_request of_call = {
		.module = DRPC_MODULE_FATHOM,
		.method = DRPC_FATHOM_DETACH,
		.message = &message.base,
		.response = &agent__attach_resp__descriptor,
		.timeout_ns = call_timeout_ns(request),
	};

	message.name = (char *)request->name;
	message.force = request->is_forced;
	message.timeout_ms = request->timeout_ms;
	return make_call(config, &of_call, take_attachment, why);
}

static int take_list(const ProtobufCMessage *response, struct fathom_fault *why)
{
	const Agent__ListResp *answer = (const Agent__ListResp *)response;
	int error = 0;

	for (size_t i = 0; !error && i < answer->n_attachments; i++)
		error = call.attachment(call.ctx, answer->attachments[i]);
	return error ? fault(why, error, "out of memory") : 0;
}

int agent_list(const struct agent_config *config, agent_attachment_fn each, void *ctx, struct fathom_fault *why)
{
	Agent__ListReq message = AGENT__LIST_REQ__INIT;
	const struct drpc_request of_call = {
		.module = DRPC_MODULE_FATHOM,
		.method = DRPC_FATHOM_LIST,
		.message = &message.base,
		.response = &agent__list_resp__descriptor,
		.timeout_ns = SHORT_SECONDS * NS_PER_SEC,
	};

	call.attachment = each;
	call.ctx = ctx;
	return make_call(config, &of_call, take_list, why);
}

/* ---- statistics ---- */

static int take_counters(const ProtobufCMessage *response, struct fathom_fault *why)
{
	const Fathom__StatsResp *answer = (const Fathom__StatsResp *)response;
	int error = 0;

	for (size_t i = 0; !error && i < answer->n_counters; i++)
		error = call.counter(call.ctx, answer->counters[i]->name, answer->counters[i]->value,
				     answer->counters[i]->meaning);
	return error ? fault(why, error, "out of memory") : 0;
}

int agent_statistics(const struct agent_config *config, agent_counter_fn each, void *ctx, struct fathom_fault *why)
{
	Fathom__StatsReq message = FATHOM__STATS_REQ__INIT;
	const struct drpc_request of_call = {
		.module = DRPC_MODULE_FATHOM,
		.method = DRPC_FATHOM_STATS,
		.message = &message.base,
		.response = &fathom__stats_resp__descriptor,
		.timeout_ns = SHORT_SECONDS * NS_PER_SEC,
	};

	call.counter = each;
	call.ctx = ctx;
	return make_call(config, &of_call, take_counters, why);
}
