/* SPDX-License-Identifier: BSD-2-Clause */
/* no_cuse - cuse.h for a build without libfuse. */
#include <errno.h>

#include "inspect/probed/register/cuse.h"

int cuse_open(struct registry *registry, const char *device_name, void (*made)(void *ctx, int error), void *ctx,
	      struct cuse **cuse_ret, struct fathom_fault *why)
{
	return fault(why, -ENOTSUP, "this fathom-probed was built without libfuse3 and cannot make /dev/%s", device_name);
}

void cuse_close(struct cuse *cuse)
{
}
