/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * system - the members of a system, and the rules for joins, changes and removal. Pure: no clock, no disk, no socket.
 *
 *     decide   system_join(), system_report() ...   a const system, an event and the time -> a change, or a fault
 *     store    control/db                           write the change in one transaction
 *     apply    system_apply()                       change the system in memory
 *
 * A change must be stored before its result is reported or sent. So a crash in between loses only changes that no other
 * program has seen. Every change raises the version by one. It raises the map version by one if it changes the group map:
 * its members, their fabrics, UUIDs or incarnations. Equal map versions mean equal maps. If the database was lost, or
 * restored from an older copy, engines may have a later map version. They ignore maps up to that version. Therefore they
 * report it, and the system raises its map version above it.
 *
 * One thread. Not here: calls to engines, and pools.
 */
#ifndef CONTROL_SYSTEM_SYSTEM_H
#define CONTROL_SYSTEM_SYSTEM_H

#include "control/system/member.h"

enum {
	SYSTEM_MEMBERS_MAX = 65536,
	SYSTEM_NAME_BYTES = 256,
	SYSTEM_VALUE_BYTES = 4096,
	SYSTEM_MAP_VERSION_BELIEVED = 1 << 30, /* ignore later reported versions: the counter must not overflow */
	SYSTEM_MAP_VERSION_MAX = INT32_MAX,    /* reject later stored versions: each change adds one to the version */
	SYSTEM_PAIRS_MAX = 1024,	       /* attributes of a system, pairs of a request */
};

struct system;

/* A system without members. NULL: out of memory. */
struct system *system_create(void);
void system_destroy(struct system *system); /* NULL is fine */

/* ---- current state ---- */

uint64_t system_version(const struct system *system);
uint32_t system_map_version(const struct system *system);
uint32_t system_next_rank(const struct system *system); /* assigned to the next member that joins without a rank */
size_t system_member_count(const struct system *system);

/* Sorted by rank; `index` must be below the count. Borrowed until the next change. */
const struct member *system_member_at(const struct system *system, size_t index);
const struct member *system_member_by_rank(const struct system *system, uint32_t rank); /* NULL: none */
const struct member *system_member_by_uuid(const struct system *system, const uint8_t *uuid);

/* Whether the member is in the group map: its state is neither UNKNOWN nor in MEMBER_OUT_BITS. */
bool system_is_in_map(const struct member *member);

/* ---- changes ---- */

enum system_change_kind { SYSTEM_MEMBER, SYSTEM_MEMBER_GONE, SYSTEM_ATTRIBUTES, SYSTEM_PROPERTIES };

/* A name and its new value. Value "" removes an attribute, and resets a property to its default. */
struct system_pair {
	const char *name;
	const char *value;
};

struct system_change {
	enum system_change_kind kind;
	uint64_t version; /* of the system, after it is applied */
	uint32_t map_version;
	uint32_t next_rank;
	struct member member;		 /* MEMBER: the whole record; MEMBER_GONE: only rank and uuid */
	const struct system_pair *pairs; /* ATTRIBUTES, PROPERTIES: lent until it is applied */
	size_t pair_count;
};

/*
 * Apply `change`, which must have been decided on the current version. `tick` is for the trace. Errors: -ENOMEM; then
 * nothing has changed.
 */
MUST_CHECK int system_apply(struct system *system, const struct system_change *change, uint64_t tick);

/*
 * For the store: add a stored member, a pair and the versions to a system that is being loaded. Errors: -ENOMEM, -EBADMSG
 * (invalid: a duplicate rank or UUID, an unknown property), -ERANGE (too many).
 */
MUST_CHECK int system_load_member(struct system *system, const struct member *member, uint64_t tick);
MUST_CHECK int system_load_pair(struct system *system, enum system_change_kind kind, const struct system_pair *pair);
MUST_CHECK int system_load_versions(struct system *system, uint64_t version, uint32_t map_version, uint32_t next_rank);

/* ---- decisions. On failure `change_ret` is untouched, and `why` has the fault unless the comment says "no fault" ---- */

struct join_request {
	const char *uuid;
	uint32_t rank; /* in its superblock, or RANK_NONE */
	uint64_t incarnation;
	uint32_t map_version; /* of the newest map of any engine of that host; 0: none */
	const char *address;  /* of its server, with port */
	const char *domain;
	const struct member_fabric *fabrics; /* the first is the primary one */
	size_t fabric_count;
	bool is_replacement; /* formatted with --replace: takes over the rank with the same address, domain and URI */
	bool is_for_checker;
	bool is_first_instance; /* instance 0 of the first management host: rank 0 is reserved for it */
	/* Whether pools have enabled targets on that rank; NULL: there are no pools. */
	bool (*is_in_pools)(void *ctx, uint32_t rank);
	void *ctx;
};

/*
 * Convert `text`, which must name exactly one host, to the spelling of member addresses, into `address_ret` of
 * HOST_BYTES_MAX. Errors: -EINVAL (join_address_bad), -ENOMEM.
 */
MUST_CHECK int system_read_address(const char *text, char *address_ret, struct fathom_fault *why);

/*
 * An engine joins, for the first time or again. `change_ret->member` is its new record. Errors: the faults join_... and
 * others of the domains system and server in docs/faults.md.
 */
