/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * status - what the status page shows beside the metrics: what the doctor has found on this host, and on the management
 * host the members and the latest events.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json/json_memory.h"
#include "base/text.h"
#include "control/server/doctor/doctor.h"
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

static bool is_text(const json_t *row, const char *key, const char *expected)
{
	const char *value = json_string_value(json_object_get(row, key));

	return value && strcmp(value, expected) == 0;
}

/* The findings above "note", in the order of causes. */
static json_t *finding_rows(const json_t *report)
{
	json_t *rows = json_array();
	const json_t *finding;
	size_t i;

	json_array_foreach ((json_t *)json_object_get(report, "findings"), i, finding) {
		json_t *row;

		if (is_text(finding, "severity", "note"))
			continue;
		row = json_object();
		(void)json_object_set(row, "severity", json_object_get(finding, "severity"));
		(void)json_object_set(row, "name", json_object_get(finding, "name"));
		(void)json_object_set(row, "program", json_object_get(finding, "program"));
		(void)json_object_set(row, "what", json_object_get(finding, "says"));
		(void)json_object_set(row, "do", json_object_get(finding, "do"));
		(void)json_object_set(row, "next", json_array_get(json_object_get(finding, "see"), 0));
		(void)json_array_append_new(rows, row);
	}
	return rows;
}

char *server_status_text(void *ctx)
{
	struct server_frame *frame = ctx;
	struct mgmt *mgmt = frame->server.of_call.mgmt;
	const json_t *report = doctor_report_for_page(&frame->server);
	json_t *status, *members, *events;
	char *made;

	json_memory_begin();
	status = json_object();
	put(status, "system", text(frame->server.config->name));
	if (report) {
		put(status, "findings", finding_rows(report));
		(void)json_object_set(status, "findings_ns", json_object_get(report, "taken_ns"));
	}
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
