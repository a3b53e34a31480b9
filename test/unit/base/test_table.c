/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables and lines of tables: padding, alignment, gaps, control characters in cells, long lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

static const struct table_column columns[] = { { "STAGE", TABLE_LEFT, 8 },
					       { "COUNT", TABLE_RIGHT, 6 },
					       { "", TABLE_LEFT, 0 } };
static const struct table_layout layout = { TABLE_COLUMNS(columns), .indent = 2, .gap = 1 };

static const char *make_line(struct table_line *line, const char *stage, uint64_t count, const char *text)
{
	table_line_begin(line, &layout);
	table_cell(line, "%s", stage);
	table_cell(line, "%" PRIu64, count);
	table_cell(line, "%s", text);
	return table_line_text(line);
}

/* Print a table of `layout_of` with `rows` of its cells. */
static char *print(const struct table_layout *layout_of, const char *const *cells, size_t rows, unsigned int indent)
{
	struct table *table = table_create(layout_of);
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(table);
	assert_non_null(out);
	for (size_t row = 0; row < rows; row++)
		assert_int_equal(table_add(table, cells + row * layout_of->column_count), 0);
	table_print(table, indent, out);
	assert_int_equal(fclose(out), 0);
	table_destroy(table);
	return text;
}

static void assert_prints(const struct table_layout *layout_of, const char *const *cells, size_t rows, unsigned int indent,
			  const char *expected)
{
	char *text = print(layout_of, cells, rows, indent);

	assert_string_equal(text, expected);
	free(text);
}

static void a_line_has_the_widths_of_its_layout(void **state)
{
	struct table_line line;

	assert_string_equal(table_line_titles(&line, &layout), "  STAGE     COUNT");
	assert_string_equal(make_line(&line, "QUEUED", 17, "waits"), "  QUEUED       17 waits");
}

static void a_long_cell_moves_the_following_cells(void **state)
{
	struct table_line line;

	assert_string_equal(make_line(&line, "EXECUTING", 1234567, "runs"), "  EXECUTING 1234567 runs");
}

static void a_line_has_no_trailing_blanks(void **state)
{
	static const struct table_column left[] = { { "A", TABLE_LEFT, 8 }, { "B", TABLE_LEFT, 8 } };
	static const struct table_layout two = { TABLE_COLUMNS(left), .gap = 2 };
	struct table_line line;

	assert_string_equal(make_line(&line, "QUEUED", 17, ""), "  QUEUED       17");
	table_line_begin(&line, &two);
	table_cell(&line, "%s", "");
	table_cell(&line, "%s", "");
	assert_string_equal(table_line_text(&line), "");
}

static void control_characters_in_a_cell_are_replaced(void **state)
{
	struct table_line line;

	assert_string_equal(make_line(&line, "gr\xc3\xbc\xc3\x9f", 1, "a\tb\nc\x1b[J\xff"),
			    "  gr\xc3\xbc\xc3\x9f          1 a b c?[J?");
}

static void a_line_is_cut_at_its_limit(void **state)
{
	char long_text[2 * TABLE_LINE_BYTES];
	struct table_line line;
	const char *text;

	memset(long_text, 'x', sizeof(long_text));
	long_text[sizeof(long_text) - 1] = '\0';
	text = make_line(&line, long_text, 1, long_text);
	assert_int_equal(strlen(text), TABLE_LINE_BYTES - 1);
	assert_memory_equal(text, "  xxx", 5);
	assert_int_equal(text[TABLE_LINE_BYTES - 2], 'x');
	/* a character is not cut */
	long_text[TABLE_LINE_BYTES - 4] = '\xc3';
	long_text[TABLE_LINE_BYTES - 3] = '\xbc';
	text = make_line(&line, long_text, 1, "");
	assert_int_equal(strlen(text), TABLE_LINE_BYTES - 2);
	assert_int_equal(text[TABLE_LINE_BYTES - 3], 'x');
}

