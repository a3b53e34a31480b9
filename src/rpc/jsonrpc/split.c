/* SPDX-License-Identifier: BSD-2-Clause */
#include "rpc/jsonrpc/split.h"

#include "base/bits.h"

/* The class of a byte outside of strings. */
enum byte_kind { BYTE_BAD, BYTE_SPACE, BYTE_WORD, BYTE_QUOTE, BYTE_OPEN, BYTE_CLOSE, BYTE_BETWEEN };

static const uint8_t byte_kinds[256] = {
	[' '] = BYTE_SPACE,	   ['\t'] = BYTE_SPACE,	      ['\n'] = BYTE_SPACE, ['\r'] = BYTE_SPACE,
	['0' ... '9'] = BYTE_WORD, ['a' ... 'z'] = BYTE_WORD, ['E'] = BYTE_WORD,   ['+'] = BYTE_WORD,
	['-'] = BYTE_WORD,	   ['.'] = BYTE_WORD,	      ['"'] = BYTE_QUOTE,  ['{'] = BYTE_OPEN,
	['['] = BYTE_OPEN,	   ['}'] = BYTE_CLOSE,	      [']'] = BYTE_CLOSE,  [','] = BYTE_BETWEEN,
	[':'] = BYTE_BETWEEN,
};

static bool part_begins(struct json_splitter *s)
{
	return ++s->part_count <= JSON_PARTS_MAX;
}

static enum json_split open_bracket(struct json_splitter *s, char byte)
{
	if (s->depth == JSON_DEPTH_MAX)
		return JSON_SPLIT_TOO_DEEP;
	s->objects &= ~BIT(s->depth);
	if (byte == '{')
		s->objects |= BIT(s->depth);
	s->depth++;
	s->in = JSON_IN_PUNCTUATION;
	return part_begins(s) ? JSON_SPLIT_MORE : JSON_SPLIT_TOO_MANY_PARTS;
}

static enum json_split close_bracket(struct json_splitter *s, char byte)
{
	must(s->depth > 0);
	if (((s->objects >> (s->depth - 1)) & 1) != (byte == '}'))
		return JSON_SPLIT_MALFORMED;
	s->depth--;
	s->in = JSON_IN_PUNCTUATION;
	return s->depth == 0 ? JSON_SPLIT_VALUE : JSON_SPLIT_MORE;
}

/* A byte inside a value and outside of its strings. */
static enum json_split plain_byte(struct json_splitter *s, char byte)
{
	switch (byte_kinds[(uint8_t)byte]) {
	case BYTE_SPACE:
	case BYTE_BETWEEN:
		s->in = JSON_IN_PUNCTUATION;
		return JSON_SPLIT_MORE;
	case BYTE_WORD:
		if (s->in == JSON_IN_WORD)
			return JSON_SPLIT_MORE;
		s->in = JSON_IN_WORD;
		return part_begins(s) ? JSON_SPLIT_MORE : JSON_SPLIT_TOO_MANY_PARTS;
	case BYTE_QUOTE:
		s->in = JSON_IN_STRING;
		return part_begins(s) ? JSON_SPLIT_MORE : JSON_SPLIT_TOO_MANY_PARTS;
	case BYTE_OPEN:
		return open_bracket(s, byte);
	case BYTE_CLOSE:
		return close_bracket(s, byte);
	default:
		return JSON_SPLIT_MALFORMED;
	}
}

static enum json_split value_byte(struct json_splitter *s, char byte)
{
	if (s->in == JSON_IN_ESCAPE) {
		s->in = JSON_IN_STRING;
		return JSON_SPLIT_MORE;
	}
	if (s->in == JSON_IN_STRING) {
		if (byte == '\\')
			s->in = JSON_IN_ESCAPE;
		else if (byte == '"')
			s->in = JSON_IN_PUNCTUATION;
		return JSON_SPLIT_MORE;
	}
	return plain_byte(s, byte);
}

enum json_split json_split(struct json_splitter *s, const char *buffer, size_t bytes)
{
	must(s->at <= bytes);
	for (; s->at < bytes; s->at++) {
		enum json_split result;

		if (s->depth == 0) {
			enum byte_kind kind = byte_kinds[(uint8_t)buffer[s->at]];

			s->begin = s->at;
			if (kind == BYTE_SPACE)
				continue;
			if (kind != BYTE_OPEN)
				return JSON_SPLIT_MALFORMED;
			s->part_count = 0;
			s->in = JSON_IN_PUNCTUATION;
		}
		if (s->at - s->begin >= JSON_BYTES_MAX)
			return JSON_SPLIT_TOO_LONG;
		result = value_byte(s, buffer[s->at]);
		if (result == JSON_SPLIT_VALUE)
			s->at++;
		if (result != JSON_SPLIT_MORE)
			return result;
	}
	if (s->depth == 0)
		s->begin = s->at;
	return JSON_SPLIT_MORE;
}

void json_splitter_dropped(struct json_splitter *s, size_t bytes)
{
	must(bytes <= s->at);
	must(s->depth == 0 || bytes <= s->begin);
	s->at -= bytes;
	s->begin = s->begin > bytes ? s->begin - bytes : 0;
}

const char *json_split_text(enum json_split result)
{
	switch (result) {
	case JSON_SPLIT_MALFORMED:
		return "this byte cannot stand here";
	case JSON_SPLIT_TOO_DEEP:
		return "nested deeper than 64 brackets";
	case JSON_SPLIT_TOO_MANY_PARTS:
		return "more than 65536 values in one request";
	case JSON_SPLIT_TOO_LONG:
		return "a request of more than 1048576 bytes";
	default:
		must(false);
		return "";
	}
}
