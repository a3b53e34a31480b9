/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sums_io - reads, writes and flushes of a volume with checksums, on one channel.
 *
 *   write   [mark: write, sync] -> data -> sums
 *   read    data -> sums -> compare -> [in a suspect region that is checked: write the sums]
 *   flush   data -> sync of the sidecar -> [of a clean: write the bits]
 *
 * The sidecar goes through the page cache, which all channels share. An access that would wait is done by a helper.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "data/store/backend/sums.h"

enum { ATTEMPTS_MAX = 1000 };

struct slot;
typedef void (*slot_fn)(struct slot *slot, int error);

struct slot {
	struct uring_op op;
	struct sums_channel *channel;
	struct bdev_io *io;
	struct sums_range range;
	slot_fn next; /* after the access to the sidecar */
	struct iovec iov;
	uint32_t attempts;
	uint8_t *bits; /* of a clean, owned */
	uint32_t sums[SUMS_IO_BLOCKS_MAX], kept[SUMS_IO_BLOCKS_MAX];
	STAILQ_ENTRY(slot) free;
};

struct sums_channel {
	struct file_bdev *file;
	struct file_channel *below;
	struct uring_lane lane;
	bool must_not_try; /* the file system has no writes that do not wait */
	STAILQ_HEAD(, slot) slots_free;
	struct slot slots[SUMS_SLOTS];
};

static bool is_change(const struct bdev_io *io)
{
	return io->type == IO_TYPE_WRITE || io->type == IO_TYPE_WRITE_ZEROES || io->type == IO_TYPE_UNMAP;
}

static struct sums *sums_of(const struct slot *slot)
{
	return slot->channel->file->sums;
}

static void end_io(struct slot *slot, enum io_status status)
{
	struct bdev_io *io = slot->io;

	if (io->type != IO_TYPE_FLUSH)
		sums_leave(sums_of(slot), &slot->range, is_change(io));
	slot->io = NULL;
	STAILQ_INSERT_HEAD(&slot->channel->slots_free, slot, free);
	bdev_io_complete(io, status, reactor_now());
}

/* ---- accesses to the sidecar ---- */

static void access_done(struct uring_op *op, int32_t result)
{
	struct slot *slot = container_of(op, struct slot, op);
	bool is_transfer = op->kind != URING_FDATASYNC;

	if ((result == -EAGAIN || result == -EINTR) && ++slot->attempts <= ATTEMPTS_MAX) {
		uring_submit(op);
		return;
	}
	if (result > 0 && is_transfer && (size_t)result < slot->iov.iov_len) {
		slot->iov.iov_base = (uint8_t *)slot->iov.iov_base + result;
		slot->iov.iov_len -= (size_t)result;
		op->offset_bytes += (uint64_t)result;
		uring_submit(op);
		return;
	}
	if (result == 0 && is_transfer) /* it was cut */
		result = -EIO;
	slot->next(slot, result < 0 ? result : 0);
}

/* The whole access now, if it need not wait. */
static bool try_now(struct slot *slot)
{
	const struct uring_op *op = &slot->op;
	const struct iovec iov = slot->iov;
	ssize_t result;

	if (op->kind == URING_READV) {
		result = preadv2(op->fd, &iov, 1, (off_t)op->offset_bytes, RWF_NOWAIT);
	} else {
		if (slot->channel->must_not_try)
			return false;
		result = pwritev2(op->fd, &iov, 1, (off_t)op->offset_bytes, RWF_NOWAIT);
		slot->channel->must_not_try = result < 0 && errno == EOPNOTSUPP;
	}
	/* a part of a write is repeated as a whole */
	return result == (ssize_t)iov.iov_len;
}

static void start_access(struct slot *slot, int kind, void *buffer, uint64_t bytes, uint64_t offset, slot_fn next)
{
	slot->next = next;
	slot->attempts = 0;
	slot->iov = (struct iovec){ buffer, bytes };
	slot->op = (struct uring_op){
		.done = access_done,
		.fd = sums_of(slot)->fd,
		.iov = &slot->iov,
		.iov_count = 1,
		.offset_bytes = offset,
		.lane = &slot->channel->lane,
	};
	slot->op.kind = (typeof(slot->op.kind))kind;
	if (kind != URING_FDATASYNC && try_now(slot))
		next(slot, 0);
	else
		uring_submit(&slot->op);
}

