/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/export/lives.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/must.h"

enum { PLACES_MIN = 1 << 10 };

/* Open addressing. A life's address never changes. */
struct lives {
	struct life **places;
	uint32_t place_count, used;
	uint64_t serial;
};

int lives_create(struct lives **lives_ret)
{
	struct lives *lives = calloc(1, sizeof(*lives));

	if (!lives)
		return -ENOMEM;
	lives->place_count = PLACES_MIN;
	lives->places = calloc(PLACES_MIN, sizeof(struct life *));
	if (!lives->places) {
		free(lives);
		return -ENOMEM;
	}
	*lives_ret = lives;
	return 0;
}

void lives_destroy(struct lives *lives)
{
	if (!lives)
		return;
	for (uint32_t i = 0; i < lives->place_count; i++)
		free(lives->places[i]);
	free(lives->places);
	free(lives);
}

static uint32_t life_place_of(const struct lives *lives, const struct reader_object *object, uint32_t id)
{
	uint32_t at = (uint32_t)(((uint64_t)object->id << 32 | id) * 0x9e3779b97f4a7c15ull >> 32);

	for (;; at++) {
		const struct life *life = lives->places[at & (lives->place_count - 1)];

		if (!life || (life->id == id && life->object == object))
			return at & (lives->place_count - 1);
	}
}

/* Double the table: it is at most half full. */
static bool grow_life_table(struct lives *lives)
{
	struct lives bigger = *lives;

	bigger.place_count *= 2;
	bigger.places = calloc(bigger.place_count, sizeof(struct life *));
	if (!bigger.places)
		return false;
	for (uint32_t i = 0; i < lives->place_count; i++) {
		struct life *life = lives->places[i];

		if (life)
			bigger.places[life_place_of(&bigger, life->object, life->id)] = life;
	}
	free(lives->places);
	*lives = bigger;
	return true;
}

/* NULL: no free place. */
static struct life *life_of(struct lives *lives, const struct reader_object *object, uint32_t id)
{
	uint32_t place = life_place_of(lives, object, id);

	if (lives->places[place])
		return lives->places[place];
	if (lives->used == LIVES_OBJECTS_MAX || (lives->used * 2 >= lives->place_count && !grow_life_table(lives)))
		return NULL;
	place = life_place_of(lives, object, id);
	lives->places[place] = calloc(1, sizeof(struct life));
	if (!lives->places[place])
		return NULL;
	lives->places[place]->object = object;
	lives->places[place]->id = id;
	lives->used++;
	return lives->places[place];
}

/* Take operation and size from the arguments; any event of the life may have them. */
static void read_life_description(struct life *life, const struct reader_event *event)
{
	const struct reader_point *point = event->point;

	for (uint32_t i = 0; i < point->arg_count; i++) {
		const struct reader_arg *arg = &point->args[i];

		if (arg->labels && !life->what && strcmp(arg->labels->name, point->machine->name) != 0)
			life->what = reader_label(arg->labels, (int64_t)reader_arg_value(arg, event->slots));
		if (arg->unit && !life->has_bytes && strcmp(arg->unit, "bytes") == 0) {
			life->has_bytes = true;
			life->bytes = reader_arg_value(arg, event->slots);
		}
	}
}

static void begin_followed_life(struct lives *lives, struct life *life, const struct reader_event *event, bool whole,
				struct lives_step *step)
{
	struct life *parent = NULL;

	if (event->related && event->related->machine && event->related != life->object)
		parent = lives->places[life_place_of(lives, event->related, event->related_id)];
	*life = (struct life){ .object = life->object,
			       .id = life->id,
			       .serial = ++lives->serial,
			       .whole = whole,
			       .owner = event->owner,
			       .began = step->tick,
			       .last = step->tick };
	read_life_description(life, event);
	step->began = true;
	if (!parent || parent->serial == 0)
		return;
	life->parent = parent->object;
	life->parent_id = parent->id;
	life->parent_serial = parent->serial;
	step->parent = parent;
	/* the child's operation describes the parent, too */
	if (!parent->what)
		parent->what = life->what;
}

/* The states of a move. False: they are not valid. `*from_ret` -1: the event does not record it. */
static bool states_of(const struct reader_event *event, int32_t *from_ret, uint32_t *to_ret)
{
	const struct reader_point *point = event->point;
	uint32_t count = (uint32_t)min_u64(point->machine->state_count, LIVES_STATES_MAX);
	bool said = point->moves_to < 0;

	*to_ret = said ? event->slots[1] : (uint32_t)point->moves_to;
	*from_ret = said && event->slots[0] < count ? (int32_t)event->slots[0] : -1;
	return *to_ret < count && (!said || *from_ret >= 0);
}

static void apply_move(struct lives *lives, struct life *life, const struct reader_event *event, struct lives_step *step)
{
	bool alive = life->serial != 0, begins;
	int32_t from;
	uint32_t to;

	if (!states_of(event, &from, &to))
		return;
	begins = to != 0 && (from == 0 || event->point->begins);
	if (alive) {
		step->before = *life;
		step->left_stage = true;
		step->ended = begins || to == 0;
		step->cut = begins;
	}
	if (to == 0) {
		life->serial = 0;
		life->caller_data = NULL;
		step->life = NULL;
		return;
	}
	if (!alive || begins)
		begin_followed_life(lives, life, event, begins, step);
	else if (from >= 0 && (uint32_t)from != life->state)
		life->whole = false;
	life->state = to;
	life->entered = step->tick;
	step->entered_stage = true;
	step->life = life;
}

void lives_event(struct lives *lives, const struct reader_event *event, struct lives_step *step_ret)
{
	const struct reader_point *point = event->point;
	struct life *life;

	*step_ret = (struct lives_step){ .tick = event->tick };
	if (!point || !point->object || !point->object->machine || event->object_id == READER_NO_OBJECT)
		return;
	life = life_of(lives, point->object, event->object_id);
	if (!life)
		return;
	step_ret->tick = life->last = max_u64(life->last, event->tick);
	step_ret->life = life->serial ? life : NULL;
	if (point->machine == point->object->machine)
		apply_move(lives, life, event, step_ret);
	must(!step_ret->entered_stage || step_ret->life);
}

struct life *lives_find(const struct lives *lives, const struct reader_object *object, uint32_t id)
{
	struct life *life = lives->places[life_place_of(lives, object, id)];

	return life && life->serial ? life : NULL;
}

void lives_each(const struct lives *lives, void (*fn)(struct life *life, void *ctx), void *ctx)
{
	for (uint32_t i = 0; i < lives->place_count; i++) {
		if (lives->places[i] && lives->places[i]->serial)
			fn(lives->places[i], ctx);
	}
}
