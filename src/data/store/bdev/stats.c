/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats - statistics of a bdev.
 *
 * Each channel counts without locks. Readers sum the channels under one lock; its only other users are the creation and the
 * destruction of a channel, and holds (hold.c). A destroyed channel adds its counts to the bdev.
 *
 * A reset records the reported values, and readers subtract them from then on. So a reset needs no message to the channel's
 * thread, and loses no count. Only the latency extremes are overwritten: a sample taken at the same time may be lost.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "data/store/bdev/internal.h"

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER;

void channels_lock(void)
{
	must(pthread_mutex_lock(&accounts) == 0);
}

void channels_unlock(void)
{
	must(pthread_mutex_unlock(&accounts) == 0);
}

/* ---- one channel ---- */

/* Copy a channel's counters. The thread keeps counting meanwhile: callers report and reset from this one copy. */
static void channel_read(const struct bdev_channel *ch, struct channel_counters *now)
{
	for (int i = 0; i < IO_TYPES_MAX; i++) {
		const struct type_counters *from = &ch->counters.types[i];

		now->types[i] = (struct type_counters){
			.ops = counter_read(&from->ops),
			.bytes = counter_read(&from->bytes),
			.latency_ticks = counter_read(&from->latency_ticks),
			.latency_ticks_max = counter_read(&from->latency_ticks_max),
			.latency_ticks_min = counter_read(&from->latency_ticks_min),
		};
		must(now->types[i].ops >= ch->base.types[i].ops);
		must(now->types[i].bytes >= ch->base.types[i].bytes);
		must(now->types[i].latency_ticks >= ch->base.types[i].latency_ticks);
	}
	for (int i = 0; i < BDEV_STATUSES_MAX; i++) {
		now->errors[i] = counter_read(&ch->counters.errors[i]);
		must(now->errors[i] >= ch->base.errors[i]);
	}
}

/* Since the last reset. */
struct since {
	uint64_t ops, bytes;
	struct latency {
		uint64_t ticks, max, min;
	} latency;
};

static struct since since_reset(const struct bdev_channel *ch, const struct channel_counters *now, enum io_type type)
{
	const struct type_counters *to = &now->types[type], *from = &ch->base.types[type];

	return (struct since){
		.ops = to->ops - from->ops,
		.bytes = to->bytes - from->bytes,
		.latency = { to->latency_ticks - from->latency_ticks, to->latency_ticks_max, to->latency_ticks_min },
	};
}

static struct latency latency_join(struct latency a, struct latency b)
{
	return (struct latency){ a.ticks + b.ticks, max_u64(a.max, b.max), min_u64(a.min, b.min) };
}

/* A min without samples stays UINT64_MAX until clear_unset_mins(). */
static void stats_of_channel(const struct bdev_channel *ch, const struct channel_counters *now, struct bdev_stats *stats)
{
	struct since read = since_reset(ch, now, IO_TYPE_READ), unmap = since_reset(ch, now, IO_TYPE_UNMAP);
	struct since write = since_reset(ch, now, IO_TYPE_WRITE), zeroes = since_reset(ch, now, IO_TYPE_WRITE_ZEROES);
	struct latency written = latency_join(write.latency, zeroes.latency);

	*stats = (struct bdev_stats){
		.bytes_read = read.bytes,
		.read_ops = read.ops,
		.bytes_written = write.bytes + zeroes.bytes,
		.write_ops = write.ops + zeroes.ops,
		.bytes_unmapped = unmap.bytes,
		.unmap_ops = unmap.ops,
		.flush_ops = since_reset(ch, now, IO_TYPE_FLUSH).ops,
		.compare_ops = since_reset(ch, now, IO_TYPE_COMPARE).ops,
		.reset_ops = since_reset(ch, now, IO_TYPE_RESET).ops,
		.read_latency_ticks = read.latency.ticks,
		.read_latency_ticks_max = read.latency.max,
		.read_latency_ticks_min = read.latency.min,
		.write_latency_ticks = written.ticks,
		.write_latency_ticks_max = written.max,
		.write_latency_ticks_min = written.min,
		.unmap_latency_ticks = unmap.latency.ticks,
		.unmap_latency_ticks_max = unmap.latency.max,
		.unmap_latency_ticks_min = unmap.latency.min,
		.queue_depth = counter_read(&ch->queue_depth),
		.queued = counter_read(&ch->queued),
	};
	for (int i = 0; i < BDEV_STATUSES_MAX; i++)
		stats->errors[i] = now->errors[i] - ch->base.errors[i];
}

