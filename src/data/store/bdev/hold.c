/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hold - writes that wait while a device is copied: see hold.h.
 *
 *   control thread                          a channel's thread
 *   begin: bdev->hold is set
 *   walk ---------------------------------> attach: copy the list of closed regions; from now on writes wait
 *   walk ---------------------------------> drain: the visit ends when no earlier write is in progress
 *   held()
 *   walk ---------------------------------> open: clear regions, let writes go on
 *   wanted() <----------------------------- a write waits for a region that this channel has not asked for
 *   walk ---------------------------------> confirm: the channel hears of the hold, and waits for longer
 *   confirmed()
 *   end: bdev->hold is cleared
 *   walk ---------------------------------> detach: let all writes go on
 *   ended()
 *
 * A channel that is created meanwhile attaches in its creation. A walk may miss it, because it is not in its thread's list
 * yet. So after the walks of begin and end the control thread looks whether all channels did their part, and repeats the
 * walk if not. `bdev->hold` and `held` of all channels change under the lock of the list of channels.
 *
 * A message from a channel's thread to the control thread arrives before the end of a walk that visits the channel later.
 * So no message refers to a hold that is freed.
 */
#include "data/store/bdev/hold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/store/bdev/internal.h"
#include "data/store/bdev/regions.h"

enum { LEASE_POLL_MS = 1000 };

struct bdev_hold {
	struct bdev *bdev;
	struct bdev_desc *desc;
	const struct bdev_hold_calls *calls;
	void *ctx;
	/* constant, read by channels */
	bool all;
	unsigned int region_shift;
	uint64_t region_count;
	/* under the lock of the list of channels */
	uint64_t *closed;
	/* control thread */
	uint32_t walks; /* in progress */
	bool is_held, is_ending, has_lapsed;
	const struct bdev_regions *runs; /* that are being opened */
	uint32_t run_count;
	void (*opened)(void *ctx);
	void (*confirmed)(void *ctx, bool exact); /* NULL: no question is open */
	uint64_t confirm_tick;			  /* when the question was asked */
};

/* What a channel has of a hold. */
struct channel_hold {
	struct bdev_hold *hold;
	uint64_t *closed, *asked; /* a bit for each region */
	struct bdev_io_queue waiting;
	uint64_t waiting_count;
	struct channel_iter *draining; /* the visit that waits for the end of earlier I/O */
	struct poller *lease;
	uint64_t heard_tick;
};

/* ---- a channel: I/O that waits ---- */

static void get_regions(const struct bdev_hold *hold, const struct bdev_io *io, uint64_t *first_ret, uint64_t *last_ret)
{
	*first_ret = 0;
	*last_ret = hold->region_count - 1;
	if (io->type == IO_TYPE_FLUSH)
		return;
	must(io->block_count > 0);
	*first_ret = io->block_index >> hold->region_shift;
	*last_ret = min_u64(*last_ret, (io->block_index + io->block_count - 1) >> hold->region_shift);
	must(*first_ret <= *last_ret);
}

struct wanted {
	struct bdev_hold *hold;
	struct bdev_regions run;
};

static void report_wanted(void *ctx)
{
	struct wanted *wanted = ctx;
	struct bdev_hold *hold = wanted->hold;

	must_be_on(thread_control());
	if (!hold->is_ending)
		hold->calls->wanted(hold->ctx, wanted->run.first, wanted->run.count);
	free(wanted);
}

/* If out of memory, the regions are not asked for. Their turn comes later anyway. */
static void ask_for(struct channel_hold *held, uint64_t first, uint64_t last)
{
	struct wanted *wanted;

	if (held->hold->all)
		return;
	while (first <= last && any_set(held->asked, first, first))
		first++;
	if (first > last || !(wanted = malloc(sizeof(*wanted))))
		return;
	*wanted = (struct wanted){ held->hold, { first, last - first + 1 } };
	set_bits(held->asked, first, last);
	thread_send_msg(thread_control(), report_wanted, wanted);
}

bool hold_io(struct bdev_channel *ch, struct bdev_io *io, uint64_t now)
{
	struct channel_hold *held = ch->held;
	uint64_t first, last;

	must_be_on(ch->thread);
	must(!io->split_parent);
	if (io->type == IO_TYPE_RESET || (!held->hold->all && !changes_data(io->type)))
		return false;
	get_regions(held->hold, io, &first, &last);
	if (!any_set(held->closed, first, last))
		return false;
	held->waiting_count++;
	probe_bdev_io_hold(now | TICK_SHARED, io, (uint32_t)held->waiting_count, io->block_index);
	STAILQ_INSERT_TAIL(&held->waiting, io, link);
	if (changes_data(io->type))
		ch->changing--;
	ask_for(held, first, last);
	return true;
}

