/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load - how much I/O there was in the last minute, from totals that are read now and then.
 *
 * The window keeps a few earlier sums with their times, the oldest about a minute old. A total that is below the one before
 * has lost what a volume that is gone had counted, or was reset; then nothing is added for this reading. So the figures are
 * for choosing an engine, not for an account.
 *
 * load_window_*() do no I/O and read no clock. Thread: control.
 */
#ifndef DATA_ENGINE_LOAD_H
#define DATA_ENGINE_LOAD_H

#include <stdint.h>

#include "base/clock.h"

#define LOAD_SAMPLE_NS (10 * NS_PER_SEC)
#define LOAD_WINDOW_NS (60 * NS_PER_SEC)

enum { LOAD_SAMPLES_MAX = 6 };
_Static_assert(LOAD_SAMPLES_MAX *LOAD_SAMPLE_NS == LOAD_WINDOW_NS, "the samples cover the window");

struct load {
	uint64_t operations, bytes;
};

struct load_window {
	struct load totals; /* as of the last reading */
	struct load sums;   /* of all increases since the first reading */
	uint32_t count;	    /* readings that are kept; the oldest first */
	struct load_sample {
		uint64_t at_ns;
		struct load sums;
	} samples[LOAD_SAMPLES_MAX + 1];
};

/* Add a reading of the totals at `now_ns`, which never goes back. A window of zeroes is empty. */
void load_window_add(struct load_window *window, uint64_t now_ns, const struct load *totals);
/* The increase in the last minute, or since the first reading if that is later. */
struct load load_window_minute(const struct load_window *window);

/* Read the totals of all volumes of the engine now and then, until load_stop(). */
void load_start(void);
void load_stop(void);
/* The I/O of all volumes in the last minute. Without load_start(): none. */
struct load load_read(void);

#endif
