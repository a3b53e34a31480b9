/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events queued for the server, in order. Each has the next sequence number of this incarnation, from 1 on, so the server
 * recognizes duplicates. An event that does not fit is lost and gets no number; the next queued event reports how many were
 * lost.
 *
 * Events are in memory, and in a spool beside the engine's socket, so they survive kill -9 of the engine while no server
 * runs. The first event creates the spool. The control thread writes and syncs it for each event: a slow disk under that
 * folder delays answers to the server, never I/O, and events are rare. If the folder is full, read-only or missing, the
 * engine logs that once, keeps events in memory only, and retries with each event queued or accepted.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/events/spool.h"
#include "data/engine/control.h"
#include "data/engine/probes.gen.h"

static struct {
	STAILQ_HEAD(, engine_event) waiting;
	uint32_t waiting_count;
	uint64_t sequence_last, taken, refused, lost, lost_untold;
	struct spool *spool; /* NULL: not open */
	char path[ENGINE_PATH_BYTES_MAX + 64];
	bool is_spool_failing;
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

/* A deep copy on the heap; NULL: out of memory. */
static Shared__ClusterEventReq *copy_message(const Shared__ClusterEventReq *message)
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

static void count_lost(const Shared__RASEvent *message)
{
	events.lost++;
	events.lost_untold++;
	probe_engine_event_lost(clock_ticks(), &engine_control, message->id, events.lost);
	log_error("cannot queue an event: \"%s\" is lost; %u events wait for the server", message->msg,
		  events.waiting_count);
}

/* ---- on disk ---- */

enum { SPOOL_ROOM = 4 << 20 }; /* bytes; far more than ENGINE_EVENTS_MAX need */

/* Open the spool; create it again if its file was removed, for example with the folder. */
static int open_spool(struct fathom_fault *why)
{
	struct engine_event *event;

	if (events.spool && access(events.path, F_OK) == 0)
		return 0;
	spool_close(events.spool);
	events.spool = NULL;
	STAILQ_FOREACH (event, &events.waiting, link)
		event->spool_number = 0;
	snprintf(events.path, sizeof(events.path), "%s/" SPOOL_OF_ENGINE, engine_control.options->server.socket_dir,
		 engine_control.options->server.instance, engine_control.incarnation);
	return spool_open(events.path, SPOOL_ROOM, &events.spool, NULL, why);
}

/* Add queued events that are not in the spool. Skip one that is invalid for it: the server will reject that one too. */
static int add_to_spool(struct fathom_fault *why)
{
	struct spool_origin origin = { engine_control.options->server.instance, engine_control.incarnation, 0 };
	uint64_t number = spool_last(events.spool) + spool_pending(events.spool);
	struct engine_event *event;
	int error = 0;

	STAILQ_FOREACH (event, &events.waiting, link) {
		if (event->spool_number)
			continue;
		origin.sequence = event->message->sequence;
		error = spool_add(events.spool, &origin, event->message->event, why);
		if (error && error != -EINVAL)
			break;
		if (!error)
			event->spool_number = ++number;
	}
	return error == -EINVAL ? 0 : error;
}

/* Write the queue to the spool; on failure events stay in memory only. */
static void save_to_spool(void)
{
	struct fathom_fault why = { 0 };
	int error = open_spool(&why), flush_error;

	if (!error) {
		error = add_to_spool(&why);
		flush_error = spool_flush(events.spool, error ? NULL : &why);
		error = error ? error : flush_error;
	}
	if (error && !events.is_spool_failing)
		log_error("cannot store events on disk; those that the server has not accepted are lost with this process: "
			  "%s",
			  why.text[0] ? why.text : strerror(-error));
	if (!error && events.is_spool_failing)
		log_notice("events that the server has not accepted are stored in %s again", events.path);
	events.is_spool_failing = error != 0;
}

/* Mark the event as taken in the spool. If a crash undoes this, the server drops the duplicate by its number. */
static void mark_taken_in_spool(const struct engine_event *event)
{
	struct fathom_fault why = { 0 };

	if (!events.spool || event->spool_number == 0)
		return;
	/* not flushed yet: the next flush writes it, and marking a later event marks this one too */
	if (event->spool_number > spool_last(events.spool))
		return;
	if (spool_taken(events.spool, event->spool_number, &why) != 0)
		log_debug("%s: %s", events.path, why.text);
}

/* ---- queueing and dequeueing ---- */

static void queue_event(Shared__RASEvent *message)
{
	Shared__ClusterEventReq request = SHARED__CLUSTER_EVENT_REQ__INIT;
	struct engine_event *event;

	if (events.waiting_count == ENGINE_EVENTS_MAX) {
		count_lost(message);
		return;
	}
	event = calloc(1, sizeof(*event));
	request.sequence = events.sequence_last + 1;
	request.event = message;
	if (event)
		event->message = copy_message(&request);
	if (!event || !event->message) {
		free(event);
		count_lost(message);
		return;
	}
	events.sequence_last++;
	events.lost_untold = 0;
	STAILQ_INSERT_TAIL(&events.waiting, event, link);
	events.waiting_count++;
	probe_engine_event_queued(clock_ticks(), &engine_control, request.sequence, message->id, events.waiting_count);
	save_to_spool();
	uplink_kick();
}

/* `hw_id`, `pool_uuid`: NULL: none. */
static void raise_event(enum ras_id id, const char *hw_id, const char *pool_uuid, const char *text)
{
	char lost[RAS_TEXT_BYTES] = "";
	struct ras_event event;

	if (events.lost_untold)
		snprintf(lost, sizeof(lost), " (%llu before were lost)", (unsigned long long)events.lost_untold);
	ras_event_init(&event, id, "%.*s%s", (int)(RAS_MESSAGE_BYTES - 1 - strlen(lost)), text, lost);
	ras_event_set_engine(&event, engine_control.rank, engine_control.incarnation,
			     engine_control.options->server.instance, (uint64_t)getpid(), NULL);
	if (hw_id)
		event.message.hw_id = (char *)hw_id;
	if (pool_uuid)
		event.message.pool_uuid = (char *)pool_uuid;
	log_notice("event %s: %s", ras_id_name(id), event.message.msg);
	queue_event(&event.message);
}

void engine_raise_event(enum ras_id id, const char *hw_id, const char *format, ...)
{
	char text[RAS_MESSAGE_BYTES];
	va_list args;

	if (!engine_control_is_on())
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	raise_event(id, hw_id, NULL, text);
}

void engine_raise_pool_event(enum ras_id id, const char *pool_uuid, const char *format, ...)
{
	char text[RAS_MESSAGE_BYTES];
	va_list args;

	if (!engine_control_is_on())
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	raise_event(id, NULL, pool_uuid, text);
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
	mark_taken_in_spool(event);
	event_free(event);
	if (events.is_spool_failing && events.waiting_count > 0)
		save_to_spool();
}

void events_free(void)
{
	bool all_taken = events.waiting_count == 0;
	struct engine_event *event;

	if (!all_taken && events.is_spool_failing)
		log_warning("events that the server has not accepted are lost");
	else if (!all_taken)
		log_warning("events that the server has not accepted remain in %s", events.path);
	while ((event = event_first())) {
		STAILQ_REMOVE_HEAD(&events.waiting, link);
		event_free(event);
	}
	if (events.spool && all_taken)
		(void)unlink(events.path); /* failure leaves an empty spool */
	spool_close(events.spool);
	events.spool = NULL;
	events.is_spool_failing = false;
	/* the next incarnation in this process, if any, starts at 1 */
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
