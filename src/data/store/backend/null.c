/* SPDX-License-Identifier: BSD-2-Clause */
/* null - a block device without storage. See backend.h for the contents of read buffers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/backend/internal.h"

struct null_channel {
	uintptr_t zeroes;
};

/* Whether `iov` is inside bdev_zeroes(): already zero, and read-only, so a store would crash. */
static inline bool is_zeroes(const struct null_channel *channel, const struct iovec *iov)
{
	return (uintptr_t)iov->iov_base - channel->zeroes < BDEV_ZEROES_BYTES;
}

/* True: at least one buffer was filled. */
static bool fill_zeroes(const struct null_channel *channel, const struct iovec *iov, int iov_count)
{
	bool worked = false;

	for (int i = 0; i < iov_count; i++) {
		if (likely(is_zeroes(channel, &iov[i])))
			continue;
		memset(iov[i].iov_base, 0, iov[i].iov_len);
		worked = true;
	}
	return worked;
}

static bool all_zero(const struct iovec *iov, int iov_count)
{
	for (int i = 0; i < iov_count; i++) {
		if (!is_all_zero(iov[i].iov_base, iov[i].iov_len))
			return false;
	}
	return true;
}

static int null_submit(void *channel_ctx, struct bdev_io *io)
{
	if (io->type == IO_TYPE_READ) {
		bool worked = fill_zeroes(channel_ctx, io->iov, io->iov_count);

		bdev_io_complete(io, IO_SUCCESS, worked ? reactor_now() : bdev_io_dispatch_tick(io));
	} else if (io->type == IO_TYPE_COMPARE) {
		enum io_status status = all_zero(io->iov, io->iov_count) ? IO_SUCCESS : IO_MISCOMPARE;

		bdev_io_complete(io, status, reactor_now());
	} else {
		must(io->type != IO_TYPE_RESET);
		bdev_io_complete(io, IO_SUCCESS, bdev_io_dispatch_tick(io));
	}
	return 0;
}

static bool null_supports(const struct bdev *bdev, enum io_type type)
{
	return type != IO_TYPE_RESET; /* all I/O completes inside submit, so there is nothing to reset */
}

static int null_channel_create(struct bdev *bdev, void *channel_ctx)
{
	struct null_channel *channel = channel_ctx;

	must(bdev->reads_zeroes); /* callers may read into bdev_zeroes() */
	channel->zeroes = (uintptr_t)bdev_zeroes();
	return 0;
}

static void null_destroy(struct bdev *bdev)
{
	free(bdev);
}

static void null_describe_config(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
	backend_describe_name(bdev, visitor);
	visitor->number(visitor->ctx, "num_blocks", bdev->block_count);
	visitor->number(visitor->ctx, "block_size", bdev->block_bytes);
	visitor->number(visitor->ctx, "physical_block_size", bdev->physical_block_bytes);
	backend_describe_uuid(bdev, visitor);
}

static const struct bdev_ops null_ops = {
	.submit = null_submit,
	.supports = null_supports,
	.channel_create = null_channel_create,
	.channel_ctx_bytes = sizeof(struct null_channel),
	.destroy = null_destroy,
	.kind = "null",
	.create_method = "bdev_null_create",
	.describe_config = null_describe_config,
};

int null_create(const struct null_options *options, struct fathom_fault *why)
{
	struct bdev *bdev = calloc(1, sizeof(*bdev));
	int rc;

	if (!bdev)
		return fault(why, -ENOMEM, "out of memory for a null block device");
	rc = backend_name(bdev, options->name, options->uuid, why);
	bdev->product = "Null disk";
	bdev->block_bytes = options->block_bytes ? options->block_bytes : 512;
	bdev->physical_block_bytes = options->physical_block_bytes;
	bdev->block_count = options->block_count;
	bdev->completes_inline = true;
	bdev->reads_zeroes = true;
	bdev->ops = &null_ops;
	if (rc == 0)
		rc = bdev_register(bdev, why);
	if (rc < 0)
		free(bdev);
	return rc;
}
