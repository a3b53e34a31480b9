/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * life - the end of a request's life: adds its stages to histograms, and keeps it whole if it was slow or failed.
 *
 * Requests of one batch have the same ticks, because one clock read serves them all. So a life equal to the previous one
 * costs a few comparisons and an increment; a different one is added by a call. Used by generated code only.
 */
#ifndef FATHOM_TRACE_LIFE_H
#define FATHOM_TRACE_LIFE_H

#include "fathom/trace/record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Add a life that differs from the previous one, or is to be kept. `with`: the story of its I/O; NULL: none. */
void trace_life_sum(struct trace_lives *lives, struct trace_story *story, const struct trace_story *with, bool failed,
		    bool may_keep, uint64_t now) TRACE_API(trace_life_sum);

static inline bool trace_tick_is(uint64_t a, uint64_t b)
{
	return (a ^ b) <= TRACE_TICK_SHARED;
}

static inline bool trace_life_is_alike(const struct trace_lives *lives, const struct trace_story *story, uint64_t now)
{
	uint32_t left = story->path;

	if (lives->last.path != left || lives->last.slow || !trace_tick_is(lives->last.end, now) ||
	    !trace_tick_is(lives->last.ticks[0], story->ticks[0]))
		return false;
	for (; left; left &= left - 1) {
		int state = __builtin_ctz(left);

		if (!trace_tick_is(lives->last.ticks[state], story->ticks[state]))
			return false;
	}
	return true;
}

/* `story`, of type TRACE_LIVES_* `type`, has entered state 0 at `now`. */
static inline void trace_life_end(unsigned int type, struct trace_story *story, const struct trace_story *with, bool failed,
				  bool may_keep, uint64_t now)
{
	struct trace_lives *lives = trace_self.lives;

	if (TRACE_UNLIKELY(!lives))
		return;
	lives += type;
	if (TRACE_LIKELY(!failed) && trace_life_is_alike(lives, story, now))
		lives->last.alike++;
	else
		trace_life_sum(lives, story, with, failed, may_keep, now);
}

/* The histogram's bucket for a stay of `ticks`. */
static inline unsigned int trace_bucket(uint64_t ticks)
{
	int doublings;

	if (ticks < 2 * TRACE_BUCKETS_OCTAVE)
		return (unsigned int)ticks;
	doublings = 63 - __builtin_clzll(ticks);
	if (TRACE_UNLIKELY(doublings > 47))
		return TRACE_BUCKETS - 1;
	return TRACE_BUCKETS_OCTAVE * (unsigned int)(doublings - 2) +
	       (unsigned int)(ticks >> (doublings - 3)) % TRACE_BUCKETS_OCTAVE;
}

/* The shortest stay in the bucket. */
static inline uint64_t trace_bucket_begin(unsigned int bucket)
{
	if (bucket < 2 * TRACE_BUCKETS_OCTAVE)
		return bucket;
	return (uint64_t)(TRACE_BUCKETS_OCTAVE + bucket % TRACE_BUCKETS_OCTAVE) << (bucket / TRACE_BUCKETS_OCTAVE - 1);
}

#ifdef __cplusplus
}
#endif

#endif
