/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/volume/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/bits.h"
#include "data/store/backend/limit.h"
#include "data/store/volume/copy.h"

enum { KEPT_PARTS = 100 }; /* one of so many parts of the storage is kept */

bool ledger_is_promised(const struct pool *pool, const struct volume_record *volume)
{
	return !volume->read_only && (volume->thick || !pool->record.overcommit);
}

bool ledger_may_share(const struct volume *volume)
{
	return volume->snapshot_count > 0 || volume->may_share || copies_clone(volume);
}

uint64_t ledger_bytes(const struct volume_record *record, bool may_share, uint64_t allocated_bytes)
{
	uint64_t size = record->size_bytes, holes = size - min_u64(allocated_bytes, size);

	if (!may_share)
		return holes;
	return size + (record->thick && record->allocating ? holes : 0);
}

int ledger_promise_bytes(struct volumes *volumes, const struct volume *volume, uint64_t *bytes_ret,
			 struct fathom_fault *why)
{
	const struct volume_record *record = &volume->record;
	bool may_share = ledger_may_share(volume);
	uint64_t allocated = 0;
	int error = 0;

	if (!may_share || record->allocating)
		error = volume_allocated(volumes->tree, volume->pool->record.name, record, &allocated, why);
	if (!error)
		*bytes_ret = ledger_bytes(record, may_share, allocated);
	return error;
}

static int add_volume(struct volumes *volumes, const struct volume *volume, struct ledger *ledger, struct fathom_fault *why)
{
	uint64_t bytes = 0;
	int error;

	if (!volume_is_served(volume) || !ledger_is_promised(volume->pool, &volume->record))
		return 0;
	error = ledger_promise_bytes(volumes, volume, &bytes, why);
	ledger->promised_bytes += error ? 0 : bytes;
	return error;
}

int ledger_snapshot_bytes(struct volumes *volumes, const struct volume *volume, uint64_t *bytes_ret,
			  struct fathom_fault *why)
{
	const struct volume_record *record = &volume->record;
	uint64_t allocated, bytes = 0;
	int error = 0;

	if (ledger_is_promised(volume->pool, record) && !ledger_may_share(volume)) {
		error = volume_allocated(volumes->tree, volume->pool->record.name, record, &allocated, why);
		bytes = error ? 0 : ledger_bytes(record, true, allocated) - ledger_bytes(record, false, allocated);
	}
	if (!error)
		*bytes_ret = bytes;
	return error;
}

uint64_t ledger_headroom(const struct ledger *ledger)
{
	uint64_t used = ledger->kept_bytes + ledger->promised_bytes;

	return ledger->free_bytes - min_u64(used, ledger->free_bytes);
}

void ledger_set_limit(struct volumes *volumes, const struct ledger *ledger, uint64_t bytes)
{
	uint64_t headroom = ledger_headroom(ledger);

	headroom -= min_u64(bytes, headroom);
	space_limit_set(volumes->limit, ledger->mark, headroom < LEDGER_PLENTY_BYTES ? headroom : SPACE_LIMIT_NONE);
}

void ledger_from_open(const struct volumes *volumes, uint64_t total_bytes, uint64_t free_bytes, struct ledger *ledger_ret)
{
	struct ledger ledger = { .total_bytes = total_bytes, .free_bytes = free_bytes };
	const struct volume *volume;
	const struct pool *pool;

	ledger.kept_bytes = total_bytes / KEPT_PARTS;
	TAILQ_FOREACH (pool, &volumes->pools, link) {
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			if (ledger_is_promised(pool, &volume->record))
				ledger.promised_bytes += ledger_bytes(&volume->record, ledger_may_share(volume),
								      volume->allocated_bytes);
		}
	}
	*ledger_ret = ledger;
}

/* The promises before the free space: what volumes allocate meanwhile makes the headroom too small, not too large. */
int ledger_read(struct volumes *volumes, struct ledger *ledger_ret, struct fathom_fault *why)
{
	struct ledger ledger = { .mark = space_limit_mark(volumes->limit) };
	const struct volume *volume;
	const struct pool *pool;
	const struct copy *copy;
	int error = 0;

	TAILQ_FOREACH (copy, &volumes->copies, link)
		ledger.promised_bytes += copy->promised_bytes;
	TAILQ_FOREACH (pool, &volumes->pools, link) {
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			if (!error)
				error = add_volume(volumes, volume, &ledger, why);
		}
	}
	if (!error)
		error = pool_tree_space(volumes->tree, &ledger.total_bytes, &ledger.free_bytes, why);
	if (error)
		return error;
	ledger.kept_bytes = ledger.total_bytes / KEPT_PARTS;
	ledger_set_limit(volumes, &ledger, 0);
	*ledger_ret = ledger;
	return 0;
}

/* Whether `bytes` more can be promised. If so, the limit of the other volumes is lower from now on. */
static bool ledger_covers(struct volumes *volumes, const struct ledger *ledger, uint64_t bytes)
{
	uint64_t used = ledger->kept_bytes + ledger->promised_bytes;

	if (used > ledger->free_bytes || bytes > ledger->free_bytes - used)
		return false;
	ledger_set_limit(volumes, ledger, bytes);
	return true;
}

int ledger_check(struct volumes *volumes, const struct pool *pool, const struct volume_record *volume, uint64_t bytes,
		 struct fathom_fault *why)
{
	struct ledger ledger;
	int error;

	if (!ledger_is_promised(pool, volume))
		return 0;
	error = ledger_read(volumes, &ledger, why);
	if (error)
		return error;
	if (ledger_covers(volumes, &ledger, bytes))
		return 0;
	return fault(why, -ENOSPC,
		     "volume %s/%s needs %" PRIu64 " bytes, %" PRIu64 " more than there are: of the storage's %" PRIu64
		     " free bytes %" PRIu64 " are promised to other volumes and %" PRIu64 " kept for the file system%s",
		     pool->record.name, volume->name, bytes, bytes - min_u64(ledger_headroom(&ledger), bytes),
		     ledger.free_bytes, ledger.promised_bytes, ledger.kept_bytes,
		     volume->thick ? "" : "; a pool with overcommit may promise more");
}

int ledger_check_bytes(struct volumes *volumes, const char *what, uint64_t bytes, struct fathom_fault *why)
{
	struct ledger ledger;
	int error;

	error = ledger_read(volumes, &ledger, why);
	if (error)
		return error;
	if (ledger_covers(volumes, &ledger, bytes))
		return 0;
	return fault(why, -ENOSPC,
		     "%s needs %" PRIu64 " bytes beyond former promises, but of the storage's %" PRIu64 " free bytes "
		     "%" PRIu64 " are promised to volumes and %" PRIu64 " kept for the file system",
		     what, bytes, ledger.free_bytes, ledger.promised_bytes, ledger.kept_bytes);
}

int ledger_check_overcommit(struct volumes *volumes, const struct pool *pool, bool overcommit, struct fathom_fault *why)
{
	char what[POOL_NAME_BYTES_MAX + 32];
	const struct volume *volume;
	uint64_t bytes, sum = 0;
	struct ledger ledger;
	int error = 0;

	if (overcommit)
		return ledger_read(volumes, &ledger, why);
	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (volume->record.thick || volume->record.read_only || !volume_is_served(volume))
			continue;
		error = ledger_promise_bytes(volumes, volume, &bytes, why);
		if (error)
			return error;
		sum += bytes;
	}
	snprintf(what, sizeof(what), "pool \"%s\" without overcommit", pool->record.name);
	return ledger_check_bytes(volumes, what, sum, why);
}
