/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory - data buffers of a poll group, in sizes that are powers of two: one piece for any request.
 *
 * Each size has address space for `most` bytes of its own, so no size can crowd out another and nothing fragments. A page
 * costs memory from its first use until its buffer has been idle for a while. How many bytes may be lent in all is decided
 * elsewhere (share.h). One thread.
 */
#ifndef WIRE_CONN_MEMORY_H
#define WIRE_CONN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum {
	MEMORY_BYTES_MIN = 16384, /* the smallest buffer */
	MEMORY_SIZES_MAX = 10,	  /* 16 KiB ... 8 MiB */
	MEMORY_ROUNDS_IDLE =
		8, /* memory_trim(): unused for so many of them, or twice as many, a buffer gives its pages back */
};

struct memory_size {
	uint8_t *base;
	uint32_t *free; /* indexes of buffers that were used and are free; last used, first taken: it is in the cache */
	uint32_t free_count;
	uint32_t next; /* the first that was never used */
	uint32_t count;
	/* how many at the bottom of `free` ... */
	uint32_t idle_count;  /* were not used in this MEMORY_ROUNDS_IDLE */
	uint32_t trim_count;  /* nor in the one before: to be trimmed */
	uint32_t clean_count; /* have no pages any more */
};

struct memory {
	uint32_t size_count;
	uint32_t lent_count, rounds;
	struct memory_size sizes[MEMORY_SIZES_MAX];
};

/*
 * Buffers up to `bytes_max` (a power of two, at most 8 MiB), `most_bytes` of each size. -ENOMEM: no address space; nothing
 * is left behind. Pair: memory_deinit(), when all buffers are back.
 */
MUST_CHECK int memory_init(struct memory *memory, uint32_t bytes_max, uint64_t most_bytes);
void memory_deinit(struct memory *memory);

/* The size of the buffer that a request for `bytes` (1 ... bytes_max) takes. */
uint32_t memory_size_for(uint32_t bytes);
/* A buffer of `size` bytes, which memory_size_for() gave, aligned to a page. Not more than most_bytes are lent in all. */
uint8_t *memory_take(struct memory *memory, uint32_t size);
void memory_give(struct memory *memory, uint8_t *buffer, uint32_t size);

/* Once a second: give some of the pages of buffers that have been idle for MEMORY_ROUNDS_IDLE back to the system. */
void memory_trim(struct memory *memory);
/* Nothing is lent: give all pages back. */
void memory_clear(struct memory *memory);

#endif
