/* SPDX-License-Identifier: BSD-2-Clause */
/* parse - reads a command line by a table of options; see options.h. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/options/options.h"

enum { OPTIONS_MAX = 64, ID_FIRST = 256 /* above all letters */, LETTERS_BYTES = 2 * OPTIONS_MAX + 2, ERROR_BYTES = 512 };

static char last_error[ERROR_BYTES];

const char *options_error(void)
{
	return last_error;
}

int options_reject(const struct option_table *table, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(last_error, sizeof(last_error), format, args);
	va_end(args);
	fprintf(stderr, "%s: %s\n`%s --help` shows the options\n", table->name, last_error, table->name);
	return EXIT_USAGE;
}

const struct option_command *options_find_command(const struct option_table *table, const char *name)
{
	for (size_t i = 0; i < table->command_count; i++) {
		if (strcmp(table->commands[i].name, name) == 0)
			return &table->commands[i];
	}
	return NULL;
}

/* ---- values ---- */

static int parse_number_value(const struct option_row *row, const char *text, uint64_t *number_ret,
			      struct fathom_fault *why)
{
	uint64_t number;

	must(row->max > 0);
	if (text_parse_u64(text, 10, row->max, &number) != 0 || number < row->min)
		return fault(why, -EINVAL, "is not a number from %" PRIu64 " to %" PRIu64, row->min, row->max);
	*number_ret = number;
	return 0;
}

static int parse_seconds_value(const struct option_row *row, const char *text, double *seconds_ret,
			       struct fathom_fault *why)
{
	char *end;
	double seconds;

	must(row->max > 0);
	errno = 0;
	seconds = strtod(text, &end);
	if (errno || end == text || *end || !(seconds >= 0 && seconds <= (double)row->max))
		return fault(why, -EINVAL, "is not a number of seconds from 0 to %" PRIu64, row->max);
	*seconds_ret = seconds;
	return 0;
}

static bool is_in_range(const struct option_row *row, uint64_t value)
{
	return value >= row->min && (row->max == 0 || value <= row->max);
}

static int parse_size_value(const struct option_row *row, const char *text, uint64_t *bytes_ret, struct fathom_fault *why)
{
	uint64_t bytes;

	if (text_parse_bytes(text, &bytes) != 0 || !is_in_range(row, bytes))
		return fault(why, -EINVAL, "is not a size, such as 64M");
	*bytes_ret = bytes;
	return 0;
}

static int parse_duration_value(const struct option_row *row, const char *text, uint64_t *ns_ret, struct fathom_fault *why)
{
	uint64_t ns;

	if (text_parse_duration(text, &ns) != 0 || !is_in_range(row, ns))
		return fault(why, -EINVAL, "is not a time, such as 10s or 500ms");
	*ns_ret = ns;
	return 0;
}

/* Store `text` where the row says. Errors (explained): -EINVAL. */
static int set_row_value(const struct option_row *row, const char *text, void *values, struct fathom_fault *why)
{
	char *at = (char *)values + row->offset;
	uint64_t number = 0;
	int error;

	switch (row->type) {
	case OPTION_FLAG:
		*(bool *)at = true;
		return 0;
	case OPTION_TEXT:
		*(const char **)at = text;
		return 0;
	case OPTION_NUMBER:
		return parse_number_value(row, text, (uint64_t *)at, why);
	case OPTION_NUMBER32:
		must(row->max <= UINT32_MAX);
		error = parse_number_value(row, text, &number, why);
		if (!error)
			*(uint32_t *)at = (uint32_t)number;
		return error;
	case OPTION_SECONDS:
		return parse_seconds_value(row, text, (double *)at, why);
	case OPTION_SIZE:
		return parse_size_value(row, text, (uint64_t *)at, why);
	case OPTION_DURATION:
		return parse_duration_value(row, text, (uint64_t *)at, why);
	case OPTION_CALL:
		return row->read(at, text, why);
	case OPTION_HEADING:
	case OPTION_PRINT_HELP:
	case OPTION_PRINT_VERSION:
		break;
	}
	must(false);
	return -EINVAL;
}

/* ---- the command line ---- */

/* The table as getopt_long() takes it. `options` has room for OPTIONS_MAX + 1, `letters` for LETTERS_BYTES. */
static void fill_getopt_tables(const struct option_table *table, struct option *options, char *letters)
{
	size_t count = 0;

	must(table->row_count <= OPTIONS_MAX);
	if (table->in_front)
		*letters++ = '+';
	for (size_t i = 0; i < table->row_count; i++) {
		const struct option_row *row = &table->rows[i];

		if (row->type == OPTION_HEADING)
			continue;
		must(row->name || row->letter);
		if (row->name)
			options[count++] = (struct option){ row->name,
							    option_takes_argument(row) ? required_argument : no_argument,
							    NULL, ID_FIRST + (int)i };
		if (!row->letter)
			continue;
		*letters++ = row->letter;
		if (option_takes_argument(row))
			*letters++ = ':';
	}
	options[count] = (struct option){ 0 };
	*letters = '\0';
}

/* The row of an id or a letter that getopt_long() found. */
static const struct option_row *find_parsed_row(const struct option_table *table, int found)
{
	if (found >= ID_FIRST)
		return &table->rows[found - ID_FIRST];
	for (size_t i = 0; i < table->row_count; i++) {
		if (table->rows[i].type != OPTION_HEADING && table->rows[i].letter == found)
			return &table->rows[i];
	}
	return NULL;
}

static int reject_row_value(const struct option_table *table, const struct option_row *row, const char *text,
			    const struct fathom_fault *why)
{
	char letter[2] = { row->letter };
	const char *dashes = row->name ? "--" : "-", *name = row->name ? row->name : letter;

	if (!text)
		return options_reject(table, "%s%s: %s", dashes, name, why->text);
	return options_reject(table, "%s%s: \"%.64s\" %s", dashes, name, text, why->text);
}

static int parse_by_table(const struct option_table *table, int argc, char **argv, void *values)
{
	struct option options[OPTIONS_MAX + 1];
	char letters[LETTERS_BYTES];
	int found;

	fill_getopt_tables(table, options, letters);
	while ((found = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		const struct option_row *row = find_parsed_row(table, found);
		struct fathom_fault why = { 0 };

		if (!row) { /* getopt_long() printed the error */
			fprintf(stderr, "`%s --help` shows the options\n", table->name);
			return EXIT_USAGE;
		}
		if (row->type == OPTION_PRINT_HELP) {
			options_help(table, stdout);
			return EXIT_SUCCESS;
		}
		if (row->type == OPTION_PRINT_VERSION) {
			must(table->version);
			printf("%s %s\n", table->name, table->version);
			return EXIT_SUCCESS;
		}
		if (set_row_value(row, optarg, values, &why) != 0)
			return reject_row_value(table, row, optarg, &why);
	}
	return OPTIONS_RUN;
}

int options_parse(const struct option_table *table, int argc, char **argv, void *values, int *operands_ret)
{
	char *name = argv[0];
	int status;

	last_error[0] = '\0';
	argv[0] = (char *)table->name; /* begins the messages of getopt_long(), which does not change it */
	optind = 0;		       /* restart getopt */
	status = parse_by_table(table, argc, argv, values);
	argv[0] = name;
	*operands_ret = optind;
	return status;
}
