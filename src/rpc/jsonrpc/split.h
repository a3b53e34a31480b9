/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * split - where does one JSON value end and the next begin? Requests come as concatenated values without framing.
 *
 * Pure: bytes in, positions out; no memory, no I/O. It looks at each byte once, whatever the pieces in which they come,
 * and knows just as much JSON as that takes: strings and their escapes, brackets that match, and which bytes can stand
 * outside of a string. What is inside is for the parser, which is given complete values only, none of them longer, deeper
 * or of more parts than the limits here. A value is an object or an array; nothing else can be told complete from its own
 * bytes.
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
	JSON_SPLIT_MORE,      /* all bytes were looked at; the value, if one has begun, is not complete */
	JSON_SPLIT_VALUE,     /* it is bytes [begin, at) of the buffer */
	JSON_SPLIT_MALFORMED, /* byte `at` cannot stand there; this and all below: no further calls */
	JSON_SPLIT_TOO_DEEP,
	JSON_SPLIT_TOO_MANY_PARTS,
	JSON_SPLIT_TOO_LONG,
};

/* All zero at first. */
struct json_splitter {
	size_t begin;	  /* where the value begins, when `depth` is not 0 or one has just ended */
	size_t at;	  /* the next byte to look at */
	uint64_t objects; /* bit n: the bracket at depth n is a brace */
	uint32_t depth;
	uint32_t part_count;
	enum { JSON_IN_PUNCTUATION, JSON_IN_WORD, JSON_IN_STRING, JSON_IN_ESCAPE } in;
};

/* Look at `buffer[splitter->at, bytes)`. The buffer is what it was at the last call, with bytes added. */
MUST_CHECK enum json_split json_split(struct json_splitter *splitter, const char *buffer, size_t bytes);

/* The first `bytes` of the buffer are dropped; they are not part of a value that has begun. */
void json_splitter_dropped(struct json_splitter *splitter, size_t bytes);

/* What a result that is an error says to a person. */
const char *json_split_text(enum json_split result);

#endif
