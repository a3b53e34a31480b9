/* SPDX-License-Identifier: BSD-2-Clause */
/* The system's events: `fathom system events`. */
#include <inttypes.h>

#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

void show_events(const struct fathom_control_events *events, FILE *out)
{
	for (size_t i = 0; i < events->count; i++)
		fprintf(out, "%" PRIu64 " %s\n", events->events[i].number, events->events[i].line);
}

json_t *json_event(const struct fathom_control_event *from)
{
	json_t *event = json_object();

	put_number(event, "number", from->number);
	put_text(event, "id", from->name);
	put_text(event, "timestamp", from->timestamp);
	put_text(event, "type", from->type_name);
	put_text(event, "severity", from->severity_name);
	put_text(event, "hostname", from->hostname);
	put_text(event, "msg", from->message);
	put(event, "rank", from->rank == FATHOM_CONTROL_NO_RANK ? json_null() : json_integer(from->rank));
	put_number(event, "incarnation", from->incarnation);
	put_number(event, "proc_id", from->process);
	return event;
}

void json_add_events(json_t *response, const struct fathom_control_events *events)
{
	json_t *list = json_object_get(response, "events");

	for (size_t i = 0; i < events->count; i++)
		append(list, json_event(&events->events[i]));
	put_number(response, "first", events->first);
	put_number(response, "last", events->last);
}

json_t *json_events(const struct fathom_control_events *events)
{
	json_t *response = json_object();

	put(response, "events", json_array());
	json_add_events(response, events);
	return response;
}
