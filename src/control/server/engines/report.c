/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports the states of this host's engines to the management service: at the start, after each change, and at the interval
 * that its answer sets. A failed report is replaced by a new one with the states of that time.
 */
#include <stdlib.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "control/fault/fault.h"
#include "control/server/core/core.h"
#include "control/server/core/probes.gen.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

enum {
	REPORT_SECONDS = 10,
	SETTLE_MS = 100, /* events are sent first, and several changes share one report */
	BEAT_MS = 10000, /* unless the answer sets another interval */
	PAUSE_MIN_MS = 200,
	PAUSE_MAX_MS = 5000,
};

/* The system's name of the state. UNKNOWN: the engine's state is not known yet. */
static enum member_state member_state_of(const struct instance_info *info)
{
	switch (info->state) {
	case INSTANCE_AWAIT_FORMAT:
		return MEMBER_AWAIT_FORMAT;
	case INSTANCE_STARTING:
		return MEMBER_STARTING;
	case INSTANCE_READY:
	case INSTANCE_REFUSED:
		return info->is_prepared ? MEMBER_STOPPING : MEMBER_READY;
	case INSTANCE_JOINED: /* a prepared engine has disconnected its hosts */
		return info->is_prepared ? MEMBER_STOPPING : MEMBER_JOINED;
	case INSTANCE_STOPPING:
		return MEMBER_STOPPING;
	case INSTANCE_STOPPED:
		return MEMBER_STOPPED;
	case INSTANCE_MISSING:
	case INSTANCE_ERRORED:
		return MEMBER_ERRORED;
	default:
		return MEMBER_UNKNOWN;
	}
}

/* An engine that hangs may serve or not. */
static enum member_state shown_state_of(const struct instance_info *info)
{
	enum member_state state = member_state_of(info);

	return info->is_hung && (state == MEMBER_READY || state == MEMBER_JOINED) ? MEMBER_UNRESPONSIVE : state;
}

static Fathom__ReportEnginesReq__Engine *report_row(const struct instance_info *info, struct arena *arena)
{
	Fathom__ReportEnginesReq__Engine *row = arena_message(arena, fathom__report_engines_req__engine,
							      Fathom__ReportEnginesReq__Engine);
	char uuid[MEMBER_UUID_TEXT_BYTES];

	row->index = info->index;
	row->rank = info->rank;
	row->uuid = arena_text(arena, info->has_uuid ? member_uuid_format(info->uuid, uuid) : "");
	row->incarnation = info->incarnation;
	row->state = (char *)member_state_wire(shown_state_of(info));
	row->info = arena_text(arena, info->why.error ? info->why.text : "");
	return row;
}

static void send_report(struct server *server);

static void on_report_due(struct deadline *deadline)
{
	send_report(container_of(deadline, struct server, report_due));
}

/* Up to an eighth earlier, at random: otherwise servers that started together would report together forever. */
static uint64_t beat_ns(struct server *server, uint32_t again_ms)
{
	uint64_t ns = (again_ms ? again_ms : BEAT_MS) * NS_PER_MS;

	return ns - random_below(&server->chance, ns / 8 + 1);
}

static void on_reported(void *ctx, const struct grpc_result *result)
{
	const Fathom__ReportEnginesResp *answer = (const Fathom__ReportEnginesResp *)result->response;
	struct server *server = ctx;
	struct fathom_fault why;

	server->is_reporting = false;
	probe_server_reported(reactor_now(), server, server->instance_count, (uint32_t)result->code);
	if (server->state == SERVER_LEAVING)
		return;
	if (result->code != GRPC_OK) {
		fault_from_result(result, server->places->replica, &why);
		if (server->report_pause_ms == 0)
			server_log_fault(LOG_LEVEL_WARNING, "the management service does not hear how the engines are",
					 &why);
		server->report_pause_ms = min_u64(max_u64(2 * server->report_pause_ms, PAUSE_MIN_MS), PAUSE_MAX_MS);
		deadline_set(&server->deadlines, &server->report_due, server->report_pause_ms * NS_PER_MS, on_report_due);
		return;
	}
	if (server->report_pause_ms > 0)
		log_notice("the management service hears how the engines are again");
	server->report_pause_ms = 0;
	if (!server->report_due.set)
		deadline_set(&server->deadlines, &server->report_due, beat_ns(server, answer->again_ms), on_report_due);
}

static void send_report(struct server *server)
{
	Fathom__ReportEnginesReq request = FATHOM__REPORT_ENGINES_REQ__INIT;
	struct arena arena = { 0 };
	int error;

	if (server->state == SERVER_LEAVING)
		return;
	if (server->is_reporting) { /* later changes need a second report */
		deadline_set(&server->deadlines, &server->report_due, SETTLE_MS * NS_PER_MS, on_report_due);
		return;
	}
	request.sys = server->system;
	request.addr = (char *)server->places->control;
	request.engines = arena_take(&arena, (server->instance_count + 1) * sizeof(*request.engines));
	for (size_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(server->instances[i], &info);
		request.engines[request.n_engines++] = report_row(&info, &arena);
	}
	request.map_version = server_map_version(server);
	request.made_ns = clock_realtime_ns();
	error = grpc_client_call(server->client, &(struct grpc_request){
							 .address = server->places->replica,
							 .path = "/fathom.ControlSvc/ReportEngines",
							 .message = &request.base,
							 .response = &fathom__report_engines_resp__descriptor,
							 .timeout_ns = REPORT_SECONDS * NS_PER_SEC,
							 .done = on_reported,
							 .ctx = server,
						 });
	arena_free(&arena);
	server->is_reporting = !error;
	if (error)
		deadline_set(&server->deadlines, &server->report_due, PAUSE_MAX_MS * NS_PER_MS, on_report_due);
}

void server_report_soon(struct server *server)
{
	if (server->state != SERVER_READY)
		return;
	if (server->report_pause_ms == 0)
		deadline_set(&server->deadlines, &server->report_due, SETTLE_MS * NS_PER_MS, on_report_due);
}

void server_begin_reports(struct server *server)
{
	random_init(&server->chance, clock_ticks());
	send_report(server);
}

uint32_t server_map_version(const struct server *server)
{
	uint32_t version = 0;

	for (size_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(server->instances[i], &info);
		version = (uint32_t)max_u64(version, info.map_version);
	}
	return version;
}
