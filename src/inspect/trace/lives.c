/* SPDX-License-Identifier: BSD-2-Clause */
/* lives - reads histograms and exemplars from a file: copies and checks them. */
#include "inspect/trace/lives.h"

#include <string.h>

#include "base/clock.h"
#include "inspect/trace/internal.h"
#include "inspect/trace/stages.h"

enum {
	LIVES_TYPES_MAX = 64, /* types of requests for which a thread has histograms */
	TRIES = 64,
};

/* ---- one life ---- */

void reader_stays(const uint64_t ticks[TRACE_STORY_STATES_MAX], uint32_t path, uint64_t end_tick,
		  struct reader_stays *stays_ret)
{
	uint64_t next = end_tick & ~TICK_SHARED;
	uint32_t count = 0;

	for (path &= BIT(TRACE_STORY_STATES_MAX) - 1; path; path &= path - 1) {
		uint8_t state = (uint8_t)__builtin_ctz(path);
		uint64_t tick = ticks[state] & ~TICK_SHARED;
		uint32_t at = count++;

		for (; at > 0 && stays_ret->begins[at - 1] > tick; at--) {
			stays_ret->begins[at] = stays_ret->begins[at - 1];
			stays_ret->states[at] = stays_ret->states[at - 1];
		}
		stays_ret->begins[at] = tick;
		stays_ret->states[at] = state;
	}
	stays_ret->count = count;
	while (count-- > 0) {
		uint64_t begin = stays_ret->begins[count];

		/* a shared tick may be older than the one before it */
		stays_ret->ticks[count] = next > begin ? next - begin : 0;
		next = begin;
	}
}

/* ---- histograms ---- */

/* The histograms of thread `thread` for its type `index`; NULL: not within the file. */
static const struct trace_lives *lives_at(const struct reader *reader, uint32_t thread, uint64_t index)
{
	const struct trace_thread *row = reader_element(reader, TRACE_SECTION_THREADS, thread);

	if (!row || row->lives_offset == 0 || row->lives_offset > reader->bytes || index >= row->lives_count ||
	    index >= LIVES_TYPES_MAX)
		return NULL;
	return reader_at(reader, row->lives_offset + index * sizeof(struct trace_lives), sizeof(struct trace_lives));
}

bool reader_has_lives(const struct reader *reader)
{
	if (reader->lives_of_events)
		return true;
	for (uint32_t thread = 0; thread < reader->info.thread_count; thread++) {
		if (lives_at(reader, thread, 0))
			return true;
	}
	return false;
}

/*
 * Copy histograms such that no update falls into the copy. The writer removes the latest life before it adds it to the
 * stages, and stores the next one last; so a copy is consistent if the same life was there before and after. Under
 * constant load, after TRIES attempts, the copy may be off by the life being added. Histograms of a killed writer are
 * copied as they are.
 */
static void copy_lives(const struct reader *reader, const struct trace_lives *from, struct trace_lives *to)
{
	for (int try = 0; try < TRIES; try++) {
		uint64_t alike = __atomic_load_n(&from->last.alike, __ATOMIC_ACQUIRE), end = from->last.end,
			 ticks = from->stages[0].ticks;

		memcpy(to, from, sizeof(*to));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (reader->info.liveness != READER_ALIVE ||
		    (alike && to->last.alike == alike && __atomic_load_n(&from->last.alike, __ATOMIC_RELAXED) == alike &&
		     from->last.end == end && from->stages[0].ticks == ticks))
			return;
	}
}

static void add_stage(const struct trace_stage *stage, uint64_t slow_ticks, struct reader_dwell_sums *sums)
{
	sums->ticks += stage->ticks;
	sums->ticks_max = max_u64(sums->ticks_max, stage->ticks_max);
	for (int bucket = 0; bucket < TRACE_BUCKETS; bucket++) {
		sums->buckets[bucket] += stage->buckets[bucket];
		sums->count += stage->buckets[bucket];
	}
	if (slow_ticks && (sums->slow_ticks == 0 || slow_ticks < sums->slow_ticks))
		sums->slow_ticks = slow_ticks;
}

