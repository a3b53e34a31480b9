/* SPDX-License-Identifier: BSD-2-Clause */
/* Stages of requests, and commands under way, from the trace file's memory: no reactor is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/observe/trace/figures.h"
#include "base/observe/trace/points.gen.h"
#include "data/engine/figures/figures.h"
#include "data/target/request/states.gen.h"

static void add_stage(struct figures *figures, const struct trace_schema_lives *type, uint32_t index, uint32_t state)
{
	struct trace_stage_sum sum;
	uint64_t count = 0;
	struct figure_histogram histogram = { .buckets = sum.buckets };

	trace_figures_stage(index, state, &sum);
	for (int i = 0; i < LATENCY_BUCKETS; i++)
		count += sum.buckets[i];
	histogram.sum_seconds = figures_seconds(sum.ticks);
	if (count > 0)
		figure_stage_seconds(figures, type->name, state ? type->states[state] : "ALL", &histogram);
}

/* ---- commands under way ---- */

struct pair {
	uint16_t owner; /* of the device; 0: none */
	uint8_t state;
	uint64_t count, begin_tick; /* of the oldest */
};

struct pairs {
	struct pair pairs[FIGURES_PAIRS_MAX];
	size_t count;
	uint64_t old_tick; /* a command that began before waits for too long */
};

static void add_request(void *ctx, const struct trace_story *story, const struct trace_story *io)
{
	uint64_t begin = story->ticks[0] & ~TICK_SHARED;
	uint16_t owner = io ? io->trace.owner : 0;
	uint8_t state = story->state;
	struct pairs *pairs = ctx;
	size_t i;

	/* an event request rests until something happens; a state of 0: it has just ended */
	if (state == NVMF_REQ_WAIT_EVENT || state == NVMF_REQ_FREE)
		return;
	engine_figures_note(FIGURE_CHECK_REQUESTS_WAITING, (int64_t)(pairs->old_tick - begin) > 0);
	for (i = 0; i < pairs->count; i++) {
		if (pairs->pairs[i].owner == owner && pairs->pairs[i].state == state)
			break;
	}
	if (i == FIGURES_PAIRS_MAX)
		return;
	if (i == pairs->count)
		pairs->pairs[pairs->count++] = (struct pair){ owner, state, 0, begin };
	pairs->pairs[i].count++;
	pairs->pairs[i].begin_tick = min_u64(pairs->pairs[i].begin_tick, begin);
}

static void add_pairs(struct figures *figures, const struct trace_schema_lives *type, const struct pairs *pairs)
{
	uint64_t now = clock_ticks();

	for (size_t i = 0; i < pairs->count; i++) {
		const struct pair *pair = &pairs->pairs[i];
		const char *stage = type->states[pair->state];
		char volume[sizeof(((struct trace_owner *)0)->text)] = "";

		(void)trace_figures_owner(pair->owner, UINT64_MAX, volume, sizeof(volume)); /* without a name: "" */
		figure_requests_inflight(figures, volume, stage, (double)pair->count);
		figure_oldest_request_age_seconds(figures, volume, stage,
						  now > pair->begin_tick ? figures_seconds(now - pair->begin_tick) : 0);
	}
}

void engine_figures_requests(struct figures *figures)
{
	struct pairs *pairs = calloc(1, sizeof(*pairs));

	must(pairs);
	pairs->old_tick = clock_ticks() - FIGURES_OLD_SEC * clock_tick_rate();
	for (uint32_t i = 0; i < trace_figures_type_count(); i++) {
		const struct trace_schema_lives *type = trace_figures_type(i);

		for (uint32_t state = 0; state < TRACE_STORY_STATES_MAX && type->states[state]; state++)
			add_stage(figures, type, i, state);
		if (type->object_type != TRACE_OBJECT_NVMF_REQ)
			continue;
		trace_figures_stories(TRACE_OBJECT_NVMF_REQ, TRACE_OBJECT_BDEV_IO, add_request, pairs);
		add_pairs(figures, type, pairs);
	}
	free(pairs);
}
