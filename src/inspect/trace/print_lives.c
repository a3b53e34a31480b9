/* SPDX-License-Identifier: BSD-2-Clause */
/* print_lives - prints the life of one request: what it was, and its time in each stage. */
#include <inttypes.h>

#include "inspect/trace/print.h"
#include "inspect/trace/slowest.h"
#include "inspect/trace/stall.h"

enum { BAR_WIDTH = 25, STAGE_WIDTH = 28 };

void reader_printer_set_words(struct reader_printer *printer, reader_word_fn word)
{
	printer->word = word;
}

static const char *life_state_name(const struct reader_object *object, uint32_t state)
{
	return state < object->machine->state_count ? object->machine->states[state].name : "?";
}

static bool is_resting(const struct reader_object *object, uint32_t state)
{
	return state < object->machine->state_count && object->machine->states[state].resting;
}

/* ---- text ---- */

struct stage_line {
	int indent;
	const char *object, *stage; /* object "": the request's own stage */
	uint64_t ns, whole_ns;	    /* in the stage; of the whole life */
	bool resting;
};

static void add_stage_line(struct reader_printer *printer, const struct stage_line *line)
{
	double share = line->whole_ns ? (double)line->ns / (double)line->whole_ns : 0;
	size_t from = printer->used;

	add_spaces(printer, line->indent);
	add_format(printer, "%s%s%s", line->object, line->object[0] ? " " : "", line->stage);
	add_spaces(printer, (int)(STAGE_WIDTH + from) - (int)printer->used);
	add_us(printer, line->ns, false, 14, false);
	if (line->resting) {
		ADD_LITERAL(printer, " us        -  resting: a long wait is normal");
	} else {
		int bar = (int)(share * BAR_WIDTH + 0.5);

		add_format(printer, " us  %5.1f %%", 100 * share);
		if (bar > 0)
			ADD_LITERAL(printer, "  ");
		for (int i = 0; i < bar && i < BAR_WIDTH; i++)
			add_char(printer, '#');
	}
	end_line(printer);
}

/* The stages of the I/O, below the request's stage in which it began, and the rest of that stage. */
static void add_io_stages(struct reader_printer *printer, const struct reader_exemplar *exemplar, uint32_t stay,
			  uint64_t whole_ns)
{
	const struct reader_stays *own = &exemplar->stays[0], *io = &exemplar->stays[1];
	const struct reader_object *object = exemplar->stories[1].object;
	uint64_t begin = exemplar->stories[1].begin_tick, io_ticks = 0;
	bool is_last = stay + 1 == own->count;

	if (exemplar->story_count < 2 || begin < own->begins[stay] || (!is_last && begin >= own->begins[stay + 1]))
		return;
	for (uint32_t i = 0; i < io->count; i++) {
		add_stage_line(printer, &(struct stage_line){ .indent = 8,
							      .object = object->name,
							      .stage = life_state_name(object, io->states[i]),
							      .ns = tick_scale_ns(&printer->reader->scale, io->ticks[i]),
							      .whole_ns = whole_ns });
		io_ticks += io->ticks[i];
	}
	if (own->ticks[stay] > io_ticks)
		add_stage_line(printer, &(struct stage_line){
						.indent = 8,
						.object = "",
						.stage = "beside",
						.ns = tick_scale_ns(&printer->reader->scale, own->ticks[stay] - io_ticks),
						.whole_ns = whole_ns });
}

static void add_why(struct reader_printer *printer, const struct reader_exemplar *exemplar)
{
	if (exemplar->failed)
		ADD_LITERAL(printer, "  FAILED");
	else if (exemplar->slow && exemplar->slow_state)
		add_format(printer, "  slow in %s", life_state_name(exemplar->stories[0].object, exemplar->slow_state));
}

static void add_when(struct reader_printer *printer, uint64_t tick)
{
	ADD_LITERAL(printer, "  at ");
	if (printer->wall)
		add_wall_of_tick(printer, tick);
	else
		add_format(printer, "%.6f s", (double)ns_since_start(printer, tick) / 1e9);
}

/* Did an earlier record have an argument of this name? */
static bool was_printed(const struct reader_printer *printer, const struct reader_exemplar *exemplar, uint32_t before,
			const char *name)
{
	for (uint32_t i = 0; i < before; i++) {
		const struct reader_point *point = reader_point_by_id(printer->reader, exemplar->records[i].point);

		for (uint32_t arg = 0; point && arg < point->arg_count; arg++) {
			if (strcmp(point->args[arg].name, name) == 0)
				return true;
		}
	}
	return false;
}

