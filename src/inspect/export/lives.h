/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lives - which object is in which state, told by its moves, one event at a time.
 *
 * A life goes from the move out of state 0 to the move into it, through stages: the states. What an event changed is a
 * `lives_step`; an exporter draws it. Objects that are not seen to begin have a life from their first move on, not `whole`.
 * A life that begins while the last one was not seen to end cuts that off.
 *
 * A tick may be older than that of the event before (`shared`); within an object time does not go back here.
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
	uint64_t serial; /* 1, 2, ... in the order in which lives begin; 0: not alive */
	bool whole;	 /* seen to begin, and no move was missed since */
	uint16_t owner;
	uint32_t state;
	uint64_t began, entered, last; /* ticks; `last` of its latest event */
	const char *what;	       /* a label of the schema: READ; NULL: not known */
	bool has_bytes;
	uint64_t bytes;
	/* the object that it belongs to; serial 0: none that is alive */
	const struct reader_object *parent;
	uint32_t parent_id;
	uint64_t parent_serial;
	/* the follower's own, NULL at the beginning of a life; the follower frees it, at the latest from `before` */
	void *mine;
};

struct lives_step {
	/* what it was, if it changed; all of it */
	bool left_stage, ended, cut;
	struct life before;
	/* what it is now; NULL: the event is about nothing that is followed, or its life has ended */
	bool began, entered_stage;
	struct life *life;
	struct life *parent; /* began: of that life; NULL: none alive */
	uint64_t tick;	     /* of all this */
};

struct lives;

MUST_CHECK int lives_create(struct lives **lives_ret);
/* Accepts NULL. */
void lives_destroy(struct lives *lives);

/* The step is valid until the next call. */
void lives_event(struct lives *lives, const struct reader_event *event, struct lives_step *step_ret);

/* The present life of `object` `id`; NULL: none. */
struct life *lives_find(const struct lives *lives, const struct reader_object *object, uint32_t id);

/* Those still alive, in no order: calls `fn` for each. */
void lives_each(const struct lives *lives, void (*fn)(struct life *life, void *ctx), void *ctx);

/* Objects that there was no place for. */
uint64_t lives_not_followed(const struct lives *lives);

#endif
