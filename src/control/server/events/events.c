/* SPDX-License-Identifier: BSD-2-Clause */
/* The host's spool of events. All events of one turn are written to the disk together. */
#include "control/server/events/events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/server/events/internal.h"

enum { FLUSH_AGAIN_MS = 1000 };

/* ---- writing to the disk ---- */

static void retry_flush(struct deadline *deadline);

int events_flush(struct server_events *events, struct fathom_fault *why)
{
	int error = spool_flush(events->spool, why);

	must(error <= 0);
	must(error || spool_pending(events->spool) == 0);
	events->server->stats.flush_failures += error != 0;
	events->server->stats.events_waiting = spool_untaken(events->spool);
	return error;
}

/* Write the events of this turn to the disk, and answer their calls. */
static void flush_events(void *ctx)
{
	struct server_events *events = ctx;
	struct fathom_fault why = { 0 };
	int error;

	must(events->is_flush_due);
	must(events->server->events == events);
	events->is_flush_due = false;
	server_job_end(events->server);
	error = events_flush(events, &why);
	if (error) {
		if (!events->is_flush_failing)
			server_log_fault(LOG_LEVEL_ERROR, "events are kept in memory, and their writing is retried", &why);
		deadline_set(&events->server->deadlines, &events->flush_again, FLUSH_AGAIN_MS * NS_PER_MS, retry_flush);
	}
	events->is_flush_failing = error != 0;
	events_answer_calls(events, error ? DER_AGAIN : 0);
	if (!error)
		events_send(events->server);
}

void events_flush_soon(struct server_events *events)
{
	if (events->is_flush_due)
		return;
	must(thread_self() == thread_control()); /* the message below runs there */
	events->is_flush_due = true;
	server_job_begin(events->server);
	thread_send_msg(thread_self(), flush_events, events);
}

/* Engines retry their events, but the server's own events are only in this spool: so retry the flush. */
static void retry_flush(struct deadline *deadline)
{
	events_flush_soon(container_of(deadline, struct server_events, flush_again));
}

/* ---- adding ---- */

static void log_event(const Shared__RASEvent *event)
{
	char line[RAS_LINE_BYTES];

	log_line(event->severity == RAS_SEVERITY_ERROR	   ? LOG_LEVEL_ERROR
		 : event->severity == RAS_SEVERITY_WARNING ? LOG_LEVEL_WARNING
							   : LOG_LEVEL_NOTICE,
		 "event %s", ras_event_line(event, line));
}

void events_count_added(struct server_events *events, const Shared__RASEvent *event, int error)
{
	struct server_stats *stats = &events->server->stats;

	stats->events_added += error == 0;
	stats->events_error += error == 0 && event->severity == RAS_SEVERITY_ERROR;
	stats->events_warning += error == 0 && event->severity == RAS_SEVERITY_WARNING;
	stats->events_notice += error == 0 && event->severity == RAS_SEVERITY_NOTICE;
	stats->events_repeated += error == -EALREADY;
	stats->events_rejected += error != 0 && error != -EALREADY && error != -ENOBUFS; /* ENOBUFS: it is added again */
}

int events_keep(struct server_events *events, struct instance *instance, const struct spool_origin *origin,
		const Shared__RASEvent *event, struct fathom_fault *why)
{
	int error;

	must(instance);
	must(origin->instance < SERVER_ENGINES_MAX);
	must(events->server->state != SERVER_CLOSED);
	error = spool_add(events->spool, origin, event, why);
	events_count_added(events, event, error);
	if (error)
		return error;
	log_event(event);
	instance_note_event(instance, event);
	return 0;
}

void server_add_event(struct server *server, uint32_t instance, const Shared__RASEvent *event)
{
	const struct spool_origin origin = { SPOOL_INSTANCES_MAX + instance, event->incarnation, 1 };
	/* the next server may raise the death event of a pid file again: the origin lets the spool recognise it */
	bool comes_again = (event->id == RAS_ENGINE_DIED || event->id == RAS_ENGINE_SELF_TERMINATED) &&
			   event->incarnation != 0;
	struct fathom_fault why = { 0 };
	int error;

	must(server->events);
	must(instance < SERVER_ENGINES_MAX);
	must(event->id != RAS_UNKNOWN);
	error = spool_add(server->events->spool, comes_again ? &origin : NULL, event, &why);
	events_count_added(server->events, event, error);
	if (error == -EALREADY)
		return;
	log_event(event);
	if (!error) {
		events_flush_soon(server->events);
		return;
	}
	if (!why.error)
		error = fault(&why, error, "%s", strerror(-error));
	maybe(error != why.error);
	server_log_fault(LOG_LEVEL_ERROR, "an event of this server is lost", &why);
}

void server_raise_operation(struct server *server, enum ras_id id, const char *operation, const char *who,
			    const char *format, ...)
{
	struct ras_event event;
	va_list args;

	va_start(args, format);
	ras_event_init_done(&event, id, operation, who, format, args);
	va_end(args);
	server_add_event(server, 0, &event.message);
}

/* ---- opening and closing ---- */

int events_open(struct server *server, struct fathom_fault *why)
{
	struct server_events *events = calloc(1, sizeof(*events));
	char path[SERVER_PATH_BYTES];
	uint64_t cut_bytes = 0;
	int error;

	must(!server->events);
	if (!events)
		return fault(why, -ENOMEM, "out of memory");
	events->server = server;
	STAILQ_INIT(&events->calls);
	snprintf(path, sizeof(path), "%s/events.spool", server->config->state_dir);
	error = spool_open(path, 0, &events->spool, &cut_bytes, why);
	if (error) {
		free(events);
		return error;
	}
	server->events = events;
	server->stats.events_waiting = spool_untaken(events->spool);
	if (cut_bytes > 0)
		log_notice("%s: cut off %llu bytes at its end, an event that a crash left incomplete; it was never "
			   "acknowledged",
			   path, (unsigned long long)cut_bytes);
	return 0;
}

void events_close(struct server *server)
{
	struct server_events *events = server->events;

	if (!events)
		return;
	must(!events->is_flush_due);
	must(STAILQ_EMPTY(&events->calls));
	must(!events->is_sending); /* the client of the management service was closed before */
	deadline_clear(&server->deadlines, &events->flush_again);
	deadline_clear(&server->deadlines, &events->send_again);
	spool_close(events->spool);
	server->events = NULL;
	free(events);
}
