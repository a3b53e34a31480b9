/* SPDX-License-Identifier: BSD-2-Clause */
/* print_value - prints times and the values of arguments, as text or JSON. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/trace/merge.h"
#include "inspect/trace/print.h"

/* ---- times ---- */

/* "2026-11-21T02:35:06.123456789+00:00" in the time zone of TZ. */
static void add_wall(struct reader_printer *printer, uint64_t realtime_ns)
{
	time_t second = (time_t)(realtime_ns / NS_PER_SEC);
	char nanoseconds[9], *at = nanoseconds;
	uint64_t rest = realtime_ns % NS_PER_SEC;

	if (second != printer->second || !printer->second_text[0]) {
		struct tm tm = { 0 };
		char zone[8];

		localtime_r(&second, &tm);
		strftime(printer->second_text, sizeof(printer->second_text), "%Y-%m-%dT%H:%M:%S.", &tm);
		strftime(zone, sizeof(zone), "%z", &tm);
		snprintf(printer->zone_text, sizeof(printer->zone_text), "%.3s:%.2s", zone, zone + 3);
		printer->second = second;
	}
	for (int i = 8; i >= 0; i--, rest /= 10)
		at[i] = (char)('0' + rest % 10);
	add_text(printer, printer->second_text);
	add(printer, nanoseconds, sizeof(nanoseconds));
	add_text(printer, printer->zone_text);
}

void add_wall_of_tick(struct reader_printer *printer, uint64_t tick)
{
	uint64_t realtime_ns;

	if (reader_wall_ns(printer->reader, tick, &realtime_ns) == 0)
		add_wall(printer, realtime_ns);
	else
		ADD_LITERAL(printer, "?");
}

/* A time on the common time line of several processes. */
static void add_common_time(struct reader_printer *printer, uint64_t tick, int width)
{
	uint64_t ns = 0, start = printer->start_ns;

	/* only files with clock pairs are merged */
	must(reader_wall_ns(printer->reader, tick, &ns) == 0);
	add_us(printer, ns > start ? ns - start : start - ns, ns < start, width, false);
}

void add_time(struct reader_printer *printer, uint64_t tick, int width)
{
	uint64_t start = printer->reader->info.start_tick;

	if (unlikely(printer->process.bytes)) {
		add_common_time(printer, tick, width);
		return;
	}
	if (likely(tick >= start))
		add_us(printer, tick_scale_ns(&printer->reader->scale, tick - start), false, width, false);
	else
		add_us(printer, tick_scale_ns(&printer->reader->scale, start - tick), true, width, false);
}

uint64_t ns_since_start(const struct reader_printer *printer, uint64_t tick)
{
	uint64_t ns = 0;

	if (!printer->process.bytes)
		return ns_between(printer, printer->reader->info.start_tick, tick);
	must(reader_wall_ns(printer->reader, tick, &ns) == 0);
	return ns - min_u64(ns, printer->start_ns);
}

void add_duration(struct reader_printer *printer, uint64_t ns)
{
	if (ns < NS_PER_MS)
		add_format(printer, "%.3f us", (double)ns / 1e3);
	else if (ns < NS_PER_SEC)
		add_format(printer, "%.3f ms", (double)ns / 1e6);
	else if (ns < 120 * NS_PER_SEC)
		add_format(printer, "%.3f s", (double)ns / 1e9);
	else if (ns < 3600 * NS_PER_SEC)
		add_format(printer, "%" PRIu64 "m %" PRIu64 "s", (uint64_t)(ns / NS_PER_SEC / 60),
			   (uint64_t)(ns / NS_PER_SEC % 60));
	else
		add_format(printer, "%" PRIu64 "h %" PRIu64 "m", (uint64_t)(ns / NS_PER_SEC / 3600),
			   (uint64_t)(ns / NS_PER_SEC / 60 % 60));
}

uint64_t ns_between(const struct reader_printer *printer, uint64_t from, uint64_t to)
{
	return to > from ? tick_scale_ns(&printer->reader->scale, to - from) : 0;
}

