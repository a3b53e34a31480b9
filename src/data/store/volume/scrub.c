/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/volume/scrub.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/probes.gen.h"

enum {
	READ_BYTES = 128 << 10,
	CLEAN_SEC = 5,
	CHECK_DELAY_SEC = 2,   /* after an engine was killed, the kernel may still write for it */
	CHECK_AGAIN_SEC = 300, /* after a read of a suspect region has failed */
	IDLE_MS = 500,
	TURN_MS = 1000,
};

static uint64_t bytes_per_sec(const struct scrub *scrub)
{
	return scrub->state == SCRUB_CHECKING ? SCRUB_CHECK_BYTES_PER_SEC : scrub->bytes_per_sec;
}

/* ---- the turn of a volume ---- */

void scrub_move_to(struct scrub *scrub, enum scrub_state to)
{
	scrub_state_move(clock_ticks(), scrub, to);
}

static void close_device(struct scrub *scrub)
{
	if (scrub->channel)
		bdev_channel_put(scrub->channel);
	bdev_close(scrub->desc);
	scrub->channel = NULL;
	scrub->desc = NULL;
}

/* After a region, or because the volume goes. No I/O is in progress. */
void scrub_end_turn(struct scrub *scrub, bool is_whole)
{
	must(!scrub->is_reading);
	if (scrub->state == SCRUB_CLEANING)
		file_sums_end_clean(bdev_desc_bdev(scrub->desc));
	else if (scrub->state == SCRUB_CHECKING)
		file_sums_end_check(bdev_desc_bdev(scrub->desc), scrub->failures, is_whole);
	if (scrub->state == SCRUB_CHECKING && scrub->volume && scrub->read_errors > 0)
		scrub->volume->scrub.has_unread = true;
	scrub_move_to(scrub, SCRUB_IDLE);
	close_device(scrub);
	scrub->volume = NULL;
	if (!scrub->volumes) /* it was given up; its I/O is on the stack */
		thread_send_msg(thread_control(), scrub_free, scrub);
	else if (scrub->is_stopping)
		queue_wake(scrub->volumes);
}

static void note_removed(void *ctx)
{
	struct scrub *scrub = ctx;

	if (scrub->is_reading)
		scrub->is_leaving = true;
	else
		scrub_end_turn(scrub, false);
}

static bool open_device(struct scrub *scrub, struct volume *volume)
{
	must(!scrub->desc && !scrub->volume);
	if (bdev_open(volume->device, note_removed, scrub, &scrub->desc))
		return false;
	scrub->channel = bdev_channel_get(scrub->desc);
	if (!scrub->channel) {
		close_device(scrub);
		return false;
	}
	scrub->volume = volume;
	scrub->is_leaving = false;
	return true;
}

/* ---- I/O ---- */

static void start_read(struct scrub *scrub);

static void pace(struct scrub *scrub, uint64_t bytes)
{
	uint64_t rate = bytes_per_sec(scrub), wait_ns = rate ? bytes * NS_PER_SEC / rate : 0;

	poller_set_period(scrub->poller, max_u64(wait_ns, NS_PER_MS));
}

static void read_done(struct bdev_io *io, enum io_status status)
{
	struct scrub *scrub = container_of(io, struct scrub, io);
	struct volume_scrub *progress = scrub->volume ? &scrub->volume->scrub : NULL;

	must(scrub->is_reading);
	scrub->is_reading = false;
	if (scrub->is_leaving || !progress) {
		scrub_end_turn(scrub, false);
		return;
	}
	if (status != IO_SUCCESS)
		scrub->read_errors++;
	if (scrub->state == SCRUB_SCRUBBING && progress->is_wanted) {
		progress->next_block = scrub->next;
		progress->failed_reads += status != IO_SUCCESS;
	}
	pace(scrub, io->block_count * SCRUB_BLOCK_BYTES);
}

static void start_read(struct scrub *scrub)
{
	uint64_t end = min_u64(scrub->end, bdev_block_count(bdev_desc_bdev(scrub->desc)));
	uint64_t count = scrub->next < end ? min_u64(end - scrub->next, READ_BYTES / SCRUB_BLOCK_BYTES) : 0;

	if (scrub->state == SCRUB_SCRUBBING &&
	    (scrub->bytes_per_sec == 0 || !scrub->volume || !scrub->volume->scrub.is_wanted ||
	     clock_monotonic_ns() - scrub->turn_ns > TURN_MS * NS_PER_MS))
		count = 0;
	if (count == 0) { /* also if the volume is shorter now */
		scrub_end_turn(scrub, scrub->read_errors == 0);
		return;
	}
	scrub->iov = (struct iovec){ scrub->memory, count * SCRUB_BLOCK_BYTES };
	scrub->is_reading = true;
	scrub->next += count;
	bdev_read(&scrub->io, scrub->channel, &scrub->iov, 1, scrub->next - count, count, reactor_now(), read_done);
}

