/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers shared by the backends. */
#ifndef STORE_BACKEND_INTERNAL_H
#define STORE_BACKEND_INTERNAL_H

#include "data/store/bdev/bdev.h"

/* Fill name and uuid. Errors (explained): -EINVAL: no name, or too long. */
MUST_CHECK int backend_name(struct bdev *bdev, const char *name, const uint8_t uuid[16], struct fathom_fault *why);

/* Report "name" and "uuid", which every create method has, to the visitor. */
void backend_describe_name(const struct bdev *bdev, const struct bdev_visitor *visitor);
void backend_describe_uuid(const struct bdev *bdev, const struct bdev_visitor *visitor);

#endif
