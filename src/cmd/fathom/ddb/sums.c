/* SPDX-License-Identifier: BSD-2-Clause */
/* sums - compares the data of a volume or a snapshot with its checksums (data/store/pool/sums.h). */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "cmd/fathom/ddb/internal.h"
#include "data/store/pool/sums.h"

enum { PIECE_BLOCKS = 256 };
static_assert(SUMS_REGION_BLOCKS % PIECE_BLOCKS == 0, "a region consists of whole pieces");

struct comparison {
	int data, sums;
	uint64_t blocks;
	store_mismatch_fn mismatch;
	void *ctx;
	uint64_t first, count; /* of adjacent blocks that do not match, not yet reported */
	struct store_sums found;
	uint32_t kept[PIECE_BLOCKS];
	uint8_t piece[PIECE_BLOCKS * SUMS_BLOCK_BYTES];
};

static void report(struct comparison *self)
{
	if (self->count > 0)
		self->mismatch(self->ctx, self->first, self->count);
	self->found.mismatches += self->count;
	self->count = 0;
}

static void add_mismatch(struct comparison *self, uint64_t block)
{
	if (self->count > 0 && self->first + self->count != block)
		report(self);
	if (self->count++ == 0)
		self->first = block;
}

/* Read `bytes`; behind the end of the file are zeroes. Returns 0 or -errno. */
static int read_all(int fd, void *to, size_t bytes, uint64_t offset)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t part = pread(fd, (uint8_t *)to + done, bytes - done, (off_t)(offset + done));

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return -errno;
		if (part == 0)
			break;
		done += (size_t)part;
	}
	memset((uint8_t *)to + done, 0, bytes - done);
	return 0;
}

/* Whether no data were written in the range, so that it need not be read. */
static bool is_hole(int fd, uint64_t offset, uint64_t end)
{
	off_t data = lseek(fd, (off_t)offset, SEEK_DATA);

	return data < 0 ? errno == ENXIO : (uint64_t)data >= end;
}

static int compare_piece(struct comparison *self, uint64_t first, uint32_t count)
{
	uint64_t offset = first * SUMS_BLOCK_BYTES, end = offset + (uint64_t)count * SUMS_BLOCK_BYTES;
	bool has_data = !is_hole(self->data, offset, end);
	int error = read_all(self->sums, self->kept, count * sizeof(self->kept[0]), sums_offset(first));

	if (!error && has_data)
		error = read_all(self->data, self->piece, (size_t)(end - offset), offset);
	for (uint32_t i = 0; !error && i < count; i++) {
		const uint8_t *block = self->piece + (size_t)i * SUMS_BLOCK_BYTES;
		uint32_t sum = has_data ? sums_final(sums_update(SUMS_INIT, block, SUMS_BLOCK_BYTES))
					: (uint32_t)SUMS_OF_ZEROES;

		if (!sums_fit(sum, le32toh(self->kept[i])))
			add_mismatch(self, first + i);
	}
	self->found.blocks += error ? 0 : count;
	return error;
}

/* A region whose bit is set may have data and checksums of different writes: the start of an engine computes it again. */
static int compare_region(struct comparison *self, uint64_t region)
{
	uint64_t first = region * SUMS_REGION_BLOCKS, end = min_u64(first + SUMS_REGION_BLOCKS, self->blocks);
	uint8_t bits;
	int error = read_all(self->sums, &bits, 1, region / 8);

	if (!error && (bits >> region % 8 & 1) != 0) {
		self->found.suspect_blocks += end - first;
		return 0;
	}
	for (; !error && first < end; first += PIECE_BLOCKS)
		error = compare_piece(self, first, (uint32_t)min_u64(PIECE_BLOCKS, end - first));
	return error;
}

static int open_file(const struct store *store, const struct store_object *object, const char *name,
		     struct fathom_fault *why)
{
	char path[STORE_PATH_BYTES_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", object->path, name);
	fd = store_open_path(store, path, O_RDONLY);
	return fd < 0 ? fault(why, fd, "cannot open %s: %s", path, strerror(-fd)) : fd;
}

int store_verify_data(const struct store *store, const struct store_object *object, store_mismatch_fn mismatch, void *ctx,
		      struct store_sums *sums_ret, struct fathom_fault *why)
{
	char data[STORE_DATA_NAME_BYTES], sums[STORE_DATA_NAME_BYTES];
	struct comparison *self = calloc(1, sizeof(*self));
	int error = 0;

	must(self);
	must(store_has_sums(object));
	store_data_name(object, data);
	store_sums_name(object, sums);
	self->mismatch = mismatch;
	self->ctx = ctx;
	self->blocks = store_size_of(object) / SUMS_BLOCK_BYTES;
	self->data = open_file(store, object, data, why);
	self->sums = self->data < 0 ? self->data : open_file(store, object, sums, why);
	if (self->sums < 0)
		error = self->sums;
	for (uint64_t i = 0; !error && i < sums_region_count(self->blocks); i++) {
		error = compare_region(self, i);
		if (error)
			error = fault(why, error, "cannot read the data of %s or their checksums: %s", object->name,
				      strerror(-error));
	}
	report(self);
	if (self->data >= 0)
		close(self->data);
	if (self->data >= 0 && self->sums >= 0)
		close(self->sums);
	if (!error)
		*sums_ret = self->found;
	free(self);
	return error;
}
