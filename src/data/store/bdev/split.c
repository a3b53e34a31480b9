/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * split - executes one I/O that the backend cannot handle as several that it can.
 *
 *   SPLIT_PIECES   exceeds the limits, or has buffers that the device cannot use: pieces of the range. Each uses its part
 *                  of the vector, or a bounce buffer of the channel if that part is not aligned or one block has too many
 *                  iovecs.
 *   SPLIT_ZEROES   write zeroes, written from bdev_zeroes()
 *   SPLIT_COMPARE  compare: read into a buffer, then compare
 *
 * The parent is in state SPLIT. Children have got its first `split_blocks` blocks, and `split_iov_*` is the position of the
 * next block in its vector. It has at most BDEV_IO_CHILDREN_MAX children at a time. Children and buffers belong to the
 * channel; a parent that finds none free waits in `waiting` until any child on the channel ends. It cannot wait forever,
 * because every child and buffer that is not free is in flight.
 *
 * The parent's status is that of the first failure. After a failure no child starts, and the parent ends with its last
 * child.
 *
 * Children often complete inside submission, so advance_split() is a loop guarded by `split_busy` and never recurses.
 */
#include <string.h>

#include "data/store/bdev/internal.h"

enum { ZEROES_STEP_BYTES = 1 << 20 }; /* of one child that writes zeroes */
static_assert((int)ZEROES_STEP_BYTES <= (int)BDEV_ZEROES_BYTES, "there are as many");

static inline bool is_data(enum io_type type)
{
	return type == IO_TYPE_READ || type == IO_TYPE_WRITE || type == IO_TYPE_COMPARE;
}

/* ---- whether and how ---- */

bool split_possible(const struct bdev *bdev, uint8_t native)
{
	const uint8_t made_up_for = BIT(IO_TYPE_COMPARE) | BIT(IO_TYPE_WRITE_ZEROES);

	/* a backend that completes later may still report IO_UNSUPPORTED for write zeroes, which then splits */
	return bdev_has_limits(bdev) || (native & made_up_for) != made_up_for || !bdev->completes_inline;
}

/* Whether the device can use the rest of `iov` from `offset` on. */
static bool element_is_aligned(const struct bdev *bdev, const struct iovec *iov, size_t offset)
{
	if (bdev->buffer_alignment <= 1)
		return true;
	return (((uintptr_t)iov->iov_base + offset) & (bdev->buffer_alignment - 1)) == 0 &&
	       ((iov->iov_len - offset) & (bdev->block_bytes - 1)) == 0;
}

static bool is_aligned(const struct bdev *bdev, const struct bdev_io *io)
{
	for (int i = 0; i < io->iov_count; i++) {
		if (!element_is_aligned(bdev, &io->iov[i], 0))
			return false;
	}
	return true;
}

/* Blocks from `block_index` on that lie before the next boundary. */
static uint64_t blocks_to_boundary(const struct bdev *bdev, uint64_t block_index)
{
	return bdev->boundary_blocks ? bdev->boundary_blocks - block_index % bdev->boundary_blocks : UINT64_MAX;
}

enum split_kind split_wanted(const struct bdev_channel *ch, const struct bdev_io *io)
{
	const struct bdev *bdev = ch->bdev;

	if (io->type == IO_TYPE_FLUSH)
		return SPLIT_NONE;
	if (!(ch->native & BIT(io->type))) {
		must(io->type == IO_TYPE_COMPARE || io->type == IO_TYPE_WRITE_ZEROES);
		return io->type == IO_TYPE_COMPARE ? SPLIT_COMPARE : SPLIT_ZEROES;
	}
	if (io->block_count > blocks_to_boundary(bdev, io->block_index))
		return SPLIT_PIECES;
	if (!is_data(io->type))
		return SPLIT_NONE;
	if (bdev->io_blocks_max && io->block_count > bdev->io_blocks_max)
		return SPLIT_PIECES;
	if (bdev->iov_count_max && (uint32_t)io->iov_count > bdev->iov_count_max)
		return SPLIT_PIECES;
	return bdev->buffer_alignment <= 1 || is_aligned(bdev, io) ? SPLIT_NONE : SPLIT_PIECES;
}

/* ---- bytes of a vector ---- */

