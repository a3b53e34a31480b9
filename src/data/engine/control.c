/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The methods that the server calls. A server may repeat a call, after a restart or a lost answer. So a repeated call
 * succeeds, unless its values differ.
 */
#include "data/engine/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "data/engine/figures/figures.h"
#include "data/engine/probes.gen.h"
#include "data/engine/storage/calls.h"
#include "base/observe/trace/points.gen.h"
#include "rpc/proto/ctl.pb-c.h"
#include "rpc/proto/fathom.pb-c.h"
#include "base/reactor/reactor.h"
#include "data/target/target.h"

struct engine_control engine_control;

bool engine_control_is_on(void)
{
	return engine_control.state != ENGINE_RANK_ALONE;
}

void engine_control_move(enum engine_rank_state to)
{
	engine_rank_state_move(clock_ticks(), &engine_control, to);
}

/* ---- methods ---- */

static void reply_status(struct drpc_call *call, int32_t status)
{
	Mgmt__DaosResp response = MGMT__DAOS_RESP__INIT;

	response.status = status;
	drpc_reply(call, &response.base);
}

/* 0, or the status with which the engine rejects every method now. */
static int32_t check_is_up(void)
{
	if (engine_control.state == ENGINE_RANK_STARTING)
		return DER_UNINIT;
	return engine_control.state == ENGINE_RANK_LEAVING ? DER_SHUTDOWN : 0;
}

static bool is_draining(void)
{
	return engine_control.state == ENGINE_RANK_DRAINING || engine_control.state == ENGINE_RANK_DRAINED;
}

/* Terminate if a group map newer than our rank does not contain this engine. */
static void check_membership(void)
{
	char text[RAS_MESSAGE_BYTES];

	if (engine_control.rank == ENGINE_RANK_NONE || engine_control.state == ENGINE_RANK_LEAVING ||
	    group_version() <= engine_control.rank_map_version ||
	    group_has(engine_control.rank, engine_control.incarnation))
		return;
	snprintf(text, sizeof(text), "rank %u: version %u of the group map does not contain this engine",
		 engine_control.rank, group_version());
	engine_self_terminate(text);
}

static int32_t apply_rank(const Mgmt__SetRankReq *request)
{
	int32_t status = check_is_up();

	if (status)
		return status;
	if (request->rank == ENGINE_RANK_NONE)
		return DER_INVAL;
	if (engine_control.rank != ENGINE_RANK_NONE)
		return request->rank == engine_control.rank ? 0 : DER_ALREADY;
	if (is_draining())
		return DER_SHUTDOWN;
	engine_control.rank = request->rank;
	engine_control.rank_map_version = request->map_version;
	engine_control_move(ENGINE_RANK_RANKED);
	log_notice("the server assigned rank %u", request->rank);
	return 0;
}

static void set_rank(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Mgmt__SetRankReq *request = (const Mgmt__SetRankReq *)message;
	int32_t status = apply_rank(request);

	probe_engine_set_rank(clock_ticks(), &engine_control, request->rank, request->map_version, status);
	reply_status(call, status);
	if (status == 0)
		check_membership();
}

static int32_t start_serving(void)
{
	int32_t status = check_is_up();

	if (status)
		return status;
	if (is_draining())
		return DER_SHUTDOWN;
	if (engine_control.state == ENGINE_RANK_READY)
		return DER_UNINIT;
	if (engine_control.state == ENGINE_RANK_RANKED) {
		nvmf_target_admit(true);
		engine_control_move(ENGINE_RANK_SERVING);
		log_notice("set up: hosts may connect to %s", engine_control.uri);
	}
	return 0;
}

static void set_up(struct drpc_call *call, const ProtobufCMessage *message)
{
	int32_t status = start_serving();

	probe_engine_set_up(clock_ticks(), &engine_control, status);
	reply_status(call, status);
}

/* 0, or the status with which the engine rejects a method addressed to `rank`. */
static int32_t check_rank(uint32_t rank)
{
	int32_t status = check_is_up();

	if (status)
		return status;
	if (engine_control.rank == ENGINE_RANK_NONE)
		return DER_UNINIT;
	return rank == engine_control.rank ? 0 : DER_BAD_TARGET;
}

