/* SPDX-License-Identifier: BSD-2-Clause */
/* The system's events: names of ids, types and severities, and lines of a log. */
#include "control/client/internal.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/ras/event.h"

static void take_event(struct arena *arena, const Fathom__NumberedEvent *from, struct fathom_control_event *event)
{
	const Shared__RASEvent *said = from->event;
	char line[RAS_LINE_BYTES];

	*event = (struct fathom_control_event){
		.number = from->number,
		.id = said->id,
		.type = said->type,
		.severity = said->severity,
		.name = ras_id_name(said->id),
		.type_name = ras_type_name(said->type),
		.severity_name = ras_severity_name(said->severity),
		.message = arena_text(arena, said->msg),
		.timestamp = arena_text(arena, said->timestamp),
		.hostname = arena_text(arena, said->hostname),
		.rank = said->rank,
		.incarnation = said->incarnation,
		.process = said->proc_id,
		.line = arena_text(arena, ras_event_line(said, line)),
	};
}

void take_events(void *ctx, const ProtobufCMessage *message)
{
	const Fathom__SystemEventsResp *response = (const Fathom__SystemEventsResp *)message;
	struct fathom_control_events *result = ctx;
	struct arena *arena = result_arena(result);
	struct fathom_control_event *events = arena_array(arena, struct fathom_control_event, response->n_events);

	for (size_t i = 0; i < response->n_events; i++) {
		if (response->events[i]->event)
			take_event(arena, response->events[i], &events[result->count++]);
	}
	result->events = events;
	result->first = response->first;
	result->last = response->last;
}
