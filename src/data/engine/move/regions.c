/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/engine/move/regions.h"

#include <stdlib.h>

#include "base/bits.h"
#include "base/must.h"

void move_regions_reset(struct move_regions *regions, uint64_t size_bytes, uint64_t region_bytes)
{
	must(size_bytes > 0 && is_power_of_two(region_bytes));
	free(regions->bits);
	while ((size_bytes + region_bytes - 1) / region_bytes > MOVE_REGIONS_MAX)
		region_bytes *= 2;
	regions->size_bytes = size_bytes;
	regions->region_bytes = region_bytes;
	regions->words = ((size_bytes + region_bytes - 1) / region_bytes + 63) / 64;
	regions->bits = calloc(regions->words, sizeof(*regions->bits));
	must(regions->bits);
}

void move_regions_free(struct move_regions *regions)
{
	free(regions->bits);
	*regions = (struct move_regions){ 0 };
}

void move_regions_add(struct move_regions *regions, uint64_t offset, uint64_t bytes)
{
	uint64_t end;

	if (bytes == 0 || offset >= regions->size_bytes)
		return;
	end = offset + min_u64(bytes, regions->size_bytes - offset);
	for (uint64_t region = offset / regions->region_bytes; region <= (end - 1) / regions->region_bytes; region++)
		regions->bits[region / 64] |= 1ull << (region % 64);
}

uint8_t *move_regions_encode(const struct move_regions *regions, size_t *bytes_ret, uint64_t *count_ret)
{
	size_t bytes = regions->size_bytes / regions->region_bytes / 8 + 1;
	uint8_t *encoded = calloc(1, bytes);
	uint64_t count = 0;

	must(encoded);
	for (uint64_t i = 0; i < regions->words * 64; i++) {
		if (!(regions->bits[i / 64] & (1ull << (i % 64))))
			continue;
		must(i / 8 < bytes);
		encoded[i / 8] |= (uint8_t)(1u << (i % 8));
		count++;
	}
	*bytes_ret = bytes;
	*count_ret = count;
	return encoded;
}
