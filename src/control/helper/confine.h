/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * confine - drops privileges: of the helper before it reads its first byte, and of its children before they act.
 *
 * The process: no environment, no new privileges, no core dumps; only the capabilities for mounting, formatting and
 * changing owners, also in the bounding set; a seccomp list of allowed system calls, all others fail with EPERM. Not on the
 * list: creating sockets, ptrace, kernel modules, namespaces. A child, by its operation: no programs and no processes, or
 * no mounting, or no changing of owners. A child that sends NVMe commands keeps only those, to one open device.
 */
#ifndef CONTROL_HELPER_CONFINE_H
#define CONTROL_HELPER_CONFINE_H

#include "control/helper/protocol.h"

/*
 * `*privileged_ret`: this process is root with all required capabilities. Without them none is dropped, and everything else
 * is done, so that the reply to ping can show it. One thread. Errors (explained): of the kernel; -ENOMEM.
 */
MUST_CHECK int helper_confine(bool *privileged_ret, struct fathom_fault *why);

/* Call in a child, before it performs the operation. */
MUST_CHECK int helper_confine_for(enum helper_operation operation, struct fathom_fault *why);

/* In that child, with the open device: after this it can only send commands to it, write its reply, and exit. */
MUST_CHECK int helper_confine_to_nvme(int fd, struct fathom_fault *why);

#endif
