/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/pool/changed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

enum { PAGE_EXTENTS = 512 };
static_assert(CHANGED_EXTENTS_MAX >= 4 * PAGE_EXTENTS, "a call gets further than the first pages");

/* The map of one file, a page of it at a time. */
struct map {
	const struct pool_fs *fs;
	int fd; /* -1: an empty file */
	uint64_t bytes;
	uint32_t count, index; /* of the page */
	bool is_last;	       /* no extent follows the page */
	uint32_t extents_read;
	struct pool_extent page[PAGE_EXTENTS];
};

/* What a file has from an offset on, without a change. */
struct piece {
	uint64_t bytes;
	bool is_data, is_shared; /* neither: it reads as zeroes */
	uint64_t physical;	 /* is_shared */
};

/* Make page[index] the first extent that ends behind `at`, if there is one. */
static int map_seek(struct map *map, uint64_t at)
{
	int count;

	for (;;) {
		while (map->index < map->count && map->page[map->index].offset + map->page[map->index].bytes <= at)
			map->index++;
		if (map->index < map->count || map->is_last)
			return 0;
		count = map->fs->map(map->fs->ctx, map->fd, at, map->page, PAGE_EXTENTS);
		if (count < 0)
			return count;
		must(count <= PAGE_EXTENTS);
		map->count = (uint32_t)count;
		map->index = 0;
		map->extents_read += map->count;
		map->is_last = count < PAGE_EXTENTS;
	}
}

static int map_piece(struct map *map, uint64_t at, struct piece *piece_ret)
{
	const struct pool_extent *extent;
	uint64_t begin = map->bytes;
	int error;

	*piece_ret = (struct piece){ .bytes = UINT64_MAX };
	if (map->fd < 0 || at >= map->bytes)
		return 0;
	error = map_seek(map, at);
	if (error)
		return error;
	extent = &map->page[map->index];
	if (map->index < map->count)
		begin = min_u64(begin, extent->offset);
	if (at < begin) {
		piece_ret->bytes = begin - at;
		return 0;
	}
	piece_ret->bytes = min_u64(extent->offset + extent->bytes, map->bytes) - at;
	piece_ret->is_data = extent->is_data;
	piece_ret->is_shared = extent->is_data && extent->is_shared;
	piece_ret->physical = extent->physical + (at - extent->offset);
	return 0;
}

static bool is_equal(const struct piece *from, const struct piece *to)
{
	if (!from->is_data && !to->is_data)
		return true;
	return from->is_shared && to->is_shared && from->physical == to->physical;
}

/* Add a range, or make the last one longer. */
static void add_range(struct changed_range *ranges, uint32_t *count, uint64_t offset, uint64_t bytes, bool is_zero)
{
	struct changed_range *last = *count > 0 ? &ranges[*count - 1] : NULL;

	if (last && last->offset + last->bytes == offset && last->is_zero == is_zero)
		last->bytes += bytes;
	else
		ranges[(*count)++] = (struct changed_range){ offset, bytes, is_zero };
}

static int compare_maps(struct map *from, struct map *to, const struct changed_query *query, struct changed_range *ranges,
			uint32_t *count_ret, uint64_t *next_ret)
{
	uint64_t at = query->offset;
	uint32_t count = 0;

	while (at < to->bytes && count < query->ranges_max && from->extents_read + to->extents_read < CHANGED_EXTENTS_MAX) {
		struct piece old, new;
		uint64_t bytes;
		int error = map_piece(from, at, &old);

		if (!error)
			error = map_piece(to, at, &new);
		if (error)
			return error;
		bytes = min_u64(min_u64(old.bytes, new.bytes), to->bytes - at);
		must(bytes > 0);
		if (!is_equal(&old, &new))
			add_range(ranges, &count, at, bytes, !new.is_data);
		at += bytes;
	}
	*count_ret = count;
	*next_ret = at;
	return 0;
}

int changed_read(const struct pool_fs *fs, const struct changed_query *query, struct changed_range *ranges,
		 uint32_t *count_ret, uint64_t *next_offset_ret, struct fathom_fault *why)
{
	struct map *maps = calloc(2, sizeof(*maps));
	int error;

	must(query->ranges_max > 0 && query->ranges_max <= CHANGED_RANGES_MAX);
	if (!maps)
		return fault(why, -ENOMEM, "out of memory");
	for (int i = 0; i < 2; i++) {
		maps[i].fs = fs;
		maps[i].fd = i == 0 ? query->from : query->to;
		maps[i].bytes = i == 0 ? query->from_bytes : query->to_bytes;
	}
	error = compare_maps(&maps[0], &maps[1], query, ranges, count_ret, next_offset_ret);
	free(maps);
	return error ? fault(why, error, "cannot read which blocks a file has: %s", strerror(-error)) : 0;
}
