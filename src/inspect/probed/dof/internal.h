/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this folder share: where memory comes from, the one piece that a set lies in, sorting. */
#ifndef PROBED_DOF_INTERNAL_H
#define PROBED_DOF_INTERNAL_H

#include "inspect/probed/dof/dof.h"

/* ---- memory ---- */

struct dof_memory_block;

/*
 * Memory of one call: from malloc(), or a room given beforehand for where no system call may be made. What is taken is
 * not zeroed, and goes with dof_memory_end(). {0}: malloc().
 */
struct dof_memory {
	char *room;
	size_t room_bytes, room_used;
	struct dof_memory_block *blocks;
};

/* NULL: there is no more. Aligned for anything. */
void *dof_memory_take(struct dof_memory *memory, uint64_t count, size_t bytes);
/* One that stays: for free(), or for as long as the room. */
void *dof_memory_keep(struct dof_memory *memory, uint64_t bytes);
void dof_memory_end(struct dof_memory *memory);

/* ---- the piece that a set lies in ---- */

struct dof_shape {
	uint64_t providers, probes, sites, types, map_bytes, string_bytes;
};

/* The next of each that is not yet used. */
struct dof_layout {
	struct dof_provider *providers;
	struct dof_probe *probes;
	struct dof_site *sites;
	const char **types;
	uint8_t *map;
	char *strings;
};

/* -ENOMEM. */
MUST_CHECK int dof_layout_make(struct dof_memory *memory, const struct dof_shape *shape, struct dof_set *set_ret,
			       struct dof_layout *layout_ret);

/* ---- names, order ---- */

/* Whether a type, or the words of a site's arguments, can be shown: no control characters, shorter than `bytes_max`. */
bool dof_text_ok(const char *text, size_t bytes_max);

/* The order in which a set has them: module, function, name. As strcmp(). */
int dof_probe_compare(const struct dof_probe *a, const struct dof_probe *b);
/* Address, then what fires before what asks. */
int dof_site_compare(const void *a, const void *b);

/*
 * Merge sort: in order of `compare`, with `scratch` as large as the items. Linear if they are in order. (qsort() may ask
 * for memory.)
 */
void dof_sort(void *items, size_t count, size_t bytes, int (*compare)(const void *, const void *), void *scratch);

/* ---- parts of dof_parse() ---- */

struct dof_parsing {
	const struct dof_input *input;
	struct dof_limits limits; /* with the defaults in place */
	struct dof_memory *memory;
	struct fault *why;
};

/* -ENOMEM is not explained. */
MUST_CHECK int dof_parse_object(const struct dof_parsing *parsing, struct dof_set *set_ret);
MUST_CHECK int dof_parse_usdt(const struct dof_parsing *parsing, struct dof_set *set_ret);
MUST_CHECK int dof_parse_sdt(const struct dof_parsing *parsing, struct dof_set *set_ret);
/* In a memory of the caller's. If that is a room, the strings of DOF stay in the object. */
MUST_CHECK int dof_parse_in(struct dof_memory *memory, const struct dof_input *input, const struct dof_limits *limits,
			    struct dof_set *set_ret, struct fault *why);

#endif