static void start_sums(struct slot *slot, int kind, void *buffer, slot_fn next)
{
	start_access(slot, kind, buffer, slot->io->block_count * sizeof(uint32_t), sums_offset(slot->io->block_index),
		     next);
}

/* ---- sums of a vector ---- */

static void compute_sums(struct slot *slot)
{
	const struct bdev_io *io = slot->io;
	uint32_t crc = SUMS_INIT, index = 0;
	size_t left = SUMS_BLOCK_BYTES;

	must(io->block_count <= SUMS_IO_BLOCKS_MAX);
	for (int i = 0; i < io->iov_count; i++) {
		const uint8_t *at = io->iov[i].iov_base, *end = at + io->iov[i].iov_len;

		while (at < end) {
			size_t part = min_u64((size_t)(end - at), left);

			crc = sums_update(crc, at, part);
			at += part;
			left -= part;
			if (left > 0)
				continue;
			slot->sums[index++] = sums_final(crc);
			crc = SUMS_INIT;
			left = SUMS_BLOCK_BYTES;
		}
	}
	must(index == io->block_count);
}

/* ---- changes ---- */

/* The result of all syncs of the sidecar. The first failed one stops the volume, as one of the data does. */
static int note_sync(struct slot *slot, int error)
{
	struct file_bdev *file = slot->channel->file;
	bool is_first;
	int result = sums_note_sync(sums_of(slot), error, &is_first);

	if (is_first) {
		log_error("block device %s: %s: the kernel could not write checksums. Every flush fails until the engine"
			  " starts again",
			  bdev_name(&file->bdev), strerror(-error));
		file_note_lost(file, error);
	}
	return result;
}

static void sums_written(struct slot *slot, int error)
{
	if (error)
		sums_suspect(sums_of(slot), slot->range.first);
	end_io(slot, bdev_status_from_errno(error));
}

static void change_done(struct slot *slot, enum io_status status)
{
	/* the core writes zeroes that the file cannot have: nothing has changed yet */
	if (status == IO_SUCCESS) {
		start_sums(slot, URING_WRITEV, slot->io->type == IO_TYPE_WRITE ? (void *)slot->sums : bdev_zeroes(),
			   sums_written);
		return;
	}
	if (status != IO_UNSUPPORTED)
		sums_suspect(sums_of(slot), slot->range.first);
	end_io(slot, status);
}

static void start_data(struct slot *slot)
{
	int rc = file_start(slot->channel->below, slot->io, (uint32_t)(slot - slot->channel->slots));

	must(rc == 0);
}

static void mark_synced(struct slot *slot, int error)
{
	error = note_sync(slot, error);
	sums_marked(sums_of(slot), &slot->range, error == 0);
	if (error)
		end_io(slot, bdev_status_from_errno(error));
	else
		start_data(slot);
}

static void mark_written(struct slot *slot, int error)
{
	if (!error) {
		start_access(slot, URING_FDATASYNC, NULL, 0, 0, mark_synced);
		return;
	}
	sums_marked(sums_of(slot), &slot->range, false);
	end_io(slot, bdev_status_from_errno(error));
}

/* ---- reads ---- */

static void compare_sums(struct slot *slot, int error)
{
	struct bdev *bdev = &slot->channel->file->bdev;
	enum io_status status = bdev_status_from_errno(error);
	bool is_adopted = false;

	if (!error)
		compute_sums(slot);
	for (uint64_t i = 0; !error && i < slot->io->block_count; i++) {
		if (sums_fit(slot->sums[i], slot->kept[i]))
			continue;
		switch (sums_judge(sums_of(slot), slot->range.first + i)) {
		case SUMS_BAD:
			status = IO_MEDIA_ERROR;
			bdev_note_condition(bdev, BDEV_CONDITION_MISMATCH, slot->range.first + i);
			break;
		case SUMS_ADOPTED:
			is_adopted = true;
			break;
		case SUMS_ACCEPTED:
			break;
		}
	}
	/* the range is exclusive in a suspect region; if the region has become suspect since, another check follows */
	if (is_adopted && status == IO_SUCCESS && slot->range.is_exclusive)
		start_sums(slot, URING_WRITEV, slot->sums, sums_written);
	else
		end_io(slot, status);
}

