/* SPDX-License-Identifier: BSD-2-Clause */
/* buffer - memory that grows with the bytes in it. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

/*
 * Grow `*data` of malloc(), which has `*room` bytes, to at least `bytes`: to a power of two, but not above `bytes_max`,
 * which is at least `bytes`. Memory that is large enough stays. `*data` may be NULL if `*room` is 0. The caller frees
 * `*data`. Errors: -ENOMEM; both results are unchanged then.
 */
MUST_CHECK int buffer_reserve(uint8_t **data, size_t *room, size_t bytes, size_t bytes_max);

#endif
