/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file - a regular file or a block device of the kernel.
 *
 *   read, write     readv, writev, with RWF_DSYNC if it is to be durable; a short transfer continues where it stopped
 *   flush           fdatasync
 *   unmap           fallocate(PUNCH_HOLE)
 *   write zeroes    fallocate(ZERO_RANGE), else PUNCH_HOLE, else IO_UNSUPPORTED, and the core writes them
 *
 * The core aligns buffers for O_DIRECT, by buffer_alignment. An I/O's only state is its scratch: continuing a transfer
 * changes one element of the lent vector, and restores it at the end.
 *
 * Flush covers writes that completed before it: a write is complete once the kernel has it, in its cache or on the device.
 * Through the page cache a failed flush means lost data that hosts believe written. The kernel reports such a loss once and
 * then marks the pages clean. All channels share one descriptor, so one flush would see the error and the next succeed.
 * Therefore all later flushes on all channels fail too, until the device is removed and created again.
 *
 * A volume is not trusted after any failed flush: its writes are stopped, and its owner learns the reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/file_internal.h"
#include "data/store/backend/internal.h"
#include "data/store/backend/sums.h"
#include "data/store/backend/written.h"

enum { ATTEMPTS_MAX = 1000 }; /* of a system call that returns EAGAIN or EINTR; then its error is final */

struct file_channel {
	struct uring_lane lane;
	struct uring_lane seek_lane;
	struct file_bdev *file;
	int fd;
	uint32_t block_bytes;
	bool can_punch, is_volume;
	bool zero_range_refused;
	struct sums_channel *sums; /* NULL: none */
};

/* The scratch in a struct bdev_io. */
struct file_io {
	struct uring_op op; /* first */
	struct file_channel *channel;
	uint64_t bytes_done;
	struct iovec cut; /* the original iov[cut_index], if cut_index is not -1 */
	int16_t cut_index;
	uint16_t attempts;
	uint32_t slot;	     /* of the checksums */
	uint64_t written_id; /* if reads are compared with writes */
};
static_assert(sizeof(struct file_io) <= BDEV_IO_BACKEND_BYTES, "fits in the I/O");

static struct bdev_io *io_of(const struct file_io *self)
{
	return container_of((uint8_t(*)[BDEV_IO_BACKEND_BYTES])(void *)(uintptr_t)self, struct bdev_io, backend);
}

/* ---- completion ---- */

static void restore_vector(struct file_io *self)
{
	if (self->cut_index < 0)
		return;
	must(self->cut_index < io_of(self)->iov_count);
	io_of(self)->iov[self->cut_index] = self->cut;
	self->cut_index = -1;
}

/* ---- what was written ---- */

static bool is_change(const struct bdev_io *io)
{
	return io->type == IO_TYPE_WRITE || io->type == IO_TYPE_WRITE_ZEROES || io->type == IO_TYPE_UNMAP;
}

static struct written_range range_of(const struct file_io *self)
{
	uint32_t block_bytes = self->channel->block_bytes;

	return (struct written_range){ io_of(self)->block_index * block_bytes, io_of(self)->block_count * block_bytes };
}

static void begin_written(struct file_io *self)
{
	struct written *written = self->channel->file->written;
	struct written_range range = range_of(self);

	if (is_change(io_of(self)))
		self->written_id = written_begin_change(written, &range);
	else if (io_of(self)->type == IO_TYPE_READ)
		self->written_id = written_begin_read(written);
}

/* The status of the I/O: a read that returned something else than was written fails. */
static enum io_status end_written(struct file_io *self, enum io_status status)
{
	struct file_bdev *file = self->channel->file;
	const struct bdev_io *io = io_of(self);
	struct written_range range = range_of(self);
	uint64_t block;

	if (is_change(io))
		written_end_change(file->written, self->written_id, &range,
				   io->type == IO_TYPE_WRITE && status == IO_SUCCESS ? io->iov : NULL);
	if (io->type != IO_TYPE_READ || status != IO_SUCCESS ||
	    written_check(file->written, self->written_id, &range, io->iov, &block))
		return status;
	bdev_note_condition(&file->bdev, BDEV_CONDITION_MISMATCH, block * WRITTEN_BLOCK_BYTES / self->channel->block_bytes);
	return IO_MEDIA_ERROR;
}

