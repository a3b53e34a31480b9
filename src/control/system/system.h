/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * system - the members of a system, and the rules by which they come, change and go. Pure: no clock, no disk, no socket.
 *
 *     decide   system_join(), system_report() ...   a const system, an event and the time -> a change, or a fault
 *     store    control/db                           the change in one transaction
 *     apply    system_apply()                       the change becomes what is true
 *
 * Nothing is true before it is stored, so that a crash in between forgets only what nobody was told. Every change raises
 * the version by one, and the map version by one if it changes what engines know of each other: who is in the group map,
 * where, and which incarnation. Equal map versions mean equal maps. Engines that have a later version, of a system that was
 * lost or is older again than it was, take no map before one that comes after it: what they say raises it.
 *
 * One thread. Not here: who asks the engines, and pools.
 */
#ifndef CONTROL_SYSTEM_SYSTEM_H
#define CONTROL_SYSTEM_SYSTEM_H

#include "control/system/member.h"

enum {
	SYSTEM_MEMBERS_MAX = 65536,
	SYSTEM_NAME_BYTES = 256,
	SYSTEM_VALUE_BYTES = 4096,
	SYSTEM_MAP_VERSION_BELIEVED = 1 << 30, /* what others say is later is not believed: versions must not run out */
	SYSTEM_PAIRS_MAX = 1024,	       /* attributes of a system, pairs of a request */
};

struct system;

/* A system without members. NULL: no memory. */
struct system *system_create(void);
void system_destroy(struct system *system); /* NULL is fine */

/* ---- what is true ---- */

uint64_t system_version(const struct system *system);
uint32_t system_map_version(const struct system *system);
uint32_t system_next_rank(const struct system *system); /* given to the next member that comes without one */
size_t system_member_count(const struct system *system);

/* In the order of ranks; `index` is below the count. Borrowed until the next change. */
const struct member *system_member_at(const struct system *system, size_t index);
const struct member *system_member_by_rank(const struct system *system, uint32_t rank); /* NULL: there is none */
const struct member *system_member_by_uuid(const struct system *system, const uint8_t *uuid);

/* In the group map: not UNKNOWN and not of MEMBER_OUT_BITS. */
bool system_is_in_map(const struct member *member);

/* ---- changes ---- */

enum system_change_kind { SYSTEM_MEMBER, SYSTEM_MEMBER_GONE, SYSTEM_ATTRIBUTES, SYSTEM_PROPERTIES };

/* A name, and what it gets; "" of an attribute removes it, of a property brings its default back. */
struct system_pair {
	const char *name;
	const char *value;
};

struct system_change {
	enum system_change_kind kind;
	uint64_t version; /* of the system, when it is applied */
	uint32_t map_version;
	uint32_t next_rank;
	struct member member;		 /* MEMBER: all of it; MEMBER_GONE: rank and uuid */
	const struct system_pair *pairs; /* ATTRIBUTES, PROPERTIES: lent until it is applied */
	size_t pair_count;
};

/*
 * Make `change`, the latest that was decided, true. `tick` is for the trace. Errors: -ENOMEM; then nothing has changed.
 */
MUST_CHECK int system_apply(struct system *system, const struct system_change *change, uint64_t tick);

/*
 * For the store: a member, a pair and the versions as they were stored, into a system that is being loaded. Errors:
 * -ENOMEM, -EBADMSG (what cannot be: a rank or UUID twice, an unknown property), -ERANGE (too many).
 */
MUST_CHECK int system_load_member(struct system *system, const struct member *member, uint64_t tick);
MUST_CHECK int system_load_pair(struct system *system, enum system_change_kind kind, const struct system_pair *pair);
MUST_CHECK int system_load_versions(struct system *system, uint64_t version, uint32_t map_version, uint32_t next_rank);

/* ---- decisions. `change_ret` is untouched when they fail; then `why` says what to do ---- */

struct join_request {
	const char *uuid;
	uint32_t rank; /* of its superblock, or RANK_NONE */
	uint64_t incarnation;
	uint32_t map_version; /* of the newest map that an engine there has; 0: none */
	const char *address;  /* of its server, with port */
	const char *domain;
	const struct member_fabric *fabrics; /* the first is the primary one */
	size_t fabric_count;
	bool is_replacement; /* it was formatted to take over the rank of one that it equals in all but the UUID */
	bool is_for_checker;
	bool is_first_instance; /* instance 0 of the first management host: rank 0 is kept for it */
	/* Whether pools have targets of that rank enabled; NULL: there are no pools. */
	bool (*is_in_pools)(void *ctx, uint32_t rank);
	void *ctx;
};

/*
 * The one host that `text` names, as members have it, into `address_ret` of HOST_BYTES_MAX. Errors: -EINVAL
 * (join_address_bad), -ENOMEM.
 */
MUST_CHECK int system_read_address(const char *text, char *address_ret, struct fault *why);

/*
 * An engine wants to be a member, again or newly. `change_ret->member` is what it becomes. Errors: those of join_... and
 * others of docs/faults.md.
 */
