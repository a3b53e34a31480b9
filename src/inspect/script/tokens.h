/* SPDX-License-Identifier: BSD-2-Clause */
/* tokens - bpftrace's language, as far as it takes to know a word from a string and a block from a declaration. */
#ifndef INSPECT_SCRIPT_TOKENS_H
#define INSPECT_SCRIPT_TOKENS_H

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

#endif
