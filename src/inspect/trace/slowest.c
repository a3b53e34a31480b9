/* SPDX-License-Identifier: BSD-2-Clause */
/* slowest - collects exemplars, and lives that are completely in the rings, the slowest first. */
#include "inspect/trace/slowest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/trace/internal.h"
#include "inspect/trace/stall.h"

enum {
	WAYS = 8,
	SETS = 1 << 12, /* at most 8 * 4096 lives in progress */
	HINT_BITS = 1 << 12,
};

/* A life that is being assembled from the rings' events. */
struct ring_life {
	uint32_t id;
	uint16_t type; /* 0: the place is free */
	uint16_t owner;
	uint32_t path;
	uint32_t parent_id;
	uint16_t parent_type; /* 0: no parent */
	uint16_t io_type;     /* of the I/O that it issued; 0: none yet */
	uint16_t io_owner;
	uint32_t io_id, io_path;
	uint64_t io_end;
	uint64_t ticks[TRACE_STORY_STATES_MAX], io_ticks[TRACE_STORY_STATES_MAX];
	bool args_known, io_args_known; /* the life's first event had all arguments */
	uint32_t args[READER_STORY_SLOTS_MAX], io_args[READER_STORY_SLOTS_MAX];
};

struct row {
	uint64_t key; /* sort key; the largest comes first */
	struct reader_exemplar exemplar;
};

struct reader_slowest {
	const struct reader *reader;
	struct reader_slowest_want want;
	struct reader_exemplar_walk walk;
	uint32_t count;
	uint64_t hints[HINT_BITS / 64]; /* hash bits of the objects in the rows: most events are about other objects */
	struct row *rows[SLOWEST_MAX];	/* a heap during collection, its last element at 0; then sorted by group */
	uint32_t group_count, group_begins[SLOWEST_MAX + 1]; /* group g: rows from begins[g] to before begins[g + 1] */
	const struct reader_exemplar *members[SLOWEST_MAX];  /* as rows */
	/* scratch of form_groups() */
	struct reader_stall stalls[SLOWEST_MAX];
	struct row *ordered[SLOWEST_MAX];
	struct ring_life sets[SETS][WAYS];
};

/* ---- order ---- */

