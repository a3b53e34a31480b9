/* SPDX-License-Identifier: BSD-2-Clause */
#include "script.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <unistd.h>

enum step {
	ORDER_COMES,
	ORDER_BEGINS,
	JOB_SUBMITS,
	COUNTS_RARE,
	LONG_ONE,
	JOB_RUNS,
	JOB_ENDS,
	TEXTS,
	ORDER_ENDS, /* from here on the steps of the order begun two cycles before */
	COUNTS_IO,
	ORDER_GOES,
	ERRAND_GOES,
	ERRAND_JOB_SUBMITS,
	ERRAND_JOB_ENDS,
	UNITS,
	ERRAND_TURNS,
	ERRAND_ENDS,
	COUNTS_IO_AGAIN,
};
static_assert(COUNTS_IO_AGAIN + 1 == SCRIPT_CYCLE, "a cycle");

enum {
	OBJECTS = SCRIPT_SLOTS * SCRIPT_OBJECTS,
	ERRANDS_FIRST = OBJECTS, /* the first id of errands; their jobs have the same ids, which no other job has */
	NAMES = 32,
	FREE_OWNERS = 400, /* few enough to be used again within milliseconds, too many to be used again within 100 us */
	CYCLES_OF_A_THREAD = 200,
	CYCLES_OF_A_TICK = 3,
};

static struct demo_order *orders;
static struct demo_job *jobs;
static struct demo_errand *errands;
static const struct script_options *how;

/* ---- the expected events ---- */

static uint64_t mix(uint32_t thread, uint32_t seq, uint32_t number)
{
	uint64_t z = ((uint64_t)thread << 56 | (uint64_t)number << 48 | seq) * 0x9e3779b97f4a7c15ull;

	return z ^ (z >> 29);
}

static uint32_t id_of(uint32_t thread, uint32_t cycle)
{
	return thread * SCRIPT_OBJECTS + cycle % SCRIPT_OBJECTS;
}

static bool is_lost(uint32_t cycle)
{
	return cycle % SCRIPT_LOST_ONE_IN == 3;
}

/* The first cycles have no order to end: they record a counter instead. */
static enum step step_of(uint32_t seq)
{
	enum step step = (enum step)(seq % SCRIPT_CYCLE);

	return (step == ORDER_ENDS || step == ORDER_GOES) && seq / SCRIPT_CYCLE < SCRIPT_ORDERS_AT_ONCE ? COUNTS_IO : step;
}

enum trace_ring_kind script_ring(uint32_t seq)
{
	switch (step_of(seq)) {
	case COUNTS_RARE:
	case LONG_ONE:
	case TEXTS:
	case UNITS:
		return TRACE_RING_RARE;
	default:
		return TRACE_RING_IO;
	}
}

uint32_t script_records(uint32_t seq)
{
	enum step step = step_of(seq);

	return step == LONG_ONE ? 4 : step == UNITS ? 2 : 1;
}

uint64_t script_recorded(enum trace_ring_kind ring, uint64_t end)
{
	uint64_t cycle = 0, rest = 0;

	for (uint32_t seq = 0; seq < SCRIPT_CYCLE; seq++) {
		uint32_t records = script_ring(seq) == ring ? script_records(seq) : 0;

		cycle += records;
		rest += seq < end % SCRIPT_CYCLE ? records : 0;
	}
	return end / SCRIPT_CYCLE * cycle + rest;
}

/* ---- the writer ---- */

/* The state of a slot; owned by the thread that has the slot. */
static struct desk {
	uint16_t owner, former_owner;
	struct demo_thing thing;
} desks[SCRIPT_SLOTS];

static void change_owner(struct desk *desk, uint32_t thread, uint32_t cycle)
{
	uint32_t of_owner = cycle % SCRIPT_OWNER_CYCLES;

	if (of_owner == 0 || desk->owner == 0) {
		if (desk->former_owner)
			trace_owner_destroy(desk->former_owner, 0);
		desk->former_owner = desk->owner;
		desk->owner = trace_owner_create(TRACE_OWNER_SESSION, 0, "desk %u from %u", thread,
						 cycle - cycle % SCRIPT_OWNER_CYCLES);
	} else if (of_owner == 2) {
		trace_owner_describe(desk->owner, "desk %u from %u, which is a queue of the host 127.0.0.1:4420", thread,
				     cycle - cycle % SCRIPT_OWNER_CYCLES);
	} else if (of_owner == 2 * SCRIPT_ORDERS_AT_ONCE && desk->former_owner) {
		/* no later event has this owner */
		trace_owner_destroy(desk->former_owner, 0);
		desk->former_owner = 0;
	}
}

