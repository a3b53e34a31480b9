/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of a join. A join builds the member's record from scratch, so that no field of the old record survives. */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/system/internal.h"

int system_read_address(const char *text, char *address_ret, struct fathom_fault *why)
{
	struct host_set *set;
	int error = host_set_parse(text, &set, NULL);

	if (error == -ENOMEM)
		return error;
	if (error < 0)
		return fault_join_address_bad(why, text);
	if (host_set_count(set) == 1)
		must(text_copy(address_ret, HOST_BYTES_MAX, host_set_at(set, 0)) == 0);
	else
		error = fault_join_address_bad(why, text);
	host_set_destroy(set);
	return error;
}

/* All members must use the same provider for their primary fabric. */
static int check_provider(const struct system *system, const struct member *after, struct fathom_fault *why)
{
	const char *uri = after->fabrics[0].uri, *other;
	char given[MEMBER_URI_BYTES], providers[MEMBER_URI_BYTES];

	if (system->count == 0)
		return 0;
	other = system->members[0]->record.fabrics[0].uri;
	must(member_provider_bytes(uri) < sizeof(given));
	must(member_provider_bytes(other) < sizeof(providers));
	if (member_provider_bytes(uri) == member_provider_bytes(other) &&
	    memcmp(uri, other, member_provider_bytes(uri)) == 0)
		return 0;
	memcpy(given, uri, sizeof(given));
	given[member_provider_bytes(uri)] = '\0';
	memcpy(providers, other, sizeof(providers));
	providers[member_provider_bytes(other)] = '\0';
	return fault_join_provider(why, given, providers);
}

/* All fault domains must have equal depth and labels. If `before` is the only member, it may change both. */
static int check_domain(const struct system *system, const struct member *before, const struct member *after,
			struct fathom_fault *why)
{
	char labels[MEMBER_DOMAIN_BYTES], others[MEMBER_DOMAIN_BYTES];
	const struct member *other = NULL;
	uint32_t depth, other_depth;
	int error = member_domain_parse(after->domain, &depth, labels, why);

	if (error < 0)
		return error;
	for (size_t i = 0; !other && i < system->count && i < 2; i++) {
		if (&system->members[i]->record != before)
			other = &system->members[i]->record;
	}
	if (!other)
		return 0;
	must(member_domain_parse(other->domain, &other_depth, others, NULL) == 0);
	if (strcmp(labels, others) != 0)
		return fault_domain_labels(why, after->domain, others);
	return depth == other_depth ? 0 : fault_fault_domain_depth(why, after->domain, other_depth);
}

/* The member with the same address, fault domain and primary fabric URI as `after`; NULL: none. */
static const struct member *find_same(const struct system *system, const struct member *after)
{
	for (const struct system_member *member = system_first_at(system, after->address); member;
	     member = member->next_by_address) {
		if (strcmp(member->record.address, after->address) == 0 &&
		    strcmp(member->record.domain, after->domain) == 0 &&
		    strcmp(member->record.fabrics[0].uri, after->fabrics[0].uri) == 0)
			return &member->record;
	}
	return NULL;
}

/* Check the join of an engine whose UUID is already a member's. */
static int check_rejoin(const struct member *before, const struct join_request *request, const struct member *after,
			struct fathom_fault *why)
{
	must(memcmp(before->uuid, after->uuid, MEMBER_UUID_BYTES) == 0);
	if (before->state == MEMBER_ADMIN_EXCLUDED)
		return fault_rank_excluded(why, before->rank);
	if (request->rank != RANK_NONE && request->rank != before->rank)
		return fault_join_rank_changed(why, request->uuid, request->rank, before->rank);
	if (strcmp(before->address, after->address) != 0)
		return fault_join_address_changed(why, before->rank, after->address, before->address);
	if (after->incarnation < before->incarnation)
		return fault_join_incarnation_old(why, before->rank, after->incarnation, before->incarnation);
	return 0;
}

static int check_replacement(const struct member *before, const struct join_request *request, struct fathom_fault *why)
{
	if (!before)
		return fault_join_replace_found_none(why, request->uuid);
	if (before->state == MEMBER_ADMIN_EXCLUDED)
		return fault_rank_excluded(why, before->rank);
	if (request->rank != RANK_NONE && request->rank != before->rank)
		return fault_join_rank_changed(why, request->uuid, request->rank, before->rank);
	if (request->is_in_pools && request->is_in_pools(request->ctx, before->rank))
		return fault_replace_enabled_rank(why, before->rank);
	return 0;
}

