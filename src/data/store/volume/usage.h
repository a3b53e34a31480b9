/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usage - how full a pool or a storage is: its level, and when it will be full.
 *
 * The level rises at 80, 90 and 95 %, and falls USAGE_FALL_PERCENT below them, so a value at a limit does not change it
 * again and again. The forecast continues the growth of the last hour, or since the first sample, as a straight line.
 *
 * Pure: no I/O and no clock.
 */
#ifndef DATA_STORE_VOLUME_USAGE_H
#define DATA_STORE_VOLUME_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/must.h"
#include "data/store/volume/states.gen.h" /* enum space_level */
#include "fathom/trace/trace.h"

enum { USAGE_SAMPLES_MAX = 61, USAGE_FALL_PERCENT = 3 };

#define USAGE_SAMPLE_NS (60 * NS_PER_SEC)   /* between two samples; no forecast before */
#define USAGE_WINDOW_NS (3600 * NS_PER_SEC) /* older samples do not count */
#define USAGE_NO_FORECAST UINT64_MAX	    /* it does not grow, or will not be full within ten years */

struct usage {
	struct trace_object trace;
	enum space_level state; /* the level */
	uint64_t used_bytes, limit_bytes;
	uint64_t full_in_ns; /* or USAGE_NO_FORECAST */
	/* private */
	uint32_t first, count;
	struct {
		uint64_t ns, used_bytes;
	} samples[USAGE_SAMPLES_MAX];
};

void usage_init(struct usage *usage);
/* Set the values at `now_ns`, which never decreases. Returns whether the level has changed. */
bool usage_note(struct usage *usage, uint64_t now_ns, uint64_t used_bytes, uint64_t limit_bytes);
/* 0 to 100, rounded down. */
uint32_t usage_percent(const struct usage *usage);

#endif
