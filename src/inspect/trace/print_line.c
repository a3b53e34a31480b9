/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * print_line - prints one event as a line of text.
 *
 * Everything that repeats from line to line is made once: names, labels, strings, owners, and the times of recent ticks,
 * since most events share the tick of a neighbour. A line is then assembled at one moving pointer with copies of fixed
 * length, which may write past a piece's end: pieces have SLACK readable bytes behind them, and the buffer has room for
 * the longest line of a `quick` point. Points that are not `quick`, and rare argument types, use the functions of
 * print.c.
 */
#include <ctype.h>
#include <stdlib.h>

#include "inspect/trace/print.h"

enum {
	QUICK_BYTES_MAX = 8 << 10, /* of a line, without the output of add_value() */
	FIXED_BYTES = 512,	   /* of its fixed columns */
	LABELS_MAX = 64,	   /* of an enum, with values from 0 on */
	TICKS = 16,
	TICK_BYTES = 3 * SLACK,
	STRINGS = 256,
	STRING_BYTES_QUICK = 256,
	NUMBER_BYTES = 24,
};

enum arg_way {
	ARG_NUMBER,   /* 32 bits */
	ARG_NUMBER64, /* 64 bits */
	ARG_LABEL,
	ARG_STRING,
	ARG_OBJECT,
	ARG_OPTIONAL, /* 32 bits; omitted if 0 */
	ARG_VALUE,    /* by add_value() */
};

struct arg_line {
	enum arg_way way;
	uint32_t slot;
	const struct reader_arg *arg;
	struct piece before, behind;
	struct piece labels[]; /* ARG_LABEL: LABELS_MAX of them, each with `before`; text NULL: no label */
};

struct point_line {
	bool quick;
	uint32_t arg_count;
	struct arg_line *args[READER_ARGS_MAX];
};

/* The printed form of a tick. */
struct tick_line {
	uint64_t tick;
	uint32_t bytes, mark_at; /* bytes 0: empty; mark_at: place of the '~' that marks a shared tick */
	char text[TICK_BYTES];
};
static_assert(TICK_BYTES % SLACK == 0, "copied in pieces of SLACK");

struct string_line {
	uint32_t id; /* 0: empty */
	struct piece piece;
};

struct event_lines {
	struct point_line *points;
	struct piece *prefixes; /* of objects, as the schema's */
	struct tick_line ticks[TICKS];
	struct string_line strings[STRINGS];
};

/* ---- pieces made once ---- */

static struct piece make_label(struct reader_printer *printer, const struct arg_line *line, const char *label)
{
	struct piece alone, piece;

	if (!label || strlen(label) > STRING_BYTES_QUICK)
		return (struct piece){ 0 };
	alone = make_foreign_piece(printer, label, strlen(label));
	piece = make_piece("%s%s", line->before.text, alone.text);
	free((void *)alone.text);
	return piece;
}

static enum arg_way way_of(const struct reader_arg *arg)
{
	bool is_time = arg->unit_kind == READER_UNIT_TICKS || arg->unit_kind == READER_UNIT_TIME;

	if (arg->optional && arg->type == READER_U32)
		return ARG_OPTIONAL;
	switch (arg->type) {
	case READER_U8:
	case READER_U16:
	case READER_U32:
		return arg->labels ? ARG_LABEL : is_time ? ARG_VALUE : ARG_NUMBER;
	case READER_U64:
		return arg->labels || is_time ? ARG_VALUE : ARG_NUMBER64;
	case READER_STR:
		return ARG_STRING;
	case READER_OBJ:
	case READER_REF:
		return ARG_OBJECT;
	default:
		return ARG_VALUE;
	}
}

static struct arg_line *make_arg(struct reader_printer *printer, const struct reader_point *point, uint32_t index)
{
	const struct reader_arg *arg = &point->args[index];
	bool is_move = point->machine && point->moves_to < 0;
	enum arg_way way = way_of(arg);
	struct arg_line *line = calloc(1, sizeof(*line) + (way == ARG_LABEL) * LABELS_MAX * sizeof(line->labels[0]));

