/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file_create - makes block devices of files, in two steps: open the files, which blocks if their disk hangs, so for
 * volumes a worker thread does it; then register the block device, on the control thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/reactor/reactor.h"
#include "data/store/backend/file_internal.h"
#include "data/store/backend/internal.h"
#include "data/store/backend/sums.h"

static const struct {
	const char *product;
	const struct bdev_ops *ops;
} kinds[] = {
	[FILE_KIND_URING] = { "URING bdev", &file_uring_ops },
	[FILE_KIND_AIO] = { "AIO disk", &file_aio_ops },
	[FILE_KIND_VOLUME] = { "Volume", &file_volume_ops },
};

/* I/O of one region only, because marks and ranges are of one. */
static int attach_sums(struct file_bdev *self, const char *filename, struct fathom_fault *why)
{
	must(self->bdev.ops == &file_volume_ops);
	if (self->bdev.block_bytes != SUMS_BLOCK_BYTES)
		return fault(why, -EINVAL, "checksums need blocks of %d bytes, and %s has %u", SUMS_BLOCK_BYTES,
			     self->filename, self->bdev.block_bytes);
	self->bdev.io_blocks_max = SUMS_IO_BLOCKS_MAX;
	self->bdev.boundary_blocks = SUMS_REGION_BLOCKS;
	return sums_open(filename, self->bdev.block_count, &self->sums, why);
}

/* Any thread. Pair: file_free(). */
static int make_file(const struct file_options *options, struct file_bdev **self_ret, struct fathom_fault *why)
{
	struct file_bdev *self;
	struct bdev *bdev;
	int rc;

	if (!options->filename || options->filename[0] == '\0')
		return fault(why, -EINVAL, "which file?");
	self = calloc(1, sizeof(*self));
	if (self)
		self->filename = strdup(options->filename);
	if (!self || !self->filename) {
		free(self);
		return fault(why, -ENOMEM, "out of memory for a file block device");
	}
	bdev = &self->bdev;
	self->fd = self->claim_fd = -1;
	uring_device_init(&self->io, false);
	uring_device_init(&self->sums_io, true); /* through the page cache */
	bdev->product = kinds[options->kind].product;
	bdev->ops = kinds[options->kind].ops;
	bdev->read_only = options->read_only;
	bdev->has_identity = options->kind == FILE_KIND_VOLUME;
	bdev->write_cache = true;
	bdev->durable_writes = !options->sums_filename; /* with checksums, a flush syncs both files */
	rc = backend_name(bdev, options->name, options->uuid, why);
	if (rc < 0)
		file_free(self);
	else
		*self_ret = self;
	return rc;
}

/* Of a volume: any thread. */
static int open_files(struct file_bdev *self, const struct file_options *options, struct fathom_fault *why)
{
	int rc = file_open(self, options, why);

	if (rc < 0)
		return rc;
	uring_device_init(&self->io, self->is_blocking);
	file_identify(self, SYSFS);
	return options->sums_filename ? attach_sums(self, options->sums_filename, why) : 0;
}

static int register_file(struct file_bdev *self, struct space_limit *limit, struct fathom_fault *why)
{
	int rc;

	self->limit = limit ? space_limit_ref(limit) : NULL;
	rc = bdev_register(&self->bdev, why);
	if (rc < 0)
		file_free(self);
	return rc;
}

int file_create(const struct file_options *options, struct fathom_fault *why)
{
	struct file_bdev *self;
	int rc = make_file(options, &self, why);

	if (rc < 0)
		return rc;
	if (bdev_find(self->bdev.name)) /* check before file_open() locks the file or sets its attribute */
		rc = fault(why, -EEXIST, "a block device named \"%s\" exists already", self->bdev.name);
	else
		rc = open_files(self, options, why);
	if (rc == 0)
		return register_file(self, options->limit, why);
	file_free(self);
	return rc;
}

void file_set_path(struct bdev *bdev, const char *filename)
{
	struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);
	char *copy = strdup(filename);

	must(bdev->ops == &file_volume_ops);
	must(copy);
	free(self->filename);
	self->filename = copy;
}

void file_on_stop(struct bdev *bdev, void (*stopped)(void *ctx, int error), void *ctx)
{
	struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);

	must_be_on(thread_control());
	must(bdev->ops == &file_volume_ops);
	self->stopped = stopped;
	self->stopped_ctx = ctx;
}

void file_stop_writes(struct bdev *bdev, int error)
{
	struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);
	int none = 0;

	must(bdev->ops == &file_volume_ops);
	must(error < 0);
	(void)atomic_compare_exchange_strong(&self->stop_error, &none, error); /* the first reason stays */
}

/* ---- volumes: open, then register or exchange ---- */

int file_volume_open(const struct file_options *options, struct file_bdev **file_ret, struct fathom_fault *why)
{
	static const uint8_t none[16];
	struct file_bdev *self;
	int rc;

	must(options->kind == FILE_KIND_VOLUME);
	must(memcmp(options->uuid, none, sizeof(none)) != 0); /* else it might write an attribute */
	rc = make_file(options, &self, why);
	if (rc < 0)
		return rc;
	rc = open_files(self, options, why);
	must(self->claim_fd < 0); /* a volume's file needs no claim, which would read the list of block devices */
	if (rc < 0)
		file_free(self);
	else
		*file_ret = self;
	return rc;
}

void file_volume_abandon(struct file_bdev *file)
{
	if (file)
		file_free(file);
}

int file_volume_register(struct file_bdev *file, struct space_limit *limit, struct fathom_fault *why)
{
	must_be_on(thread_control());
	must(file->bdev.ops == &file_volume_ops);
	return register_file(file, limit, why);
}

int file_volume_check(const struct bdev *bdev, const struct file_bdev *file, struct fathom_fault *why)
{
	const struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);

	must_be_on(thread_control());
	must(bdev->ops == &file_volume_ops);
	must(!self->sums == !file->sums);
	if (file->direct == self->direct && file->bdev.block_count >= bdev_block_count(bdev) &&
	    file->bdev.buffer_alignment <= bdev->buffer_alignment)
		return 0;
	return fault(why, -EINVAL, "%s is shorter, or of another kind, than the file before", file->filename);
}

void file_volume_exchange(struct bdev *bdev, struct file_bdev *file)
{
	struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);

	must_be_on(thread_control());
	must(bdev->ops == &file_volume_ops);
	/* the descriptor keeps its number, so the channels need not know; both are open, so this cannot fail */
	must(dup3(file->fd, self->fd, O_CLOEXEC) == self->fd);
	sums_close(self->sums);
	self->sums = file->sums;
	file->sums = NULL;
	self->device = file->device;
	self->inode = file->inode;
	file_set_path(bdev, file->filename);
	file_free(file);
}
