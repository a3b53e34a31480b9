/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/engine/load.h"

#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "data/engine/control.h"
#include "data/store/volume/volumes.h"

/* ---- the window ---- */

static uint64_t increase(uint64_t before, uint64_t now)
{
	return now - min_u64(before, now);
}

/* The newest of the kept readings that are a whole window old becomes the oldest. */
static void drop_old(struct load_window *window, uint64_t now_ns)
{
	uint32_t gone = 0;

	while (gone + 1 < window->count && window->samples[gone + 1].at_ns + LOAD_WINDOW_NS <= now_ns)
		gone++;
	window->count -= gone;
	memmove(&window->samples[0], &window->samples[gone], window->count * sizeof(window->samples[0]));
}

void load_window_add(struct load_window *window, uint64_t now_ns, const struct load *totals)
{
	if (window->count > 0) {
		must(now_ns >= window->samples[window->count - 1].at_ns);
		window->sums.operations += increase(window->totals.operations, totals->operations);
		window->sums.bytes += increase(window->totals.bytes, totals->bytes);
	}
	window->totals = *totals;
	drop_old(window, now_ns);
	/* between two samples only the sums go on */
	if (window->count > 0 && now_ns < window->samples[window->count - 1].at_ns + LOAD_SAMPLE_NS)
		return;
	must(window->count < ARRAY_COUNT(window->samples));
	window->samples[window->count++] = (struct load_sample){ .at_ns = now_ns, .sums = window->sums };
}

struct load load_window_minute(const struct load_window *window)
{
	struct load minute = window->sums;

	if (window->count == 0)
		return (struct load){ 0 };
	must(minute.operations >= window->samples[0].sums.operations);
	must(minute.bytes >= window->samples[0].sums.bytes);
	minute.operations -= window->samples[0].sums.operations;
	minute.bytes -= window->samples[0].sums.bytes;
	return minute;
}

/* ---- the engine ---- */

static struct load_window window;
static struct poller *poller;

static void add_volume(struct load *totals, const struct volume *volume)
{
	struct bdev *bdev = bdev_find(volume->device);
	struct bdev_stats stats;

	if (!bdev)
		return;
	bdev_stats_get(bdev, STATS_RESET_NONE, &stats);
	totals->operations += stats.read_ops + stats.write_ops + stats.unmap_ops + stats.flush_ops + stats.compare_ops;
	totals->bytes += stats.bytes_read + stats.bytes_written;
}

static void add_reading(void)
{
	struct volumes *volumes = engine_storage();
	struct load totals = { 0 };
	const struct volume *volume;

	if (!volumes)
		return;
	for (const struct pool *pool = volumes_first_pool(volumes); pool; pool = TAILQ_NEXT(pool, link)) {
		TAILQ_FOREACH (volume, &pool->volumes, link)
			add_volume(&totals, volume);
	}
	load_window_add(&window, clock_monotonic_ns(), &totals);
}

static int poll_load(void *ctx)
{
	add_reading();
	return 1;
}

void load_start(void)
{
	must(!poller);
	window = (struct load_window){ 0 };
	add_reading();
	poller = poller_register("engine_load", poll_load, NULL, LOAD_SAMPLE_NS);
	if (!poller)
		log_warning("out of memory: the I/O of the last minute is not counted");
}

void load_stop(void)
{
	poller_unregister(&poller);
}

struct load load_read(void)
{
	if (!poller)
		return (struct load){ 0 };
	add_reading();
	return load_window_minute(&window);
}
