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

void json_add_events(json_t *response, const struct fathom_control_events *events)
{
	json_t *list = json_object_get(response, "events");

	for (size_t i = 0; i < events->count; i++)
		append(list, json_of_event(&events->events[i]));
	put_number(response, "first", events->first);
	put_number(response, "last", events->last);
}
