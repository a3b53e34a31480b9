/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The health of block devices, as log lines: errors, slowness, full queues.
 *
 * Once a second a check compares the statistics with those of the second before. The I/O path has no code for it.
 *
 *   errors     the first of a kind at the next check, then at most one line a minute with the count since the last line
 *   slow       I/O is in flight and none has completed for SLOW_SEC, or the I/O that ended since the last check took
 *              SLOW_MEAN_MS on average. Recovered: a check with progress that finds neither.
 *   full       I/O waited because the device used its whole share of the file I/O resources (base/reactor/share.h)
 *
 * Counts without a line are logged when the device is removed, and when the engine stops.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/text.h"
#include "data/engine/control.h"
#include "data/engine/internal.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/bdev/bdev.h"

enum {
	CHECK_SEC = 1,
	SLOW_SEC = 5,
	SLOW_MEAN_MS = 1000,
	LINE_SEC = 60,	   /* interval between lines of a kind */
	MISMATCH_SEC = 10, /* the same, about checksums */
	BLOCKS_SHOWN = 8,
};
static_assert((int)SLOW_SEC > (int)CHECK_SEC, "several checks");

struct counted {
	uint64_t before;   /* the statistics' value at the last check */
	uint64_t unlogged; /* since the last line */
	uint64_t total;	   /* since the first check of the device */
	struct log_limit limit;
};

struct health {
	uint8_t uuid[16];
	char name[BDEV_NAME_BYTES_MAX];
	struct counted errors[BDEV_STATUSES_MAX];
	struct counted waits;
	struct log_limit mismatches, changed;
	uint64_t ops, latency_ticks;
	uint64_t progress_ns; /* the last check that found progress, or nothing in flight */
	uint64_t slow_since_ns;
	bool is_slow, is_seen;
	TAILQ_ENTRY(health) link;
	LIST_ENTRY(health) by_uuid;
};

/* Also by the last two bytes of the UUID: an engine may have 10,000 devices. */
static TAILQ_HEAD(, health) healths = TAILQ_HEAD_INITIALIZER(healths);
static LIST_HEAD(, health) healths_by_uuid[UUID_BUCKETS];
static struct poller *poller;
static uint32_t slow_count; /* of the devices: is_slow */

/* NULL: not a device error. */
static const char *describe_status(enum io_status status)
{
	switch (status) {
	case IO_SUCCESS:
	case IO_MISCOMPARE: /* a valid result of a compare */
		return NULL;
	case IO_FAILED:
		return "the device reports an error";
	case IO_INVALID:
		return "out of the device's range, or not valid";
	case IO_UNSUPPORTED:
		return "the device cannot do it";
	case IO_NO_SPACE:
		return "no space is left (hosts see Capacity Exceeded)";
	case IO_READ_ONLY:
		return "the device is read-only";
	case IO_MEDIA_ERROR:
		return "the medium has errors";
	case IO_NOT_PERMITTED:
		return "not permitted";
	case IO_GONE:
		return "the device is gone";
	case IO_ABORTED:
		return "aborted";
	case IO_TIMED_OUT:
		return "timed out";
	}
	return NULL;
}

static struct health *health_find(const struct bdev *bdev)
{
	struct health *health;

	LIST_FOREACH (health, &healths_by_uuid[uuid_bucket(bdev->uuid)], by_uuid) {
		if (uuid_compare(health->uuid, bdev->uuid) == 0 && strcmp(health->name, bdev->name) == 0)
			return health;
	}
	return NULL;
}

static struct health *health_create(const struct bdev *bdev, uint64_t now_ns)
{
	struct health *health = calloc(1, sizeof(*health));

