/* SPDX-License-Identifier: BSD-2-Clause */
/* dRPC calls to the engine: requests of the state machine, group maps, log masks, pings. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "rpc/proto/ctl.pb-c.h"

/* DAOS's error numbers that are explained in words; others are shown as numbers. */
enum { DER_INVAL = -1003, DER_NOSYS = -1010, DER_UNINIT = -1015, DER_BAD_TARGET = -1035 };

static const char *status_text(enum drpc_status status)
{
	return status == DRPC_UNKNOWN_MODULE || status == DRPC_UNKNOWN_METHOD ? "it does not know that" : "it failed";
}

int instance_engine_said(const struct instance *instance, const char *what, const struct drpc_result *result,
			 struct fathom_fault *why)
{
	const Mgmt__DaosResp *response = (const Mgmt__DaosResp *)result->response;
	char text[64];

	if (result->error == -ETIMEDOUT)
		return fault_engine_no_answer(why, instance->options.index, what);
	if (result->error)
		return fault_engine_not_reached(why, instance->options.index, what, result->why.text);
	if (result->status != DRPC_SUCCESS)
		return fault_engine_refuses(why, instance->options.index, what, status_text(result->status),
					    instance_log(instance));
	if (!response || response->status == 0)
		return 0;
	snprintf(text, sizeof(text), "it says error %d", response->status);
	return fault_engine_refuses(why, instance->options.index, what, text, instance_log(instance));
}

/* ---- calls of the state machine: their answers are dropped when the state changes ---- */

static void on_engine_answered(void *ctx, const struct drpc_result *result)
{
	struct instance_step *step = ctx;
	instance_engine_fn then = step->then.engine;
	bool current;
	struct instance *instance = instance_step_end(step, &current);

	if (current)
		then(instance, result);
}

void instance_ask_engine(struct instance *instance, const struct drpc_request *request, instance_engine_fn then)
{
	struct instance_step *step = instance_step_begin(instance);
	struct drpc_request call = *request;
	struct drpc_result result = { .error = 0 };

	must(then);
	must(request->response);
	step->then.engine = then;
	call.done = on_engine_answered;
	call.ctx = step;
	result.error = drpc_client_call(instance->engine, &call);
	if (!result.error)
		return;
	fill_fault(&result.why, result.error, "no call could be made: %s", strerror(-result.error)); /* reported */
	on_engine_answered(step, &result);
}

/* ---- calls on request ---- */

/* The fault for an engine's error number, as DAOS's; 0: none of them. */
static int explain_rejected_masks(const struct instance *instance, const struct drpc_result *result,
				  struct fathom_fault *why)
{
	const Mgmt__DaosResp *response = (const Mgmt__DaosResp *)result->response;

	if (result->error || result->status != DRPC_SUCCESS || !response)
		return 0;
	if (response->status == DER_INVAL)
		return fault_log_masks_bad(why, instance->options.index, "there is no such priority");
	if (response->status == DER_NOSYS)
		return fault_log_masks_bad(why, instance->options.index, "it has one level for all its lines");
	return 0;
}

/* The engine has not begun to prepare: the call did not reach it, or it has no rank yet, or another one. */
static bool is_not_prepared(const struct drpc_result *result)
{
	const Mgmt__DaosResp *response = (const Mgmt__DaosResp *)result->response;

	if (result->error)
		return result->error != -ETIMEDOUT;
	return result->status != DRPC_SUCCESS || !response || response->status == DER_UNINIT ||
	       response->status == DER_BAD_TARGET;
}

/* PREP_SHUTDOWN timed out. An engine that answers the ping is slow; else it hangs, and is stopped without preparation. */
static void on_silent_engine_pinged(void *ctx, const struct drpc_result *result)
{
	struct instance_step *step = ctx;
	struct instance_call *call = step->call;
	bool current;
	struct instance *instance = instance_step_end(step, &current);

	if (!instance)
		return;
	if (result->error != -ETIMEDOUT) {
		instance_answer(instance, call, &call->why);
		return;
	}
	instance->process.prepared = false;
	if (current && instance->process.pid != 0)
		instance_note_hung(instance);
	call->why.error = 0;
	instance_answer(instance, call, NULL);
}

