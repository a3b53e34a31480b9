/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * traced_messages - messages that a light thread has not taken: those sent, without those that it ran, as its messages run
 * in the order in which they were sent.
 *
 *     [ { "thread", "count", "oldest_ms" } ]: threads that have let a message wait for OLD_MS or more
 *
 * A run has the tick at which its reactor's turn began, and so may stand before the send of the message: it is then paired
 * with the next send. The ring of the thread that ran a message may have less of the past than the sender's, so sends
 * before the beginning of any ring that has wrapped are not counted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "inspect/doctor/internal.h"
#include "inspect/trace/trace_file.h"

enum { QUEUES_MAX = 4096, SENDS_KEPT = 32, OLD_MS = 1000, ROWS_MAX = 64, NAME_BYTES = 96 };

/* A light thread. */
struct queue {
	uint64_t sends[SENDS_KEPT]; /* ticks of the oldest that wait, a ring */
	uint32_t first, kept;	    /* in `sends` */
	uint32_t count;		    /* that wait; those beyond SENDS_KEPT have no tick */
	uint32_t early;		    /* runs whose sends come later */
	uint32_t name;		    /* a string's id; 0: not in the rings */
};

struct traced_messages {
	const struct reader *reader;
	const struct reader_point *sent, *ran, *created, *state; /* NULL: the file does not have it */
	struct queue *queues;					 /* by the number of the light thread */
	uint64_t first_ticks[READER_THREADS_MAX];		 /* of the rings; 0: no event */
};

struct traced_messages *traced_messages_create(const struct reader *reader)
{
	struct traced_messages *messages = calloc(1, sizeof(*messages));

	must(messages);
	*messages = (struct traced_messages){ .reader = reader,
					      .sent = reader_point_by_name(reader, "thread_send_msg"),
					      .ran = reader_point_by_name(reader, "thread_msg_executed"),
					      .created = reader_point_by_name(reader, "thread_created"),
					      .state = reader_point_by_name(reader, "thread_state"),
					      .queues = calloc(QUEUES_MAX, sizeof(*messages->queues)) };
	must(messages->queues);
	return messages;
}

void traced_messages_destroy(struct traced_messages *messages)
{
	if (messages)
		free(messages->queues);
	free(messages);
}

static void add_send(struct queue *queue, uint64_t tick)
{
	if (queue->early > 0) {
		queue->early--;
		return;
	}
	queue->count++;
	if (queue->kept < SENDS_KEPT)
		queue->sends[(queue->first + queue->kept++) % SENDS_KEPT] = tick;
}

static void add_run(struct queue *queue)
{
	if (queue->count == 0) {
		queue->early += queue->early < SENDS_KEPT;
		return;
	}
	queue->count--;
	if (queue->kept > 0) {
		queue->first = (queue->first + 1) % SENDS_KEPT;
		queue->kept--;
	}
}

void traced_messages_event(struct traced_messages *messages, const struct reader_event *event)
{
	struct queue *queue;

	if (event->thread < READER_THREADS_MAX && messages->first_ticks[event->thread] == 0)
		messages->first_ticks[event->thread] = event->tick;
	if (!event->point || event->object_id >= QUEUES_MAX)
		return;
	queue = &messages->queues[event->object_id];
	if (event->point == messages->sent) {
		add_send(queue, event->tick);
	} else if (event->point == messages->ran) {
		add_run(queue);
	} else if (event->point == messages->created) {
		*queue = (struct queue){ .name = (uint32_t)reader_arg_value(&event->point->args[0], event->slots) };
	} else if (event->point == messages->state &&
		   strcmp(reader_event_state(event) ? reader_event_state(event) : "", "FREE") == 0) {
		*queue = (struct queue){ .count = 0 };
	}
}

/* The tick from which on all rings are complete. */
static uint64_t whole_from(const struct traced_messages *messages)
{
	uint64_t tick = 0;

	for (uint32_t i = 0; i < READER_THREADS_MAX; i++) {
		struct reader_thread thread;

		if (messages->first_ticks[i] && reader_thread(messages->reader, i, &thread) &&
		    thread.recorded[TRACE_RING_RARE] >= thread.entry_count[TRACE_RING_RARE])
			tick = max_u64(tick, messages->first_ticks[i]);
	}
	return tick;
}

/* Forget sends before `tick`. */
static void drop_before(struct queue *queue, uint64_t tick)
{
	while (queue->kept > 0 && queue->sends[queue->first] < tick)
		add_run(queue);
}

static json_t *queue_json(const struct traced_messages *messages, uint32_t number, uint64_t oldest_ms)
{
	const struct queue *queue = &messages->queues[number];
	const struct reader_object *object = messages->sent->object;
	json_t *row = doc_object();
	char name[NAME_BYTES];
	size_t bytes;

	if (queue->name) {
		const char *text = reader_string(messages->reader, queue->name, &bytes);

		doc_put(row, "thread", doc_text_of(text, strnlen(text, bytes)));
	} else {
		snprintf(name, sizeof(name), "%s%u", object ? object->prefix : "thread ", number);
		doc_put(row, "thread", doc_text(name));
	}
	doc_put(row, "count", json_integer((json_int_t)queue->count));
	doc_put(row, "oldest_ms", json_integer((json_int_t)oldest_ms));
	return row;
}

json_t *traced_messages_json(struct traced_messages *messages)
{
	uint64_t now = reader_now(messages->reader), from = whole_from(messages);
	json_t *rows = doc_list();

	/* if one of the points is not recorded, nothing is known */
	if (!messages->sent || !messages->ran || !reader_point_enabled(messages->reader, messages->sent) ||
	    !reader_point_enabled(messages->reader, messages->ran))
		return rows;
	for (uint32_t i = 0; i < QUEUES_MAX && json_array_size(rows) < ROWS_MAX; i++) {
		struct queue *queue = &messages->queues[i];
		uint64_t oldest_ms, oldest;

		drop_before(queue, from);
		oldest = queue->kept ? queue->sends[queue->first] : now;
		oldest_ms = now > oldest ? reader_ns_from_ticks(messages->reader, now - oldest) / NS_PER_MS : 0;
		if (oldest_ms >= OLD_MS)
			doc_add(rows, queue_json(messages, i, oldest_ms));
	}
	return rows;
}
