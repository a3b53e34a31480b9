/* SPDX-License-Identifier: BSD-2-Clause */
/* bits - small arithmetic that every module needs. */
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BIT(n) (1ull << (n))
#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define CACHE_LINE_BYTES 64
#define CACHE_ALIGNED __attribute__((aligned(CACHE_LINE_BYTES)))

#define container_of(member_pointer, type, member) ((type *)(void *)((char *)(member_pointer)-offsetof(type, member)))

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline bool is_power_of_two(uint64_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

/* `to` is a power of two. */
static inline uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) & ~(to - 1);
}

static inline uint64_t round_up_power_of_two(uint64_t n)
{
	return n <= 1 ? 1 : 1ull << (64 - __builtin_clzll(n - 1));
}

/* Returns true if `bytes` is 0. */
static inline bool is_all_zero(const void *data, size_t bytes)
{
	const uint8_t *at = data;

	/* the first byte is 0 and each byte equals the next */
	return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
}

#endif
