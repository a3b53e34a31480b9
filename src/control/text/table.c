/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/text/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"

static_assert(SIZE_TEXT_BYTES > sizeof("18446744073709551615 kB"), "the longest number and unit fit");

struct table {
	size_t column_count;
	size_t row_count; /* with the titles */
	size_t row_room;
	char **cells;
};

/* Width on a terminal, in characters. */
static size_t width_of(const char *text)
{
	size_t width = 0;

	for (size_t left = strlen(text); left > 0; width++) {
		size_t bytes = max_u64(text_utf8_length(text, left), 1);

		text += bytes;
		left -= bytes;
	}
	return width;
}

static char *copy_cell(const char *text)
{
	size_t room = strlen(text), bytes;
	char *copy = malloc(room + 1);

	if (!copy)
		return NULL;
	bytes = text_utf8_copy(copy, room, text, room);
	must(bytes <= room);
	copy[bytes] = '\0';
	for (size_t i = 0; i < bytes; i++) {
		if (copy[i] == '\n' || copy[i] == '\t')
			copy[i] = ' ';
	}
	return copy;
}

struct table *table_create(const char *const *titles, size_t column_count)
{
	struct table *table = calloc(1, sizeof(*table));

	must(column_count > 0);
	must(column_count <= TABLE_COLUMNS_MAX);
	if (!table)
		return NULL;
	table->column_count = column_count;
	if (table_add(table, titles) < 0) {
		table_destroy(table);
		return NULL;
	}
	return table;
}

void table_destroy(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->row_count * table->column_count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

static bool copy_row(char **row, const char *const *cells, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		row[i] = copy_cell(cells[i]);
		if (!row[i]) {
			while (i > 0)
				free(row[--i]);
			return false;
		}
	}
	return true;
}

int table_add(struct table *table, const char *const *cells)
{
	must(table->row_count <= table->row_room);
	if (table->row_count == table->row_room) {
		size_t room = max_u64(table->row_room * 2, 8);
		char **grown = realloc(table->cells, room * table->column_count * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		table->cells = grown;
		table->row_room = room;
	}
	if (!copy_row(table->cells + table->row_count * table->column_count, cells, table->column_count))
		return -ENOMEM;
	table->row_count++;
	return 0;
}

static void print_padded(const char *text, size_t width, FILE *out)
{
	size_t own = width_of(text);

	must(own <= width);
	fprintf(out, "%s%*s", text, (int)(width - own), "");
}

static void print_dashes(size_t count, FILE *out)
{
	while (count-- > 0)
		fputc('-', out);
}

void table_print(const struct table *table, unsigned int indent, FILE *out)
{
	size_t widths[TABLE_COLUMNS_MAX] = { 0 };

	must(table->row_count > 0); /* the titles */
	for (size_t i = 0; i < table->row_count * table->column_count; i++)
		widths[i % table->column_count] = max_u64(widths[i % table->column_count], width_of(table->cells[i]));
	for (size_t row = 0; row < table->row_count; row++) {
		char *const *cells = table->cells + row * table->column_count;

		fprintf(out, "%*s", (int)indent, "");
		for (size_t i = 0; i < table->column_count; i++) {
			print_padded(cells[i], widths[i], out);
			fputc(' ', out);
		}
		fputc('\n', out);
		if (row > 0)
			continue;
		fprintf(out, "%*s", (int)indent, "");
		for (size_t i = 0; i < table->column_count; i++) {
			print_dashes(width_of(cells[i]), out);
			fprintf(out, "%*s", (int)(widths[i] - width_of(cells[i]) + 1), "");
		}
		fputc('\n', out);
	}
}

void entity_print(const char *title, const char *const *pairs, size_t pair_count, unsigned int indent, FILE *out)
{
	size_t key_width = 0, value_width = 0;

	if (title) {
		fprintf(out, "%*s%s\n%*s", (int)indent, "", title, (int)indent, "");
		print_dashes(width_of(title), out);
		fputc('\n', out);
	}
	for (size_t i = 0; i < pair_count; i++) {
		key_width = max_u64(key_width, width_of(pairs[2 * i]));
		value_width = max_u64(value_width, width_of(pairs[2 * i + 1]));
	}
	for (size_t i = 0; i < pair_count; i++) {
		fprintf(out, "%*s", (int)indent + 2, "");
		print_padded(pairs[2 * i], key_width, out);
		fputs(": ", out);
		print_padded(pairs[2 * i + 1], value_width, out);
		fputc('\n', out);
	}
}

void heading_print(const char *text, unsigned int indent, FILE *out)
{
	fprintf(out, "%*s", (int)indent, "");
	print_dashes(width_of(text), out);
	fprintf(out, "\n%*s%s\n%*s", (int)indent, "", text, (int)indent, "");
	print_dashes(width_of(text), out);
	fputc('\n', out);
}

const char *size_text(uint64_t bytes, char *text)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
	size_t unit = 0;
	uint64_t divisor = 1, tenths;

	while (unit + 1 < ARRAY_COUNT(units) && bytes / divisor >= 1000) {
		divisor *= 1000;
		unit++;
	}
	if (unit == 0) {
		snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 " B", bytes);
		return text;
	}
	must(unit < ARRAY_COUNT(units));
	/* in tenths, rounded half up; one decimal is shown below 10 */
	tenths = bytes / divisor * 10 + (bytes % divisor * 10 + divisor / 2) / divisor;
	must(tenths >= 10); /* else a smaller unit fits */
	if (tenths < 100)
		snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, units[unit]);
	else
		snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 " %s", (tenths + 5) / 10, units[unit]);
	return text;
}