static uint32_t bucket_of_ticks(uint64_t ticks)
{
	uint32_t doublings = ticks ? 63 - (uint32_t)__builtin_clzll(ticks) : 0;

	if (ticks < 2 * TRACE_BUCKETS_OCTAVE)
		return (uint32_t)ticks;
	return (uint32_t)min_u64(TRACE_BUCKETS - 1, TRACE_BUCKETS_OCTAVE * (doublings - 2) +
							    (ticks >> (doublings - 3)) % TRACE_BUCKETS_OCTAVE);
}

static uint64_t bucket_begin(uint32_t bucket)
{
	if (bucket < 2 * TRACE_BUCKETS_OCTAVE)
		return bucket;
	return (uint64_t)(TRACE_BUCKETS_OCTAVE + bucket % TRACE_BUCKETS_OCTAVE) << (bucket / TRACE_BUCKETS_OCTAVE - 1);
}

void reader_dwell_add(struct reader_dwell_sums *sums, uint64_t ticks, uint64_t times)
{
	sums->count += times;
	sums->ticks += ticks * times;
	sums->ticks_max = max_u64(sums->ticks_max, ticks);
	sums->buckets[bucket_of_ticks(ticks)] += times;
}

/* Add the lives that equal the latest one: the writer has not added them to the stages yet. */
static void add_last(const struct trace_lives *lives, struct reader_lives *sums)
{
	uint64_t begin = lives->last.ticks[0] & ~TICK_SHARED, end = lives->last.end & ~TICK_SHARED;
	struct reader_stays stays;

	if (lives->last.alike == 0)
		return;
	reader_stays(lives->last.ticks, lives->last.path, lives->last.end, &stays);
	reader_dwell_add(&sums->stages[0], end > begin ? end - begin : 0, lives->last.alike);
	for (uint32_t i = 0; i < stays.count; i++)
		reader_dwell_add(&sums->stages[stays.states[i]], stays.ticks[i], lives->last.alike);
}

bool reader_lives(const struct reader *reader, const struct reader_object *object, uint32_t thread,
		  struct reader_lives *lives_ret)
{
	static _Thread_local struct trace_lives copy;

	if (reader->lives_of_events)
		return stages_lives(reader->lives_of_events, object, lives_ret);
	*lives_ret = (struct reader_lives){ .object = object };
	for (uint32_t i = 0; i < reader->info.thread_count; i++) {
		const struct trace_lives *row;

		for (uint64_t index = 0;
		     (thread == READER_ALL_THREADS || thread == i) && (row = lives_at(reader, i, index)); index++) {
			if (__atomic_load_n(&row->object_type, __ATOMIC_ACQUIRE) != object->id)
				continue;
			copy_lives(reader, row, &copy);
			lives_ret->thread_count++;
			lives_ret->failed += copy.failed;
			lives_ret->kept += copy.kept;
			for (int state = 0; state < TRACE_STORY_STATES_MAX; state++)
				add_stage(&copy.stages[state], copy.stages[state].slow_ticks, &lives_ret->stages[state]);
			add_last(&copy, lives_ret);
		}
	}
	return lives_ret->thread_count > 0;
}

int reader_lives_from_events(struct reader *reader)
{
	must(!reader->lives_of_events);
	return reader_stages_create(reader, &reader->lives_of_events);
}

void reader_lives_event(struct reader *reader, const struct reader_event *event)
{
	reader_stages_event(reader->lives_of_events, event);
}

int reader_lives_from_rings(struct reader *reader)
{
	struct reader_events *events;
	struct reader_event event;
	int rc = reader_events(reader, &events);

	if (rc)
		return rc;
	rc = reader_lives_from_events(reader);
	while (rc == 0 && reader_event_next(events, &event))
		reader_lives_event(reader, &event);
	reader_events_free(events);
	return rc;
}