static void ping_silent_engine(struct instance *instance, struct instance_call *call)
{
	Mgmt__PingRankReq request = MGMT__PING_RANK_REQ__INIT;
	struct instance_step *step = instance_step_begin(instance);

	step->call = call;
	request.rank = instance->superblock.has_rank ? instance->superblock.rank : RANK_NONE;
	if (drpc_client_call(instance->engine, &(struct drpc_request){
						       .module = DRPC_MODULE_MGMT,
						       .method = DRPC_MGMT_PING_RANK,
						       .message = &request.base,
						       .response = &mgmt__daos_resp__descriptor,
						       .timeout_ns = instance->options.answer_timeout_ns,
						       .done = on_silent_engine_pinged,
						       .ctx = step,
					       }) != 0)
		on_silent_engine_pinged(step, &(struct drpc_result){ .error = -ENOMEM }); /* unknown */
}

static void on_call_answered(void *ctx, const struct drpc_result *result)
{
	struct instance_step *step = ctx;
	struct instance_call *call = step->call;
	bool current;
	struct instance *instance = instance_step_end(step, &current);
	struct fathom_fault why;

	if (!instance)
		return; /* instance_destroy() has answered the call */
	must(call->kind == INSTANCE_DO_TELL);
	must(call->taken);
	if (call->method == DRPC_MGMT_PREP_SHUTDOWN && is_not_prepared(result))
		instance->process.prepared = false;
	if (call->method == DRPC_MGMT_PREP_SHUTDOWN && result->error == -ETIMEDOUT && instance->process.pid != 0) {
		(void)!instance_engine_said(instance, call->request, result, &call->why); /* the answer, unless it hangs */
		ping_silent_engine(instance, call);
		return;
	}
	if ((call->method == DRPC_MGMT_SET_LOG_MASKS && explain_rejected_masks(instance, result, &why) != 0) ||
	    instance_engine_said(instance, call->request, result, &why) != 0)
		instance_answer(instance, call, &why);
	else
		instance_answer(instance, call, NULL);
}

/* `words` name the call in faults; `done` and `ctx` of `request` are ignored. */
static void send_call(struct instance *instance, const struct drpc_request *request, const char *words,
		      instance_done_fn done, void *ctx)
{
	struct instance_call *call = instance_begin_report(instance, done, ctx);
	struct drpc_request sent = *request;
	struct instance_step *step;
	struct fathom_fault why;
	int error;

	must(request->module == DRPC_MODULE_MGMT);
	call->request = words;
	call->method = request->method;
	if (instance->process.pid == 0) {
		fill_fault_engine_not_running(&why, instance->options.index); /* reported */
		instance_answer(instance, call, &why);
		return;
	}
	step = instance_step_begin(instance);
	step->call = call;
	sent.done = on_call_answered;
	sent.ctx = step;
	error = drpc_client_call(instance->engine, &sent);
	if (error) {
		struct drpc_result result = { .error = error };

		fill_fault(&result.why, error, "no call could be made: %s", strerror(-error)); /* likewise */
		on_call_answered(step, &result);
	}
}

/* A call of the module "mgmt", answered with a DaosResp. */
static struct drpc_request mgmt_request(int32_t method, const ProtobufCMessage *message, uint64_t timeout_ns)
{
	return (struct drpc_request){
		.module = DRPC_MODULE_MGMT,
		.method = method,
		.message = message,
		.response = &mgmt__daos_resp__descriptor,
		.timeout_ns = timeout_ns,
	};
}

void instance_set_log_masks(struct instance *instance, const char *masks, const char *streams, const char *subsystems,
			    instance_done_fn done, void *ctx)
{
	Ctl__SetLogMasksReq request = CTL__SET_LOG_MASKS_REQ__INIT;
	struct drpc_request call;

	request.reset_masks = !masks;
	request.reset_streams = !streams;
	request.reset_subsystems = !subsystems;
	request.masks = masks ? (char *)masks : "";
	request.streams = streams ? (char *)streams : "";
	request.subsystems = subsystems ? (char *)subsystems : "";
	call = mgmt_request(DRPC_MGMT_SET_LOG_MASKS, &request.base, INSTANCE_RANK_SECONDS * NS_PER_SEC);
	send_call(instance, &call, "the setting of log masks", done, ctx);
}

void instance_ping(struct instance *instance, uint64_t timeout_ns, instance_done_fn done, void *ctx)
{
	Mgmt__PingRankReq request = MGMT__PING_RANK_REQ__INIT;
	struct drpc_request call;

	request.rank = instance->superblock.has_rank ? instance->superblock.rank : RANK_NONE;
	call = mgmt_request(DRPC_MGMT_PING_RANK, &request.base, timeout_ns);
	send_call(instance, &call, "a ping", done, ctx);
}

