/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/script/attached.h"

#include "base/bits.h"

/* Probes of all other kinds may read the program. */
static const char *const kernel_kinds[] = { "kprobe", "kretprobe", "k",	 "kr",	       "kfunc", "kretfunc",	 "f",
					    "fr",     "iter",	   "it", "tracepoint", "t",	"rawtracepoint", "rt" };

void attached_take(struct attached *attached, const struct token *tokens, uint32_t count, uint32_t at)
{
	const struct token *before = token_previous(tokens, at);

	/* an attach point "KIND:..." is first, or behind one of these */
	if (before && !token_is(before, "}") && !token_is(before, ",") && !token_is(before, ";") &&
	    before->kind != TOKEN_LINE)
		return;
	if (!token_is(token_next(tokens, count, at + 1), ":"))
		return;
	for (size_t i = 0; i < ARRAY_COUNT(kernel_kinds); i++) {
		if (token_is(&tokens[at], kernel_kinds[i])) {
			attached->kernel = true;
			return;
		}
	}
	attached->program = true;
}

bool attached_to_kernel_alone(const struct attached *attached)
{
	return attached->kernel && !attached->program;
}