/* The flush has synced the data and the sums, then removed the marks. */
static void flush_done(struct bdev_io *io, enum io_status status)
{
	struct scrub *scrub = container_of(io, struct scrub, io);

	must(scrub->is_reading && scrub->state == SCRUB_CLEANING);
	maybe(status != IO_SUCCESS); /* then the marks stay */
	scrub->is_reading = false;
	scrub_end_turn(scrub, true);
}

/* ---- what is to do ---- */

static bool begin_clean(struct scrub *scrub, struct volume *volume, uint64_t now_ns)
{
	struct bdev *bdev = bdev_find(volume->device);
	struct file_sums_info info;

	if (volume->state != VOLUME_ONLINE || now_ns < volume->scrub.clean_ns || !bdev)
		return false;
	volume->scrub.clean_ns = now_ns + CLEAN_SEC * NS_PER_SEC;
	file_get_sums(bdev, &info);
	if (info.marked == 0 || !file_sums_begin_clean(bdev, &scrub->io, false))
		return false;
	if (!open_device(scrub, volume)) {
		file_sums_end_clean(bdev);
		return false;
	}
	scrub_move_to(scrub, SCRUB_CLEANING);
	scrub->is_reading = true;
	bdev_flush(&scrub->io, scrub->channel, reactor_now(), flush_done);
	return true;
}

static void begin_region(struct scrub *scrub, uint64_t first)
{
	scrub->next = first;
	scrub->end = (first / file_sums_region_blocks() + 1) * file_sums_region_blocks();
	scrub->read_errors = 0;
	start_read(scrub);
}

static bool begin_check(struct scrub *scrub, struct volume *volume, uint64_t now_ns)
{
	struct bdev *bdev = bdev_find(volume->device);
	struct file_sums_info info;
	uint64_t region;

	if (volume->state != VOLUME_ONLINE || now_ns < volume->scrub.check_ns || !bdev)
		return false;
	file_get_sums(bdev, &info);
	if (info.sync_error) /* then no region becomes trusted */
		return false;
	region = file_sums_next_suspect(bdev, volume->scrub.next_check);
	volume->scrub.next_check = region == UINT64_MAX ? 0 : region + 1;
	if (region == UINT64_MAX) {
		volume->scrub.check_ns = now_ns +
					 (volume->scrub.has_unread ? CHECK_AGAIN_SEC : CHECK_DELAY_SEC) * NS_PER_SEC;
		volume->scrub.has_unread = false;
		return false;
	}
	if (!open_device(scrub, volume))
		return false;
	scrub_move_to(scrub, SCRUB_CHECKING);
	scrub->failures = file_sums_begin_check(bdev, region);
	begin_region(scrub, region * file_sums_region_blocks());
	return true;
}

/* From the end of a scrub of the volume to the next. */
static uint64_t rest_ns(const struct volume *volume)
{
	uint32_t seconds = volume->pool->record.scrub_seconds;

	return (seconds ? seconds : SCRUB_REST_SEC) * NS_PER_SEC;
}

void scrub_set_due(struct volume *volume)
{
	volume->scrub.due_ns = clock_monotonic_ns() + rest_ns(volume);
}

static void end_scrub(struct volume *volume, uint64_t now_ns)
{
	volume->scrub.is_wanted = false;
	volume->scrub.ended_ns = clock_realtime_ns();
	volume->scrub.due_ns = now_ns + rest_ns(volume);
}

static bool begin_scrub(struct scrub *scrub, struct volume *volume, uint64_t now_ns)
{
	const struct bdev *bdev = bdev_find(volume->device);

	if (scrub->bytes_per_sec == 0 || !bdev)
		return false;
	if (!volume->scrub.is_wanted && now_ns >= volume->scrub.due_ns && !volume->pool->record.scrub_off)
		(void)volumes_start_scrub(volume); /* true: it is ONLINE */
	if (!volume->scrub.is_wanted)
		return false;
	if (volume->scrub.next_block >= bdev_block_count(bdev)) {
		end_scrub(volume, now_ns);
		return false;
	}
	if (!open_device(scrub, volume))
		return false;
	scrub_move_to(scrub, SCRUB_SCRUBBING);
	begin_region(scrub, volume->scrub.next_block);
	return true;
}