static void nothing_to_prepare(struct instance *instance, instance_done_fn done, void *ctx)
{
	instance_answer(instance, instance_begin_report(instance, done, ctx), NULL);
}

void instance_prepare_stop(struct instance *instance, instance_done_fn done, void *ctx)
{
	Mgmt__PrepShutdownReq request = MGMT__PREP_SHUTDOWN_REQ__INIT;
	struct drpc_request call;

	if (instance->process.pid == 0 || instance->process.hung || instance->state == INSTANCE_STARTING ||
	    instance->state == INSTANCE_STOPPING) {
		nothing_to_prepare(instance, done, ctx);
		return;
	}
	instance->process.prepared = true;
	request.rank = instance->superblock.has_rank ? instance->superblock.rank : RANK_NONE;
	call = mgmt_request(DRPC_MGMT_PREP_SHUTDOWN, &request.base, instance->options.prepare_timeout_ns);
	send_call(instance, &call, "the preparation for its end", done, ctx);
}

/* ---- group maps ---- */

static Mgmt__GroupUpdateReq *copy_group(const Mgmt__GroupUpdateReq *update)
{
	size_t bytes = mgmt__group_update_req__get_packed_size(update);
	uint8_t *packed = malloc(bytes + 1);
	Mgmt__GroupUpdateReq *copy;

	must(packed);
	must(mgmt__group_update_req__pack(update, packed) == bytes);
	copy = mgmt__group_update_req__unpack(NULL, bytes, packed);
	must(copy);
	free(packed);
	return copy;
}

static void free_group(Mgmt__GroupUpdateReq **update)
{
	if (*update)
		mgmt__group_update_req__free_unpacked(*update, NULL);
	*update = NULL;
}

static void resend_group(struct deadline *deadline)
{
	instance_send_group(container_of(deadline, struct instance, group_again));
}

static void on_group_answered(struct instance *instance, const struct drpc_result *result)
{
	const Mgmt__GroupUpdateResp *response = (const Mgmt__GroupUpdateResp *)result->response;
	bool done = !result->error && result->status == DRPC_SUCCESS && response && response->status == 0;

	must(instance->state == INSTANCE_JOINED);
	must(instance->group_sent);
	if (done)
		instance->group_version = (uint32_t)max_u64(instance->group_version, instance->group_sent->map_version);
	if (done || instance->group_next) { /* the next map replaces one that failed */
		free_group(&instance->group_sent);
		instance_send_group(instance);
		return;
	}
	instance->group_next = instance->group_sent;
	instance->group_sent = NULL;
	deadline_set(&instance->deadlines, &instance->group_again, NS_PER_SEC, resend_group);
}

void instance_send_group(struct instance *instance)
{
	if (instance->state != INSTANCE_JOINED || instance->group_sent || !instance->group_next)
		return;
	must(instance->process.serving);
	deadline_clear(&instance->deadlines, &instance->group_again);
	instance->group_sent = instance->group_next;
	instance->group_next = NULL;
	instance_ask_engine(instance,
			    &(struct drpc_request){
				    .module = DRPC_MODULE_MGMT,
				    .method = DRPC_MGMT_GROUP_UPDATE,
				    .message = &instance->group_sent->base,
				    .response = &mgmt__group_update_resp__descriptor,
				    .timeout_ns = INSTANCE_RANK_SECONDS * NS_PER_SEC,
			    },
			    on_group_answered);
}

void instance_take_back_group(struct instance *instance)
{
	if (instance->group_next)
		free_group(&instance->group_sent);
	else
		instance->group_next = instance->group_sent;
	instance->group_sent = NULL;
}

void instance_drop_group(struct instance *instance)
{
	free_group(&instance->group_next);
	free_group(&instance->group_sent);
	instance->group_version = 0;
	deadline_clear(&instance->deadlines, &instance->group_again);
}

void instance_group_update(struct instance *instance, const Mgmt__GroupUpdateReq *update)
{
	instance_check(instance);
	if (instance->process.pid == 0 || instance->state == INSTANCE_STOPPING)
		return; /* an engine gets the current map when it joins */
	if (instance->group_next && instance->group_next->map_version > update->map_version)
		return;
	if (instance->group_sent && instance->group_sent->map_version >= update->map_version)
		return;
	free_group(&instance->group_next);
	instance->group_next = copy_group(update);
	instance_send_group(instance);
}