	must(line);
	line->way = way;
	line->slot = arg->slot;
	line->arg = arg;
	if (is_move && index < 2)
		line->before = make_piece("%s", index ? " -> " : "");
	else
		/* the separator belongs to the second argument, unless the first is optional and brings its own */
		line->before = make_piece("%s%s: ", index && way_of(&point->args[index - 1]) != ARG_OPTIONAL ? " " : "",
					  arg->name);
	if (way == ARG_OPTIONAL)
		line->behind = make_piece("%s", index + 1 < point->arg_count ? " " : "");
	else
		line->behind = arg->unit_kind == READER_UNIT_OTHER ? make_piece(" %s", arg->unit) : make_piece("%s", "");
	for (uint32_t value = 0; way == ARG_LABEL && value < LABELS_MAX; value++)
		line->labels[value] = make_label(printer, line, reader_label(arg->labels, value));
	return line;
}

static uint64_t arg_bytes_max(const struct arg_line *line)
{
	uint64_t bytes = line->before.bytes + line->behind.bytes + max_u64(NUMBER_BYTES, STRING_BYTES_QUICK);

	for (uint32_t i = 0; line->way == ARG_LABEL && i < LABELS_MAX; i++)
		bytes = max_u64(bytes, line->labels[i].bytes);
	return bytes;
}

static void make_point(struct reader_printer *printer, struct point_line *line, const struct reader_point *point)
{
	uint64_t bytes = FIXED_BYTES + OWNER_BYTES_MAX;

	line->arg_count = point->arg_count;
	for (uint32_t i = 0; i < point->arg_count; i++) {
		line->args[i] = make_arg(printer, point, i);
		bytes += arg_bytes_max(line->args[i]);
	}
	line->quick = bytes <= QUICK_BYTES_MAX;
}

struct event_lines *event_lines_create(struct reader_printer *printer)
{
	const struct schema *schema = &printer->reader->schema;
	struct event_lines *lines = calloc(1, sizeof(*lines));

	must(lines);
	lines->points = calloc(schema->point_count + 1, sizeof(*lines->points));
	lines->prefixes = calloc(schema->object_count + 1, sizeof(*lines->prefixes));
	must(lines->points && lines->prefixes);
	for (uint32_t i = 0; i < schema->point_count; i++)
		make_point(printer, &lines->points[i], &schema->points[i]);
	for (uint32_t i = 0; i < schema->object_count; i++)
		lines->prefixes[i] = make_piece("%.*s", PREFIX_BYTES_MAX, schema->objects[i].prefix);
	return lines;
}

static void free_arg(struct arg_line *line)
{
	free((void *)line->before.text);
	free((void *)line->behind.text);
	for (uint32_t i = 0; line->way == ARG_LABEL && i < LABELS_MAX; i++)
		free((void *)line->labels[i].text);
	free(line);
}

void event_lines_free(struct event_lines *lines, const struct reader_printer *printer)
{
	const struct schema *schema = &printer->reader->schema;

	if (!lines)
		return;
	for (uint32_t i = 0; i < schema->point_count; i++) {
		for (uint32_t arg = 0; arg < lines->points[i].arg_count; arg++)
			free_arg(lines->points[i].args[arg]);
	}
	for (uint32_t i = 0; i < schema->object_count; i++)
		free((void *)lines->prefixes[i].text);
	for (uint32_t i = 0; i < STRINGS; i++)
		free((void *)lines->strings[i].piece.text);
	free(lines->points);
	free(lines->prefixes);
	free(lines);
}

/* ---- writing at the pointer ---- */

#define PUT_LITERAL(at, literal) (memcpy(at, literal, sizeof(literal) - 1), (at) + sizeof(literal) - 1)

static inline char *put_piece(char *at, const struct piece *piece)
{
	memcpy(at, piece->text, SLACK);
	for (size_t done = SLACK; unlikely(done < piece->bytes); done += SLACK)
		memcpy(at + done, piece->text + done, SLACK);
	return at + piece->bytes;
}

static inline char *put_line_number(char *at, uint64_t number)
{
	char text[2 * NUMBER_BYTES], *from;

	if (number < 100) {
		if (number < 10) {
			*at = (char)('0' + number);
			return at + 1;
		}
		memcpy(at, &two_digits[number * 2], 2);
		return at + 2;
	}
	if (number < 10000) {
		unsigned int high = (unsigned int)number / 100;

		if (high < 10)
			*at++ = (char)('0' + high);
		else
			at = (char *)memcpy(at, &two_digits[high * 2], 2) + 2;
		memcpy(at, &two_digits[number % 100 * 2], 2);
		return at + 2;
	}
	memset(text + NUMBER_BYTES, 0, NUMBER_BYTES);
	from = put_decimal(text + NUMBER_BYTES, number);
	memcpy(at, from, NUMBER_BYTES);
	return at + (text + NUMBER_BYTES - from);
}