static void columns_of_a_table_are_as_wide_as_their_longest_cell(void **state)
{
	static const struct table_column two[] = { { "NAME", TABLE_LEFT, 0 }, { "IOPS", TABLE_RIGHT, 0 } };
	static const struct table_layout plain = { TABLE_COLUMNS(two), .gap = 2 };
	static const char *const cells[] = { "m0", "123456",
					     ("gr\xc3\xbc\xc3\x9f"
					      "er"),
					     "7" };

	assert_prints(&plain, cells, 2, 0,
		      "NAME      IOPS\nm0      123456\ngr\xc3\xbc\xc3\x9f"
		      "er       7\n");
	assert_prints(&plain, cells, 0, 0, "NAME  IOPS\n");
}

static void columns_are_at_least_as_wide_as_the_layout(void **state)
{
	static const char *const cells[] = { "a", "1", "b" };

	assert_prints(&layout, cells, 1, 3, "     STAGE     COUNT  \n     a             1 b\n");
}

static void a_table_has_dashes_below_titles_and_a_trailing_gap(void **state)
{
	static const struct table_column two[] = { { "Name", TABLE_LEFT, 6 }, { "Size", TABLE_RIGHT, 6 } };
	static const struct table_layout dashed = { TABLE_COLUMNS(two), .gap = 1, .dashes = true, .gap_at_end = true };
	static const char *const cells[] = { "vol", "1" };

	assert_prints(&dashed, cells, 1, 0, "Name     Size \n----     ---- \nvol         1 \n");
}

static void a_table_can_be_printed_twice(void **state)
{
	static const struct table_column one[] = { { "Name", TABLE_LEFT, 0 } };
	static const struct table_layout dashed = { TABLE_COLUMNS(one), .gap = 1, .dashes = true };
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	struct table *table = table_create(&dashed);

	assert_non_null(table);
	assert_non_null(out);
	table_print(table, 0, out);
	table_print(table, 0, out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "Name\n----\nName\n----\n");
	table_destroy(table);
	free(text);
}

/* More bytes than the buffer of the output, cells that are longer than it, and characters of several bytes. */
static void long_tables_are_complete(void **state)
{
	enum { ROWS = 3000, LONG_BYTES = 100000 };
	static const struct table_column two[] = { { "A", TABLE_LEFT, 0 }, { "B", TABLE_RIGHT, 0 } };
	static const struct table_layout plain = { TABLE_COLUMNS(two), .gap = 1 };
	const char **cells = calloc(2 * ROWS, sizeof(*cells));
	char *long_cell = malloc(LONG_BYTES + 1), *text, *at;

	assert_non_null(cells);
	assert_non_null(long_cell);
	for (size_t i = 0; i < ROWS; i++) {
		cells[2 * i] = i % 2 ? "odd" : "\xc3\xbc\x01";
		cells[2 * i + 1] = "7";
	}
	text = print(&plain, cells, ROWS, 2);
	at = text;
	for (size_t i = 0; i <= ROWS; i++) {
		const char *line = i == 0 ? "  A   B\n" : i % 2 ? "  \xc3\xbc?  7\n" : "  odd 7\n";

		assert_memory_equal(at, line, strlen(line));
		at += strlen(line);
	}
	assert_int_equal(*at, 0);
	free(text);
	memset(long_cell, 'x', LONG_BYTES);
	long_cell[LONG_BYTES] = '\0';
	cells[0] = long_cell;
	text = print(&plain, cells, 2, 0);
	assert_int_equal(strlen(text), 3 * (LONG_BYTES + strlen(" 7\n")));
	free(text);
	free(long_cell);
	free(cells);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_the_widths_of_its_layout),
		cmocka_unit_test(a_long_cell_moves_the_following_cells),
		cmocka_unit_test(a_line_has_no_trailing_blanks),
		cmocka_unit_test(control_characters_in_a_cell_are_replaced),
		cmocka_unit_test(a_line_is_cut_at_its_limit),
		cmocka_unit_test(columns_of_a_table_are_as_wide_as_their_longest_cell),
		cmocka_unit_test(columns_are_at_least_as_wide_as_the_layout),
		cmocka_unit_test(a_table_has_dashes_below_titles_and_a_trailing_gap),
		cmocka_unit_test(a_table_can_be_printed_twice),
		cmocka_unit_test(long_tables_are_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
