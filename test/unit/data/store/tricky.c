/* SPDX-License-Identifier: BSD-2-Clause */
#include "tricky.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { PENDING_MAX = 4096 };

const struct tricky_options tricky_plain = {
	.name = "t", .block_count = 100, .block_bytes = 512, .types = TRICKY_ALL, .inline_percent = 100
};

struct tricky_channel {
	struct tricky *self;
	struct poller *poller;
	struct bdev_io *pending[PENDING_MAX];
	uint32_t pending_count;
};

/* ---- the limits that the core must respect ---- */

static void check_limits(const struct tricky *self, const struct bdev_io *io)
{
	const struct bdev *bdev = &self->bdev;
	uint64_t bytes = 0, last = io->block_index + io->block_count - 1;

	must(self->options.types & BIT(io->type));
	if (io->type == IO_TYPE_FLUSH || io->type == IO_TYPE_RESET)
		return;
	must(io->block_count > 0);
	must(last < bdev->block_count);
	if (bdev->boundary_blocks)
		must(io->block_index / bdev->boundary_blocks == last / bdev->boundary_blocks);
	if (io->type == IO_TYPE_UNMAP || io->type == IO_TYPE_WRITE_ZEROES)
		return;
	must(io->iov_count > 0);
	if (bdev->io_blocks_max)
		must(io->block_count <= bdev->io_blocks_max);
	if (bdev->iov_count_max)
		must((uint32_t)io->iov_count <= bdev->iov_count_max);
	for (int i = 0; i < io->iov_count; i++) {
		bytes += io->iov[i].iov_len;
		if (bdev->buffer_alignment > 1) {
			must((uintptr_t)io->iov[i].iov_base % bdev->buffer_alignment == 0);
			must(io->iov[i].iov_len % bdev->block_bytes == 0);
		}
	}
	must(bytes == io->block_count * bdev->block_bytes);
}

/* ---- execution ---- */

static enum io_status execute(struct tricky *self, struct bdev_io *io)
{
	uint8_t *memory = self->memory + io->block_index * self->bdev.block_bytes;
	enum io_status status = IO_SUCCESS;

	for (int i = 0; i < io->iov_count; memory += io->iov[i++].iov_len) {
		if (io->type == IO_TYPE_READ)
			memcpy(io->iov[i].iov_base, memory, io->iov[i].iov_len);
		else if (io->type == IO_TYPE_WRITE)
			memcpy(memory, io->iov[i].iov_base, io->iov[i].iov_len);
		else if (memcmp(memory, io->iov[i].iov_base, io->iov[i].iov_len) != 0)
			status = IO_MISCOMPARE;
	}
	if (io->type == IO_TYPE_WRITE_ZEROES && self->options.zeroes_refused_late)
		return IO_UNSUPPORTED;
	if (io->type == IO_TYPE_UNMAP || io->type == IO_TYPE_WRITE_ZEROES)
		memset(memory, 0, io->block_count * self->bdev.block_bytes);
	return status;
}

static void finish(struct tricky *self, struct bdev_io *io)
{
	bdev_io_complete(io, execute(self, io), reactor_now());
}

static struct bdev_io *take(struct tricky_channel *channel, uint64_t index)
{
	struct bdev_io *io = channel->pending[index];

	channel->pending[index] = channel->pending[--channel->pending_count];
	channel->self->held--;
	return io;
}

static int complete_some(void *ctx)
{
	struct tricky_channel *channel = ctx;
	struct tricky *self = channel->self;
	uint64_t count;

	if (self->hold || channel->pending_count == 0)
		return 0;
	count = 1 + random_below(&self->random, channel->pending_count);
	for (uint64_t i = 0; i < count && channel->pending_count > 0; i++)
		finish(self, take(channel, random_below(&self->random, channel->pending_count)));
	return 1;
}

