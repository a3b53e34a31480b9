/* SPDX-License-Identifier: BSD-2-Clause */
/* The members and their indexes. system_apply() is the only place that changes them after loading. */
#include "control/system/system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/system/internal.h"
#include "control/system/probes.gen.h"

static_assert((int)SYSTEM_MEMBERS_MAX <= (int)RANK_MAX, "each member has a rank");
static_assert(SYSTEM_MAP_VERSION_BELIEVED < SYSTEM_MAP_VERSION_MAX, "a later version exists");
static_assert((MEMBER_OUT_BITS & MEMBER_AVAILABLE_BITS) == 0, "a member that is not in the map gets no pools");

struct system *system_create(void)
{
	struct system *system = calloc(1, sizeof(*system));

	if (system)
		system->next_rank = SYSTEM_NEXT_RANK_FIRST;
	return system;
}

void system_destroy(struct system *system)
{
	if (!system)
		return;
	for (size_t i = 0; i < system->count; i++)
		free(system->members[i]);
	free(system->members);
	pairs_deinit(&system->attributes);
	pairs_deinit(&system->properties);
	free(system);
}

uint64_t system_version(const struct system *system)
{
	return system->version;
}

uint32_t system_map_version(const struct system *system)
{
	return system->map_version;
}

uint32_t system_next_rank(const struct system *system)
{
	return system->next_rank;
}

size_t system_member_count(const struct system *system)
{
	return system->count;
}

const struct member *system_member_at(const struct system *system, size_t index)
{
	must(index < system->count);
	return &system->members[index]->record;
}

