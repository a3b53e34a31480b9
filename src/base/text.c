/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"

int text_parse_u64(const char *text, int base, uint64_t max, uint64_t *number_ret)
{
	unsigned long long number;
	char *end;

	if (!isxdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, base);
	if (end == text || *end)
		return -EINVAL;
	if (errno || number > max)
		return -ERANGE;
	*number_ret = number;
	return 0;
}

int text_parse_bytes(const char *text, uint64_t *bytes_ret)
{
	static const char units[] = "KMGTP";
	unsigned long long number;
	const char *unit;
	char *end;
	int shift = 0;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	if (*end) {
		unit = strchr(units, toupper((unsigned char)*end));
		if (!unit || (end[1] && strcasecmp(end + 1, "iB") != 0 && strcasecmp(end + 1, "B") != 0))
			return -EINVAL;
		shift = (int)(unit - units + 1) * 10;
	}
	if (number > UINT64_MAX >> shift)
		return -ERANGE;
	*bytes_ret = (uint64_t)number << shift;
	return 0;
}

int text_parse_switch(const char *text, bool *is_on_ret)
{
	bool is_on = strcmp(text, "on") == 0 || strcmp(text, "true") == 0;

	if (!is_on && strcmp(text, "off") != 0 && strcmp(text, "false") != 0)
		return -EINVAL;
	*is_on_ret = is_on;
	return 0;
}

int text_parse_duration(const char *text, uint64_t *ns_ret)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {
		{ "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 }, { "m", 60e9 }, { "h", 3600e9 }
	};
	const char *unit = text + strspn(text, "0123456789.");
	double number;
	char *end;

	if (unit == text)
		return -EINVAL;
	number = strtod(text, &end);
	/* reject exponents and hexadecimal, which strtod() accepts, and a second decimal point, at which it stops */
	if (end != unit)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
		if (strcmp(unit, units[i].name) != 0)
			continue;
		if (number * units[i].ns > (double)DURATION_NS_MAX)
			return -ERANGE;
		*ns_ret = (uint64_t)(number * units[i].ns + 0.5);
		return 0;
	}
	return -EINVAL;
}

size_t text_utf8_length(const char *text, size_t bytes)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t length;

	must(bytes > 0);
	length = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
	if (length == 0 || length > bytes)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	}
	/* overlong, a surrogate, or beyond U+10FFFF */
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
	    (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	return length;
}

size_t text_utf8_width(const char *text)
{
	size_t width = 0;

	for (size_t left = strlen(text); left > 0; width++) {
		size_t bytes = max_u64(text_utf8_length(text, left), 1);

		text += bytes;
		left -= bytes;
	}
	return width;
}

size_t text_utf8_copy(char *to, size_t to_bytes, const char *from, size_t from_bytes)
{
	size_t used = 0;

	for (size_t at = 0; at < from_bytes;) {
		size_t length = text_utf8_length(from + at, from_bytes - at);
		unsigned char c = (unsigned char)from[at];
		bool is_bad = length == 0 || c == 0x7f || (c < 0x20 && c != '\n' && c != '\t');

		if (used + max_u64(length, 1) > to_bytes)
			break;
		if (is_bad)
			to[used] = '?';
		else
			memcpy(to + used, from + at, length);
		used += max_u64(length, 1);
		at += max_u64(length, 1);
	}
	return used;
}

/* Write "\uXXXX". Returns its bytes. */
static size_t put_code(char to[TEXT_JSON_BYTES_MAX], unsigned int code)
{
	static const char digits[] = "0123456789abcdef";

	must(code <= 0xffff);
	memcpy(to, "\\u", 2);
	for (int i = 0; i < 4; i++)
		to[2 + i] = digits[code >> (12 - 4 * i) & 15];
	return 6;
}

size_t text_json_escape(char to[TEXT_JSON_BYTES_MAX], const char *text, size_t bytes, enum text_json_style style,
			size_t *read_ret)
{
	const bool for_html = style == TEXT_JSON_HTML;
	static const char special[] = "\"\\\n\t", names[] = "\"\\nt";
	size_t length = text_utf8_length(text, bytes);
	const char *found = *text ? strchr(special, *text) : NULL;
	unsigned char c = (unsigned char)*text;

	*read_ret = max_u64(length, 1);
	if (length == 0 || c == 0x7f) {
		to[0] = '?';
		return 1;
	}
	if (found && (c >= 0x20 || style == TEXT_JSON_SHORT)) {
		to[0] = '\\';
		to[1] = names[found - special];
		return 2;
	}
	if (c < 0x20 || (for_html && (c == '<' || c == '>' || c == '&')))
		return put_code(to, c);
	if (for_html && length == 3 && (memcmp(text, "\u2028", 3) == 0 || memcmp(text, "\u2029", 3) == 0))
		return put_code(to, 0x2028 + (text[2] & 1));
	memcpy(to, text, length);
	return length;
}

void text_copy_words(char *to, size_t to_bytes, const char *from)
{
	static const char more[] = " ...";
	size_t from_bytes = strlen(from), bytes, end;

	must(to_bytes >= 8);
	bytes = text_utf8_copy(to, to_bytes - 1, from, from_bytes);
	to[bytes] = '\0';
	if (bytes < from_bytes) {
		bytes = text_utf8_copy(to, to_bytes - sizeof(more), from,
				       from_bytes); /* again, so that the cut is between two characters */
		end = bytes;
		while (end > to_bytes / 2 && !strchr(" \n\t", to[end]))
			end--;
		memcpy(to + (strchr(" \n\t", to[end]) ? end : bytes), more, sizeof(more));
	}
	for (char *c = to; *c; c++) {
		if (*c == '\n' || *c == '\t')
			*c = ' ';
	}
}

size_t text_distance(const char *a, const char *b)
{
	size_t row[TEXT_DISTANCE_BYTES_MAX + 1], b_bytes = strlen(b);

	if (b_bytes > TEXT_DISTANCE_BYTES_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= b_bytes; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < b_bytes; j++) {
			size_t changed = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			row[j + 1] = min_u64(changed, min_u64(row[j], diagonal) + 1);
		}
	}
	return row[b_bytes];
}

int text_copy(char *to, size_t to_bytes, const char *from)
{
	size_t bytes = strlen(from);

	must(to_bytes > 0);
	if (bytes < to_bytes) {
		memcpy(to, from, bytes + 1);
		return 0;
	}
	memcpy(to, from, to_bytes - 1);
	to[to_bytes - 1] = '\0';
	return -ENAMETOOLONG;
}

size_t text_decimal(char to[TEXT_NUMBER_BYTES], uint64_t number)
{
	size_t count = 1;

	for (uint64_t left = number; left >= 10; left /= 10)
		count++;
	to[count] = '\0';
	for (size_t at = count; at > 0; number /= 10)
		to[--at] = (char)('0' + number % 10);
	return count;
}

size_t text_hexadecimal(char to[TEXT_NUMBER_BYTES], uint64_t number)
{
	size_t count = 1;

	for (uint64_t left = number; left >= 16; left >>= 4)
		count++;
	to[count] = '\0';
	for (size_t at = count; at > 0; number >>= 4)
		to[--at] = "0123456789abcdef"[number & 15];
	return count;
}