/* Advance (index, offset) by `bytes`. */
static void vector_skip(const struct iovec *iov, int iov_count, uint32_t *index, size_t *offset, size_t bytes)
{
	while (bytes > 0) {
		size_t here;

		must(*index < (uint32_t)iov_count);
		here = min_u64(bytes, iov[*index].iov_len - *offset);
		bytes -= here;
		*offset += here;
		if (*offset == iov[*index].iov_len) {
			(*index)++;
			*offset = 0;
		}
	}
}

enum vector_use { VECTOR_GATHER, VECTOR_SCATTER, VECTOR_COMPARE };

/*
 * Gather into, scatter from or compare with the child's buffer the `bytes` bytes of the parent's vector at the child's
 * place. False: they differ.
 */
static bool use_child_buffer(const struct bdev_io *parent, const struct bdev_child *child, size_t bytes,
			     enum vector_use use)
{
	uint32_t index = child->iov_index;
	size_t offset = child->iov_offset;
	uint8_t *buffer = child->buffer;

	while (bytes > 0) {
		uint8_t *memory;
		size_t here;

		must(index < (uint32_t)parent->iov_count);
		memory = (uint8_t *)parent->iov[index].iov_base + offset;
		here = min_u64(bytes, parent->iov[index].iov_len - offset);
		if (use == VECTOR_GATHER)
			memcpy(buffer, memory, here);
		else if (use == VECTOR_SCATTER)
			memcpy(memory, buffer, here);
		else if (memcmp(memory, buffer, here) != 0)
			return false;
		buffer += here;
		bytes -= here;
		index++;
		offset = 0;
	}
	return true;
}

/* ---- children and buffers ---- */

static struct bdev_child *child_of(struct bdev_io *io)
{
	static_assert(offsetof(struct bdev_child, io) == 0, "a child is its I/O");
	return (struct bdev_child *)io;
}

static void child_free(struct bdev_channel *ch, struct bdev_child *child)
{
	must(child->io.story.state == BDEV_IO_FREE);
	if (child->buffer) {
		size_t index = (size_t)((uint8_t *)child->buffer - ch->buffers) / BUFFER_BYTES;

		must(index < BUFFERS_PER_CHANNEL);
		must(!(ch->buffers_free & BIT(index)));
		ch->buffers_free |= (uint32_t)BIT(index);
		child->buffer = NULL;
	}
	STAILQ_INSERT_HEAD(&ch->children_free, &child->io, link);
}

static bool child_buffer_get(struct bdev_channel *ch, struct bdev_child *child)
{
	unsigned int index;

	must(!child->buffer);
	if (!ch->buffers_free)
		return false;
	index = (unsigned int)__builtin_ctz(ch->buffers_free);
	must(index < BUFFERS_PER_CHANNEL);
	ch->buffers_free &= (uint32_t)~BIT(index);
	child->buffer = ch->buffers + (size_t)index * BUFFER_BYTES;
	return true;
}

/* ---- the next piece ---- */

/*
 * Point the child's vector at the parent's memory: as many whole, aligned blocks as fit, at most `bytes_max`. Returns the
 * bytes; 0: the next block needs a bounce buffer.
 */
static size_t piece_in_place(const struct bdev *bdev, const struct bdev_io *parent, struct bdev_child *child,
			     size_t bytes_max)
{
	uint32_t index = parent->split_iov_index;
	size_t offset = parent->split_iov_offset, bytes = 0, surplus;
	int count = 0, count_max = CHILD_IOV_MAX;

	if (bdev->iov_count_max)
		count_max = (int)min_u64(CHILD_IOV_MAX, bdev->iov_count_max);
	while (bytes < bytes_max && count < count_max && element_is_aligned(bdev, &parent->iov[index], offset)) {
		size_t here = min_u64(bytes_max - bytes, parent->iov[index].iov_len - offset);

		must(index < (uint32_t)parent->iov_count);
		if (here > 0)
			child->iov[count++] = (struct iovec){ (uint8_t *)parent->iov[index].iov_base + offset, here };
		bytes += here;
		offset = 0;
		if (++index == (uint32_t)parent->iov_count)
			break;
	}
	/* whole blocks only */
	surplus = bytes & (bdev->block_bytes - 1);
	bytes -= surplus;
	while (surplus > 0) {
		size_t here = min_u64(surplus, child->iov[count - 1].iov_len);

		must(count > 0);
		child->iov[count - 1].iov_len -= here;
		surplus -= here;
		if (child->iov[count - 1].iov_len == 0)
			count--;
	}
	must(bytes <= bytes_max);
	child->io.iov_count = count;
	return bytes;
}

