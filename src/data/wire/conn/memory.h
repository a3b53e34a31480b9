/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory - data buffers of a poll group, contiguous, in power-of-two sizes.
 *
 * Each size has its own address space of `most` bytes, so sizes do not compete and memory does not fragment. A page uses
 * memory from its first use until its buffer has been idle for MEMORY_ROUNDS_IDLE. share.h limits the bytes lent in all.
 * One thread.
 */
#ifndef WIRE_CONN_MEMORY_H
#define WIRE_CONN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum {
	MEMORY_BYTES_MIN = 16384, /* the smallest buffer */
	MEMORY_SIZES_MAX = 10,	  /* 16 KiB ... 8 MiB */
	MEMORY_ROUNDS_IDLE = 8,	  /* a buffer unused for 8 to 16 calls of memory_trim() loses its pages */
};

struct memory_size {
	uint8_t *base;
	uint32_t *free; /* indexes of free buffers that were used before; a stack, so the next one taken is in the cache */
	uint32_t free_count;
	uint32_t next; /* lowest index never used */
	uint32_t count;
	/* number of buffers at the bottom of `free` that ... */
	uint32_t idle_count;  /* were not used in this period of MEMORY_ROUNDS_IDLE */
	uint32_t trim_count;  /* nor in the previous period: their pages can go */
	uint32_t clean_count; /* have lost their pages */
};

struct memory {
	uint32_t size_count;
	uint32_t lent_count, rounds;
	struct memory_size sizes[MEMORY_SIZES_MAX];
};

/*
 * Create buffers up to `bytes_max` (a power of two, at most 8 MiB), `most_bytes` of each size. -ENOMEM: out of address
 * space; nothing is left allocated. Pair: memory_deinit(), when all buffers are returned.
 */
MUST_CHECK int memory_init(struct memory *memory, uint32_t bytes_max, uint64_t most_bytes);
void memory_deinit(struct memory *memory);

/* The buffer size for a request of `bytes` (1 ... bytes_max). */
uint32_t memory_size_for(uint32_t bytes);
/* A page-aligned buffer of `size` bytes (from memory_size_for()). The caller must not hold more than most_bytes in all. */
uint8_t *memory_take(struct memory *memory, uint32_t size);
void memory_give(struct memory *memory, uint8_t *buffer, uint32_t size);

/* Must be called once a second: returns some pages of idle buffers to the system. */
void memory_trim(struct memory *memory);
/* Return all pages to the system. No buffer may be lent. */
void memory_clear(struct memory *memory);

#endif
