/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * condition - what this server knows of itself, of its engines and, on the management host, of the system. `fathom doctor`
 * asks for it through the dRPC socket; its rules judge it. docs/control-plane.md describes the document.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json/json_memory.h"
#include "base/text.h"
#include "control/server/database/database.h"
#include "control/server/doctor/internal.h"
#include "control/server/engines/engines.h"
#include "control/system/system.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/ras/event.h"

enum { EVENTS_MAX = 200, TEXT_BYTES = 2048, STATE_BYTES = 32 };

/* Failures are those of memory, which json_memory_end() reports. */
static void put(json_t *object, const char *key, json_t *value)
{
	(void)json_object_set_new(object, key, value);
}

/* Any bytes: what is not UTF-8 is replaced. */
static void put_text(json_t *object, const char *key, const char *from)
{
	char to[TEXT_BYTES];

	put(object, key, json_stringn(to, text_utf8_copy(to, sizeof(to), from, strlen(from))));
}

static void put_number(json_t *object, const char *key, uint64_t number)
{
	put(object, key, json_integer((json_int_t)number));
}

/* How long ago the time since 1970 was. */
static uint64_t ms_since(uint64_t ns)
{
	uint64_t now = clock_realtime_ns();

	return now > ns ? (now - ns) / NS_PER_MS : 0;
}

static void put_fault(json_t *object, const struct fathom_fault *why)
{
	put_text(object, "why", why->text);
	put_text(object, "resolution", why->resolution);
	put_number(object, "code", why->code);
}

/* ---- engines ---- */

static json_t *instance_row(const struct instance *instance)
{
	json_t *row = json_object();
	struct instance_info info;
	char state[STATE_BYTES];
	size_t i;

	instance_get_info(instance, &info);
	(void)text_copy(state, sizeof(state), instance_state_name(info.state));
	for (i = 0; state[i]; i++)
		state[i] = (char)tolower((unsigned char)state[i]);
	put_number(row, "index", info.index);
	put_text(row, "state", state);
	if (info.rank != RANK_NONE)
		put_number(row, "rank", info.rank);
	put_number(row, "pid", (uint64_t)info.pid);
	put(row, "hung", json_boolean(info.is_hung));
	put(row, "prepared", json_boolean(info.is_prepared));
	put_number(row, "starts", info.starts);
	put_number(row, "restart_in_ms", info.restart_in_ns / NS_PER_MS);
	put_text(row, "last_end", info.last_end);
	put_text(row, "storage", info.storage);
	if (info.why.error)
		put_fault(row, &info.why);
	return row;
}

static json_t *instances_of(const struct server *server)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < server->instance_count; i++)
		(void)json_array_append_new(rows, instance_row(server->instances[i]));
	return rows;
}

/* ---- the system ---- */

static json_t *management_of(const struct server *server)
{
	const struct engines_report *report = engines_report(server);
	json_t *management = json_object();

	put_text(management, "address", server->places->replica);
	put(management, "here", json_boolean(server->places->is_replica));
	if (report->failing_ns) {
		put_number(management, "failing_ms", ms_since(report->failing_ns));
		put_fault(management, &report->why);
	}
	return management;
}

static json_t *members_of(const struct mgmt *mgmt)
{
	const struct system *system = mgmt_system(mgmt);
	json_t *rows = json_array();

	for (size_t i = 0; i < system_member_count(system); i++) {
		const struct member *member = system_member_at(system, i);
		json_t *row = json_object();

		put_number(row, "rank", member->rank);
		put_text(row, "state", member_state_wire(member->state));
		put_text(row, "address", member->address);
		put_text(row, "why", member->info);
		put_number(row, "since_ms", ms_since(member->updated_ns));
		(void)json_array_append_new(rows, row);
	}
	return rows;
}

static void add_event(void *ctx, const Shared__RASEvent *event)
{
	json_t *row = json_object();

	put_text(row, "time", event->timestamp);
	put_text(row, "severity", ras_severity_name(event->severity));
	put_text(row, "id", ras_id_name(event->id));
	put_text(row, "text", event->msg);
	(void)json_array_append_new(ctx, row);
}

static json_t *database_of(const struct server *server)
{
	struct database_info info;
	json_t *database;

	if (!database_get_info(server, &info))
		return NULL;
	database = json_object();
	put_text(database, "path", info.path);
	put_number(database, "revision", info.revision);
	put_number(database, "copied_revision", info.copied_revision);
	if (info.health.failing_ns) {
		put_number(database, "failing_ms", ms_since(info.health.failing_ns));
		put_number(database, "failed_ms", ms_since(info.health.failed_ns));
		put_number(database, "failures", info.health.failures);
		put_fault(database, &info.health.why);
	}
	return database;
}

static json_t *counters_of(const struct server *server)
{
	struct server_counter counters[SERVER_COUNTERS_MAX];
	size_t count = server_counters(server, counters);
	json_t *groups = json_object();

	for (size_t i = 0; i < count; i++) {
		if (!json_object_get(groups, counters[i].group))
			put(groups, counters[i].group, json_object());
		put_number(json_object_get(groups, counters[i].group), counters[i].name, counters[i].value);
	}
	return groups;
}

/* ---- the call ---- */

static json_t *condition_of(const struct server *server)
{
	struct mgmt *mgmt = server->of_call.mgmt;
	json_t *condition = json_object(), *database = database_of(server), *events;

	put_text(condition, "system", server->config->name);
	put_text(condition, "version", server->options->version);
	put_text(condition, "address", server->places->control);
	put_text(condition, "configuration", server->options->config_path);
	put(condition, "instances", instances_of(server));
	put(condition, "management", management_of(server));
	put(condition, "devices", doctor_devices(server));
	put(condition, "counters", counters_of(server));
	if (database)
		put(condition, "database", database);
	if (mgmt) {
		put(condition, "members", members_of(mgmt));
		events = json_array();
		mgmt_events_last(mgmt, EVENTS_MAX, add_event, events);
		put(condition, "events", events);
	}
	return condition;
}

void call_condition(struct drpc_call *call, const ProtobufCMessage *request)
{
	Fathom__ConditionResp answer = FATHOM__CONDITION_RESP__INIT;
	json_t *condition;
	char *text;

	(void)request;
	json_memory_begin();
	condition = condition_of(drpc_call_ctx(call));
	text = json_dumps(condition, JSON_COMPACT);
	json_decref(condition);
	if (json_memory_end(text != NULL) == 0) {
		answer.json.data = (uint8_t *)text;
		answer.json.len = strlen(text);
	}
	drpc_reply(call, &answer.base);
	free(text);
}
