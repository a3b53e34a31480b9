/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * events - joins the records of all rings and merges them into one sequence.
 *
 * Each thread is a stream of two rings. Within a thread the sequence number, which counts across both rings, gives the
 * order. It has 32 bits, and a rare record may be hours older than the I/O record beside it, so it is used only between
 * ticks of about the same time. Between threads the tick gives the order: the key of a stream is the highest tick that
 * it has reached.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/trace/internal.h"

enum {
	WINDOWS_BYTES_MAX = 32 << 20, /* for the windows of all rings together */
	WINDOW_RECORDS_MIN = 1 << 11,
	SEQ_DECIDES_MS = 500, /* far fewer than 2^31 events happen on a thread in this time */
};

/* A ring and its next event. */
struct lane {
	struct ring_reader ring;
	bool ready;
	struct trace_record head;
	uint32_t more[READER_SLOTS_MAX - TRACE_ARG_SLOTS_HEAD]; /* from continuations */
	const struct reader_point *point;
};

struct stream {
	struct lane lanes[TRACE_RINGS_PER_THREAD];
	uint32_t thread;
	int32_t cpu;
	uint64_t key;	   /* of the next event */
	struct lane *next; /* the lane that holds it; NULL: at the end */
};

struct reader_events {
	struct reader *reader;
	struct reader_counts counts;
	struct life_table lives;
	uint64_t seq_decides_ticks, clear_tick;
	uint64_t shared_bit;
	uint64_t until;		 /* events up to this tick are returned */
	struct spdk_counts spdk; /* of a followed SPDK target */
	uint32_t stream_count;
	struct stream *best; /* chosen while its key is below `limit`, or equal and `best` is first in the file */
	uint64_t limit;
	uint32_t limit_thread;
	struct stream streams[]; /* as many as the file has threads */
};

/* Collect the continuations of lane->head. False: one is missing; the others are counted as orphans. */
static bool join_continuations(struct reader_events *events, struct lane *lane, uint32_t slot_count)
{
	for (uint32_t at = TRACE_ARG_SLOTS_HEAD, part = 1; at < slot_count; at += TRACE_ARG_SLOTS_PART, part++) {
		const struct trace_record *record = ring_reader_peek(&lane->ring);

		if (!record || record->point != TRACE_POINT_PART || record->seq != lane->head.seq ||
		    record->owner != part) {
			events->counts.orphans += part;
			return false;
		}
		lane->more[at - TRACE_ARG_SLOTS_HEAD] = record->object;
		memcpy(&lane->more[at - TRACE_ARG_SLOTS_HEAD + 1], record->args, sizeof(record->args));
		ring_reader_take(&lane->ring);
	}
	return true;
}

/* Read the next event of a ring into lane->head. */
static void lane_advance(struct reader_events *events, struct lane *lane)
{
	const struct trace_record *record;

	lane->ready = false;
	while (!lane->ready && (record = ring_reader_peek(&lane->ring))) {
		lane->head = *record;
		ring_reader_take(&lane->ring);
		if (unlikely(record->point == TRACE_POINT_PART)) {
			events->counts.orphans++;
			continue;
		}
		if (unlikely((lane->head.tick | events->shared_bit) < events->clear_tick)) {
			events->counts.cleared++;
			continue;
		}
		lane->point = reader_point_by_id(events->reader, lane->head.point);
		if (unlikely(!lane->point && events->reader->schema.point_count > 0)) {
			events->counts.unknown++;
			continue;
		}
		if (unlikely(lane->point && lane->point->slot_count > TRACE_ARG_SLOTS_HEAD) &&
		    !join_continuations(events, lane, lane->point->slot_count))
			continue;
		lane->ready = true;
	}
}

/* Returns the ring of the thread whose event comes first; NULL: both are at their end. */
static struct lane *first_lane(const struct reader_events *events, struct stream *stream)
{
	struct lane *io = &stream->lanes[TRACE_RING_IO], *rare = &stream->lanes[TRACE_RING_RARE];
	uint64_t io_tick, rare_tick, apart;

