/* SPDX-License-Identifier: BSD-2-Clause */
/* What the backends have in common. */
#ifndef STORE_BACKEND_INTERNAL_H
#define STORE_BACKEND_INTERNAL_H

#include "data/store/bdev/bdev.h"

/* Fill name and uuid. Errors (explained): -EINVAL: no name, or too long. */
MUST_CHECK int backend_name(struct bdev *bdev, const char *name, const uint8_t uuid[16], struct fault *why);

/* Tell the visitor the rows "name" and "uuid", which every create method has. */
void backend_describe_name(const struct bdev *bdev, const struct bdev_visitor *visitor);
void backend_describe_uuid(const struct bdev *bdev, const struct bdev_visitor *visitor);

#endif