static const struct trace_istr *name_of(const char *what, uint32_t thread, uint32_t number)
{
	char text[64];

	snprintf(text, sizeof(text), "%s %u of %u", what, number, thread);
	return trace_intern(text);
}

static void begin_order(struct demo_order *order, const struct desk *desk, uint32_t thread, uint32_t seq)
{
	order->story.trace.owner = desk->owner;
	for (uint32_t i = 0; i < 6; i++)
		order->story.args[i] = (uint32_t)mix(thread, seq, i);
}

static void one_event(struct desk *desk, uint32_t thread, uint32_t seq, uint64_t now)
{
	uint32_t cycle = seq / SCRIPT_CYCLE;
	struct demo_order *order = &orders[id_of(thread, cycle)],
			  *former = &orders[id_of(thread, cycle - SCRIPT_ORDERS_AT_ONCE)];
	struct demo_job *job = &jobs[id_of(thread, cycle)];
	struct demo_errand *errand = &errands[id_of(thread, cycle)];
	uint64_t number = mix(thread, seq, 0);

	switch (step_of(seq)) {
	case ORDER_COMES:
		begin_order(order, desk, thread, seq);
		order_state_move(now, order, ORDER_RECEIVED);
		break;
	case ORDER_BEGINS:
		order_state_move(now, order, ORDER_EXECUTING);
		break;
	case JOB_SUBMITS:
		job->story.trace.owner = desk->owner;
		probe_job_submit(now, job, order, (uint32_t)number, (enum demo_kind)(cycle % 2));
		break;
	case COUNTS_RARE:
		probe_count_rare(now, number, seq);
		break;
	case LONG_ONE:
		desk->thing.trace = (struct trace_object){ .id = thread, .owner = desk->owner, .type = TRACE_OBJECT_THING };
		probe_long_one(now, &desk->thing, number, mix(thread, seq, 1), mix(thread, seq, 2), mix(thread, seq, 3),
			       mix(thread, seq, 4), mix(thread, seq, 5), mix(thread, seq, 6), seq);
		break;
	case JOB_RUNS:
		probe_job_run(now, job, &order->story.trace);
		break;
	case JOB_ENDS:
		probe_job_done(now, job, seq, DEMO_LATE, name_of("device", thread, 0));
		break;
	case TEXTS:
		probe_texts(now, name_of("first", thread, cycle % NAMES), name_of("second", thread, cycle / NAMES % NAMES));
		break;
	case ORDER_ENDS:
		order_state_move(now, former, ORDER_DONE);
		break;
	case ORDER_GOES:
		order_state_move(now, former, ORDER_FREE);
		break;
	case ERRAND_GOES:
		errand->story.trace.owner = errand->job.story.trace.owner = desk->owner;
		errand->story.args[0] = cycle;
		errand->lost = is_lost(cycle);
		errand_state_move(now, errand, ERRAND_GOING);
		break;
	case ERRAND_JOB_SUBMITS:
		probe_job_submit(now, &errand->job, NULL, (uint32_t)number, DEMO_READ);
		break;
	case ERRAND_JOB_ENDS:
		probe_job_done(now, &errand->job, seq, DEMO_OK, name_of("device", thread, 1));
		break;
	case UNITS:
		probe_units(now, now, (uint32_t)number, seq);
		break;
	case ERRAND_TURNS:
		errand_state_move(now, errand, ERRAND_BACK);
		break;
	case ERRAND_ENDS:
		errand_state_move(now, errand, ERRAND_FREE);
		break;
	case COUNTS_IO:
	case COUNTS_IO_AGAIN:
		probe_count_io(now, number, seq);
		break;
	}
}

