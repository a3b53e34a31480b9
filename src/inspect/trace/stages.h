/* SPDX-License-Identifier: BSD-2-Clause */
/* stages - the sums of stages.c, which print_stages.c prints. */
#ifndef INSPECT_TRACE_STAGES_H
#define INSPECT_TRACE_STAGES_H

#include "base/histogram.h"
#include "inspect/trace/internal.h"
#include "inspect/trace/lives.h"

enum {
	STAGE_KINDS_MAX = 8,	/* types of requests */
	STAGE_CLASSES_MAX = 16, /* of I/O, such as reads of 4 KiB */
	STAGE_WAYS = 8,
	STAGE_SETS = 1 << 12, /* at most 8 * 4096 lives in progress */
};

/* Ticks in each state and of whole lives. */
struct stage_sums {
	struct histogram whole;
	struct histogram states[TRACE_STORY_STATES_MAX];
};

struct stage_kind {
	const struct reader_object *object;
	bool wanted;
	uint64_t left_out; /* lives with no recorded begin or end, or without a free place */
	struct stage_sums sums;
	struct reader_lives lives; /* the same sums, in the form of files with histograms */
};

/* Lives of one type with the same operation and size. */
struct stage_class {
	const struct reader_object *object, *child;
	const char *what; /* a label of the schema */
	uint64_t bytes;
	uint32_t child_state; /* of the parent, when the child began */
	struct stage_sums sums, child_sums;
	struct histogram beside; /* time of the parent in child_state outside the child's life */
};

/* A request in progress. */
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

/* Number of lives of `kind` in progress. */
uint64_t stages_under_way(const struct reader_stages *stages, const struct stage_kind *kind);

/* Copy the sums of `object`'s ended lives. False: none have ended. */
bool stages_lives(const struct reader_stages *stages, const struct reader_object *object, struct reader_lives *lives_ret);
/* Number of lives that entered their present state before `tick`; resting states do not count. */
uint64_t stages_waiting(const struct reader_stages *stages, uint64_t tick);

#endif
