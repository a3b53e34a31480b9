/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum {
	TABLE_TITLE_MAX = 128, /* characters */
	OUT_BYTES = 32 * 1024,
	SHORT_BYTES = 32, /* shorter pieces are copied as one of this length, which costs no call */
};

struct cell {
	uint32_t bytes, width;
};

struct table {
	struct table_layout layout; /* its `columns` are those below, without titles: these are the first row */
	struct table_column columns[TABLE_COLUMNS_MAX];
	size_t widths[TABLE_COLUMNS_MAX];
	size_t cell_count; /* with the titles */
	size_t cell_room;
	struct cell *cells;
	char *text; /* of all cells, one behind the other */
	size_t text_used, text_room;
};

/* Copy `text` as one line; `to` has room for all of it. */
static void copy_line(char *to, const char *text, size_t bytes)
{
	size_t copied = text_utf8_copy(to, bytes, text, bytes);

	must(copied <= bytes);
	to[copied] = '\0';
	for (size_t i = 0; i < copied; i++) {
		if (to[i] == '\n' || to[i] == '\t')
			to[i] = ' ';
	}
}

/* Blanks before and behind a cell. */
struct padding {
	int before, behind;
};

static struct padding padding_of(const struct table_column *column, size_t width, size_t own)
{
	int blanks = own < width ? (int)(width - own) : 0;

	return column->align == TABLE_RIGHT ? (struct padding){ .before = blanks } : (struct padding){ .behind = blanks };
}

static void check_layout(const struct table_layout *layout)
{
	must(layout->column_count > 0);
	must(layout->column_count <= TABLE_COLUMNS_MAX);
}

/* ---- collected rows ---- */

/* Add the titles and, if the layout has them, the dashes below: both are rows like the others. */
static int add_titles(struct table *table, const struct table_column *columns)
{
	const char *titles[TABLE_COLUMNS_MAX], *dashes[TABLE_COLUMNS_MAX];
	char line[TABLE_TITLE_MAX + 1];
	int error;

	memset(line, '-', TABLE_TITLE_MAX);
	line[TABLE_TITLE_MAX] = '\0';
	for (size_t i = 0; i < table->layout.column_count; i++) {
		size_t width = text_utf8_width(columns[i].title);

		must(width <= TABLE_TITLE_MAX);
		titles[i] = columns[i].title;
		dashes[i] = line + TABLE_TITLE_MAX - width;
	}
	error = table_add(table, titles);
	return error || !table->layout.dashes ? error : table_add(table, dashes);
}

struct table *table_create(const struct table_layout *layout)
{
	struct table *table = calloc(1, sizeof(*table));

	check_layout(layout);
	if (!table)
		return NULL;
	table->layout = *layout;
	table->layout.columns = table->columns;
	for (size_t i = 0; i < layout->column_count; i++) {
		table->columns[i] = (struct table_column){ .align = layout->columns[i].align,
							   .width = layout->columns[i].width };
		table->widths[i] = layout->columns[i].width;
	}
	if (add_titles(table, layout->columns) < 0) {
		table_destroy(table);
		return NULL;
	}
	return table;
}

void table_destroy(struct table *table)
{
	if (!table)
		return;
	free(table->cells);
	free(table->text);
	free(table);
}

static bool make_room_for_text(struct table *table, size_t bytes)
{
	size_t room = max_u64(max_u64(table->text_used + bytes, 2 * table->text_room), 1024);
	char *grown;

	if (bytes <= table->text_room - table->text_used)
		return true;
	grown = realloc(table->text, room);
	if (!grown)
		return false;
	table->text = grown;
	table->text_room = room;
	return true;
}

static bool make_room_for_cell(struct table *table)
{
	size_t room = max_u64(2 * table->cell_room, 64);
	struct cell *grown;

	if (table->cell_count < table->cell_room)
		return true;
	grown = realloc(table->cells, room * sizeof(*grown));
	if (!grown)
		return false;
	table->cells = grown;
	table->cell_room = room;
	return true;
}

/* Append a cell. `text` of printable ASCII is copied as it is. */
static bool add_cell(struct table *table, size_t column, const char *text)
{
	size_t bytes = strlen(text), width = bytes;
	bool is_plain = true;
	char *to;

	if (bytes > INT32_MAX || !make_room_for_text(table, bytes + SHORT_BYTES) || !make_room_for_cell(table))
		return false;
	to = table->text + table->text_used;
	for (size_t i = 0; i < bytes; i++) {
		to[i] = text[i];
		is_plain &= (unsigned char)(text[i] - 0x20) < 0x7f - 0x20;
	}
	if (!is_plain) {
		copy_line(to, text, bytes);
		bytes = strlen(to);
		width = text_utf8_width(to);
	}
	table->text_used += bytes;
	table->cells[table->cell_count++] = (struct cell){ .bytes = (uint32_t)bytes, .width = (uint32_t)width };
	table->widths[column] = max_u64(table->widths[column], width);
	return true;
}

