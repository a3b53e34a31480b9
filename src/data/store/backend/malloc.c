/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * malloc - a block device in memory.
 *
 * One private mapping, which the kernel fills with zeroes at first touch; in huge pages if it is at least one huge page
 * long. Large zeroed ranges go back to the kernel, so they read as zeroes and occupy nothing. All channels copy to and from
 * the same memory without locks: a read concurrent with a write of the same block may return parts of both, as on any disk.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/backend/internal.h"

enum {
	PAGE_BYTES = 4096,
	HUGE_BYTES = 2 << 20,
	GIVE_BACK_BYTES_MIN = 128 * 1024, /* below this, writing zeroes is as fast as the system call */
	STREAM_BYTES = 64,		  /* stored at a time, bypassing the caches */
	STREAM_BYTES_MIN = 4096,
};
static_assert(GIVE_BACK_BYTES_MIN >= 2 * PAGE_BYTES, "at any offset it contains a whole page");
static_assert(HUGE_BYTES % PAGE_BYTES == 0, "huge page alignment implies page alignment");

struct malloc_bdev {
	struct bdev bdev;
	uint8_t *memory; /* aligned to HUGE_BYTES if at least that long */
	void *mapping;	 /* contains `memory` */
	size_t mapping_bytes;
};

struct malloc_channel {
	uint8_t *memory;
	uint64_t bytes;
	uint32_t block_bytes;
};

static void zero_range(uint8_t *memory, size_t bytes)
{
	uintptr_t from = round_up((uintptr_t)memory, PAGE_BYTES);
	uintptr_t to = ((uintptr_t)memory + bytes) & ~(uintptr_t)(PAGE_BYTES - 1);

	if (bytes < GIVE_BACK_BYTES_MIN || madvise((void *)from, to - from, MADV_DONTNEED) < 0) {
		memset(memory, 0, bytes);
		return;
	}
	memset(memory, 0, from - (uintptr_t)memory);
	memset((void *)to, 0, (uintptr_t)memory + bytes - to);
}

/*
 * Large writes bypass the caches. A device is larger than they are, so a cached store would first read the line from memory
 * and evict other data.
 */
static void write_streaming(uint8_t *memory, const uint8_t *from, size_t bytes)
{
#ifdef __SSE2__
	if (bytes >= STREAM_BYTES_MIN && (uintptr_t)memory % sizeof(__m128i) == 0) {
		size_t streamed = bytes - bytes % STREAM_BYTES;

		for (size_t at = 0; at < streamed; at += STREAM_BYTES) {
			const __m128i *line = (const void *)(from + at);
			__m128i a = _mm_loadu_si128(line), b = _mm_loadu_si128(line + 1), c = _mm_loadu_si128(line + 2),
				d = _mm_loadu_si128(line + 3);

			_mm_stream_si128((void *)(memory + at), a);
			_mm_stream_si128((void *)(memory + at + 16), b);
			_mm_stream_si128((void *)(memory + at + 32), c);
			_mm_stream_si128((void *)(memory + at + 48), d);
		}
		_mm_sfence(); /* streaming stores are weakly ordered: they must be visible before completion */
		memory += streamed;
		from += streamed;
		bytes -= streamed;
	}
#endif
	memcpy(memory, from, bytes);
}

static enum io_status compare_vector(const uint8_t *memory, const struct iovec *iov, int iov_count)
{
	for (int i = 0; i < iov_count; i++) {
		if (memcmp(memory, iov[i].iov_base, iov[i].iov_len) != 0)
			return IO_MISCOMPARE;
		memory += iov[i].iov_len;
	}
	return IO_SUCCESS;
}

static int malloc_submit(void *channel_ctx, struct bdev_io *io)
{
	const struct malloc_channel *channel = channel_ctx;
	uint8_t *memory = channel->memory + io->block_index * channel->block_bytes;
	uint64_t bytes = io->block_count * channel->block_bytes;
	enum io_status status = IO_SUCCESS;

	must(io->block_index * channel->block_bytes + bytes <= channel->bytes);
	switch (io->type) {
	case IO_TYPE_READ:
		for (int i = 0; i < io->iov_count; memory += io->iov[i++].iov_len)
			memcpy(io->iov[i].iov_base, memory, io->iov[i].iov_len);
		break;
	case IO_TYPE_WRITE:
		for (int i = 0; i < io->iov_count; memory += io->iov[i++].iov_len)
			write_streaming(memory, io->iov[i].iov_base, io->iov[i].iov_len);
		break;
	case IO_TYPE_COMPARE:
		status = compare_vector(memory, io->iov, io->iov_count);
		break;
	case IO_TYPE_UNMAP:
	case IO_TYPE_WRITE_ZEROES:
		zero_range(memory, bytes);
		break;
	case IO_TYPE_FLUSH:
		bdev_io_complete(io, IO_SUCCESS, bdev_io_dispatch_tick(io));
		return 0;
	case IO_TYPE_RESET:
		return -EOPNOTSUPP;
	}
	bdev_io_complete(io, status, reactor_now());
	return 0;
}

