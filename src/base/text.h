/* SPDX-License-Identifier: BSD-2-Clause */
/* text - parsing of small things that people type. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

/* The whole of `text` as a number in `base` (0: by prefix). Errors: -EINVAL (not a number), -ERANGE (more than `max`). */
MUST_CHECK int text_parse_u64(const char *text, int base, uint64_t max, uint64_t *number_ret);

/* "4096", "4k", "256M", "1GiB", "2T": powers of 1024. Errors: -EINVAL, -ERANGE. */
MUST_CHECK int text_parse_bytes(const char *text, uint64_t *bytes_ret);

#define DURATION_NS_MAX 1000000000000000000ull /* 31 years: there is room to add it to a clock, or to count it in ticks */

/*
 * "1s", "500ms", "2.5us", "10ns", "2m", "1h", "0": nanoseconds, rounded; a number alone is in seconds.
 * Errors: -EINVAL, -ERANGE (more than DURATION_NS_MAX).
 */
MUST_CHECK int text_parse_duration(const char *text, uint64_t *ns_ret);

/* The length of the UTF-8 sequence at `text`, of which `bytes` > 0 are there; 0: it is none. */
size_t text_utf8_length(const char *text, size_t bytes);

/*
 * Copy with '?' in place of what is no UTF-8 and of control characters but "\t" and "\n", cut between two characters to
 * fit. The copy is never longer. Returns its bytes; there is no NUL behind them.
 */
size_t text_utf8_copy(char *to, size_t to_bytes, const char *from, size_t from_bytes);

/*
 * Copy `from`, cleaned as text_utf8_copy() does but with a blank for each line end and tab. What does not fit is cut before
 * a word, and " ..." shows it; a word longer than half of `to` is cut within. `to` has 8 bytes or more and is always
 * NUL-terminated.
 */
void text_copy_words(char *to, size_t to_bytes, const char *from);

enum { TEXT_DISTANCE_BYTES_MAX = 255 };

/* Letters to insert, remove or replace to make one of the other; SIZE_MAX if `b` is longer than DISTANCE_BYTES_MAX. */
size_t text_distance(const char *a, const char *b);

/* Copy `from` cut to fit; `to` is always NUL-terminated. -ENAMETOOLONG: it was cut. */
int text_copy(char *to, size_t to_bytes, const char *from);

#endif
