/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests about an engine's pools and volumes (store.proto). They have a dRPC client of their own, so that slow ones delay
 * neither pings nor other calls. The client is created for the first call, and destroyed when the process ends: no request
 * is sent to the next process of the engine.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "control/instance/probes.gen.h"

#define CALL_WORDS "a request about its storage"

struct storage_call {
	struct instance *instance;
	Store__StorageResp *response; /* NULL: none */
	instance_storage_fn done;
	void *ctx;
};

static void finish_storage_call(void *ctx, const struct fathom_fault *why)
{
	struct storage_call *call = ctx;
	struct instance *instance = call->instance;

	must(instance->storage_calls > 0);
	must(why || call->response);
	instance->storage_calls--;
	call->done(call->ctx, why, why ? NULL : call->response);
	if (call->response)
		store__storage_resp__free_unpacked(call->response, NULL);
	free(call);
}

/* An answer without an error of dRPC. 0: it is in `response_ret`. */
static int read_storage_answer(const struct instance *instance, const struct drpc_result *result,
			       Store__StorageResp **response_ret, struct fathom_fault *why)
{
	const char *version = instance->ready ? instance->ready->version : "";

	if (result->status == DRPC_UNKNOWN_MODULE || result->status == DRPC_UNKNOWN_METHOD)
		return fault_engine_old(why, instance->options.index, version);
	if (result->status != DRPC_SUCCESS)
		return fault_engine_refuses(why, instance->options.index, CALL_WORDS, "it failed", instance_log(instance));
	*response_ret = store__storage_resp__unpack(NULL, result->body_bytes, result->body);
	if (*response_ret)
		return 0;
	return fault_engine_refuses(why, instance->options.index, CALL_WORDS, "its answer cannot be read",
				    instance_log(instance));
}

/* `result->error` is not 0. */
static int explain_lost_answer(const struct instance *instance, const struct drpc_result *result, struct fathom_fault *why)
{
	must(result->error < 0);
	switch (result->error) {
	case -ECANCELED: /* instance_end_storage_calls() */
		*why = *instance->storage_end_why;
		return why->error;
	case -ETIMEDOUT:
		return fault_engine_no_answer(why, instance->options.index, CALL_WORDS);
	case -ECONNRESET:
	case -EPIPE:
	case -EPROTO:
		return fault_engine_call_lost(why, instance->options.index, CALL_WORDS);
	default:
		return fault_engine_not_reached(why, instance->options.index, CALL_WORDS, result->why.text);
	}
}

static void on_storage_answered(void *ctx, const struct drpc_result *result)
{
	struct instance_step *step = ctx;
	struct instance_call *call = step->call;
	struct storage_call *storage;
	struct fathom_fault why;
	bool current;
	struct instance *instance = instance_step_end(step, &current);
	int error;

	if (!instance)
		return; /* instance_destroy() has answered the call */
	must(call->kind == INSTANCE_DO_TELL);
	storage = call->ctx;
	must(!storage->response);
	error = result->error ? explain_lost_answer(instance, result, &why)
			      : read_storage_answer(instance, result, &storage->response, &why);
	probe_instance_storage_answered(reactor_now(), instance, error, instance->storage_calls);
	instance_answer(instance, call, error ? &why : NULL);
}

static int check_callable(const struct instance *instance, struct fathom_fault *why)
{
	uint32_t index = instance->options.index;

	if (instance->storage_calls > INSTANCE_STORAGE_CALLS_MAX)
		return fault_storage_calls_full(why, index, INSTANCE_STORAGE_CALLS_MAX);
	if (instance->process.pid == 0)
		return fault_engine_not_running(why, index);
	if (!instance->process.serving || instance->state == INSTANCE_STOPPING)
		return fault_engine_not_joined(why, index, instance_state_name(instance->state));
	if (instance->process.hung) {
		*why = instance->process.hung_why;
		return why->error;
	}
	return 0;
}

static int send_request(struct instance *instance, const Store__StorageReq *request, struct instance_call *call,
			struct fathom_fault *why)
{
	const struct drpc_client_options options = {
		.path = instance->socket_path,
		.connections_max = INSTANCE_STORAGE_CONNECTIONS_MAX,
	};
	struct instance_step *step;
	int error = instance->storage_client ? 0 : drpc_client_create(&options, &instance->storage_client, why);
	bool current;

	if (error)
		return error;
	step = instance_step_begin(instance);
	step->call = call;
	error = drpc_client_call(instance->storage_client, &(struct drpc_request){
								   .module = DRPC_MODULE_FATHOM,
								   .method = DRPC_FATHOM_STORAGE,
								   .message = &request->base,
								   .timeout_ns = instance->options.storage_timeout_ns,
								   .done = on_storage_answered,
								   .ctx = step,
							   });
	if (!error)
		return 0;
	must(instance_step_end(step, &current) == instance);
	return fault_engine_not_reached(why, instance->options.index, CALL_WORDS, strerror(-error));
}

void instance_storage_call(struct instance *instance, const Store__StorageReq *request, instance_storage_fn done, void *ctx)
{
	struct storage_call *storage = calloc(1, sizeof(*storage));
	struct instance_call *call;
	struct fathom_fault why;
	int error;

	must(storage);
	must(done);
	*storage = (struct storage_call){ .instance = instance, .done = done, .ctx = ctx };
	call = instance_begin_report(instance, finish_storage_call, storage);
	instance->storage_calls++;
	error = check_callable(instance, &why);
	if (!error)
		error = send_request(instance, request, call, &why);
	probe_instance_storage_called(reactor_now(), instance, request->action, error, instance->storage_calls);
	if (error)
		instance_answer(instance, call, &why);
}

void instance_end_storage_calls(struct instance *instance, const struct fathom_fault *why)
{
	struct drpc_client *client = instance->storage_client;

	must(!instance->storage_end_why);
	must(why->error < 0);
	instance->storage_client = NULL;
	instance->storage_end_why = why;
	drpc_client_destroy(client);
	instance->storage_end_why = NULL;
}

void instance_storage_process_ended(struct instance *instance)
{
	struct fathom_fault why;

	fill_fault_engine_call_lost(&why, instance->options.index, CALL_WORDS); /* reported to each caller */
	instance_end_storage_calls(instance, &why);
}
