/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/volume/quiesce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/store/bdev/hold.h"
#include "data/store/volume/barrier.h"

enum { POLL_MS = 100, KEEP_MS = 2000 };
static_assert((int)KEEP_MS < (int)BDEV_HOLD_SILENCE_SEC * 1000 / 2, "one of these walks may be late");

struct quiesce {
	quiesce_done_fn done; /* NULL: it was called */
	void *ctx;
	struct bdev_hold *hold; /* NULL: none */
	struct poller *bound;	/* of the drain; then of the walks that keep the hold */
	uint64_t begin_ns;	/* clock_monotonic_ns() */
	int error;
	bool is_asking, is_ending;
};

static void call_done(struct quiesce *quiesce, const struct fathom_fault *why)
{
	quiesce_done_fn done = quiesce->done;

	quiesce->done = NULL;
	if (done)
		done(quiesce->ctx, why);
}

static void fail(struct quiesce *quiesce, const struct fathom_fault *why)
{
	call_done(quiesce, why);
	quiesce_end(quiesce);
}

/* ---- while it is held ---- */

/* Also the result of a walk that keeps the hold: it began at most its own length before the question. */
static void note_confirmed(void *ctx, bool exact)
{
	struct quiesce *quiesce = ctx;
	struct fathom_fault why;

	quiesce->is_asking = false;
	if (!quiesce->done)
		return;
	if (exact) {
		call_done(quiesce, NULL);
		return;
	}
	fill_fault(&why, -ETIMEDOUT,
		   "the I/O of hosts was held for too long, and went on: the device or a thread of the engine is slow");
	fail(quiesce, &why);
}

static void ask_channels(struct quiesce *quiesce)
{
	if (quiesce->is_asking)
		return;
	quiesce->is_asking = true;
	bdev_hold_confirm(quiesce->hold, note_confirmed);
}

static int keep_hold(void *ctx)
{
	struct quiesce *quiesce = ctx;

	if (clock_monotonic_ns() - quiesce->begin_ns < QUIESCE_SEC * NS_PER_SEC)
		ask_channels(quiesce);
	else
		poller_unregister(&quiesce->bound);
	return 1;
}

/* ---- the start ---- */

static void note_held(void *ctx, int error)
{
	struct quiesce *quiesce = ctx;
	struct fathom_fault why;

	if (!quiesce->done)
		return;
	poller_unregister(&quiesce->bound);
	quiesce->bound = error ? NULL : poller_register("volume_quiesce", keep_hold, quiesce, KEEP_MS * NS_PER_MS);
	if (!error && quiesce->bound) {
		call_done(quiesce, NULL);
		return;
	}
	error = error ? error : -ENOMEM;
	fill_fault(&why, error, "cannot hold the I/O of the volume: %s", strerror(-error));
	fail(quiesce, &why);
}

static void note_wanted(void *ctx, uint64_t region, uint64_t count)
{
}

static void note_ended(void *ctx, bool exact)
{
	maybe(exact);
	free(ctx);
}

static int check_bound(void *ctx)
{
	struct quiesce *quiesce = ctx;
	struct fathom_fault why;

	if (clock_monotonic_ns() - quiesce->begin_ns < BARRIER_DRAIN_SEC * NS_PER_SEC)
		return 0;
	fill_fault(&why, -ETIMEDOUT, "I/O that hosts had submitted did not end within %d s: the device is slow or hangs",
		   BARRIER_DRAIN_SEC);
	fail(quiesce, &why);
	return 1;
}

/* There is no hold: say so, by a message. */
static void begin_without_hold(void *ctx)
{
	struct quiesce *quiesce = ctx;
	struct fathom_fault why;

	if (quiesce->error) {
		fill_fault(&why, quiesce->error, "cannot hold the I/O of the volume: %s", strerror(-quiesce->error));
		fail(quiesce, &why);
	} else {
		call_done(quiesce, NULL);
	}
}

struct quiesce *quiesce_start(const char *device, quiesce_done_fn done, void *ctx)
{
	static const struct bdev_hold_calls calls = { note_held, note_wanted, note_ended };
	struct quiesce *quiesce = calloc(1, sizeof(*quiesce));
	struct bdev *bdev = bdev_find(device);
	const struct bdev_hold_options options = {
		.region_blocks = 1ull << 40, .all = true, .calls = &calls, .ctx = quiesce
	};

	must(quiesce);
	must(done);
	quiesce->done = done;
	quiesce->ctx = ctx;
	quiesce->begin_ns = clock_monotonic_ns();
	if (bdev) {
		quiesce->bound = poller_register("volume_quiesce", check_bound, quiesce, POLL_MS * NS_PER_MS);
		quiesce->error = quiesce->bound ? bdev_hold_begin(bdev, &options, &quiesce->hold) : -ENOMEM;
	}
	if (!quiesce->hold)
		thread_send_msg(thread_control(), begin_without_hold, quiesce);
	return quiesce;
}

void quiesce_confirm(struct quiesce *quiesce, quiesce_done_fn done, void *ctx)
{
	must(!quiesce->done && !quiesce->is_ending && !quiesce->error);
	quiesce->done = done;
	quiesce->ctx = ctx;
	if (quiesce->hold)
		ask_channels(quiesce);
	else
		thread_send_msg(thread_control(), begin_without_hold, quiesce);
}

void quiesce_end(struct quiesce *quiesce)
{
	if (!quiesce)
		return;
	must(!quiesce->done && !quiesce->is_ending);
	poller_unregister(&quiesce->bound);
	quiesce->is_ending = true;
	if (quiesce->hold)
		bdev_hold_end(quiesce->hold);
	else
		free(quiesce);
}
