/* SPDX-License-Identifier: BSD-2-Clause */
/* list - the C library's <sys/queue.h>, plus a loop in which the current element may be removed. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <sys/queue.h>

#define TAILQ_FOREACH_SAFE(var, head, field, next)                                                                         \
	for ((var) = TAILQ_FIRST(head); (var) && ((next) = TAILQ_NEXT(var, field), 1); (var) = (next))

#endif
