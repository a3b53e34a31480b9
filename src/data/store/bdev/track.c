/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * track - regions that change while a device is copied: see track.h.
 *
 * Channels attach and detach as those of a hold do (hold.c), with the same care for channels that are created meanwhile. A
 * channel notes changes in its own list, which only its thread writes. A take visits each channel, which adds its list to
 * the common one under the lock of the list of channels. So does a channel that is destroyed.
 */
#include "data/store/bdev/track.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/store/bdev/internal.h"
#include "data/store/bdev/regions.h"

struct bdev_track {
	struct bdev *bdev;
	struct bdev_desc *desc;
	const struct bdev_track_calls *calls;
	void *ctx;
	/* constant, read by channels */
	unsigned int region_shift;
	uint64_t region_count;
	/* under the lock of the list of channels */
	uint64_t *changed;
	bool is_outgrown; /* a change lay beyond the regions */
	/* control thread */
	uint32_t walks; /* in progress */
	bool is_begun, is_ending;
	uint64_t *wanted; /* of the take in progress */
};

/* What a channel has of a track. */
struct channel_track {
	struct bdev_track *track;
	bool is_outgrown;
	uint64_t changed[];
};

/* ---- a channel ---- */

void track_note(struct bdev_channel *ch, const struct bdev_io *io)
{
	struct channel_track *tracked = ch->tracked;
	uint64_t first, last;

	if (!changes_data(io->type) || io->block_count - 1 >= ch->block_count ||
	    io->block_index > ch->block_count - io->block_count)
		return; /* also what was rejected as invalid */
	first = io->block_index >> tracked->track->region_shift;
	last = (io->block_index + io->block_count - 1) >> tracked->track->region_shift;
	if (last >= tracked->track->region_count) {
		tracked->is_outgrown = true;
		last = tracked->track->region_count - 1;
	}
	if (first <= last)
		set_bits(tracked->changed, first, last);
}

/* Add the channel's list to the common one. The lock is held. */
static void give(struct channel_track *tracked)
{
	struct bdev_track *track = tracked->track;

	for (size_t i = 0; i < word_count(track->region_count); i++) {
		track->changed[i] |= tracked->changed[i];
		tracked->changed[i] = 0;
	}
	track->is_outgrown |= tracked->is_outgrown;
}

/* The track that the channel must take part in and does not; only its number of words may be used. 0: none. */
static size_t missing_words(const struct bdev_channel *ch)
{
	size_t words;

	channels_lock();
	words = ch->tracked || !ch->bdev->track ? 0 : word_count(ch->bdev->track->region_count);
	channels_unlock();
	return words;
}

static int attach(struct bdev_channel *ch)
{
	struct channel_track *tracked;
	struct bdev_track *track;
	size_t words = missing_words(ch);

	if (words == 0)
		return 0;
	tracked = calloc(1, sizeof(*tracked) + words * sizeof(tracked->changed[0]));
	if (!tracked)
		return -ENOMEM;
	channels_lock();
	track = ch->bdev->track; /* it may have ended */
	if (track && word_count(track->region_count) == words) {
		tracked->track = track;
		ch->tracked = tracked;
		ch->tracking = true;
		tracked = NULL;
	}
	channels_unlock();
	free(tracked);
	return 0;
}

static void detach(struct bdev_channel *ch)
{
	struct channel_track *tracked;

	channels_lock();
	tracked = ch->tracked;
	if (tracked)
		give(tracked);
	ch->tracked = NULL;
	ch->tracking = false;
	channels_unlock();
	free(tracked);
}

int track_channel_created(struct bdev_channel *ch)
{
	return attach(ch);
}

void track_channel_destroyed(struct bdev_channel *ch)
{
	detach(ch);
}

/* ---- walks ---- */

static bool has_part(const struct bdev_channel *ch, const struct bdev_track *track)
{
	return ch->tracked && ch->tracked->track == track;
}

static void visit_attach(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	channel_iter_next(iter, attach(channel_ctx(channel)));
}

static void visit_take(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct bdev_channel *ch = channel_ctx(channel);

	channels_lock();
	if (has_part(ch, ctx))
		give(ch->tracked);
	channels_unlock();
	channel_iter_next(iter, 0);
}

static void visit_detach(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct bdev_channel *ch = channel_ctx(channel);

	if (has_part(ch, ctx))
		detach(ch);
	channel_iter_next(iter, 0);
}

