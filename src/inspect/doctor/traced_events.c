/* SPDX-License-Identifier: BSD-2-Clause */
/* traced_events - the latest events of those points that rules read, with their arguments. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "inspect/doctor/internal.h"
#include "inspect/trace/trace_file.h"

enum {
	LAST_MAX = 128, /* events of one point */
	DEVICES_MAX = 256,
	CHECKED_EACH = 1 << 14, /* events between two looks at the time */
	EVENTS_MS_MAX = 4000,
};

static const char *const wanted[] = {
	"bdev_condition",
	"bdev_io_error",
	"engine_event_lost",
	"nvmf_command_failed",
	"nvmf_command_given_up",
	"nvmf_connect_refused",
	"nvmf_ctrlr_keep_alive_expired",
	"nvmf_ctrlr_never_enabled",
	"nvmf_qpair_disconnect",
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

/* How many I/Os each device ended in the last second. */
struct ended {
	const struct reader_point *point; /* NULL: the file does not have it */
	const struct reader_arg *device;
	uint32_t count;
	uint32_t names[DEVICES_MAX]; /* as in the file */
	uint64_t ios[DEVICES_MAX];
};

static void find_ended(const struct reader *reader, struct ended *ended)
{
	ended->point = reader_point_by_name(reader, "bdev_io_done");
	if (ended->point && !reader_point_enabled(reader, ended->point))
		ended->point = NULL; /* no records, whatever ends */
	for (uint32_t i = 0; ended->point && i < ended->point->arg_count; i++) {
		if (strcmp(ended->point->args[i].name, "device") == 0)
			ended->device = &ended->point->args[i];
	}
}

static void count_ended(const struct reader *reader, struct ended *ended, const struct reader_event *event, uint64_t now)
{
	uint32_t name, i = 0;

	if (!ended->device || event->point != ended->point ||
	    (now > event->tick && reader_ns_from_ticks(reader, now - event->tick) > DOCTOR_LOOK_MS * NS_PER_MS))
		return;
	name = (uint32_t)reader_arg_value(ended->device, event->slots);
	while (i < ended->count && ended->names[i] != name)
		i++;
	if (i == DEVICES_MAX)
		return;
	if (i == ended->count)
		ended->names[ended->count++] = name;
	ended->ios[i]++;
}

/* { DEVICE: count }; NULL: not known. */
static json_t *ended_json(const struct reader *reader, const struct ended *ended)
{
	json_t *rows;
	size_t bytes;

	if (!ended->device)
		return NULL;
	rows = doc_object();
	for (uint32_t i = 0; i < ended->count; i++) {
		const char *text = reader_string(reader, ended->names[i], &bytes);
		char name[READER_OWNER_TEXT_BYTES];

		snprintf(name, sizeof(name), "%.*s", (int)bytes, text);
		doc_put(rows, name, json_integer((json_int_t)ended->ios[i]));
	}
	return rows;
}

/* All events, the oldest first. False: they are too many, so that the newest were not seen. */
static bool walk_events(struct doctor_out *out, struct reader *reader, struct latest *latest,
			const int16_t place[TRACE_POINTS_MAX], struct ended *ended)
{
	uint64_t since_ms = doctor_elapsed_ms(out), count = 0, now = reader_now(reader);
	struct reader_events *events;
	struct reader_event event;
	bool whole = true;

	if (reader_events(reader, &events) != 0)
		return false;
	while (whole && reader_event_next(events, &event)) {
		if (event.point && event.point_id < TRACE_POINTS_MAX && place[event.point_id] >= 0) {
			struct latest *of = &latest[place[event.point_id]];

			of->events[of->count++ % LAST_MAX] = event;
		}
		count_ended(reader, ended, &event, now);
		whole = ++count % CHECKED_EACH != 0 || doctor_elapsed_ms(out) - since_ms <= EVENTS_MS_MAX;
	}
	reader_events_free(events);
	return whole;
}

json_t *traced_events(struct doctor_out *out, struct reader *reader)
{
	struct latest *latest = calloc(ARRAY_COUNT(wanted), sizeof(*latest));
	int16_t place[TRACE_POINTS_MAX];
	struct ended ended = { 0 };
	json_t *result = doc_object();

	must(latest);
	memset(place, -1, sizeof(place));
	for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
		latest[i].point = reader_point_by_name(reader, wanted[i]);
		if (latest[i].point && latest[i].point->id < TRACE_POINTS_MAX)
			place[latest[i].point->id] = (int16_t)i;
	}
	find_ended(reader, &ended);
	if (walk_events(out, reader, latest, place, &ended))
		doc_put(result, "ended_ios", ended_json(reader, &ended));
	for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
		if (latest[i].count)
			doc_put(result, wanted[i], latest_json(reader, &latest[i]));
	}
	free(latest);
	return result;
}