/* Reset to `now`, the values just reported. */
static void channel_reset(struct bdev_channel *ch, const struct channel_counters *now, enum stats_reset reset)
{
	if (reset == STATS_RESET_ALL || reset == STATS_RESET_ERROR)
		memcpy(ch->base.errors, now->errors, sizeof(ch->base.errors));
	for (int i = 0; i < IO_TYPES_MAX; i++) {
		if (reset == STATS_RESET_ALL)
			ch->base.types[i] = now->types[i];
		if (reset == STATS_RESET_ALL || reset == STATS_RESET_MAXMIN) {
			counter_set(&ch->counters.types[i].latency_ticks_max, 0);
			counter_set(&ch->counters.types[i].latency_ticks_min, UINT64_MAX);
		}
	}
}

/* ---- sums ---- */

static void stats_reset(struct bdev_stats *stats, enum stats_reset reset)
{
	if (reset == STATS_RESET_ALL)
		memset(stats, 0, sizeof(*stats));
	if (reset == STATS_RESET_ERROR)
		memset(stats->errors, 0, sizeof(stats->errors));
	if (reset == STATS_RESET_ALL || reset == STATS_RESET_MAXMIN) {
		stats->read_latency_ticks_max = stats->write_latency_ticks_max = stats->unmap_latency_ticks_max = 0;
		stats->read_latency_ticks_min = stats->write_latency_ticks_min = UINT64_MAX;
		stats->unmap_latency_ticks_min = UINT64_MAX;
	}
}

static void stats_add(struct bdev_stats *sum, const struct bdev_stats *more)
{
	sum->bytes_read += more->bytes_read;
	sum->read_ops += more->read_ops;
	sum->bytes_written += more->bytes_written;
	sum->write_ops += more->write_ops;
	sum->bytes_unmapped += more->bytes_unmapped;
	sum->unmap_ops += more->unmap_ops;
	sum->flush_ops += more->flush_ops;
	sum->compare_ops += more->compare_ops;
	sum->reset_ops += more->reset_ops;
	sum->read_latency_ticks += more->read_latency_ticks;
	sum->read_latency_ticks_max = max_u64(sum->read_latency_ticks_max, more->read_latency_ticks_max);
	sum->read_latency_ticks_min = min_u64(sum->read_latency_ticks_min, more->read_latency_ticks_min);
	sum->write_latency_ticks += more->write_latency_ticks;
	sum->write_latency_ticks_max = max_u64(sum->write_latency_ticks_max, more->write_latency_ticks_max);
	sum->write_latency_ticks_min = min_u64(sum->write_latency_ticks_min, more->write_latency_ticks_min);
	sum->unmap_latency_ticks += more->unmap_latency_ticks;
	sum->unmap_latency_ticks_max = max_u64(sum->unmap_latency_ticks_max, more->unmap_latency_ticks_max);
	sum->unmap_latency_ticks_min = min_u64(sum->unmap_latency_ticks_min, more->unmap_latency_ticks_min);
	sum->queue_depth += more->queue_depth;
	sum->queued += more->queued;
	for (int i = 0; i < BDEV_STATUSES_MAX; i++)
		sum->errors[i] += more->errors[i];
}

static void clear_unset_mins(struct bdev_stats *stats)
{
	uint64_t *mins[] = { &stats->read_latency_ticks_min, &stats->write_latency_ticks_min,
			     &stats->unmap_latency_ticks_min };

	for (size_t i = 0; i < ARRAY_COUNT(mins); i++)
		*mins[i] = *mins[i] == UINT64_MAX ? 0 : *mins[i];
}

/* ---- figures ---- */