static uint32_t own_slot(void)
{
	size_t bytes;
	const uint8_t *memory = trace_memory(&bytes);
	const struct trace_header *header = (const struct trace_header *)memory;
	const struct trace_section *section = header->sections;

	while (section->kind != TRACE_SECTION_THREADS)
		section++;
	return (uint32_t)(((const uint8_t *)trace_self.slot - memory - section->offset) / sizeof(struct trace_thread));
}

/* Record events in a slot, until the thread must leave it. */
static void record_in_slot(void)
{
	const struct trace_istr *poller = trace_intern("script_poll"), *light_thread = trace_intern("script");
	uint32_t thread = own_slot(), leave = how->short_threads ? trace_self.seq + CYCLES_OF_A_THREAD * SCRIPT_CYCLE : 0;
	struct desk *desk = &desks[thread];
	uint64_t tick = clock_ticks();

	while (trace_self.seq != leave || leave == 0) {
		uint32_t seq = trace_self.seq, cycle = seq / SCRIPT_CYCLE;
		bool lent = seq % 3 == 1;

		if (seq % SCRIPT_CYCLE == 0) {
			change_owner(desk, thread, cycle);
			trace_running(poller, light_thread, tick);
		}
		if (how->same_ticks)
			lent = cycle % CYCLES_OF_A_TICK != 0 || seq % SCRIPT_CYCLE != 0;
		if (!lent)
			tick = clock_ticks();
		one_event(desk, thread, seq, lent ? tick | TICK_SHARED : tick);
		must(trace_self.seq == seq + 1);
	}
}

static void *writer(void *ctx)
{
	for (;;) {
		/* now only this thread can have full rings: all have the same size here */
		must(trace_thread_attach("writer", 0, true) == 0);
		record_in_slot();
		trace_thread_detach();
	}
	return NULL;
}

/* Disturbances by the control thread. */
static void disturb(uint32_t round)
{
	struct trace_pool_spec few = { .type = TRACE_OBJECT_JOB,
				       .story_offset = offsetof(struct demo_job, story),
				       .stride = sizeof(struct demo_job),
				       .count = 1 + round % 4 };
	void *pool = trace_pool_create(&few);

	trace_clock_note();
	(void)name_of("round", round % NAMES, 0);
	trace_pool_destroy(pool);
}

void script_run(const struct script_options *options)
{
	struct trace_options file = { .schema = &fathom_schema,
				      .name = "script",
				      .version = "1",
				      .thread_count = 2,
				      .io_entries = SCRIPT_IO_ENTRIES,
				      .pool_bytes = 1 << 17,
				      .directory = options->directory };
	struct trace_pool_spec orders_spec = { .type = TRACE_OBJECT_ORDER,
					       .story_offset = offsetof(struct demo_order, story),
					       .stride = sizeof(struct demo_order),
					       .count = OBJECTS };
	struct trace_pool_spec jobs_spec = { .type = TRACE_OBJECT_JOB,
					     .story_offset = offsetof(struct demo_job, story),
					     .stride = sizeof(struct demo_job),
					     .count = OBJECTS };
	struct trace_pool_spec errands_spec = { .type = TRACE_OBJECT_ERRAND,
						.story_offset = offsetof(struct demo_errand, story),
						.also_type = TRACE_OBJECT_JOB,
						.also_offset = offsetof(struct demo_errand, job.story),
						.stride = sizeof(struct demo_errand),
						.count = OBJECTS };
	struct fathom_fault why = { 0 };
	pthread_t thread;

	/* the child must not outlive a failed test */
	must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	how = options;
	must(trace_open(&file, &why) == 0);
	must(trace_mask_set("all", &why) == 0);
	orders = trace_pool_create(&orders_spec);
	jobs = trace_pool_create(&jobs_spec);
	errands = trace_pool_create(&errands_spec);
	must(errands[0].story.trace.id == ERRANDS_FIRST);
	for (int i = 0; options->few_owners && i < TRACE_OWNERS_MAX - 1 - FREE_OWNERS; i++)
		must(trace_owner_create(TRACE_OWNER_SESSION, 0, "taken") != 0);
	for (uint32_t i = 0; i < options->thread_count; i++)
		must(pthread_create(&thread, NULL, writer, NULL) == 0);
	for (uint32_t round = 0;; round++)
		disturb(round);
}

