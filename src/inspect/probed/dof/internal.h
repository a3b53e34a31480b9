/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of this folder: allocation, the memory layout of a set, sorting. */
#ifndef PROBED_DOF_INTERNAL_H
#define PROBED_DOF_INTERNAL_H

#include "inspect/probed/dof/dof.h"

/* ---- memory ---- */

struct dof_memory_block;

/*
 * Memory of one call: from malloc(), or from a preallocated room if system calls are forbidden. It is not zeroed, and
 * dof_memory_end() frees it. {0}: malloc().
 */
struct dof_memory {
	char *room;
	size_t room_bytes, room_used;
	struct dof_memory_block *blocks;
};

/* NULL: out of memory. Aligned for any type. */
void *dof_memory_take(struct dof_memory *memory, uint64_t count, size_t bytes);
/* As above, but dof_memory_end() does not free it: the caller does with free(), or it lives as long as the room. */
void *dof_memory_keep(struct dof_memory *memory, uint64_t bytes);
void dof_memory_end(struct dof_memory *memory);

/* ---- memory layout of a set ---- */

struct dof_shape {
	uint64_t providers, probes, sites, types, map_bytes, string_bytes;
};

/* The next unused element of each array. */
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

/* After a set was filled: each array holds exactly the counted elements. Strings are the caller's to check. */
void dof_layout_check_filled(const struct dof_layout *layout, const struct dof_shape *shape, const struct dof_set *set);

/* ---- names, order ---- */

/* Whether a type, or a site's `args`, is printable: no control characters, shorter than `bytes_max`. */
bool dof_text_ok(const char *text, size_t bytes_max);

/* The order in a set: module, function, name. Result as of strcmp(). */
int dof_probe_compare(const struct dof_probe *a, const struct dof_probe *b);
/* By address, then firing sites before is-enabled sites. */
int dof_site_compare(const void *a, const void *b);

/*
 * Merge sort by `compare`, with `scratch` as large as the items. Linear if they are in order. qsort() must not be used: it
 * may allocate memory.
 */
void dof_sort(void *items, size_t count, size_t bytes, int (*compare)(const void *, const void *), void *scratch);

/* ---- parts of dof_parse() ---- */

struct dof_parsing {
	const struct dof_input *input;
	struct dof_limits limits; /* defaults filled in */
	struct dof_memory *memory;
	struct fathom_fault *why;
};

/* -ENOMEM is not explained. */
MUST_CHECK int dof_parse_object(const struct dof_parsing *parsing, struct dof_set *set_ret);
MUST_CHECK int dof_parse_usdt(const struct dof_parsing *parsing, struct dof_set *set_ret);
MUST_CHECK int dof_parse_sdt(const struct dof_parsing *parsing, struct dof_set *set_ret);
/* dof_parse() with the caller's memory. With a room, the set's strings from DOF point into the object. */
MUST_CHECK int dof_parse_in(struct dof_memory *memory, const struct dof_input *input, const struct dof_limits *limits,
			    struct dof_set *set_ret, struct fathom_fault *why);

#endif
