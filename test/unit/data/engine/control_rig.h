/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control_rig - the engine's side of the control plane on a control reactor, without the rest of the engine, and a server
 * beside it; both use the real library. Calls to either run on the control thread.
 */
#ifndef TEST_UNIT_ENGINE_CONTROL_RIG_H
#define TEST_UNIT_ENGINE_CONTROL_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/engine/control.h"
#include "rpc/proto/ctl.pb-c.h"
#include "rpc/proto/fathom.pb-c.h"

#include "../../control_thread.h"

enum { RIG_EVENTS_MAX = 64, RIG_WAIT_MS = 60000 };

static char rig_folder[64];
static struct engine_options rig_options = {
	.version = "0.0.0",
	.server = { .uuid = "", .address = "127.0.0.1", .provider = "nvme+tcp", .instance = 2 },
};
static struct fathom_fault why;

/* ---- the server ---- */

static struct {
	struct drpc_server *drpc;
	volatile unsigned int ready_count, event_count; /* read by the test's thread, written by the control thread */
	uint64_t incarnation;
	uint64_t sequences[RIG_EVENTS_MAX];
	char texts[RIG_EVENTS_MAX][RAS_MESSAGE_BYTES];
	int32_t refusals; /* number of next events to refuse */
	int32_t refusal;
} rig;

static inline void rig_ready(struct drpc_call *call, const ProtobufCMessage *message)
{
	rig.incarnation = ((const Srv__NotifyReadyReq *)message)->incarnation;
	rig.ready_count++;
	drpc_reply(call, NULL);
}

static inline void rig_event(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Shared__ClusterEventReq *request = (const Shared__ClusterEventReq *)message;
	Shared__ClusterEventResp response = SHARED__CLUSTER_EVENT_RESP__INIT;

	response.sequence = request->sequence;
	if (rig.refusals > 0) {
		rig.refusals--;
		response.status = rig.refusal;
	} else if (rig.event_count == 0 || rig.sequences[rig.event_count - 1] < request->sequence) {
		/* otherwise the event was accepted and its answer lost */
		assert_true(rig.event_count < RIG_EVENTS_MAX);
		rig.sequences[rig.event_count] = request->sequence;
		snprintf(rig.texts[rig.event_count], RAS_MESSAGE_BYTES, "%s", request->event->msg);
		rig.event_count++;
	}
	drpc_reply(call, &response.base);
}

static const struct drpc_method rig_methods[] = {
	{ DRPC_MODULE_SRV, DRPC_SRV_NOTIFY_READY, "NOTIFY_READY", &srv__notify_ready_req__descriptor, rig_ready },
	{ DRPC_MODULE_SRV, DRPC_SRV_CLUSTER_EVENT, "CLUSTER_EVENT", &shared__cluster_event_req__descriptor, rig_event },
};

static inline int rig_server_open(void *ctx)
{
	char path[96];
	struct drpc_server_options options = { .path = path,
					       .methods = rig_methods,
					       .method_count = ARRAY_COUNT(rig_methods) };

	snprintf(path, sizeof(path), "%s/fathom_server.sock", rig_folder);
	return drpc_server_open(&options, &rig.drpc, &why);
}

static inline int rig_server_close(void *ctx)
{
	drpc_server_close(rig.drpc);
	rig.drpc = NULL;
	return 0;
}

/* ---- the engine ---- */

static inline int rig_open(void *ctx)
{
	return engine_control_open(&rig_options, &why);
}

static inline int rig_is_ready(void *ctx)
{
	engine_control_ready();
	return 0;
}

static inline int rig_close(void *ctx)
{
	engine_control_close();
	return 0;
}

/* Wait until a condition set by the control thread is true. */
#define rig_wait(CONDITION)                                                                                                \
	do {                                                                                                               \
		uint64_t rig_until = clock_monotonic_ns() + RIG_WAIT_MS * NS_PER_MS;                                       \
		while (!(CONDITION)) {                                                                                     \
			assert_true(clock_monotonic_ns() < rig_until);                                                     \
			usleep(500);                                                                                       \
		}                                                                                                          \
	} while (0)

/* ---- calls by the server ---- */

struct rig_call {
	int32_t method;
	const ProtobufCMessage *request;
	struct drpc_client *client;
	int32_t status;
	volatile bool done;
};

/* All responses of the module MGMT that the rig calls have only a status. */
static inline void rig_answered(void *ctx, const struct drpc_result *result)
{
	struct rig_call *call = ctx;

	assert_int_equal(result->error, 0);
	assert_int_equal(result->status, DRPC_SUCCESS);
	call->status = ((const Mgmt__DaosResp *)result->response)->status;
	call->done = true;
}

static inline int rig_call_begin(void *ctx)
{
	struct rig_call *call = ctx;
	struct drpc_client_options options = { .path = engine_control.socket_path };

	assert_int_equal(drpc_client_create(&options, &call->client, &why), 0);
	return drpc_client_call(call->client, &(struct drpc_request){
						      .module = DRPC_MODULE_MGMT,
						      .method = call->method,
						      .message = call->request,
						      .response = &mgmt__daos_resp__descriptor,
						      .timeout_ns = 10 * NS_PER_SEC,
						      .done = rig_answered,
						      .ctx = call,
					      });
}

static inline int rig_call_end(void *ctx)
{
	drpc_client_destroy(((struct rig_call *)ctx)->client);
	return 0;
}

static inline int32_t rig_ask(int32_t method, const ProtobufCMessage *request)
{
	struct rig_call call = { .method = method, .request = request };

	assert_int_equal(on_control(rig_call_begin, &call), 0);
	rig_wait(call.done);
	on_control(rig_call_end, &call);
	return call.status;
}

static inline int32_t rig_set_rank(uint32_t rank, uint32_t map_version)
{
	Mgmt__SetRankReq request = MGMT__SET_RANK_REQ__INIT;

	request.rank = rank;
	request.map_version = map_version;
	return rig_ask(DRPC_MGMT_SET_RANK, &request.base);
}

static inline int32_t rig_ping(uint32_t rank)
{
	Mgmt__PingRankReq request = MGMT__PING_RANK_REQ__INIT;

	request.rank = rank;
	return rig_ask(DRPC_MGMT_PING_RANK, &request.base);
}

static inline int32_t rig_prep_shutdown(uint32_t rank)
{
	Mgmt__PrepShutdownReq request = MGMT__PREP_SHUTDOWN_REQ__INIT;

	request.rank = rank;
	return rig_ask(DRPC_MGMT_PREP_SHUTDOWN, &request.base);
}

/* ---- setup and teardown ---- */

static inline int rig_setup(void **state)
{
	const struct reactor_options options = { 0 };

	snprintf(rig_folder, sizeof(rig_folder), "/tmp/fathom-control-XXXXXX");
	assert_non_null(mkdtemp(rig_folder));
	memset(&rig, 0, sizeof(rig));
	rig_options.server.socket_dir = rig_folder;
	control_start(&options);
	return 0;
}

static inline int rig_teardown(void **state)
{
	char command[128];

	if (rig.drpc)
		on_control(rig_server_close, NULL);
	on_control(rig_close, NULL);
	control_stop();
	snprintf(command, sizeof(command), "rm -r %s", rig_folder);
	return system(command) == 0 ? 0 : -1;
}

#endif
