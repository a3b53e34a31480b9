/* SPDX-License-Identifier: BSD-2-Clause */
/* stages - what stages.c has summed up, for print_stages.c. */
#ifndef INSPECT_TRACE_STAGES_H
#define INSPECT_TRACE_STAGES_H

#include "base/histogram.h"
#include "inspect/trace/internal.h"
#include "inspect/trace/lives.h"

enum {
	STAGE_KINDS_MAX = 8,	/* types of requests */
	STAGE_CLASSES_MAX = 16, /* of I/O, such as reads of 4 KiB */
	STAGE_WAYS = 8,
	STAGE_SETS = 1 << 12, /* lives under way at a time: 8 * 4096 at most */
};

/* Ticks, of each state and of lives. */
struct stage_sums {
	struct histogram whole;
	struct histogram states[TRACE_STORY_STATES_MAX];
};

struct stage_kind {
	const struct reader_object *object;
	bool wanted;
	uint64_t left_out; /* lives that were not seen to begin, or not to end, or for which there was no place */
	struct stage_sums sums;
	struct reader_lives lives; /* the same in the form of files that have histograms */
};

/* Lives of one type that were about the same: what was done, and to how many bytes. */
struct stage_class {
	const struct reader_object *object, *child;
	const char *what; /* a label of the schema */
	uint64_t bytes;
	uint32_t child_state; /* of the parent, when the child began */
	struct stage_sums sums, child_sums;
	struct histogram beside; /* the rest of the time in child_state */
};

/* A request under way. */
struct stage_life {
	uint32_t id;
	uint16_t type; /* 0: the place is free */
	uint8_t state;
	uint8_t child_state;
	uint32_t visited, child_visited; /* bits: states */
	uint32_t parent_id;
	uint16_t parent_type; /* 0: none */
	uint16_t child_type;  /* 0: none yet */
	uint32_t child_count;
	bool has_bytes;
	const char *what; /* NULL: not known */
	uint64_t bytes, entered, child_whole;
	uint64_t sums[TRACE_STORY_STATES_MAX], child_sums[TRACE_STORY_STATES_MAX];
};

struct reader_stages {
	const struct reader *reader;
	uint64_t first_tick, last_tick;
	uint32_t kind_count, class_count;
	bool chosen; /* only kinds that are `wanted` are printed */
	struct stage_kind kinds[STAGE_KINDS_MAX];
	struct stage_class *classes[STAGE_CLASSES_MAX];
	struct stage_life sets[STAGE_SETS][STAGE_WAYS];
};

/* Lives of `kind` that have begun and not ended. */
uint64_t stages_under_way(const struct reader_stages *stages, const struct stage_kind *kind);

/* What ended of `object`'s lives. False: none. */
bool stages_lives(const struct reader_stages *stages, const struct reader_object *object, struct reader_lives *lives_ret);
/* Lives that entered their present state before `tick`, but for resting ones. */
uint64_t stages_waiting(const struct reader_stages *stages, uint64_t tick);

#endif
