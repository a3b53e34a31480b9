/* SPDX-License-Identifier: BSD-2-Clause */
/* name - checks texts: valid as a file name and in probe descriptions, or printable. */
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "inspect/probed/dof/internal.h"

enum class { SHOWN, NO_NAME, NOT_SHOWN, LONG };

static const uint8_t classes[256] = {
	[0 ... 0x1f] = NOT_SHOWN, [0x7f] = NOT_SHOWN, ['/'] = NO_NAME, [':'] = NO_NAME,	 ['*'] = NO_NAME,
	['?'] = NO_NAME,	  ['['] = NO_NAME,    [']'] = NO_NAME, ['\\'] = NO_NAME, [0x80 ... 0xff] = LONG,
};

static_assert(sizeof(classes) == 256, "a class for each byte");

/* The length of a UTF-8 character beyond ASCII; 0: invalid, or a control character (U+0080 to U+009F). */
static size_t utf8_length(const char *at, size_t bytes)
{
	bool is_control = bytes > 1 && (uint8_t)at[0] == 0xc2 && (uint8_t)at[1] < 0xa0;

	return is_control ? 0 : text_utf8_length(at, bytes);
}

/* The length of `text`; 0: it is empty, too long, or has a character of a class above `highest`. */
static size_t checked_length(const char *text, size_t bytes_max, enum class highest)
{
	size_t bytes = strnlen(text, bytes_max);

	must(bytes_max > 1);
	must(highest < LONG); /* bytes beyond ASCII are checked as UTF-8 */
	if (bytes == bytes_max)
		return 0;
	for (size_t at = 0; at < bytes;) {
		enum class class = classes[(uint8_t)text[at]];
		size_t length = class == LONG ? utf8_length(text + at, bytes - at) : class <= highest;

		if (length == 0)
			return 0;
		at += length;
		must(at <= bytes);
	}
	return bytes;
}

bool dof_name_ok(const char *name, size_t bytes_max)
{
	size_t length = checked_length(name, bytes_max, SHOWN);

	return length > 2 || (length > 0 && name[0] != '.') || (length == 2 && name[1] != '.');
}

bool dof_text_ok(const char *text, size_t bytes_max)
{
	return text[0] == '\0' || checked_length(text, bytes_max, NO_NAME) > 0;
}