static const struct reader_exemplar *exemplar_of(const void *row)
{
	return &(*(struct row *const *)row)->exemplar;
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Sorts entries of one life together: failed exemplars first, then slow ones, then lives from the rings. */
static int compare_identities(const void *left, const void *right)
{
	const struct reader_exemplar *a = exemplar_of(left), *b = exemplar_of(right);
	int order = compare_u64(a->stories[0].object->id, b->stories[0].object->id);

	if (order == 0)
		order = compare_u64(a->stories[0].id, b->stories[0].id);
	if (order == 0)
		order = compare_u64(a->stories[0].begin_tick, b->stories[0].begin_tick);
	if (order == 0)
		order = compare_u64(b->failed, a->failed);
	if (order == 0)
		order = compare_u64(b->slow, a->slow);
	return order ? order : compare_u64(b->record_count, a->record_count);
}

static int compare_row_keys(const void *left, const void *right)
{
	const struct row *a = *(struct row *const *)left, *b = *(struct row *const *)right;

	if (a->key != b->key)
		return compare_u64(b->key, a->key);
	if (a->exemplar.stories[0].begin_tick != b->exemplar.stories[0].begin_tick)
		return compare_u64(a->exemplar.stories[0].begin_tick, b->exemplar.stories[0].begin_tick);
	return compare_identities(left, right);
}

/* ---- the heap ---- */

static void swap_rows(struct row **a, struct row **b)
{
	struct row *row = *a;

	*a = *b;
	*b = row;
}

static void sift_row_up(struct reader_slowest *slowest, uint32_t at)
{
	for (; at > 0 && compare_row_keys(&slowest->rows[(at - 1) / 2], &slowest->rows[at]) < 0; at = (at - 1) / 2)
		swap_rows(&slowest->rows[(at - 1) / 2], &slowest->rows[at]);
}

static void sift_row_down(struct reader_slowest *slowest)
{
	for (uint32_t at = 0, child; (child = 2 * at + 1) < slowest->count; at = child) {
		if (child + 1 < slowest->count && compare_row_keys(&slowest->rows[child + 1], &slowest->rows[child]) > 0)
			child++;
		if (compare_row_keys(&slowest->rows[child], &slowest->rows[at]) <= 0)
			return;
		swap_rows(&slowest->rows[child], &slowest->rows[at]);
	}
}

static void add_candidate(struct reader_slowest *slowest, const struct reader_exemplar *exemplar)
{
	uint64_t key = slowest->want.order == READER_SLOWEST_FIRST ? exemplar->spent_ticks : exemplar->end_ticks[0];
	struct row row, *new = &row;

	if (slowest->want.accepts && !slowest->want.accepts(slowest->want.ctx, exemplar))
		return;
	if (slowest->count == SLOWEST_MAX && key < slowest->rows[0]->key)
		return;
	row = (struct row){ .key = key, .exemplar = *exemplar };
	if (slowest->count == SLOWEST_MAX) {
		if (compare_row_keys(&new, &slowest->rows[0]) < 0) {
			*slowest->rows[0] = row;
			sift_row_down(slowest);
		}
		return;
	}
	slowest->rows[slowest->count] = malloc(sizeof(struct row));
	must(slowest->rows[slowest->count]);
	*slowest->rows[slowest->count] = row;
	sift_row_up(slowest, slowest->count++);
}

int reader_slowest_create(const struct reader *reader, const struct reader_slowest_want *want,
			  struct reader_slowest **slowest_ret)
{
	/* pages of unused places are never touched */
	struct reader_slowest *slowest = calloc(1, sizeof(*slowest));
	struct reader_exemplar exemplar;

	must(want->count_max <= SLOWEST_MAX);
	if (!slowest)
		return -ENOMEM;
	slowest->reader = reader;
	slowest->want = *want;
	while (reader_exemplar_next(reader, &slowest->walk, &exemplar)) {
		if (exemplar.failed || want->order != READER_FAILED)
			add_candidate(slowest, &exemplar);
	}
	*slowest_ret = slowest;
	return 0;
}

void reader_slowest_destroy(struct reader_slowest *slowest)
{
	for (uint32_t i = 0; slowest && i < slowest->count; i++)
		free(slowest->rows[i]);
	free(slowest);
}

/* ---- lives in the rings ---- */

/* Returns the life's place, else a free one; NULL: the set is full. */
static struct ring_life *find_ring_life(struct reader_slowest *slowest, uint16_t type, uint32_t id)
{
	struct ring_life *set = slowest->sets[(((uint64_t)type << 32 | id) * 0x9e3779b97f4a7c15ull >> 32) & (SETS - 1)];
	struct ring_life *free_one = NULL;

	for (int way = 0; way < WAYS; way++) {
		if (set[way].id == id && set[way].type == type)
			return &set[way];
		if (set[way].type == 0 && !free_one)
			free_one = &set[way];
	}
	return free_one;
}

static void begin_ring_life(struct reader_slowest *slowest, struct ring_life *life, const struct reader_event *event,
			    uint32_t to)
{
	*life = (struct ring_life){
		.id = event->object_id, .type = event->point->object->id, .owner = event->owner, .path = (uint32_t)BIT(to)
	};
	life->ticks[0] = life->ticks[to] = event->tick;
	for (uint32_t i = 0; i < event->point->arg_count && !life->parent_type; i++) {
		const struct reader_object *parent;

		if (event->point->args[i].type >= READER_OBJ &&
		    reader_arg_object(slowest->reader, &event->point->args[i], event->slots, &parent, &life->parent_id) &&
		    parent->machine)
			life->parent_type = parent->id;
	}
	life->args_known = story_args_of_event(event, life->args);
}

/* A life to be added to an exemplar. */
struct ended_life {
	uint16_t type, owner;
	uint32_t id, path;
	const uint64_t *ticks;
	uint64_t end;
	const uint32_t *args; /* NULL: unknown */
};

static void add_story(const struct reader *reader, struct reader_exemplar *exemplar, const struct ended_life *life)
{
	uint32_t index = exemplar->story_count++;
	struct reader_story *story = &exemplar->stories[index];

	must(index < ARRAY_COUNT(exemplar->stories));
	*story = (struct reader_story){ .object = schema_object_by_id(&reader->schema, life->type),
					.id = life->id,
					.owner = life->owner,
					.begin_tick = life->ticks[0] };
	memcpy(story->ticks, life->ticks, sizeof(story->ticks));
	if (life->args)
		memcpy(story->args, life->args, sizeof(story->args));
	exemplar->args_known[index] = life->args != NULL;
	exemplar->end_ticks[index] = life->end;
	reader_stays(life->ticks, life->path, life->end, &exemplar->stays[index]);
}

static void end_ring_life(struct reader_slowest *slowest, struct ring_life *life, const struct reader_event *event)
{
	struct reader_exemplar exemplar = { .thread = event->thread, .cpu = event->cpu };

	if (life->parent_type) {
		struct ring_life *parent = find_ring_life(slowest, life->parent_type, life->parent_id);

		if (!parent || !parent->type || parent->io_type)
			return;
		parent->io_type = life->type;
		parent->io_id = life->id;
		parent->io_owner = life->owner;
		parent->io_path = life->path;
		parent->io_end = event->tick;
		memcpy(parent->io_ticks, life->ticks, sizeof(life->ticks));
		memcpy(parent->io_args, life->args, sizeof(life->args));
		parent->io_args_known = life->args_known;
		return;
	}
	if (slowest->want.order == READER_SLOWEST_FIRST && slowest->count == SLOWEST_MAX &&
	    event->tick - min_u64(life->ticks[0], event->tick) <= slowest->rows[0]->key)
		return;
	add_story(slowest->reader, &exemplar,
		  &(struct ended_life){ .type = life->type,
					.owner = life->owner,
					.id = life->id,
					.path = life->path,
					.ticks = life->ticks,
					.end = event->tick,
					.args = life->args_known ? life->args : NULL });
	if (life->io_type)
		add_story(slowest->reader, &exemplar,
			  &(struct ended_life){ .type = life->io_type,
						.owner = life->io_owner,
						.id = life->io_id,
						.path = life->io_path,
						.ticks = life->io_ticks,
						.end = life->io_end,
						.args = life->io_args_known ? life->io_args : NULL });
	exemplar.spent_ticks = reader_exemplar_spent(&exemplar);
	add_candidate(slowest, &exemplar);
}

void reader_slowest_event(struct reader_slowest *slowest, const struct reader_event *event)
{
	const struct reader_point *point = event->point;
	struct ring_life *life;
	int32_t from;
	uint32_t to;

	/* only exemplars record that a life failed */
	if (slowest->want.order == READER_FAILED || !point || !point->machine || !point->object ||
	    point->object->machine != point->machine || event->object_id == READER_NO_OBJECT ||
	    !event_move(event, &from, &to))
		return;
	life = find_ring_life(slowest, point->object->id, event->object_id);
	if (!life)
		return;
	if (to != 0 && (from == 0 || point->begins)) {
		begin_ring_life(slowest, life, event, to);
		return;
	}
	if (!life->type)
		return; /* its beginning was not seen */
	if (to == 0) {
		end_ring_life(slowest, life, event);
		life->type = 0;
		return;
	}
	life->path |= (uint32_t)BIT(to);
	life->ticks[to] = event->tick;
}

/* ---- sorting and grouping ---- */

/* Is `part` the I/O of `whole`, or a part of that I/O? */
static bool is_io_of(const struct reader_exemplar *part, const struct reader_exemplar *whole)
{
	const struct reader_story *io = &whole->stories[1], *story = &part->stories[0];

	if (whole->story_count < 2 || story->begin_tick < whole->stories[0].begin_tick ||
	    part->end_ticks[0] > whole->end_ticks[0])
		return false;
	return (story->object == io->object && story->id == io->id) ||
	       (story->parent == io->object && story->parent_id == io->id);
}

static void drop_row(struct reader_slowest *slowest, uint32_t index)
{
	free(slowest->rows[index]);
	slowest->rows[index] = NULL;
}

static void close_gaps(struct reader_slowest *slowest)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < slowest->count; i++) {
		if (slowest->rows[i])
			slowest->rows[count++] = slowest->rows[i];
	}
	slowest->count = count;
}

