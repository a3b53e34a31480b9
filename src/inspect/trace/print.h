/* SPDX-License-Identifier: BSD-2-Clause */
/* print - assembles lines: the buffer, numbers, text from the file. Shared by the print*.c. */
#ifndef INSPECT_TRACE_PRINT_H
#define INSPECT_TRACE_PRINT_H

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "inspect/trace/internal.h"
#include "inspect/trace/slowest.h"

enum {
	BUFFER_BYTES = 1 << 18,
	LINE_BYTES_MAX = 1 << 14, /* a longer line is written in parts */
	NAME_WIDTH_MAX = 28,
	ID_WIDTH = 14,
	NUMBER_WIDTH = 8,
	STRING_BYTES_MAX = 4096,
	OWNER_PIECES = 256,
	OWNER_BYTES_MAX = 512, /* of an owner's piece */
	PREFIX_BYTES_MAX = 32, /* of an id */
	SLACK = 32,	       /* readable bytes behind a piece */
};

/* Text made in advance, followed by a NUL and SLACK readable bytes. */
struct piece {
	const char *text;
	size_t bytes;
};

struct point_pieces {
	struct piece name;		    /* text: padded; JSON: with its keys */
	struct piece args[READER_ARGS_MAX]; /* JSON: "\"name\":" */
};

/* An owner as it is printed, for ticks within [from, to]. */
struct owner_piece {
	uint16_t owner; /* 0: empty */
	uint64_t from, to;
	struct piece piece;
};

struct reader_printer {
	struct reader *reader;
	FILE *file;
	bool json, wall;
	int error;
	reader_word_fn word; /* NULL: none beside the file's own */
	size_t used;
	int name_width;
	/*
	 * of several processes on one time line (merge.h): the prefix of each line, and the name in headers; else empty
	 */
	struct piece process;
	char label[96];
	uint64_t start_ns;	     /* wall-clock time from which times count in this case */
	struct point_pieces *points; /* as the schema's */
	struct event_lines *lines;   /* text: the state of print_line.c */
	/* cache: the text of `second` */
	time_t second;
	char second_text[40], zone_text[8];
	struct piece threads[READER_THREADS_MAX]; /* printed names; text NULL: not made yet */
	struct owner_piece owners[OWNER_PIECES];
	char buffer[BUFFER_BYTES + LINE_BYTES_MAX];
};

struct piece make_piece(const char *format, ...) PRINTF_LIKE(1, 2);
/* Make a piece with the escapes of add_foreign(). The buffer's contents are kept. */
struct piece make_foreign_piece(struct reader_printer *printer, const char *text, size_t bytes);
struct event_lines *event_lines_create(struct reader_printer *printer);
/* Accepts NULL. */
void event_lines_free(struct event_lines *lines, const struct reader_printer *printer);
void print_event_text(struct reader_printer *printer, const struct reader_event *event);

/* Write the buffer. The first error is kept for reader_printer_destroy(). */
void printer_flush(struct reader_printer *printer);
/* Longer output is cut at one kilobyte. */
void add_format(struct reader_printer *printer, const char *format, ...) PRINTF_LIKE(2, 3);

/* Most pieces of a line are short: a call of memcpy() would take longer than the copying. */
static inline void copy_short(char *to, const char *from, size_t bytes)
{
	if (bytes > 32) {
		memcpy(to, from, bytes);
	} else if (bytes >= 16) {
		char ends[2][16];

		memcpy(ends[0], from, 16);
		memcpy(ends[1], from + bytes - 16, 16);
		memcpy(to, ends[0], 16);
		memcpy(to + bytes - 16, ends[1], 16);
	} else if (bytes >= 8) {
		uint64_t ends[2];

		memcpy(&ends[0], from, 8);
		memcpy(&ends[1], from + bytes - 8, 8);
		memcpy(to, &ends[0], 8);
		memcpy(to + bytes - 8, &ends[1], 8);
	} else if (bytes >= 4) {
		uint32_t ends[2];

		memcpy(&ends[0], from, 4);
		memcpy(&ends[1], from + bytes - 4, 4);
		memcpy(to, &ends[0], 4);
		memcpy(to + bytes - 4, &ends[1], 4);
	} else {
		for (size_t i = 0; i < bytes; i++)
			to[i] = from[i];
	}
}

static inline void add(struct reader_printer *printer, const char *text, size_t bytes)
{
	if (unlikely(printer->used + bytes > sizeof(printer->buffer)))
		printer_flush(printer);
	must(bytes <= sizeof(printer->buffer));
	copy_short(printer->buffer + printer->used, text, bytes);
	printer->used += bytes;
}

static inline void add_char(struct reader_printer *printer, char c)
{
	add(printer, &c, 1);
}

static inline void add_text(struct reader_printer *printer, const char *text)
{
	add(printer, text, strlen(text));
}

