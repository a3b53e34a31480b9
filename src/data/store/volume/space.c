/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space - reads from the storage how much its volumes occupy and what can still be promised. It runs as a change, because
 * the ledger reads the copy in memory, which is constant only then; it changes nothing on disk.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/ledger.h"

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
	TAILQ_FOREACH (pool, &volumes->pools, link) {
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			must(index < reading->count);
			volume->allocated_bytes = reading->allocated_bytes[index++];
		}
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
