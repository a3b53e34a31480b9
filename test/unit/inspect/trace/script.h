/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * script - a program that traces as fast as possible, with predictable events.
 *
 * The event of the thread in slot T with sequence number S is a function of T and S: the point, the object, the owner's
 * text and each argument. A later thread in a slot continues where the former one stopped. So a test knows for each event
 * that was read whether it is complete and correct, and which one must follow.
 *
 * Eighteen events are a cycle: number n begins order n and ends order n - 2, runs a job for order n and an errand with its
 * own job; one errand in LOST_ONE_IN is lost. Only ticks depend on the clock, and may be shared.
 */
#ifndef TEST_INSPECT_TRACE_SCRIPT_H
#define TEST_INSPECT_TRACE_SCRIPT_H

#include "inspect/trace/lives.h"
#include "rig.h"

enum {
	SCRIPT_CYCLE = 18,
	SCRIPT_SLOTS = 10, /* slots of the file: two reactors and eight others */
	SCRIPT_OBJECTS = 8,
	SCRIPT_ORDERS_AT_ONCE = 2, /* an order lives for this number of cycles */
	SCRIPT_OWNER_CYCLES = 8,   /* this number of cycles has one owner */
	SCRIPT_LOST_ONE_IN = 5,
	SCRIPT_IO_ENTRIES = 1024,
};

/* ---- writing, in a child process ---- */

struct script_options {
	const char *directory;
	uint32_t thread_count;
	bool few_owners;    /* most ids are in use from the start, so the others are used again soon */
	bool short_threads; /* threads end after some cycles, and others get their slots */
	bool same_ticks;    /* two or more cycles have the same tick, so their lives are equal */
};

/* Trace until killed. Does not return. */
void script_run(const struct script_options *options);

/* ---- the expected content ---- */

/* The ring of event `seq`, and how many records it takes. */
enum trace_ring_kind script_ring(uint32_t seq);
uint32_t script_records(uint32_t seq);
/* How many records the events below `end` took in a ring. */
uint64_t script_recorded(enum trace_ring_kind ring, uint64_t end);

/* Fail the test if the event is not the expected one. */
void script_check_event(const struct reader *reader, const struct reader_event *event);

/* The state that object `id` of `type` is in when slot `thread` has recorded all events below `end`. */
uint32_t script_state(uint16_t type, uint32_t id, uint64_t end);
/* The slot whose thread writes about object `id` of `type`; SCRIPT_SLOTS: none does. */
uint32_t script_slot_of(uint16_t type, uint32_t id);
/* How many lives of `type` end in the events below `end`; `lost`: including lost errands. */
uint64_t script_ended(uint16_t type, uint64_t end, bool lost);

/* Fail the test if the exemplar and its records are not the expected ones. */
void script_check_exemplar(const struct reader *reader, const struct reader_exemplar *exemplar);

#endif