static bool begin_turn(struct scrub *scrub, struct volume *volume)
{
	uint64_t now_ns = clock_monotonic_ns();

	/* its data and sums are being written into the files, not through its block device */
	if (volume->record.move == VOLUME_MOVE_INCOMING)
		return false;
	scrub->turn_ns = now_ns;
	return begin_clean(scrub, volume, now_ns) || begin_check(scrub, volume, now_ns) ||
	       begin_scrub(scrub, volume, now_ns);
}

/* Give each volume its turn, until one has something to do. */
static int run(void *ctx)
{
	struct scrub *scrub = ctx;
	struct volume *volume, *first = TAILQ_FIRST(&scrub->volumes_in_turn);

	if (scrub->is_reading || scrub->is_stopping)
		return 0;
	if (scrub->state == SCRUB_CHECKING || scrub->state == SCRUB_SCRUBBING) {
		start_read(scrub);
		return 1;
	}
	volume = first;
	while (volume) {
		TAILQ_REMOVE(&scrub->volumes_in_turn, volume, scrub.link);
		TAILQ_INSERT_TAIL(&scrub->volumes_in_turn, volume, scrub.link);
		if (begin_turn(scrub, volume))
			return 1;
		volume = TAILQ_FIRST(&scrub->volumes_in_turn);
		if (volume == first)
			break;
	}
	poller_set_period(scrub->poller, IDLE_MS * NS_PER_MS);
	return 0;
}

/* ---- create, stop ---- */

struct scrub *scrub_create(struct volumes *volumes)
{
	struct scrub *scrub = aligned_alloc(CACHE_LINE_BYTES, round_up(sizeof(*scrub), CACHE_LINE_BYTES));

	must(scrub);
	memset(scrub, 0, sizeof(*scrub));
	scrub->volumes = volumes;
	scrub->bytes_per_sec = SCRUB_BYTES_PER_SEC_DEFAULT;
	TAILQ_INIT(&scrub->volumes_in_turn);
	trace_object_init(&scrub->trace, TRACE_OBJECT_SCRUB);
	bdev_io_init(&scrub->io);
	return scrub;
}

void scrub_add_volume(struct scrub *scrub, struct volume *volume)
{
	uint64_t now_ns = clock_monotonic_ns();

	must(!volume->scrub.is_listed);
	if (!scrub->poller) { /* the first: storages without such volumes need none of this */
		scrub->memory = aligned_alloc(BDEV_BUFFER_ALIGNMENT_MAX, READ_BYTES);
		scrub->poller = poller_register("volume_scrub", run, scrub, IDLE_MS * NS_PER_MS);
		must(scrub->memory && scrub->poller);
	}
	volume->scrub.is_listed = true;
	volume->scrub.clean_ns = now_ns + CLEAN_SEC * NS_PER_SEC;
	volume->scrub.check_ns = now_ns + CHECK_DELAY_SEC * NS_PER_SEC;
	volume->scrub.due_ns = now_ns + min_u64(SCRUB_FIRST_SEC * NS_PER_SEC, rest_ns(volume));
	TAILQ_INSERT_TAIL(&scrub->volumes_in_turn, volume, scrub.link);
}

void scrub_remove_volume(struct scrub *scrub, struct volume *volume)
{
	if (!volume->scrub.is_listed)
		return;
	volume->scrub.is_listed = false;
	TAILQ_REMOVE(&scrub->volumes_in_turn, volume, scrub.link);
	if (scrub->volume == volume)
		scrub->volume = NULL; /* its block device goes, too, or the storage is being closed */
}

void scrub_free(void *ctx)
{
	struct scrub *scrub = ctx;

	must(!scrub->desc);
	free(scrub->memory);
	free(scrub);
}

/* ---- calls ---- */

bool volumes_start_scrub(struct volume *volume)
{
	must_be_on(thread_control());
	if (!volume->scrub.is_listed)
		return false;
	volume->scrub.is_wanted = true;
	volume->scrub.next_block = volume->scrub.failed_reads = 0;
	volume->scrub.begun_ns = clock_realtime_ns();
	return true;
}

void volumes_stop_scrub(struct volume *volume)
{
	must_be_on(thread_control());
	volume->scrub.is_wanted = false;
	scrub_set_due(volume);
}

void volumes_set_scrub_rate(struct volumes *volumes, uint64_t bytes_per_sec)
{
	must_be_on(thread_control());
	if (volumes->scrub)
		volumes->scrub->bytes_per_sec = bytes_per_sec;
}

uint64_t volumes_get_scrub_rate(const struct volumes *volumes)
{
	return volumes->scrub ? volumes->scrub->bytes_per_sec : 0;
}
