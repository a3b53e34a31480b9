/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of system share. */
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

/* Names with values, by name. */
struct pairs {
	struct pair {
		char *name;
		char *value;
	} * items;
	size_t count;
};

enum { SYSTEM_NEXT_RANK_FIRST = 1 }; /* 0 is kept for the first instance */

struct system {
	uint64_t version;
	uint32_t map_version;
	uint32_t next_rank;
	struct system_member **members; /* by rank */
	size_t count;
	size_t room;
	struct pairs attributes;
	struct pairs properties;
	struct system_member *by_uuid[INDEX_BUCKETS];
	struct system_member *by_address[INDEX_BUCKETS];
};

/* A change of `kind` with the versions that come next; the map's goes up if `is_map_changed`. */
void system_change_begin(const struct system *system, enum system_change_kind kind, bool is_map_changed,
			 struct system_change *change);

/* The same for `after`, which `before` (NULL: there was none) becomes. */
void system_change_member(const struct system *system, const struct member *before, const struct member *after,
			  struct system_change *change);

/* The first member at `address`, and the next one behind it. */
const struct system_member *system_first_at(const struct system *system, const char *address);

/* NULL: there is none. */
const char *pairs_get(const struct pairs *pairs, const char *name);
/* "" removes. Errors: -ENOMEM; then nothing has changed. */
MUST_CHECK int pairs_set(struct pairs *pairs, const char *name, const char *value);
void pairs_deinit(struct pairs *pairs);
/* All of `changes` or none. Errors: -ENOMEM. */
MUST_CHECK int pairs_apply(struct pairs *pairs, const struct system_pair *changes, size_t count);

#endif
