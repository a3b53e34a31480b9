/* SPDX-License-Identifier: BSD-2-Clause */
/* name - which texts may be names, of files and in descriptions of probes, and which may be shown. */
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "inspect/probed/dof/internal.h"

enum class { SHOWN, NO_NAME, NOT_SHOWN, LONG };

static const uint8_t classes[256] = {
	[0 ... 0x1f] = NOT_SHOWN, [0x7f] = NOT_SHOWN, ['/'] = NO_NAME, [':'] = NO_NAME,	 ['*'] = NO_NAME,
	['?'] = NO_NAME,	  ['['] = NO_NAME,    [']'] = NO_NAME, ['\\'] = NO_NAME, [0x80 ... 0xff] = LONG,
};

/* The bytes of a character beyond ASCII; 0: it is none, or a control character (U+0080 to U+009F). */
static size_t long_length(const char *at, size_t bytes)
{
	bool is_control = bytes > 1 && (uint8_t)at[0] == 0xc2 && (uint8_t)at[1] < 0xa0;

	return is_control ? 0 : text_utf8_length(at, bytes);
}

/* The length of `text`, none of whose characters is of a higher class; 0: it is empty, too long, or has such. */
static size_t measure(const char *text, size_t bytes_max, enum class highest)
{
	size_t bytes = strnlen(text, bytes_max);

	if (bytes == bytes_max)
		return 0;
	for (size_t at = 0; at < bytes;) {
		enum class class = classes[(uint8_t)text[at]];
		size_t length = class == LONG ? long_length(text + at, bytes - at) : class <= highest;

		if (length == 0)
			return 0;
		at += length;
	}
	return bytes;
}

bool dof_name_ok(const char *name, size_t bytes_max)
{
	size_t length = measure(name, bytes_max, SHOWN);

	return length > 2 || (length > 0 && name[0] != '.') || (length == 2 && name[1] != '.');
}

bool dof_text_ok(const char *text, size_t bytes_max)
{
	return text[0] == '\0' || measure(text, bytes_max, NO_NAME) > 0;
}
