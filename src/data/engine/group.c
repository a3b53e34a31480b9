/* SPDX-License-Identifier: BSD-2-Clause */
/* The group map: all engines of the system, and whether this engine is one of them. Only the newest version is kept. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "data/engine/control.h"

struct group_member {
	uint32_t rank;
	uint64_t incarnation;
	char *uri;
};

static struct {
	uint32_t version, count;
	struct group_member *members; /* ordered by rank */
} group;

static void members_free(struct group_member *members, size_t count)
{
	for (size_t i = 0; members && i < count; i++)
		free(members[i].uri);
	free(members);
}

static int compare_ranks(const void *a, const void *b)
{
	uint32_t x = ((const struct group_member *)a)->rank, y = ((const struct group_member *)b)->rank;

	return x < y ? -1 : x > y;
}

static int32_t read_members(const Mgmt__GroupUpdateReq *update, struct group_member *members)
{
	for (size_t i = 0; i < update->n_engines; i++) {
		const Mgmt__GroupUpdateReq__Engine *engine = update->engines[i];

		if (strlen(engine->uri) > ENGINE_URI_KEPT_MAX)
			return DER_OVERFLOW;
		members[i] = (struct group_member){ engine->rank, engine->incarnation, strdup(engine->uri) };
		if (!members[i].uri)
			return DER_NOMEM;
	}
	qsort(members, update->n_engines, sizeof(*members), compare_ranks);
	for (size_t i = 1; i < update->n_engines; i++) {
		if (members[i].rank == members[i - 1].rank)
			return DER_INVAL;
	}
	return 0;
}

int32_t group_update(const Mgmt__GroupUpdateReq *update, bool *kept_ret)
{
	struct group_member *members;
	int32_t status;

	*kept_ret = false;
	if (update->map_version == 0)
		return DER_INVAL;
	if (update->map_version <= group.version) {
		log_info("group map ignored: its version %u is not above %u", update->map_version, group.version);
		return 0;
	}
	if (update->n_engines > ENGINE_GROUP_MAX)
		return DER_OVERFLOW;
	members = calloc(update->n_engines + 1, sizeof(*members));
	if (!members)
		return DER_NOMEM;
	status = read_members(update, members);
	if (status) {
		members_free(members, update->n_engines);
		return status;
	}
	members_free(group.members, group.count);
	group.members = members;
	group.count = (uint32_t)update->n_engines;
	group.version = update->map_version;
	*kept_ret = true;
	return 0;
}

uint32_t group_version(void)
{
	return group.version;
}

uint32_t group_size(void)
{
	return group.count;
}

bool group_has(uint32_t rank, uint64_t incarnation)
{
	const struct group_member key = { .rank = rank };
	const struct group_member *member = group.count
						    ? bsearch(&key, group.members, group.count, sizeof(key), compare_ranks)
						    : NULL;

	return member && member->incarnation == incarnation;
}

void group_free(void)
{
	members_free(group.members, group.count);
	group.members = NULL;
	group.count = 0;
	group.version = 0;
}
