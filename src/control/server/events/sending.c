/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends events to the management service: by gRPC also if the management service is in this server, so that there is
 * only one path.
 *
 *	IDLE -> [events on disk] -> SENDING -> IDLE, or PAUSING -> SENDING ...
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/fault/fault.h"
#include "control/server/events/internal.h"
#include "control/server/core/probes.gen.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

enum {
	TAKE_SECONDS = 15,
	PAUSE_MIN_MS = 100,
	PAUSE_MAX_MS = 10000,
	BATCH_EVENTS = 256,
	BATCH_BYTES = 1 << 20,
};
static_assert((int)BATCH_EVENTS <= (int)SPOOL_BATCH_MAX, "the spool returns as many at once");

static void send_next_batch(struct server_events *events);

static void resume_sending(struct deadline *deadline)
{
	send_next_batch(container_of(deadline, struct server_events, send_again));
}

static void pause_sending(struct server_events *events)
{
	must(!events->is_sending);
	events->server->stats.send_failures++;
	events->send_pause_ms = events->send_pause_ms ? events->send_pause_ms * 2 : PAUSE_MIN_MS;
	if (events->send_pause_ms > PAUSE_MAX_MS)
		events->send_pause_ms = PAUSE_MAX_MS;
	must(events->send_pause_ms >= PAUSE_MIN_MS && events->send_pause_ms <= PAUSE_MAX_MS);
	deadline_set(&events->server->deadlines, &events->send_again, events->send_pause_ms * NS_PER_MS, resume_sending);
}

static void on_events_answered(void *ctx, const struct grpc_result *result)
{
	struct server_events *events = ctx;
	struct server *server = events->server;
	const Fathom__TakeEventsResp *answer = (const Fathom__TakeEventsResp *)result->response;
	struct fathom_fault why = { 0 };

	must(events->is_sending);
	events->is_sending = false;
	probe_server_events_answered(reactor_now(), server, result->code == GRPC_OK ? answer->taken : 0, result->code);
	if (server->state == SERVER_LEAVING)
		return;
	if (result->code != GRPC_OK) {
		fault_from_result(result, server->places->replica, &why);
		if (events->send_pause_ms == 0)
			server_log_fault(LOG_LEVEL_WARNING,
					 "the management service does not take events, they wait on disk", &why);
		pause_sending(events);
		return;
	}
	events->send_pause_ms = 0;
	for (size_t i = 0; i < answer->n_refused; i++)
		log_error("the management service rejected event %llu of this host: %s",
			  (unsigned long long)answer->refused[i]->number, answer->refused[i]->reason);
	if (spool_taken(events->spool, min_u64(answer->taken, spool_last(events->spool)), &why) != 0)
		server_log_fault(LOG_LEVEL_ERROR, "events", &why);
	server->stats.events_waiting = spool_untaken(events->spool);
	send_next_batch(events);
}

static void send_next_batch(struct server_events *events)
{
	Fathom__TakeEventsReq request = FATHOM__TAKE_EVENTS_REQ__INIT;
	struct server *server = events->server;
	struct spool_batch *batch;
	struct fathom_fault why = { 0 };
	int error;

	if (events->is_sending || events->send_again.set || spool_untaken(events->spool) == 0)
		return;
	batch = calloc(1, sizeof(*batch));
	must(batch);
	error = spool_batch(events->spool, BATCH_EVENTS, BATCH_BYTES, batch, &why);
	if (error) {
		free(batch);
		server_log_fault(LOG_LEVEL_ERROR, "events", &why);
		pause_sending(events);
		return;
	}
	must(batch->count > 0 && batch->count <= BATCH_EVENTS);
	request.sys = server->system;
	request.source = (char *)spool_source(events->spool);
	request.n_events = batch->count;
	request.events = batch->events;
	error = server_call_mgmt(server, &(struct server_mgmt_call){
						 .path = "/fathom.ControlSvc/TakeEvents",
						 .request = &request.base,
						 .response = &fathom__take_events_resp__descriptor,
						 .seconds = TAKE_SECONDS,
						 .done = on_events_answered,
						 .ctx = events,
					 });
	spool_batch_deinit(batch);
	free(batch);
	if (error)
		pause_sending(events);
	else
		events->is_sending = true;
}

void events_send(struct server *server)
{
	must(server->events);
	if (server->state != SERVER_LEAVING)
		send_next_batch(server->events);
}