#define ADD_LITERAL(printer, literal) add(printer, literal, sizeof(literal) - 1)

static inline void end_line(struct reader_printer *printer)
{
	add_char(printer, '\n');
	if (printer->used >= BUFFER_BYTES)
		printer_flush(printer);
}

static inline void add_spaces(struct reader_printer *printer, int count)
{
	static const char spaces[] = "                                                                ";

	if (count > 0)
		add(printer, spaces, min_u64((uint64_t)count, sizeof(spaces) - 1));
}

static const char two_digits[]
	__attribute__((unused)) = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
				  "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
				  "8081828384858687888990919293949596979899";

/* Write decimal digits that end at `end`. Returns the first digit. */
static inline char *put_decimal(char *end, uint64_t number)
{
	while (number >= 100) {
		end -= 2;
		memcpy(end, &two_digits[number % 100 * 2], 2);
		number /= 100;
	}
	if (number >= 10) {
		end -= 2;
		memcpy(end, &two_digits[number * 2], 2);
	} else {
		*--end = (char)('0' + number);
	}
	return end;
}

static inline void add_decimal(struct reader_printer *printer, uint64_t number)
{
	char text[24], *end = text + sizeof(text), *at = put_decimal(end, number);

	add(printer, at, (size_t)(end - at));
}

static inline void add_signed(struct reader_printer *printer, int64_t number)
{
	if (number < 0)
		add_char(printer, '-');
	add_decimal(printer, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

/* Begin a line: the brace in JSON, and the process label if there are several processes. */
static inline void begin_line(struct reader_printer *printer)
{
	if (printer->json)
		add_char(printer, '{');
	if (unlikely(printer->process.bytes))
		add(printer, printer->process.text, printer->process.bytes);
}

/* Nanoseconds as microseconds with three decimals, padded to `width`; `left`: padding goes behind the number. */
static inline void add_us(struct reader_printer *printer, uint64_t ns, bool negative, int width, bool left)
{
	char text[72], *end = text + 40, *at = end - 3;
	uint64_t us = ns / 1000;
	unsigned int rest = (unsigned int)(ns - us * 1000);

	at[0] = (char)('0' + rest / 100);
	memcpy(at + 1, &two_digits[rest % 100 * 2], 2);
	*--at = '.';
	at = put_decimal(at, us);
	if (negative)
		*--at = '-';
	if (left) {
		while (end - at < width)
			*end++ = ' ';
	} else {
		while (end - at < width)
			*--at = ' ';
	}
	add(printer, at, (size_t)(end - at));
}

/* "0x" and `digits` hexadecimal digits. */
void add_hex(struct reader_printer *printer, uint64_t number, int digits);
/* Text from the file: escaped for a JSON string; in plain text, unprintable bytes become '?'. */
void add_foreign(struct reader_printer *printer, const char *text, size_t bytes);
/* The time of day at `tick`, "2026-11-21T02:35:06.123456789+00:00" in the zone of TZ; "?" if it is not known. */
void add_wall_of_tick(struct reader_printer *printer, uint64_t tick);
/* Microseconds since the start of the program, or of the first of several; padded to `width`. */
void add_time(struct reader_printer *printer, uint64_t tick, int width);
/* The time that add_time() prints, in nanoseconds; 0 if the tick is earlier. */
uint64_t ns_since_start(const struct reader_printer *printer, uint64_t tick);
/* For text output: "18.590 us", "3.250 ms", "12.500 s", "3h 2m". */
void add_duration(struct reader_printer *printer, uint64_t ns);
/* 0 if `to` is before `from`. */
uint64_t ns_between(const struct reader_printer *printer, uint64_t from, uint64_t to);
/* The object's prefix and number. */
void add_object_id(struct reader_printer *printer, const struct reader_object *object, uint32_t id);
/* An argument's value, formatted by its type. */
void add_value(struct reader_printer *printer, const struct reader_arg *arg, const uint32_t *slots);
/* The text of add_owner(), cached; NULL: no owner. Flushes if the buffer is full. */
const struct piece *owner_piece(struct reader_printer *printer, uint16_t owner, uint64_t tick);
/* `[q1 text]  ` in text, `,"owner":{...}` in JSON; nothing without an owner. */
void add_owner(struct reader_printer *printer, uint16_t owner, uint64_t tick);
void add_thread_name(struct reader_printer *printer, uint32_t index);
/* Why the file was frozen: a line, or a member of an object; nothing if it was not frozen. */
void print_frozen_text(struct reader_printer *printer);
void add_frozen_json(struct reader_printer *printer);
/* A story's arguments by name; in text without its parent. */
void add_story_args(struct reader_printer *printer, const struct reader_story *story);
/* `,"key":"i435","key_type":"bdev_io"` */
void add_object_json(struct reader_printer *printer, const struct reader_object *object, uint32_t id, const char *key);

#endif
