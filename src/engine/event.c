/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that wait for the server, in order. Each has the next number of this incarnation, from 1 on, so that the server
 * knows one that it has taken already. Where there is no room for one it has no number either: how many were lost is said
 * in the next that is kept.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/control.h"
#include "engine/probes.gen.h"

static struct {
	STAILQ_HEAD(, engine_event) waiting;
	uint32_t waiting_count;
	uint64_t sequence_last, taken, refused, lost, lost_untold;
} events = { .waiting = STAILQ_HEAD_INITIALIZER(events.waiting) };

struct engine_event *event_first(void)
{
	return STAILQ_FIRST(&events.waiting);
}

static void event_free(struct engine_event *event)
{
	shared__cluster_event_req__free_unpacked(event->message, NULL);
	free(event);
}

/* A copy in memory of its own, or NULL. */
static Shared__ClusterEventReq *copy(const Shared__ClusterEventReq *message)
{
	size_t bytes = shared__cluster_event_req__get_packed_size(message);
	uint8_t *packed = malloc(bytes);
	Shared__ClusterEventReq *unpacked;

	if (!packed)
		return NULL;
	must(shared__cluster_event_req__pack(message, packed) == bytes);
	unpacked = shared__cluster_event_req__unpack(NULL, bytes, packed);
	free(packed);
	return unpacked;
}

static void lose(const Shared__RASEvent *message)
{
	events.lost++;
	events.lost_untold++;
	probe_engine_event_lost(clock_ticks(), &engine_control, message->id, events.lost);
	log_error("no room for an event: \"%s\" is lost; %u wait for the server", message->msg, events.waiting_count);
}

static void queue(Shared__RASEvent *message)
{
	Shared__ClusterEventReq request = SHARED__CLUSTER_EVENT_REQ__INIT;
	struct engine_event *event;

	if (events.waiting_count == ENGINE_EVENTS_MAX) {
		lose(message);
		return;
	}
	event = calloc(1, sizeof(*event));
	request.sequence = events.sequence_last + 1;
	request.event = message;
	if (event)
		event->message = copy(&request);
	if (!event || !event->message) {
		free(event);
		lose(message);
		return;
	}
	events.sequence_last++;
	events.lost_untold = 0;
	STAILQ_INSERT_TAIL(&events.waiting, event, link);
	events.waiting_count++;
	probe_engine_event_queued(clock_ticks(), &engine_control, request.sequence, message->id, events.waiting_count);
	uplink_kick();
}

void engine_raise_event(enum ras_id id, const char *hw_id, const char *format, ...)
{
	char text[RAS_MESSAGE_BYTES], lost[RAS_TEXT_BYTES] = "";
	struct ras_event event;
	va_list args;

	if (!engine_control_is_on())
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (events.lost_untold)
		snprintf(lost, sizeof(lost), " (%llu before were lost)", (unsigned long long)events.lost_untold);
	ras_event_init(&event, id, "%.*s%s", (int)(RAS_MESSAGE_BYTES - 1 - strlen(lost)), text, lost);
	ras_event_set_engine(&event, engine_control.rank, engine_control.incarnation,
			     engine_control.options->server.instance, (uint64_t)getpid(), NULL);
	if (hw_id)
		event.message.hw_id = (char *)hw_id;
	log_notice("event %s: %s", ras_id_name(id), event.message.msg);
	queue(&event.message);
}

void event_remove_first(bool taken)
{
	struct engine_event *event = event_first();

	must(event);
	must(events.waiting_count > 0);
	STAILQ_REMOVE_HEAD(&events.waiting, link);
	events.waiting_count--;
	if (taken)
		events.taken++;
	else
		events.refused++;
	event_free(event);
}

void events_free(void)
{
	struct engine_event *event;

	while ((event = event_first())) {
		STAILQ_REMOVE_HEAD(&events.waiting, link);
		event_free(event);
	}
	/* the next incarnation, if there is one in this process, begins at 1 */
	events.waiting_count = 0;
	events.sequence_last = events.taken = events.refused = events.lost = events.lost_untold = 0;
}

void events_stats(json_t *object)
{
	json_put(object, "waiting", json_integer(events.waiting_count));
	json_put(object, "taken", json_integer((json_int_t)events.taken));
	json_put(object, "refused", json_integer((json_int_t)events.refused));
	json_put(object, "lost", json_integer((json_int_t)events.lost));
	json_put(object, "last", json_integer((json_int_t)events.sequence_last));
}
