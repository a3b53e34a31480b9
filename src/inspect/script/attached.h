/* SPDX-License-Identifier: BSD-2-Clause */
/* attached - what a block of a script looks at, by the attach points before it. */
#ifndef INSPECT_SCRIPT_ATTACHED_H
#define INSPECT_SCRIPT_ATTACHED_H

#include <stdbool.h>

#include "inspect/script/tokens.h"

/* All zero: nothing is known yet. */
struct attached {
	bool kernel, program;
};

/* Take the word at `at` into account, which stands outside of blocks. */
void attached_take(struct attached *attached, const struct token *tokens, uint32_t count, uint32_t at);
/* Then a structure that the kernel has is the kernel's. */
bool attached_to_kernel_alone(const struct attached *attached);

#endif
