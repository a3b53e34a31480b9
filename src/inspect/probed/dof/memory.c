/* SPDX-License-Identifier: BSD-2-Clause */
/* memory - allocation for a parse, and the single block that holds a set. */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "inspect/probed/dof/internal.h"

enum { ALIGNMENT = 16 };

struct dof_memory_block {
	struct dof_memory_block *next;
	_Alignas(ALIGNMENT) char data[];
};

static void *take_room(struct dof_memory *memory, uint64_t bytes)
{
	size_t left = memory->room_bytes - memory->room_used;
	void *at = memory->room + memory->room_used;

	must(memory->room_used <= memory->room_bytes);
	must((uintptr_t)at % ALIGNMENT == 0);
	if (bytes > left || round_up(bytes, ALIGNMENT) > left)
		return NULL;
	memory->room_used += round_up(bytes, ALIGNMENT);
	must(memory->room_used <= memory->room_bytes);
	return at;
}

void *dof_memory_take(struct dof_memory *memory, uint64_t count, size_t bytes)
{
	struct dof_memory_block *block;
	uint64_t all;

	if (__builtin_mul_overflow(count, (uint64_t)bytes, &all) || all > SIZE_MAX / 2)
		return NULL;
	if (memory->room)
		return take_room(memory, all);
	block = malloc(sizeof(*block) + all);
	if (!block)
		return NULL;
	block->next = memory->blocks;
	memory->blocks = block;
	return block->data;
}

void *dof_memory_keep(struct dof_memory *memory, uint64_t bytes)
{
	if (bytes > SIZE_MAX / 2)
		return NULL;
	return memory->room ? take_room(memory, bytes) : malloc(bytes);
}

void dof_memory_end(struct dof_memory *memory)
{
	while (memory->blocks) {
		struct dof_memory_block *block = memory->blocks;

		memory->blocks = block->next;
		free(block);
	}
}

int dof_layout_make(struct dof_memory *memory, const struct dof_shape *shape, struct dof_set *set_ret,
		    struct dof_layout *layout_ret)
{
	/* each count is limited, so these sums cannot overflow */
	uint64_t bytes = shape->providers * sizeof(struct dof_provider) + shape->probes * sizeof(struct dof_probe) +
			 shape->sites * sizeof(struct dof_site) + shape->types * sizeof(char *) + shape->map_bytes +
			 shape->string_bytes;
	char *at;

	must(shape->providers <= UINT32_MAX && shape->probes <= UINT32_MAX && shape->sites <= UINT32_MAX);
	must(shape->types <= UINT32_MAX && shape->map_bytes <= UINT32_MAX && shape->string_bytes <= UINT32_MAX);
	at = dof_memory_keep(memory, max_u64(bytes, 1));
	if (!at)
		return -ENOMEM;
	*set_ret = (struct dof_set){ .provider_count = (uint32_t)shape->providers,
				     .providers = (void *)at,
				     .memory = memory->room ? NULL : at };
	/* types with 64-bit alignment first, so that each array is aligned at the end of the previous one */
	layout_ret->providers = (void *)at;
	layout_ret->probes = (void *)(layout_ret->providers + shape->providers);
	layout_ret->sites = (void *)(layout_ret->probes + shape->probes);
	layout_ret->types = (void *)(layout_ret->sites + shape->sites);
	layout_ret->map = (void *)(layout_ret->types + shape->types);
	layout_ret->strings = (char *)(layout_ret->map + shape->map_bytes);
	must(layout_ret->strings + shape->string_bytes == at + bytes);
	return 0;
}

void dof_layout_check_filled(const struct dof_layout *layout, const struct dof_shape *shape, const struct dof_set *set)
{
	const struct dof_probe *probes = (const void *)(set->providers + shape->providers);
	const struct dof_site *sites = (const void *)(probes + shape->probes);
	const char **types = (const char **)(uintptr_t)(sites + shape->sites);
	const uint8_t *map = (const uint8_t *)(types + shape->types);

	must(set->provider_count == shape->providers);
	must(layout->providers == set->providers + shape->providers);
	must(layout->probes == probes + shape->probes);
	must(layout->sites == sites + shape->sites);
	must(layout->types == types + shape->types);
	must(layout->map == map + shape->map_bytes);
}

static_assert(_Alignof(struct dof_provider) == 8 && sizeof(struct dof_provider) % 8 == 0, "");
static_assert(_Alignof(struct dof_probe) == 8 && sizeof(struct dof_probe) % 8 == 0, "");
static_assert(_Alignof(struct dof_site) == 8 && sizeof(struct dof_site) % 8 == 0, "");
static_assert(offsetof(struct dof_memory_block, data) % ALIGNMENT == 0, "a block is aligned for any type");
static_assert(ALIGNMENT >= _Alignof(max_align_t), "");
