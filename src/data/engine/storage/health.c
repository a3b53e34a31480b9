/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is wrong with the engine's storage, for its server: a part of each answer to a ping. So a restart without its
 * volumes is shown, and so is what fails while the engine serves.
 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "data/engine/control.h"
#include "data/engine/internal.h"
#include "data/engine/volume_export.h"
#include "data/store/volume/volumes.h"

static void note(struct engine_health *health, uint64_t since_ns, const char *what, const char *reason)
{
	if (health->message.since_ns && health->message.since_ns <= since_ns)
		return;
	health->message.since_ns = since_ns;
	snprintf(health->reason, sizeof(health->reason), "%.120s: %.120s", what, reason);
}

static void examine_volume(struct engine_health *health, const struct volume *volume)
{
	const char *failure = volume->state == VOLUME_ERRORED ? volume->why.text : export_failure(volume);

	if (failure) {
		health->message.errored_volumes++;
		note(health, volume->since_ns, volume->device, failure);
	} else if (volume->state == VOLUME_READ_ONLY) {
		health->message.read_only_volumes++;
		note(health, volume->since_ns, volume->device, volume->why.text);
	}
}

Shared__StorageHealth *engine_storage_health(struct engine_health *health)
{
	struct volumes *volumes = engine_storage();
	const struct pool *pool = volumes ? volumes_first_pool(volumes) : NULL;
	const struct volume *volume;
	struct volumes_info info;

	*health = (struct engine_health){ .message = SHARED__STORAGE_HEALTH__INIT };
	for (; pool; pool = TAILQ_NEXT(pool, link)) {
		if (pool->why.error) {
			health->message.errored_pools++;
			note(health, health->message.since_ns, pool->record.name, pool->why.text);
		}
		TAILQ_FOREACH (volume, &pool->volumes, link)
			examine_volume(health, volume);
	}
	if (volumes) {
		volumes_get_info(volumes, &info);
		health->message.failed = info.state == STORAGE_FAILED;
	}
	if (health->message.failed) {
		health->message.since_ns = info.since_ns;
		snprintf(health->reason, sizeof(health->reason), STORAGE_FAILED_REASON);
	}
	health->message.reason = health->reason;
	return health->reason[0] ? &health->message : NULL;
}
