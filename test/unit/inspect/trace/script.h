/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * script - a program that traces as fast as it can, of which each event is foretold.
 *
 * What the thread in slot T records under sequence number S follows from T and S alone: the point, the object, the owner's
 * text and each argument. Threads that come to a slot later go on where the former one stopped. So a reader of what is
 * left of such a program knows whether an event is whole and right, and which one has to come next.
 *
 * Eighteen events are a cycle: number n begins order n and ends order n - 2, runs a job for order n and an errand with a
 * job of its own; every LOST_ONE_INth errand is lost. Ticks alone are those of the clock, or lent.
 */
#ifndef TEST_INSPECT_TRACE_SCRIPT_H
#define TEST_INSPECT_TRACE_SCRIPT_H

#include "inspect/trace/lives.h"
#include "rig.h"

enum {
	SCRIPT_CYCLE = 18,
	SCRIPT_SLOTS = 10, /* of the file: two reactors and eight others */
	SCRIPT_OBJECTS = 8,
	SCRIPT_ORDERS_AT_ONCE = 2, /* under way for so many cycles */
	SCRIPT_OWNER_CYCLES = 8,   /* so many have one owner */
	SCRIPT_LOST_ONE_IN = 5,
	SCRIPT_IO_ENTRIES = 1024,
};

/* ---- writing; in a child ---- */

struct script_options {
	const char *directory;
	uint32_t thread_count;
	bool few_owners;    /* most are taken from the start: ids are used again soon */
	bool short_threads; /* they end after some cycles, and others take their slots */
	bool same_ticks;    /* two cycles and more have one tick: their lives are alike */
};

/* Trace until killed. Does not return. */
void script_run(const struct script_options *options);

/* ---- what must have been written ---- */

/* The ring of event `seq`, and how many records it takes. */
enum trace_ring_kind script_ring(uint32_t seq);
uint32_t script_records(uint32_t seq);
/* How many records the events below `end` took in a ring. */
uint64_t script_recorded(enum trace_ring_kind ring, uint64_t end);

/* Is the event what it must be? Fails the test, naming it, if not. */
void script_check_event(const struct reader *reader, const struct reader_event *event);

/* The state that object `id` of `type` is in when slot `thread` has recorded all events below `end`. */
uint32_t script_state(uint16_t type, uint32_t id, uint64_t end);
/* The slot whose thread writes about object `id` of `type`; SCRIPT_SLOTS: none does. */
uint32_t script_slot_of(uint16_t type, uint32_t id);
/* How many lives of `type` end in the events below `end`; those of errands that are lost among them. */
uint64_t script_ended(uint16_t type, uint64_t end, bool lost);

/* Is an exemplar what it must be, with all its records? Fails the test if not. */
void script_check_exemplar(const struct reader *reader, const struct reader_exemplar *exemplar);

#endif