/* ---- checking ---- */

#define holds(event, condition)                                                                                            \
	do {                                                                                                               \
		if (!(condition))                                                                                          \
			fail_msg("thread %u, event %u, step %d: %s does not hold", (event)->thread, (event)->seq,          \
				 (int)step_of((event)->seq), #condition);                                                  \
	} while (0)

static bool string_is(const struct reader *reader, uint32_t id, const char *what, uint32_t number, uint32_t thread)
{
	char expected[64];
	size_t bytes;
	const char *text = reader_string(reader, id, &bytes);

	snprintf(expected, sizeof(expected), "%s %u of %u", what, number, thread);
	return bytes == strlen(expected) && memcmp(text, expected, bytes) == 0;
}

/* The owner must be the slot's owner at the start of `cycle`, or unnamed if its id was used again. */
static void check_owner(const struct reader *reader, const struct reader_event *event, uint32_t cycle)
{
	struct reader_owner owner;
	char expected[64];

	if (event->owner == 0)
		return; /* all ids were in use */
	holds(event, reader_owner(reader, event->owner, event->tick, &owner));
	snprintf(expected, sizeof(expected), "desk %u from %u", event->thread, cycle - cycle % SCRIPT_OWNER_CYCLES);
	if (owner.text[0] && strncmp(owner.text, expected, strlen(expected)) != 0)
		fail_msg("thread %u, event %u: the owner is \"%s\", expected \"%s\"", event->thread, event->seq, owner.text,
			 expected);
	holds(event, !owner.text[0] || owner.text[strlen(expected)] == '\0' || owner.text[strlen(expected)] == ',');
}

static void check_move(const struct reader *reader, const struct reader_event *event, uint16_t point, uint32_t id,
		       uint32_t cycle, uint32_t from, uint32_t to)
{
	holds(event, event->point_id == point);
	holds(event, event->object_id == id);
	holds(event, event->slots[0] == from);
	holds(event, event->slots[1] == to);
	check_owner(reader, event, cycle);
}

static void check_order(const struct reader *reader, const struct reader_event *event, uint32_t cycle, uint32_t from,
			uint32_t to)
{
	check_move(reader, event, TRACE_POINT_ORDER_STATE, id_of(event->thread, cycle), cycle, from, to);
	holds(event, event->slots[2] == (uint32_t)mix(event->thread, cycle * SCRIPT_CYCLE, 5));
}

static void check_job(const struct reader *reader, const struct reader_event *event, uint16_t point, uint32_t id,
		      uint32_t slot0, uint32_t slot1)
{
	holds(event, event->point_id == point);
	holds(event, event->object_id == id);
	holds(event, event->slots[0] == slot0);
	holds(event, event->slots[1] == slot1);
	check_owner(reader, event, event->seq / SCRIPT_CYCLE);
}

static uint64_t slot_pair(const struct reader_event *event, uint32_t at)
{
	return event->slots[at] | (uint64_t)event->slots[at + 1] << 32;
}

static void check_long(const struct reader *reader, const struct reader_event *event)
{
	holds(event, event->point_id == TRACE_POINT_LONG_ONE);
	holds(event, event->object_id == event->thread);
	for (uint32_t i = 0; i < 7; i++)
		holds(event, slot_pair(event, 2 * i) == mix(event->thread, event->seq, i));
	holds(event, event->slots[14] == event->seq);
	check_owner(reader, event, event->seq / SCRIPT_CYCLE);
}

void script_check_event(const struct reader *reader, const struct reader_event *event)
{
	uint32_t thread = event->thread, seq = event->seq, cycle = seq / SCRIPT_CYCLE, id = id_of(thread, cycle);
	uint64_t number = mix(thread, seq, 0);

	holds(event, thread < SCRIPT_SLOTS);
	holds(event, event->point);
	holds(event, event->ring == script_ring(seq));
	switch (step_of(seq)) {
	case ORDER_COMES:
		check_order(reader, event, cycle, ORDER_FREE, ORDER_RECEIVED);
		break;
	case ORDER_BEGINS:
		check_order(reader, event, cycle, ORDER_RECEIVED, ORDER_EXECUTING);
		break;
	case ORDER_ENDS:
		check_order(reader, event, cycle - SCRIPT_ORDERS_AT_ONCE, ORDER_EXECUTING, ORDER_DONE);
		break;
	case ORDER_GOES:
		check_order(reader, event, cycle - SCRIPT_ORDERS_AT_ONCE, ORDER_DONE, ORDER_FREE);
		break;
	case JOB_SUBMITS:
		check_job(reader, event, TRACE_POINT_JOB_SUBMIT, id, id, (uint32_t)number);
		holds(event, event->slots[2] == cycle % 2);
		break;
	case JOB_RUNS:
		check_job(reader, event, TRACE_POINT_JOB_RUN, id, TRACE_OBJECT_ORDER << 24 | id, 0);
		break;
	case JOB_ENDS:
		check_job(reader, event, TRACE_POINT_JOB_DONE, id, seq, DEMO_LATE);
		holds(event, string_is(reader, event->slots[2], "device", 0, thread));
		break;
	case ERRAND_GOES:
		check_move(reader, event, TRACE_POINT_ERRAND_STATE, ERRANDS_FIRST + id, cycle, ERRAND_FREE, ERRAND_GOING);
		break;
	case ERRAND_TURNS:
		check_move(reader, event, TRACE_POINT_ERRAND_STATE, ERRANDS_FIRST + id, cycle, ERRAND_GOING, ERRAND_BACK);
		break;
	case ERRAND_ENDS:
		check_move(reader, event, TRACE_POINT_ERRAND_STATE, ERRANDS_FIRST + id, cycle, ERRAND_BACK, ERRAND_FREE);
		break;
	case ERRAND_JOB_SUBMITS:
		check_job(reader, event, TRACE_POINT_JOB_SUBMIT, ERRANDS_FIRST + id, UINT32_MAX, (uint32_t)number);
		break;
	case ERRAND_JOB_ENDS:
		check_job(reader, event, TRACE_POINT_JOB_DONE, ERRANDS_FIRST + id, seq, DEMO_OK);
		holds(event, string_is(reader, event->slots[2], "device", 1, thread));
		break;
	case LONG_ONE:
		check_long(reader, event);
		break;
	case TEXTS:
		holds(event, event->point_id == TRACE_POINT_TEXTS);
		holds(event, string_is(reader, event->slots[0], "first", cycle % NAMES, thread));
		holds(event, string_is(reader, event->slots[1], "second", cycle / NAMES % NAMES, thread));
		break;
	case UNITS:
		/* the event has its tick in two records */
		holds(event, event->point_id == TRACE_POINT_UNITS);
		holds(event, slot_pair(event, 0) == (event->tick | (event->shared ? TICK_SHARED : 0)));
		holds(event, event->slots[2] == (uint32_t)number);
		holds(event, slot_pair(event, 3) == seq);
		break;
	case COUNTS_RARE:
	case COUNTS_IO:
	case COUNTS_IO_AGAIN:
		holds(event,
		      event->point_id == (step_of(seq) == COUNTS_RARE ? TRACE_POINT_COUNT_RARE : TRACE_POINT_COUNT_IO));
		holds(event, slot_pair(event, 0) == number);
		holds(event, event->slots[2] == seq);
		break;
	}
}

uint32_t script_slot_of(uint16_t type, uint32_t id)
{
	uint32_t first = type == TRACE_OBJECT_ERRAND ? ERRANDS_FIRST : 0;

	if (type == TRACE_OBJECT_JOB && id >= ERRANDS_FIRST)
		first = ERRANDS_FIRST;
	return id >= first && id < first + OBJECTS ? (id - first) / SCRIPT_OBJECTS : SCRIPT_SLOTS;
}

uint32_t script_state(uint16_t type, uint32_t id, uint64_t end)
{
	uint32_t state = 0, cycle_of_id = id % SCRIPT_OBJECTS,
		 seq = end > 5 * SCRIPT_CYCLE ? (uint32_t)end - 5 * SCRIPT_CYCLE : 0;
	bool errands_job = type == TRACE_OBJECT_JOB && id >= ERRANDS_FIRST;

	/* live objects began less than five cycles ago, and eight consecutive cycles have different objects */
	for (seq -= seq % SCRIPT_CYCLE; seq < end; seq++) {
		uint32_t cycle = seq / SCRIPT_CYCLE;
		bool now = cycle % SCRIPT_OBJECTS == cycle_of_id,
		     before = (cycle - SCRIPT_ORDERS_AT_ONCE) % SCRIPT_OBJECTS == cycle_of_id;
		enum step step = step_of(seq);

		if (type == TRACE_OBJECT_ORDER)
			state = step == ORDER_COMES && now     ? ORDER_RECEIVED
				: step == ORDER_BEGINS && now  ? ORDER_EXECUTING
				: step == ORDER_ENDS && before ? ORDER_DONE
				: step == ORDER_GOES && before ? ORDER_FREE
							       : state;
		else if (type == TRACE_OBJECT_ERRAND && now)
			state = step == ERRAND_GOES    ? ERRAND_GOING
				: step == ERRAND_TURNS ? ERRAND_BACK
				: step == ERRAND_ENDS  ? ERRAND_FREE
						       : state;
		else if (errands_job && now)
			state = step == ERRAND_JOB_SUBMITS ? JOB_SUBMITTED : step == ERRAND_JOB_ENDS ? JOB_FREE : state;
		else if (type == TRACE_OBJECT_JOB && now)
			state = step == JOB_SUBMITS ? JOB_SUBMITTED
				: step == JOB_RUNS  ? JOB_RUNNING
				: step == JOB_ENDS  ? JOB_FREE
						    : state;
	}
	return state;
}

uint64_t script_ended(uint16_t type, uint64_t end, bool lost)
{
	uint64_t count = 0;

	for (uint64_t cycle = 0; cycle * SCRIPT_CYCLE < end; cycle++) {
		uint64_t begin = cycle * SCRIPT_CYCLE;

		if (type == TRACE_OBJECT_ERRAND)
			count += begin + ERRAND_ENDS < end && (!lost || is_lost((uint32_t)cycle));
		else if (type == TRACE_OBJECT_ORDER)
			count += begin + ORDER_GOES < end && cycle >= SCRIPT_ORDERS_AT_ONCE;
		else
			count += (begin + JOB_ENDS < end) + (begin + ERRAND_JOB_ENDS < end);
	}
	return count;
}

void script_check_exemplar(const struct reader *reader, const struct reader_exemplar *exemplar)
{
	const struct reader_story *story = &exemplar->stories[0];
	bool is_errand = story->object->id == TRACE_OBJECT_ERRAND;
	uint32_t cycle = 0, seq_before = 0;

	assert_int_equal(script_slot_of(story->object->id, story->id), exemplar->thread);
	assert_true(exemplar->end_ticks[0] >= story->begin_tick);
	assert_true(exemplar->slow != exemplar->failed);
	if (is_errand) {
		cycle = story->args[0];
		assert_int_equal(story->id, ERRANDS_FIRST + id_of(exemplar->thread, cycle));
		assert_int_equal(exemplar->failed, is_lost(cycle));
		assert_int_equal(exemplar->story_count, 2);
		assert_int_equal(exemplar->stories[1].object->id, TRACE_OBJECT_JOB);
		assert_int_equal(exemplar->stories[1].id, story->id);
	} else {
		assert_false(exemplar->failed);
	}
	for (uint32_t i = 0; i < exemplar->record_count; i++) {
		struct reader_event event;

		assert_true(reader_exemplar_event(reader, exemplar, i, &event));
		event.thread = exemplar->thread;
		script_check_event(reader, &event);
		assert_true(i == 0 || event.seq > seq_before);
		seq_before = event.seq;
		assert_true(event.tick <= exemplar->end_ticks[0]);
		/* a shared tick may be older than the life */
		assert_true(event.tick >= story->begin_tick || event.shared);
		if (is_errand)
			assert_int_equal(event.seq / SCRIPT_CYCLE, cycle);
	}
	if (is_errand && !exemplar->records_cut)
		assert_int_equal(exemplar->record_count, 5);
}