static void complete_io(struct file_io *self, enum io_status status)
{
	restore_vector(self);
	if (unlikely(self->channel->file->written))
		status = end_written(self, status);
	if (self->channel->sums)
		sums_data_done(self->channel->sums, self->slot, status);
	else
		bdev_io_complete(io_of(self), status, reactor_now());
}

/* True: the error is transient, and the operation runs again. */
static bool retry_operation(struct file_io *self, int32_t result)
{
	must(self->attempts <= ATTEMPTS_MAX);
	if ((result != -EAGAIN && result != -EINTR) || ++self->attempts > ATTEMPTS_MAX)
		return false;
	uring_submit(&self->op);
	return true;
}

/* ---- failed syncs ---- */

/* Any channel's thread; only the first one records and logs the loss. */
static void record_data_loss(struct file_bdev *file, int32_t error)
{
	int none = 0;

	if (!atomic_compare_exchange_strong(&file->flush_error, &none, error))
		return;
	bdev_note_condition(&file->bdev, BDEV_CONDITION_DATA_LOST, (uint64_t) - (int64_t)error);
	log_error("block device %s: %s: the kernel could not write what hosts had written: data are lost. Every flush fails"
		  " until the device is removed and created again",
		  bdev_name(&file->bdev), strerror(-error));
}

/* Control thread. The message was sent before the channel went, so the device still exists. */
static void report_stop(void *ctx)
{
	struct file_bdev *file = ctx;

	must_be_on(thread_control());
	if (file->stopped)
		file->stopped(file->stopped_ctx, atomic_load(&file->stop_error));
}

COLD void file_note_lost(struct file_bdev *file, int32_t error)
{
	int none = 0;

	must(error < 0);
	if (!atomic_compare_exchange_strong(&file->stop_error, &none, error))
		return;
	bdev_note_condition(&file->bdev, BDEV_CONDITION_DATA_LOST, (uint64_t) - (int64_t)error);
	thread_send_msg(thread_control(), report_stop, file);
}

static COLD void note_failed_sync(struct file_channel *channel, int32_t error)
{
	if (channel->is_volume)
		file_note_lost(channel->file, error);
	else if (!channel->file->direct)
		record_data_loss(channel->file, error);
}

/* ---- read and write ---- */

/* Start the rest of a short transfer. */
static void continue_transfer(struct file_io *self)
{
	struct bdev_io *io = io_of(self);
	uint64_t skip = self->bytes_done;
	int index = 0;

	must(skip > 0);
	restore_vector(self);
	while (skip >= io->iov[index].iov_len) {
		skip -= io->iov[index++].iov_len;
		must(index < io->iov_count);
	}
	self->cut = io->iov[index];
	self->cut_index = (int16_t)index;
	io->iov[index].iov_base = (uint8_t *)io->iov[index].iov_base + skip;
	io->iov[index].iov_len -= skip;
	self->op.iov = &io->iov[index];
	self->op.iov_count = io->iov_count - index;
	self->op.offset_bytes = io->block_index * self->channel->block_bytes + self->bytes_done;
	uring_submit(&self->op);
}

/* Errors of a durable write by which the device says nothing about earlier writes. */
static bool is_refusal(enum io_status status)
{
	return status == IO_NO_SPACE || status == IO_INVALID || status == IO_UNSUPPORTED || status == IO_READ_ONLY ||
	       status == IO_NOT_PERMITTED || status == IO_ABORTED;
}

/* The result of a durable write, which is also a sync: see flush_done(). */
static enum io_status settle_durable(struct file_channel *channel, int32_t result)
{
	struct file_bdev *file = channel->file;

	if (result < 0 && !is_refusal(bdev_status_from_errno(result)))
		note_failed_sync(channel, result);
	if (result >= 0)
		result = atomic_load(channel->is_volume ? &file->stop_error : &file->flush_error);
	return bdev_status_from_errno(result);
}

