/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freeze - a copy of this process's own trace file, of one moment as nearly as that goes while all threads write.
 *
 * A ring is copied as it is, and its head read before and after: what its thread may have come to meanwhile is made zeroes,
 * and the ring's `first` says from which record on all are whole. If less than half are, it is copied again. Tables are
 * copied under the lock that their writers take; stories and exemplars, whose writers take none, until two copies are the
 * same. No thread waits for more than the tables.
 */
#ifndef OBSERVE_TRACE_FREEZE_H
#define OBSERVE_TRACE_FREEZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"

enum { TRACE_FREEZE_NUMBERS = 1000 };

/*
 * `path` NULL: the trace file's name and ".frozen1", or the next number that is free. `path_ret`, of `path_bytes`: which it
 * was. `force`: a file at `path` is replaced. `reason` may be NULL. Any pthread that may block; one at a time. Errors
 * (explained), after which there is no such file: -ENOENT: there is no trace; -EEXIST: there is such a file already;
 * -ENOSPC, -EACCES ...
 */
MUST_CHECK int trace_freeze(const char *path, bool force, const char *reason, char *path_ret, size_t path_bytes,
			    struct fault *why);

#endif
