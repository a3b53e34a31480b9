/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stages - sums up where requests spent their time.
 *
 * A request's moves give the time in each state. They are kept with the life and added to the sums when it ends. A life
 * whose beginning or end was not seen is left out, since it would make stages look shorter than they are.
 *
 * Requests have child requests: a block device's I/O for a command. When a child ends, its stages are added to its
 * parent's, so a command's time can be followed down to the device. The operation (READ) is an argument with named
 * values in the first event of the life or of its child; the size is an argument in bytes. Lives of the same type,
 * operation and size form a class.
 *
 * Time in resting states is left out of totals.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/trace/stages.h"

int reader_stages_create(const struct reader *reader, struct reader_stages **stages_ret)
{
	/* pages of unused places are never touched */
	struct reader_stages *stages = calloc(1, sizeof(*stages));

	if (!stages)
		return -ENOMEM;
	stages->reader = reader;
	for (uint32_t i = 0; i < reader->schema.object_count && stages->kind_count < STAGE_KINDS_MAX; i++) {
		if (reader->schema.objects[i].machine)
			stages->kinds[stages->kind_count++].object = &reader->schema.objects[i];
	}
	*stages_ret = stages;
	return 0;
}

void reader_stages_free(struct reader_stages *stages)
{
	if (!stages)
		return;
	for (uint32_t i = 0; i < stages->class_count; i++)
		free(stages->classes[i]);
	free(stages);
}

void reader_stages_want(struct reader_stages *stages, const struct reader_object *object)
{
	stages->chosen = true;
	for (uint32_t i = 0; i < stages->kind_count; i++) {
		if (stages->kinds[i].object == object)
			stages->kinds[i].wanted = true;
	}
}

static struct stage_kind *stage_kind_of(struct reader_stages *stages, const struct reader_object *object)
{
	for (uint32_t i = 0; i < stages->kind_count; i++) {
		if (stages->kinds[i].object == object)
			return &stages->kinds[i];
	}
	return NULL;
}

bool stages_lives(const struct reader_stages *stages, const struct reader_object *object, struct reader_lives *lives_ret)
{
	*lives_ret = (struct reader_lives){ .object = object };
	for (uint32_t i = 0; i < stages->kind_count; i++) {
		if (stages->kinds[i].object == object)
			*lives_ret = stages->kinds[i].lives;
	}
	lives_ret->object = object;
	return lives_ret->stages[0].count > 0;
}

uint64_t stages_waiting(const struct reader_stages *stages, uint64_t tick)
{
	uint64_t count = 0;

	for (uint32_t set = 0; set < STAGE_SETS; set++) {
		for (uint32_t way = 0; way < STAGE_WAYS; way++) {
			const struct stage_life *life = &stages->sets[set][way];
			const struct reader_object *object = life->type ? schema_object_by_id(&stages->reader->schema,
											      life->type)
									: NULL;

			count += object && !object->machine->states[life->state].resting && life->entered < tick;
		}
	}
	return count;
}

uint64_t stages_under_way(const struct reader_stages *stages, const struct stage_kind *kind)
{
	uint64_t count = 0;

	for (uint32_t set = 0; set < STAGE_SETS; set++) {
		for (uint32_t way = 0; way < STAGE_WAYS; way++)
			count += stages->sets[set][way].type == kind->object->id;
	}
	return count;
}

/* ---- places ---- */

static struct stage_life *set_of(struct reader_stages *stages, uint16_t type, uint32_t id)
{
	return stages->sets[(((uint64_t)type << 32 | id) * 0x9e3779b97f4a7c15ull >> 32) & (STAGE_SETS - 1)];
}

static struct stage_life *find_life(struct reader_stages *stages, uint16_t type, uint32_t id)
{
	struct stage_life *set = set_of(stages, type, id);

	for (uint32_t way = 0; way < STAGE_WAYS; way++) {
		if (set[way].id == id && set[way].type == type)
			return &set[way];
	}
	return NULL;
}

static struct stage_life *find_free(struct reader_stages *stages, uint16_t type, uint32_t id)
{
	struct stage_life *set = set_of(stages, type, id);

	for (uint32_t way = 0; way < STAGE_WAYS; way++) {
		if (set[way].type == 0)
			return &set[way];
	}
	return NULL;
}

/* ---- ends ---- */

static struct stage_class *class_of(struct reader_stages *stages, const struct reader_object *object,
				    const struct stage_life *life)
{
	struct stage_class *class;

	for (uint32_t i = 0; i < stages->class_count; i++) {
		class = stages->classes[i];
		if (class->object == object && class->bytes == life->bytes && class->child_state == life->child_state &&
		    class->child->id == life->child_type && strcmp(class->what, life->what) == 0)
			return class;
	}
	if (stages->class_count == STAGE_CLASSES_MAX)
		return NULL;
	class = calloc(1, sizeof(*class));
	must(class);
	class->object = object;
	class->child = schema_object_by_id(&stages->reader->schema, life->child_type);
	must(class->child);
	class->what = life->what;
	class->bytes = life->bytes;
	class->child_state = life->child_state;
	stages->classes[stages->class_count++] = class;
	return class;
}

/* The total time of a life, without resting states. */
static uint64_t whole_of(const struct reader_machine *machine, const struct stage_life *life)
{
	uint64_t whole = 0;

	for (uint32_t state = 1; state < machine->state_count && state < TRACE_STORY_STATES_MAX; state++)
		whole += machine->states[state].resting ? 0 : life->sums[state];
	return whole;
}

