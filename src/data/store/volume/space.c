/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space - reads from the storage how much its volumes occupy and what can still be promised. It runs as a change, because
 * the ledger reads the copy in memory, which is constant only then; it changes nothing on disk.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/ledger.h"
#include "data/store/volume/probes.gen.h"

/* What a reading found; in the order of the pools and their volumes. */
struct space_reading {
	struct ledger ledger;
	size_t count;
	uint64_t allocated_bytes[];
};

static int check_space(struct change *change, struct fathom_fault *why)
{
	return 0;
}

static int work_space(struct change *change, struct fathom_fault *why)
{
	struct volumes *volumes = change->volumes;
	size_t count = volumes->volume_count;
	struct space_reading *reading = calloc(1, sizeof(*reading) + count * sizeof(reading->allocated_bytes[0]));
	const struct volume *volume;
	const struct pool *pool;
	int error;

	if (!reading)
		return fault(why, -ENOMEM, "out of memory");
	error = ledger_read(volumes, &reading->ledger, why);
	TAILQ_FOREACH (pool, &volumes->pools, link) {
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			uint64_t *bytes = &reading->allocated_bytes[reading->count++];

			must(reading->count <= count);
			if (error || !volume_is_served(volume) ||
			    volume_allocated(volumes->tree, pool->record.name, &volume->record, bytes, NULL))
				*bytes = volume->allocated_bytes; /* the last that is known */
		}
	}
	if (error)
		free(reading);
	else
		change->space = reading;
	return error;
}

/* ---- how full it is ---- */

static void note_usage(struct volumes *volumes, const struct pool *pool, struct usage *usage, uint64_t used_bytes,
		       uint64_t limit_bytes)
{
	enum space_level before = usage->state;

	if (!usage_note(usage, clock_monotonic_ns(), used_bytes, limit_bytes))
		return;
	probe_space_level_changed(clock_ticks(), usage, trace_intern(pool ? pool->record.name : ""), usage_percent(usage),
				  limit_bytes, usage->full_in_ns == USAGE_NO_FORECAST ? 0 : usage->full_in_ns);
	if (volumes->level_changed)
		volumes->level_changed(volumes->level_ctx, pool, usage, before);
}

/*
 * What the volumes were promised; of thin ones of a pool with overcommit what they have allocated. A clone that is only
 * read has the blocks of its snapshot.
 */
static uint64_t pool_used(const struct pool *pool)
{
	const struct volume *volume;
	uint64_t used = 0;

	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (!volume->record.read_only)
			used += ledger_is_promised(pool, &volume->record) ? volume->record.size_bytes
									  : volume->allocated_bytes;
	}
	return used;
}

static void note_pool(struct volumes *volumes, struct pool *pool)
{
	uint64_t used = pool_used(pool), limit = used + volumes->free_bytes;

	if (pool->record.size_bytes > 0)
		limit = min_u64(limit, pool->record.size_bytes);
	note_usage(volumes, pool, &pool->usage, used, limit);
}

void volumes_on_level(struct volumes *volumes, volumes_level_fn changed, void *ctx)
{
	must_be_on(thread_control());
	volumes->level_changed = changed;
	volumes->level_ctx = ctx;
}

const struct usage *volumes_usage(const struct volumes *volumes)
{
	return &volumes->usage;
}

/* ---- the reading ---- */

static void apply_space(struct change *change)
{
	struct volumes *volumes = change->volumes;
	struct space_reading *reading = change->space;
	const struct ledger *ledger = &reading->ledger;
	struct volume *volume;
	struct pool *pool;
	size_t index = 0;

	volumes->total_bytes = ledger->total_bytes;
	volumes->free_bytes = ledger_headroom(ledger);
	note_usage(volumes, NULL, &volumes->usage, ledger->total_bytes - min_u64(ledger->free_bytes, ledger->total_bytes),
		   ledger->total_bytes);
	TAILQ_FOREACH (pool, &volumes->pools, link) {
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			must(index < reading->count);
			volume->allocated_bytes = reading->allocated_bytes[index++];
		}
		note_pool(volumes, pool);
	}
	must(index == reading->count);
	change->space = NULL;
	free(reading);
}

static const struct change_kind space_kind = {
	.change = VOLUME_CHANGE_READ_SPACE,
	.check = check_space,
	.work = work_space,
	.apply = apply_space,
};

bool volumes_has_unpromised(const struct volumes *volumes)
{
	const struct pool *pool;

	must_be_on(thread_control());
	TAILQ_FOREACH (pool, &volumes->pools, link) {
		if (pool->record.overcommit && pool->volume_count > 0)
			return true;
	}
	return false;
}

void volumes_read_space(struct volumes *volumes, volumes_done_fn done, void *ctx)
{
	change_submit(change_create(volumes, &space_kind, done, ctx));
}
