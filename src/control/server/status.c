/* SPDX-License-Identifier: BSD-2-Clause */
/* status - what the status page shows beside the metrics: on the management host the members and the latest events. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json/json_memory.h"
#include "base/text.h"
#include "control/server/internal.h"
#include "control/system/system.h"
#include "rpc/ras/event.h"

enum { EVENTS_MAX = 30, TEXT_BYTES = 1024 };

/* Any bytes: what is not UTF-8 is replaced. Failures are those of memory, which json_memory_end() reports. */
static json_t *text(const char *from)
{
	char to[TEXT_BYTES];

	return json_stringn(to, text_utf8_copy(to, sizeof(to), from, strlen(from)));
}

static void put(json_t *object, const char *key, json_t *value)
{
	(void)json_object_set_new(object, key, value);
}

static json_t *member_row(const struct member *member)
{
	json_t *row = json_object();

	put(row, "rank", json_integer(member->rank));
	put(row, "state", text(member_state_title(member->state)));
	put(row, "address", text(member->address));
	put(row, "domain", text(member->domain));
	put(row, "since_ns", json_integer((json_int_t)member->updated_ns));
	put(row, "reason", text(member->info));
	return row;
}

static void add_event(void *ctx, const Shared__RASEvent *event)
{
	json_t *row = json_object();

	put(row, "time", text(event->timestamp));
	put(row, "severity", text(ras_severity_name(event->severity)));
	put(row, "id", text(ras_id_name(event->id)));
	put(row, "message", text(event->msg));
	(void)json_array_append_new(ctx, row);
}

char *server_status_text(void *ctx)
{
	const struct server_frame *frame = ctx;
	struct mgmt *mgmt = frame->server.of_call.mgmt;
	json_t *status, *members, *events;
	char *made;

	json_memory_begin();
	status = json_object();
	put(status, "system", text(frame->server.config->name));
	if (mgmt) {
		members = json_array();
		events = json_array();
		for (size_t i = 0; i < system_member_count(mgmt_system(mgmt)); i++)
			(void)json_array_append_new(members, member_row(system_member_at(mgmt_system(mgmt), i)));
		mgmt_events_last(mgmt, EVENTS_MAX, add_event, events);
		put(status, "members", members);
		put(status, "events", events);
	}
	made = json_dumps(status, JSON_COMPACT);
	json_decref(status);
	if (json_memory_end(made != NULL) == 0)
		return made;
	free(made);
	return NULL;
}