	if (!health)
		return NULL; /* the next check tries again */
	uuid_copy(health->uuid, bdev->uuid);
	must(text_copy(health->name, sizeof(health->name), bdev->name) >= 0);
	for (size_t i = 0; i < BDEV_STATUSES_MAX; i++)
		health->errors[i].limit = (struct log_limit)LOG_LIMIT(1, LINE_SEC * NS_PER_SEC);
	health->mismatches = (struct log_limit)LOG_LIMIT(1, MISMATCH_SEC * NS_PER_SEC);
	health->changed = health->mismatches;
	health->waits.limit = (struct log_limit)LOG_LIMIT(1, LINE_SEC * NS_PER_SEC);
	health->progress_ns = now_ns;
	TAILQ_INSERT_TAIL(&healths, health, link);
	LIST_INSERT_HEAD(&healths_by_uuid[uuid_bucket(health->uuid)], health, by_uuid);
	return health;
}

/* Add the increase up to `now`, the current statistics. A value below the last one means that they were reset. */
static void count_increase(struct counted *counted, uint64_t now)
{
	uint64_t more = now >= counted->before ? now - counted->before : now;

	counted->before = now;
	counted->unlogged += more;
	counted->total += more;
}

/* Whether a line is due; `*unsaid_ret`: the count since the last line. `is_last`: ignore the interval. */
static bool line_due(struct counted *counted, uint64_t now_ns, bool is_last, uint64_t *unsaid_ret)
{
	uint64_t suppressed;

	if (counted->unlogged == 0)
		return false;
	if (!log_limit_admit(&counted->limit, now_ns, &suppressed) && !is_last)
		return false;
	*unsaid_ret = counted->unlogged;
	counted->unlogged = 0;
	return true;
}

static void log_errors(struct health *health, uint64_t now_ns, bool is_last)
{
	uint64_t unlogged;

	for (enum io_status status = 0; status <= IO_TIMED_OUT; status++) {
		struct counted *errors = &health->errors[status];
		const char *what = describe_status(status);

		if (!what || !line_due(errors, now_ns, is_last, &unlogged))
			continue;
		if (errors->total == unlogged)
			log_warning("device %s: %" PRIu64 " I/O%s failed: %s", health->name, unlogged,
				    unlogged == 1 ? "" : "s", what);
		else
			log_warning("device %s: %" PRIu64 " more I/O%s failed, %" PRIu64 " in all: %s", health->name,
				    unlogged, unlogged == 1 ? "" : "s", errors->total, what);
	}
	if (line_due(&health->waits, now_ns, is_last, &unlogged))
		log_warning("device %s: its queue is full: %" PRIu64 " I/O%s waited for earlier ones, %" PRIu64 " in all",
			    health->name, unlogged, unlogged == 1 ? "" : "s", health->waits.total);
}

/* ---- slow ---- */

static uint64_t ops_in(const struct bdev_stats *stats)
{
	return stats->read_ops + stats->write_ops + stats->unmap_ops + stats->flush_ops + stats->compare_ops +
	       stats->reset_ops;
}

/* The mean latency of the ops since the last check, 0 without any. Stores the totals for the next check. */
static uint64_t update_mean_ns(struct health *health, const struct bdev_stats *stats)
{
	uint64_t ops = ops_in(stats);
	uint64_t ticks = stats->read_latency_ticks + stats->write_latency_ticks + stats->unmap_latency_ticks;
	uint64_t mean = 0;

	if (ops > health->ops && ticks > health->latency_ticks) /* else nothing ended, or the statistics were reset */
		mean = clock_ns_from_ticks((ticks - health->latency_ticks) / (ops - health->ops));
	health->ops = ops;
	health->latency_ticks = ticks;
	return mean;
}

static void mark_slow(struct health *health, struct bdev *bdev, uint64_t since_ns, uint64_t now_ns)
{
	health->is_slow = true;
	slow_count++;
	health->slow_since_ns = since_ns;
	bdev_note_condition(bdev, BDEV_CONDITION_SLOW, (now_ns - since_ns) / NS_PER_SEC);
}

