/* SPDX-License-Identifier: BSD-2-Clause */
/* traced_events - the latest events of those points that rules read, with their arguments. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "inspect/doctor/internal.h"
#include "inspect/trace/trace_file.h"

enum {
	LAST_MAX = 128,		/* events of one point */
	CHECKED_EACH = 1 << 14, /* events between two looks at the time */
	EVENTS_MS_MAX = 4000,
};

static const char *const wanted[] = {
	"bdev_condition",
	"bdev_io_error",
	"bdev_unregister",
	"engine_event_lost",
	"nvmf_command_failed",
	"nvmf_command_given_up",
	"nvmf_connect_refused",
	"nvmf_ctrlr_keep_alive_expired",
	"nvmf_ctrlr_never_enabled",
	"nvmf_qpair_disconnect",
	"nvmf_subsystem_add_ctrlr",
	"poller_slow",
	"process_end",
	"state_file_written",
	"storage_state",
	"tcp_close",
	"tcp_data_digest_error",
	"tcp_host_term_req",
	"tcp_protocol_error",
	"tcp_refuse",
	"tcp_send_blocked",
	"tcp_share_waits",
	"volume_change_end",
	"volume_state",
};

/* The latest events of one point, in a ring. */
struct latest {
	const struct reader_point *point; /* NULL: the file does not have it */
	uint64_t count;
	struct reader_event events[LAST_MAX];
};

static json_t *value_of(const struct reader *reader, const struct reader_arg *arg, const uint32_t *slots)
{
	uint64_t value = reader_arg_value(arg, slots);
	const char *text;
	size_t bytes;

	if (arg->type == READER_STR) {
		text = reader_string(reader, (uint32_t)value, &bytes);
		return doc_text_of(text, strnlen(text, bytes));
	}
	if (arg->labels && (text = reader_label(arg->labels, (int64_t)value)))
		return doc_text(text);
	if (arg->unit_kind == READER_UNIT_TICKS)
		return json_real((double)reader_ns_from_ticks(reader, value) / 1e3);
	return arg->type == READER_BOOL ? json_boolean(value != 0) : json_integer((json_int_t)value);
}

static json_t *event_json(const struct reader *reader, const struct reader_event *event, uint64_t now)
{
	json_t *row = doc_object(), *args = doc_object();
	struct reader_owner owner;

	doc_put(row, "ago_ms",
		json_integer(
			(json_int_t)(now > event->tick ? reader_ns_from_ticks(reader, now - event->tick) / NS_PER_MS : 0)));
	if (reader_owner(reader, event->owner, event->tick, &owner))
		doc_put(row, "owner", doc_text(owner.text));
	for (uint32_t i = 0; i < event->point->arg_count; i++)
		doc_put(args, event->point->args[i].name, value_of(reader, &event->point->args[i], event->slots));
	doc_put(row, "args", args);
	return row;
}

static json_t *latest_json(const struct reader *reader, const struct latest *latest)
{
	uint64_t first = latest->count > LAST_MAX ? latest->count - LAST_MAX : 0, now = reader_now(reader);
	json_t *row = doc_object(), *last = doc_list();

	doc_put(row, "count", json_integer((json_int_t)latest->count));
	for (uint64_t i = latest->count; i > first; i--)
		doc_add(last, event_json(reader, &latest->events[(i - 1) % LAST_MAX], now));
	doc_put(row, "last", last);
	return row;
}

/* Read all events, at most for EVENTS_MS_MAX. */
static void read_events(struct doctor_out *out, struct reader *reader, struct latest *latest, struct traced_past *past,
			struct traced_messages *messages, struct traced_executed *executed)
{
	uint64_t since_ms = doctor_elapsed_ms(out), count = 0;
	int16_t place[TRACE_POINTS_MAX];
	struct traced_calls *calls = traced_calls_create(reader);
	struct reader_events *events;
	struct reader_event event;

	memset(place, -1, sizeof(place));
	for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
		latest[i].point = reader_point_by_name(reader, wanted[i]);
		if (latest[i].point && latest[i].point->id < TRACE_POINTS_MAX)
			place[latest[i].point->id] = (int16_t)i;
	}
	if (reader_events_rare(reader, &events) != 0) {
		traced_calls_destroy(calls);
		return;
	}
	while (reader_event_next(events, &event)) {
		if (event.point && event.point_id < TRACE_POINTS_MAX && place[event.point_id] >= 0) {
			struct latest *of = &latest[place[event.point_id]];

			of->events[of->count++ % LAST_MAX] = event;
		}
		traced_calls_event(calls, &event);
		traced_past_event(past, &event);
		traced_messages_event(messages, &event);
		traced_executed_add(executed, &event);
		if (++count % CHECKED_EACH == 0 && doctor_elapsed_ms(out) - since_ms > EVENTS_MS_MAX) {
			doctor_put(out, "events_cut", json_true());
			break;
		}
	}
	doctor_put(out, "calls", traced_calls_json(calls));
	traced_calls_destroy(calls);
	reader_events_free(events);
}

json_t *traced_events(struct doctor_out *out, struct reader *reader)
{
	struct latest *latest = calloc(ARRAY_COUNT(wanted), sizeof(*latest));
	json_t *result = doc_object();
	struct traced_executed *executed;
	struct traced_messages *messages;
	struct traced_past *past;
	uint64_t now_ns;

	must(latest);
	if (reader_wall_ns(reader, reader_now(reader), &now_ns) != 0)
		now_ns = 0;
	past = traced_past_create(reader, now_ns);
	messages = traced_messages_create(reader);
	executed = traced_executed_create(reader);
	read_events(out, reader, latest, past, messages, executed);
	for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
		if (latest[i].count)
			doc_put(result, wanted[i], latest_json(reader, &latest[i]));
	}
	doctor_put(out, "past", traced_past_json(past));
	doctor_put(out, "messages", traced_messages_json(messages));
	doctor_put(out, "executed", traced_executed_end(executed, reader));
	traced_messages_destroy(messages);
	traced_past_destroy(past);
	free(latest);
	return result;
}

json_t *traced_past_of(const char *path, uint64_t now_ns, struct fathom_fault *why)
{
	struct traced_past *past;
	struct reader_events *events;
	struct reader_event event;
	struct reader *reader;
	json_t *result = NULL;

	if (reader_open(path, &reader, why) != 0)
		return NULL;
	past = traced_past_create(reader, now_ns);
	if (reader_events_rare(reader, &events) == 0) {
		while (reader_event_next(events, &event))
			traced_past_event(past, &event);
		reader_events_free(events);
		result = traced_past_json(past);
	}
	traced_past_destroy(past);
	reader_close(reader);
	return result;
}
