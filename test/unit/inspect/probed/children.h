/* SPDX-License-Identifier: BSD-2-Clause */
/* children - the processes that this one has started and not yet reaped. */
#ifndef TEST_UNIT_PROBED_CHILDREN_H
#define TEST_UNIT_PROBED_CHILDREN_H

#include <sys/types.h>

enum { CHILDREN_MAX = 64 };

/* `pids` has room for CHILDREN_MAX; more end the program. */
size_t children_of_this(pid_t *pids);

#endif
