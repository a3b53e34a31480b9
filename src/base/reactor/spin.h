/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin - how long an idle reactor polls before it sleeps. Pure: gaps between work in, a duration out.
 *
 * Waking an idle processor costs 15 to 30 us. Polling is cheaper if the next work arrives within about that time; the
 * estimate uses the last gaps.
 *
 *   gap <= base (50 us)       polling for `base` covers the gap: no change, except that misses are reset
 *   gap <= max (200 us)       stretch: move the duration a quarter of the way toward 1.25 gaps (at most `max`)
 *   longer                    a miss: halve the stretch over `base`; after SPIN_MISSES_MAX in a row poll for `min` (5 us)
 */
#ifndef REACTOR_SPIN_H
#define REACTOR_SPIN_H

#include <stdint.h>

#include "base/bits.h"

enum { SPIN_BASE_US = 50, SPIN_MAX_US = 200, SPIN_MIN_US = 5, SPIN_MISSES_MAX = 4 };

struct spin {
	uint64_t min, base, max; /* all equal: not adaptive */
	uint64_t stretched;
	unsigned int misses; /* gaps over max in a row */
	uint64_t ticks;	     /* the result: poll so long */
};

static inline void spin_init(struct spin *spin, uint64_t min, uint64_t base, uint64_t max)
{
	spin->min = min;
	spin->base = spin->stretched = spin->ticks = base;
	spin->max = max;
	spin->misses = 0;
}

/* Record that work arrived after `gap` idle ticks. */
static inline void spin_gap(struct spin *spin, uint64_t gap)
{
	if (gap > spin->max) {
		spin->misses += spin->misses < SPIN_MISSES_MAX;
		spin->stretched -= (spin->stretched - spin->base) / 2;
	} else {
		spin->misses = 0;
		if (gap > spin->base) {
			uint64_t wanted = min_u64(gap + gap / 4, spin->max);

			spin->stretched = (spin->stretched * 3 + wanted) / 4;
		}
	}
	spin->ticks = spin->misses == SPIN_MISSES_MAX ? spin->min : spin->stretched;
}

#endif
