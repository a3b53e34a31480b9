/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * print - the printer object: its buffer, text from the file, names of points, owners and threads.
 *
 * Millions of lines per second: each line is assembled in a buffer from pieces of text that were made once. Text from
 * the file is checked when the schema is read, or escaped here.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "inspect/trace/merge.h"
#include "inspect/trace/print.h"

/* ---- the buffer ---- */

void printer_flush(struct reader_printer *printer)
{
	if (printer->used && fwrite(printer->buffer, 1, printer->used, printer->file) != printer->used && !printer->error)
		printer->error = errno ? -errno : -EIO;
	printer->used = 0;
}

void add_format(struct reader_printer *printer, const char *format, ...)
{
	char text[1024];
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	add(printer, text, min_u64((uint64_t)bytes, sizeof(text) - 1));
}

void add_hex(struct reader_printer *printer, uint64_t number, int digits)
{
	char text[40];

	for (int i = digits - 1; i >= 0; i--, number >>= 4)
		text[i] = "0123456789abcdef"[number & 15];
	add(printer, "0x", 2);
	add(printer, text, (size_t)digits);
}

/* ---- text from the file ---- */

/*
 * Sets the top bit of each zero byte of `word`. A byte above a zero byte may be wrong; whether there is a zero byte is
 * right.
 */
