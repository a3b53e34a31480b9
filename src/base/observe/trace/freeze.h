/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freeze - copies this process's own trace file while all threads write it, as close to one moment as possible.
 *
 * A ring is copied without a lock, and its head is read before and after. Records that its thread may have overwritten
 * meanwhile are zeroed, and the copied ring's `first` is the first record from which all are whole. If fewer than half are
 * whole, the ring is copied again. Tables are copied under their writers' lock. Stories and exemplars have no lock: they
 * are copied until two copies are equal. Threads can wait only for the copy of the tables.
 */
#ifndef OBSERVE_TRACE_FREEZE_H
#define OBSERVE_TRACE_FREEZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"

enum { TRACE_FREEZE_NUMBERS = 1000 };

/*
 * Write the copy to `path`; NULL: to the trace file's name plus ".frozen1", or the next free number. `path_ret`
 * (`path_bytes` long) gets the path used. `force`: replace an existing file at `path`. `reason`, stored in the copy, may be
 * NULL. Any pthread that may block; one at a time. Errors (explained), after which the copy does not exist: -ENOENT: no
 * trace file is open; -EEXIST: `path` exists (the file stays); -ENOSPC, -EACCES ...
 */
MUST_CHECK int trace_freeze(const char *path, bool force, const char *reason, char *path_ret, size_t path_bytes,
			    struct fathom_fault *why);

#endif