/* Submit what waits for open regions only. */
static void let_go(struct bdev_channel *ch, struct channel_hold *held)
{
	struct bdev_io_queue free_now = STAILQ_HEAD_INITIALIZER(free_now), still = STAILQ_HEAD_INITIALIZER(still);
	uint64_t now = reactor_now() | TICK_SHARED, first, last;
	struct bdev_io *io;

	while ((io = STAILQ_FIRST(&held->waiting))) {
		STAILQ_REMOVE_HEAD(&held->waiting, link);
		get_regions(held->hold, io, &first, &last);
		if (any_set(held->closed, first, last)) {
			STAILQ_INSERT_TAIL(&still, io, link);
		} else {
			held->waiting_count--;
			STAILQ_INSERT_TAIL(&free_now, io, link);
		}
	}
	STAILQ_CONCAT(&held->waiting, &still);
	while ((io = STAILQ_FIRST(&free_now))) { /* `done` of one may submit others */
		STAILQ_REMOVE_HEAD(&free_now, link);
		ch->changing += changes_data(io->type);
		io_start(ch, io, now);
	}
}

void hold_abort(struct bdev_channel *ch, uint64_t now)
{
	struct channel_hold *held = ch->held;
	struct bdev_io *io;

	while (held && (io = STAILQ_FIRST(&held->waiting))) {
		STAILQ_REMOVE_HEAD(&held->waiting, link);
		held->waiting_count--;
		ch->changing += changes_data(io->type);
		io_finish(ch, io, IO_ABORTED, now);
	}
}

/* ---- a channel: its part in a hold ---- */

static bool is_drained(const struct bdev_channel *ch)
{
	return ch->held->hold->all ? ch->queue_depth == ch->held->waiting_count : ch->changing == 0;
}

void hold_check_drained(struct bdev_channel *ch)
{
	struct channel_iter *draining = ch->held->draining;

	must(draining);
	if (!is_drained(ch))
		return;
	ch->draining = false;
	ch->held->draining = NULL;
	channel_iter_next(draining, 0);
}

static void note_lapse(void *ctx)
{
	struct bdev_hold *hold = ctx;

	must_be_on(thread_control());
	hold->has_lapsed = true;
}

/* No message for long: let the writes go on. */
static int check_lease(void *ctx)
{
	struct bdev_channel *ch = ctx;
	struct channel_hold *held = ch->held;
	uint64_t silence_ns = clock_ns_from_ticks(reactor_now() - held->heard_tick);

	if (silence_ns < BDEV_HOLD_SILENCE_SEC * NS_PER_SEC || !any_set(held->closed, 0, held->hold->region_count - 1))
		return 0;
	bdev_note_condition(ch->bdev, BDEV_CONDITION_HOLD_LAPSED, BDEV_HOLD_SILENCE_SEC);
	thread_send_msg(thread_control(), note_lapse, held->hold);
	memset(held->closed, 0, word_count(held->hold->region_count) * sizeof(uint64_t));
	let_go(ch, held);
	return 1;
}

static void free_channel_hold(struct channel_hold *held)
{
	must(STAILQ_EMPTY(&held->waiting) && held->waiting_count == 0 && !held->draining);
	poller_unregister(&held->lease);
	free(held->closed);
	free(held->asked);
	free(held);
}

/* NULL: out of memory. */
static struct channel_hold *create_channel_hold(struct bdev_channel *ch, size_t words)
{
	struct channel_hold *held = calloc(1, sizeof(*held));

	if (!held)
		return NULL;
	STAILQ_INIT(&held->waiting);
	held->closed = malloc(words * sizeof(uint64_t));
	held->asked = calloc(words, sizeof(uint64_t));
	held->lease = poller_register("bdev_hold", check_lease, ch, LEASE_POLL_MS * NS_PER_MS);
	held->heard_tick = reactor_now();
	if (held->closed && held->asked && held->lease)
		return held;
	free_channel_hold(held);
	return NULL;
}

/* The hold that the channel must take part in and does not, with the size of its list; NULL: none. */
static const struct bdev_hold *missing_hold(const struct bdev_channel *ch, size_t *words_ret)
{
	const struct bdev_hold *hold;

	channels_lock();
	hold = ch->held ? NULL : ch->bdev->hold;
	if (hold)
		*words_ret = word_count(hold->region_count);
	channels_unlock();
	return hold;
}

