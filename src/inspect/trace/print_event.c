/* SPDX-License-Identifier: BSD-2-Clause */
/* print_event - one event as a line of JSON; print_line.c has the text. */
#include <inttypes.h>
#include <stdlib.h>

#include "inspect/trace/print.h"

static void add_life_json(struct reader_printer *printer, const struct reader_event *event)
{
	add_object_json(printer, event->point->object, event->object_id, "object");
	if (event->related)
		add_object_json(printer, event->related, event->related_id, "related");
	ADD_LITERAL(printer, ",\"dwell_us\":");
	add_us(printer, tick_scale_ns(&printer->reader->scale, event->dwell_ticks), false, 0, false);
	ADD_LITERAL(printer, ",\"total_us\":");
	add_us(printer, tick_scale_ns(&printer->reader->scale, event->total_ticks), false, 0, false);
	if (event->total_partial)
		ADD_LITERAL(printer, ",\"total_partial\":true");
}

static void print_event_json(struct reader_printer *printer, const struct reader_event *event)
{
	const struct reader_point *point = event->point;
	const char *state = reader_event_state(event);

	begin_line(printer);
	ADD_LITERAL(printer, "\"core\":");
	if (event->cpu < 0)
		ADD_LITERAL(printer, "null");
	else
		add_decimal(printer, (uint64_t)event->cpu);
	ADD_LITERAL(printer, ",\"thread\":\"");
	add_thread_name(printer, event->thread);
	ADD_LITERAL(printer, "\",\"time_us\":");
	add_time(printer, event->tick, 0);
	if (printer->wall) {
		ADD_LITERAL(printer, ",\"time\":\"");
		add_wall_of_tick(printer, event->tick);
		add_char(printer, '"');
	}
	ADD_LITERAL(printer, ",\"tick\":");
	add_decimal(printer, event->tick);
	if (event->shared)
		ADD_LITERAL(printer, ",\"shared\":true");
	ADD_LITERAL(printer, ",\"seq\":");
	add_decimal(printer, event->seq);
	add_char(printer, ',');
	if (point) {
		const struct piece *name = &printer->points[point - printer->reader->schema.points].name;

		add(printer, name->text, name->bytes);
	} else {
		add_format(printer, "\"name\":\"point_%u\"", event->point_id);
	}
	add_owner(printer, event->owner, event->tick);
	if (event->has_life)
		add_life_json(printer, event);
	if (state) {
		ADD_LITERAL(printer, ",\"state\":\"");
		add_text(printer, state);
		add_char(printer, '"');
	}
	ADD_LITERAL(printer, ",\"args\":{");
	for (uint32_t i = 0; point && i < point->arg_count; i++) {
		const struct piece *piece = &printer->points[point - printer->reader->schema.points].args[i];

		add(printer, piece->text, piece->bytes);
		add_value(printer, &point->args[i], event->slots);
	}
	if (!point)
		add_format(printer, "\"object\":%u,\"slots\":[%u,%u,%u]", event->object_id, event->slots[0],
			   event->slots[1], event->slots[2]);
	ADD_LITERAL(printer, "}}");
	end_line(printer);
}

void reader_print_event(struct reader_printer *printer, const struct reader_event *event)
{
	if (printer->json)
		print_event_json(printer, event);
	else
		print_event_text(printer, event);
}
