/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cuse - DTrace's helper device (/dev/dtrace/helper), by which programs that were made with `dtrace -G` register: the
 * kernel's part. What an ioctl means is in helper.h.
 */
#ifndef PROBED_REGISTER_CUSE_H
#define PROBED_REGISTER_CUSE_H

#include "base/fault.h"
#include "inspect/probed/register/registry.h"

struct cuse;

/*
 * Make /dev/`device_name`. `there(ctx, 0)` when it can be opened; with an error, said already, when the kernel has refused
 * it or ended it. Errors (explained): -ENOTSUP: built without libfuse; -ENODEV, -EACCES ...
 */
MUST_CHECK int cuse_open(struct registry *registry, const char *device_name, void (*there)(void *ctx, int error), void *ctx,
			 struct cuse **cuse_ret, struct fathom_fault *why);
/* Before registry_destroy(). Accepts NULL. */
void cuse_close(struct cuse *cuse);

#endif