/* ---- arguments ---- */

void add_object_id(struct reader_printer *printer, const struct reader_object *object, uint32_t id)
{
	add_text(printer, object ? object->prefix : "#");
	add_decimal(printer, id);
}

/* A string value: quoted in JSON, bare in text. */
static void add_quoted(struct reader_printer *printer, const char *text, size_t bytes)
{
	if (printer->json)
		add_char(printer, '"');
	add_foreign(printer, text, bytes);
	if (printer->json)
		add_char(printer, '"');
}

static void add_hex_value(struct reader_printer *printer, uint64_t value, int digits)
{
	if (printer->json)
		add_char(printer, '"');
	add_hex(printer, value, digits);
	if (printer->json)
		add_char(printer, '"');
}

static void add_plain_value(struct reader_printer *printer, const struct reader_arg *arg, uint64_t value)
{
	const char *label;

	if (arg->labels) {
		label = reader_label(arg->labels, (int64_t)value);
		if (label) {
			add_quoted(printer, label, strlen(label));
			return;
		}
	}
	/* a time with all bits set means "never" */
	if (unlikely(!printer->json && value == (arg->type == READER_U64 ? UINT64_MAX : UINT32_MAX)) &&
	    (arg->unit_kind == READER_UNIT_TICKS || arg->unit_kind == READER_UNIT_TIME)) {
		ADD_LITERAL(printer, "never");
		return;
	}
	if (!printer->json && arg->unit_kind == READER_UNIT_TICKS) {
		add_us(printer, tick_scale_ns(&printer->reader->scale, value), false, 0, false);
		ADD_LITERAL(printer, " us");
		return;
	}
	add_decimal(printer, value);
	if (!printer->json && arg->unit_kind != READER_UNIT_NONE) {
		add_char(printer, ' ');
		add_text(printer, arg->unit);
	}
}

/* A function pointer by name, if known; in JSON the name follows the address. */
static void add_pointer(struct reader_printer *printer, const struct reader_arg *arg, uint64_t value)
{
	const char *name = arg->function && value ? reader_function(printer->reader, value) : NULL;

	if (name && !printer->json) {
		add_text(printer, name);
		return;
	}
	add_hex_value(printer, value, 16);
	if (name)
		add_format(printer, ",\"%s_name\":\"%s\"", arg->name, name);
}

void add_value(struct reader_printer *printer, const struct reader_arg *arg, const uint32_t *slots)
{
	uint64_t value = reader_arg_value(arg, slots);
	const struct reader_object *object;
	const char *text;
	size_t bytes;
	uint32_t id;

	switch (arg->type) {
	case READER_U8:
	case READER_U16:
	case READER_U32:
	case READER_U64:
		add_plain_value(printer, arg, value);
		break;
	case READER_I32:
	case READER_I64:
		add_signed(printer, (int64_t)value);
		if (!printer->json && arg->unit)
			add_format(printer, " %s", arg->unit);
		break;
	case READER_BOOL:
		add_text(printer, value ? "true" : "false");
		break;
	case READER_HEX8:
		add_hex_value(printer, value, 2);
		break;
	case READER_HEX16:
		add_hex_value(printer, value, 4);
		break;
	case READER_HEX32:
		add_hex_value(printer, value, 8);
		break;
	case READER_PTR:
		add_pointer(printer, arg, value);
		break;
	case READER_HEX64:
		add_hex_value(printer, value, 16);
		break;
	case READER_STR:
		text = reader_string(printer->reader, (uint32_t)value, &bytes);
		add_quoted(printer, text, bytes);
		break;
	case READER_OBJ:
	case READER_REF:
		if (!reader_arg_object(printer->reader, arg, slots, &object, &id)) {
			add_text(printer, printer->json ? "null" : "-");
			break;
		}
		if (printer->json)
			add_char(printer, '"');
		add_object_id(printer, object, id);
		if (printer->json)
			add_char(printer, '"');
		break;
	}
}
