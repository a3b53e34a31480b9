/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/text.h"
#include "data/store/backend/backend.h"
#include "data/store/backend/internal.h"

int backend_name(struct bdev *bdev, const char *name, const uint8_t uuid[16], struct fathom_fault *why)
{
	if (!name || name[0] == '\0')
		return fault(why, -EINVAL, "a block device needs a name");
	if (text_copy(bdev->name, sizeof(bdev->name), name) < 0)
		return fault(why, -EINVAL, "a block device's name has at most %d characters, \"%.40s...\" has more",
			     BDEV_NAME_BYTES_MAX - 1, name);
	memcpy(bdev->uuid, uuid, sizeof(bdev->uuid));
	return 0;
}

void backend_describe_name(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
	visitor->string(visitor->ctx, "name", bdev->name);
}

void backend_describe_uuid(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
	char text[UUID_STR_LEN];

	must(!uuid_is_null(bdev->uuid)); /* a bdev recreated from it would get another UUID */
	uuid_unparse_lower(bdev->uuid, text);
	visitor->string(visitor->ctx, "uuid", text);
}

int backend_delete(const char *name, const char *kind, void (*done)(void *ctx), void *ctx)
{
	struct bdev *bdev = bdev_find(name);

	if (!bdev || (kind && strcmp(bdev->ops->kind, kind) != 0))
		return -ENODEV;
	return bdev_unregister(bdev, done, ctx);
}
