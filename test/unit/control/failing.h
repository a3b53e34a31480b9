/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failing - the n-th external call fails: memory, and what files are written with. The linker sends the calls of the
 * programs that are linked with failing_wraps (meson.build) here first.
 *
 *     for (uint32_t n = 1; ; n++) { failing_begin(n); error = the thing; if (!failing_end()) break; ... }
 *
 * Until failing_end() a write takes half of what it is given, so that its end may fail. One thread.
 */
#ifndef TEST_UNIT_CONTROL_FAILING_H
#define TEST_UNIT_CONTROL_FAILING_H

#include <stdbool.h>
#include <stdint.h>

/* Call `n`, from 1, fails: with ENOMEM what allocates, with ENOSPC what writes, and the others with one that they know. */
void failing_begin(uint32_t n);

/* Likewise, of what reaches files; memory is there. For what ends by its contract without. */
void failing_begin_files(uint32_t n);

/* True: there was an n-th. */
bool failing_end(void);

/* Likewise, and it goes on. */
bool failing_has_failed(void);

/* For other calls than failing_wraps, which a test sends here itself: this is the n-th. */
bool failing_this_call(void);

/* What was allocated since failing_begin() and is there still. */
int64_t failing_held(void);

#endif
