/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * track - notes which regions of a block device have changed, while the device is copied and hosts go on to use it.
 *
 *   bdev_track_begin() -> begun()   each change that ends from now on is noted
 *   bdev_track_take()  -> taken()   the regions that changed since the last take; they are forgotten
 *   bdev_track_end()   -> ended()   nothing is noted any more, and the track is freed
 *
 * A change (a write, an unmap, a write of zeroes) is noted when it ends, before its submitter learns that: also if it has
 * failed. So a copy that reads the device after begun(), and the regions of each take after taken(), has every change that
 * was confirmed before the last take. A change in progress at a take is in the next one.
 *
 * Each channel has its own list of regions: I/O without a track pays one test at its end, and no atomics. All functions are
 * called on the control thread, and all callbacks run there, never before the call returns. A device has one track at a
 * time; it may have a hold beside it.
 */
#ifndef STORE_BDEV_TRACK_H
#define STORE_BDEV_TRACK_H

#include "data/store/bdev/bdev.h"

struct bdev_track;

struct bdev_track_calls {
	/* `error`: -ENOMEM; the caller ends the track. */
	void (*begun)(void *ctx, int error);
	void (*taken)(void *ctx);
	/* The device is being removed: the caller ends the track. */
	void (*removed)(void *ctx);
	/* The track is gone. */
	void (*ended)(void *ctx);
};

/* `region_blocks`: a power of two. `calls`: lent. Errors: -EBUSY (it has a track), -ENODEV (it is going), -ENOMEM. */
MUST_CHECK int bdev_track_begin(struct bdev *bdev, uint64_t region_blocks, const struct bdev_track_calls *calls, void *ctx,
				struct bdev_track **track_ret);
uint64_t bdev_track_region_count(const struct bdev_track *track);
/*
 * Set in `bits`, lent until taken(), the bit of each region that has changed: region 0 is bit 0 of bits[0]. One call at a
 * time, after begun().
 */
void bdev_track_take(struct bdev_track *track, uint64_t *bits);
/* After taken(): whether the device had its length of the begin all the time; else the takes are not complete. */
bool bdev_track_is_complete(const struct bdev_track *track);
/* At any time after the begin, once. Callbacks of calls in progress come before ended(). */
void bdev_track_end(struct bdev_track *track);

#endif
