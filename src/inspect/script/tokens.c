/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/script/tokens.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/must.h"

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Length of a string with its quotes; 0: it does not end. */
static size_t string_bytes(const char *at)
{
	size_t bytes = 1;

	while (at[bytes] && at[bytes] != '"')
		bytes += at[bytes] == '\\' && at[bytes + 1] ? 2 : 1;
	return at[bytes] ? bytes + 1 : 0;
}

/* Length of a preprocessor line with its continuation lines, without the last line end. */
static size_t line_bytes(const char *at)
{
	size_t bytes = 0;

	while (at[bytes] && (at[bytes] != '\n' || (bytes && at[bytes - 1] == '\\')))
		bytes++;
	return bytes;
}

/* Length of blanks and comments; 0: none. -EINVAL: the comment behind them does not end. */
static int blank_bytes(const char *at, size_t *bytes_ret)
{
	size_t bytes = 0;

	for (;;) {
		if (isspace((unsigned char)at[bytes])) {
			bytes++;
		} else if (at[bytes] == '/' && at[bytes + 1] == '/') {
			bytes += strcspn(at + bytes, "\n");
		} else if (at[bytes] == '/' && at[bytes + 1] == '*') {
			const char *end = strstr(at + bytes + 2, "*/");

			if (!end) {
				*bytes_ret = bytes;
				return -EINVAL;
			}
			bytes = (size_t)(end + 2 - at);
		} else {
			*bytes_ret = bytes;
			return 0;
		}
	}
}

static int line_number(const char *text, const char *at)
{
	int number = 1;

	for (; text < at; text++)
		number += *text == '\n';
	return number;
}

/* Read the token at `at`. Path names in attach points are split into words and characters, too. */
static int read_script_token(const char *text, const char *at, struct token *token, struct fathom_fault *why)
{
	size_t bytes;

	if (blank_bytes(at, &bytes) != 0)
		return fault(why, -EINVAL, "line %d: a comment does not end", line_number(text, at + bytes));
	*token = (struct token){ TOKEN_BLANK, at, bytes };
	if (bytes)
		return 0;
	if (*at == '"') {
		*token = (struct token){ TOKEN_STRING, at, string_bytes(at) };
		if (token->bytes == 0)
			return fault(why, -EINVAL, "line %d: a string does not end", line_number(text, at));
	} else if (*at == '#') {
		*token = (struct token){ TOKEN_LINE, at, line_bytes(at) };
	} else {
		while (is_word(at[bytes]))
			bytes++;
		*token = (struct token){ bytes ? TOKEN_WORD : TOKEN_CHAR, at, bytes ? bytes : 1 };
	}
	return 0;
}

int tokens_of(const char *text, struct token **tokens_ret, uint32_t *count_ret, struct fathom_fault *why)
{
	struct token *tokens = NULL;
	uint32_t count = 0;

	for (const char *at = text; *at; at += tokens[count - 1].bytes) {
		if (count == 0 || is_power_of_two(count)) {
			tokens = realloc(tokens, (size_t)(count ? count : 1) * 2 * sizeof(*tokens));
			must(tokens);
		}
		int rc = read_script_token(text, at, &tokens[count], why);

		if (rc) {
			free(tokens);
			return rc;
		}
		count++;
	}
	*tokens_ret = tokens;
	*count_ret = count;
	return 0;
}

/* ---- neighbours ---- */

bool token_is(const struct token *token, const char *text)
{
	return token && token->kind != TOKEN_BLANK && token->bytes == strlen(text) &&
	       memcmp(token->text, text, token->bytes) == 0;
}

const struct token *token_next(const struct token *tokens, uint32_t count, uint32_t at)
{
	while (at < count && tokens[at].kind == TOKEN_BLANK)
		at++;
	return at < count ? &tokens[at] : NULL;
}

const struct token *token_previous(const struct token *tokens, uint32_t at)
{
	while (at > 0 && tokens[at - 1].kind == TOKEN_BLANK)
		at--;
	return at > 0 ? &tokens[at - 1] : NULL;
}

bool tokens_are_cast(const struct token *tokens, uint32_t count, uint32_t at)
{
	const struct token *behind = token_next(tokens, count, at + 1);

	while (token_is(behind, "*"))
		behind = token_next(tokens, count, (uint32_t)(behind - tokens) + 1);
	return token_is(token_previous(tokens, at), "(") && token_is(behind, ")");
}