/* Choose a rank for a new member. */
static int find_rank(const struct system *system, const struct join_request *request, const struct member *after,
		     uint32_t *rank_ret, struct fathom_fault *why)
{
	const struct member *same = find_same(system, after), *holder;
	char uuid[MEMBER_UUID_TEXT_BYTES];
	uint32_t rank = request->rank;

	if (rank != RANK_NONE) {
		holder = system_member_by_rank(system, rank);
		if (holder)
			return fault_join_uuid_changed(why, rank, request->uuid, member_uuid_format(holder->uuid, uuid));
	}
	if (same)
		return fault_join_replace_member(why, same->rank, request->uuid);
	if (system->count >= SYSTEM_MEMBERS_MAX)
		return fault_system_full(why, (uint32_t)system->count);
	if (rank == RANK_NONE)
		rank = request->is_first_instance && !system_member_by_rank(system, 0) ? 0 : system->next_rank;
	if (rank > RANK_MAX)
		return fault_system_full(why, (uint32_t)system->count);
	must(!system_member_by_rank(system, rank));
	*rank_ret = rank;
	return 0;
}

/* Convert the request into a new record. Unset fields are zero. */
static int read_request(const struct join_request *request, uint64_t now_ns, struct member *after, struct fathom_fault *why)
{
	int error;

	memset(after, 0, sizeof(*after));
	if (member_uuid_parse(request->uuid, after->uuid) < 0)
		return fault_join_uuid_bad(why, request->uuid);
	error = system_read_address(request->address, after->address, why);
	if (error < 0)
		return error;
	if (text_copy(after->domain, sizeof(after->domain), request->domain) < 0)
		return fault_fault_domain_bad(why, request->domain, "it is longer than 255 characters");
	must(request->fabric_count > 0);
	must(request->fabric_count <= MEMBER_FABRICS_MAX);
	after->fabric_count = (uint32_t)request->fabric_count;
	for (size_t i = 0; i < request->fabric_count; i++) {
		/* bytes after the text must stay zero, because fabrics are compared with memcmp() */
		text_utf8_copy(after->fabrics[i].uri, sizeof(after->fabrics[i].uri) - 1, request->fabrics[i].uri,
			       strlen(request->fabrics[i].uri));
		after->fabrics[i].contexts = request->fabrics[i].contexts;
	}
	after->incarnation = request->incarnation;
	after->updated_ns = now_ns;
	after->state = request->is_for_checker ? MEMBER_CHECKER_STARTED : MEMBER_JOINED;
	return 0;
}

int system_join(const struct system *system, const struct join_request *request, uint64_t now_ns,
		struct system_change *change_ret, struct fathom_fault *why)
{
	const struct member *before;
	struct member after;
	int error = read_request(request, now_ns, &after, why);

	if (error < 0)
		return error;
	before = system_member_by_uuid(system, after.uuid);
	if (before) {
		error = check_rejoin(before, request, &after, why);
		after.rank = before->rank;
	} else if (request->is_replacement) {
		before = find_same(system, &after);
		error = check_replacement(before, request, why);
		after.rank = before ? before->rank : 0;
	} else {
		error = find_rank(system, request, &after, &after.rank, why);
	}
	if (!error)
		error = check_domain(system, before, &after, why);
	if (!error && !(before && system->count == 1))
		error = check_provider(system, &after, why);
	if (error < 0)
		return error;
	must(!before || after.rank == before->rank);
	system_change_member(system, before, &after, change_ret);
	change_ret->next_rank = (uint32_t)max_u64(change_ret->next_rank, after.rank + 1);
	must(change_ret->next_rank > after.rank);
	/* an engine of that host has a later map: our database was lost, or restored from an older copy */
	if (request->map_version > system->map_version && request->map_version <= SYSTEM_MAP_VERSION_BELIEVED)
		change_ret->map_version = request->map_version + 1;
	must(change_ret->map_version >= system->map_version);
	return 0;
}
