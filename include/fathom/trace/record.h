/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record - the hot function of tracing, inlined into every probe.
 *
 * No lock, no allocation, no call: it tests the point's bit, finds the thread's ring in thread-local storage, and stores 32
 * bytes and the new head. The caller passes the tick. On x86 the release store and the fence affect only the compiler.
 */
#ifndef FATHOM_TRACE_RECORD_H
#define FATHOM_TRACE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/trace/api.h"
#include "fathom/trace/format.h"

#ifdef __cplusplus
/* C11 has anonymous and flexible members. C++ compilers accept them; only -Wpedantic warns. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
extern "C" {
#endif

/* The writer's view of a ring: all that a record needs, on one cache line. */
struct trace_lane {
	struct trace_record *records; /* NULL: the thread has no rings */
	uint64_t mask;		      /* entry_count - 1 */
	struct trace_ring *ring;      /* has the only copy of the head */
	uint64_t reserved;
};

/* A pthread's rings. The struct itself is in thread-local storage, which saves a load through a pointer. */
struct trace_writer {
	struct trace_lane lane[TRACE_RINGS_PER_THREAD];
	uint32_t seq;
	struct trace_thread *slot;	   /* NULL: not attached */
	struct trace_lives *lives;	   /* TRACE_LIVES_COUNT of them; NULL: not attached */
	struct trace_exemplars *exemplars; /* NULL: keeps none */
};

/* An interned string: `id` for the ring, `text` for USDT and people. It is never freed. */
struct trace_istr {
	uint32_t id;
	char text[];
};

/* initial-exec: accessed without a call, also in a shared library */
extern __thread struct trace_writer trace_self TRACE_API(trace_self) __attribute__((tls_model("initial-exec")));
extern uint64_t trace_masks[TRACE_POINTS_MAX / 64] TRACE_API(trace_masks); /* recorded for all owners */
extern uint64_t trace_filter_masks[TRACE_POINTS_MAX / 64] TRACE_API(
	trace_filter_masks); /* recorded only for owners in trace_filter_owners */
extern uint64_t trace_filter_owners[TRACE_OWNERS_MAX / 64] TRACE_API(trace_filter_owners);

/* Ticks now; bit 0, TRACE_TICK_SHARED, is clear. Without a time stamp counter: nanoseconds, by a call. Any thread. */
uint64_t trace_now_by_call(void) TRACE_API(trace_now_by_call);

static inline uint64_t trace_now(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc() & ~(uint64_t)TRACE_TICK_SHARED;
#else
	return trace_now_by_call();
#endif
}

/* An event on a thread without rings. */
void trace_count_unregistered(void) TRACE_API(trace_count_unregistered) TRACE_COLD;

static inline bool trace_enabled(uint16_t point)
{
	return (trace_masks[point / 64] >> (point % 64)) & 1;
}

/* True also if a filter may select the point. */
static inline bool trace_wanted(uint16_t point)
{
	return ((trace_masks[point / 64] | trace_filter_masks[point / 64]) >> (point % 64)) & 1;
}

static inline bool trace_passes_filter(uint16_t point, uint16_t owner)
{
	return ((trace_filter_masks[point / 64] >> (point % 64)) & 1) &&
	       ((trace_filter_owners[owner / 64 % (TRACE_OWNERS_MAX / 64)] >> (owner % 64)) & 1);
}

static inline struct trace_record *trace_slot(const struct trace_lane *lane, uint64_t position)
{
	return &lane->records[position & lane->mask];
}

/*
 * A ring is larger than the L1 cache, so a store to its next line waits for memory. Prefetching a line some records ahead,
 * for writing, hides this wait. Behind the ring's end another line is prefetched, which is harmless.
 */
enum { TRACE_PREFETCH_RECORDS = 16 };

static inline void trace_prefetch(const struct trace_record *record)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(record[TRACE_PREFETCH_RECORDS]));
#else
	__builtin_prefetch(record + TRACE_PREFETCH_RECORDS, 1);
#endif
}

static inline void trace_publish(struct trace_lane *lane, uint64_t head)
{
	__atomic_store_n(&lane->ring->head, head, __ATOMIC_RELEASE);
	/* the next record overwrites an old one: its stores must not be visible before the new head */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Two fields in one store: a record has seven fields, and a processor completes two stores per cycle. */
static inline uint64_t trace_word(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

/* Record an event with up to three argument slots. Eight parameters, because it is inlined: none of them is stored. */
static inline void trace_record(uint64_t tick, uint16_t point, enum trace_ring_kind kind, uint16_t owner, uint32_t object,
				uint32_t arg0, uint32_t arg1, uint32_t arg2)
{
	struct trace_lane *lane = &trace_self.lane[kind];
	struct trace_record *record;
	uint64_t head;

	if (TRACE_UNLIKELY(!trace_enabled(point)) && !trace_passes_filter(point, owner))
		return;
	if (TRACE_UNLIKELY(!lane->records)) {
		trace_count_unregistered();
		return;
	}
	head = lane->ring->head;
	record = trace_slot(lane, head);
	trace_prefetch(record);
	record->tick = tick;
	record->words[0] = trace_word(trace_self.seq++, point | (uint32_t)owner << 16);
	record->words[1] = trace_word(object, arg0);
	record->words[2] = trace_word(arg1, arg2);
	trace_publish(lane, head + 1);
}

/* Record an event with more slots, with continuation records. Only for rare events, so it is not inlined. */
void trace_record_long(uint64_t tick, uint16_t point, enum trace_ring_kind kind, uint16_t owner, uint32_t object,
		       const uint32_t *slots, size_t slot_count) TRACE_API(trace_record_long);

/* An object of any type in one slot, for `ref` arguments: type << 24 | id, cut; UINT32_MAX: none. */
static inline uint32_t trace_ref(const struct trace_object *object)
{
	return object ? (uint32_t)object->type << 24 | (object->id & 0xffffff) : UINT32_MAX;
}

/*
 * The offset of a function in the program's file, for `function` arguments. It does not depend on the load address; the
 * trace has the file's build-id.
 */
extern const char __executable_start[]; /* defined by the linker */

static inline uint64_t trace_place(const void *function)
{
	return (uint64_t)((uintptr_t)function - (uintptr_t)__executable_start);
}

/* A story enters a state. Used by generated code only. */
static inline void trace_story_enter(struct trace_story *story, uint8_t from, uint8_t to, uint64_t tick)
{
	if (from == 0) {
		story->ticks[0] = tick;
		story->path = 0;
		story->life++;
	}
	if (to != 0) {
		story->ticks[to] = tick;
		story->path |= (uint16_t)(1u << to);
	}
	story->state = to;
}

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
