/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of system. */
#ifndef CONTROL_SYSTEM_INTERNAL_H
#define CONTROL_SYSTEM_INTERNAL_H

#include "control/system/system.h"
#include "fathom/trace/trace.h"

enum { INDEX_BUCKETS = 1 << 14 };

struct system_member {
	struct trace_object trace;
	struct member record;
	struct system_member *next_by_uuid;
	struct system_member *next_by_address;
};

/* Names with values, sorted by name. */
struct pairs {
	struct pair {
		char *name;
		char *value;
	} * items;
	size_t count;
};

enum { SYSTEM_NEXT_RANK_FIRST = 1 }; /* rank 0 is reserved for instance 0 of the first management host */

struct system {
	uint64_t version;
	uint32_t map_version;
	uint32_t next_rank;
	struct system_member **members; /* sorted by rank */
	size_t count;
	size_t room;
	struct pairs attributes;
	struct pairs properties;
	struct system_member *by_uuid[INDEX_BUCKETS];
	struct system_member *by_address[INDEX_BUCKETS];
};

/* Initialise a change of `kind` with the next versions; the map version increases only if `is_map_changed`. */
void system_change_begin(const struct system *system, enum system_change_kind kind, bool is_map_changed,
			 struct system_change *change);

/* Initialise a MEMBER change from `before` (NULL: a new member) to `after`. */
void system_change_member(const struct system *system, const struct member *before, const struct member *after,
			  struct system_change *change);

/*
 * The first member in the hash bucket of `address`; continue with next_by_address. The bucket may also hold members of
 * other addresses: compare.
 */
const struct system_member *system_first_at(const struct system *system, const char *address);

/* The value of `name`; NULL: no such name. */
const char *pairs_get(const struct pairs *pairs, const char *name);
/* Set `name`; value "" removes it. Errors: -ENOMEM; then nothing has changed. */
MUST_CHECK int pairs_set(struct pairs *pairs, const char *name, const char *value);
void pairs_deinit(struct pairs *pairs);
/* Apply all `changes` or none. Errors: -ENOMEM. */
MUST_CHECK int pairs_apply(struct pairs *pairs, const struct system_pair *changes, size_t count);

#endif
