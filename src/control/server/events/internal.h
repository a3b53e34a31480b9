/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * events, internal.
 *
 *	events.c	the host's spool: opening, adding, writing to the disk; the server's own events
 *	engine_events.c	events that engines report over dRPC
 *	engine_spool.c	events in the spools of dead engines
 *	sending.c	to the management service
 */
#ifndef CONTROL_SERVER_EVENTS_INTERNAL_H
#define CONTROL_SERVER_EVENTS_INTERNAL_H

#include "base/list.h"
#include "control/events/spool.h"
#include "control/server/events/events.h"

static_assert((int)SERVER_ENGINES_MAX <= (int)SPOOL_INSTANCES_MAX, "the spool tells the events of all engines apart");

/* An event whose sender waits for the flush. */
struct event_call {
	STAILQ_ENTRY(event_call) link;
	struct drpc_call *call;
	uint64_t sequence;
};

struct server_events {
	struct server *server;
	struct spool *spool;
	STAILQ_HEAD(, event_call) calls; /* that are answered when their event is on disk */
	bool is_flush_due, is_flush_failing;
	struct deadline flush_again;
	bool is_sending; /* a call to the management service is under way */
	struct deadline send_again;
	uint64_t send_pause_ms; /* 0: the last call succeeded */
};

/* Add an engine's event to the spool. A new event is logged and passed to its instance. Errors: as of spool_add(). */
MUST_CHECK int events_keep(struct server_events *events, struct instance *instance, const struct spool_origin *origin,
			   const Shared__RASEvent *event, struct fathom_fault *why);
/* Count the result of spool_add(). */
void events_count_added(struct server_events *events, const Shared__RASEvent *event, int error);
/* Write and sync added events now, and count it. Errors: those of spool_flush(). */
MUST_CHECK int events_flush(struct server_events *events, struct fathom_fault *why);
/* After this turn, write added events to the disk, answer their calls, and then send them to the management service. */
void events_flush_soon(struct server_events *events);
/* Answer all waiting calls with this status. */
void events_answer_calls(struct server_events *events, int32_t status);

/* Status of a response: 0, or one of DAOS's error numbers. INVAL: permanent, the engine must not retry the event. */
enum { DER_INVAL = -1003, DER_NOSPACE = -1007, DER_AGAIN = -2035 };

#endif
