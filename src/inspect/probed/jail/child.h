/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * child - the child's side of the jail. It runs the same program (/proc/self/exe), but never reaches main(). The new
 * address space contains none of the parent's memory or shared mappings, and the parent's threads and locks do not matter.
 */
#ifndef PROBED_JAIL_CHILD_H
#define PROBED_JAIL_CHILD_H

#include <stddef.h>
#include <sys/types.h>

#include "base/fault.h"

/* argv[0] of a child. The reference to it makes the linker include child.c. */
extern const char jail_child_name[];

/*
 * Drop everything that a parser does not need: root, capabilities, descriptors, files, processes, memory beyond what is
 * mapped. The child dies with `parent`. After return the only system calls allowed are to read orders, write answers, exit.
 */
MUST_CHECK int jail_confine(pid_t parent, struct fathom_fault *why);

#endif
