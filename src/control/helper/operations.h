/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * operations - what the helper does for a request, once. Runs in a child of its own, which may be killed at any instant.
 *
 * What a kill leaves: format: a device that check-format calls damaged (mkfs.xfs marks it until it is done) or not empty,
 * so that it is never mounted and only formatted again by force; mount: mounted or not, and mounting again says which;
 * prepare: more or fewer zeroes.
 *
 * Against others: the device is opened for itself alone (O_EXCL: not while the kernel uses it) and locked (flock(2), which
 * udev respects, and helpers of other servers).
 */
#ifndef CONTROL_HELPER_OPERATIONS_H
#define CONTROL_HELPER_OPERATIONS_H

#include "control/helper/policy.h"

struct helper_operator {
	struct provider *provider;
	const struct helper_policy *policy;
	uint32_t uid, gid; /* of who asks: owner of what is prepared and mounted */
};

/* Do it and say how it went. Not ping. Blocks as long as devices do. */
void helper_perform(const struct helper_operator *by, const struct helper_request *request, struct helper_reply *reply_ret);

#endif