/* Assign the parent's next piece to `child`. Returns its blocks; 0: it needs a buffer and none is free. */
static uint64_t piece_prepare(struct bdev_channel *ch, struct bdev_io *parent, struct bdev_child *child)
{
	const struct bdev *bdev = ch->bdev;
	uint64_t block_index = parent->block_index + parent->split_blocks;
	uint64_t blocks = min_u64(parent->block_count - parent->split_blocks, blocks_to_boundary(bdev, block_index));
	size_t bytes;

	must(parent->split_blocks < parent->block_count);
	child->io.type = parent->split_kind == SPLIT_ZEROES    ? IO_TYPE_WRITE
			 : parent->split_kind == SPLIT_COMPARE ? IO_TYPE_READ
							       : parent->type;
	child->io.is_durable = parent->is_durable && parent->type == IO_TYPE_WRITE;
	child->io.iov = NULL;
	child->io.iov_count = 0;
	if (!is_data(child->io.type))
		return blocks;
	child->io.iov = child->iov;
	if (bdev->io_blocks_max)
		blocks = min_u64(blocks, bdev->io_blocks_max);
	if (parent->split_kind == SPLIT_ZEROES) {
		blocks = min_u64(blocks, ZEROES_STEP_BYTES / bdev->block_bytes);
		child->iov[0] = (struct iovec){ bdev_zeroes(), blocks * bdev->block_bytes };
		child->io.iov_count = 1;
		return blocks;
	}
	child->iov_index = parent->split_iov_index;
	child->iov_offset = parent->split_iov_offset;
	if (parent->split_kind == SPLIT_PIECES) {
		bytes = piece_in_place(bdev, parent, child, blocks * bdev->block_bytes);
		if (bytes > 0)
			return bytes / bdev->block_bytes;
	}
	if (!child_buffer_get(ch, child))
		return 0;
	blocks = min_u64(blocks, BUFFER_BYTES / bdev->block_bytes);
	bytes = blocks * bdev->block_bytes;
	if (child->io.type != IO_TYPE_READ)
		use_child_buffer(parent, child, bytes, VECTOR_GATHER);
	child->iov[0] = (struct iovec){ child->buffer, bytes };
	child->io.iov_count = 1;
	return blocks;
}

/* ---- advancing ---- */

/* Start one child. False: no child, or no buffer, is free. */
static bool start_child(struct bdev_channel *ch, struct bdev_io *parent, uint64_t now)
{
	struct bdev_child *child;
	struct bdev_io *io = STAILQ_FIRST(&ch->children_free);
	uint64_t blocks;

	if (!io)
		return false;
	STAILQ_REMOVE_HEAD(&ch->children_free, link);
	child = child_of(io);
	must(child->buffer == NULL);
	must(parent->split_children < BDEV_IO_CHILDREN_MAX);
	blocks = piece_prepare(ch, parent, child);
	if (blocks == 0) {
		child_free(ch, child);
		return false;
	}
	must(blocks <= parent->block_count - parent->split_blocks);
	io->channel = ch;
	io->block_index = parent->block_index + parent->split_blocks;
	io->block_count = blocks;
	io->parent = &parent->story.trace;
	io->split_parent = parent;
	parent->split_blocks += blocks;
	if (parent->split_kind != SPLIT_ZEROES && is_data(parent->type))
		vector_skip(parent->iov, parent->iov_count, &parent->split_iov_index, &parent->split_iov_offset,
			    blocks * ch->block_bytes);
	parent->split_children++;
	io_enter(ch, io, now);
	io_dispatch(ch, io, now);
	return true;
}

/* Start as many children of `parent` as possible; end it if all have ended. False: no child could start. */
static bool advance_split(struct bdev_channel *ch, struct bdev_io *parent, uint64_t now)
{
	bool progress = false;

	must(parent->story.state == BDEV_IO_SPLIT);
	must(parent->channel == ch);
	if (parent->split_busy || parent->split_waiting)
		return true;
	parent->split_busy = true;
	while (parent->status == IO_SUCCESS && parent->split_blocks < parent->block_count &&
	       parent->split_children < BDEV_IO_CHILDREN_MAX) {
		if (!start_child(ch, parent, now)) {
			parent->split_waiting = true;
			STAILQ_INSERT_TAIL(&ch->waiting, parent, link);
			break;
		}
		progress = true;
	}
	parent->split_busy = false;
	if (parent->split_waiting || parent->split_children > 0)
		return progress;
	if (parent->status != IO_SUCCESS || parent->split_blocks == parent->block_count)
		io_finish(ch, parent, parent->status, now);
	return true;
}