static void ping_rank(struct drpc_call *call, const ProtobufCMessage *message)
{
	Mgmt__PingRankResp response = MGMT__PING_RANK_RESP__INIT;
	struct engine_health health;

	response.status = check_rank(((const Mgmt__PingRankReq *)message)->rank);
	if (response.status == 0)
		response.storage = engine_storage_health(&health);
	drpc_reply(call, &response.base);
}

static void reply_drained(void *ctx, int32_t status)
{
	probe_engine_prep_shutdown(clock_ticks(), &engine_control, engine_control.rank, status);
	reply_status(ctx, status);
}

static void prep_shutdown(struct drpc_call *call, const ProtobufCMessage *message)
{
	int32_t status = check_rank(((const Mgmt__PrepShutdownReq *)message)->rank);

	if (status)
		reply_drained(call, status);
	else
		engine_drain(reply_drained, call);
}

static void update_group(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Mgmt__GroupUpdateReq *request = (const Mgmt__GroupUpdateReq *)message;
	Mgmt__GroupUpdateResp response = MGMT__GROUP_UPDATE_RESP__INIT;
	bool kept = false;

	response.status = check_is_up();
	if (response.status == 0)
		response.status = group_update(request, &kept);
	probe_engine_group_update(clock_ticks(), &engine_control, request->map_version, (uint32_t)request->n_engines, kept);
	drpc_reply(call, &response.base);
	if (kept)
		check_membership();
}

/* ---- log masks ---- */

/* `PRIORITY[,FACILITY=PRIORITY...]`: facilities are not supported, so only a single PRIORITY is valid. */
static int32_t read_masks(const char *masks, enum log_level *level_ret)
{
	if (strpbrk(masks, ",="))
		return DER_NOSYS;
	return log_level_parse(masks, level_ret) < 0 ? DER_INVAL : 0;
}

static int32_t apply_masks(const Ctl__SetLogMasksReq *request)
{
	enum log_level level = engine_control.options->log_level;
	int32_t status;

	/* streams and subsystems select DAOS's kinds of debug lines, which do not exist here; resetting them is a no-op */
	if (request->streams[0] || request->subsystems[0])
		return DER_NOSYS;
	if (!request->masks[0] && !request->reset_masks)
		return 0;
	if (request->masks[0]) {
		status = read_masks(request->masks, &level);
		if (status)
			return status;
	}
	log_set_level(level);
	log_notice("the server set the log level to %s", log_level_name(level));
	return 0;
}

static void set_log_masks(struct drpc_call *call, const ProtobufCMessage *message)
{
	Ctl__SetLogMasksResp response = CTL__SET_LOG_MASKS_RESP__INIT;

	response.status = apply_masks((const Ctl__SetLogMasksReq *)message);
	drpc_reply(call, &response.base);
}

/* ---- description of this engine ---- */

void engine_control_fill_ready(Srv__NotifyReadyReq *ready)
{
	srv__notify_ready_req__init(ready);
	ready->uri = engine_control.uri;
	ready->nctxs = ready->ntgts = reactors_count();
	ready->drpclistenersock = engine_control.socket_path;
	ready->instanceidx = engine_control.options->server.instance;
	ready->incarnation = engine_control.incarnation;
	ready->version = (char *)engine_control.options->version;
}

static Fathom__DescribeResp__State described_state(void)
{
	switch (engine_control.state) {
	case ENGINE_RANK_ALONE:
	case ENGINE_RANK_STARTING:
		break;
	case ENGINE_RANK_READY:
	case ENGINE_RANK_RANKED:
		return FATHOM__DESCRIBE_RESP__STATE__READY;
	case ENGINE_RANK_SERVING:
		return FATHOM__DESCRIBE_RESP__STATE__SERVING;
	case ENGINE_RANK_DRAINING:
	case ENGINE_RANK_DRAINED:
	case ENGINE_RANK_LEAVING:
		return FATHOM__DESCRIBE_RESP__STATE__DRAINING;
	}
	return FATHOM__DESCRIBE_RESP__STATE__STARTING;
}

