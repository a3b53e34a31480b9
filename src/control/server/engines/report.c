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
#include "control/server/engines/internal.h"
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

/* An engine that hangs may serve or not. One with a failed storage serves, but it must be started again. */
static enum member_state shown_state_of(const struct instance_info *info)
{
	enum member_state state = member_state_of(info);

	if (state == MEMBER_JOINED && info->health.is_failed && !info->is_hung)
		return MEMBER_ERRORED;
	return info->is_hung && (state == MEMBER_READY || state == MEMBER_JOINED) ? MEMBER_UNRESPONSIVE : state;
}

/* NULL: nothing is wrong with its storage. */
static Shared__StorageHealth *make_health(const struct instance_health *health, struct arena *arena)
{
	Shared__StorageHealth *message;

	if (!health->reason[0])
		return NULL;
	message = arena_message(arena, shared__storage_health, Shared__StorageHealth);
	message->failed = health->is_failed;
	message->errored_volumes = health->errored_volumes;
	message->read_only_volumes = health->read_only_volumes;
	message->errored_pools = health->errored_pools;
	message->reason = arena_text(arena, health->reason);
	message->since_ns = health->since_ns;
	return message;
}

static Fathom__ReportEnginesReq__Engine *make_report_row(const struct instance_info *info, struct arena *arena)
{
	Fathom__ReportEnginesReq__Engine *row = arena_message(arena, fathom__report_engines_req__engine,
							      Fathom__ReportEnginesReq__Engine);
	char uuid[MEMBER_UUID_TEXT_BYTES];

	row->index = info->index;
	row->rank = info->rank;
	row->uuid = arena_text(arena, info->has_uuid ? member_uuid_format(info->uuid, uuid) : "");
	row->incarnation = info->incarnation;
	row->state = (char *)member_state_wire(shown_state_of(info));
	row->info = arena_text(arena, info->why.error ? info->why.text : info->health.is_failed ? info->health.reason : "");
	row->storage = make_health(&info->health, arena);
	return row;
}

static void send_report(struct server_engines *engines);

static void on_report_due(struct deadline *deadline)
{
	send_report(container_of(deadline, struct server_engines, report_due));
}

static void report_in(struct server_engines *engines, uint64_t ns)
{
	deadline_set(&engines->server->deadlines, &engines->report_due, ns, on_report_due);
}

/* Up to an eighth earlier, at random: otherwise servers that started together would report together forever. */
static uint64_t beat_ns(struct server_engines *engines, uint32_t again_ms)
{
	uint64_t ns = (again_ms ? again_ms : BEAT_MS) * NS_PER_MS;

	must(ns > 0);
	return ns - random_below(&engines->random, ns / 8 + 1);
}

static void on_reported(void *ctx, const struct grpc_result *result)
{
	const Fathom__ReportEnginesResp *answer = (const Fathom__ReportEnginesResp *)result->response;
	struct server_engines *engines = ctx;
	struct server *server = engines->server;
	struct fathom_fault why;

	must(engines->is_reporting);
	engines->is_reporting = false;
	probe_server_reported(reactor_now(), server, server->instance_count, (uint32_t)result->code);
	if (server->state == SERVER_LEAVING)
		return;
	if (result->code != GRPC_OK) {
		server->stats.report_failures++;
		fault_from_result(result, server->places->replica, &why);
		if (engines->report.failing_ns == 0)
			engines->report.failing_ns = clock_realtime_ns();
		engines->report.why = why;
		if (engines->report_pause_ms == 0)
			server_log_fault(LOG_LEVEL_WARNING,
					 "the engines' states cannot be reported to the management service", &why);
		engines->report_pause_ms = min_u64(max_u64(2 * engines->report_pause_ms, PAUSE_MIN_MS), PAUSE_MAX_MS);
		must(engines->report_pause_ms >= PAUSE_MIN_MS && engines->report_pause_ms <= PAUSE_MAX_MS);
		report_in(engines, engines->report_pause_ms * NS_PER_MS);
		return;
	}
	if (engines->report_pause_ms > 0)
		log_notice("the engines' states are reported to the management service again");
	engines->report_pause_ms = 0;
	engines->report.failing_ns = 0;
	if (!engines->report_due.set)
		report_in(engines, beat_ns(engines, answer->again_ms));
}

static void send_report(struct server_engines *engines)
{
	Fathom__ReportEnginesReq request = FATHOM__REPORT_ENGINES_REQ__INIT;
	struct server *server = engines->server;
	struct arena arena = { 0 };
	int error;

	if (server->state == SERVER_LEAVING)
		return;
	if (engines->is_reporting) { /* later changes need a second report */
		report_in(engines, SETTLE_MS * NS_PER_MS);
		return;
	}
	request.sys = server->system;
	request.addr = (char *)server->places->control;
	request.engines = arena_take(&arena, (server->instance_count + 1) * sizeof(*request.engines));
	for (size_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(server->instances[i], &info);
		request.engines[request.n_engines++] = make_report_row(&info, &arena);
	}
	must(request.n_engines == server->instance_count);
	must(!engines->is_reporting);
	request.map_version = engines_map_version(server);
	request.made_ns = clock_realtime_ns();
	error = server_call_mgmt(server, &(struct server_mgmt_call){
						 .path = "/fathom.ControlSvc/ReportEngines",
						 .request = &request.base,
						 .response = &fathom__report_engines_resp__descriptor,
						 .seconds = REPORT_SECONDS,
						 .done = on_reported,
						 .ctx = engines,
					 });
	arena_free(&arena);
	engines->is_reporting = !error;
	if (error)
		report_in(engines, PAUSE_MAX_MS * NS_PER_MS);
}

void report_soon(struct server_engines *engines)
{
	if (engines->server->state == SERVER_READY && engines->report_pause_ms == 0)
		report_in(engines, SETTLE_MS * NS_PER_MS);
}

void reports_begin(struct server_engines *engines)
{
	must(engines->server->state == SERVER_READY);
	must(!engines->is_reporting);
	must(!engines->report_due.set);
	random_init(&engines->random, clock_ticks());
	send_report(engines);
}

const struct engines_report *engines_report(const struct server *server)
{
	must(server->engines);
	return &server->engines->report;
}

uint32_t engines_map_version(const struct server *server)
{
	uint32_t version = 0;

	for (size_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(server->instances[i], &info);
		version = (uint32_t)max_u64(version, info.map_version);
	}
	return version;
}