/* Print the arguments of its records, each name once: for a life whose own arguments the next life has overwritten. */
static void add_about_from_records(struct reader_printer *printer, const struct reader_exemplar *exemplar)
{
	size_t from;

	ADD_LITERAL(printer, "     ");
	from = printer->used;
	for (uint32_t i = 0; i < exemplar->record_count; i++) {
		const struct reader_point *point = reader_point_by_id(printer->reader, exemplar->records[i].point);

		for (uint32_t arg = point && point->machine && point->moves_to < 0 ? 2 : 0;
		     point && arg < point->arg_count && point->slot_count <= TRACE_ARG_SLOTS_HEAD; arg++) {
			if (point->args[arg].type >= READER_OBJ || was_printed(printer, exemplar, i, point->args[arg].name))
				continue;
			add_format(printer, " %s: ", point->args[arg].name);
			add_value(printer, &point->args[arg], exemplar->records[i].args);
		}
	}
	if (printer->used == from)
		ADD_LITERAL(printer, " its arguments are no longer in the file");
	end_line(printer);
}

static void add_about(struct reader_printer *printer, const struct reader_exemplar *exemplar)
{
	if (!exemplar->args_known[0])
		add_about_from_records(printer, exemplar);
	for (uint32_t i = 0; i < exemplar->story_count; i++) {
		const struct reader_story *story = &exemplar->stories[i];

		if (!exemplar->args_known[i] && (i == 0 || !story->owner))
			continue;
		ADD_LITERAL(printer, "      ");
		if (i > 0) {
			add_format(printer, "%s ", story->object->name);
			add_object_id(printer, story->object, story->id);
			ADD_LITERAL(printer, "  ");
			/* the device that served it */
			add_owner(printer, story->owner, story->begin_tick);
		}
		if (exemplar->args_known[i])
			add_story_args(printer, story);
		end_line(printer);
	}
}

/* The request that began first. */
static const struct reader_story *earliest_story(const struct reader_exemplar *const *members, uint32_t count)
{
	const struct reader_story *first = &members[0]->stories[0];

	for (uint32_t i = 1; i < count; i++) {
		if (members[i]->stories[0].begin_tick < first->begin_tick)
			first = &members[i]->stories[0];
	}
	return first;
}

/* "one stall of 263.013 ms at [b7 EE_Disk1] delayed 128 requests by 12.100 ms to 263.013 ms; r70 began first" */
static void add_stall(struct reader_printer *printer, const struct reader_exemplar *const *members, uint32_t count)
{
	struct reader_stall stall = reader_stall_of_exemplar(members[0]);
	const struct reader_story *first = earliest_story(members, count);

	add_format(printer, "      one stall of ");
	add_duration(printer, ns_between(printer, stall.from, stall.to));
	if (stall.device) {
		ADD_LITERAL(printer, " at ");
		add_owner(printer, stall.device, stall.from);
		/* remove the two blanks that end an owner */
		printer->used -= 2;
	} else {
		add_format(printer, " in %s on ", life_state_name(first->object, stall.state));
		add_thread_name(printer, stall.thread);
	}
	add_format(printer, " delayed %u requests: %s ", count, first->object->name);
	add_object_id(printer, first->object, first->id);
	ADD_LITERAL(printer, " began first, the shortest took ");
	add_duration(printer, tick_scale_ns(&printer->reader->scale, members[count - 1]->spent_ticks));
	end_line(printer);
}

static void print_text(struct reader_printer *printer, uint32_t number, const struct reader_exemplar *const *members,
		       uint32_t count)
{
	const struct reader_exemplar *exemplar = members[0];
	const struct reader_story *story = &exemplar->stories[0];
	uint64_t whole_ns = tick_scale_ns(&printer->reader->scale, exemplar->spent_ticks);
	struct reader_thread thread;

	end_line(printer);
	begin_line(printer);
	add_format(printer, "%3u. ", number);
	add_duration(printer, whole_ns);
	add_format(printer, "  %s ", story->object->name);
	add_object_id(printer, story->object, story->id);
	if (story->parent) {
		ADD_LITERAL(printer, " (");
		add_object_id(printer, story->parent, story->parent_id);
		add_char(printer, ')');
	}
	ADD_LITERAL(printer, "  ");
	add_owner(printer, story->owner, story->begin_tick);
	/* remove the two blanks that end an owner */
	printer->used -= 2;
	add_when(printer, story->begin_tick);
	if (reader_thread(printer->reader, exemplar->thread, &thread))
		add_format(printer, "  on %s", thread.name);
	add_why(printer, exemplar);
	end_line(printer);
	add_about(printer, exemplar);
	if (count > 1)
		add_stall(printer, members, count);
	for (uint32_t i = 0; i < exemplar->stays[0].count; i++) {
		uint32_t state = exemplar->stays[0].states[i];

		add_stage_line(printer, &(struct stage_line){
						.indent = 6,
						.object = "",
						.stage = life_state_name(story->object, state),
						.ns = tick_scale_ns(&printer->reader->scale, exemplar->stays[0].ticks[i]),
						.whole_ns = whole_ns,
						.resting = is_resting(story->object, state),
					});
		add_io_stages(printer, exemplar, i, whole_ns);
	}
}

/* ---- JSON ---- */

