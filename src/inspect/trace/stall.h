/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stall - finds requests that one stall delayed: a disk that paused, a reactor whose turn did not end.
 *
 * A life has a stall if one wait took at least half of the life: a stay in a state, or its I/O's whole time if that took
 * at least half of the stay. One stall delayed two lives if both are of one type of object, both waits were at one
 * device (an I/O's) or else in one state on one thread, and the waits overlap and their ends differ by at most a tenth
 * of the longer one.
 */
#ifndef INSPECT_TRACE_STALL_H
#define INSPECT_TRACE_STALL_H

#include "inspect/trace/lives.h"

enum { STALL_END_PART = 10 }; /* the ends of two waits differ by at most 1 / STALL_END_PART of the longer wait */

/* A life's longest wait. */
struct reader_stall {
	uint64_t from, to; /* ticks; both 0: no wait took half of the life, or none took any time */
	uint16_t type;	   /* the request's object */
	uint16_t device;   /* owner of the I/O that waited; 0: the wait was outside an I/O, or it has no owner */
	uint8_t state;	   /* of the request, while it waited */
	uint32_t thread;   /* on which the life ended */
};

/* The I/O of a life; `to` 0: there is none. */
struct reader_stall_io {
	uint64_t from, to; /* ticks */
	uint16_t owner;
};

/* Returns the stall of a life of `object` on `thread`; its stays other than resting ones took `spent_ticks`. */
struct reader_stall reader_stall_of(const struct reader_object *object, const struct reader_stays *stays,
				    uint64_t spent_ticks, const struct reader_stall_io *io, uint32_t thread);
struct reader_stall reader_stall_of_exemplar(const struct reader_exemplar *exemplar);
/* Did one stall delay both? `longest` has the longer wait. */
bool reader_stall_is_one(const struct reader_stall *longest, const struct reader_stall *other);

#endif