static void describe(struct drpc_call *call, const ProtobufCMessage *message)
{
	Fathom__DescribeResp response = FATHOM__DESCRIBE_RESP__INIT;
	Srv__NotifyReadyReq ready;

	engine_control_fill_ready(&ready);
	response.ready = &ready;
	response.rank = engine_control.rank;
	response.map_version = group_version();
	response.state = described_state();
	response.pid = (uint64_t)getpid();
	response.uuid = (char *)engine_control.options->server.uuid;
	drpc_reply(call, &response.base);
}

static const struct drpc_method methods[] = {
	{ DRPC_MODULE_MGMT, DRPC_MGMT_SET_RANK, "SET_RANK", &mgmt__set_rank_req__descriptor, set_rank },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_SET_UP, "SET_UP", NULL, set_up },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_PING_RANK, "PING_RANK", &mgmt__ping_rank_req__descriptor, ping_rank },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_PREP_SHUTDOWN, "PREP_SHUTDOWN", &mgmt__prep_shutdown_req__descriptor, prep_shutdown },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_GROUP_UPDATE, "GROUP_UPDATE", &mgmt__group_update_req__descriptor, update_group },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_SET_LOG_MASKS, "SET_LOG_MASKS", &ctl__set_log_masks_req__descriptor, set_log_masks },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_DESCRIBE, "DESCRIBE", NULL, describe },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_FIGURES, "FIGURES", &fathom__figures_req__descriptor, engine_figures_call },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_STORAGE, "STORAGE", &store__storage_req__descriptor, engine_storage_call },
};

/* ---- open to close ---- */

int engine_control_open(const struct engine_options *program, struct fathom_fault *why)
{
	const struct engine_server_options *server = &program->server;
	struct drpc_server_options options = {
		.path = engine_control.socket_path,
		.methods = methods,
		.method_count = ARRAY_COUNT(methods),
		.option = "--socket-dir",
	};
	int bytes, error;

	if (!server->socket_dir)
		return 0;
	bytes = snprintf(engine_control.socket_path, sizeof(engine_control.socket_path), "%s/fathom_engine%u.sock",
			 server->socket_dir, server->instance);
	if (bytes >= (int)sizeof(engine_control.socket_path))
		return fault(why, -ENAMETOOLONG, "--socket-dir %s: sockets' paths have at most %d characters",
			     server->socket_dir, ENGINE_PATH_BYTES_MAX - 1);
	engine_control.options = program;
	engine_control.rank = ENGINE_RANK_NONE;
	engine_control.uri[0] = '\0';
	trace_object_init(&engine_control.trace, TRACE_OBJECT_ENGINE_CONTROL);
	/* the clock may have been set back since the previous process chose its incarnation */
	engine_control.incarnation = max_u64(clock_realtime_ns(), server->incarnation_above + 1);
	error = deadlines_init(&engine_control.deadlines, "engine_control");
	if (error)
		return fault(why, error, "out of memory");
	error = uplink_open(why);
	if (error)
		goto no_uplink;
	error = drpc_server_open(&options, &engine_control.server, why);
	if (error)
		goto no_server;
	nvmf_target_admit(false); /* until SET_UP */
	engine_control_move(ENGINE_RANK_STARTING);
	return 0;
no_server:
	uplink_close();
no_uplink:
	deadlines_deinit(&engine_control.deadlines);
	return error;
}

void engine_control_ready(void)
{
	if (!engine_control_is_on())
		return;
	engine_control_move(ENGINE_RANK_READY);
	log_notice("engine %u: ready at %s, waiting for its rank", engine_control.options->server.instance,
		   engine_control.uri);
	uplink_notify();
	devices_watch();
}

void engine_control_leave(void)
{
	if (!engine_control_is_on() || engine_control.state == ENGINE_RANK_LEAVING)
		return;
	engine_control_move(ENGINE_RANK_LEAVING);
	nvmf_target_admit(false);
	devices_unwatch();
	drain_cancel();
}

void engine_control_close(void)
{
	if (!engine_control_is_on())
		return;
	engine_control_leave();
	drpc_server_close(engine_control.server);
	engine_control.server = NULL;
	uplink_close();
	events_free();
	group_free();
	deadlines_deinit(&engine_control.deadlines);
	engine_control_move(ENGINE_RANK_ALONE);
}