/* Microseconds with three decimals, NUMBER_WIDTH wide. */
static inline char *put_us(char *at, uint64_t ns)
{
	char *from = at;
	uint64_t us = ns / 1000;
	unsigned int rest = (unsigned int)(ns - us * 1000);

	at = put_line_number(at, us);
	at[0] = '.';
	at[1] = (char)('0' + rest / 100);
	memcpy(at + 2, &two_digits[rest % 100 * 2], 2);
	at += 4;
	memcpy(at, "        ", NUMBER_WIDTH);
	return at < from + NUMBER_WIDTH ? from + NUMBER_WIDTH : at;
}

static inline char *put_object(const struct reader_printer *printer, char *at, const struct reader_object *object,
			       uint32_t id)
{
	if (likely(object))
		at = put_piece(at, &printer->lines->prefixes[object - printer->reader->schema.objects]);
	else
		*at++ = '#';
	return put_line_number(at, id);
}

/* Add a value with print.c at `at`. Returns the end of the output, which may have moved because of a flush. */
static char *put_value(struct reader_printer *printer, char *at, const struct reader_arg *arg, const uint32_t *slots)
{
	printer->used = (size_t)(at - printer->buffer);
	add_value(printer, arg, slots);
	if (printer->used > BUFFER_BYTES)
		printer_flush(printer);
	return printer->buffer + printer->used;
}

/* NULL: too long, or unknown as yet. */
static const struct piece *string_piece(struct reader_printer *printer, char *at, uint32_t id)
{
	struct string_line *line = &printer->lines->strings[id / 8 % STRINGS];
	const char *text;
	size_t bytes;

	if (likely(line->id == id && id))
		return &line->piece;
	text = reader_string(printer->reader, id, &bytes);
	if (bytes > STRING_BYTES_QUICK || id == 0 || (bytes == 1 && text[0] == '?'))
		return NULL;
	free((void *)line->piece.text);
	line->id = id;
	printer->used = (size_t)(at - printer->buffer);
	line->piece = make_foreign_piece(printer, text, bytes);
	return &line->piece;
}

static inline char *put_line_arg(struct reader_printer *printer, char *at, const struct arg_line *line,
				 const uint32_t *slots)
{
	const struct reader_object *object;
	const struct piece *string;
	uint32_t value = slots[line->slot], id;

	switch (line->way) {
	case ARG_LABEL:
		if (unlikely(value >= LABELS_MAX || !line->labels[value].text))
			break;
		return put_piece(at, &line->labels[value]);
	case ARG_NUMBER:
		at = put_line_number(put_piece(at, &line->before), value);
		return put_piece(at, &line->behind);
	case ARG_NUMBER64:
		at = put_line_number(put_piece(at, &line->before), value | (uint64_t)slots[line->slot + 1] << 32);
		return put_piece(at, &line->behind);
	case ARG_OBJECT:
		if (unlikely(!reader_arg_object(printer->reader, line->arg, slots, &object, &id)))
			break;
		return put_object(printer, put_piece(at, &line->before), object, id);
	case ARG_STRING:
		string = string_piece(printer, at, value);
		if (unlikely(!string))
			break;
		return put_piece(put_piece(at, &line->before), string);
	case ARG_OPTIONAL:
		if (value == 0)
			return at;
		at = put_line_number(put_piece(at, &line->before), value);
		return put_piece(at, &line->behind);
	case ARG_VALUE:
		break;
	}
	return put_value(printer, put_piece(at, &line->before), line->arg, slots);
}

/* ---- the columns ---- */

/* A tick, right-aligned in its column. */
static void add_tick(struct reader_printer *printer, uint64_t tick)
{
	char text[40], *end = text + sizeof(text), *at = put_decimal(end, tick);

	while (end - at < 16)
		*--at = ' ';
	add(printer, at, (size_t)(end - at));
}

/* Built in the buffer behind the used part, then discarded there. */
static const struct tick_line *tick_line(struct reader_printer *printer, uint64_t tick)
{
	struct tick_line *line = &printer->lines->ticks[tick * 0x9e3779b97f4a7c15ull >> 60];
	size_t from = printer->used;

	if (likely(line->tick == tick && line->bytes))
		return line;
	if (printer->wall) {
		add_wall_of_tick(printer, tick);
	} else {
		add_time(printer, tick, 14);
		ADD_LITERAL(printer, " us");
	}
	line->tick = tick;
	line->mark_at = (uint32_t)(printer->used - from);
	ADD_LITERAL(printer, "  (");
	add_tick(printer, tick);
	ADD_LITERAL(printer, ")  ");
	line->bytes = (uint32_t)min_u64(printer->used - from, TICK_BYTES);
	for (size_t done = 0; done < TICK_BYTES; done += SLACK)
		memcpy(line->text + done, printer->buffer + from + done, SLACK);
	printer->used = from;
	return line;
}