uint64_t reader_lives_waiting(const struct reader *reader, uint64_t tick)
{
	return reader->lives_of_events ? stages_waiting(reader->lives_of_events, tick) : 0;
}

double reader_dwell_percentile(const struct reader_dwell_sums *sums, uint32_t per_100000)
{
	/* the rank of the wanted stay, from 1 */
	uint64_t rank = (uint64_t)(((unsigned __int128)sums->count * per_100000 + 99999) / 100000), before = 0;

	rank = max_u64(rank, 1);
	for (uint32_t bucket = 0; bucket < TRACE_BUCKETS; bucket++) {
		uint64_t here = sums->buckets[bucket], begin = bucket_begin(bucket), last = bucket_begin(bucket + 1) - 1;
		double ticks;

		if (here == 0 || before + here < rank) {
			before += here;
			continue;
		}
		/* assume that stays are spread evenly over the bucket */
		ticks = (double)begin + (double)(last - begin) * ((double)(rank - before) - 0.5) / (double)here;
		return ticks > (double)sums->ticks_max ? (double)sums->ticks_max : ticks;
	}
	return 0;
}

void reader_dwell_difference(const struct reader_dwell_sums *later, const struct reader_dwell_sums *earlier,
			     struct reader_dwell_sums *sums_ret)
{
	*sums_ret = (struct reader_dwell_sums){ .ticks = later->ticks - min_u64(earlier->ticks, later->ticks),
						.slow_ticks = later->slow_ticks };
	for (uint32_t bucket = 0; bucket < TRACE_BUCKETS; bucket++) {
		uint64_t here = later->buckets[bucket] - min_u64(earlier->buckets[bucket], later->buckets[bucket]);

		sums_ret->buckets[bucket] = here;
		sums_ret->count += here;
		if (here)
			sums_ret->ticks_max = bucket_begin(bucket + 1) - 1;
	}
	sums_ret->ticks_max = min_u64(sums_ret->ticks_max, later->ticks_max);
}

/* ---- exemplars ---- */

/* Row `index` of thread `thread`; NULL: the file has no more. */
static const struct trace_exemplar *exemplar_row_at(const struct reader *reader, uint32_t thread, uint64_t index)
{
	const struct trace_thread *row = reader_element(reader, TRACE_SECTION_THREADS, thread);
	const struct trace_exemplars *exemplars;

	if (!row || row->exemplars_offset == 0)
		return NULL;
	exemplars = reader_at(reader, row->exemplars_offset, sizeof(*exemplars));
	if (!exemplars ||
	    index >= (reader->bytes - row->exemplars_offset - sizeof(*exemplars)) / sizeof(exemplars->rows[0]))
		return NULL;
	/* factors and summands have 32 bits: the sum fits */
	if (index >=
	    (uint64_t)exemplars->epoch_count * exemplars->epoch_rows + exemplars->slow_rows + exemplars->failed_rows)
		return NULL;
	return &exemplars->rows[index];
}

/*
 * Copy a row such that no write falls into the copy. False: it is being written, or its writer was killed during the
 * write.
 */
static bool copy_exemplar_row(const struct trace_exemplar *from, struct trace_exemplar *to)
{
	for (int try = 0; try < TRIES; try++) {
		uint32_t version = __atomic_load_n(&from->version, __ATOMIC_ACQUIRE);

		memcpy(to, from, sizeof(*to));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (version % 2 == 0 && to->version == version &&
		    __atomic_load_n(&from->version, __ATOMIC_RELAXED) == version)
			return true;
	}
	return false;
}

/*
 * If the file was copied during a write, the row's version does not show it. Therefore check that redundant fields
 * agree, and that each record is about one of the stories.
 */