static void mark_recovered(struct health *health, struct bdev *bdev, uint64_t now_ns)
{
	uint64_t sec = (now_ns - health->slow_since_ns) / NS_PER_SEC;

	health->is_slow = false;
	must(slow_count > 0);
	slow_count--;
	bdev_note_condition(bdev, BDEV_CONDITION_RECOVERED, sec);
	log_notice("device %s has recovered: it was slow for %" PRIu64 " s", health->name, sec);
}

static void check_slow(struct health *health, struct bdev *bdev, const struct bdev_stats *stats, uint64_t now_ns)
{
	bool ended = ops_in(stats) != health->ops;
	uint64_t mean_ns = update_mean_ns(health, stats);
	uint64_t stalled_sec, mean_ms = mean_ns / NS_PER_MS;
	bool is_stalled, is_slow;

	if (ended || stats->queue_depth == 0)
		health->progress_ns = now_ns;
	stalled_sec = (now_ns - health->progress_ns) / NS_PER_SEC;
	is_stalled = stalled_sec >= SLOW_SEC;
	is_slow = is_stalled || mean_ms >= SLOW_MEAN_MS;
	if (is_slow && !health->is_slow && is_stalled) {
		mark_slow(health, bdev, health->progress_ns, now_ns);
		log_warning("device %s is slow: %" PRIu64 " I/O%s under way, and none has completed for %" PRIu64
			    " s; `fathom trace stuck` shows them",
			    health->name, stats->queue_depth, stats->queue_depth == 1 ? " is" : "s are", stalled_sec);
	} else if (is_slow && !health->is_slow) {
		mark_slow(health, bdev, now_ns, now_ns);
		log_warning("device %s is slow: its I/O took %" PRIu64 " ms on average in the last second", health->name,
			    mean_ms);
	} else if (health->is_slow && !is_slow && health->progress_ns == now_ns) {
		mark_recovered(health, bdev, now_ns);
	}
}

static void add_slow_device(struct device_alarm *alarm, const struct health *health, uint64_t since_ns)
{
	if (alarm->count++ == 0 || since_ns < alarm->since_ns) {
		alarm->since_ns = since_ns;
		(void)text_copy(alarm->name, sizeof(alarm->name), health->name); /* same size */
	}
}

void device_health_get(struct device_alarm *stalled_ret, struct device_alarm *slow_ret)
{
	uint64_t now_ns = clock_monotonic_ns();
	const struct health *health;

	*stalled_ret = *slow_ret = (struct device_alarm){ .count = 0 };
	if (slow_count == 0)
		return;
	TAILQ_FOREACH (health, &healths, link) {
		if (health->is_slow && now_ns - health->progress_ns >= SLOW_SEC * NS_PER_SEC)
			add_slow_device(stalled_ret, health, health->progress_ns);
		else if (health->is_slow)
			add_slow_device(slow_ret, health, health->slow_since_ns);
	}
}

/* ---- checksums ---- */

/* The blocks, with commas. */
static void list_blocks(char *text, size_t bytes, const uint64_t *blocks, uint32_t count)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < count && i < BLOCKS_SHOWN; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s%" PRIu64, i ? ", " : "", blocks[i]);
	if (count > BLOCKS_SHOWN)
		snprintf(text + used, bytes - used, " and more");
}

/* Blocks that do not fit their checksums: one line and one event for all since the last one. */
static void check_sums(struct health *health, struct bdev *bdev, uint64_t now_ns, bool is_last)
{
	uint64_t blocks[FILE_MISMATCHES_MAX], suppressed;
	char text[BLOCKS_SHOWN * 22 + 16], uuid[UUID_STR_LEN];
	struct file_sums_info info;
	uint32_t count;

	file_get_sums(bdev, &info);
	if (info.pending == 0 || (!log_limit_admit(&health->mismatches, now_ns, &suppressed) && !is_last))
		return;
	count = file_take_mismatches(bdev, blocks);
	list_blocks(text, sizeof(text), blocks, count);
	uuid_unparse_lower(bdev->uuid, uuid);
	log_error("volume %s: %u block%s not fit %s: LBA %s", health->name, count, count == 1 ? " does" : "s do",
		  count == 1 ? "its checksum" : "their checksums", text);
	engine_raise_event(RAS_VOLUME_MISMATCH, uuid, "volume %s: %u block%s not fit %s: LBA %s", health->name, count,
			   count == 1 ? " does" : "s do", count == 1 ? "its checksum" : "their checksums", text);
}