static int attach(struct bdev_channel *ch)
{
	struct channel_hold *held;
	struct bdev_hold *hold;
	size_t words;

	if (!missing_hold(ch, &words))
		return 0;
	held = create_channel_hold(ch, words);
	if (!held)
		return -ENOMEM;
	channels_lock();
	hold = ch->bdev->hold; /* it may have ended */
	if (hold && word_count(hold->region_count) == words) {
		memcpy(held->closed, hold->closed, words * sizeof(uint64_t));
		held->hold = hold;
		ch->held = held;
		ch->has_limits = true; /* so that each I/O meets the test for `held` */
		held = NULL;
	}
	channels_unlock();
	if (held)
		free_channel_hold(held);
	return 0;
}

int hold_channel_created(struct bdev_channel *ch)
{
	return attach(ch);
}

static struct channel_hold *take_hold(struct bdev_channel *ch)
{
	struct channel_hold *held;

	channels_lock();
	held = ch->held;
	ch->held = NULL;
	channels_unlock();
	ch->has_limits = bdev_has_limits(ch->bdev);
	ch->draining = false;
	return held;
}

void hold_channel_destroyed(struct bdev_channel *ch)
{
	struct channel_hold *held = take_hold(ch);

	if (held)
		free_channel_hold(held);
}

/* ---- walks ---- */

/* The part of a channel in `hold`; NULL: it has none. */
static struct channel_hold *part_of(const struct bdev_channel *ch, const struct bdev_hold *hold)
{
	return ch->held && ch->held->hold == hold ? ch->held : NULL;
}

static void visit_attach(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	channel_iter_next(iter, attach(channel_ctx(channel)));
}

static void visit_drain(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct bdev_channel *ch = channel_ctx(channel);
	struct channel_hold *held = part_of(ch, ctx);

	if (!held) {
		channel_iter_next(iter, -ECANCELED);
		return;
	}
	must(!held->draining);
	held->heard_tick = reactor_now();
	held->draining = iter;
	ch->draining = true;
	hold_check_drained(ch);
}

static void visit_open(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct bdev_channel *ch = channel_ctx(channel);
	struct bdev_hold *hold = ctx;
	struct channel_hold *held = part_of(ch, hold);

	if (held) {
		held->heard_tick = reactor_now();
		for (uint32_t i = 0; i < hold->run_count; i++)
			clear_bits(held->closed, hold->runs[i].first, hold->runs[i].first + hold->runs[i].count - 1);
		let_go(ch, held);
	}
	channel_iter_next(iter, 0);
}

static void visit_confirm(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct channel_hold *held = part_of(channel_ctx(channel), ctx);

	if (held)
		held->heard_tick = reactor_now();
	channel_iter_next(iter, 0);
}

static void visit_detach(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct bdev_channel *ch = channel_ctx(channel);
	struct channel_iter *draining;
	struct channel_hold *held;

	if (part_of(ch, ctx)) {
		held = take_hold(ch);
		draining = held->draining;
		held->draining = NULL;
		memset(held->closed, 0, word_count(held->hold->region_count) * sizeof(uint64_t));
		let_go(ch, held);
		free_channel_hold(held);
		if (draining)
			channel_iter_next(draining, -ECANCELED);
	}
	channel_iter_next(iter, 0);
}

/* Whether all channels of the device have a part in `hold`, or none. */
static bool all_have_part(const struct bdev_hold *hold, bool part)
{
	const struct bdev_channel *ch;
	bool all = true;

	channels_lock();
	TAILQ_FOREACH (ch, &hold->bdev->channels, in_bdev)
		all = all && (part_of(ch, hold) != NULL) == part;
	channels_unlock();
	return all;
}

/* ---- the control thread ---- */

static void end_attach(int status, void *ctx);
static void end_detach(int status, void *ctx);

static void free_if_ended(struct bdev_hold *hold)
{
	const struct bdev_hold_calls *calls = hold->calls;
	void *ctx = hold->ctx;
	bool exact = !hold->has_lapsed;

	if (hold->walks > 0 || !hold->is_ending)
		return;
	bdev_close(hold->desc);
	free(hold->closed);
	free(hold);
	calls->ended(ctx, exact);
}

static void start_walk(struct bdev_hold *hold, channel_visit_fn visit, channel_visited_fn done)
{
	hold->walks++;
	for_each_channel(hold->bdev, visit, done, hold);
}

static void finish_begin(struct bdev_hold *hold, int status)
{
	hold->is_held = true;
	hold->calls->held(hold->ctx, hold->is_ending ? -ECANCELED : status);
	free_if_ended(hold);
}

static void end_drain(int status, void *ctx)
{
	struct bdev_hold *hold = ctx;

	must(hold->walks > 0);
	hold->walks--;
	finish_begin(hold, status);
}