/* ---- flush ---- */

static void bits_written(struct slot *slot, int error)
{
	maybe(error != 0); /* then the disk has marks that memory has not: harmless */
	sums_clean_end_write(sums_of(slot), slot->bits);
	slot->bits = NULL;
	end_io(slot, IO_SUCCESS);
}

static void sidecar_synced(struct slot *slot, int error)
{
	uint64_t bytes;

	error = note_sync(slot, error);
	slot->bits = sums_clean_begin_write(sums_of(slot), slot->io, error == 0, &bytes);
	if (slot->bits)
		start_access(slot, URING_WRITEV, slot->bits, bytes, 0, bits_written);
	else
		end_io(slot, bdev_status_from_errno(error));
}

static void flush_done(struct slot *slot, enum io_status status)
{
	uint64_t bytes;

	if (status == IO_SUCCESS) {
		start_access(slot, URING_FDATASYNC, NULL, 0, 0, sidecar_synced);
		return;
	}
	slot->bits = sums_clean_begin_write(sums_of(slot), slot->io, false, &bytes);
	must(!slot->bits);
	end_io(slot, status);
}

/* ---- as a part of the backend ---- */

void sums_data_done(struct sums_channel *channel, uint32_t index, enum io_status status)
{
	struct slot *slot = &channel->slots[index];

	must(index < SUMS_SLOTS && slot->io);
	if (slot->io->type == IO_TYPE_FLUSH)
		flush_done(slot, status);
	else if (is_change(slot->io))
		change_done(slot, status);
	else if (status == IO_SUCCESS)
		start_sums(slot, URING_READV, slot->kept, compare_sums);
	else
		end_io(slot, status);
}

void sums_refused(struct sums_channel *channel, uint32_t index)
{
	struct slot *slot = &channel->slots[index];

	must(index < SUMS_SLOTS && slot->io && is_change(slot->io));
	end_io(slot, IO_NO_SPACE);
}

int sums_submit(struct sums_channel *channel, struct bdev_io *io)
{
	struct slot *slot = STAILQ_FIRST(&channel->slots_free);
	enum sums_entry entry = SUMS_ENTERED;
	uint64_t offset = 0;

	if (!slot)
		return -EAGAIN;
	if (io->type != IO_TYPE_FLUSH) {
		slot->range.first = io->block_index;
		slot->range.count = io->block_count;
		entry = sums_enter(channel->file->sums, &slot->range, is_change(io), &offset);
		if (entry == SUMS_BUSY)
			return -EAGAIN;
	}
	must(!slot->io && !slot->bits);
	STAILQ_REMOVE_HEAD(&channel->slots_free, free);
	slot->io = io;
	if (io->type == IO_TYPE_WRITE)
		compute_sums(slot);
	if (entry == SUMS_MUST_MARK)
		start_access(slot, URING_WRITEV, channel->file->sums->sector, SUMS_SECTOR_BYTES, offset, mark_written);
	else
		start_data(slot);
	return 0;
}

int sums_channel_create(struct file_bdev *file, struct file_channel *below, struct sums_channel **channel_ret)
{
	struct sums_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return -ENOMEM;
	channel->file = file;
	channel->below = below;
	uring_lane_init(&channel->lane, &file->sums_io);
	STAILQ_INIT(&channel->slots_free);
	for (int i = 0; i < SUMS_SLOTS; i++) {
		channel->slots[i].channel = channel;
		STAILQ_INSERT_TAIL(&channel->slots_free, &channel->slots[i], free);
	}
	*channel_ret = channel;
	return 0;
}

void sums_channel_destroy(struct sums_channel *channel)
{
	if (!channel)
		return;
	for (int i = 0; i < SUMS_SLOTS; i++)
		must(!channel->slots[i].io);
	uring_lane_deinit(&channel->lane);
	free(channel);
}
