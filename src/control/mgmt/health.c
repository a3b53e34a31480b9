/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * health - what is wrong with the storage of ranks that serve: volumes that are ERRORED, read-only or missing.
 *
 * Kept only in memory, as unranked engines: a server reports it with each heartbeat, and at once when it changes. A rank
 * whose storage has failed as a whole is Errored, which is a state of the member.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/mgmt/storage/storage.h"

static struct mgmt_health *find_rank(const struct mgmt *mgmt, uint32_t rank)
{
	for (size_t i = 0; i < mgmt->health_count; i++) {
		if (mgmt->health[i].rank == rank)
			return &mgmt->health[i];
	}
	return NULL;
}

static void forget(struct mgmt *mgmt, uint32_t rank)
{
	struct mgmt_health *found = find_rank(mgmt, rank);

	if (found)
		*found = mgmt->health[--mgmt->health_count];
}

static void remember(struct mgmt *mgmt, const struct member *member, const Shared__StorageHealth *storage)
{
	struct mgmt_health *all = realloc(mgmt->health, (mgmt->health_count + 1) * sizeof(*all));
	struct mgmt_health *health;

	if (!all)
		return; /* the next report tries again */
	mgmt->health = all;
	health = &all[mgmt->health_count++];
	*health = (struct mgmt_health){
		.rank = member->rank,
		.incarnation = member->incarnation,
		.is_failed = storage->failed,
		.errored_volumes = storage->errored_volumes,
		.read_only_volumes = storage->read_only_volumes,
		.errored_pools = storage->errored_pools,
		.since_ns = storage->since_ns,
	};
	health->reason[text_utf8_copy(health->reason, sizeof(health->reason) - 1, storage->reason,
				      strlen(storage->reason))] = '\0';
}

void mgmt_note_health(struct mgmt *mgmt, const struct member *member, const Fathom__ReportEnginesReq__Engine *engine)
{
	forget(mgmt, member->rank);
	if (engine->storage && engine->incarnation == member->incarnation)
		remember(mgmt, member, engine->storage);
	storage_check_missing(mgmt, member);
}

bool mgmt_find_health(const struct mgmt *mgmt, const struct member *member, struct mgmt_health *health_ret)
{
	const struct mgmt_health *found = find_rank(mgmt, member->rank);
	const struct storage_missing *missing = storage_find_missing(mgmt, member);
	struct mgmt_health health = { .rank = member->rank, .incarnation = member->incarnation };

	if (found && found->incarnation == member->incarnation)
		health = *found;
	else
		found = NULL;
	if (missing) {
		health.errored_volumes += missing->volumes;
		health.errored_pools += missing->pools;
		if (!health.reason[0])
			memcpy(health.reason, missing->reason, sizeof(health.reason));
		if (!health.since_ns)
			health.since_ns = missing->since_ns;
	}
	*health_ret = health;
	return found || missing;
}

void mgmt_health_close(struct mgmt *mgmt)
{
	free(mgmt->health);
	mgmt->health = NULL;
	mgmt->health_count = 0;
}