/* Whether all channels of the device have a part in the track, or none. */
static bool all_have_part(const struct bdev_track *track, bool part)
{
	const struct bdev_channel *ch;
	bool all = true;

	channels_lock();
	TAILQ_FOREACH (ch, &track->bdev->channels, in_bdev)
		all = all && has_part(ch, track) == part;
	channels_unlock();
	return all;
}

/* ---- the control thread ---- */

static void start_walk(struct bdev_track *track, channel_visit_fn visit, channel_visited_fn done)
{
	track->walks++;
	for_each_channel(track->bdev, visit, done, track);
}

static void end_walk(struct bdev_track *track)
{
	must(track->walks > 0);
	track->walks--;
}

static void free_if_ended(struct bdev_track *track)
{
	const struct bdev_track_calls *calls = track->calls;
	void *ctx = track->ctx;

	if (track->walks > 0 || !track->is_ending)
		return;
	bdev_close(track->desc);
	free(track->changed);
	free(track);
	calls->ended(ctx);
}

static void end_attach(int status, void *ctx)
{
	struct bdev_track *track = ctx;

	end_walk(track);
	if (!status && !track->is_ending && !all_have_part(track, true)) {
		start_walk(track, visit_attach, end_attach);
		return;
	}
	track->is_begun = true;
	if (!track->is_ending)
		track->calls->begun(track->ctx, status);
	free_if_ended(track);
}

static void note_removed(void *ctx)
{
	struct bdev_track *track = ctx;

	if (!track->is_ending)
		track->calls->removed(track->ctx);
}

int bdev_track_begin(struct bdev *bdev, uint64_t region_blocks, const struct bdev_track_calls *calls, void *ctx,
		     struct bdev_track **track_ret)
{
	struct bdev_track *track;
	int error;

	must_be_on(thread_control());
	must(is_power_of_two(region_blocks));
	must(calls->begun && calls->taken && calls->removed && calls->ended);
	if (bdev->track) /* only this thread writes it */
		return -EBUSY;
	track = calloc(1, sizeof(*track));
	if (!track)
		return -ENOMEM;
	track->bdev = bdev;
	track->calls = calls;
	track->ctx = ctx;
	track->region_shift = (unsigned int)__builtin_ctzll(region_blocks);
	track->region_count = (bdev_block_count(bdev) + region_blocks - 1) / region_blocks;
	track->changed = calloc(word_count(track->region_count), sizeof(*track->changed));
	error = track->changed ? bdev_open(bdev->name, note_removed, track, &track->desc) : -ENOMEM;
	if (error) {
		free(track->changed);
		free(track);
		return error;
	}
	channels_lock();
	bdev->track = track;
	channels_unlock();
	start_walk(track, visit_attach, end_attach);
	*track_ret = track;
	return 0;
}

uint64_t bdev_track_region_count(const struct bdev_track *track)
{
	return track->region_count;
}

bool bdev_track_is_complete(const struct bdev_track *track)
{
	bool complete;

	channels_lock();
	complete = !track->is_outgrown;
	channels_unlock();
	return complete;
}

static void end_take(int status, void *ctx)
{
	struct bdev_track *track = ctx;
	uint64_t *bits = track->wanted;
	size_t words = word_count(track->region_count);

	must(status == 0);
	end_walk(track);
	track->wanted = NULL;
	channels_lock();
	for (size_t i = 0; i < words; i++)
		bits[i] |= track->changed[i];
	memset(track->changed, 0, words * sizeof(*track->changed));
	channels_unlock();
	track->calls->taken(track->ctx);
	free_if_ended(track);
}

void bdev_track_take(struct bdev_track *track, uint64_t *bits)
{
	must_be_on(thread_control());
	must(track->is_begun && !track->is_ending && !track->wanted);
	track->wanted = bits;
	start_walk(track, visit_take, end_take);
}

static void end_detach(int status, void *ctx)
{
	struct bdev_track *track = ctx;

	must(status == 0);
	end_walk(track);
	if (all_have_part(track, false))
		free_if_ended(track);
	else
		start_walk(track, visit_detach, end_detach);
}

void bdev_track_end(struct bdev_track *track)
{
	must_be_on(thread_control());
	must(!track->is_ending);
	track->is_ending = true;
	channels_lock();
	track->bdev->track = NULL;
	channels_unlock();
	start_walk(track, visit_detach, end_detach);
}
