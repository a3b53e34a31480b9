/* SPDX-License-Identifier: BSD-2-Clause */
/* tokens - splits a bpftrace script into words, strings and other tokens. */
#ifndef INSPECT_SCRIPT_TOKENS_H
#define INSPECT_SCRIPT_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

enum token_kind {
	TOKEN_WORD,
	TOKEN_STRING, /* with its quotes */
	TOKEN_BLANK,  /* spaces, line ends and comments */
	TOKEN_LINE,   /* a preprocessor line */
	TOKEN_CHAR,   /* any other character */
};

struct token {
	enum token_kind kind;
	const char *text;
	size_t bytes;
};

/* Split all of `text` into tokens. The caller frees `*tokens_ret` with free(). Errors: -EINVAL (explained). */
MUST_CHECK int tokens_of(const char *text, struct token **tokens_ret, uint32_t *count_ret, struct fathom_fault *why);

/* Is the token `text`? False for NULL and blanks. */
bool token_is(const struct token *token, const char *text);

/* The next token from `at` on that is not blank, or the previous one; NULL: none. */
const struct token *token_next(const struct token *tokens, uint32_t count, uint32_t at);
const struct token *token_previous(const struct token *tokens, uint32_t at);

/* Is the word at `at` in parentheses, followed by nothing but stars, as the type of a cast? */
bool tokens_are_cast(const struct token *tokens, uint32_t count, uint32_t at);

#endif
