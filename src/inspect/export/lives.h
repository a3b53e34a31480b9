/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lives - follows the states of objects by their moves, one event at a time.
 *
 * A life begins with the move out of state 0 and ends with the move into it; the states in between are its stages. Each
 * event returns a `lives_step` with its changes, which an exporter draws. An object with an unseen beginning has a life
 * from its first move on, which is not `whole`. If a life begins before the end of the previous one was seen, the
 * previous one is cut off.
 *
 * A tick may be older than that of the previous event (`shared`); the times of one object never decrease here.
 */
#ifndef INSPECT_EXPORT_LIVES_H
#define INSPECT_EXPORT_LIVES_H

#include "inspect/trace/trace_file.h"

enum {
	LIVES_OBJECTS_MAX = 1 << 18, /* more are not followed */
	LIVES_STATES_MAX = 64,	     /* moves to states beyond are not followed */
};

struct life {
	const struct reader_object *object;
	uint32_t id;
	uint64_t serial; /* 1, 2, ... in the order of their beginnings; 0: not alive */
	bool whole;	 /* its beginning was seen, and no move is missing since */
	uint16_t owner;
	uint32_t state;
	uint64_t began, entered, last; /* ticks; `last`: its latest event */
	const char *what;	       /* a label of the schema: READ; NULL: not known */
	bool has_bytes;
	uint64_t bytes;
	/* the object that it belongs to; serial 0: none alive */
	const struct reader_object *parent;
	uint32_t parent_id;
	uint64_t parent_serial;
	/* private to the caller; NULL when a life begins. The caller frees it, at the latest from `before` */
	void *caller_data;
};

struct lives_step {
	/* the life before the event, if the event changed it */
	bool left_stage, ended, cut;
	struct life before;
	/* the life after the event; NULL: no followed object, or its life has ended */
	bool began, entered_stage;
	struct life *life;
	struct life *parent; /* if `began`: of that life; NULL: none alive */
	uint64_t tick;	     /* of all changes */
};

struct lives;

MUST_CHECK int lives_create(struct lives **lives_ret);
/* Accepts NULL. */
void lives_destroy(struct lives *lives);

/* Process an event. The step is valid until the next call. */
void lives_event(struct lives *lives, const struct reader_event *event, struct lives_step *step_ret);

/* The current life of `object` `id`; NULL: none. */
struct life *lives_find(const struct lives *lives, const struct reader_object *object, uint32_t id);

/* Call `fn` for each life in progress, in no order. */
void lives_each(const struct lives *lives, void (*fn)(struct life *life, void *ctx), void *ctx);

#endif
