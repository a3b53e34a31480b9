/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hold - makes the writes to a block device wait, region by region, while its content is copied.
 *
 *   bdev_hold_begin() -> held(): nothing that was submitted before is in progress, and new writes wait: this is the instant
 *   bdev_hold_open()     writes to these regions pass from now on, because their content of the instant is copied
 *   wanted()             a write waits for a closed region: copy it next
 *   bdev_hold_confirm()  asks all channels whether the I/O still waits
 *   bdev_hold_end()   -> ended(): all writes pass again, and the hold is freed
 *
 * A write is what changes data: a write, an unmap, a write of zeroes. It waits in its channel, before it is split, until
 * all of its regions are open. Reads pass, unless `all` is set.
 *
 * Each channel has its own list of closed regions and learns of changes by messages. It hears nothing if the control thread
 * or another channel's thread hangs. So after BDEV_HOLD_SILENCE_SEC without a message a channel lets its writes go on, and
 * ended() reports that the copy is not of one instant.
 *
 * All functions are called on the control thread, and all callbacks run there, never before the call returns. A device has
 * one hold at a time. Its length may not change meanwhile.
 */
#ifndef STORE_BDEV_HOLD_H
#define STORE_BDEV_HOLD_H

#include "data/store/bdev/bdev.h"

enum { BDEV_HOLD_SILENCE_SEC = 10 };

struct bdev_hold;

struct bdev_hold_calls {
	/* Everything submitted earlier has ended. `error`: -ENOMEM, -ECANCELED (ended before). The caller ends the hold. */
	void (*held)(void *ctx, int error);
	/* A write waits for some of these regions. Also for regions that are open: then open them once more. */
	void (*wanted)(void *ctx, uint64_t region, uint64_t count);
	/* `exact`: no write passed a closed region. The hold is gone. */
	void (*ended)(void *ctx, bool exact);
};

struct bdev_hold_options {
	uint64_t region_blocks; /* a power of two */
	bool all;		/* reads and flushes wait, too */
	const struct bdev_hold_calls *calls;
	void *ctx;
};

struct bdev_regions {
	uint64_t first, count;
};

/* The number of regions of a device of `block_count` blocks. */
static inline uint64_t bdev_hold_region_count(uint64_t block_count, uint64_t region_blocks)
{
	return (block_count + region_blocks - 1) / region_blocks;
}

/* Errors: -EBUSY (it has a hold), -ENODEV (its removal has begun), -ENOMEM. */
MUST_CHECK int bdev_hold_begin(struct bdev *bdev, const struct bdev_hold_options *options, struct bdev_hold **hold_ret);
/* Open these regions; `opened(ctx)` when all channels know. One call at a time, after held(). `runs`: lent until then. */
void bdev_hold_open(struct bdev_hold *hold, const struct bdev_regions *runs, uint32_t count, void (*opened)(void *ctx));
/*
 * Ask all channels, after held(): `confirmed(ctx, exact)`, where `exact` is as for ended(). If it is true, the I/O waits
 * for BDEV_HOLD_SILENCE_SEC / 2 more at least. One call at a time, and none of bdev_hold_open() meanwhile.
 */
void bdev_hold_confirm(struct bdev_hold *hold, void (*confirmed)(void *ctx, bool exact));
/* At any time after bdev_hold_begin(), once. Callbacks of calls in progress come before ended(). */
void bdev_hold_end(struct bdev_hold *hold);

#endif
