/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * move_copy - copies parts of a volume of another engine into a file, as a host of that engine. Blocks; on a worker thread.
 *
 * The parts are regions of equal size, a bit each. At most MOVE_COPY_DEPTH reads are in flight. Zeroes become holes, except
 * in a thick volume. The file is synced before success is returned. The connection has data digests.
 *
 * A volume with checksums gets its sums as the data are written, into its own sidecar; the marks of its regions are not
 * touched. The source compares what it reads with its own sums. A block that it cannot read ends the copy with -EBADMSG,
 * and the reason names the block.
 */
#ifndef ENGINE_MOVE_COPY_H
#define ENGINE_MOVE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "data/store/backend/limit.h"

enum { MOVE_COPY_DEPTH = 8, MOVE_COPY_PIECE_BYTES = 256 << 10, MOVE_COPY_CONNECT_MS = 5000 };

struct move_copy {
	/* all borrowed for the call */
	const char *address, *subnqn, *hostnqn; /* `address`: "127.0.0.1:4420", "[::1]:4420" */
	const char *snapshot;			/* of the volume there, for messages; "": the volume itself */
	int file;				/* of the target's volume */
	int sums_file;				/* its sidecar (data/store/pool/sums.h); -1: none */
	uint64_t size_bytes;			/* of what is copied */
	uint64_t file_bytes; /* of the volume; while a larger snapshot is copied, the file is as long as that */
	uint32_t block_bytes;
	bool is_thick;
	bool is_shared;		   /* the file has blocks in common with snapshots: only blocks that differ are written */
	struct space_limit *limit; /* that new blocks of the file are taken from; NULL: its space was promised */
	const uint8_t *regions;	   /* bit 0 of byte 0 is region 0 */
	size_t regions_bytes;
	uint64_t region_bytes; /* a power of two, at least a block */
	int cancel_fd;	       /* readable: end with -ECANCELED */
	/* `bytes`: copied so far; on the worker thread */
	void (*progress)(void *ctx, uint64_t bytes);
	void *ctx;
};

/* The bytes of the regions, within the volume. */
uint64_t move_copy_bytes(const struct move_copy *copy);
/*
 * Errors (explained): -ECANCELED; -EINVAL (the other volume has another size); those of fathom_connect() and of a
 * connection that is lost; -EBADMSG (a block there is damaged); -EIO (a read failed); those of the file; -ENOSPC (the
 * limit).
 */
MUST_CHECK int move_copy_run(struct move_copy *copy, struct fathom_fault *why);

#endif
