/* SPDX-License-Identifier: BSD-2-Clause */
/* text - parsing of numbers, sizes and durations; UTF-8; JSON strings; bounded copies. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

/* Parse all of `text` as a number in `base` (0: by prefix). Errors: -EINVAL (not a number), -ERANGE (more than `max`). */
MUST_CHECK int text_parse_u64(const char *text, int base, uint64_t max, uint64_t *number_ret);

/* "4096", "4k", "256M", "1GiB", "2T": powers of 1024. Errors: -EINVAL, -ERANGE. */
MUST_CHECK int text_parse_bytes(const char *text, uint64_t *bytes_ret);

/* "on", "true", "off", "false". Errors: -EINVAL. */
MUST_CHECK int text_parse_switch(const char *text, bool *is_on_ret);

#define DURATION_NS_MAX                                                                                                    \
	1000000000000000000ull /* 31 years: it can be added to a clock or converted to ticks without overflow */

/*
 * "1s", "500ms", "2.5us", "10ns", "2m", "1h", "0": nanoseconds, rounded; a number alone is in seconds.
 * Errors: -EINVAL, -ERANGE (more than DURATION_NS_MAX).
 */
MUST_CHECK int text_parse_duration(const char *text, uint64_t *ns_ret);

/* FNV-1a, for tables in memory. */
enum { TEXT_HASH_START = 2166136261u };
static inline uint32_t text_hash_more(uint32_t hash, const char *text)
{
	while (*text)
		hash = (hash ^ (uint8_t)*text++) * 16777619u;
	return hash;
}

static inline uint32_t text_hash(const char *text)
{
	return text_hash_more(TEXT_HASH_START, text);
}

/* The length of the UTF-8 sequence at the start of `text` (`bytes` > 0); 0 if it is invalid or truncated. */
size_t text_utf8_length(const char *text, size_t bytes);

/* The number of UTF-8 characters; an invalid byte counts as one. */
size_t text_utf8_width(const char *text);

/*
 * Copy `from`, replacing each invalid UTF-8 byte and each control character except "\t" and "\n" by '?'; truncated between
 * two characters to fit. The copy is never longer than `from`. Returns its bytes; it is not NUL-terminated.
 */
size_t text_utf8_copy(char *to, size_t to_bytes, const char *from, size_t from_bytes);

enum { TEXT_JSON_BYTES_MAX = 6 };

enum text_json_style {
	TEXT_JSON_PLAIN, /* a control character becomes "\u000a" */
	TEXT_JSON_SHORT, /* the same, but "\n" and "\t" */
	TEXT_JSON_HTML,	 /* the string cannot end an HTML script element or a line of JavaScript: "<", ">", "&" ... */
};

/*
 * Write the first character of `text` (`bytes` > 0) to `to` as it stands in a JSON string. Each invalid UTF-8 byte and DEL
 * become '?'. Returns the bytes written; `*read_ret`: the bytes of `text` that were read.
 */
size_t text_json_escape(char to[TEXT_JSON_BYTES_MAX], const char *text, size_t bytes, enum text_json_style style,
			size_t *read_ret);

/*
 * Copy `from`, cleaned like text_utf8_copy() and with a blank for each line end and tab. A text that does not fit is cut
 * before a word and ends with " ..."; a word longer than half of `to` is cut within. `to` has 8 bytes or more and is always
 * NUL-terminated.
 */
void text_copy_words(char *to, size_t to_bytes, const char *from);

enum { TEXT_DISTANCE_BYTES_MAX = 255 };

/* The Levenshtein distance in bytes; SIZE_MAX if `b` is longer than TEXT_DISTANCE_BYTES_MAX. */
size_t text_distance(const char *a, const char *b);

enum { TEXT_NUMBER_BYTES = 21 };

/* Write `number` in decimal digits, or in hexadecimal ones, and a NUL. Returns the digits. */
size_t text_decimal(char to[TEXT_NUMBER_BYTES], uint64_t number);
size_t text_hexadecimal(char to[TEXT_NUMBER_BYTES], uint64_t number);

/* Copy `from`, truncated to fit; `to` is always NUL-terminated. Returns 0, or -ENAMETOOLONG if the copy is truncated. */
int text_copy(char *to, size_t to_bytes, const char *from);

#endif
