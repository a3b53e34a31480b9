/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * barrier - copies the data files of volumes as they were at one instant, T0, while hosts go on to use them.
 *
 *   HOLDING    new writes to all members wait; the barrier waits for the end of those in progress
 *   T0         none is in progress anywhere: what is in the files now is the image
 *   COPYING    a worker thread copies step by step, by reflinks. A write to a region that is copied passes; a write to
 *              another region waits, and its region is copied next
 *   RELEASING  all writes pass again
 *
 * So each member's copy has all that was acknowledged before T0, and nothing that was submitted after it. Reads never wait.
 *
 * A write waits for at most the steps of the regions that others asked for before. A step is 64 MiB, and gets smaller if
 * steps take long: many extents. The copy is given up, and all writes go on, if the writes in progress have not ended after
 * BARRIER_DRAIN_SEC, or if a step or a thread of the engine does not answer for BARRIER_STALL_SEC.
 *
 * A member without a block device is a file that does not change: a snapshot that is cloned. No write waits then, and the
 * bound is BARRIER_PATIENT_SEC.
 *
 * Control thread. Callbacks run there, never before barrier_start() returns.
 */
#ifndef DATA_STORE_VOLUME_BARRIER_H
#define DATA_STORE_VOLUME_BARRIER_H

#include "data/store/bdev/bdev.h"
#include "data/store/pool/fs.h"
#include "data/store/volume/volumes.h"

enum {
	BARRIER_DRAIN_SEC = 2,
	BARRIER_STALL_SEC = 5,
	BARRIER_PATIENT_SEC = 60,
	BARRIER_STEP_BYTES_MAX = 64 << 20,
	BARRIER_MEMBERS_MAX = 64,
};

struct barrier;

struct barrier_member {
	const char *device; /* name of the block device whose writes wait; NULL: none. Borrowed */
	int from, to;	    /* lent until released(). `to` is as long as `from`, and empty */
	uint64_t bytes;
	uint64_t sums_bytes; /* of a file of checksums, which is cloned as a whole before the first region; 0: none */
	int sums_from, sums_to;
};

struct barrier_calls {
	/* All copies are complete, or `why`. Once. */
	void (*done)(void *ctx, const struct fathom_fault *why);
	/* After done(): the files are not used any more, and the barrier is gone. After a hung step this may come never. */
	void (*released)(void *ctx);
};

struct barrier_info {
	enum barrier_state state;
	uint64_t since_ns;   /* of the start; since 1970 */
	uint64_t instant_ns; /* T0; since 1970; 0: not yet */
	uint64_t bytes, bytes_copied;
	uint64_t steps;
	uint64_t step_ns_max; /* the longest step */
};

/*
 * Start. `members` are copied. `fs` is lent until released(). Aborts if out of memory for the structure itself. Errors of
 * done(): -ETIMEDOUT (the bounds above), -EBUSY (a member is being copied, or resized), -ENODEV, -ENOMEM, those of clone.
 */
struct barrier *barrier_start(const struct pool_fs *fs, const struct barrier_member *members, uint32_t count,
			      const struct barrier_calls *calls, void *ctx);
/* Give up: done() gets -ECANCELED, possibly before this returns. Before released(). */
void barrier_cancel(struct barrier *barrier);
void barrier_get_info(const struct barrier *barrier, struct barrier_info *info_ret);

#endif