	if (!io->ready || !rare->ready)
		return io->ready ? io : rare->ready ? rare : NULL;
	io_tick = io->head.tick & ~events->shared_bit;
	rare_tick = rare->head.tick & ~events->shared_bit;
	apart = io_tick > rare_tick ? io_tick - rare_tick : rare_tick - io_tick;
	if (apart <= events->seq_decides_ticks)
		return (int32_t)(rare->head.seq - io->head.seq) > 0 ? io : rare;
	return io_tick < rare_tick ? io : rare;
}

static void stream_choose(const struct reader_events *events, struct stream *stream)
{
	stream->next = first_lane(events, stream);
	if (stream->next)
		stream->key = max_u64(stream->key, stream->next->head.tick & ~events->shared_bit);
}

/* Choose the stream with the next event, and the key up to which it stays chosen. */
static void choose_stream(struct reader_events *events)
{
	struct stream *best = NULL, *second = NULL;

	for (uint32_t i = 0; i < events->stream_count; i++) {
		struct stream *stream = &events->streams[i];

		if (!stream->next)
			continue;
		if (!best || stream->key < best->key) {
			second = best;
			best = stream;
		} else if (!second || stream->key < second->key) {
			second = stream;
		}
	}
	events->best = best;
	events->limit = second ? second->key : UINT64_MAX;
	events->limit_thread = second ? second->thread : UINT32_MAX;
}

/*
 * Allocate a window for each ring. While the writer lives, a window holds the whole ring if all of them fit in
 * WINDOWS_BYTES_MAX; what small rings do not use is shared by the others. Otherwise it has WINDOW_RECORDS_MIN records,
 * which stay in the processor's cache.
 */
static int allocate_event_windows(struct reader_events *events)
{
	bool alive = events->reader->info.liveness == READER_ALIVE;
	uint64_t budget = alive ? WINDOWS_BYTES_MAX / sizeof(struct trace_record) : 0, rings = 0;

	for (uint32_t i = 0; i < events->stream_count; i++)
		rings += (events->streams[i].lanes[0].ring.ring != NULL) + (events->streams[i].lanes[1].ring.ring != NULL);
	/* first round: rings that need at most an equal share; second round: the rest share what is left */
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < events->stream_count; i++) {
			for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
				struct ring_reader *ring = &events->streams[i].lanes[kind].ring;
				uint64_t want = ring->head - ring->next, share = budget / max_u64(rings, 1);

				if (!ring->ring || ring->window || (round == 0 && want > share))
					continue;
				/* a followed ring grows, so its present size says nothing */
				if (events->until == 0)
					want = WINDOW_RECORDS_MIN;
				ring->window_capacity = (uint32_t)max_u64(min_u64(want, max_u64(share, WINDOW_RECORDS_MIN)),
									  1);
				ring->window = malloc(ring->window_capacity * sizeof(struct trace_record));
				if (!ring->window)
					return -ENOMEM;
				budget -= min_u64(budget, ring->window_capacity);
				rings--;
			}
		}
	}
	return 0;
}

void count_spdk(struct reader_counts *to, const struct spdk_counts *counts)
{
	*to = (struct reader_counts){
		.recorded = counts->recorded,
		.overwritten = counts->overwritten,
		.torn = counts->torn,
		.missing = counts->missing,
		.cleared = counts->cleared,
		.orphans = counts->orphans,
		.unknown = counts->unknown,
		.events = to->events,
	};
}

/* False: a ring of the thread is damaged. */
static bool init_lane(struct reader_events *events, struct lane *lane, const struct reader_rings *rings,
		      const struct trace_thread *thread, uint32_t index, int kind)
{
	uint32_t number = index * TRACE_RINGS_PER_THREAD + (uint32_t)kind;

	if (!rings)
		return ring_reader_init(&lane->ring, events->reader, thread->ring_offset[kind], &events->counts);
	if (number < rings->count && rings->rings[number])
		ring_reader_init_external(&lane->ring, rings->rings[number], rings->fd, rings->records_offset[number],
					  &events->counts);
	return true;
}

