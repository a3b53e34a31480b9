/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * traced_ended - how many I/Os each device ended in the last second, by their events. Without a control socket this tells a
 * device that hangs from one that lost an I/O. It reads all events, so only if an I/O waits.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/doctor/internal.h"
#include "inspect/trace/trace_file.h"

enum { DEVICES_MAX = 256, CHECKED_EACH = 1 << 14, MS_MAX = 2000 };

struct ended {
	const struct reader_point *point;
	const struct reader_arg *device;
	uint32_t count;
	uint32_t names[DEVICES_MAX]; /* as in the file */
	uint64_t ios[DEVICES_MAX];
};

static bool find_point(const struct reader *reader, struct ended *ended)
{
	ended->point = reader_point_by_name(reader, "bdev_io_done");
	if (!ended->point || !reader_point_enabled(reader, ended->point))
		return false;
	for (uint32_t i = 0; i < ended->point->arg_count; i++) {
		if (strcmp(ended->point->args[i].name, "device") == 0)
			ended->device = &ended->point->args[i];
	}
	return ended->device;
}

static void count_event(const struct reader *reader, struct ended *ended, const struct reader_event *event, uint64_t now)
{
	uint32_t name, i = 0;

	if (event->point != ended->point ||
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

/* Does an I/O wait at a device? */
static bool one_waits(const json_t *under_way)
{
	const json_t *group;
	size_t i;

	json_array_foreach ((json_t *)under_way, i, group) {
		if (strcmp(doc_text_at(group, "object"), "bdev_io") == 0 && doc_number(group, "hung", 0) > 0)
			return true;
	}
	return false;
}

static json_t *counts_json(const struct reader *reader, const struct ended *ended)
{
	json_t *rows = doc_object();
	size_t bytes;

	for (uint32_t i = 0; i < ended->count; i++) {
		const char *text = reader_string(reader, ended->names[i], &bytes);
		char name[READER_OWNER_TEXT_BYTES];

		snprintf(name, sizeof(name), "%.*s", (int)bytes, text);
		doc_put(rows, name, json_integer((json_int_t)ended->ios[i]));
	}
	return rows;
}

json_t *traced_ended_ios(struct doctor_out *out, struct reader *reader, const json_t *under_way)
{
	uint64_t since_ms = doctor_elapsed_ms(out), now = reader_now(reader), count = 0;
	struct ended ended = { 0 };
	struct reader_events *events;
	struct reader_event event;
	bool whole = true;

	if (!one_waits(under_way) || !find_point(reader, &ended) || reader_events(reader, &events) != 0)
		return NULL;
	while (whole && reader_event_next(events, &event)) {
		count_event(reader, &ended, &event, now);
		whole = ++count % CHECKED_EACH != 0 || doctor_elapsed_ms(out) - since_ms <= MS_MAX;
	}
	reader_events_free(events);
	/* the newest events come last: without them nothing is known */
	return whole ? counts_json(reader, &ended) : NULL;
}