static void add_stages_json(struct reader_printer *printer, const struct reader_exemplar *exemplar, uint32_t index)
{
	const struct reader_stays *stays = &exemplar->stays[index];

	ADD_LITERAL(printer, ",\"stages\":[");
	for (uint32_t i = 0; i < stays->count; i++) {
		add_format(printer, "%s{\"stage\":\"%s\",\"us\":", i ? "," : "",
			   life_state_name(exemplar->stories[index].object, stays->states[i]));
		add_us(printer, tick_scale_ns(&printer->reader->scale, stays->ticks[i]), false, 0, false);
		if (is_resting(exemplar->stories[index].object, stays->states[i]))
			ADD_LITERAL(printer, ",\"resting\":true");
		else
			add_format(printer, ",\"share\":%.6f",
				   exemplar->spent_ticks ? (double)stays->ticks[i] / (double)exemplar->spent_ticks : 0.0);
		add_char(printer, '}');
	}
	add_char(printer, ']');
	if (exemplar->args_known[index]) {
		ADD_LITERAL(printer, ",\"args\":{");
		add_story_args(printer, &exemplar->stories[index]);
		add_char(printer, '}');
	}
}

/* The stall and all requests that it delayed, the longest first. */
static void add_stall_json(struct reader_printer *printer, const struct reader_exemplar *const *members, uint32_t count)
{
	struct reader_stall stall = reader_stall_of_exemplar(members[0]);
	const struct reader_story *first = earliest_story(members, count);

	add_format(printer, ",\"stall\":{\"count\":%u,\"us\":", count);
	add_us(printer, ns_between(printer, stall.from, stall.to), false, 0, false);
	add_format(printer, ",\"stage\":\"%s\"", life_state_name(first->object, stall.state));
	if (stall.device)
		add_owner(printer, stall.device, stall.from);
	add_object_json(printer, first->object, first->id, "first");
	ADD_LITERAL(printer, ",\"members\":[");
	for (uint32_t i = 0; i < count; i++) {
		const struct reader_story *story = &members[i]->stories[0];

		ADD_LITERAL(printer, "{\"object\":\"");
		add_object_id(printer, story->object, story->id);
		add_format(printer,
			   "\",\"begin_tick\":%" PRIu64 ",\"end_tick\":%" PRIu64 ",\"total_us\":", story->begin_tick,
			   members[i]->end_ticks[0]);
		add_us(printer, tick_scale_ns(&printer->reader->scale, members[i]->spent_ticks), false, 0, false);
		add_text(printer, i + 1 < count ? "}," : "}");
	}
	ADD_LITERAL(printer, "]}");
}

static void print_json(struct reader_printer *printer, uint32_t number, const struct reader_exemplar *const *members,
		       uint32_t count)
{
	const struct reader_exemplar *exemplar = members[0];
	const struct reader_story *story = &exemplar->stories[0];

	begin_line(printer);
	add_format(printer, "\"number\":%u", number);
	add_object_json(printer, story->object, story->id, "object");
	if (story->parent)
		add_object_json(printer, story->parent, story->parent_id, "related");
	add_owner(printer, story->owner, story->begin_tick);
	ADD_LITERAL(printer, ",\"thread\":\"");
	add_thread_name(printer, exemplar->thread);
	add_format(printer, "\",\"failed\":%s,\"slow\":%s", exemplar->failed ? "true" : "false",
		   exemplar->slow ? "true" : "false");
	if (exemplar->slow_state)
		add_format(printer, ",\"slow_in\":\"%s\"", life_state_name(story->object, exemplar->slow_state));
	ADD_LITERAL(printer, ",\"time_us\":");
	add_time(printer, story->begin_tick, 0);
	if (printer->wall) {
		ADD_LITERAL(printer, ",\"time\":\"");
		add_wall_of_tick(printer, story->begin_tick);
		add_char(printer, '"');
	}
	add_format(printer, ",\"begin_tick\":%" PRIu64 ",\"end_tick\":%" PRIu64 ",\"total_us\":", story->begin_tick,
		   exemplar->end_ticks[0]);
	add_us(printer, tick_scale_ns(&printer->reader->scale, exemplar->spent_ticks), false, 0, false);
	add_stages_json(printer, exemplar, 0);
	if (exemplar->story_count > 1) {
		const struct reader_story *io = &exemplar->stories[1];

		ADD_LITERAL(printer, ",\"io\":{\"total_us\":");
		add_us(printer, ns_between(printer, io->begin_tick, exemplar->end_ticks[1]), false, 0, false);
		add_object_json(printer, io->object, io->id, "object");
		add_stages_json(printer, exemplar, 1);
		add_char(printer, '}');
	}
	if (count > 1)
		add_stall_json(printer, members, count);
	add_char(printer, '}');
	end_line(printer);
}

void reader_print_exemplars(struct reader_printer *printer, uint32_t number, const struct reader_exemplar *const *members,
			    uint32_t count, bool records)
{
	const struct reader_exemplar *exemplar = members[0];
	struct reader_event event;

	if (printer->json)
		print_json(printer, number, members, count);
	else
		print_text(printer, number, members, count);
	for (uint32_t i = 0; records && i < exemplar->record_count; i++) {
		if (reader_exemplar_event(printer->reader, exemplar, i, &event))
			reader_print_event(printer, &event);
	}
	if (records && exemplar->records_cut)
		reader_print_remark(printer, "there were more records, which are no longer in the file");
}