int table_add(struct table *table, const char *const *cells)
{
	size_t text_used = table->text_used, cell_count = table->cell_count;

	for (size_t i = 0; i < table->layout.column_count; i++) {
		if (!add_cell(table, i, cells[i])) {
			table->text_used = text_used;
			table->cell_count = cell_count;
			return -ENOMEM;
		}
	}
	return 0;
}

struct out {
	FILE *file;
	size_t used;
	char data[OUT_BYTES];
};

static void flush_out(struct out *out)
{
	fwrite(out->data, 1, out->used, out->file);
	out->used = 0;
}

/* SHORT_BYTES bytes at `from` can be read. */
static void put_bytes(struct out *out, const char *from, size_t bytes)
{
	if (bytes <= SHORT_BYTES && OUT_BYTES - out->used >= SHORT_BYTES) {
		memcpy(out->data + out->used, from, SHORT_BYTES);
		out->used += bytes;
		return;
	}
	if (bytes > OUT_BYTES - out->used)
		flush_out(out);
	if (bytes > OUT_BYTES) {
		fwrite(from, 1, bytes, out->file);
		return;
	}
	memcpy(out->data + out->used, from, bytes);
	out->used += bytes;
}

static void put_blanks(struct out *out, size_t count)
{
	static const char blanks[SHORT_BYTES + 1] = "                                ";

	if (count <= SHORT_BYTES) {
		put_bytes(out, blanks, count);
		return;
	}
	while (count) {
		size_t part = min_u64(count, OUT_BYTES - out->used);

		if (part == 0)
			flush_out(out);
		memset(out->data + out->used, ' ', part);
		out->used += part;
		count -= part;
	}
}

void table_print(const struct table *table, unsigned int indent, FILE *file)
{
	const struct table_layout *layout = &table->layout;
	static const char end[SHORT_BYTES] = "\n";
	const char *text = table->text;
	struct out out;

	must(table->cell_count > 0); /* the titles */
	out.file = file;
	out.used = 0;
	for (size_t i = 0, column = 0; i < table->cell_count; i++) {
		const struct cell *cell = &table->cells[i];
		struct padding padding = padding_of(&layout->columns[column], table->widths[column], cell->width);
		bool is_last = column + 1 == layout->column_count;

		if (column == 0)
			put_blanks(&out, layout->indent + indent);
		put_blanks(&out, (size_t)padding.before);
		put_bytes(&out, text, cell->bytes);
		put_blanks(&out, (size_t)padding.behind + (!is_last || layout->gap_at_end ? layout->gap : 0));
		if (is_last)
			put_bytes(&out, end, 1);
		text += cell->bytes;
		column = is_last ? 0 : column + 1;
	}
	flush_out(&out);
}

/* ---- one line at a time ---- */

/* Add what fits. */
static void add_text(struct table_line *line, const char *text, size_t bytes)
{
	must(line->used < sizeof(line->text));
	line->used += text_utf8_copy(line->text + line->used, min_u64(bytes, sizeof(line->text) - 1 - line->used), text,
				     bytes);
	line->text[line->used] = '\0';
}

static void add_blanks(struct table_line *line, int count)
{
	size_t blanks = min_u64((uint64_t)count, sizeof(line->text) - 1 - line->used);

	memset(line->text + line->used, ' ', blanks);
	line->used += blanks;
	line->text[line->used] = '\0';
}

void table_line_begin(struct table_line *line, const struct table_layout *layout)
{
	check_layout(layout);
	line->layout = layout;
	line->column = 0;
	line->used = 0;
	add_blanks(line, layout->indent);
}

void table_cell(struct table_line *line, const char *format, ...)
{
	const struct table_column *column;
	char made[TABLE_LINE_BYTES], cell[TABLE_LINE_BYTES];
	struct padding padding;
	va_list args;

	must(line->column < line->layout->column_count);
	va_start(args, format);
	vsnprintf(made, sizeof(made), format, args);
	va_end(args);
	column = &line->layout->columns[line->column];
	copy_line(cell, made, strlen(made));
	padding = padding_of(column, column->width, text_utf8_width(cell));
	if (line->column > 0)
		add_blanks(line, line->layout->gap);
	add_blanks(line, padding.before);
	add_text(line, cell, strlen(cell));
	add_blanks(line, padding.behind);
	line->column++;
	if (line->column < line->layout->column_count)
		return;
	while (line->used > 0 && line->text[line->used - 1] == ' ')
		line->used--;
	line->text[line->used] = '\0';
}

const char *table_line_text(const struct table_line *line)
{
	must(line->column == line->layout->column_count);
	return line->text;
}

const char *table_line_titles(struct table_line *line, const struct table_layout *layout)
{
	table_line_begin(line, layout);
	for (size_t i = 0; i < layout->column_count; i++)
		table_cell(line, "%s", layout->columns[i].title);
	return table_line_text(line);
}
