/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { TABLE_TITLE_MAX = 128 }; /* characters */

struct table {
	struct table_layout layout; /* its `columns` are those below, without titles: these are the first row */
	struct table_column columns[TABLE_COLUMNS_MAX];
	size_t row_count; /* with the titles */
	size_t row_room;
	char **cells;
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

static struct padding padding_of(const struct table_column *column, size_t width, const char *cell)
{
	size_t own = text_utf8_width(cell);
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
	for (size_t i = 0; i < layout->column_count; i++)
		table->columns[i] = (struct table_column){ .align = layout->columns[i].align,
							   .width = layout->columns[i].width };
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
	for (size_t i = 0; i < table->row_count * table->layout.column_count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

static bool copy_row(char **row, const char *const *cells, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t bytes = strlen(cells[i]);

		row[i] = malloc(bytes + 1);
		if (!row[i]) {
			while (i > 0)
				free(row[--i]);
			return false;
		}
		copy_line(row[i], cells[i], bytes);
	}
	return true;
}

int table_add(struct table *table, const char *const *cells)
{
	size_t column_count = table->layout.column_count;

	must(table->row_count <= table->row_room);
	if (table->row_count == table->row_room) {
		size_t room = max_u64(table->row_room * 2, 8);
		char **grown = realloc(table->cells, room * column_count * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		table->cells = grown;
		table->row_room = room;
	}
	if (!copy_row(table->cells + table->row_count * column_count, cells, column_count))
		return -ENOMEM;
	table->row_count++;
	return 0;
}

static void print_row(const struct table_layout *layout, const size_t *widths, char *const *cells, unsigned int indent,
		      FILE *out)
{
	fprintf(out, "%*s", (int)(layout->indent + indent), "");
	for (size_t i = 0; i < layout->column_count; i++) {
		struct padding padding = padding_of(&layout->columns[i], widths[i], cells[i]);
		bool has_gap = layout->gap_at_end || i + 1 < layout->column_count;

		fprintf(out, "%*s%s%*s", padding.before, "", cells[i], padding.behind + (has_gap ? layout->gap : 0), "");
	}
	fputc('\n', out);
}

void table_print(const struct table *table, unsigned int indent, FILE *out)
{
	size_t widths[TABLE_COLUMNS_MAX] = { 0 }, column_count = table->layout.column_count;

	must(table->row_count > 0); /* the titles */
	for (size_t i = 0; i < column_count; i++)
		widths[i] = table->columns[i].width;
	for (size_t i = 0; i < table->row_count * column_count; i++)
		widths[i % column_count] = max_u64(widths[i % column_count], text_utf8_width(table->cells[i]));
	for (size_t row = 0; row < table->row_count; row++)
		print_row(&table->layout, widths, table->cells + row * column_count, indent, out);
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
	padding = padding_of(column, column->width, cell);
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