static void add_states(struct stage_sums *sums, uint32_t visited, const uint64_t *ticks, uint64_t whole)
{
	for (uint32_t state = 1; state < TRACE_STORY_STATES_MAX; state++) {
		if (visited & BIT(state))
			histogram_add(&sums->states[state], ticks[state]);
	}
	histogram_add(&sums->whole, whole);
}

static void add_stages_to_parent(struct reader_stages *stages, const struct stage_life *life, uint64_t whole)
{
	struct stage_life *parent = life->parent_type ? find_life(stages, life->parent_type, life->parent_id) : NULL;

	if (!parent)
		return;
	parent->child_count++;
	parent->child_type = life->type;
	parent->child_visited |= life->visited;
	parent->child_whole += whole;
	for (uint32_t state = 0; state < TRACE_STORY_STATES_MAX; state++)
		parent->child_sums[state] += life->sums[state];
	if (!parent->what)
		parent->what = life->what;
	if (life->has_bytes && !parent->has_bytes) {
		parent->has_bytes = true;
		parent->bytes = life->bytes;
	}
}

static void finish_life(struct reader_stages *stages, struct stage_kind *kind, struct stage_life *life)
{
	uint64_t whole = whole_of(kind->object->machine, life);
	struct stage_class *class;

	add_states(&kind->sums, life->visited, life->sums, whole);
	for (uint32_t state = 1; state < TRACE_STORY_STATES_MAX; state++) {
		if (life->visited & BIT(state))
			reader_dwell_add(&kind->lives.stages[state], life->sums[state], 1);
	}
	reader_dwell_add(&kind->lives.stages[0], whole, 1);
	add_stages_to_parent(stages, life, whole);
	/* several children may have overlapped: their summed times do not describe the parent */
	if (life->child_count == 1 && life->what && life->has_bytes) {
		class = class_of(stages, kind->object, life);
		if (class) {
			uint64_t around = life->sums[life->child_state];

			add_states(&class->sums, life->visited, life->sums, whole);
			add_states(&class->child_sums, life->child_visited, life->child_sums, life->child_whole);
			histogram_add(&class->beside, around - min_u64(around, life->child_whole));
		}
	}
	life->type = 0;
}

/* ---- moves ---- */

/* Take operation and size from the first event. */
static void read_stage_description(struct stage_life *life, const struct reader_event *event)
{
	const struct reader_point *point = event->point;

	for (uint32_t i = 0; i < point->arg_count; i++) {
		const struct reader_arg *arg = &point->args[i];
		uint64_t value = reader_arg_value(arg, event->slots);

		if (arg->labels && !life->what && strcmp(arg->labels->name, point->machine->name) != 0)
			life->what = reader_label(arg->labels, (int64_t)value);
		if (arg->unit && !life->has_bytes && strcmp(arg->unit, "bytes") == 0) {
			life->has_bytes = true;
			life->bytes = value;
		}
	}
}

static void begin_stage_life(struct reader_stages *stages, struct stage_kind *kind, const struct reader_event *event,
			     uint32_t to)
{
	uint16_t type = kind->object->id;
	struct stage_life *life = find_life(stages, type, event->object_id), *parent;

	if (life)
		kind->left_out++; /* the end of the previous life was not recorded */
	else
		life = find_free(stages, type, event->object_id);
	if (!life) {
		kind->left_out++;
		return;
	}
	*life = (struct stage_life){
		.id = event->object_id, .type = type, .state = (uint8_t)to, .visited = BIT(to), .entered = event->tick
	};
	read_stage_description(life, event);
	if (event->related && event->related->machine) {
		life->parent_type = event->related->id;
		life->parent_id = event->related_id;
		parent = find_life(stages, life->parent_type, life->parent_id);
		if (parent)
			parent->child_state = parent->state;
	}
}

bool event_move(const struct reader_event *event, int32_t *from_ret, uint32_t *to_ret)
{
	const struct reader_point *point = event->point;
	uint32_t count = (uint32_t)min_u64(point->machine->state_count, TRACE_STORY_STATES_MAX);
	bool said = point->moves_to < 0;

	*to_ret = said ? event->slots[1] : (uint32_t)point->moves_to;
	*from_ret = said && event->slots[0] < count ? (int32_t)event->slots[0] : -1;
	return *to_ret < count && (!said || *from_ret >= 0);
}

void reader_stages_event(struct reader_stages *stages, const struct reader_event *event)
{
	const struct reader_point *point = event->point;
	struct stage_kind *kind;
	struct stage_life *life;
	int32_t from;
	uint32_t to;

	if (!point || !point->machine || !point->object || point->object->machine != point->machine ||
	    event->object_id == READER_NO_OBJECT)
		return;
	kind = stage_kind_of(stages, point->object);
	if (!kind || !event_move(event, &from, &to))
		return;
	if (stages->first_tick == 0)
		stages->first_tick = event->tick;
	stages->last_tick = max_u64(stages->last_tick, event->tick);
	if (to != 0 && (from == 0 || point->begins)) {
		begin_stage_life(stages, kind, event, to);
		return;
	}
	life = find_life(stages, point->object->id, event->object_id);
	if (!life || (from >= 0 && from != life->state)) {
		/* a life that began before the first event is counted as left out once, when it ends */
		if (life)
			life->type = 0;
		kind->left_out += life || to == 0;
		return;
	}
	life->sums[life->state] += event->tick - min_u64(life->entered, event->tick);
	life->entered = max_u64(life->entered, event->tick);
	life->state = (uint8_t)to;
	life->visited |= (uint32_t)BIT(to);
	if (to == 0)
		finish_life(stages, kind, life);
}