MUST_CHECK int system_join(const struct system *system, const struct join_request *request, uint64_t now_ns,
			   struct system_change *change_ret, struct fathom_fault *why);

/* A state of a rank that was observed, or that an operation caused. */
struct member_report {
	uint32_t rank;
	uint64_t incarnation; /* of the process that it is about; 0: any */
	enum member_state to;
	const char *info; /* the reason, for people; "": none */
	uint64_t now_ns;  /* CLOCK_REALTIME */
};

/*
 * Set the state of a rank after an observation or an operation. Errors: -ENOENT, -EPERM (illegal move), -ESTALE (about an
 * older process), -EALREADY (already in that state, and no new reason for being down; no fault).
 */
MUST_CHECK int system_report(const struct system *system, const struct member_report *report,
			     struct system_change *change_ret, struct fathom_fault *why);

/*
 * A report by the rank's own server. It follows system_report(), with two exceptions. A serving rank that was unresponsive,
 * starting, ready or stopping becomes Joined, if the incarnation is the one that joined. A late "stopping" does not change
 * a stopped rank. Errors: those of system_report().
 */
MUST_CHECK int system_see(const struct system *system, const struct member_report *report, struct system_change *change_ret,
			  struct fathom_fault *why);

/*
 * An engine has version `map_version` of the group map, which this system has not reached: raise the system's map version
 * above it. Errors: -EALREADY (not later than the system's, or above SYSTEM_MAP_VERSION_BELIEVED; no fault).
 */
MUST_CHECK int system_raise_map(const struct system *system, uint32_t map_version, struct system_change *change_ret);

/* Fill `members` with at most `max` members at `address`, spelled as in members. Returns their total number. Borrowed. */
size_t system_members_at(const struct system *system, const char *address, const struct member **members, size_t max);

/*
 * Other ranks found the rank dead: exclude it, if the property self_heal contains "exclude". Errors: those of
 * system_report(), and -ECANCELED (self_heal does not contain it; no fault).
 */
MUST_CHECK int system_rank_dead(const struct system *system, uint32_t rank, uint64_t incarnation, uint64_t now_ns,
				struct system_change *change_ret, struct fathom_fault *why);

/* An operator excludes a rank, or clears that. Errors: -ENOENT, -EPERM, -EALREADY (no fault), -EINVAL (not_excluded). */
MUST_CHECK int system_exclude(const struct system *system, uint32_t rank, uint64_t now_ns, struct system_change *change_ret,
			      struct fathom_fault *why);
MUST_CHECK int system_clear_exclude(const struct system *system, uint32_t rank, uint64_t now_ns,
				    struct system_change *change_ret, struct fathom_fault *why);

/*
 * Remove a rank permanently. Its number is not reused until the system has no members; then numbering starts again.
 * Errors: -ENOENT, -EPERM (it may be running).
 */
MUST_CHECK int system_remove(const struct system *system, uint32_t rank, struct system_change *change_ret,
			     struct fathom_fault *why);

/* ---- attributes and properties ---- */

/*
 * Set or remove attributes, all or none; `pairs` are lent until the change is applied. Errors: -EINVAL (attribute_bad),
 * -ENOENT (no_such_attribute: an attribute to remove does not exist), -ENOSPC (attribute_bad: too many).
 */
MUST_CHECK int system_set_attributes(const struct system *system, const struct system_pair *pairs, size_t pair_count,
				     struct system_change *change_ret, struct fathom_fault *why);

/* Attributes, sorted by name; NULL: no such attribute. Borrowed until the next change. */
size_t system_attribute_count(const struct system *system);
struct system_pair system_attribute_at(const struct system *system, size_t index);
const char *system_attribute(const struct system *system, const char *name);

/* The definition of a property. The table ends with a NULL name. */
struct system_property {
	const char *name;
	const char *title; /* "Self-heal policy for the system" */
	const char *initial;
	const char *allowed; /* as a phrase */
	bool (*check)(const char *value);
};
extern const struct system_property system_properties[];

/*
 * Set or reset properties. `pairs` as above, at most SYSTEM_PAIRS_MAX. Errors: -ENOENT (property_unknown, property_absent),
 * -EINVAL (property_bad).
 */
MUST_CHECK int system_set_properties(const struct system *system, const struct system_pair *pairs, size_t pair_count,
				     struct system_change *change_ret, struct fathom_fault *why);

/* The property's value, or its default. `name` must be in the table. */
const char *system_property(const struct system *system, const char *name);

/* Properties that were set, for the store. */
size_t system_property_count(const struct system *system);
struct system_pair system_property_at(const struct system *system, size_t index);

/* ---- fault domains ---- */

/* A node of the tree, in breadth-first order from the root (""): the children of a node are adjacent. */
struct domain_node {
	char name[MEMBER_DOMAIN_BYTES]; /* the whole path */
	uint32_t level;			/* 0: the root */
	uint32_t parent;		/* index of the parent */
	uint32_t child_count;		/* 0: a leaf */
	uint32_t rank_count;		/* of all ranks below it */
};

struct domain_tree {
	struct domain_node *nodes;
	size_t count;
};

/* The tree of all members, except those in a state of `out_bits`. Free it with domain_tree_deinit(). Errors: -ENOMEM. */
MUST_CHECK int system_domain_tree(const struct system *system, uint32_t out_bits, struct domain_tree *tree_ret);
void domain_tree_deinit(struct domain_tree *tree);

#endif
