/* SPDX-License-Identifier: BSD-2-Clause */
/* regions, internal: lists of regions of a device, a bit for each. */
#ifndef STORE_BDEV_REGIONS_H
#define STORE_BDEV_REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORD_BITS = 64 };

static inline size_t word_count(uint64_t region_count)
{
	return (region_count + WORD_BITS - 1) / WORD_BITS;
}

/* The bits from `first` to `last` that lie in the word `index`. */
static inline uint64_t word_mask(uint64_t index, uint64_t first, uint64_t last)
{
	uint64_t mask = UINT64_MAX;

	if (index == first / WORD_BITS)
		mask &= UINT64_MAX << (first % WORD_BITS);
	if (index == last / WORD_BITS)
		mask &= UINT64_MAX >> (WORD_BITS - 1 - last % WORD_BITS);
	return mask;
}

static inline bool any_set(const uint64_t *bits, uint64_t first, uint64_t last)
{
	for (uint64_t i = first / WORD_BITS; i <= last / WORD_BITS; i++) {
		if (bits[i] & word_mask(i, first, last))
			return true;
	}
	return false;
}

static inline void clear_bits(uint64_t *bits, uint64_t first, uint64_t last)
{
	for (uint64_t i = first / WORD_BITS; i <= last / WORD_BITS; i++)
		bits[i] &= ~word_mask(i, first, last);
}

static inline void set_bits(uint64_t *bits, uint64_t first, uint64_t last)
{
	for (uint64_t i = first / WORD_BITS; i <= last / WORD_BITS; i++)
		bits[i] |= word_mask(i, first, last);
}

#endif
