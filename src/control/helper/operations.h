/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * operations - performs one request of the helper, in a child process that may be killed at any instant.
 *
 * After a kill: format: check-format reports the device as damaged (mkfs.xfs marks it until it is done) or not empty, so it
 * is never mounted, and formatted again only by force; mount: mounted or not, and a second mount reports which; prepare:
 * more or fewer zeroes.
 *
 * Against concurrent use, a device that is overwritten is opened with O_EXCL, which fails while the kernel uses it, and
 * locked with flock(2), which udev and the helpers of other servers respect.
 */
#ifndef CONTROL_HELPER_OPERATIONS_H
#define CONTROL_HELPER_OPERATIONS_H

#include "control/helper/policy.h"

struct helper_operator {
	struct provider *provider;
	const struct helper_policy *policy;
	uint32_t uid, gid; /* of the requesting user: the new owner of prepared devices and mounted folders */
	/* Before NVMe commands: allow only those, on `fd`. NULL: in a test. Errors (explained). */
	int (*confine_to_nvme)(int fd, struct fathom_fault *why);
};

/* Perform the request, except ping, and fill in the reply. Blocks as long as devices do. */
void helper_perform(const struct helper_operator *by, const struct helper_request *request, struct helper_reply *reply_ret);

#endif