static void transfer_done(struct uring_op *op, int32_t result)
{
	struct file_io *self = container_of(op, struct file_io, op);
	uint64_t bytes = io_of(self)->block_count * self->channel->block_bytes;

	must(op->kind == (io_of(self)->type == IO_TYPE_READ ? URING_READV : URING_WRITEV));
	if (result < 0) {
		if (!retry_operation(self, result))
			complete_io(self, op->is_durable ? settle_durable(self->channel, result)
							 : bdev_status_from_errno(result));
		return;
	}
	self->bytes_done += (uint64_t)result;
	must(self->bytes_done <= bytes);
	if (self->bytes_done == bytes)
		complete_io(self, unlikely(op->is_durable) ? settle_durable(self->channel, 0) : IO_SUCCESS);
	else if (result == 0) /* the file was truncated */
		complete_io(self, io_of(self)->type == IO_TYPE_READ ? IO_MEDIA_ERROR : IO_NO_SPACE);
	else
		continue_transfer(self);
}

/* ---- flush, unmap, write zeroes ---- */

static void flush_done(struct uring_op *op, int32_t result)
{
	struct file_io *self = container_of(op, struct file_io, op);
	struct file_bdev *file = self->channel->file;

	must(io_of(self)->type == IO_TYPE_FLUSH);
	if (retry_operation(self, result))
		return;
	if (result >= 0)
		result = inject(INJECT_VOLUME_FLUSH);
	if (result < 0)
		note_failed_sync(self->channel, result);
	/* another channel's flush may have got the error meanwhile: the kernel reports it only once */
	if (result >= 0)
		result = atomic_load(self->channel->is_volume ? &file->stop_error : &file->flush_error);
	complete_io(self, bdev_status_from_errno(result));
}

static void start_fallocate(struct file_io *self);

static void fallocate_done(struct uring_op *op, int32_t result)
{
	struct file_io *self = container_of(op, struct file_io, op);

	must(op->kind == URING_FALLOCATE);
	if (retry_operation(self, result))
		return;
	if (result == -EOPNOTSUPP && (op->mode & FALLOC_FL_ZERO_RANGE)) {
		self->channel->zero_range_refused = true;
		start_fallocate(self);
	} else {
		complete_io(self, bdev_status_from_errno(result < 0 ? result : 0));
	}
}

/* Start the fallocate() that makes the range read as zeroes. */
static void start_fallocate(struct file_io *self)
{
	bool zero_range = io_of(self)->type == IO_TYPE_WRITE_ZEROES && !self->channel->zero_range_refused;

	must(io_of(self)->type == IO_TYPE_UNMAP || io_of(self)->type == IO_TYPE_WRITE_ZEROES);
	if (!zero_range && !self->channel->can_punch) {
		complete_io(self, IO_UNSUPPORTED);
		return;
	}
	self->op.done = fallocate_done;
	self->op.kind = URING_FALLOCATE;
	self->op.mode = FALLOC_FL_KEEP_SIZE | (zero_range ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE);
	self->op.length_bytes = io_of(self)->block_count * self->channel->block_bytes;
	uring_submit(&self->op);
}

/* ---- as a backend ---- */

/* Writes of a volume have been stopped: end what would change data, and flushes. */
static COLD int refuse_io(const struct file_bdev *file, struct bdev_io *io)
{
	bdev_io_complete(io,
			 io->type == IO_TYPE_FLUSH ? bdev_status_from_errno(atomic_load(&file->stop_error)) : IO_READ_ONLY,
			 reactor_now());
	return 0;
}

static enum file_space take_space(struct file_channel *channel, const struct bdev_io *io)
{
	return likely(!channel->file->limit) ? FILE_SPACE_TAKEN
					     : file_take_space(channel->file, io->block_index * channel->block_bytes,
							       io->block_count * channel->block_bytes);
}

/* Nothing was written: checksums and data still fit. */
static COLD void refuse_space(struct file_io *self)
{
	if (self->channel->file->written)
		(void)end_written(self, IO_NO_SPACE); /* the same */
	if (self->channel->sums)
		sums_refused(self->channel->sums, self->slot);
	else
		bdev_io_complete(io_of(self), IO_NO_SPACE, reactor_now());
}

