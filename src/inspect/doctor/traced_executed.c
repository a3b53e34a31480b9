/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * traced_executed - which messages each thread executes: a sample, of those records of its rare ring that were read before
 * they were overwritten. How many there were in all is in its counter of records.
 */
#include <stdlib.h>

#include "inspect/doctor/internal.h"
#include "inspect/trace/trace_file.h"

enum { KINDS_MAX = 64 };

struct message_kind {
	uint32_t thread;
	uint64_t function, count;
};

struct traced_executed {
	const struct reader_point *point; /* NULL: the file does not have it */
	const struct reader_arg *function;
	uint32_t kind_count;
	struct message_kind kinds[KINDS_MAX];
	uint64_t records[TRACE_THREADS_MAX]; /* of the rare ring, of all points */
};

struct traced_executed *traced_executed_create(const struct reader *reader)
{
	struct traced_executed *executed = calloc(1, sizeof(*executed));

	must(executed);
	executed->point = reader_point_by_name(reader, "thread_msg_executed");
	for (uint32_t i = 0; executed->point && i < executed->point->arg_count; i++) {
		if (executed->point->args[i].function)
			executed->function = &executed->point->args[i];
	}
	return executed;
}

void traced_executed_add(struct traced_executed *executed, const struct reader_event *event)
{
	uint64_t function;
	uint32_t i = 0;

	if (!executed->function || event->thread >= TRACE_THREADS_MAX || event->ring != TRACE_RING_RARE)
		return;
	executed->records[event->thread]++;
	if (event->point != executed->point)
		return;
	function = reader_arg_value(executed->function, event->slots);
	while (i < executed->kind_count &&
	       (executed->kinds[i].thread != event->thread || executed->kinds[i].function != function))
		i++;
	if (i == KINDS_MAX)
		return;
	if (i == executed->kind_count)
		executed->kinds[executed->kind_count++] = (struct message_kind){ .thread = event->thread,
										 .function = function };
	executed->kinds[i].count++;
}

/* The most frequent kind of messages of the thread; NULL: none was read. */
static const struct message_kind *most_frequent(const struct traced_executed *executed, uint32_t thread)
{
	const struct message_kind *most = NULL;

	for (uint32_t i = 0; i < executed->kind_count; i++) {
		const struct message_kind *kind = &executed->kinds[i];

		if (kind->thread == thread && (!most || kind->count > most->count))
			most = kind;
	}
	return most;
}

json_t *traced_executed_end(struct traced_executed *executed, struct reader *reader)
{
	json_t *all = doc_object();

	for (uint32_t i = 0; i < reader_info(reader)->thread_count && i < TRACE_THREADS_MAX; i++) {
		const struct message_kind *most = most_frequent(executed, i);
		struct reader_thread thread;
		const char *name;
		json_t *row;

		if (!most || !reader_thread(reader, i, &thread))
			continue;
		name = reader_function(reader, most->function);
		row = doc_object();
		doc_put(row, "records", json_integer((json_int_t)executed->records[i]));
		doc_put(row, "function", doc_text(name ? name : "a function without a name"));
		doc_put(row, "of_function", json_integer((json_int_t)most->count));
		doc_put(all, thread.name, row);
	}
	free(executed);
	return all;
}
