/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * confine - what the helper takes away from itself before it reads a byte, and its children before they act.
 *
 * The process: no environment, no new privileges, no core, only the capabilities that mounting, formatting and giving away
 * take, in the bounding set as well, and a filter of system calls: a list of what is allowed; all others say EPERM. Among
 * those that are not on it: any socket, ptrace, modules, namespaces, setting users. A child: by its operation, no programs
 * and no processes, or no mounting.
 */
#ifndef CONTROL_HELPER_CONFINE_H
#define CONTROL_HELPER_CONFINE_H

#include "control/helper/protocol.h"

/*
 * `*privileged_ret`: we have the capabilities that it takes. Without them all is done but for the dropping, so that ping
 * can say so. One thread. Errors (explained): of the kernel, which refuses; -ENOMEM.
 */
MUST_CHECK int helper_confine(bool *privileged_ret, struct fault *why);

/* In a child, for what it is about to do. */
MUST_CHECK int helper_confine_for(enum helper_operation operation, struct fault *why);

#endif