static bool is_consistent(const struct reader *reader, const struct trace_exemplar *row)
{
	if ((row->why != TRACE_EXEMPLAR_SLOW && row->why != TRACE_EXEMPLAR_FAILED) || row->story_count == 0 ||
	    row->story_count > TRACE_EXEMPLAR_STORIES_MAX || row->record_count > TRACE_EXEMPLAR_RECORDS_MAX ||
	    row->slow_state >= TRACE_STORY_STATES_MAX || row->begin_tick != (row->stories[0].ticks[0] & ~TICK_SHARED) ||
	    row->total_ticks != (row->end_tick > row->begin_tick ? row->end_tick - row->begin_tick : 0))
		return false;
	for (uint32_t i = 0; i < row->story_count; i++) {
		const struct reader_object *object = schema_object_by_id(&reader->schema, row->stories[i].trace.type);

		if (!object || !object->machine)
			return false;
	}
	for (uint32_t i = 0; i < row->record_count; i++) {
		const struct reader_point *point = reader_point_by_id(reader, row->records[i].point);
		bool about = false;

		for (uint32_t story = 0; point && point->object && story < row->story_count; story++)
			about |= row->records[i].object == row->stories[story].trace.id &&
				 point->object->id == row->stories[story].trace.type;
		if (!about)
			return false;
	}
	return true;
}

/* When the I/O ended: the tick of its last record, if kept; else when its request entered its next state. */
static uint64_t end_of_io(const struct reader *reader, const struct reader_exemplar *exemplar, const struct trace_story *io,
			  const struct reader_stays *parent)
{
	uint64_t begin = io->ticks[0] & ~TICK_SHARED;

	for (uint32_t i = exemplar->record_count; i-- > 0;) {
		const struct trace_record *record = &exemplar->records[i];
		const struct reader_point *point = reader_point_by_id(reader, record->point);

		if (!point || point->object != exemplar->stories[1].object || !point->machine ||
		    record->object != io->trace.id)
			continue;
		if ((point->moves_to >= 0 ? (uint32_t)point->moves_to : record->args[1]) == 0)
			return record->tick & ~TICK_SHARED;
	}
	for (uint32_t i = 0; i < parent->count; i++) {
		if (parent->begins[i] > begin)
			return parent->begins[i];
	}
	return exemplar->end_ticks[0];
}

uint64_t reader_exemplar_spent(const struct reader_exemplar *exemplar)
{
	const struct reader_machine *machine = exemplar->stories[0].object->machine;
	uint64_t begin = exemplar->stories[0].begin_tick, end = exemplar->end_ticks[0],
		 spent = end > begin ? end - begin : 0;

	for (uint32_t i = 0; i < exemplar->stays[0].count; i++) {
		uint32_t state = exemplar->stays[0].states[i];

		if (state < machine->state_count && machine->states[state].resting)
			spent -= min_u64(spent, exemplar->stays[0].ticks[i]);
	}
	return spent;
}

static void fill_exemplar(const struct reader *reader, uint32_t thread, const struct trace_exemplar *row,
			  struct reader_exemplar *exemplar)
{
	const struct trace_thread *thread_row = reader_element(reader, TRACE_SECTION_THREADS, thread);

	*exemplar = (struct reader_exemplar){
		.thread = thread,
		.cpu = thread_row->cpu,
		.slow = row->why == TRACE_EXEMPLAR_SLOW,
		.failed = row->why == TRACE_EXEMPLAR_FAILED,
		.slow_state = (uint8_t)row->slow_state,
		.args_known = { true, true },
		.records_cut = row->records_cut != 0,
		.story_count = row->story_count,
		.record_count = row->record_count,
	};
	memcpy(exemplar->records, row->records, row->record_count * sizeof(row->records[0]));
	for (uint32_t i = 0; i < row->story_count; i++) {
		const struct trace_story *story = &row->stories[i];

		story_fill(reader, schema_object_by_id(&reader->schema, story->trace.type), story, &exemplar->stories[i]);
		exemplar->end_ticks[i] = i == 0 ? row->end_tick & ~TICK_SHARED
						: end_of_io(reader, exemplar, story, &exemplar->stays[0]);
		reader_stays(story->ticks, story->path, exemplar->end_ticks[i], &exemplar->stays[i]);
	}
	exemplar->spent_ticks = reader_exemplar_spent(exemplar);
}

