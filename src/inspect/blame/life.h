/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * life - why one request took its time. Pure: a life in, ticks by cause out.
 *
 * A life is a sequence of pieces without gaps: the stages of the request, with those of its I/O in place of the stage in
 * which it ran. Each tick goes to exactly one cause, so the causes' sum is the whole life:
 *
 *   stage                       cause
 *   BLAME_WORK                  CPU: the reactor has the request, or is busy with others of the same turn
 *   BLAME_WAITING               QUEUE
 *   BLAME_AT_DEVICE             DISK
 *   BLAME_DATA_IN, _SENDING     HOST or NETWORK, by what the kernel counted in that time; CPU if the socket was never full
 *   BLAME_CAPSULE               CPU; NETWORK or UNKNOWN if the data of the capsule came late
 *   BLAME_UNCLEAR               UNKNOWN
 *
 * Whatever the stage, time belongs to the CPU if the reactor ran something else then, and the stage ended as soon as the
 * reactor was free. Time that the evidence does not explain is UNKNOWN.
 */
#ifndef INSPECT_BLAME_LIFE_H
#define INSPECT_BLAME_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "fathom/trace/format.h"

enum blame_cause { BLAME_DISK, BLAME_HOST, BLAME_NETWORK, BLAME_QUEUE, BLAME_CPU, BLAME_UNKNOWN, BLAME_CAUSES };

enum blame_stage {
	BLAME_CAPSULE,	 /* received; in-capsule data may still arrive */
	BLAME_DATA_IN,	 /* an R2T was sent, and its data are awaited */
	BLAME_WAITING,	 /* in one of our queues: for a buffer, the device's queue, a snapshot, a paused subsystem */
	BLAME_WORK,	 /* our code has it */
	BLAME_AT_DEVICE, /* the backend has it */
	BLAME_SENDING,	 /* offered to the socket */
	BLAME_RESTING,	 /* a long time is normal; not part of the life */
	BLAME_UNCLEAR,
};

enum { BLAME_PIECES_MAX = 2 * TRACE_STORY_STATES_MAX + 2, BLAME_WAITS_MAX = 4 };

struct blame_piece {
	uint64_t from, to; /* ticks */
	enum blame_stage stage;
	const char *name; /* of the state, for people; NULL: none */
};

/* The record tcp_waited, at the end of a BLAME_CAPSULE, _DATA_IN or _SENDING. */
struct blame_wait {
	uint64_t tick;
	uint32_t closed_us, unacked_us, lost;
};

/* The reactor ran one thing without a break. */
struct blame_hold {
	uint64_t from, to; /* ticks */
	uint32_t thread;
	uint32_t name; /* string id of what ran; 0: several things */
};

struct blame_life {
	struct blame_piece pieces[BLAME_PIECES_MAX];
	uint32_t piece_count;
	struct blame_wait waits[BLAME_WAITS_MAX];
	uint32_t wait_count;
	bool waits_recorded; /* all waits are known; false: their records are lost, or the program makes none */
	uint64_t data_tick;  /* the first data of an R2T came; 0: not known */
	uint32_t rtt_us;     /* the network's shortest round trip; 0: not known */
	uint64_t ticks_per_sec;
	/* of its reactor, by time, without overlaps; borrowed */
	const struct blame_hold *holds;
	uint32_t hold_count;
};

struct blame_split {
	uint64_t ticks[BLAME_CAUSES];
	uint64_t whole;			 /* their sum: all pieces but BLAME_RESTING */
	const char *where[BLAME_CAUSES]; /* the name of the piece that gave most of the cause; NULL: none */
	const struct blame_hold *hold;	 /* the longest that delayed it; NULL: none */
};

void blame_life_split(const struct blame_life *life, struct blame_split *split_ret);

/* The stage of a state by its name in the schema. `of_io`: a state of the block device I/O. */
enum blame_stage blame_stage_of(const char *state, bool of_io);

#endif
