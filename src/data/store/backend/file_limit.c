/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file_limit - takes what a write will allocate from the limit of its file system.
 *
 * Only while the limit is set and half of it is taken, which means that little space is left, a write costs system calls:
 * lseek() says where the file has blocks. A range that was zeroed by fallocate() has blocks, too, but lseek() calls it a
 * hole, so a write there counts once more, until the next reading of the free space.
 *
 * lseek() reads the file's list of blocks, and waits for its lock, so it blocks while the disk hangs: a helper pthread
 * calls it, and a device has few of these (base/reactor/share.h).
 */
#include <errno.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/file_internal.h"

enum {
	PIECES_MAX = 64,       /* of one I/O that are looked at; the rest counts as a hole */
	FS_BLOCK_BYTES = 4096, /* no file system allocates less */
};

/* The bytes of the range for which the file has no blocks. */
static uint64_t count_missing(int fd, uint64_t offset, uint64_t end)
{
	uint64_t missing = 0, position = offset;

	for (int i = 0; position < end; i++) {
		off_t hole = lseek(fd, (off_t)position, SEEK_HOLE), data;

		if (hole < 0 || i == PIECES_MAX)
			return missing + end - position; /* not known */
		if ((uint64_t)hole >= end)
			return missing;
		data = lseek(fd, hole, SEEK_DATA);
		/* -ENXIO: there are no more data. Data at `hole`: another write to this block has ended meanwhile */
		position = data < 0 ? end : min_u64((uint64_t)data, end);
		must(position >= (uint64_t)hole);
		missing += position - (uint64_t)hole;
	}
	return missing;
}

static uint64_t begin_of(uint64_t offset)
{
	return offset / FS_BLOCK_BYTES * FS_BLOCK_BYTES;
}

static uint64_t end_of(uint64_t offset, uint64_t bytes)
{
	return round_up(offset + bytes, FS_BLOCK_BYTES);
}

bool space_limit_take_missing(struct space_limit *limit, int fd, uint64_t offset, uint64_t bytes)
{
	uint64_t missing;

	if (!space_limit_is_set(limit))
		return true;
	missing = count_missing(fd, begin_of(offset), end_of(offset, bytes));
	return missing == 0 || space_limit_take(limit, missing);
}

enum file_space file_take_space(struct file_bdev *self, uint64_t offset, uint64_t bytes)
{
	enum file_limit kind = (enum file_limit)__atomic_load_n(&self->limit_kind, __ATOMIC_RELAXED);
	uint64_t taken;

	if (likely(kind == FILE_LIMIT_NONE) || !space_limit_is_set(self->limit))
		return FILE_SPACE_TAKEN;
	taken = end_of(offset, bytes) - begin_of(offset);
	if (kind == FILE_LIMIT_NEW)
		return space_limit_take_of_plenty(self->limit, taken) ? FILE_SPACE_TAKEN : FILE_SPACE_UNKNOWN;
	return space_limit_take(self->limit, taken) ? FILE_SPACE_TAKEN : FILE_SPACE_REFUSED;
}

int32_t file_count_holes(const struct uring_op *op)
{
	uint64_t missing = count_missing(op->fd, begin_of(op->offset_bytes), end_of(op->offset_bytes, op->length_bytes));

	return (int32_t)min_u64(round_up(missing, FS_BLOCK_BYTES) / FS_BLOCK_BYTES, INT32_MAX);
}

bool file_take_holes(struct file_bdev *self, int32_t count)
{
	must(count >= 0);
	return count == 0 || space_limit_take(self->limit, (uint64_t)count * FS_BLOCK_BYTES);
}

void file_set_limit(struct bdev *bdev, enum file_limit kind)
{
	struct file_bdev *self = container_of(bdev, struct file_bdev, bdev);

	must_be_on(thread_control());
	must(kind == FILE_LIMIT_NONE || self->limit);
	__atomic_store_n(&self->limit_kind, (int)kind, __ATOMIC_RELAXED);
}
