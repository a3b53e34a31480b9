/* SPDX-License-Identifier: BSD-2-Clause */
/* help - prints the help of a table of options; see options.h. */
#include <stdlib.h>
#include <string.h>

#include "cmd/options/options.h"

enum { LINE_COLUMNS = 100, NAME_COLUMNS_MAX = 30, NAME_BYTES = 128 };

/* Print the words of `text` from column `column` on, and end the line. Continuation lines begin at column `indent`. */
static void print_wrapped(FILE *to, const char *text, size_t column, size_t indent)
{
	while (*text) {
		size_t bytes = strcspn(text, " ");

		if (column > indent && column + 1 + bytes > LINE_COLUMNS) {
			fprintf(to, "\n%*s", (int)indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', to);
			column++;
		}
		fwrite(text, 1, bytes, to);
		column += bytes;
		text += bytes;
		text += strspn(text, " ");
	}
	fputc('\n', to);
}

/* Paragraphs; a line that begins with a blank is printed as it is. */
static void print_paragraphs(FILE *to, const char *text)
{
	while (*text) {
		size_t bytes = strcspn(text, "\n");

		if (*text == ' ' || bytes == 0) {
			fwrite(text, 1, bytes, to);
			fputc('\n', to);
		} else {
			char *line = strndup(text, bytes);

			must(line);
			print_wrapped(to, line, 0, 0);
			free(line);
		}
		text += bytes + (text[bytes] == '\n');
	}
}

/* Return the width of the names' column with `name`; a longer name than the limit gets a line of its own. */
static size_t fit_name_column(size_t columns, const char *name)
{
	size_t bytes = strlen(name);

	return bytes > columns && bytes <= NAME_COLUMNS_MAX ? bytes : columns;
}

static void print_help_row(FILE *to, const char *name, const char *help, size_t columns)
{
	size_t bytes = strlen(name), indent = 2 + columns + 2;

	fprintf(to, "  %s", name);
	if (bytes > columns)
		fprintf(to, "\n%*s", (int)indent, "");
	else
		fprintf(to, "%*s", (int)(columns - bytes + 2), "");
	print_wrapped(to, help, indent, indent);
}

/* ---- options ---- */

static const char *format_option_name(const struct option_row *row, char text[NAME_BYTES])
{
	char letter[8] = "    ";

	if (row->letter)
		snprintf(letter, sizeof(letter), row->name ? "-%c, " : "-%c", row->letter);
	snprintf(text, NAME_BYTES, "%s%s%s%s%s", letter, row->name ? "--" : "", row->name ? row->name : "",
		 row->argument ? " " : "", row->argument ? row->argument : "");
	return text;
}

void options_help_rows(const struct option_table *table, FILE *to)
{
	size_t columns = 0;
	char text[NAME_BYTES];

	for (size_t i = 0; i < table->row_count; i++) {
		if (table->rows[i].type != OPTION_HEADING && table->rows[i].help)
			columns = fit_name_column(columns, format_option_name(&table->rows[i], text));
	}
	for (size_t i = 0; i < table->row_count; i++) {
		const struct option_row *row = &table->rows[i];

		if (row->type == OPTION_HEADING) {
			fprintf(to, "%s", i ? "\n" : "");
			print_wrapped(to, row->help, 0, 0);
		} else if (row->help) {
			print_help_row(to, format_option_name(row, text), row->help, columns);
		}
	}
}

/* ---- the whole ---- */

static const char *format_command_name(const struct option_command *command, char text[NAME_BYTES])
{
	snprintf(text, NAME_BYTES, "%s%s%s", command->name, command->arguments ? " " : "",
		 command->arguments ? command->arguments : "");
	return text;
}

static void print_commands(const struct option_table *table, FILE *to)
{
	size_t columns = 0;
	char text[NAME_BYTES];

	fputs("\ncommands:\n", to);
	for (size_t i = 0; i < table->command_count; i++) {
		if (table->commands[i].help)
			columns = fit_name_column(columns, format_command_name(&table->commands[i], text));
	}
	for (size_t i = 0; i < table->command_count; i++) {
		if (table->commands[i].help)
			print_help_row(to, format_command_name(&table->commands[i], text), table->commands[i].help,
				       columns);
	}
}

static void print_usage(const struct option_table *table, FILE *to)
{
	const char *line = table->usage, *label = "usage:";

	while (*line) {
		size_t bytes = strcspn(line, "\n");

		fprintf(to, "%-6s %.*s\n", label, (int)bytes, line);
		label = "";
		line += bytes + (line[bytes] == '\n');
	}
}

void options_help(const struct option_table *table, FILE *to)
{
	print_usage(table, to);
	fputc('\n', to);
	print_paragraphs(to, table->about);
	if (table->command_count)
		print_commands(table, to);
	if (table->row_count) {
		fputs(table->rows[0].type == OPTION_HEADING ? "\n" : "\noptions:\n", to);
		options_help_rows(table, to);
	}
	if (table->more) {
		fputc('\n', to);
		print_paragraphs(to, table->more);
	}
}
