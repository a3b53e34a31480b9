/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls to the management service: joins of engines, and events. By gRPC also if the management service is in this server,
 * so that there is only one path.
 *
 *	IDLE -> [events on disk] -> SENDING -> IDLE, or PAUSING -> SENDING ...
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/fault/fault.h"
#include "control/server/core/core.h"
#include "control/server/core/probes.gen.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/proto/mgmt.pb-c.h"

enum {
	JOIN_SECONDS = 15,
	TAKE_SECONDS = 15,
	PAUSE_MIN_MS = 100,
	PAUSE_MAX_MS = 10000,
	BATCH_EVENTS = 256,
	BATCH_BYTES = 1 << 20,
};

/* ---- joining ---- */

struct join_call {
	struct server *server;
	uint32_t index;
	instance_joined_fn done;
	void *done_ctx;
	struct fathom_fault why; /* of a join that could not be sent */
};

bool server_is_join_refused(const struct fathom_fault *why)
{
	switch (why->code) {
	case FAULT_WRONG_SYSTEM:
	case FAULT_INCOMPATIBLE:
	case FAULT_DOMAIN_LABELS:
	case FAULT_REPLACE_ENABLED_RANK:
	case FAULT_RANK_EXCLUDED:
		return true;
	default: /* the codes of the domain "system": the rules of joining */
		return why->code >= 400 && why->code < 500;
	}
}

/* Log that a join is being retried: one line until a join succeeds, for all engines. */
static void log_waiting_join(struct join_call *join, const struct instance_joined *joined)
{
	struct server *server = join->server;
	char about[64];

	if (joined->again && !server->is_join_waiting) {
		snprintf(about, sizeof(about), "engine %u waits for its rank", join->index);
		server_log_fault(LOG_LEVEL_WARNING, about, &joined->why);
	}
	server->is_join_waiting = joined->again;
}

static void on_join_answered(void *ctx, const struct grpc_result *result)
{
	struct join_call *join = ctx;
	const Mgmt__JoinResp *answer = (const Mgmt__JoinResp *)result->response;
	struct instance_joined joined = { .rank = RANK_NONE };

	if (result->code != GRPC_OK) {
		fault_from_result(result, join->server->places->replica, &joined.why);
		joined.again = !server_is_join_refused(&joined.why);
		/* the codes of the domain "database": a full disk, a damaged file */
		joined.is_lasting = joined.again && joined.why.code >= 1000 && joined.why.code < 1100;
	} else if (answer->state == MGMT__JOIN_RESP__STATE__OUT) {
		joined.why.error = fault_rank_excluded(&joined.why, answer->rank);
	} else {
		joined.rank = answer->rank;
		joined.map_version = answer->map_version;
		joined.domain = answer->faultdomain;
	}
	probe_server_join_answered(reactor_now(), join->server, join->index, joined.rank, joined.why.error);
	if (join->server->state != SERVER_LEAVING)
		log_waiting_join(join, &joined);
	join->done(join->done_ctx, &joined);
	free(join);
}

static void finish_unsent_join(void *ctx)
{
	struct join_call *join = ctx;
	struct instance_joined joined = { .rank = RANK_NONE, .why = join->why };

	joined.again = join->why.error == -EBUSY || join->why.error == -ENOMEM;
	join->server->jobs--;
	probe_server_join_answered(reactor_now(), join->server, join->index, joined.rank, joined.why.error);
	join->done(join->done_ctx, &joined);
	free(join);
}

static void fail_unsent_join(struct join_call *join)
{
	join->server->jobs++;
	thread_send_msg(thread_self(), finish_unsent_join, join);
}

