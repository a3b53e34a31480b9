/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats - what has gone through a bdev.
 *
 * Each channel counts for itself, without locks. Readers add the channels up under one lock, which is held besides only
 * when a channel comes or goes; a channel that goes leaves its sum in the bdev. Resetting is remembering: what the counters
 * were is subtracted, so the channel's thread need not be asked. Only the extremes are stored into; a sample that comes at
 * that very moment may be lost to them.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "store/bdev/internal.h"

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER;

static void accounts_lock(void)
{
	must(pthread_mutex_lock(&accounts) == 0);
}

static void accounts_unlock(void)
{
	must(pthread_mutex_unlock(&accounts) == 0);
}

/* ---- one channel ---- */

static uint64_t since(const uint64_t *counter, const uint64_t *base)
{
	return counter_read(counter) - *base;
}

struct latency {
	uint64_t ticks, max, min;
};

static struct latency channel_latency(const struct bdev_channel *ch, enum io_type type)
{
	const struct type_counters *now = &ch->counters.types[type];
	struct latency latency = {
		since(&now->latency_ticks, &ch->base.types[type].latency_ticks),
		counter_read(&now->latency_ticks_max),
		counter_read(&now->latency_ticks_min),
	};

	return latency;
}

static uint64_t channel_ops(const struct bdev_channel *ch, enum io_type type)
{
	return since(&ch->counters.types[type].ops, &ch->base.types[type].ops);
}

static uint64_t channel_bytes_done(const struct bdev_channel *ch, enum io_type type)
{
	return since(&ch->counters.types[type].bytes, &ch->base.types[type].bytes);
}

static struct latency latency_join(struct latency a, struct latency b)
{
	return (struct latency){ a.ticks + b.ticks, max_u64(a.max, b.max), min_u64(a.min, b.min) };
}

/* The extremes stay in the form of the counters, min UINT64_MAX for none, until stats_finish(). */
static void stats_of_channel(const struct bdev_channel *ch, struct bdev_stats *stats)
{
	struct latency read = channel_latency(ch, IO_TYPE_READ);
	struct latency write = latency_join(channel_latency(ch, IO_TYPE_WRITE), channel_latency(ch, IO_TYPE_WRITE_ZEROES));
	struct latency unmap = channel_latency(ch, IO_TYPE_UNMAP);

	*stats = (struct bdev_stats){
		.bytes_read = channel_bytes_done(ch, IO_TYPE_READ),
		.read_ops = channel_ops(ch, IO_TYPE_READ),
		.bytes_written = channel_bytes_done(ch, IO_TYPE_WRITE) + channel_bytes_done(ch, IO_TYPE_WRITE_ZEROES),
		.write_ops = channel_ops(ch, IO_TYPE_WRITE) + channel_ops(ch, IO_TYPE_WRITE_ZEROES),
		.bytes_unmapped = channel_bytes_done(ch, IO_TYPE_UNMAP),
		.unmap_ops = channel_ops(ch, IO_TYPE_UNMAP),
		.flush_ops = channel_ops(ch, IO_TYPE_FLUSH),
		.compare_ops = channel_ops(ch, IO_TYPE_COMPARE),
		.reset_ops = channel_ops(ch, IO_TYPE_RESET),
		.read_latency_ticks = read.ticks,
		.read_latency_ticks_max = read.max,
		.read_latency_ticks_min = read.min,
		.write_latency_ticks = write.ticks,
		.write_latency_ticks_max = write.max,
		.write_latency_ticks_min = write.min,
		.unmap_latency_ticks = unmap.ticks,
		.unmap_latency_ticks_max = unmap.max,
		.unmap_latency_ticks_min = unmap.min,
		.queue_depth = counter_read(&ch->queue_depth),
		.queued = counter_read(&ch->queued),
	};
	for (int i = 0; i < BDEV_STATUSES_MAX; i++)
		stats->errors[i] = since(&ch->counters.errors[i], &ch->base.errors[i]);
}

static void stats_clear(struct bdev_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->read_latency_ticks_min = stats->write_latency_ticks_min = stats->unmap_latency_ticks_min = UINT64_MAX;
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

static void stats_finish(struct bdev_stats *stats)
{
	uint64_t *mins[] = { &stats->read_latency_ticks_min, &stats->write_latency_ticks_min,
			     &stats->unmap_latency_ticks_min };

	for (size_t i = 0; i < ARRAY_COUNT(mins); i++)
		*mins[i] = *mins[i] == UINT64_MAX ? 0 : *mins[i];
}

/* ---- channels come and go ---- */

void stats_bdev_init(struct bdev *bdev)
{
	TAILQ_INIT(&bdev->channels);
	stats_clear(&bdev->stats_closed);
}

void stats_channel_add(struct bdev_channel *ch)
{
	for (int i = 0; i < IO_TYPES_MAX; i++)
		ch->counters.types[i].latency_ticks_min = UINT64_MAX;
	accounts_lock();
	TAILQ_INSERT_TAIL(&ch->bdev->channels, ch, in_bdev);
	accounts_unlock();
}

void stats_channel_remove(struct bdev_channel *ch)
{
	struct bdev_stats stats;

	accounts_lock();
	stats_of_channel(ch, &stats);
	must(stats.queue_depth == 0);
	must(stats.queued == 0);
	stats_add(&ch->bdev->stats_closed, &stats);
	TAILQ_REMOVE(&ch->bdev->channels, ch, in_bdev);
	accounts_unlock();
}

/* ---- the door ---- */

void bdev_stats_get(const struct bdev *bdev, struct bdev_stats *stats_ret)
{
	const struct bdev_channel *ch;
	struct bdev_stats stats;

	accounts_lock();
	*stats_ret = bdev->stats_closed;
	TAILQ_FOREACH (ch, &bdev->channels, in_bdev) {
		stats_of_channel(ch, &stats);
		stats_add(stats_ret, &stats);
	}
	accounts_unlock();
	stats_finish(stats_ret);
}

void bdev_stats_walk(const struct bdev *bdev, void (*fn)(void *ctx, uint64_t thread_id, const struct bdev_stats *stats),
		     void *ctx)
{
	const struct bdev_channel *ch;
	struct bdev_stats stats;

	accounts_lock();
	TAILQ_FOREACH (ch, &bdev->channels, in_bdev) {
		stats_of_channel(ch, &stats);
		stats_finish(&stats);
		fn(ctx, thread_id(ch->thread), &stats);
	}
	accounts_unlock();
}

static void channel_reset(struct bdev_channel *ch)
{
	for (int i = 0; i < IO_TYPES_MAX; i++) {
		struct type_counters *now = &ch->counters.types[i], *base = &ch->base.types[i];

		base->ops = counter_read(&now->ops);
		base->bytes = counter_read(&now->bytes);
		base->latency_ticks = counter_read(&now->latency_ticks);
		counter_set(&now->latency_ticks_max, 0);
		counter_set(&now->latency_ticks_min, UINT64_MAX);
	}
	for (int i = 0; i < BDEV_STATUSES_MAX; i++)
		ch->base.errors[i] = counter_read(&ch->counters.errors[i]);
}

void bdev_stats_reset(struct bdev *bdev)
{
	struct bdev_channel *ch;

	accounts_lock();
	stats_clear(&bdev->stats_closed);
	TAILQ_FOREACH (ch, &bdev->channels, in_bdev)
		channel_reset(ch);
	accounts_unlock();
}