static void drop_duplicates(struct reader_slowest *slowest)
{
	qsort(slowest->rows, slowest->count, sizeof(slowest->rows[0]), compare_identities);
	for (uint32_t i = 0, kept = 0; i < slowest->count; i++) {
		struct reader_exemplar *first = &slowest->rows[kept]->exemplar, *second = &slowest->rows[i]->exemplar;
		const struct reader_story *a = &first->stories[0], *b = &second->stories[0];

		if (i == kept || a->object != b->object || a->id != b->id || a->begin_tick != b->begin_tick) {
			kept = i;
			continue;
		}
		if (first->story_count < second->story_count) {
			/* the entry from the rings has the I/O */
			first->story_count = second->story_count;
			first->stories[1] = second->stories[1];
			first->stays[1] = second->stays[1];
			first->end_ticks[1] = second->end_ticks[1];
			first->args_known[1] = second->args_known[1];
		}
		drop_row(slowest, i);
	}
	close_gaps(slowest);
}

/* Copy the arguments from the request's pool entry, if its latest life is this one. */
static void copy_pool_args(const struct reader *reader, struct reader_exemplar *exemplar)
{
	for (uint32_t i = 0; i < exemplar->story_count; i++) {
		struct reader_story *story = &exemplar->stories[i];
		struct trace_story latest;

		if (!exemplar->args_known[i] && story_find(reader, story->object->id, story->id, &latest) &&
		    (latest.ticks[0] & ~TICK_SHARED) == story->begin_tick) {
			memcpy(story->args, latest.args, sizeof(latest.args));
			exemplar->args_known[i] = true;
		}
	}
}

static uint64_t *hint_word(struct reader_slowest *slowest, const struct reader_object *object, uint32_t id,
			   uint64_t *bit_ret)
{
	uint32_t hint = (id * 31 + object->id) % HINT_BITS;

	*bit_ret = BIT(hint % 64);
	return &slowest->hints[hint / 64];
}

