/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * written - checksums of the blocks that were last written to a file, in memory: a read of one must return what was
 * written.
 *
 * It finds a disk that loses or changes data while the engine runs. It needs no file, knows only the last writes, and
 * forgets all at the end; checksums that stay are those of volumes (sums.h).
 *
 * The table has buckets of a few entries; a block belongs to one bucket. An entry is valid if a write of its block
 * succeeded and no other change in its bucket was in progress at any time between the begin and the end of that write: so
 * the content of the block is known. The begin of a change removes the entry of its block. A read is compared with an entry
 * only if the entry was valid before the read was submitted, and still is at its end: so no change of the block was in
 * progress meanwhile, and a mismatch is never an effect of the order of I/Os.
 *
 * Only writes make entries. Unmap and Write Zeroes remove them; so do a failed write, growth of the device and another file
 * (a restore). A block of which a write changes a part has none. A full bucket drops its oldest entry.
 *
 * Any thread: a mutex is held for the entries of 32 blocks at a time. Checksums are computed outside of it.
 */
#ifndef STORE_BACKEND_WRITTEN_H
#define STORE_BACKEND_WRITTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/must.h"
#include "data/store/backend/backend.h"

enum { WRITTEN_BLOCK_BYTES = 4096 };

struct written;

/* Of `blocks`, rounded up to a power of two, at least 64. NULL: out of memory. Pair: destroy, which accepts NULL. */
struct written *written_create(uint32_t blocks);
void written_destroy(struct written *written);

/* A part of the file, in bytes. */
struct written_range {
	uint64_t offset, bytes;
};

/* A change of the range is submitted. The result is for its end. */
uint64_t written_begin_change(struct written *written, const struct written_range *range);
/* It has ended. `iov`: the data that were written; NULL: the content is not known. */
void written_end_change(struct written *written, uint64_t id, const struct written_range *range, const struct iovec *iov);

/* A read is submitted. The result is for the check. */
uint64_t written_begin_read(struct written *written);
/*
 * It has returned `iov`. False: a block is not what was written; *block_ret is its index in blocks of WRITTEN_BLOCK_BYTES.
 * It is counted, and kept for written_take_bad().
 */
MUST_CHECK bool written_check(struct written *written, uint64_t id, const struct written_range *range,
			      const struct iovec *iov, uint64_t *block_ret);

/* Remove all entries: the content may have changed. No change is in progress. */
void written_forget(struct written *written);

void written_get(struct written *written, struct file_written_info *info_ret);
uint32_t written_take_bad(struct written *written, uint64_t blocks_ret[FILE_MISMATCHES_MAX]);

#endif