static inline uint64_t mark_zero_bytes(uint64_t word)
{
	return (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
}

static inline bool is_plain_word(uint64_t word)
{
	uint64_t control = (word - 0x2020202020202020ull) & ~word;

	return ((word | control) & 0x8080808080808080ull) == 0 && mark_zero_bytes(word ^ 0x7f7f7f7f7f7f7f7full) == 0 &&
	       mark_zero_bytes(word ^ 0x2222222222222222ull) == 0 && mark_zero_bytes(word ^ 0x5c5c5c5c5c5c5c5cull) == 0;
}

/* Is all of it printable ASCII that JSON needs no escape for? Checks eight bytes at a time. */
static bool is_plain_text(const char *text, size_t bytes)
{
	uint64_t word = 0x2020202020202020ull;

	for (; bytes >= sizeof(word); text += sizeof(word), bytes -= sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		if (!is_plain_word(word))
			return false;
	}
	word = 0x2020202020202020ull;
	for (size_t i = 0; i < bytes; i++)
		((char *)&word)[i] = text[i];
	return is_plain_word(word);
}

static void add_escaped(struct reader_printer *printer, const char *text, size_t bytes)
{
	for (size_t at = 0, read; at < bytes; at += read) {
		char escaped[TEXT_JSON_BYTES_MAX];
		size_t escaped_bytes = text_json_escape(escaped, text + at, bytes - at, TEXT_JSON_PLAIN, &read);

		must(escaped_bytes <= sizeof(escaped));
		add(printer, escaped, escaped_bytes);
	}
}

/* Unprintable bytes become '?'. */
static void add_printable(struct reader_printer *printer, const char *text, size_t bytes)
{
	for (size_t at = 0, length; at < bytes; at += max_u64(length, 1)) {
		unsigned char c = (unsigned char)text[at];

		length = text_utf8_length(text + at, bytes - at);
		if (length == 0 || c == 0x7f || c < 0x20)
			add_char(printer, '?');
		else
			add(printer, text + at, length);
	}
}

void add_foreign(struct reader_printer *printer, const char *text, size_t bytes)
{
	bytes = min_u64(bytes, STRING_BYTES_MAX);
	if (likely(is_plain_text(text, bytes))) {
		add(printer, text, bytes);
		return;
	}
	if (printer->json)
		add_escaped(printer, text, bytes);
	else
		add_printable(printer, text, bytes);
}

/* ---- a printer ---- */

struct piece make_piece(const char *format, ...)
{
	struct piece piece;
	va_list args;
	char *text;
	int bytes;

	va_start(args, format);
	bytes = vasprintf(&text, format, args);
	va_end(args);
	must(bytes >= 0);
	text = realloc(text, (size_t)bytes + SLACK);
	must(text);
	memset(text + bytes, 0, SLACK);
	piece.text = text;
	piece.bytes = (size_t)bytes;
	return piece;
}

struct piece make_foreign_piece(struct reader_printer *printer, const char *text, size_t bytes)
{
	size_t from = printer->used;

	/* build it behind the used part of the buffer, then discard it there */
	add_foreign(printer, text, bytes);
	must(printer->used >= from);
	add_char(printer, '\0');
	printer->used = from;
	return make_piece("%s", printer->buffer + from);
}

static void make_pieces(struct reader_printer *printer, const struct reader_point *point, struct point_pieces *pieces)
{
	char upper[NAME_WIDTH_MAX * 4];

	copy_printable(upper, sizeof(upper), point->name, strlen(point->name));
	for (char *at = upper; *at; at++)
		*at = (char)toupper((unsigned char)*at);
	if (printer->json)
		pieces->name = make_piece("\"name\":\"%s\",\"group\":\"%s\"", point->name, point->group->name);
	else
		pieces->name = make_piece("%-*s", printer->name_width, upper);
	for (uint32_t i = 0; i < point->arg_count && printer->json; i++)
		pieces->args[i] = make_piece("%s\"%s\":", i ? "," : "", point->args[i].name);
}

/* ---- owners and threads ---- */

static struct piece make_owner_piece(struct reader_printer *printer, const struct reader_owner *owner)
{
	size_t from;

	/* build it behind the used part of the buffer, which has room for a line, then discard it there */
	if (printer->used > BUFFER_BYTES)
		printer_flush(printer);
	from = printer->used;
	if (printer->json)
		add_format(printer, ",\"owner\":{\"id\":%u,\"type\":\"%s\",\"text\":\"", owner->id, owner->type);
	else
		add_format(printer, "[%.*s%u%s", PREFIX_BYTES_MAX, owner->prefix, owner->id, owner->text[0] ? " " : "");
	add_foreign(printer, owner->text, strlen(owner->text));
	add_text(printer, printer->json ? "\"}" : "]  ");
	must(printer->used >= from);
	add_char(printer, '\0');
	printer->used = from;
	return make_piece("%s", printer->buffer + from);
}

void add_thread_name(struct reader_printer *printer, uint32_t index)
{
	struct piece *piece = &printer->threads[index];
	struct reader_thread thread;

	if (!piece->text)
		*piece = make_piece("%s", reader_thread(printer->reader, index, &thread) ? thread.name : "?");
	add_foreign(printer, piece->text, piece->bytes);
}

const struct piece *owner_piece(struct reader_printer *printer, uint16_t owner_id, uint64_t tick)
{
	struct owner_piece *piece = &printer->owners[owner_id % OWNER_PIECES];
	struct reader_owner owner;

	if (owner_id == 0)
		return NULL;
	if (unlikely(piece->owner != owner_id || tick < piece->from || tick > piece->to)) {
		if (!reader_owner(printer->reader, owner_id, tick, &owner))
			return NULL;
		free((void *)piece->piece.text);
		*piece = (struct owner_piece){
			.owner = owner_id,
			.from = owner.from_tick,
			.to = owner.to_tick,
			.piece = make_owner_piece(printer, &owner),
		};
	}
	return &piece->piece;
}

void add_owner(struct reader_printer *printer, uint16_t owner_id, uint64_t tick)
{
	const struct piece *piece = owner_piece(printer, owner_id, tick);

	if (piece)
		add(printer, piece->text, piece->bytes);
}

/* ---- public functions ---- */

int reader_printer_create(struct reader *reader, FILE *file, enum reader_print_style style, bool wall,
			  struct reader_printer **printer_ret)
{
	struct reader_printer *printer;

	if (wall && reader->pair_count == 0)
		return -ENODATA;
	printer = malloc(sizeof(*printer));
	must(printer);
	memset(printer, 0, offsetof(struct reader_printer, buffer));
	printer->reader = reader;
	printer->file = file;
	printer->json = style == READER_PRINT_JSON;
	printer->wall = wall;
	printer->points = calloc(reader->schema.point_count + 1, sizeof(*printer->points));
	must(printer->points);
	for (uint32_t i = 0; i < reader->schema.point_count; i++)
		printer->name_width = (int)max_u64((uint64_t)printer->name_width,
						   min_u64(strlen(reader->schema.points[i].name), NAME_WIDTH_MAX));
	for (uint32_t i = 0; i < reader->schema.point_count; i++)
		make_pieces(printer, &reader->schema.points[i], &printer->points[i]);
	if (!printer->json)
		printer->lines = event_lines_create(printer);
	*printer_ret = printer;
	return 0;
}

void reader_printer_set_process(struct reader_printer *printer, const char *label, int label_width, uint64_t start_ns)
{
	must(!printer->process.text);
	printer->process = printer->json ? make_piece("\"process\":\"%s\",", label)
					 : make_piece("%-*s  ", label_width, label);
	snprintf(printer->label, sizeof(printer->label), "%s", label);
	printer->start_ns = start_ns;
}

void reader_printer_yield(struct reader_printer *printer)
{
	printer_flush(printer);
}

int reader_printer_flush(struct reader_printer *printer)
{
	printer_flush(printer);
	if (fflush(printer->file) != 0 && !printer->error)
		printer->error = -errno;
	for (uint32_t i = 0; i < OWNER_PIECES; i++)
		printer->owners[i].owner = 0;
	return printer->error;
}

int reader_printer_destroy(struct reader_printer *printer)
{
	int error;

	if (!printer)
		return 0;
	printer_flush(printer);
	if (fflush(printer->file) != 0 && !printer->error)
		printer->error = -errno;
	for (uint32_t i = 0; i < printer->reader->schema.point_count; i++) {
		free((void *)printer->points[i].name.text);
		for (uint32_t arg = 0; arg < printer->reader->schema.points[i].arg_count; arg++)
			free((void *)printer->points[i].args[arg].text);
	}
	for (int i = 0; i < OWNER_PIECES; i++)
		free((void *)printer->owners[i].piece.text);
	for (int i = 0; i < READER_THREADS_MAX; i++)
		free((void *)printer->threads[i].text);
	event_lines_free(printer->lines, printer);
	free((void *)printer->process.text);
	error = printer->error;
	free(printer->points);
	free(printer);
	return error;
}

void add_object_json(struct reader_printer *printer, const struct reader_object *object, uint32_t id, const char *key)
{
	ADD_LITERAL(printer, ",\"");
	add_text(printer, key);
	ADD_LITERAL(printer, "\":\"");
	add_object_id(printer, object, id);
	ADD_LITERAL(printer, "\",\"");
	add_text(printer, key);
	ADD_LITERAL(printer, "_type\":\"");
	add_text(printer, object->name);
	add_char(printer, '"');
}
