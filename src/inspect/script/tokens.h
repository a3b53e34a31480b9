/* SPDX-License-Identifier: BSD-2-Clause */
/* tokens - bpftrace's language, as far as it takes to know a word from a string and a block from a declaration. */
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
	TOKEN_LINE,   /* of the preprocessor */
	TOKEN_CHAR,   /* any other */
};

struct token {
	enum token_kind kind;
	const char *text;
	size_t bytes;
};

/* What `text` consists of, all of it; `*tokens_ret` is the caller's, for free(). -EINVAL (explained). */
MUST_CHECK int tokens_of(const char *text, struct token **tokens_ret, uint32_t *count_ret, struct fault *why);

/* Is it `text`? Of NULL and blanks nothing is. */
bool token_is(const struct token *token, const char *text);

/* The next one that is no blank, from `at` on, or the last before it; NULL: none. */
const struct token *token_next(const struct token *tokens, uint32_t count, uint32_t at);
const struct token *token_previous(const struct token *tokens, uint32_t at);

/* Does the word at `at` stand in parentheses, with nothing but stars behind it, as the type of a cast does? */
bool tokens_are_cast(const struct token *tokens, uint32_t count, uint32_t at);

#endif