/*
 * Copy what a followed SPDK target has recorded since into the image. Returns the tick up to which events can be
 * returned.
 */
static uint64_t follow_spdk(struct reader_events *events, uint64_t until_tick)
{
	struct spdk_counts *sums = &events->spdk, more = { 0 };
	uint64_t until = until_tick;

	/* out of memory: some records are missing now, or all of them are read in the next call */
	if (spdk_follow_more(events->reader->follower, &more, &until) != 0)
		until = until_tick;
	sums->recorded += more.recorded;
	sums->overwritten += more.overwritten;
	sums->torn += more.torn;
	sums->missing += more.missing;
	sums->cleared += more.cleared;
	sums->orphans += more.orphans;
	sums->unknown += more.unknown;
	return min_u64(until, until_tick);
}

/* Which events, from which rings. */
struct events_want {
	bool follow;
	bool rare_only;			  /* no rings of I/O */
	const struct reader_rings *rings; /* NULL: the file's own */
};

static int create_events(struct reader *reader, const struct events_want *want, struct reader_events **events_ret)
{
	struct reader_events *events = calloc(1, sizeof(*events) + reader->info.thread_count * sizeof(events->streams[0]));
	int rc;

	if (!events)
		return -ENOMEM;
	events->reader = reader;
	events->until = want->follow ? 0 : UINT64_MAX;
	events->shared_bit = reader->shared_bit;
	events->clear_tick = reader->info.clear_tick & ~reader->shared_bit;
	events->seq_decides_ticks = tick_scale_ticks(&reader->scale, SEQ_DECIDES_MS * NS_PER_MS);
	rc = life_table_init(&events->lives, reader);
	for (uint32_t i = 0; i < reader->info.thread_count; i++) {
		const struct trace_thread *thread = reader_element(reader, TRACE_SECTION_THREADS, i);
		struct stream *stream = &events->streams[events->stream_count];

		stream->thread = i;
		stream->cpu = thread->cpu;
		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
			if ((kind == TRACE_RING_RARE || !want->rare_only) &&
			    !init_lane(events, &stream->lanes[kind], want->rings, thread, i, kind))
				reader_problem(reader, "a ring of thread %u is damaged", i);
		}
		if (want->follow || stream->lanes[0].ring.head || stream->lanes[1].ring.head)
			events->stream_count++;
		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD && want->follow; kind++)
			stream->lanes[kind].ring.next = stream->lanes[kind].ring.head;
	}
	if (want->follow)
		events->counts = (struct reader_counts){ 0 };
	else if (reader->spdk)
		count_spdk(&events->counts, &reader->spdk->counts);
	if (rc == 0)
		rc = allocate_event_windows(events);
	if (rc) {
		reader_events_free(events);
		return rc;
	}
	for (uint32_t i = 0; i < events->stream_count; i++) {
		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
			events->streams[i].lanes[kind].ring.catches_up = reader->info.liveness == READER_ALIVE &&
									 !want->follow;
			if (reader->info.liveness == READER_DEAD && !reader->spdk)
				ring_reader_skip_overwritten(&events->streams[i].lanes[kind].ring,
							     events->seq_decides_ticks);
			lane_advance(events, &events->streams[i].lanes[kind]);
		}
		stream_choose(events, &events->streams[i]);
	}
	choose_stream(events);
	*events_ret = events;
	return 0;
}

int reader_events(struct reader *reader, struct reader_events **events_ret)
{
	const struct events_want want = { .follow = false };

	return create_events(reader, &want, events_ret);
}

int reader_events_rare(struct reader *reader, struct reader_events **events_ret)
{
	/* in files of SPDK's targets all events are in the rings of I/O */
	const struct events_want want = { .rare_only = !reader->spdk };

	return create_events(reader, &want, events_ret);
}