static void figures_add(struct bdev_figures *sum, const struct bdev_channel *ch)
{
	for (int i = 0; i < IO_TYPES_MAX; i++) {
		sum->types[i].ops += counter_read(&ch->counters.types[i].ops);
		sum->types[i].bytes += counter_read(&ch->counters.types[i].bytes);
		sum->types[i].latency_ticks += counter_read(&ch->counters.types[i].latency_ticks);
	}
	for (int i = 0; i < BDEV_STATUSES_MAX; i++)
		sum->errors[i] += counter_read(&ch->counters.errors[i]);
	for (int i = 0; i < BDEV_LATENCIES_MAX; i++) {
		for (int bucket = 0; bucket < LATENCY_BUCKETS; bucket++)
			sum->latency[i][bucket] += counter_read(&ch->latency[i][bucket]);
	}
	sum->queue_depth += counter_read(&ch->queue_depth);
	sum->queued += counter_read(&ch->queued);
}

void bdev_figures_get(struct bdev *bdev, struct bdev_figures *figures_ret)
{
	const struct bdev_channel *ch;

	channels_lock();
	*figures_ret = bdev->figures_closed;
	TAILQ_FOREACH (ch, &bdev->channels, in_bdev)
		figures_add(figures_ret, ch);
	channels_unlock();
}

/* ---- channel creation and destruction ---- */

void stats_bdev_init(struct bdev *bdev)
{
	TAILQ_INIT(&bdev->channels);
	stats_reset(&bdev->stats_closed, STATS_RESET_ALL);
	bdev->figures_closed = (struct bdev_figures){ 0 };
	latency_prepare();
}

void stats_channel_add(struct bdev_channel *ch)
{
	for (int i = 0; i < IO_TYPES_MAX; i++)
		ch->counters.types[i].latency_ticks_min = UINT64_MAX;
	channels_lock();
	TAILQ_INSERT_TAIL(&ch->bdev->channels, ch, in_bdev);
	channels_unlock();
}

void stats_channel_remove(struct bdev_channel *ch)
{
	struct channel_counters now;
	struct bdev_stats stats;

	channels_lock();
	channel_read(ch, &now);
	stats_of_channel(ch, &now, &stats);
	must(stats.queue_depth == 0);
	must(stats.queued == 0);
	stats_add(&ch->bdev->stats_closed, &stats);
	figures_add(&ch->bdev->figures_closed, ch);
	must(ch->bdev->figures_closed.queue_depth == 0);
	TAILQ_REMOVE(&ch->bdev->channels, ch, in_bdev);
	channels_unlock();
}

/* ---- public functions ---- */

/* Read one channel's statistics and reset them. */
static void channel_read_and_reset(struct bdev_channel *ch, enum stats_reset reset, struct bdev_stats *stats)
{
	struct channel_counters now;

	channel_read(ch, &now);
	stats_of_channel(ch, &now, stats);
	channel_reset(ch, &now, reset);
}

static void record_reset(const struct bdev *bdev, enum stats_reset reset)
{
	if (reset != STATS_RESET_NONE)
		probe_bdev_stats_reset(reactor_now(), bdev, bdev_name_istr(bdev), reset);
}

void bdev_stats_get(struct bdev *bdev, enum stats_reset reset, struct bdev_stats *stats_ret)
{
	struct bdev_channel *ch;
	struct bdev_stats stats;

	must(reset <= STATS_RESET_NONE);
	channels_lock();
	*stats_ret = bdev->stats_closed;
	stats_reset(&bdev->stats_closed, reset);
	TAILQ_FOREACH (ch, &bdev->channels, in_bdev) {
		channel_read_and_reset(ch, reset, &stats);
		stats_add(stats_ret, &stats);
	}
	channels_unlock();
	clear_unset_mins(stats_ret);
	record_reset(bdev, reset);
}

void bdev_stats_walk(struct bdev *bdev, enum stats_reset reset,
		     void (*fn)(void *ctx, uint64_t thread_id, const struct bdev_stats *stats), void *ctx)
{
	struct bdev_channel *ch;
	struct bdev_stats stats;

	must(reset <= STATS_RESET_NONE);
	channels_lock();
	TAILQ_FOREACH (ch, &bdev->channels, in_bdev) {
		channel_read_and_reset(ch, reset, &stats);
		clear_unset_mins(&stats);
		fn(ctx, thread_id(ch->thread), &stats);
	}
	channels_unlock();
	record_reset(bdev, reset);
}
