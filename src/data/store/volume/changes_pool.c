/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changes_pool - gives a pool other values of its properties: its size, overcommit, and when its volumes are scrubbed.
 *
 * A pool without overcommit has promised all of its volumes. So the end of overcommit is a promise to its thin volumes,
 * which the free space must cover.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "data/store/volume/internal.h"
#include "data/store/volume/ledger.h"
#include "data/store/volume/scrub.h"

/* What the volumes of the pool count against its size. Clones that are only read count nothing, as in ledger.h. */
static uint64_t used_bytes(const struct pool *pool, bool overcommit)
{
	const struct volume *volume;
	uint64_t used = 0;

	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (!volume->record.read_only && (volume->record.thick || !overcommit))
			used += volume->record.size_bytes;
	}
	return used;
}

static bool is_equal(const struct pool_record *one, const struct pool_record *other)
{
	return one->size_bytes == other->size_bytes && one->overcommit == other->overcommit &&
	       one->scrub_off == other->scrub_off && one->scrub_seconds == other->scrub_seconds;
}

/* Take what is not set from the pool. */
static void fill_others(struct change *change, const struct pool_record *record)
{
	struct pool_record *asked = &change->pool_record;
	uint32_t set = change->pool_properties;

	if (set == 0)
		return;
	if (!(set & POOL_PROPERTY_SIZE))
		asked->size_bytes = record->size_bytes;
	if (!(set & POOL_PROPERTY_OVERCOMMIT))
		asked->overcommit = record->overcommit;
	if (!(set & POOL_PROPERTY_SCRUB))
		asked->scrub_off = record->scrub_off;
	if (!(set & POOL_PROPERTY_SCRUB_SECONDS))
		asked->scrub_seconds = record->scrub_seconds;
}

/* A copy in progress goes on with or without a promise, as it began. */
static int check_overcommit(const struct pool *pool, struct fathom_fault *why)
{
	const struct volume *volume;

	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (volume->record.move == VOLUME_MOVE_INCOMING)
			return fault(why, -EBUSY,
				     "volume %s is being moved from another engine: overcommit of the pool can change when"
				     " the move has ended",
				     volume->device);
	}
	return 0;
}

static int check_set(struct change *change, struct fathom_fault *why)
{
	struct pool_record *asked = &change->pool_record;
	const struct pool *pool = change_find_pool(change, why);
	bool is_other_space;
	uint64_t used;

	if (!pool)
		return -ENOENT;
	if (pool->why.error)
		return fault(why, -EIO, "pool \"%s\" is ERRORED: %s", change->pool, pool->why.text);
	if (asked->size_bytes > INT64_MAX)
		return fault(why, -EINVAL, "a size of %" PRIu64 " bytes is too large", asked->size_bytes);
	fill_others(change, &pool->record);
	if (is_equal(asked, &pool->record))
		return -EALREADY;
	used = used_bytes(pool, asked->overcommit);
	is_other_space = asked->size_bytes != pool->record.size_bytes || asked->overcommit != pool->record.overcommit;
	if (is_other_space && !change->force && asked->size_bytes > 0 && used > asked->size_bytes)
		return fault(why, -ENOSPC,
			     "pool \"%s\" cannot be limited to %" PRIu64 " bytes: its volumes have %" PRIu64
			     " (thin ones count without overcommit)",
			     change->pool, asked->size_bytes, used);
	if (asked->overcommit != pool->record.overcommit && check_overcommit(pool, why))
		return -EBUSY;
	asked->created_ns = pool->record.created_ns;
	change_copy_name(asked->name, pool->record.name);
	memcpy(asked->uuid, pool->record.uuid, sizeof(asked->uuid));
	return 0;
}

static int work_set(struct change *change, struct fathom_fault *why)
{
	struct volumes *volumes = change->volumes;
	const struct pool *pool = model_find_pool(&volumes->pools, change->pool);
	int error = 0;

	must(pool);
	if (pool->record.overcommit != change->pool_record.overcommit)
		error = ledger_check_overcommit(volumes, pool, change->pool_record.overcommit, why);
	return error ? error : pool_update(volumes->tree, &change->pool_record, why);
}

static void apply_set(struct change *change)
{
	struct pool *pool = model_find_pool(&change->volumes->pools, change->pool);
	struct volume *volume;
	bool is_scrub_other;

	must(pool);
	is_scrub_other = pool->record.scrub_off != change->pool_record.scrub_off ||
			 pool->record.scrub_seconds != change->pool_record.scrub_seconds;
	pool->record = change->pool_record;
	TAILQ_FOREACH (volume, &pool->volumes, link) {
		model_set_limit(volume, false);
		if (is_scrub_other)
			scrub_set_due(volume);
	}
}

static const struct change_kind set_kind = {
	.change = VOLUME_CHANGE_POOL_SET,
	.check = check_set,
	.work = work_set,
	.apply = apply_set,
};

void volumes_set_pool(struct volumes *volumes, const struct volume_key *key, const struct pool_setting *setting,
		      volumes_done_fn done, void *ctx)
{
	const struct pool_record *values = &setting->values;
	struct change *change = change_of_pool(volumes, &set_kind, key, done, ctx);

	change->pool_record.size_bytes = values->size_bytes;
	change->pool_record.overcommit = values->overcommit;
	change->pool_record.scrub_off = values->scrub_off;
	change->pool_record.scrub_seconds = values->scrub_seconds;
	change->pool_properties = setting->properties;
	change->force = setting->force;
	change_submit(change);
}
