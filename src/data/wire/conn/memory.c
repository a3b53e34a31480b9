/* SPDX-License-Identifier: BSD-2-Clause */
/* memory - see memory.h. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "data/wire/conn/memory.h"

enum { TRIM_BYTES_MAX = 8 << 20 }; /* per round: madvise() takes time, and the reactor has other work */

static_assert((MEMORY_BYTES_MIN & (MEMORY_BYTES_MIN - 1)) == 0, "sizes are powers of two");

static void *reserve_address_range(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static uint32_t size_at(uint32_t i)
{
	return (uint32_t)MEMORY_BYTES_MIN << i;
}

uint32_t memory_size_for(uint32_t bytes)
{
	uint32_t size = MEMORY_BYTES_MIN;

	while (size < bytes)
		size <<= 1;
	return size;
}

static struct memory_size *size_of(struct memory *memory, uint32_t size)
{
	uint32_t i = (uint32_t)(__builtin_ctz(size) - __builtin_ctz(MEMORY_BYTES_MIN));

	must(is_power_of_two(size));
	must(i < memory->size_count);
	return &memory->sizes[i];
}

int memory_init(struct memory *memory, uint32_t bytes_max, uint64_t most_bytes)
{
	uint32_t largest = memory_size_for(bytes_max);

	*memory = (struct memory){ 0 };
	must(most_bytes >= largest);
	for (uint32_t size = MEMORY_BYTES_MIN; size <= largest; size <<= 1) {
		struct memory_size *s = &memory->sizes[memory->size_count];

		must(memory->size_count < MEMORY_SIZES_MAX);
		s->count = (uint32_t)(most_bytes / size);
		s->base = reserve_address_range((size_t)s->count * size);
		s->free = reserve_address_range(s->count * sizeof(*s->free));
		memory->size_count++;
		if (!s->base || !s->free) {
			memory_deinit(memory);
			return -ENOMEM;
		}
	}
	return 0;
}

void memory_deinit(struct memory *memory)
{
	must(memory->lent_count == 0);
	for (uint32_t i = 0; i < memory->size_count; i++) {
		struct memory_size *s = &memory->sizes[i];

		if (s->base)
			munmap(s->base, (size_t)s->count * size_at(i));
		if (s->free)
			munmap(s->free, s->count * sizeof(*s->free));
	}
	*memory = (struct memory){ 0 };
}

uint8_t *memory_take(struct memory *memory, uint32_t size)
{
	struct memory_size *s = size_of(memory, size);
	uint32_t index;

	if (s->free_count > 0) {
		index = s->free[--s->free_count];
		s->idle_count = (uint32_t)min_u64(s->idle_count, s->free_count);
		s->trim_count = (uint32_t)min_u64(s->trim_count, s->free_count);
		s->clean_count = (uint32_t)min_u64(s->clean_count, s->free_count);
	} else {
		must(s->next < s->count);
		index = s->next++;
	}
	memory->lent_count++;
	return s->base + (size_t)index * size;
}

void memory_give(struct memory *memory, uint8_t *buffer, uint32_t size)
{
	struct memory_size *s = size_of(memory, size);
	size_t offset = (size_t)(buffer - s->base);

	must(buffer >= s->base);
	must(offset % size == 0);
	must(offset / size < s->next);
	must(s->free_count < s->next);
	must(memory->lent_count > 0);
	memory->lent_count--;
	s->free[s->free_count++] = (uint32_t)(offset / size);
}

void memory_trim(struct memory *memory)
{
	bool next_period = ++memory->rounds % MEMORY_ROUNDS_IDLE == 0;
	const uint32_t size_count =
		memory->size_count; /* a copy: a compiler must assume that madvise() changes the field */
	uint32_t budget = TRIM_BYTES_MAX;

	must(size_count <= MEMORY_SIZES_MAX);
	for (uint32_t i = 0; i < size_count; i++) {
		struct memory_size *s = &memory->sizes[i];

		while (s->clean_count < s->trim_count && budget >= size_at(i)) {
			uint8_t *buffer = s->base + (size_t)s->free[s->clean_count] * size_at(i);

			(void)madvise(buffer, size_at(i), MADV_DONTNEED); /* on an error the pages stay */
			s->clean_count++;
			budget -= size_at(i);
		}
		if (next_period) {
			s->trim_count = s->idle_count;
			s->idle_count = s->free_count;
		}
	}
}

void memory_clear(struct memory *memory)
{
	must(memory->lent_count == 0);
	for (uint32_t i = 0; i < memory->size_count; i++) {
		struct memory_size *s = &memory->sizes[i];

		must(s->free_count == s->next);
		if (s->next > 0)
			(void)madvise(s->base, (size_t)s->next * size_at(i),
				      MADV_DONTNEED); /* on an error the pages stay */
		s->free_count = s->next = s->idle_count = s->trim_count = s->clean_count = 0;
	}
}