static bool malloc_supports(const struct bdev *bdev, enum io_type type)
{
	return type != IO_TYPE_RESET; /* all I/O completes inside submit, so there is nothing to reset */
}

static int malloc_channel_create(struct bdev *bdev, void *channel_ctx)
{
	struct malloc_bdev *self = container_of(bdev, struct malloc_bdev, bdev);
	struct malloc_channel *channel = channel_ctx;

	must(self->memory);
	channel->memory = self->memory;
	channel->bytes = bdev->block_count * bdev->block_bytes;
	channel->block_bytes = bdev->block_bytes;
	return 0;
}

static void malloc_destroy(struct bdev *bdev)
{
	struct malloc_bdev *self = container_of(bdev, struct malloc_bdev, bdev);

	if (self->mapping)
		must(munmap(self->mapping, self->mapping_bytes) == 0);
	free(self);
}

static void malloc_describe_config(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
	backend_describe_name(bdev, visitor);
	visitor->number(visitor->ctx, "num_blocks", bdev->block_count);
	visitor->number(visitor->ctx, "block_size", bdev->block_bytes);
	visitor->number(visitor->ctx, "physical_block_size", bdev->physical_block_bytes);
	backend_describe_uuid(bdev, visitor);
	visitor->number(visitor->ctx, "optimal_io_boundary", bdev->boundary_blocks);
}

static const struct bdev_ops malloc_ops = {
	.submit = malloc_submit,
	.supports = malloc_supports,
	.channel_create = malloc_channel_create,
	.channel_ctx_bytes = sizeof(struct malloc_channel),
	.destroy = malloc_destroy,
	.kind = "malloc",
	.create_method = "bdev_malloc_create",
	.describe_config = malloc_describe_config,
};

static int map_memory(struct malloc_bdev *self, uint64_t bytes)
{
	bool huge = bytes >= HUGE_BYTES;

	must(!self->mapping);
	must(bytes <= SIZE_MAX - HUGE_BYTES);
	self->mapping_bytes = bytes + (huge ? HUGE_BYTES : 0);
	self->mapping = mmap(NULL, self->mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			     -1, 0);
	if (self->mapping == MAP_FAILED) {
		self->mapping = NULL;
		return -errno;
	}
	self->memory = self->mapping;
	if (huge) {
		self->memory = (uint8_t *)round_up((uintptr_t)self->mapping, HUGE_BYTES);
		(void)madvise(self->memory, bytes, MADV_HUGEPAGE); /* failure only costs speed */
	}
	must(self->memory + bytes <= (uint8_t *)self->mapping + self->mapping_bytes);
	return 0;
}

int malloc_create(const struct malloc_options *options, struct fathom_fault *why)
{
	struct malloc_bdev *self = calloc(1, sizeof(*self));
	struct bdev *bdev;
	int rc;

	if (!self)
		return fault(why, -ENOMEM, "out of memory for a malloc block device");
	bdev = &self->bdev;
	rc = backend_name(bdev, options->name, options->uuid, why);
	bdev->product = "Malloc disk";
	bdev->block_bytes = options->block_bytes ? options->block_bytes : 512;
	bdev->physical_block_bytes = options->physical_block_bytes;
	bdev->block_count = options->block_count;
	bdev->boundary_blocks = options->boundary_blocks;
	bdev->completes_inline = true;
	bdev->ops = &malloc_ops;
	/*
	 * Map before registering, because a registered bdev may be used at once. bdev_register() rejects an invalid size.
	 */
	if (rc == 0 && bdev->block_count > 0 && bdev->block_count <= (uint64_t)INT64_MAX / bdev->block_bytes) {
		rc = map_memory(self, bdev->block_count * bdev->block_bytes);
		if (rc < 0)
			rc = fault(why, -ENOMEM, "no address space for the %" PRIu64 " blocks of %u bytes of \"%s\"",
				   bdev->block_count, bdev->block_bytes, options->name);
	}
	if (rc == 0)
		rc = bdev_register(bdev, why);
	if (rc < 0)
		malloc_destroy(bdev);
	return rc;
}
