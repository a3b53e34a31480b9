/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * split - find where one JSON value ends and the next begins. Requests are concatenated values without framing.
 *
 * Bytes in, positions out: no allocation, no I/O. It reads each byte once, however they were split on their way. It knows
 * strings and their escapes, matching brackets, and the bytes that may stand outside of a string. The parser gets complete
 * values only, within the limits on length, depth and parts here. A value is an object or an array: of other JSON values
 * the end cannot be found without the bytes behind them.
 */
#ifndef RPC_SPLIT_H
#define RPC_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum {
	JSON_DEPTH_MAX = 64,
	JSON_PARTS_MAX = 65536,	  /* strings (names too), numbers, words, brackets */
	JSON_BYTES_MAX = 1 << 20, /* of one value */
};
static_assert(JSON_DEPTH_MAX <= 64, "one bit each in json_splitter.objects");

enum json_split {
	JSON_SPLIT_MORE,      /* all bytes were read; the value, if one has begun, is not complete */
	JSON_SPLIT_VALUE,     /* it is bytes [begin, at) of the buffer */
	JSON_SPLIT_MALFORMED, /* byte `at` is not allowed there. After this or any result below: no further calls */
	JSON_SPLIT_TOO_DEEP,
	JSON_SPLIT_TOO_MANY_PARTS,
	JSON_SPLIT_TOO_LONG,
};

/* All zero at first. */
struct json_splitter {
	size_t begin;	  /* where the value begins, when `depth` is not 0 or one has just ended */
	size_t at;	  /* the next byte to read */
	uint64_t objects; /* bit n: the bracket at depth n is a brace */
	uint32_t depth;
	uint32_t part_count;
	enum { JSON_IN_PUNCTUATION, JSON_IN_WORD, JSON_IN_STRING, JSON_IN_ESCAPE } in;
};

/* Read `buffer[splitter->at, bytes)`. Bytes before `at` are those of the last call. */
MUST_CHECK enum json_split json_split(struct json_splitter *splitter, const char *buffer, size_t bytes);

/* The caller removed the first `bytes` bytes of the buffer. They must not belong to a value that has begun. */
void json_splitter_dropped(struct json_splitter *splitter, size_t bytes);

/* The message for a result that is an error. */
const char *json_split_text(enum json_split result);

#endif
