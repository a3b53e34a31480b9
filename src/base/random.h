/* SPDX-License-Identifier: BSD-2-Clause */
/* random - a small seeded generator (splitmix64): the same seed gives the same numbers everywhere. Not for secrets. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state;
};

static inline void random_init(struct random *random, uint64_t seed)
{
	random->state = seed;
}

static inline uint64_t random_next(struct random *random)
{
	uint64_t z = (random->state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* In [0, below). `below` is not 0. */
static inline uint64_t random_below(struct random *random, uint64_t below)
{
	return (uint64_t)(((unsigned __int128)random_next(random) * below) >> 64);
}

#endif
