/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record - the one hot function of tracing, inlined into every probe.
 *
 * No lock, no allocation, no call: a test of the point's bit, the thread's ring out of thread-local storage, 32 bytes, and
 * the new head. The caller brings the tick. On x86 the two fences are for the compiler only.
 */
#ifndef FATHOM_TRACE_RECORD_H
#define FATHOM_TRACE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/trace/api.h"
#include "fathom/trace/format.h"

#ifdef __cplusplus
/* Anonymous and flexible members are C11. Compilers of C++ have them, too, and only -Wpedantic complains. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
extern "C" {
#endif

/* A ring as its writer knows it: all that a record needs, loaded at once. */
struct trace_lane {
	struct trace_record *records; /* NULL: the thread has no rings */
	uint64_t mask;		      /* entry_count - 1 */
	struct trace_ring *ring;      /* its head is read and stored there alone */
	uint64_t reserved;
};

/* A pthread's way to its rings, in thread-local storage itself: a clock read hides no chain of loads behind it. */
struct trace_writer {
	struct trace_lane lane[TRACE_RINGS_PER_THREAD];
	uint32_t seq;
	struct trace_thread *slot;	   /* NULL: not attached */
	struct trace_lives *lives;	   /* TRACE_LIVES_COUNT of them; NULL: not attached */
	struct trace_exemplars *exemplars; /* NULL: keeps none */
};

/* An interned string: `id` for the ring, `text` for USDT and people. Lives as long as the process. */
struct trace_istr {
	uint32_t id;
	char text[];
};

/* initial-exec: found without a call, also in a shared library */
extern __thread struct trace_writer trace_self TRACE_API(trace_self) __attribute__((tls_model("initial-exec")));
extern uint64_t trace_masks[TRACE_POINTS_MAX / 64] TRACE_API(trace_masks); /* recorded without further question */
extern uint64_t trace_filter_masks[TRACE_POINTS_MAX / 64] TRACE_API(
	trace_filter_masks); /* recorded on behalf of chosen owners only */
extern uint64_t trace_filter_owners[TRACE_OWNERS_MAX / 64] TRACE_API(trace_filter_owners); /* these */

/* Ticks now: even, for TRACE_TICK_SHARED. Where there is no counter to read, nanoseconds from a call. Any thread. */
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

/* Also while a filter decides. */
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
 * A ring is larger than the innermost cache, so a store to its next line waits for memory. Asking for the line some records
 * ahead, for writing, takes that wait off a full server. Past the ring's end the line is a stranger's, which is harmless.
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
	/* what comes next overwrites an old record: not before the head that says so */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Two fields in one store: a processor has two of them a cycle, and a record in its fields has seven. */
static inline uint64_t trace_word(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

/* An event with up to three argument slots. */
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

/* An event with more: the same, and continuation records behind it. Rare events only, so out of line. */
void trace_record_long(uint64_t tick, uint16_t point, enum trace_ring_kind kind, uint16_t owner, uint32_t object,
		       const uint32_t *slots, size_t slot_count) TRACE_API(trace_record_long);

/* An object of any type in one slot, for `ref` arguments: type << 24 | id, cut; UINT32_MAX: none. */
static inline uint32_t trace_ref(const struct trace_object *object)
{
	return object ? (uint32_t)object->type << 24 | (object->id & 0xffffff) : UINT32_MAX;
}

/*
 * Where a function is in the program's file, which the trace names by its build-id: the same in every run, wherever it was
 * loaded. For `function` arguments.
 */
extern const char __executable_start[]; /* the linker's */

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