/* Blocks that were not read as they were written: the disk below lost or changed them. Likewise. */
static void check_written(struct health *health, struct bdev *bdev, uint64_t now_ns, bool is_last)
{
	uint64_t blocks[FILE_MISMATCHES_MAX], suppressed;
	char text[BLOCKS_SHOWN * 22 + 16], uuid[UUID_STR_LEN];
	struct file_written_info info;
	uint32_t count;

	file_get_written(bdev, &info);
	if (info.pending == 0 || (!log_limit_admit(&health->changed, now_ns, &suppressed) && !is_last))
		return;
	count = file_take_changed(bdev, blocks);
	list_blocks(text, sizeof(text), blocks, count);
	uuid_unparse_lower(bdev->uuid, uuid);
	log_error("device %s: %u block%s not read as written: LBA %s; do not trust the disk below it", health->name, count,
		  count == 1 ? " was" : "s were", text);
	engine_raise_event(RAS_VOLUME_MISMATCH, uuid, "device %s: %u block%s not read as written: LBA %s", health->name,
			   count, count == 1 ? " was" : "s were", text);
}

/* ---- the periodic check ---- */

static void check_device(struct health *health, struct bdev *bdev, uint64_t now_ns, bool is_last)
{
	struct bdev_stats stats;
	uint64_t waits = health->waits.total;

	bdev_stats_get(bdev, STATS_RESET_NONE, &stats);
	for (size_t i = 0; i < BDEV_STATUSES_MAX; i++)
		count_increase(&health->errors[i], stats.errors[i]);
	count_increase(&health->waits, __atomic_load_n(&bdev->share_waits, __ATOMIC_RELAXED));
	if (waits == 0 && health->waits.total > 0)
		bdev_note_condition(bdev, BDEV_CONDITION_FULL, health->waits.total);
	log_errors(health, now_ns, is_last);
	check_slow(health, bdev, &stats, now_ns);
	if (file_has_sums(bdev))
		check_sums(health, bdev, now_ns, is_last);
	if (file_keeps_written(bdev))
		check_written(health, bdev, now_ns, is_last);
}

static void remove_health(struct health *health, uint64_t now_ns)
{
	log_errors(health, now_ns, true);
	must(slow_count >= health->is_slow);
	slow_count -= health->is_slow;
	TAILQ_REMOVE(&healths, health, link);
	LIST_REMOVE(health, by_uuid);
	free(health);
}

static void check_devices(bool is_last)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct health *health, *next;
	struct bdev *bdev;

	TAILQ_FOREACH (health, &healths, link)
		health->is_seen = false;
	for (bdev = bdev_first(); bdev; bdev = bdev_next(bdev)) {
		health = health_find(bdev);
		if (!health)
			health = health_create(bdev, now_ns);
		if (!health)
			continue;
		health->is_seen = true;
		check_device(health, bdev, now_ns, is_last);
	}
	TAILQ_FOREACH_SAFE (health, &healths, link, next) {
		if (!health->is_seen)
			remove_health(health, now_ns);
	}
}

static int poll_devices(void *ctx)
{
	check_devices(false);
	return 0;
}

void device_health_start(void)
{
	must(!poller);
	poller = poller_register("device_health", poll_devices, NULL, CHECK_SEC * NS_PER_SEC);
	if (!poller)
		log_warning("out of memory: the log has no lines about the health of block devices");
}

void device_health_stop(void)
{
	struct health *health;

	if (poller)
		check_devices(true);
	poller_unregister(&poller);
	while ((health = TAILQ_FIRST(&healths)))
		remove_health(health, clock_monotonic_ns());
}
