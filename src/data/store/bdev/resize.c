/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resize - changes the length of a block device that is in use, or makes it read-only.
 *
 *   longer      the channels accept the new blocks, then its users report them
 *   shorter     its users report the new length and reject I/O beyond it, then the channels reject it, then earlier I/O is
 *               drained, within a bound. Only then may the backend drop the blocks.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "data/store/bdev/hold.h"
#include "data/store/bdev/internal.h"

/* The core drains a device by a hold of all its I/O: the regions do not matter. */
#define REGION_BLOCKS (UINT64_C(1) << 40)

enum { DRAIN_POLL_MS = 100 };
static_assert((int)BDEV_DRAIN_SEC < (int)BDEV_HOLD_SILENCE_SEC, "no channel lets its I/O go before");

/* A change in progress. */
struct resizing {
	struct bdev *bdev;
	struct bdev_desc *own; /* keeps the bdev until the end */
	struct bdev_hold *hold;
	void (*shrunk)(void *ctx, int error); /* NULL: it grows */
	void *ctx;
	int error;
	struct poller *bound;
	uint64_t begin_tick; /* of the drain */
};

static void set_channel_length(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	const struct resizing *self = ctx;
	struct bdev_channel *ch = channel_ctx(channel);

	must_be_on(ch->thread);
	ch->block_count = bdev_block_count(self->bdev);
	channel_iter_next(iter, 0);
}

static void report_length(struct bdev *bdev)
{
	struct bdev_desc *desc, *next;

	TAILQ_FOREACH_SAFE (desc, &bdev->descriptors, in_bdev, next) {
		if (desc->resized && !desc->told)
			desc->resized(desc->ctx);
	}
}

void bdev_make_read_only(struct bdev *bdev)
{
	must_be_on(thread_control());
	__atomic_store_n(&bdev->read_only, true, __ATOMIC_RELAXED);
	report_length(bdev);
}

void bdev_on_resized(struct bdev_desc *desc, void (*resized)(void *ctx))
{
	must_be_on(thread_control());
	desc->resized = resized;
}

static struct resizing *begin_resizing(struct bdev *bdev, uint64_t block_count)
{
	struct resizing *self = calloc(1, sizeof(*self));

	must_be_on(thread_control());
	must(self);
	self->bdev = bdev;
	__atomic_store_n(&bdev->block_count, block_count, __ATOMIC_RELAXED);
	must(bdev_open(bdev->name, NULL, NULL, &self->own) == 0);
	return self;
}

static void end_resizing(struct resizing *self)
{
	if (self->shrunk)
		self->shrunk(self->ctx, self->error);
	bdev_close(self->own);
	free(self);
}

static void finish_growth(int status, void *ctx)
{
	struct resizing *self = ctx;

	must(status == 0);
	report_length(self->bdev);
	end_resizing(self);
}

void bdev_grow(struct bdev *bdev, uint64_t block_count)
{
	must(block_count >= bdev->block_count);
	for_each_channel(bdev, set_channel_length, finish_growth, begin_resizing(bdev, block_count));
}

/* ---- shorter ---- */

static void drained(void *ctx, int error)
{
	struct resizing *self = ctx;

	if (self->error) /* its time is over, and the hold is ending */
		return;
	self->error = error;
	poller_unregister(&self->bound);
	bdev_hold_end(self->hold);
}

static int check_drain(void *ctx)
{
	struct resizing *self = ctx;

	if (clock_ns_from_ticks(reactor_now() - self->begin_tick) < BDEV_DRAIN_SEC * NS_PER_SEC)
		return 0;
	self->error = -ETIMEDOUT;
	poller_unregister(&self->bound);
	bdev_hold_end(self->hold);
	return 1;
}

static void ignore_wanted(void *ctx, uint64_t region, uint64_t count)
{
}

static void drain_ended(void *ctx, bool exact)
{
	end_resizing(ctx); /* new I/O cannot be beyond the end, so it does not matter if some passed */
}

static void begin_drain(int status, void *ctx)
{
	static const struct bdev_hold_calls calls = { .held = drained, .wanted = ignore_wanted, .ended = drain_ended };
	struct resizing *self = ctx;
	const struct bdev_hold_options options = {
		.region_blocks = REGION_BLOCKS, .all = true, .calls = &calls, .ctx = self
	};

	must(status == 0);
	self->begin_tick = reactor_now();
	self->bound = poller_register("bdev_drain", check_drain, self, DRAIN_POLL_MS * NS_PER_MS);
	self->error = self->bound ? bdev_hold_begin(self->bdev, &options, &self->hold) : -ENOMEM;
	if (!self->error)
		return;
	poller_unregister(&self->bound);
	end_resizing(self);
}

void bdev_shrink(struct bdev *bdev, uint64_t block_count, void (*shrunk)(void *ctx, int error), void *ctx)
{
	struct resizing *self;

	must(block_count > 0 && block_count <= bdev->block_count);
	must(shrunk);
	self = begin_resizing(bdev, block_count);
	self->shrunk = shrunk;
	self->ctx = ctx;
	report_length(bdev); /* its messages arrive before those of the walk */
	for_each_channel(bdev, set_channel_length, begin_drain, self);
}
