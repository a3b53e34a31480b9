/* SPDX-License-Identifier: BSD-2-Clause */
/* types - the structures and enums of a running program that a script names. */
#ifndef CMD_FATHOM_PROBE_TYPES_H
#define CMD_FATHOM_PROBE_TYPES_H

#include "cmd/fathom/probe/process.h"
#include "inspect/types/types.h"

/*
 * Declare the names in `script` that `process` has. Names unknown to both the process and the kernel are left for
 * bpftrace to report. Free `declared_ret` with types_declared_free(). Errors (explained): -ENODATA: the script names a
 * structure, and there is no debug information; those of types_declare(); -EINVAL: a string or a comment does not end.
 */
MUST_CHECK int probe_types_of(const struct process *process, const char *script, struct types_declared *declared_ret,
			      struct fathom_fault *why);

#endif
