/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * child - the other end of the jail. It is this very program again (/proc/self/exe), which goes no further than the start
 * of its libraries: a fresh address space has nothing of the parent's in it, neither its memory nor its mappings of shared
 * files, and whatever threads and locks the parent has do not matter.
 */
#ifndef PROBED_JAIL_CHILD_H
#define PROBED_JAIL_CHILD_H

#include <stddef.h>
#include <sys/types.h>

#include "base/fault.h"

/* The name that makes a program a child. By its being named, this file is linked. */
extern const char jail_child_name[];

/*
 * Give up what a parser does not need: root, capabilities, descriptors, files, processes, more memory than is mapped; die
 * with `parent`; and from the return on ask nothing of the kernel but to read orders, to write answers and to end.
 */
MUST_CHECK int jail_confine(pid_t parent, struct fault *why);

#endif
