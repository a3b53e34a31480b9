/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sums - checksums of the blocks of a volume, in a sidecar file (data/store/pool/sums.h; docs/decisions/017).
 *
 *   write   mark its region on disk, if it is not; then the data; then the sums of its blocks
 *   read    the data; then the sums, and compare
 *
 * A region is MARKED before its first write, and durably. While it is, a crash may leave data and sums of different
 * writes. After a crash, and after a write that failed, a marked region is SUSPECT: a difference in it is no proof of
 * damage. A check reads it, corrects its sums and makes it trusted. When all writes to a region are durable, a clean
 * removes its mark.
 *
 * Two changes of a block, or a change and a read, are never in progress together: the second one is refused with -EAGAIN,
 * and the core submits it again. So the data and the sums of a block are of the same write.
 *
 * Channels of all threads share a struct sums; its mutex is held for moments only.
 */
#ifndef STORE_BACKEND_SUMS_H
#define STORE_BACKEND_SUMS_H

#include <pthread.h>

#include "data/store/backend/file_internal.h"
#include "data/store/pool/sums.h"

enum {
	SUMS_IO_BLOCKS_MAX = 32, /* of a read or write; the core splits longer ones */
	SUMS_SLOTS = 128,	 /* I/Os of a channel in progress */
	SUMS_BUCKETS = 64,
};

struct sums_range {
	uint64_t first, count;
	bool is_exclusive;
	LIST_ENTRY(sums_range) link;
};

struct sums {
	int fd;
	uint64_t block_count, region_count;
	pthread_mutex_t mutex;
	/* ---- under the mutex ---- */
	LIST_HEAD(, sums_range) ranges[SUMS_BUCKETS]; /* in progress, by region */
	uint8_t *marked;			      /* a bit for each region; what the disk has, or less */
	uint8_t *suspect, *touched;		      /* touched: written since the last begin of a clean */
	uint64_t marked_count, suspect_count;
	uint64_t failures; /* how often a region became suspect */
	uint64_t checked;  /* the region that is being checked; UINT64_MAX: none */
	bool is_marking;   /* one I/O writes a part of the bits */
	uint8_t sector[SUMS_SECTOR_BYTES];
	const struct bdev_io *clean_io; /* the flush after which marks are removed; NULL: none */
	uint8_t *cleaned;		/* its regions */
	uint64_t mismatches, adopted;
	int sync_error; /* the sidecar lost writes: all flushes fail */
	uint64_t bad[FILE_MISMATCHES_MAX];
	uint32_t bad_count;
};

/* Open the sidecar of a data file of `block_count` blocks. Errors (explained): those of open(), -EINVAL, -ENOMEM. */
MUST_CHECK int sums_open(const char *filename, uint64_t block_count, struct sums **sums_ret, struct fathom_fault *why);
/* Accepts NULL. No I/O is in progress. */
void sums_close(struct sums *sums);

/* ---- sums.c: regions and ranges ---- */

/* What the range may do now. */
enum sums_entry { SUMS_ENTERED, SUMS_MUST_MARK, SUMS_BUSY };

/*
 * Enter the range, of one region. SUMS_MUST_MARK: it has entered, and its caller writes `sums->sector` at `*offset_ret`,
 * syncs, and calls sums_marked(). SUMS_BUSY: try again later.
 */
enum sums_entry sums_enter(struct sums *sums, struct sums_range *range, bool is_change, uint64_t *offset_ret);
void sums_marked(struct sums *sums, const struct sums_range *range, bool is_done);
void sums_leave(struct sums *sums, struct sums_range *range, bool is_change);
/* Data and sums of the region may differ from now on. */
void sums_suspect(struct sums *sums, uint64_t block_index);
/* What a difference at `block_index` means. */
enum sums_verdict { SUMS_BAD, SUMS_ACCEPTED, SUMS_ADOPTED };
enum sums_verdict sums_judge(struct sums *sums, uint64_t block_index);
/* Add the result of a sync of the sidecar. Returns that of all syncs. `is_first_ret`: this is the first error. */
int sums_note_sync(struct sums *sums, int error, bool *is_first_ret);
/* After the flush of a clean: remove its marks. Returns the bits, which the caller writes at 0; NULL: nothing is to do. */
uint8_t *sums_clean_begin_write(struct sums *sums, const struct bdev_io *io, bool is_synced, uint64_t *bytes_ret);
void sums_clean_end_write(struct sums *sums, uint8_t *bits);

/* ---- sums_io.c: the I/O of a channel ---- */

struct sums_channel;

MUST_CHECK int sums_channel_create(struct file_bdev *file, struct file_channel *below, struct sums_channel **channel_ret);
void sums_channel_destroy(struct sums_channel *channel);
/* As bdev_ops.submit. */
int sums_submit(struct sums_channel *channel, struct bdev_io *io);
/* The I/O of `slot` ended on the data file. */
void sums_data_done(struct sums_channel *channel, uint32_t slot, enum io_status status);
/* The change of `slot` would exceed the limit: it ends with IO_NO_SPACE, and nothing was written. */
void sums_refused(struct sums_channel *channel, uint32_t slot);

#endif
