/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failing - the n-th external call fails: allocations, and calls that write files. The linker redirects the calls of
 * programs that are linked with failing_wraps (meson.build).
 *
 *     for (uint32_t n = 1; ; n++) { failing_begin(n); error = the call; if (!failing_end()) break; ... }
 *
 * Until failing_end() each write writes half of its bytes, so that its second half can fail. Not thread-safe.
 */
#ifndef TEST_UNIT_CONTROL_FAILING_H
#define TEST_UNIT_CONTROL_FAILING_H

#include <stdbool.h>
#include <stdint.h>

/* Call `n`, from 1, fails: allocations with ENOMEM, writes with ENOSPC, others with an errno of their own. */
void failing_begin(uint32_t n);

/* The same, but only calls on files fail. For code that ends the program when out of memory, by contract. */
void failing_begin_files(uint32_t n);

/* Return true if the call has failed, and stop counting. */
bool failing_end(void);

/* The same, and keep counting. */
bool failing_has_failed(void);

/* For wrappers of other calls in a test: count this call; true: it must fail. */
bool failing_this_call(void);

/* Number of allocations since failing_begin() that are not freed yet. */
int64_t failing_held(void);

#endif
