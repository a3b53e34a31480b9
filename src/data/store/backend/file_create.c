/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file_create - makes block devices of files, in two steps: open the files on a worker thread, as that blocks while their
 * disk hangs; then register the block device, on the control thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/file_internal.h"
#include "data/store/backend/internal.h"
#include "data/store/backend/sums.h"
#include "data/store/backend/written.h"

static const struct {
	const char *product;
	const struct bdev_ops *ops;
} kinds[] = {
	[FILE_KIND_URING] = { "URING bdev", &file_uring_ops },
	[FILE_KIND_AIO] = { "AIO disk", &file_aio_ops },
	[FILE_KIND_VOLUME] = { "Volume", &file_volume_ops },
};

/* Set before the first file is opened. */
static uint32_t written_blocks;

void file_keep_written(uint32_t blocks)
{
	written_blocks = blocks;
}

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
	self->fd = self->former_fd = self->claim_fd = -1;
	uring_device_init(&self->io, false);
	uring_device_init(&self->sums_io, true); /* through the page cache */
	uring_device_init(&self->seek_io, true);
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

/* Any thread. */
static int open_files(struct file_bdev *self, const struct file_options *options, struct fathom_fault *why)
{
	int rc = file_open(self, options, why);

	if (rc < 0)
		return rc;
	uring_device_init(&self->io, self->is_blocking);
	file_identify(self, SYSFS);
	if (written_blocks > 0) {
		self->written = written_create(written_blocks);
		if (!self->written)
			return fault(why, -ENOMEM, "out of memory for the checks of %s", self->filename);
	}
	return options->sums_filename ? attach_sums(self, options->sums_filename, why) : 0;
}

int file_bdev_open(const struct file_options *options, struct file_bdev **file_ret, struct fathom_fault *why)
{
	struct file_bdev *self = NULL;
	int rc = make_file(options, &self, why);

	if (rc < 0)
		return rc;
	rc = open_files(self, options, why);
	if (rc < 0)
		file_free(self);
	else
		*file_ret = self;
	return rc;
}

int file_bdev_register(struct file_bdev *file, struct space_limit *limit, struct fathom_fault *why)
{
	int rc;

	must_be_on(thread_control());
	file->limit = limit ? space_limit_ref(limit) : NULL;
	rc = bdev_register(&file->bdev, why);
	if (rc < 0)
		file_bdev_abandon(file);
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

	must(options->kind == FILE_KIND_VOLUME);
	must(memcmp(options->uuid, none, sizeof(none)) != 0); /* else it might write an attribute */
	return file_bdev_open(options, file_ret, why);
}

void file_volume_abandon(struct file_bdev *file)
{
	must(!file || file->bdev.ops == &file_volume_ops);
	file_bdev_abandon(file);
}

int file_volume_register(struct file_bdev *file, struct space_limit *limit, struct fathom_fault *why)
{
	must(file->bdev.ops == &file_volume_ops);
	return file_bdev_register(file, limit, why);
}

int file_volume_check(const struct bdev *bdev, struct file_bdev *file, struct fathom_fault *why)
{
	const struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);

	must_be_on(thread_control());
	must(bdev->ops == &file_volume_ops);
	must(!self->sums == !file->sums);
	if (file->direct != self->direct || file->bdev.block_count < bdev_block_count(bdev) ||
	    file->bdev.buffer_alignment > bdev->buffer_alignment)
		return fault(why, -EINVAL, "%s is shorter, or of another kind, than the file before", file->filename);
	if (file->former_fd < 0)
		file->former_fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	return file->former_fd < 0 ? fault(why, -errno, "cannot exchange the file of a volume: %s", strerror(errno)) : 0;
}

void file_volume_exchange(struct bdev *bdev, struct file_bdev *file)
{
	struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);
	struct sums *sums = self->sums;

	must_be_on(thread_control());
	must(bdev->ops == &file_volume_ops);
	/*
	 * The descriptor keeps its number, so the channels need not know. All are open, so neither call can fail; and
	 * neither closes a file, because each has a second descriptor.
	 */
	must(dup3(self->fd, file->former_fd, O_CLOEXEC) == file->former_fd);
	must(dup3(file->fd, self->fd, O_CLOEXEC) == self->fd);
	self->sums = file->sums;
	file->sums = sums;
	file_forget_written(bdev);
	file_swap_identity(self, file);
	file_set_path(bdev, file->filename);
	file_bdev_abandon(file);
}

/* ---- checks of what was written ---- */

static struct written *written_of(const struct bdev *bdev)
{
	return container_of(bdev, struct file_bdev, bdev)->written;
}

bool file_keeps_written(const struct bdev *bdev)
{
	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
		if (bdev->ops == kinds[i].ops)
			return written_of(bdev);
	}
	return false;
}

void file_get_written(const struct bdev *bdev, struct file_written_info *info_ret)
{
	written_get(written_of(bdev), info_ret);
}

uint32_t file_take_changed(struct bdev *bdev, uint64_t blocks_ret[FILE_MISMATCHES_MAX])
{
	uint32_t count = written_take_bad(written_of(bdev), blocks_ret);

	for (uint32_t i = 0; i < count; i++)
		blocks_ret[i] = blocks_ret[i] * WRITTEN_BLOCK_BYTES / bdev->block_bytes;
	return count;
}

void file_forget_written(struct bdev *bdev)
{
	if (file_keeps_written(bdev))
		written_forget(written_of(bdev));
}
