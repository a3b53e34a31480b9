/* SPDX-License-Identifier: BSD-2-Clause */
/* traced_calls - calls of the control socket that were received and have no reply: by their events, the oldest first. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/doctor/internal.h"
#include "inspect/trace/trace_file.h"

enum { CALLS_MAX = 64 };

struct traced_calls {
	const struct reader *reader;
	const struct reader_point *received, *replied; /* NULL: the file does not have it */
	const struct reader_arg *method;
	uint32_t count;
	struct {
		uint32_t request, method;
		uint64_t tick;
	} open[CALLS_MAX];
};

struct traced_calls *traced_calls_create(const struct reader *reader)
{
	struct traced_calls *calls = calloc(1, sizeof(*calls));

	must(calls);
	calls->reader = reader;
	calls->received = reader_point_by_name(reader, "rpc_request_received");
	calls->replied = reader_point_by_name(reader, "rpc_request_replied");
	for (uint32_t i = 0; calls->received && i < calls->received->arg_count; i++) {
		if (strcmp(calls->received->args[i].name, "method") == 0)
			calls->method = &calls->received->args[i];
	}
	return calls;
}

void traced_calls_destroy(struct traced_calls *calls)
{
	free(calls);
}

void traced_calls_event(struct traced_calls *calls, const struct reader_event *event)
{
	uint32_t i = 0;

	if (!calls->method || !event->point || (event->point != calls->received && event->point != calls->replied))
		return;
	while (i < calls->count && calls->open[i].request != event->object_id)
		i++;
	if (i < calls->count) /* it has ended: numbers are used again */
		calls->open[i] = calls->open[--calls->count];
	if (event->point == calls->replied || calls->count == CALLS_MAX)
		return;
	calls->open[calls->count].request = event->object_id;
	calls->open[calls->count].method = (uint32_t)reader_arg_value(calls->method, event->slots);
	calls->open[calls->count++].tick = event->tick;
}

json_t *traced_calls_json(const struct traced_calls *calls)
{
	uint64_t now = reader_now(calls->reader);
	json_t *list = doc_list();
	size_t bytes;

	for (uint32_t i = 0; i < calls->count; i++) {
		const char *method = reader_string(calls->reader, calls->open[i].method, &bytes);
		uint64_t ticks = now > calls->open[i].tick ? now - calls->open[i].tick : 0;
		json_t *row = doc_object();

		doc_put(row, "method", doc_text_of(method, strnlen(method, bytes)));
		doc_put(row, "ago_ms", json_integer((json_int_t)(reader_ns_from_ticks(calls->reader, ticks) / NS_PER_MS)));
		doc_add(list, row);
	}
	return list;
}
