/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changed - the ranges in which two files differ, from where their blocks are on the disk: no data are read.
 *
 * A clone of a file has the same blocks until one of the two is written: then the writer gets new blocks. So where both
 * files have the same physical blocks, and the file system says that the blocks are shared, the files are equal. Everything
 * else counts as changed. The list may have more than what differs, for example a block that was written with the same
 * bytes; it never has less.
 *
 * - A hole and an unwritten extent (allocated, never written) both read as zeroes, so they are equal, wherever they are.
 * - Data that a program wrote may still be in memory: then their blocks are not chosen yet (delayed allocation), or the map
 *   shows the blocks that were there before, or an unwritten extent. So a map is read with FIEMAP_FLAG_SYNC, which writes
 *   such data first. The list is true for what was written before the call.
 * - An extent whose place the file system does not know is changed.
 *
 * A block that a snapshot has is never given to another file while the snapshot exists. So both maps may be read at
 * different times, if one of the files is not written. File systems without reflinks share nothing: all data are changed.
 */
#ifndef DATA_STORE_POOL_CHANGED_H
#define DATA_STORE_POOL_CHANGED_H

#include "base/fault.h"
#include "data/store/pool/fs.h"

enum {
	CHANGED_RANGES_MAX = 1024,   /* of one call */
	CHANGED_EXTENTS_MAX = 16384, /* about this many are read in one call: it takes milliseconds */
};

struct changed_range {
	uint64_t offset, bytes;
	bool is_zero; /* the new file reads as zeroes there */
};

/* Which part of which files. */
struct changed_query {
	int from;	     /* the old file; -1: none, so that the data of the new one are the changes */
	uint64_t from_bytes; /* its size; behind it are zeroes */
	int to;
	uint64_t to_bytes;
	uint64_t offset; /* where to begin */
	uint32_t ranges_max;
};

/*
 * Fill `ranges` (at most ranges_max) from the offset on, ascending, not adjacent unless one of two is_zero.
 * `*next_offset_ret`: everything before it is answered; to_bytes at the end. It is above `offset` unless that is the end.
 * Blocks. Errors (explained): -EOPNOTSUPP (the file system has no maps), -EIO, -ENOMEM ...
 */
MUST_CHECK int changed_read(const struct pool_fs *fs, const struct changed_query *query, struct changed_range *ranges,
			    uint32_t *count_ret, uint64_t *next_offset_ret, struct fathom_fault *why);

#endif