/* The index of `rank`, or the index where it must be inserted. */
static size_t member_index(const struct system *system, uint32_t rank)
{
	size_t low = 0, high = system->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (system->members[middle]->record.rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	must(low == 0 || system->members[low - 1]->record.rank < rank);
	must(low == system->count || system->members[low]->record.rank >= rank);
	return low;
}

static struct system_member *find_member(const struct system *system, uint32_t rank)
{
	size_t at = member_index(system, rank);

	return at < system->count && system->members[at]->record.rank == rank ? system->members[at] : NULL;
}

const struct member *system_member_by_rank(const struct system *system, uint32_t rank)
{
	const struct system_member *member = find_member(system, rank);

	return member ? &member->record : NULL;
}

static size_t bucket_of(const void *key, size_t bytes)
{
	const uint8_t *at = key;
	uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * 0x100000001b3ull;
	return (hash ^ hash >> 32) % INDEX_BUCKETS;
}

const struct member *system_member_by_uuid(const struct system *system, const uint8_t *uuid)
{
	const struct system_member *member = system->by_uuid[bucket_of(uuid, MEMBER_UUID_BYTES)];

	while (member && memcmp(member->record.uuid, uuid, MEMBER_UUID_BYTES) != 0)
		member = member->next_by_uuid;
	return member ? &member->record : NULL;
}

const struct system_member *system_first_at(const struct system *system, const char *address)
{
	return system->by_address[bucket_of(address, strlen(address))];
}

size_t system_members_at(const struct system *system, const char *address, const struct member **members, size_t max)
{
	size_t count = 0;

	for (const struct system_member *member = system_first_at(system, address); member;
	     member = member->next_by_address) {
		if (strcmp(member->record.address, address) != 0)
			continue;
		if (count < max)
			members[count] = &member->record;
		count++;
	}
	return count;
}

static void add_to_indexes(struct system *system, struct system_member *member)
{
	struct system_member **by_uuid = &system->by_uuid[bucket_of(member->record.uuid, MEMBER_UUID_BYTES)];
	struct system_member **by_address =
		&system->by_address[bucket_of(member->record.address, strlen(member->record.address))];

	must(!member->next_by_uuid);
	must(!member->next_by_address);
	member->next_by_uuid = *by_uuid;
	*by_uuid = member;
	member->next_by_address = *by_address;
	*by_address = member;
}

static void remove_from_indexes(struct system *system, struct system_member *member)
{
	struct system_member **place = &system->by_uuid[bucket_of(member->record.uuid, MEMBER_UUID_BYTES)];

	for (; *place != member; place = &(*place)->next_by_uuid)
		must(*place);
	*place = member->next_by_uuid;
	place = &system->by_address[bucket_of(member->record.address, strlen(member->record.address))];
	for (; *place != member; place = &(*place)->next_by_address)
		must(*place);
	*place = member->next_by_address;
	member->next_by_uuid = member->next_by_address = NULL;
}

static int add_member(struct system *system, const struct member *record, uint64_t tick)
{
	size_t at = member_index(system, record->rank);
	struct system_member *member;

	must(system->count < SYSTEM_MEMBERS_MAX);
	must(system->count <= system->room);
	must(record->rank <= RANK_MAX);
	must(record->fabric_count > 0 && record->fabric_count <= MEMBER_FABRICS_MAX);
	must(at == system->count || system->members[at]->record.rank != record->rank);
	must(!system_member_by_uuid(system, record->uuid));
	if (system->count == system->room) {
		size_t room = max_u64(system->room * 2, 16);
		struct system_member **members = realloc(system->members, room * sizeof(*members));

		if (!members)
			return -ENOMEM;
		system->members = members;
		system->room = room;
	}
	member = calloc(1, sizeof(*member));
	if (!member)
		return -ENOMEM;
	trace_object_init(&member->trace, TRACE_OBJECT_SYSTEM_MEMBER);
	member->record = *record;
	member->record.state = MEMBER_UNKNOWN;
	member_state_move(tick, member, record->state);
	memmove(&system->members[at + 1], &system->members[at], (system->count - at) * sizeof(*system->members));
	system->members[at] = member;
	system->count++;
	add_to_indexes(system, member);
	return 0;
}

static void change_member(struct system *system, struct system_member *member, const struct member *record, uint64_t tick)
{
	enum member_state from = member->record.state;
	const struct member *holder = system_member_by_uuid(system, record->uuid);

	must(record->rank == member->record.rank);
	must(record->state != MEMBER_UNKNOWN);
	must(!holder || holder == &member->record);
	remove_from_indexes(system, member);
	member->record = *record;
	member->record.state = from;
	if (from != record->state)
		member_state_move(tick, member, record->state);
	add_to_indexes(system, member);
}

static void remove_member(struct system *system, struct system_member *member, uint64_t tick)
{
	size_t at = member_index(system, member->record.rank);

	must(at < system->count);
	must(system->members[at] == member);
	remove_from_indexes(system, member);
	member_state_move(tick, member, MEMBER_UNKNOWN);
	system->count--;
	memmove(&system->members[at], &system->members[at + 1], (system->count - at) * sizeof(*system->members));
	free(member);
}

int system_apply(struct system *system, const struct system_change *change, uint64_t tick)
{
	struct system_member *member = NULL;
	int error = 0;

	must(change->kind <= SYSTEM_PROPERTIES);
	must(change->pair_count == 0 || change->pairs);
	must(change->version == system->version + 1);
	must(change->map_version >= system->map_version);
	must(change->next_rank >= system->next_rank || (change->kind == SYSTEM_MEMBER_GONE && system->count == 1));
	must(change->kind != SYSTEM_MEMBER || change->next_rank > change->member.rank);
	if (change->kind == SYSTEM_MEMBER || change->kind == SYSTEM_MEMBER_GONE)
		member = find_member(system, change->member.rank);
	if (change->kind == SYSTEM_ATTRIBUTES) {
		error = pairs_apply(&system->attributes, change->pairs, change->pair_count);
	} else if (change->kind == SYSTEM_PROPERTIES) {
		error = pairs_apply(&system->properties, change->pairs, change->pair_count);
	} else if (change->kind == SYSTEM_MEMBER_GONE) {
		must(member);
		must(memcmp(member->record.uuid, change->member.uuid, MEMBER_UUID_BYTES) == 0);
		remove_member(system, member, tick);
	} else if (member) {
		change_member(system, member, &change->member, tick);
	} else {
		error = add_member(system, &change->member, tick);
	}
	if (error)
		return error;
	system->version = change->version;
	system->map_version = change->map_version;
	system->next_rank = change->next_rank;
	must(system->count == 0 || system->members[system->count - 1]->record.rank < system->next_rank);
	return 0;
}

int system_load_member(struct system *system, const struct member *member, uint64_t tick)
{
	if (system->count >= SYSTEM_MEMBERS_MAX)
		return -ERANGE;
	if (member->rank > RANK_MAX || member->state == MEMBER_UNKNOWN || member->state >= MEMBER_STATES ||
	    member->fabric_count == 0 || member->fabric_count > MEMBER_FABRICS_MAX || find_member(system, member->rank) ||
	    system_member_by_uuid(system, member->uuid))
		return -EBADMSG;
	return add_member(system, member, tick);
}

int system_load_versions(struct system *system, uint64_t version, uint32_t map_version, uint32_t next_rank)
{
	if (map_version > SYSTEM_MAP_VERSION_MAX || next_rank == 0 ||
	    (system->count > 0 && system->members[system->count - 1]->record.rank >= next_rank))
		return -EBADMSG;
	system->version = version;
	system->map_version = map_version;
	system->next_rank = next_rank;
	return 0;
}