static void end_attach(int status, void *ctx)
{
	struct bdev_hold *hold = ctx;

	must(hold->walks > 0);
	hold->walks--;
	if (status || hold->is_ending)
		finish_begin(hold, status);
	else if (all_have_part(hold, true))
		start_walk(hold, visit_drain, end_drain);
	else
		start_walk(hold, visit_attach, end_attach);
}

static struct bdev_hold *create_hold(struct bdev *bdev, const struct bdev_hold_options *options)
{
	struct bdev_hold *hold = calloc(1, sizeof(*hold));
	size_t words;

	if (!hold)
		return NULL;
	hold->region_count = bdev_hold_region_count(bdev_block_count(bdev), options->region_blocks);
	words = word_count(hold->region_count);
	hold->closed = malloc(words * sizeof(uint64_t));
	if (!hold->closed) {
		free(hold);
		return NULL;
	}
	memset(hold->closed, 0xff, words * sizeof(uint64_t));
	hold->bdev = bdev;
	hold->calls = options->calls;
	hold->ctx = options->ctx;
	hold->all = options->all;
	hold->region_shift = (unsigned int)__builtin_ctzll(options->region_blocks);
	return hold;
}

int bdev_hold_begin(struct bdev *bdev, const struct bdev_hold_options *options, struct bdev_hold **hold_ret)
{
	struct bdev_hold *hold;
	int error;

	must_be_on(thread_control());
	must(is_power_of_two(options->region_blocks));
	must(options->calls->held && options->calls->wanted && options->calls->ended);
	if (bdev->hold) /* only this thread writes it */
		return -EBUSY;
	hold = create_hold(bdev, options);
	if (!hold)
		return -ENOMEM;
	error = bdev_open(bdev->name, NULL, NULL, &hold->desc);
	if (error) {
		free(hold->closed);
		free(hold);
		return error;
	}
	channels_lock();
	bdev->hold = hold;
	channels_unlock();
	start_walk(hold, visit_attach, end_attach);
	*hold_ret = hold;
	return 0;
}

static void end_open(int status, void *ctx)
{
	struct bdev_hold *hold = ctx;
	void (*opened)(void *ctx) = hold->opened;

	must(status == 0);
	must(hold->walks > 0);
	hold->walks--;
	hold->runs = NULL;
	opened(hold->ctx);
	free_if_ended(hold);
}

void bdev_hold_open(struct bdev_hold *hold, const struct bdev_regions *runs, uint32_t count, void (*opened)(void *ctx))
{
	must_be_on(thread_control());
	must(hold->is_held && !hold->is_ending && !hold->runs && !hold->confirmed);
	must(count > 0);
	channels_lock();
	for (uint32_t i = 0; i < count; i++) {
		must(runs[i].count > 0 && runs[i].first + runs[i].count <= hold->region_count);
		clear_bits(hold->closed, runs[i].first, runs[i].first + runs[i].count - 1);
	}
	channels_unlock();
	hold->runs = runs;
	hold->run_count = count;
	hold->opened = opened;
	start_walk(hold, visit_open, end_open);
}

/* A channel that has let its I/O go said so by a message, which arrived before the end of this walk. */
static void end_confirm(int status, void *ctx)
{
	struct bdev_hold *hold = ctx;
	void (*confirmed)(void *ctx, bool exact) = hold->confirmed;
	uint64_t walk_ns = clock_ns_from_ticks(reactor_now() - hold->confirm_tick);

	must(status == 0);
	must(hold->walks > 0);
	hold->walks--;
	hold->confirmed = NULL;
	/* after a long walk the channels that were visited first may let their I/O go now */
	confirmed(hold->ctx, !hold->has_lapsed && walk_ns < BDEV_HOLD_SILENCE_SEC * NS_PER_SEC / 2);
	free_if_ended(hold);
}

void bdev_hold_confirm(struct bdev_hold *hold, void (*confirmed)(void *ctx, bool exact))
{
	must_be_on(thread_control());
	must(hold->is_held && !hold->is_ending && !hold->runs && !hold->confirmed);
	hold->confirmed = confirmed;
	hold->confirm_tick = reactor_now();
	start_walk(hold, visit_confirm, end_confirm);
}

static void end_detach(int status, void *ctx)
{
	struct bdev_hold *hold = ctx;

	must(status == 0);
	must(hold->walks > 0);
	hold->walks--;
	if (all_have_part(hold, false))
		free_if_ended(hold);
	else
		start_walk(hold, visit_detach, end_detach);
}

void bdev_hold_end(struct bdev_hold *hold)
{
	must_be_on(thread_control());
	must(!hold->is_ending);
	hold->is_ending = true;
	channels_lock();
	hold->bdev->hold = NULL;
	channels_unlock();
	start_walk(hold, visit_detach, end_detach);
}
