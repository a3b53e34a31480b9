/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes of existing members: reports, exclusion, removal. */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/system/internal.h"

void system_change_begin(const struct system *system, enum system_change_kind kind, bool is_map_changed,
			 struct system_change *change)
{
	must(kind <= SYSTEM_PROPERTIES);
	must(system->version < UINT64_MAX);
	memset(change, 0, sizeof(*change));
	change->kind = kind;
	change->version = system->version + 1;
	change->map_version = system->map_version + is_map_changed;
	change->next_rank = system->next_rank;
}

bool system_is_in_map(const struct member *member)
{
	return member->state != MEMBER_UNKNOWN && !(member_state_bit(member->state) & MEMBER_OUT_BITS);
}

/* Whether the change from `before` to `after` changes the group map, so that engines need a new one. NULL: no member. */
static bool is_map_changed(const struct member *before, const struct member *after)
{
	bool was_in = before && system_is_in_map(before), is_in = after && system_is_in_map(after);

	must(before || after);
	if (!was_in || !is_in)
		return was_in != is_in;
	return before->incarnation != after->incarnation || memcmp(before->uuid, after->uuid, sizeof(after->uuid)) != 0 ||
	       before->fabric_count != after->fabric_count ||
	       memcmp(before->fabrics, after->fabrics, after->fabric_count * sizeof(after->fabrics[0])) != 0;
}

void system_change_member(const struct system *system, const struct member *before, const struct member *after,
			  struct system_change *change)
{
	must(!before || before->rank == after->rank);
	system_change_begin(system, SYSTEM_MEMBER, is_map_changed(before, after), change);
	change->member = *after;
}

/* Decide that the member gets the reported state. The caller has checked that the move is legal. */
static void set_member_state(const struct system *system, const struct member *member, const struct member_report *report,
			     struct system_change *change_ret)
{
	struct member after = *member;

	must(report->rank == member->rank);
	must(report->to != MEMBER_UNKNOWN);
	after.state = report->to;
	after.updated_ns = report->now_ns;
	memset(after.info, 0, sizeof(after.info));
	text_utf8_copy(after.info, sizeof(after.info) - 1, report->info, strlen(report->info));
	system_change_member(system, member, &after, change_ret);
}

/* Whether the member is down and `info` is a new reason: a start failed differently, its storage is missing now. */
static bool has_new_reason(const struct member *member, const char *info)
{
	const uint32_t down = member_state_bit(MEMBER_ERRORED) | member_state_bit(MEMBER_AWAIT_FORMAT) |
			      member_state_bit(MEMBER_UNRESPONSIVE);
	char text[MEMBER_INFO_BYTES] = { 0 };

	text_utf8_copy(text, sizeof(text) - 1, info, strlen(info));
	return (member_state_bit(member->state) & down) && text[0] && strcmp(text, member->info) != 0;
}

int system_report(const struct system *system, const struct member_report *report, struct system_change *change_ret,
		  struct fathom_fault *why)
{
	const struct member *member = system_member_by_rank(system, report->rank);

	must(report->to < MEMBER_STATES);
	must(report->info);
	if (!member)
		return fault_no_such_rank(why, report->rank);
	if (report->incarnation && report->incarnation < member->incarnation)
		return fault_join_incarnation_old(why, report->rank, report->incarnation, member->incarnation);
	if (member->state == report->to && !has_new_reason(member, report->info))
		return -EALREADY;
	if (member->state != report->to && !member_may_report(member->state, report->to))
		return fault_state_change(why, report->rank, member_state_title(member->state),
					  member_state_title(report->to));
	set_member_state(system, member, report, change_ret);
	return 0;
}

/* The member's server reports that it serves. */
static int report_serving(const struct system *system, const struct member *member, const struct member_report *report,
			  struct system_change *change_ret, struct fathom_fault *why)
{
	const uint32_t doubtful = member_state_bit(MEMBER_UNRESPONSIVE) | member_state_bit(MEMBER_STOPPING) |
				  member_state_bit(MEMBER_STARTING) | member_state_bit(MEMBER_READY);

