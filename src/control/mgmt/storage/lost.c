/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is lost with a rank whose storage was formatted again: the share of each pool and its volumes.
 *
 * A place of the catalog names the member that has the data. If the rank has another member, or none, the data are lost for
 * good. Nothing stores that, so no order of a crash and a replacement hides it. The records stay until an operator destroys
 * each lost volume by name, with --force. Then `pool extend` gives the rank's new member a share in place of the lost one.
 */
#include <inttypes.h>
#include <stdio.h>

#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

bool storage_share_is_lost(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t index)
{
	return !catalog_share_changes(pool, index) && !storage_member(mgmt, &pool->record.places[index]);
}

/* The volumes of the pool that were on the rank and are lost: "no volumes", "2 volumes, the first is \"a\"". */
static uint32_t count_volumes(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank, char *text,
			      size_t bytes)
{
	const struct catalog_volume *volume, *first = NULL;
	uint32_t count = 0;

	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (volume->record.place.rank != rank || storage_member(mgmt, &volume->record.place))
			continue;
		first = first ? first : volume;
		count++;
	}
	if (first)
		snprintf(text, bytes, "%" PRIu32 " volume%s, the first is \"%s\"", count, count == 1 ? "" : "s",
			 first->record.name);
	else
		snprintf(text, bytes, "no volumes");
	return count;
}

int storage_refuse_lost(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank, struct fathom_fault *why)
{
	char volumes[STORAGE_WHAT_BYTES];

	(void)count_volumes(mgmt, pool, rank, volumes, sizeof(volumes)); /* the text has it */
	return fault_share_lost(why, rank, pool->record.name, volumes);
}

int storage_check_replaceable(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank,
			      struct fathom_fault *why)
{
	char volumes[STORAGE_WHAT_BYTES];

	if (count_volumes(mgmt, pool, rank, volumes, sizeof(volumes)) == 0)
		return 0;
	return fault_share_lost(why, rank, pool->record.name, volumes);
}

void storage_explain_lost(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank, char *text)
{
	const char *name = pool->record.name;
	char volumes[STORAGE_WHAT_BYTES];

	if (count_volumes(mgmt, pool, rank, volumes, sizeof(volumes)) > 0)
		snprintf(text, STORAGE_INFO_BYTES,
			 "the rank was erased or replaced, and its data with it: %s. Destroy each with `fathom volume "
			 "destroy %s/VOLUME --force`, then run `fathom pool extend %s --ranks %" PRIu32 "`",
			 volumes, name, name, rank);
	else
		snprintf(text, STORAGE_INFO_BYTES,
			 "the rank was erased or replaced, and its data with it; no lost volumes are left. `fathom pool "
			 "extend %s --ranks %" PRIu32 "` adds its new engine",
			 name, rank);
}

void storage_raise_lost(struct mgmt *mgmt, uint32_t rank)
{
	const struct catalog_volume *volume, *first = NULL;
	const struct catalog_pool *pool;
	uint32_t pools = 0, volumes = 0;
	char what[STORAGE_WHAT_BYTES] = "";

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		int index = catalog_share_index(pool, rank);

		pools += index >= 0 && storage_share_is_lost(mgmt, pool, (uint32_t)index);
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			if (volume->record.place.rank != rank || storage_member(mgmt, &volume->record.place))
				continue;
			first = first ? first : volume;
			volumes++;
		}
	}
	if (pools == 0)
		return;
	if (first)
		storage_what(first->pool, first, what);
	mgmt_raise_operation(mgmt, RAS_RANK_DATA_LOST, NULL, NULL,
			     "rank %u was replaced, and its data with it: pools that had a share there: %u; lost volumes: "
			     "%u%s%s",
			     rank, pools, volumes, first ? ", the first is " : "", what);
}