static void start_transfer(struct file_io *self)
{
	self->op.done = transfer_done;
	self->op.kind = io_of(self)->type == IO_TYPE_READ ? URING_READV : URING_WRITEV;
	uring_submit(&self->op);
}

/* The write has its space. */
static void start_change(struct file_io *self)
{
	if (io_of(self)->type == IO_TYPE_WRITE)
		start_transfer(self);
	else
		start_fallocate(self);
}

static void holes_counted(struct uring_op *op, int32_t result)
{
	struct file_io *self = container_of(op, struct file_io, op);

	must(op->kind == URING_CALL);
	op->iov = io_of(self)->iov;
	op->lane = &self->channel->lane;
	if (file_take_holes(self->channel->file, result))
		start_change(self);
	else
		refuse_space(self);
}

static void count_holes(struct file_io *self)
{
	self->op.done = holes_counted;
	self->op.kind = URING_CALL;
	self->op.call = file_count_holes;
	self->op.lane = &self->channel->seek_lane;
	self->op.length_bytes = io_of(self)->block_count * self->channel->block_bytes;
	uring_submit(&self->op);
}

static void start_write(struct file_io *self)
{
	switch (take_space(self->channel, io_of(self))) {
	case FILE_SPACE_TAKEN:
		start_change(self);
		return;
	case FILE_SPACE_REFUSED:
		refuse_space(self);
		return;
	case FILE_SPACE_UNKNOWN:
		count_holes(self);
	}
}

int file_start(struct file_channel *channel, struct bdev_io *io, uint32_t slot)
{
	struct file_io *self = bdev_io_backend(io);

	must(channel->fd >= 0);
	must((uint32_t)io->iov_count <= bdev_channel_bdev(io->channel)->iov_count_max);
	self->channel = channel;
	self->bytes_done = 0;
	self->cut_index = -1;
	self->attempts = 0;
	self->slot = slot;
	self->op.lane = &channel->lane;
	self->op.fd = channel->fd;
	self->op.offset_bytes = io->block_index * channel->block_bytes;
	self->op.iov = io->iov;
	self->op.iov_count = io->iov_count;
	self->op.is_durable = io->is_durable && io->type == IO_TYPE_WRITE;
	if (unlikely(channel->file->written))
		begin_written(self);
	if (unlikely(uring_lane_is_full(&channel->lane)))
		__atomic_fetch_add(&channel->file->bdev.share_waits, 1, __ATOMIC_RELAXED);
	switch (io->type) {
	case IO_TYPE_READ:
		start_transfer(self);
		return 0;
	case IO_TYPE_WRITE:
	case IO_TYPE_WRITE_ZEROES:
		start_write(self);
		return 0;
	case IO_TYPE_FLUSH:
		self->op.done = flush_done;
		self->op.kind = URING_FDATASYNC;
		uring_submit(&self->op);
		return 0;
	case IO_TYPE_UNMAP:
		start_fallocate(self);
		return 0;
	case IO_TYPE_COMPARE:
	case IO_TYPE_RESET:
		break;
	}
	return -EOPNOTSUPP;
}

static int file_submit(void *channel_ctx, struct bdev_io *io)
{
	struct file_channel *channel = channel_ctx;

	if (io->type != IO_TYPE_READ && unlikely(atomic_load_explicit(&channel->file->stop_error, memory_order_relaxed)))
		return refuse_io(channel->file, io);
	return channel->sums ? sums_submit(channel->sums, io) : file_start(channel, io, 0);
}

static bool file_supports(const struct bdev *bdev, enum io_type type)
{
	const struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);

	switch (type) {
	case IO_TYPE_READ:
	case IO_TYPE_WRITE: /* the core checks `read_only` */
	case IO_TYPE_FLUSH:
		return true;
	case IO_TYPE_UNMAP:
		return self->can_punch;
	case IO_TYPE_WRITE_ZEROES:
		return self->can_zero;
	case IO_TYPE_COMPARE:
	case IO_TYPE_RESET:
		return false;
	}
	return false;
}

