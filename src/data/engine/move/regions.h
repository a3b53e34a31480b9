/* SPDX-License-Identifier: BSD-2-Clause */
/* move_regions - which regions of a volume or a snapshot one round of a copy has: a bit each, region 0 is bit 0. No I/O. */
#ifndef ENGINE_MOVE_REGIONS_H
#define ENGINE_MOVE_REGIONS_H

#include <stddef.h>
#include <stdint.h>

enum { MOVE_REGIONS_MAX = 1 << 19 };

struct move_regions {
	uint64_t size_bytes, region_bytes; /* of all, which may end within a region; of each: a power of two */
	size_t words;
	uint64_t *bits; /* owned; NULL: none yet */
};

/*
 * Clear all, and cover `size_bytes`, with regions of at least `region_bytes`, a power of two; more if there would be over
 * MOVE_REGIONS_MAX of them. Aborts if out of memory: at most 64 KiB. Pair: move_regions_free().
 */
void move_regions_reset(struct move_regions *regions, uint64_t size_bytes, uint64_t region_bytes);
void move_regions_free(struct move_regions *regions);
/* Add the regions of the range. What is behind the end is ignored. */
void move_regions_add(struct move_regions *regions, uint64_t offset, uint64_t bytes);
/* As bytes, bit 0 of byte 0 is region 0: the caller's to free. */
uint8_t *move_regions_encode(const struct move_regions *regions, size_t *bytes_ret, uint64_t *count_ret);

#endif
