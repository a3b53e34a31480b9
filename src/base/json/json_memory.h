/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json_memory - detects that jansson ran out of memory.
 *
 * When an allocation fails inside jansson, it may drop bytes of a string or of a key and report success, or report a syntax
 * error. A text with a missing byte must never be used, stored or sent. So jansson allocates by our function; it remembers
 * failures, and each use stands between json_memory_begin() and json_memory_end().
 */
#ifndef BASE_JSON_JSON_MEMORY_H
#define BASE_JSON_JSON_MEMORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/must.h"

/* Forget earlier failures of this thread. Uses are not nested. Any thread. */
void json_memory_begin(void);
/* The error since json_memory_begin(): -ENOMEM if an allocation failed, else -EBADMSG if not `is_good`, else 0. */
MUST_CHECK int json_memory_end(bool is_good);

#endif