static int file_channel_create(struct bdev *bdev, void *channel_ctx)
{
	struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);
	struct file_channel *channel = channel_ctx;

	must(self->fd >= 0);
	uring_lane_init(&channel->lane, &self->io);
	uring_lane_init(&channel->seek_lane, &self->seek_io);
	channel->file = self;
	channel->fd = self->fd;
	channel->block_bytes = bdev->block_bytes;
	channel->can_punch = self->can_punch;
	channel->is_volume = bdev->ops == &file_volume_ops;
	return self->sums ? sums_channel_create(self, channel, &channel->sums) : 0;
}

static void file_channel_destroy(struct bdev *bdev, void *channel_ctx)
{
	struct file_channel *channel = channel_ctx;

	sums_channel_destroy(channel->sums);
	uring_lane_deinit(&channel->seek_lane);
	uring_lane_deinit(&channel->lane);
}

void file_free(struct file_bdev *self)
{
	uring_device_deinit(&self->io);
	uring_device_deinit(&self->sums_io);
	uring_device_deinit(&self->seek_io);
	file_close(self);
	space_limit_unref(self->limit);
	written_destroy(self->written);
	free(self->filename);
	free(self);
}

static void note_closed(struct file_bdev *self)
{
	bdev_closed(&self->bdev);
}

static void file_begin_close(struct bdev *bdev)
{
	file_close_later(container_of(bdev, struct file_bdev, bdev), note_closed);
}

static void file_destroy(struct bdev *bdev)
{
	file_free(container_of(bdev, struct file_bdev, bdev));
}

static void uring_describe_config(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
	const struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);

	backend_describe_name(bdev, visitor);
	visitor->string(visitor->ctx, "filename", self->filename);
	visitor->number(visitor->ctx, "block_size", bdev->block_bytes);
	if (self->identity !=
	    FILE_IDENTITY_DEVICE) /* else derived from the device again, and another device gets another */
		backend_describe_uuid(bdev, visitor);
}

static void aio_describe_config(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
	const struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);

	uring_describe_config(bdev, visitor);
	visitor->boolean(visitor->ctx, "readonly", bdev->read_only);
	visitor->boolean(visitor->ctx, "fallocate", self->can_zero);
}

static void uring_describe_driver(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
	const struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);

	struct file_written_info info;

	visitor->string(visitor->ctx, "filename", self->filename);
	visitor->boolean(visitor->ctx, "direct", self->direct);
	if (!self->written)
		return;
	written_get(self->written, &info);
	visitor->number(visitor->ctx, "paranoid_blocks", info.blocks);
	visitor->number(visitor->ctx, "paranoid_recorded", info.recorded);
	visitor->number(visitor->ctx, "paranoid_checked", info.checked);
	visitor->number(visitor->ctx, "paranoid_mismatches", info.mismatches);
}

static void aio_describe_driver(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
	const struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);

	uring_describe_driver(bdev, visitor);
	visitor->boolean(visitor->ctx, "readonly", bdev->read_only);
	visitor->boolean(visitor->ctx, "fallocate", self->can_zero);
}

#define FILE_OPS                                                                                                           \
	.submit = file_submit, .supports = file_supports, .channel_create = file_channel_create,                           \
	.channel_destroy = file_channel_destroy, .channel_ctx_bytes = sizeof(struct file_channel),                         \
	.close = file_begin_close, .destroy = file_destroy

const struct bdev_ops file_volume_ops = {
	FILE_OPS,
	.kind = "volume",
	.driver = "volume",
	.describe_driver = uring_describe_driver,
};

const struct bdev_ops file_uring_ops = {
	FILE_OPS,
	.kind = "uring",
	.create_method = "bdev_uring_create",
	.describe_config = uring_describe_config,
	.driver = "uring",
	.describe_driver = uring_describe_driver,
};

const struct bdev_ops file_aio_ops = {
	FILE_OPS,
	.kind = "aio",
	.create_method = "bdev_aio_create",
	.describe_config = aio_describe_config,
	.driver = "aio",
	.describe_driver = aio_describe_driver,
};
