/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/show/dmg.h"

#include <inttypes.h>

#include "base/bits.h"
#include "base/text.h"

static_assert(SIZE_TEXT_BYTES > sizeof("18446744073709551615 kB"), "the longest number and unit fit");

struct table *dmg_table_create(const char *const *titles, size_t column_count)
{
	struct table_column columns[TABLE_COLUMNS_MAX];
	struct table_layout layout = {
		.columns = columns, .column_count = column_count, .gap = 1, .dashes = true, .gap_at_end = true
	};

	must(column_count <= TABLE_COLUMNS_MAX);
	for (size_t i = 0; i < column_count; i++)
		columns[i] = (struct table_column){ titles[i], TABLE_LEFT, 0 };
	return table_create(&layout);
}

static void print_padded(const char *text, size_t width, FILE *out)
{
	size_t own = text_utf8_width(text);

	must(own <= width);
	fprintf(out, "%s%*s", text, (int)(width - own), "");
}

static void print_dashes(size_t count, FILE *out)
{
	while (count-- > 0)
		fputc('-', out);
}

void entity_print(const char *title, const char *const *pairs, size_t pair_count, unsigned int indent, FILE *out)
{
	size_t key_width = 0, value_width = 0;

	if (title) {
		fprintf(out, "%*s%s\n%*s", (int)indent, "", title, (int)indent, "");
		print_dashes(text_utf8_width(title), out);
		fputc('\n', out);
	}
	for (size_t i = 0; i < pair_count; i++) {
		key_width = max_u64(key_width, text_utf8_width(pairs[2 * i]));
		value_width = max_u64(value_width, text_utf8_width(pairs[2 * i + 1]));
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
	print_dashes(text_utf8_width(text), out);
	fprintf(out, "\n%*s%s\n%*s", (int)indent, "", text, (int)indent, "");
	print_dashes(text_utf8_width(text), out);
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
