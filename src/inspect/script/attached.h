/* SPDX-License-Identifier: BSD-2-Clause */
/* attached - whether a block of a script reads the kernel or a program, by its attach points. */
#ifndef INSPECT_SCRIPT_ATTACHED_H
#define INSPECT_SCRIPT_ATTACHED_H

#include <stdbool.h>

#include "inspect/script/tokens.h"

/* Zero-initialised: no attach point yet. */
struct attached {
	bool kernel, program;
};

/* Account for the word at `at`, which is outside of blocks. */
void attached_take(struct attached *attached, const struct token *tokens, uint32_t count, uint32_t at);
/* If true, a structure name that the kernel has means the kernel's structure. */
bool attached_to_kernel_alone(const struct attached *attached);

#endif
