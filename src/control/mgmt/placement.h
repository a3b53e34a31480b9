/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * placement - choose the rank of a volume, and the ranks of a pool, from figures that the caller has collected.
 *
 * A rank is possible if it has joined, its storage has not failed, and no operator has excluded it. If the figures of one
 * possible rank are known, ranks without figures are left out. Then those without room are left out, and those that are
 * more than 95 % full, unless an operator named them. Of the others, each of these criteria keeps the best ranks, until one
 * rank is left:
 *
 *     shared domains   only for a pool: the fewest chosen ranks in the same fault domain, level by level from the top
 *     free space       the most room; ranks with at least nine tenths of that are as good
 *     load             the least I/O in the last minute, in classes that double, so that small differences do not count
 *     volumes          the fewest volumes; a published one counts twice
 *     free bytes       the most room
 *     rank             the lowest number
 *
 * Equal input gives equal output. Any thread.
 */
#ifndef CONTROL_MGMT_PLACEMENT_H
#define CONTROL_MGMT_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

enum {
	PLACEMENT_LEVELS_MAX = 8,	/* of a fault domain; deeper ones count as one */
	PLACEMENT_FULL_PARTS = 20,	/* a storage with less than this part free is nearly full */
	PLACEMENT_NEAR_PARTS = 10,	/* rooms that differ by at most this part of the largest are equal */
	PLACEMENT_IO_BYTES = 16384,	/* what an operation counts for, besides its bytes */
	PLACEMENT_IDLE_BYTES = 64 << 20 /* I/O of a minute below this is none */
};

/* Why a rank was chosen: the criterion that left only this one. Stored by name (docs/formats/catalog.md). */
enum placement_reason {
	PLACEMENT_UNKNOWN,   /* not stored: of an older release */
	PLACEMENT_REQUESTED, /* the request named this rank alone */
	PLACEMENT_ONLY,	     /* no other rank was possible */
	PLACEMENT_SPACE,
	PLACEMENT_LOAD,
	PLACEMENT_VOLUMES,
	PLACEMENT_FREE_BYTES,
	PLACEMENT_RANK,
	PLACEMENT_ORIGIN, /* a clone is on the rank of its origin */
	PLACEMENT_REASONS,
};
/* "most free space" ..., as it is stored and shown; "" for UNKNOWN. */
const char *placement_reason_text(enum placement_reason reason);
/* UNKNOWN: no reason has this text. */
enum placement_reason placement_reason_parse(const char *text);

/* What is known of a rank. */
struct placement_rank {
	uint32_t rank;
	const char *domain; /* "/rack0/node0"; borrowed */
	bool is_joined, is_failed, is_excluded;
	bool is_named;	     /* by an operator: it may be nearly full */
	bool is_known;	     /* its engine has given the figures below */
	uint64_t room_bytes; /* what a volume can get: of the free bytes, or less because of the pool's limit */
	uint64_t free_bytes, total_bytes; /* of its storage */
	uint64_t operations, bytes;	  /* I/O of the last minute */
	uint32_t volumes, published;
	/* ---- the functions below use these ---- */
	bool is_possible, is_kept, is_chosen;
	uint32_t shared[PLACEMENT_LEVELS_MAX]; /* chosen ranks in the same domain, by level */
};

struct placement {
	uint32_t index; /* of the chosen rank */
	enum placement_reason reason;
	uint32_t possible;  /* ranks that could have it */
	uint32_t full;	    /* ranks that were left out because they are nearly full, */
	uint32_t full_rank; /* and the first of them */
	uint32_t most_rank; /* -ENOSPC: the rank with the most room */
	uint64_t most_bytes;
};

/*
 * Choose a rank for a volume that needs `bytes`; 0: none are promised to it. Errors: -ENOENT (none is possible), -ENOSPC
 * (none has the room: most_rank, most_bytes), -EDQUOT (all that have it are nearly full: full, full_rank).
 */
MUST_CHECK int placement_choose(struct placement_rank *ranks, uint32_t count, uint64_t bytes,
				struct placement *placement_ret);
/*
 * Choose `wanted` ranks for a pool, or all that are possible if there are not more: is_chosen of each. Returns how many are
 * chosen; `possible`, `full` and `full_rank` of `*placement_ret` are set.
 */
uint32_t placement_spread(struct placement_rank *ranks, uint32_t count, uint32_t wanted, struct placement *placement_ret);

#endif
