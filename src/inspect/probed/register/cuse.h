/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cuse - DTrace's helper device (/dev/dtrace/helper), for programs built with `dtrace -G`: the session with the kernel.
 * helper.h interprets the ioctls.
 */
#ifndef PROBED_REGISTER_CUSE_H
#define PROBED_REGISTER_CUSE_H

#include "base/fault.h"
#include "inspect/probed/register/registry.h"

struct cuse;

/*
 * Make /dev/`device_name`. Calls `made(ctx, 0)` when it can be opened, and `made(ctx, error)` when the kernel has refused
 * or ended it, which is logged. Errors (explained): -ENOTSUP: built without libfuse; -ENODEV, -EACCES ...
 */
MUST_CHECK int cuse_open(struct registry *registry, const char *device_name, void (*made)(void *ctx, int error), void *ctx,
			 struct cuse **cuse_ret, struct fathom_fault *why);
/* Call it before registry_destroy(). Accepts NULL. */
void cuse_close(struct cuse *cuse);

#endif
