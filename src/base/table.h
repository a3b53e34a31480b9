/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table - columns of text for a terminal, in two forms:
 *
 *   struct table       collects rows; each column becomes as wide as its longest cell
 *   struct table_line  makes one line at a time, allocates nothing; a column has the width in its row of the layout
 *
 * Each cell is padded to its column's width. In a table_line a longer cell moves the cells behind it. Widths count UTF-8
 * characters. A cell is one line: newlines and tabs become blanks, other control characters and invalid bytes '?'.
 *
 * Not here: rows without titles, such as a list of names with a text each, which one printf() prints; lines of events
 * (inspect/trace/print_line.c), which are made of prepared pieces for speed; the screen of `fathom top`
 * (cmd/fathom/top/draw.c), which chooses columns by the width of the terminal and cuts long cells.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/must.h"

enum {
	TABLE_COLUMNS_MAX = 32,
	TABLE_LINE_BYTES = 1024, /* of a table_line; what does not fit is left out */
};

enum table_align { TABLE_LEFT, TABLE_RIGHT };

struct table_column {
	const char *title;
	enum table_align align;
	uint8_t width; /* at least */
};

/* Borrowed by a table_line while it is used; copied by a table. */
struct table_layout {
	const struct table_column *columns;
	size_t column_count; /* from 1 to TABLE_COLUMNS_MAX */
	uint8_t indent;	     /* blanks before each line */
	uint8_t gap;	     /* blanks between two cells */
	bool dashes;	     /* struct table: print a line of dashes below the titles */
	bool gap_at_end;     /* struct table: print the gap behind the last cell, too */
};

#define TABLE_COLUMNS(array) .columns = (array), .column_count = ARRAY_COUNT(array)

/* ---- collected rows; one thread at a time ---- */

struct table;

/* Copies the titles. NULL: out of memory. */
struct table *table_create(const struct table_layout *layout);
void table_destroy(struct table *table); /* NULL is fine */

/* Add a row with one cell for each column. Copies the cells. Errors: -ENOMEM. */
MUST_CHECK int table_add(struct table *table, const char *const *cells);

/* Print titles and rows, each line after `indent` more blanks. Check ferror(`out`) for write errors. */
void table_print(const struct table *table, unsigned int indent, FILE *out);

/* ---- one line at a time ---- */

struct table_line {
	const struct table_layout *layout;
	size_t column; /* of the next cell */
	size_t used;
	char text[TABLE_LINE_BYTES];
};

/* Follow it by one table_cell() for each column, in order. */
void table_line_begin(struct table_line *line, const struct table_layout *layout);
void table_cell(struct table_line *line, const char *format, ...) PRINTF_LIKE(2, 3);
/* The line, without blanks at its end and without a newline; all its cells must have been added. Borrowed from `line`. */
const char *table_line_text(const struct table_line *line);
/* The line with the titles; the rest as table_line_text(). */
const char *table_line_titles(struct table_line *line, const struct table_layout *layout);

#endif
