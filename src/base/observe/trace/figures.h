/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * figures - what this process's own trace file says in numbers: histograms of stages, requests under way, lives that were
 * kept. It reads the file's memory as any reader does, so no thread is stopped and none is asked.
 *
 * Control thread, which also closes the file. Without a file all sums are 0 and the walks call nothing.
 */
#ifndef OBSERVE_TRACE_FIGURES_H
#define OBSERVE_TRACE_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "base/observe/trace/latency.h"
#include "fathom/trace/format.h"
#include "fathom/trace/schema.h"

/* Types of requests with histograms: 0 ... count - 1. Their names and the names of their states: the schema's. */
uint32_t trace_figures_type_count(void);
const struct trace_schema_lives *trace_figures_type(uint32_t type);

struct trace_stage_sum {
	uint64_t ticks;
	uint64_t buckets[LATENCY_BUCKETS]; /* each counts its own stays, not those below */
};
/* The stays in `state` (0: whole lives) of all threads. May lack the latest batch of each thread. */
void trace_figures_stage(uint32_t type, uint32_t state, struct trace_stage_sum *sum_ret);

struct trace_totals {
	uint64_t records, overwritten;	 /* of all rings */
	uint64_t unregistered;		 /* events on threads without rings */
	uint64_t kept_slow, kept_failed; /* lives */
};
void trace_figures_totals(struct trace_totals *totals_ret);

/*
 * Call `fn` for each request of object type `type` that is under way. `with`: the story of object type `with_type` with the
 * same id, if that one is under way, too; else NULL. Both may change during the call.
 */
typedef void (*trace_story_fn)(void *ctx, const struct trace_story *story, const struct trace_story *with);
void trace_figures_stories(uint16_t type, uint16_t with_type, trace_story_fn fn, void *ctx);

/* A kept life; the stories are copies. */
struct trace_kept {
	uint16_t why; /* enum trace_exemplar_why */
	uint16_t story_count;
	bool is_named; /* trace_figures_name() copied it, in the present quarter of an hour */
	uint64_t begin_tick, end_tick;
	/* private */
	const struct trace_exemplar *row;
	uint32_t version, thread;
	struct trace_story stories[TRACE_EXEMPLAR_STORIES_MAX];
};
void trace_figures_kept(void (*fn)(void *ctx, const struct trace_kept *kept), void *ctx);

/*
 * Metrics will name this life, which trace_figures_kept() visited: keep a copy of it. Of each quarter of an hour the first
 * 32 are kept for three hours, the others until 128 more were named. False: the life was lost meanwhile, or the file has no
 * room for such lives. Always on the same thread.
 */
MUST_CHECK bool trace_figures_name(const struct trace_kept *kept);

enum { TRACE_BUILD_ID_TEXT_BYTES = 65 };
/* The build id of this program, in hexadecimal; "": not known. */
void trace_figures_build_id(char text[static TRACE_BUILD_ID_TEXT_BYTES]);

/* The text of the owner that had the id at `tick`; false: none, or it was changed during the copy. */
bool trace_figures_owner(uint16_t owner, uint64_t tick, char *text, size_t bytes);

#endif