MUST_CHECK int system_join(const struct system *system, const struct join_request *request, uint64_t now_ns,
			   struct system_change *change_ret, struct fault *why);

/*
 * What was seen of a rank, or done with it. `incarnation` 0: of whichever. Errors: -ENOENT, -EPERM (not a legal change),
 * -ESTALE (of a process that is no more), -EALREADY (it is in that state, and not down for another reason than before;
 * no fault).
 */
MUST_CHECK int system_report(const struct system *system, uint32_t rank, uint64_t incarnation, enum member_state to,
			     const char *info, uint64_t now_ns, struct system_change *change_ret, struct fault *why);

/*
 * What the rank's own server sees of it: a report, but one that serves is Joined again, although it was taken for
 * unresponsive or was told to stop, if `incarnation` is the one that joined; and one that has stopped is not said to be
 * stopping by what was sent before that. Errors: those of system_report().
 */
MUST_CHECK int system_see(const struct system *system, uint32_t rank, uint64_t incarnation, enum member_state to,
			  const char *info, uint64_t now_ns, struct system_change *change_ret, struct fault *why);

/*
 * Some engines have version `map_version` of a map, which this system has not made yet: the next is made to come after it.
 * Errors: -EALREADY (it comes after it already; no fault).
 */
MUST_CHECK int system_raise_map(const struct system *system, uint32_t map_version, struct system_change *change_ret);

/* The first members at `address`, spelled as they have it, at most `max`; how many there are. Borrowed as above. */
size_t system_members_at(const struct system *system, const char *address, const struct member **members, size_t max);

/*
 * Others found the rank dead: it is excluded, if the property self_heal says so. Errors: as of system_report(), and
 * -ECANCELED (self_heal says no; no fault).
 */
MUST_CHECK int system_rank_dead(const struct system *system, uint32_t rank, uint64_t incarnation, uint64_t now_ns,
				struct system_change *change_ret, struct fault *why);

/* An operator takes a rank out, and lets it come back. Errors: -ENOENT, -EALREADY (no fault), -EINVAL (not_excluded). */
MUST_CHECK int system_exclude(const struct system *system, uint32_t rank, uint64_t now_ns, struct system_change *change_ret,
			      struct fault *why);
MUST_CHECK int system_clear_exclude(const struct system *system, uint32_t rank, uint64_t now_ns,
				    struct system_change *change_ret, struct fault *why);

/*
 * The rank will not come back; its number is not given again until none is left, when a system begins anew.
 * Errors: -ENOENT, -EPERM (it may be running).
 */
MUST_CHECK int system_remove(const struct system *system, uint32_t rank, struct system_change *change_ret,
			     struct fault *why);

/* ---- attributes and properties ---- */

/*
 * Set or remove attributes, all or none; `pairs` are lent until the change is applied. Errors: -EINVAL (attribute_bad),
 * -ENOENT (no_such_attribute: one to remove is not there), -ENOSPC.
 */
MUST_CHECK int system_set_attributes(const struct system *system, const struct system_pair *pairs, size_t pair_count,
				     struct system_change *change_ret, struct fault *why);

/* In the order of names; NULL: no such. Borrowed until the next change. */
size_t system_attribute_count(const struct system *system);
struct system_pair system_attribute_at(const struct system *system, size_t index);
const char *system_attribute(const struct system *system, const char *name);

/* What a property is. The table ends with a NULL name. */
struct system_property {
	const char *name;
	const char *title; /* "Self-heal policy for the system" */
	const char *initial;
	const char *allowed; /* as a phrase */
	bool (*check)(const char *value);
};
extern const struct system_property system_properties[];

/* Errors: -ENOENT (property_unknown), -EINVAL (property_bad). `pairs` as above, at most SYSTEM_PAIRS_MAX. */
MUST_CHECK int system_set_properties(const struct system *system, const struct system_pair *pairs, size_t pair_count,
				     struct system_change *change_ret, struct fault *why);

/* Its value, or its default. `name` is of the table. */
const char *system_property(const struct system *system, const char *name);

/* Properties that have a value of their own, for the store. */
size_t system_property_count(const struct system *system);
struct system_pair system_property_at(const struct system *system, size_t index);

/* ---- fault domains ---- */

/* A node of the tree, breadth first, the root ("") first: its children follow each other. */
struct domain_node {
	char name[MEMBER_DOMAIN_BYTES]; /* the whole path */
	uint32_t level;			/* 0: the root */
	uint32_t parent;		/* its index */
	uint32_t child_count;		/* of a leaf: 0 */
	uint32_t rank_count;		/* below it */
};

struct domain_tree {
	struct domain_node *nodes;
	size_t count;
};

/* The tree of all members but those that `out_bits` leaves out. Free it with domain_tree_deinit(). Errors: -ENOMEM. */
MUST_CHECK int system_domain_tree(const struct system *system, uint32_t out_bits, struct domain_tree *tree_ret);
void domain_tree_deinit(struct domain_tree *tree);

#endif