void server_join(void *ctx, struct instance *instance, const struct instance_join *join, instance_joined_fn done,
		 void *done_ctx)
{
	struct server *server = ctx;
	struct join_call *call = calloc(1, sizeof(*call));
	Mgmt__JoinReq request = MGMT__JOIN_REQ__INIT;
	char uuid[MEMBER_UUID_TEXT_BYTES];
	int error;

	must(call);
	*call = (struct join_call){ .server = server, .index = join->index, .done = done, .done_ctx = done_ctx };
	request.sys = server->system;
	request.uuid = (char *)member_uuid_format(join->uuid, uuid);
	request.rank = join->rank;
	request.uri = join->ready->uri;
	request.nctxs = join->ready->nctxs;
	request.addr = (char *)server->places->control;
	request.srvfaultdomain = (char *)join->domain;
	request.idx = join->index;
	request.incarnation = join->ready->incarnation;
	request.map_version = server_map_version(server);
	request.n_secondary_uris = join->ready->n_secondaryuris;
	request.secondary_uris = join->ready->secondaryuris;
	request.n_secondary_nctxs = join->ready->n_secondarynctxs;
	request.secondary_nctxs = join->ready->secondarynctxs;
	request.check_mode = join->ready->check_mode;
	request.replace = join->is_replacement;
	request.serves = join->serves;
	error = grpc_client_call(server->client, &(struct grpc_request){
							 .address = server->places->replica,
							 .path = "/mgmt.MgmtSvc/Join",
							 .message = &request.base,
							 .response = &mgmt__join_resp__descriptor,
							 .timeout_ns = JOIN_SECONDS * NS_PER_SEC,
							 .done = on_join_answered,
							 .ctx = call,
						 });
	if (!error)
		return;
	call->why.error = fault(&call->why, error, "the join of engine %u cannot be sent: %s", join->index,
				strerror(-error));
	fail_unsent_join(call);
}

/* ---- events ---- */

static void send_events(struct server *server);

static void resume_sending(struct deadline *deadline)
{
	struct server *server = container_of(deadline, struct server, event_pause);

	send_events(server);
}

static void pause_sending(struct server *server)
{
	server->event_pause_ms = server->event_pause_ms ? server->event_pause_ms * 2 : PAUSE_MIN_MS;
	if (server->event_pause_ms > PAUSE_MAX_MS)
		server->event_pause_ms = PAUSE_MAX_MS;
	deadline_set(&server->deadlines, &server->event_pause, server->event_pause_ms * NS_PER_MS, resume_sending);
}

static void on_events_answered(void *ctx, const struct grpc_result *result)
{
	struct server *server = ctx;
	const Fathom__TakeEventsResp *answer = (const Fathom__TakeEventsResp *)result->response;
	struct fathom_fault why = { 0 };

	server->is_sending = false;
	probe_server_events_answered(reactor_now(), server, result->code == GRPC_OK ? answer->taken : 0, result->code);
	if (server->state == SERVER_LEAVING)
		return;
	if (result->code != GRPC_OK) {
		fault_from_result(result, server->places->replica, &why);
		if (server->event_pause_ms == 0)
			server_log_fault(LOG_LEVEL_WARNING,
					 "the management service does not take events, they wait on disk", &why);
		pause_sending(server);
		return;
	}
	server->event_pause_ms = 0;
	for (size_t i = 0; i < answer->n_refused; i++)
		log_error("the management service did not keep event %llu of this host: %s",
			  (unsigned long long)answer->refused[i]->number, answer->refused[i]->reason);
	if (spool_taken(server->spool,
			answer->taken < spool_last(server->spool) ? answer->taken : spool_last(server->spool), &why) != 0)
		server_log_fault(LOG_LEVEL_ERROR, "events", &why);
	send_events(server);
}

static void send_events(struct server *server)
{
	Fathom__TakeEventsReq request = FATHOM__TAKE_EVENTS_REQ__INIT;
	struct spool_batch *batch;
	struct fathom_fault why = { 0 };
	int error;

	if (server->is_sending || server->event_pause.set || spool_left(server->spool) == 0)
		return;
	batch = calloc(1, sizeof(*batch));
	must(batch);
	error = spool_batch(server->spool, BATCH_EVENTS, BATCH_BYTES, batch, &why);
	if (error) {
		free(batch);
		server_log_fault(LOG_LEVEL_ERROR, "events", &why);
		pause_sending(server);
		return;
	}
	request.sys = server->system;
	request.source = (char *)spool_source(server->spool);
	request.n_events = batch->count;
	request.events = batch->events;
	error = grpc_client_call(server->client, &(struct grpc_request){
							 .address = server->places->replica,
							 .path = "/fathom.ControlSvc/TakeEvents",
							 .message = &request.base,
							 .response = &fathom__take_events_resp__descriptor,
							 .timeout_ns = TAKE_SECONDS * NS_PER_SEC,
							 .done = on_events_answered,
							 .ctx = server,
						 });
	spool_batch_deinit(batch);
	free(batch);
	if (error)
		pause_sending(server);
	else
		server->is_sending = true;
}

void uplink_kick(struct server *server)
{
	if (server->state != SERVER_LEAVING)
		send_events(server);
}