/* The thread on which the life ended. */
static uint32_t thread_of(const struct reader *reader, uint32_t thread, const struct trace_exemplar *row)
{
	return row->copy_of && row->copy_of - 1 < reader->info.thread_count ? row->copy_of - 1 : thread;
}

/* Whether another row has the life of which `copy` is a copy. */
static bool has_original(const struct reader *reader, const struct trace_exemplar *copy)
{
	for (uint32_t thread = 0; thread < reader->info.thread_count; thread++) {
		const struct trace_exemplar *row;

		for (uint64_t i = 0; (row = exemplar_row_at(reader, thread, i)); i++) {
			if (row->version != 0 && !row->copy_of && row->end_tick == copy->end_tick &&
			    row->stories[0].trace.id == copy->stories[0].trace.id &&
			    row->stories[0].life == copy->stories[0].life)
				return true;
		}
	}
	return false;
}

bool reader_exemplar_next(const struct reader *reader, struct reader_exemplar_walk *walk,
			  struct reader_exemplar *exemplar_ret)
{
	for (; walk->thread < reader->info.thread_count; walk->thread++, walk->row = 0) {
		const struct trace_exemplar *row;
		struct trace_exemplar copy;

		while ((row = exemplar_row_at(reader, walk->thread, walk->row))) {
			walk->row++;
			if (__atomic_load_n(&row->version, __ATOMIC_ACQUIRE) == 0)
				continue;
			walk->seen++;
			if (!copy_exemplar_row(row, &copy) || !is_consistent(reader, &copy)) {
				walk->torn++;
				continue;
			}
			if (copy.end_tick < (reader->info.clear_tick & ~TICK_SHARED)) {
				walk->cleared++;
				continue;
			}
			if (copy.copy_of && has_original(reader, &copy)) {
				walk->seen--;
				continue;
			}
			fill_exemplar(reader, thread_of(reader, walk->thread, &copy), &copy, exemplar_ret);
			return true;
		}
	}
	return false;
}

bool reader_exemplar_event(const struct reader *reader, const struct reader_exemplar *exemplar, uint32_t index,
			   struct reader_event *event_ret)
{
	const struct trace_record *record = &exemplar->records[index];
	const struct reader_point *point = reader_point_by_id(reader, record->point);
	uint64_t before = 0, begin;
	uint32_t about;

	if (!point || !point->object || point->slot_count > TRACE_ARG_SLOTS_HEAD)
		return false;
	about = exemplar->story_count > 1 && exemplar->stories[1].object == point->object;
	*event_ret = (struct reader_event){
		.tick = record->tick & ~TICK_SHARED,
		.shared = record->tick & TICK_SHARED,
		.seq = record->seq,
		.point_id = record->point,
		.point = point,
		.owner = record->owner,
		.object_id = record->object,
		.thread = exemplar->thread,
		.cpu = exemplar->cpu,
		.ring = TRACE_RING_IO,
		.has_life = true,
		.related = about ? exemplar->stories[0].object : NULL,
		.related_id = about ? exemplar->stories[0].id : 0,
	};
	memcpy(event_ret->slots, record->args, sizeof(record->args));
	begin = exemplar->stories[about].begin_tick;
	for (uint32_t i = 0; i < index; i++) {
		if (exemplar->records[i].object == record->object &&
		    reader_point_by_id(reader, exemplar->records[i].point)->object == point->object)
			before = exemplar->records[i].tick & ~TICK_SHARED;
	}
	event_ret->total_ticks = event_ret->tick > begin ? event_ret->tick - begin : 0;
	event_ret->dwell_ticks = before && event_ret->tick > before ? event_ret->tick - before : 0;
	return true;
}
