/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reset - quiesce a channel.
 *
 *   1. I/O that waits for children or for the backend ends with IO_ABORTED
 *   2. a backend that supports it gets the reset, and ends its long-running I/O
 *   3. when nothing is in flight any more, the reset ends; the next reset starts, or the queue drains
 *
 * From step 1 on `ch->reset` is set and new I/O is queued. One reset runs at a time; others wait in `ch->resets`.
 */
#include <errno.h>

#include "data/store/bdev/internal.h"

static void abort_queue(struct bdev_channel *ch, uint64_t now)
{
	struct bdev_io_queue aborted = STAILQ_HEAD_INITIALIZER(aborted);
	struct bdev_io *io;

	must(ch->reset_aborting); /* so I/O submitted by a `done` below is queued and stays queued */
	STAILQ_CONCAT(&aborted, &ch->queue);
	counter_set(&ch->queued, 0);
	while ((io = STAILQ_FIRST(&aborted))) {
		STAILQ_REMOVE_HEAD(&aborted, link);
		must(io->story.state == BDEV_IO_QUEUED);
		if (io->split_parent)
			split_child_ended(ch, io, IO_ABORTED, now);
		else
			io_finish(ch, io, IO_ABORTED, now);
	}
}

static void submit_reset(struct bdev_channel *ch, struct bdev_io *io, uint64_t now)
{
	int rc;

	ch->reset_at_backend = true;
	ch->in_flight++;
	ch->nesting++;
	rc = ch->submit(ch->backend_ctx, io);
	must(rc <= 0);
	if (rc != 0)
		bdev_io_complete(io, bdev_status_from_errno(rc), now);
	ch->nesting--;
}

static void run_reset(struct bdev_channel *ch, struct bdev_io *io, uint64_t now)
{
	must(ch->reset == io);
	must(io->type == IO_TYPE_RESET);
	must(ch->reset_aborting);
	must(!ch->reset_at_backend);
	io->status = IO_SUCCESS;
	now |= TICK_SHARED;
	probe_bdev_io_dispatch(now, io, ch->in_flight, 0);
	hold_abort(ch, now);
	split_abort_waiting(ch, now);
	abort_queue(ch, now);
	ch->reset_aborting = false;
	if (ch->native & BIT(IO_TYPE_RESET))
		submit_reset(ch, io, now);
	reset_progress(ch, now);
}

void reset_begin(struct bdev_channel *ch, struct bdev_io *io, uint64_t now)
{
	must(io->type == IO_TYPE_RESET);
	must_be_on(ch->thread);
	must(ch->reset || STAILQ_EMPTY(&ch->resets));
	if (ch->reset) {
		probe_bdev_io_queue(now | TICK_SHARED, io, (uint32_t)ch->queued);
		STAILQ_INSERT_TAIL(&ch->resets, io, link);
		return;
	}
	ch->reset = io;
	ch->reset_aborting = true;
	run_reset(ch, io, now);
}

void reset_backend_done(struct bdev_channel *ch, struct bdev_io *io, enum io_status status, uint64_t now)
{
	must(ch->reset == io);
	must(ch->reset_at_backend);
	ch->reset_at_backend = false;
	io->status = status;
}

void reset_progress(struct bdev_channel *ch, uint64_t now)
{
	struct bdev_io *io = ch->reset, *next;

	if (!io || ch->reset_aborting || ch->reset_at_backend || ch->in_flight > 0)
		return;
	must(io->story.state == BDEV_IO_DISPATCHED);
	next = STAILQ_FIRST(&ch->resets);
	if (next)
		STAILQ_REMOVE_HEAD(&ch->resets, link);
	/* the next reset must be current before `done` runs, because `done` may submit another */
	ch->reset = next;
	ch->reset_aborting = next != NULL;
	io_finish(ch, io, io->status, now);
	if (next)
		run_reset(ch, next, now);
	else if (ch->nesting == 0 && !ch->reset && !STAILQ_EMPTY(&ch->queue))
		queue_drain(ch, now);
}
