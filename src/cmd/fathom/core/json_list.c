/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json_list - a list of objects as JSON. A core can have a hundred thousand rows: so bytes are put into a buffer, and keys
 * are made once for each list.
 */
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/core/core_command.h"

enum { OUT_BYTES = 64 * 1024, KEY_BYTES = 32, COLUMNS_MAX = 32, PIECE_BYTES = 64 };
static_assert(TEXT_NUMBER_BYTES + 4 <= PIECE_BYTES, "a number is a piece");

struct out {
	size_t used;
	char data[OUT_BYTES];
};

static void flush_out(struct out *out)
{
	fwrite(out->data, 1, out->used, stdout); /* main() reports errors of standard output */
	out->used = 0;
}

/* There is room for a key and a piece of a text, or a number. */
static void make_room(struct out *out)
{
	if (OUT_BYTES - out->used < KEY_BYTES + PIECE_BYTES)
		flush_out(out);
}

/* At most PIECE_BYTES bytes. */
static void put(struct out *out, const char *from, size_t bytes)
{
	make_room(out);
	memcpy(out->data + out->used, from, bytes);
	out->used += bytes;
}

static void put_number(struct out *out, uint64_t number, bool is_address)
{
	if (is_address) {
		put(out, "\"0x", 3);
		out->used += text_hexadecimal(out->data + out->used, number);
		out->data[out->used++] = '"';
	} else {
		out->used += text_decimal(out->data + out->used, number);
	}
}

static bool is_plain(char c)
{
	return (unsigned char)(c - 0x20) < 0x7f - 0x20 && c != '"' && c != '\\';
}

static void put_text(struct out *out, const char *text)
{
	char escaped[TEXT_JSON_BYTES_MAX];
	size_t read;

	out->data[out->used++] = '"';
	while (*text) {
		size_t used = out->used, end = used + PIECE_BYTES;

		for (; used < end && is_plain(*text); text++)
			out->data[used++] = *text;
		out->used = used;
		make_room(out);
		if (*text && !is_plain(*text)) {
			put(out, escaped, text_json_escape(escaped, text, strlen(text), TEXT_JSON_PLAIN, &read));
			text += read;
			make_room(out);
		}
	}
	out->data[out->used++] = '"';
}

static void put_cell(struct out *out, enum core_cell_kind kind, const union core_cell *cell)
{
	switch (kind) {
	case CORE_CELL_TEXT:
		if (cell->text)
			put_text(out, cell->text);
		else
			put(out, "null", 4);
		return;
	case CORE_CELL_ADDRESS:
		if (cell->number)
			put_number(out, cell->number, true);
		else
			put(out, "null", 4);
		return;
	case CORE_CELL_FLAG:
		put(out, cell->number ? "true" : "false", cell->number ? 4 : 5);
		return;
	case CORE_CELL_NUMBER:
	case CORE_CELL_NS:
		put_number(out, cell->number, false);
		return;
	}
}

void core_print_json_key(const char *name)
{
	putchar('"');
	for (const char *at = name; *at; at++)
		putchar(*at == '-' ? '_' : *at);
	fputs("\":", stdout);
}

void core_print_json_list(const struct core_list *list)
{
	char keys[COLUMNS_MAX][KEY_BYTES];
	size_t lengths[COLUMNS_MAX];
	const union core_cell *cell = list->cells;
	struct out out;

	out.used = 0;
	must(list->column_count <= COLUMNS_MAX);
	for (uint32_t i = 0; i < list->column_count; i++) {
		lengths[i] = (size_t)snprintf(keys[i], KEY_BYTES, "%s\"%s\":", i ? "," : "{", list->columns[i].key);
		must(lengths[i] < KEY_BYTES);
	}
	core_print_json_key(list->name);
	put(&out, "[", 1);
	for (uint32_t row = 0; row < list->row_count; row++) {
		if (row)
			put(&out, ",", 1);
		for (uint32_t i = 0; i < list->column_count; i++, cell++) {
			make_room(&out);
			memcpy(out.data + out.used, keys[i], KEY_BYTES); /* of a constant length: costs no call */
			out.used += lengths[i];
			put_cell(&out, list->columns[i].kind, cell);
		}
		put(&out, "}", 1);
	}
	put(&out, "]", 1);
	flush_out(&out);
}
