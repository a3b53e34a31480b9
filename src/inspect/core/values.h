/* SPDX-License-Identifier: BSD-2-Clause */
/* values - a failed must(): its text in the program's memory, and the values of its variables. */
#ifndef INSPECT_CORE_VALUES_H
#define INSPECT_CORE_VALUES_H

#include "inspect/core/core.h"

/* Find a failed must() without a trace: fill crash->condition and crash->place, or leave them empty. */
void core_find_must(struct core *core, struct core_crash *crash);
/* Find the message with which the C library aborted: fill crash->message, or leave it empty. */
void core_find_abort_message(struct core *core, struct core_crash *crash);
/*
 * Find the function that failed, and the values of the variables in crash->condition, as "a = 1, b->c = 0x10".
 * `values` has CORE_WORDS_BYTES bytes, `function` 128; what is not known is left out.
 */
void core_must_values(struct core *core, const struct core_crash *crash, char *values, char *function);

#endif