static void wake_waiting(struct bdev_channel *ch, uint64_t now)
{
	struct bdev_io *parent;

	if (ch->waking)
		return;
	ch->waking = true;
	while ((parent = STAILQ_FIRST(&ch->waiting))) {
		must(parent->split_waiting);
		STAILQ_REMOVE_HEAD(&ch->waiting, link);
		parent->split_waiting = false;
		if (!advance_split(ch, parent, now))
			break;
	}
	ch->waking = false;
}

void split_begin(struct bdev_channel *ch, struct bdev_io *io, enum split_kind kind, uint64_t now)
{
	must(kind != SPLIT_NONE);
	must(ch->may_split);
	must_be_on(ch->thread);
	must(!io->split_parent); /* a child is within the limits and never splits again */
	io->status = IO_SUCCESS;
	io->split_kind = (uint8_t)kind;
	io->split_blocks = 0;
	io->split_iov_index = 0;
	io->split_iov_offset = 0;
	io->split_children = 0;
	io->split_busy = false;
	io->split_waiting = false;
	probe_bdev_io_split(now | TICK_SHARED, io, io->block_index, (uint32_t)min_u64(io->block_count, UINT32_MAX));
	if (unlikely(!ch->children) && channel_make_children(ch))
		io->status = IO_FAILED; /* then no child starts */
	(void)advance_split(ch, io, now | TICK_SHARED);
}

void split_child_ended(struct bdev_channel *ch, struct bdev_io *io, enum io_status status, uint64_t now)
{
	struct bdev_child *child = child_of(io);
	struct bdev_io *parent = io->split_parent;
	size_t bytes = io->block_count * ch->block_bytes;
	bool equal;

	must(parent->split_children > 0);
	must(parent->story.state == BDEV_IO_SPLIT);
	must(io->channel == ch);
	if (child->buffer && status == IO_SUCCESS && io->type == IO_TYPE_READ) {
		equal = use_child_buffer(parent, child, bytes,
					 parent->split_kind == SPLIT_COMPARE ? VECTOR_COMPARE : VECTOR_SCATTER);
		status = equal ? IO_SUCCESS : IO_MISCOMPARE;
	}
	probe_bdev_io_done(now, io, (uint32_t)ch->queue_depth, status, ch->name);
	io->status = status;
	child_free(ch, child);
	parent->split_children--;
	if (io->type == IO_TYPE_WRITE_ZEROES && status == IO_UNSUPPORTED) {
		/*
		 * The backend cannot write zeroes here: write them, from the beginning of the range. Other children that
		 * still zero their pieces meanwhile do no harm.
		 */
		if (parent->split_kind == SPLIT_PIECES)
			parent->split_blocks = 0;
		parent->split_kind = SPLIT_ZEROES;
		status = IO_SUCCESS;
	}
	if (ch->reset && parent->split_blocks < parent->block_count && status == IO_SUCCESS)
		status = IO_ABORTED; /* a reset aborts the part that has not started */
	if (parent->status == IO_SUCCESS)
		parent->status = status;
	if (parent->split_waiting && parent->status != IO_SUCCESS) {
		STAILQ_REMOVE(&ch->waiting, parent, bdev_io, link);
		parent->split_waiting = false;
	}
	(void)advance_split(ch, parent, now | TICK_SHARED);
	if (unlikely(!STAILQ_EMPTY(&ch->waiting)))
		wake_waiting(ch, now | TICK_SHARED);
}

void split_abort_waiting(struct bdev_channel *ch, uint64_t now)
{
	struct bdev_io_queue aborted = STAILQ_HEAD_INITIALIZER(aborted);
	struct bdev_io *parent;

	must(ch->reset_aborting);
	STAILQ_CONCAT(&aborted, &ch->waiting);
	STAILQ_FOREACH (parent, &aborted, link) {
		must(parent->split_waiting);
		parent->status = IO_ABORTED;
		parent->split_waiting = false;
	}
	while ((parent = STAILQ_FIRST(&aborted))) {
		STAILQ_REMOVE_HEAD(&aborted, link);
		if (parent->split_children == 0)
			io_finish(ch, parent, parent->status, now);
	}
}
