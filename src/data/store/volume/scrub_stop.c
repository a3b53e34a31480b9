/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scrub_stop - when the engine stops, and no host writes any more: removes the marks of all volumes with checksums, several
 * at a time, so that the next start need not check them.
 *
 *   flush    syncs the data and the sums, then removes the marks
 *   flush    syncs that
 *
 * A disk that hangs stops neither the other volumes nor the engine. After STOP_CLEAN_SEC no volume begins. After
 * STOP_WAIT_SEC those whose I/O has not ended are given up: their marks stay, and the I/O frees its memory when it ends.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/scrub.h"

enum { CLEANS_MAX = 16, STOP_CLEAN_SEC = 5, STOP_WAIT_SEC = 8, CHECK_MS = 100 };

/* A volume whose marks are being removed. */
struct last_clean {
	struct bdev_io io;
	struct scrub *scrub; /* NULL: it is given up */
	struct bdev_desc *desc;
	struct bdev_channel *channel;
	bool is_syncing_marks;
	LIST_ENTRY(last_clean) link;
};

static uint64_t stopping_ns(const struct scrub *scrub)
{
	return clock_monotonic_ns() - scrub->stop_ns;
}

/* ---- one volume ---- */

static void free_clean(void *ctx)
{
	free(ctx);
}

static void leave_scrub(struct last_clean *clean)
{
	struct scrub *scrub = clean->scrub;

	must(scrub->clean_count > 0);
	LIST_REMOVE(clean, link);
	clean->scrub = NULL;
	if (--scrub->clean_count == 0 && scrub->state == SCRUB_CLEANING && !scrub->desc)
		scrub_move_to(scrub, SCRUB_IDLE);
	queue_wake(scrub->volumes);
}

static void end_clean(struct last_clean *clean)
{
	file_sums_end_clean(bdev_desc_bdev(clean->desc));
	bdev_channel_put(clean->channel);
	bdev_close(clean->desc);
	if (clean->scrub)
		leave_scrub(clean);
	thread_send_msg(thread_control(), free_clean, clean); /* its I/O is on the stack */
}

static void flush_done(struct bdev_io *io, enum io_status status)
{
	struct last_clean *clean = container_of(io, struct last_clean, io);

	maybe(status != IO_SUCCESS); /* then the marks stay */
	if (status != IO_SUCCESS || clean->is_syncing_marks || !clean->scrub) {
		end_clean(clean);
		return;
	}
	clean->is_syncing_marks = true;
	bdev_flush(&clean->io, clean->channel, reactor_now(), flush_done);
}

static bool open_device(struct last_clean *clean, const struct volume *volume)
{
	if (bdev_open(volume->device, NULL, NULL, &clean->desc))
		return false;
	clean->channel = bdev_channel_get(clean->desc);
	if (!clean->channel)
		bdev_close(clean->desc);
	return clean->channel;
}

static void start_clean(struct scrub *scrub, const struct volume *volume, struct bdev *bdev)
{
	struct last_clean *clean = aligned_alloc(CACHE_LINE_BYTES, round_up(sizeof(*clean), CACHE_LINE_BYTES));

	must(clean);
	memset(clean, 0, sizeof(*clean));
	bdev_io_init(&clean->io);
	clean->scrub = scrub;
	if (!file_sums_begin_clean(bdev, &clean->io, true)) {
		free(clean);
		return;
	}
	if (!open_device(clean, volume)) { /* out of memory: the marks stay */
		file_sums_end_clean(bdev);
		free(clean);
		return;
	}
	LIST_INSERT_HEAD(&scrub->cleans, clean, link);
	if (scrub->clean_count++ == 0 && scrub->state == SCRUB_IDLE)
		scrub_move_to(scrub, SCRUB_CLEANING);
	bdev_flush(&clean->io, clean->channel, reactor_now(), flush_done);
}

/* ---- all of them ---- */

/* Its block device, if it has marks to remove. NULL: it has none. */
static struct bdev *find_marked(const struct volume *volume)
{
	struct bdev *bdev = bdev_find(volume->device);
	struct file_sums_info info;

	if (!bdev || volume->state != VOLUME_ONLINE || volume->record.move == VOLUME_MOVE_INCOMING)
		return NULL;
	file_get_sums(bdev, &info);
	return info.marked > 0 ? bdev : NULL;
}

static bool has_turn(const struct scrub *scrub, const struct bdev *bdev)
{
	return scrub->desc && bdev_desc_bdev(scrub->desc) == bdev;
}

static void start_cleans(struct scrub *scrub)
{
	bool is_late = stopping_ns(scrub) > STOP_CLEAN_SEC * NS_PER_SEC;
	struct volume *volume, *next;
	uint32_t skipped = 0;

	TAILQ_FOREACH_SAFE (volume, &scrub->volumes_in_turn, scrub.link, next) {
		struct bdev *bdev = find_marked(volume);

		if (bdev && !is_late && (scrub->clean_count == CLEANS_MAX || has_turn(scrub, bdev)))
			continue; /* it waits */
		scrub_remove_volume(scrub, volume);
		if (bdev && is_late)
			skipped++;
		else if (bdev)
			start_clean(scrub, volume, bdev);
	}
	if (skipped > 0)
		log_warning(
			"storage %s: after %d s the marks of %u volumes with checksums are not removed: regions with one"
			" are checked at the next start",
			scrub->volumes->root, STOP_CLEAN_SEC, skipped);
}

static void log_given_up(const struct bdev_desc *desc)
{
	log_error("volume %s: its disk has not ended an I/O for %d s, so the engine stops without it: the marks of its"
		  " checksums stay, and regions with one are checked at the next start",
		  bdev_name(bdev_desc_bdev(desc)), STOP_WAIT_SEC);
}

static void give_up(struct scrub *scrub)
{
	struct last_clean *clean;

	while ((clean = LIST_FIRST(&scrub->cleans))) {
		log_given_up(clean->desc);
		leave_scrub(clean);
	}
	if (!scrub->is_reading || scrub->is_given_up)
		return;
	log_given_up(scrub->desc);
	scrub->is_given_up = true;
}

static int check_bound(void *ctx)
{
	struct scrub *scrub = ctx;

	if (stopping_ns(scrub) > STOP_WAIT_SEC * NS_PER_SEC)
		give_up(scrub);
	queue_wake(scrub->volumes); /* which calls scrub_stop() */
	return 1;
}

static void begin_stop(struct scrub *scrub)
{
	scrub->stop_ns = clock_monotonic_ns();
	if (scrub->desc && !scrub->is_reading)
		scrub_end_turn(scrub, false);
	scrub->is_stopping = true; /* from now on, the end of a turn calls volumes_continue_close() */
	scrub->is_leaving = scrub->is_reading;
	if (!scrub->poller) /* there was never a volume */
		return;
	scrub->bound = poller_register("volume_scrub_stop", check_bound, scrub, CHECK_MS * NS_PER_MS);
	must(scrub->bound);
}

bool scrub_stop(struct scrub *scrub)
{
	if (!scrub)
		return true;
	if (!scrub->is_stopping)
		begin_stop(scrub);
	start_cleans(scrub);
	if (scrub->clean_count > 0 || !TAILQ_EMPTY(&scrub->volumes_in_turn) || (scrub->is_reading && !scrub->is_given_up))
		return false;
	poller_unregister(&scrub->bound);
	poller_unregister(&scrub->poller);
	scrub->volumes = NULL;
	if (!scrub->is_reading)
		scrub_free(scrub);
	return true;
}