static int tricky_submit(void *channel_ctx, struct bdev_io *io)
{
	struct tricky_channel *channel = channel_ctx;
	struct tricky *self = channel->self;

	check_limits(self, io);
	must(thread_self() == rig_thread(0) || thread_self() == rig_thread(1));
	if (io->type == IO_TYPE_RESET) {
		while (channel->pending_count > 0)
			bdev_io_complete(take(channel, 0), IO_ABORTED, reactor_now());
		bdev_io_complete(io, IO_SUCCESS, reactor_now());
		return 0;
	}
	if (self->refuse_next > 0) {
		self->refuse_next--;
		return -EAGAIN;
	}
	if (random_below(&self->random, 100) < self->options.refuse_percent)
		return -EAGAIN;
	self->last = io;
	if (++self->submits == self->fail_at) {
		if (self->submits % 2)
			return -EIO;
		bdev_io_complete(io, self->fail_with, reactor_now());
	} else if (!self->hold && random_below(&self->random, 100) < self->options.inline_percent) {
		finish(self, io);
	} else {
		must(channel->pending_count < PENDING_MAX);
		channel->pending[channel->pending_count++] = io;
		self->held++;
	}
	return 0;
}

static bool tricky_supports(const struct bdev *bdev, enum io_type type)
{
	return container_of(bdev, struct tricky, bdev)->options.types & BIT(type);
}

static int tricky_channel_create(struct bdev *bdev, void *channel_ctx)
{
	struct tricky_channel *channel = channel_ctx;

	must((uintptr_t)channel_ctx % CACHE_LINE_BYTES == 0);
	channel->self = container_of(bdev, struct tricky, bdev);
	channel->poller = poller_register("tricky", complete_some, channel, 0);
	return channel->poller ? 0 : -ENOMEM;
}

static void tricky_channel_destroy(struct bdev *bdev, void *channel_ctx)
{
	struct tricky_channel *channel = channel_ctx;

	must(channel->pending_count == 0);
	poller_unregister(&channel->poller);
}

static void tricky_destroy(struct bdev *bdev)
{
	struct tricky *self = container_of(bdev, struct tricky, bdev);

	if (self->destroyed)
		(*self->destroyed)++;
	free(self->memory);
	free(self);
}

static const struct bdev_ops tricky_ops = {
	.submit = tricky_submit,
	.supports = tricky_supports,
	.channel_create = tricky_channel_create,
	.channel_destroy = tricky_channel_destroy,
	.channel_ctx_bytes = sizeof(struct tricky_channel),
	.destroy = tricky_destroy,
	.kind = "tricky",
};

struct tricky *tricky_create(const struct tricky_options *options)
{
	struct tricky *self = calloc(1, sizeof(*self));
	struct fathom_fault why = { 0 };

	assert_non_null(self);
	self->options = *options;
	random_init(&self->random, options->seed);
	self->memory = calloc(options->block_count, options->block_bytes);
	assert_non_null(self->memory);
	assert_int_equal(text_copy(self->bdev.name, sizeof(self->bdev.name), options->name), 0);
	self->bdev.product = "Tricky disk";
	self->bdev.block_bytes = options->block_bytes;
	self->bdev.block_count = options->block_count;
	self->bdev.io_blocks_max = options->io_blocks_max;
	self->bdev.iov_count_max = options->iov_count_max;
	self->bdev.boundary_blocks = options->boundary_blocks;
	self->bdev.buffer_alignment = options->buffer_alignment;
	self->bdev.write_cache = options->write_cache;
	self->bdev.read_only = options->read_only;
	self->bdev.ops = &tricky_ops;
	self->fail_with = IO_MEDIA_ERROR;
	if (rig_register(&self->bdev, &why) < 0)
		fail_msg("%s", why.text);
	return self;
}

struct tricky *tricky_open(const struct tricky_options *options, struct bdev_desc **desc_ret,
			   struct bdev_channel **channel_ret)
{
	struct tricky *tricky = tricky_create(options);

	*desc_ret = rig_open(options->name);
	*channel_ret = rig_channel_get(rig_thread(0), *desc_ret);
	assert_non_null(*channel_ret);
	return tricky;
}

void tricky_close(struct bdev_desc *desc, struct bdev_channel *channel, const char *name)
{
	rig_channel_put(rig_thread(0), channel);
	rig_close(desc);
	rig_delete(name);
}