static inline char *put_tick(char *at, const struct tick_line *line, bool shared)
{
	memcpy(at, line->text, SLACK);
	memcpy(at + SLACK, line->text + SLACK, SLACK);
	if (unlikely(line->bytes > 2 * SLACK))
		memcpy(at + 2 * SLACK, line->text + 2 * SLACK, SLACK);
	if (shared)
		at[line->mark_at] = '~';
	return at + line->bytes;
}

static inline char *put_core(char *at, int32_t cpu)
{
	memcpy(at, "  -: ", 5);
	if (likely(cpu >= 0 && cpu < 10))
		at[2] = (char)('0' + cpu);
	else if (cpu >= 0)
		return at + snprintf(at, NUMBER_BYTES, "%3d: ", cpu);
	return at + 5;
}

static inline char *put_life(struct reader_printer *printer, char *at, const struct reader_event *event)
{
	const char *from = at;

	at = put_object(printer, PUT_LITERAL(at, "id: "), event->point->object, event->object_id);
	if (event->related) {
		at = put_object(printer, PUT_LITERAL(at, " ("), event->related, event->related_id);
		*at++ = ')';
	}
	memcpy(at, "                ", 16);
	at += max_u64((uint64_t)(at - from), ID_WIDTH) - (uint64_t)(at - from);
	at = put_us(PUT_LITERAL(at, "  dwell: "), tick_scale_ns(&printer->reader->scale, event->dwell_ticks));
	at = PUT_LITERAL(at, "  total: ");
	if (event->total_partial)
		*at++ = '>';
	at = put_us(at, tick_scale_ns(&printer->reader->scale, event->total_ticks));
	return PUT_LITERAL(at, "  ");
}

static char *put_point(struct reader_printer *printer, char *at, const struct reader_event *event)
{
	const struct point_line *line = &printer->lines->points[event->point - printer->reader->schema.points];

	if (likely(line->quick)) {
		for (uint32_t i = 0; i < line->arg_count; i++)
			at = put_line_arg(printer, at, line->args[i], event->slots);
		return at;
	}
	printer->used = (size_t)(at - printer->buffer);
	for (uint32_t i = 0; i < line->arg_count; i++) {
		bool optional = line->args[i]->way == ARG_OPTIONAL;

		if (optional && event->slots[line->args[i]->slot] == 0)
			continue;
		add(printer, line->args[i]->before.text, line->args[i]->before.bytes);
		add_value(printer, line->args[i]->arg, event->slots);
		if (optional)
			add(printer, line->args[i]->behind.text, line->args[i]->behind.bytes);
	}
	return printer->buffer + printer->used;
}

void print_event_text(struct reader_printer *printer, const struct reader_event *event)
{
	const struct tick_line *tick = tick_line(printer, event->tick);
	const struct piece *owner = event->owner ? owner_piece(printer, event->owner, event->tick) : NULL;
	const struct reader_point *point = event->point;
	char *at;

	begin_line(printer);
	at = put_tick(put_core(printer->buffer + printer->used, event->cpu), tick, event->shared);
	if (likely(point)) {
		at = put_piece(at, &printer->points[point - printer->reader->schema.points].name);
		at = PUT_LITERAL(at, "  ");
	} else {
		at += snprintf(at, FIXED_BYTES / 4, "POINT_%u  ", event->point_id);
	}
	if (owner)
		at = put_piece(at, owner);
	if (event->has_life)
		at = put_life(printer, at, event);
	if (likely(point))
		at = put_point(printer, at, event);
	else
		at += snprintf(at, FIXED_BYTES / 4, "object: 0x%08x slots: 0x%08x 0x%08x 0x%08x", event->object_id,
			       event->slots[0], event->slots[1], event->slots[2]);
	/* remove padding after the last column */
	while (at > printer->buffer && at[-1] == ' ')
		at--;
	*at++ = '\n';
	printer->used = (size_t)(at - printer->buffer);
	if (printer->used >= BUFFER_BYTES)
		printer_flush(printer);
}