	must(report->to == MEMBER_JOINED);
	if (member->state == MEMBER_JOINED || member->state == MEMBER_CHECKER_STARTED)
		return -EALREADY;
	/* a new process (another incarnation) must join first; so must a rank that is stopped, failed or excluded */
	if (report->incarnation != member->incarnation || !(member_state_bit(member->state) & doubtful))
		return fault_state_change(why, member->rank, member_state_title(member->state),
					  member_state_title(MEMBER_JOINED));
	set_member_state(system, member, report, change_ret);
	return 0;
}

int system_see(const struct system *system, const struct member_report *report, struct system_change *change_ret,
	       struct fathom_fault *why)
{
	const struct member *member = system_member_by_rank(system, report->rank);

	if (member && report->to == MEMBER_JOINED)
		return report_serving(system, member, report, change_ret, why);
	if (member && report->to == MEMBER_STOPPING && member->state == MEMBER_STOPPED)
		return -EALREADY;
	return system_report(system, report, change_ret, why);
}

int system_raise_map(const struct system *system, uint32_t map_version, struct system_change *change_ret)
{
	if (map_version <= system->map_version || map_version > SYSTEM_MAP_VERSION_BELIEVED)
		return -EALREADY;
	system_change_begin(system, SYSTEM_ATTRIBUTES, false, change_ret);
	change_ret->map_version = map_version + 1;
	must(change_ret->map_version > system->map_version);
	return 0;
}

int system_rank_dead(const struct system *system, uint32_t rank, uint64_t incarnation, uint64_t now_ns,
		     struct system_change *change_ret, struct fathom_fault *why)
{
	const char *policy = system_property(system, "self_heal");
	bool is_wanted = false;

	while (*policy && !is_wanted) {
		size_t bytes = strcspn(policy, ";");

		is_wanted = bytes == strlen("exclude") && memcmp(policy, "exclude", bytes) == 0;
		policy += bytes + (policy[bytes] == ';');
	}
	if (!is_wanted)
		return -ECANCELED;
	return system_report(system,
			     &(struct member_report){
				     .rank = rank,
				     .incarnation = incarnation,
				     .to = MEMBER_EXCLUDED,
				     .info = "other ranks found it dead",
				     .now_ns = now_ns,
			     },
			     change_ret, why);
}

int system_exclude(const struct system *system, uint32_t rank, uint64_t now_ns, struct system_change *change_ret,
		   struct fathom_fault *why)
{
	const struct member_report excluded = {
		.rank = rank, .to = MEMBER_ADMIN_EXCLUDED, .info = "an operator excluded it", .now_ns = now_ns
	};

	return system_report(system, &excluded, change_ret, why);
}

int system_clear_exclude(const struct system *system, uint32_t rank, uint64_t now_ns, struct system_change *change_ret,
			 struct fathom_fault *why)
{
	const struct member *member = system_member_by_rank(system, rank);

	if (!member)
		return fault_no_such_rank(why, rank);
	if (member->state != MEMBER_ADMIN_EXCLUDED)
		return fault_not_excluded(why, rank, member_state_title(member->state));
	set_member_state(system, member,
			 &(struct member_report){
				 .rank = rank,
				 .to = MEMBER_EXCLUDED,
				 .info = "an operator let it come back; it joins when it starts",
				 .now_ns = now_ns,
			 },
			 change_ret);
	return 0;
}

int system_remove(const struct system *system, uint32_t rank, struct system_change *change_ret, struct fathom_fault *why)
{
	const struct member *member = system_member_by_rank(system, rank);
	const uint32_t running = member_state_bit(MEMBER_STARTING) | member_state_bit(MEMBER_READY) |
				 member_state_bit(MEMBER_JOINED) | member_state_bit(MEMBER_STOPPING) |
				 member_state_bit(MEMBER_CHECKER_STARTED);

	if (!member)
		return fault_no_such_rank(why, rank);
	if (member_state_bit(member->state) & running)
		return fault_state_change(why, rank, member_state_title(member->state), "removed");
	system_change_begin(system, SYSTEM_MEMBER_GONE, is_map_changed(member, NULL), change_ret);
	change_ret->member.rank = rank;
	memcpy(change_ret->member.uuid, member->uuid, sizeof(member->uuid));
	if (system_member_count(system) == 1)
		change_ret->next_rank = SYSTEM_NEXT_RANK_FIRST; /* the last member: numbering starts again, as in DAOS */
	return 0;
}