static void drop_parts(struct reader_slowest *slowest)
{
	for (uint32_t i = 0; i < slowest->count; i++) {
		struct reader_exemplar *part = &slowest->rows[i]->exemplar;

		for (uint32_t j = 0; j < slowest->count; j++) {
			if (j != i && slowest->rows[j] && is_io_of(part, &slowest->rows[j]->exemplar)) {
				drop_row(slowest, i);
				break;
			}
		}
	}
	close_gaps(slowest);
}

/* Each remaining row starts a group and collects the later rows that the same stall delayed. */
static void form_groups(struct reader_slowest *slowest)
{
	bool grouped = slowest->want.order == READER_SLOWEST_FIRST && !slowest->want.each;
	struct reader_stall *stalls = slowest->stalls;
	uint32_t count = 0;

	for (uint32_t i = 0; i < slowest->count; i++)
		stalls[i] = reader_stall_of_exemplar(&slowest->rows[i]->exemplar);
	for (uint32_t i = 0; i < slowest->count && slowest->group_count < slowest->want.count_max; i++) {
		if (!slowest->rows[i])
			continue;
		slowest->group_begins[slowest->group_count++] = count;
		for (uint32_t j = i; j < slowest->count; j++) {
			if (j != i && (!grouped || !slowest->rows[j] || !reader_stall_is_one(&stalls[i], &stalls[j])))
				continue;
			slowest->ordered[count++] = slowest->rows[j];
			slowest->rows[j] = NULL;
		}
	}
	slowest->group_begins[slowest->group_count] = count;
	for (uint32_t i = 0; i < slowest->count; i++)
		free(slowest->rows[i]);
	memcpy(slowest->rows, slowest->ordered, count * sizeof(slowest->rows[0]));
	slowest->count = count;
}

void reader_slowest_finish(struct reader_slowest *slowest)
{
	drop_duplicates(slowest);
	qsort(slowest->rows, slowest->count, sizeof(slowest->rows[0]), compare_row_keys);
	drop_parts(slowest);
	form_groups(slowest);
	for (uint32_t i = 0; i < slowest->count; i++) {
		struct reader_exemplar *exemplar = &slowest->rows[i]->exemplar;

		slowest->members[i] = exemplar;
		copy_pool_args(slowest->reader, exemplar);
		for (uint32_t story = 0; story < exemplar->story_count; story++) {
			uint64_t bit;

			uint64_t *word = hint_word(slowest, exemplar->stories[story].object, exemplar->stories[story].id,
						   &bit);

			*word |= bit;
		}
	}
}

void reader_slowest_add_record(struct reader_slowest *slowest, const struct reader_event *event)
{
	uint64_t bit, *hint;

	if (!event->point || !event->point->object)
		return;
	hint = hint_word(slowest, event->point->object, event->object_id, &bit);
	if (!(*hint & bit))
		return;
	for (uint32_t i = 0; i < slowest->count; i++) {
		struct reader_exemplar *exemplar = &slowest->rows[i]->exemplar;

		for (uint32_t story = 0; story < exemplar->story_count && !exemplar->slow && !exemplar->failed; story++) {
			struct trace_record *record;

			if (exemplar->stories[story].object != event->point->object ||
			    exemplar->stories[story].id != event->object_id ||
			    event->tick < exemplar->stories[story].begin_tick || event->tick > exemplar->end_ticks[story])
				continue;
			if (exemplar->record_count == TRACE_EXEMPLAR_RECORDS_MAX) {
				exemplar->records_cut = true;
				continue;
			}
			record = &exemplar->records[exemplar->record_count++];
			*record = (struct trace_record){ .tick = event->tick | (event->shared ? TICK_SHARED : 0),
							 .seq = event->seq,
							 .point = event->point_id,
							 .owner = event->owner,
							 .object = event->object_id };
			memcpy(record->args, event->slots, sizeof(record->args));
		}
	}
}

uint32_t reader_slowest_count(const struct reader_slowest *slowest)
{
	return slowest->group_count;
}

const struct reader_exemplar *reader_slowest_at(const struct reader_slowest *slowest, uint32_t index)
{
	must(index < slowest->group_count);
	return slowest->members[slowest->group_begins[index]];
}

uint32_t reader_slowest_group(const struct reader_slowest *slowest, uint32_t index,
			      const struct reader_exemplar *const **members_ret)
{
	must(index < slowest->group_count);
	*members_ret = &slowest->members[slowest->group_begins[index]];
	return slowest->group_begins[index + 1] - slowest->group_begins[index];
}

const struct reader_exemplar_walk *reader_slowest_walk(const struct reader_slowest *slowest)
{
	return &slowest->walk;
}