int reader_events_follow(struct reader *reader, struct reader_events **events_ret)
{
	const struct events_want want = { .follow = true };

	return create_events(reader, &want, events_ret);
}

int reader_events_follow_rings(struct reader *reader, const struct reader_rings *rings, struct reader_events **events_ret)
{
	const struct events_want want = { .follow = true, .rings = rings };

	return create_events(reader, &want, events_ret);
}

void reader_events_forget_lives(struct reader_events *events)
{
	life_table_forget(&events->lives);
}

void reader_events_more(struct reader_events *events, uint64_t until_tick)
{
	events->until = events->reader->follower ? follow_spdk(events, until_tick) : until_tick;
	for (uint32_t i = 0; i < events->stream_count; i++) {
		struct stream *stream = &events->streams[i];
		const struct trace_thread *thread = reader_element(events->reader, TRACE_SECTION_THREADS, stream->thread);

		stream->cpu = thread->cpu;
		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
			ring_reader_refresh(&stream->lanes[kind].ring);
			if (!stream->lanes[kind].ready)
				lane_advance(events, &stream->lanes[kind]);
		}
		stream_choose(events, stream);
	}
	choose_stream(events);
	if (events->reader->follower)
		count_spdk(&events->counts, &events->spdk);
}

void reader_events_free(struct reader_events *events)
{
	if (!events)
		return;
	for (uint32_t i = 0; i < events->stream_count; i++) {
		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++)
			free(events->streams[i].lanes[kind].ring.window);
	}
	life_table_deinit(&events->lives);
	free(events);
}

static void fill_event(struct reader_events *events, const struct stream *stream, struct reader_event *event)
{
	const struct lane *lane = stream->next;
	const struct trace_record *record = &lane->head;

	event->tick = record->tick & ~events->shared_bit;
	event->shared = record->tick & events->shared_bit;
	event->seq = record->seq;
	event->point_id = record->point;
	event->point = lane->point;
	event->owner = record->owner;
	event->object_id = record->object;
	event->thread = stream->thread;
	event->cpu = stream->cpu;
	event->ring = lane == &stream->lanes[TRACE_RING_RARE] ? TRACE_RING_RARE : TRACE_RING_IO;
	memcpy(event->slots, record->args, sizeof(record->args));
	if (unlikely(lane->point && lane->point->slot_count > TRACE_ARG_SLOTS_HEAD))
		memcpy(&event->slots[TRACE_ARG_SLOTS_HEAD], lane->more,
		       (lane->point->slot_count - TRACE_ARG_SLOTS_HEAD) * sizeof(event->slots[0]));
	life_table_event(&events->lives, event);
	events->counts.events++;
}

bool reader_event_next(struct reader_events *events, struct reader_event *event_ret)
{
	struct stream *best = events->best;

	if (!best || best->key > events->until)
		return false;
	fill_event(events, best, event_ret);
	lane_advance(events, best->next);
	stream_choose(events, best);
	if (!best->next || best->key > events->limit || (best->key == events->limit && best->thread > events->limit_thread))
		choose_stream(events);
	return true;
}

void reader_events_counts(const struct reader_events *events, struct reader_counts *counts_ret)
{
	*counts_ret = events->counts;
}

bool reader_related(const struct reader_events *events, const struct reader_object *object, uint32_t id,
		    const struct reader_object **related_ret, uint32_t *related_id_ret)
{
	const struct life *life = life_table_find(&events->lives, object->id, id);

	if (!life || !life->related_type)
		return false;
	*related_ret = schema_object_by_id(&events->reader->schema, life->related_type);
	*related_id_ret = life->related_id;
	return *related_ret != NULL;
}

const char *reader_event_state(const struct reader_event *event)
{
	const struct reader_point *point = event->point;
	uint32_t state;

	if (!point || !point->machine)
		return NULL;
	state = point->moves_to >= 0 ? (uint32_t)point->moves_to : event->slots[1];
	return state < point->machine->state_count ? point->machine->states[state].name : NULL;
}
