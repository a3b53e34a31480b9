/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * life - histograms of the stages of requests, and exemplars: the complete lives of slow or failed requests.
 *
 * A life is the states of one request from beginning to end; a stay is the time in one state. The thread on which a life
 * ends owns its histograms and exemplars and is their only writer. A stay is slow if it reaches its stage's threshold,
 * slow_ticks. Unless an operator fixed the threshold, it adapts: after each window of lives it is set so that one life in
 * TRACE_SLOW_ONE_IN of that window would have been slow. In addition, the slowest lives of each epoch are kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/observe/trace/internal.h"
#include "fathom/trace/life.h"

enum {
	WINDOW_MIN = 256,
	WINDOW_MAX = 1 << 17,
	EPOCHS = 12,
	EPOCH_SEC = 900,
	EPOCH_ROWS = 32,
	SLOW_ROWS = 128,
	FAILED_ROWS = 128,
	SCAN_RECORDS_MAX = 4096, /* records searched backwards for one life's records */
	SCAN_RECORDS_MIN = 16,	 /* searched in any case: the last records of a life often explain it */
	SCAN_BUDGET = 16384,	 /* records searched per refill: scanning must not make a burst of slow lives slower */
	SCAN_REFILLS_PER_SEC = 50,
	WINDOW_SEC_MAX = 60,
	WINDOW_SLOW_MAX = 32, /* slow lives per window; then each further one raises the adaptive thresholds */
};

/* The stays of one life, in order. */
struct stays {
	int count;
	uint8_t state[TRACE_STORY_STATES_MAX];
	uint64_t ticks[TRACE_STORY_STATES_MAX];
	uint64_t total;
	/*
	 * Used only in scratch->latest: the tick at which the current window of the type ends at the latest (0: not begun),
	 * and the window's number of lives that were slow by adaptive thresholds.
	 */
	uint64_t window_end;
	uint32_t window_slow;
};

/* The thread's private state, which readers of the file do not need. */
struct scratch {
	uint64_t scan_left, scan_refill_tick;
	/* the current epoch: a life is among its slowest if its total is longer than `least` */
	struct {
		uint64_t end; /* tick */
		uint64_t least;
	} epoch;
	struct trace_exemplar row; /* under construction */
	struct stays latest[];	   /* of lives->last, one for each type */
};

static _Thread_local struct scratch *scratch; /* NULL: not attached */

/* ---- layout ---- */

uint64_t trace_lives_bytes(void)
{
	return trace_schema()->lives_count * sizeof(struct trace_lives);
}

uint64_t trace_exemplars_bytes(bool reactor)
{
	uint64_t rows = reactor ? EPOCHS * EPOCH_ROWS + SLOW_ROWS + FAILED_ROWS : 0;

	return rows ? sizeof(struct trace_exemplars) + rows * sizeof(struct trace_exemplar) : 0;
}

uint64_t trace_named_bytes(void)
{
	return sizeof(struct trace_exemplars) + (EPOCHS * EPOCH_ROWS + SLOW_ROWS) * sizeof(struct trace_exemplar);
}

static uint64_t slow_ticks_min(void)
{
	return trace_file.process->tick_rate / TRACE_SLOW_FLOOR_PER_SEC;
}

void trace_lives_init(struct trace_lives *lives, uint32_t thread)
{
	for (uint32_t i = 0; i < trace_schema()->lives_count; i++) {
		lives[i].thread = thread;
		lives[i].window = lives[i].window_left = WINDOW_MIN;
		for (int state = 0; state < TRACE_STORY_STATES_MAX; state++)
			lives[i].stages[state].slow_ticks = slow_ticks_min();
	}
}

void trace_exemplars_init(struct trace_exemplars *exemplars)
{
	exemplars->epoch_ticks = trace_file.process->tick_rate * EPOCH_SEC;
	exemplars->epoch_count = EPOCHS;
	exemplars->epoch_rows = EPOCH_ROWS;
	exemplars->slow_rows = SLOW_ROWS;
	exemplars->failed_rows = FAILED_ROWS;
}

void trace_named_init(struct trace_exemplars *named)
{
	trace_exemplars_init(named);
	named->failed_rows = 0;
}

/* The index of the request type `object` and the number of its `state` (NULL: 0). */
static int find_stage(const char *object, const char *state, int *place_ret, unsigned int *state_ret,
		      struct fathom_fault *why)
{
	for (uint32_t place = 0; place < trace_schema()->lives_count; place++) {
		const struct trace_schema_lives *type = &trace_schema()->lives[place];

		if (strcasecmp(type->name, object) != 0)
			continue;
		*place_ret = (int)place;
		*state_ret = 0;
		for (unsigned int number = 1; state && type->states[number]; number++) {
			if (strcasecmp(type->states[number], state) == 0)
				*state_ret = number;
		}
		return state && *state_ret == 0 ? fault(why, -ENOENT, "%s has no state \"%.32s\"", type->name, state) : 0;
	}
	return fault(why, -ENOENT, "no type of request is called \"%.32s\"", object);
}

int trace_slow_set(const char *object, const char *state_name, uint64_t slow_ns, struct fathom_fault *why_door)
{
	struct fathom_fault *why = why_door;
	uint64_t ticks = 0;
	unsigned int state = 0;
	int place = 0, rc = find_stage(object, state_name, &place, &state, why);

	if (rc)
		return rc;
	pthread_mutex_lock(&trace_lock);
	if (trace_file.memory && slow_ns != UINT64_MAX)
		ticks = max_u64(1, (uint64_t)((unsigned __int128)slow_ns * trace_file.process->tick_rate / NS_PER_SEC));
	for (uint32_t i = 0; trace_file.memory && i < trace_file.thread_count; i++) {
		struct trace_lives *lives = (void *)(trace_file.memory + trace_file.threads[i].lives_offset);

		lives += place;
		if (ticks) {
			/* in this order: set_found_slow() reads them in the opposite order */
			__atomic_fetch_or(&lives->fixed, BIT(state), __ATOMIC_SEQ_CST);
			__atomic_store_n(&lives->stages[state].slow_ticks, ticks, __ATOMIC_SEQ_CST);
		} else {
			__atomic_fetch_and(&lives->fixed, ~BIT(state), __ATOMIC_RELAXED);
		}
	}
	pthread_mutex_unlock(&trace_lock);
	return 0;
}

/* ---- histograms ---- */

static void sort_stays(struct stays *stays)
{
	for (int i = 1; i < stays->count; i++) {
		uint64_t tick = stays->ticks[i];
		uint8_t state = stays->state[i];
		int at = i;

		for (; at > 0 && stays->ticks[at - 1] > tick; at--) {
			stays->ticks[at] = stays->ticks[at - 1];
			stays->state[at] = stays->state[at - 1];
		}
		stays->ticks[at] = tick;
		stays->state[at] = state;
	}
}

/*
 * A state that was entered twice counts from the second entry; the time before belongs to the previous state. Equal ticks
 * are in the order of the states.
 */
static void compute_stays(const uint64_t *ticks, uint32_t path, uint64_t end, struct stays *stays)
{
	uint64_t before = 0, begin = ticks[0] & ~TICK_SHARED;
	bool in_order = true;
	int count = 0;

	for (; path; path &= path - 1, count++) {
		int state = __builtin_ctz(path);
		uint64_t tick = ticks[state] & ~TICK_SHARED;

		stays->state[count] = (uint8_t)state;
		stays->ticks[count] = tick;
		in_order &= tick >= before;
		before = tick;
	}
	stays->count = count;
	if (unlikely(!in_order))
		sort_stays(stays);
	end &= ~TICK_SHARED;
	/* a shared tick may be older than the one before it */
	stays->total = end > begin ? end - begin : 0;
	for (int i = count - 1; i >= 0; i--) {
		uint64_t tick = stays->ticks[i];

		stays->ticks[i] = end > tick ? end - tick : 0;
		end = tick;
	}
}

/* The slot's latest lives may be those of its previous thread; they are counted like the new thread's own. */
int trace_lives_attach(const struct trace_lives *lives)
{
	uint32_t count = trace_schema()->lives_count;

	must(!scratch);
	scratch = calloc(1, sizeof(*scratch) + count * sizeof(scratch->latest[0]));
	for (uint32_t i = 0; scratch && i < count; i++)
		compute_stays(lives[i].last.ticks, lives[i].last.path, lives[i].last.end, &scratch->latest[i]);
	return scratch ? 0 : -ENOMEM;
}

void trace_lives_detach(void)
{
	free(scratch);
	scratch = NULL;
}

static inline void add_to_stage(struct trace_stage *stage, uint64_t ticks, uint64_t times)
{
	stage->ticks += ticks * times;
	stage->buckets[trace_bucket(ticks)] += times;
	if (unlikely(ticks > stage->ticks_max))
		stage->ticks_max = ticks;
}

/* The duration that `aim` stays of the current window exceeded; interpolated linearly within a bucket. */
static uint64_t find_rank_in_window(const struct trace_stage *stage, uint64_t aim)
{
	unsigned int slow = trace_bucket(stage->slow_ticks);
	uint64_t longer = 0;

	for (unsigned int bucket = TRACE_BUCKETS - 1; bucket > 0; bucket--) {
		uint64_t here = stage->buckets[bucket] - stage->before[bucket], begin = trace_bucket_begin(bucket);
		uint64_t end = trace_bucket_begin(bucket + 1);

		if (longer + here <= aim) {
			longer += here;
			continue;
		}
		/*
		 * same bucket as last time, and far too many in it: their stays are too similar to separate, so skip the
		 * bucket
		 */
		if (bucket == slow && longer + here > 4 * aim)
			return end;
		return begin + (end - begin) * (here - (aim - longer)) / here;
	}
	return 0;
}

static bool is_fixed(const struct trace_lives *lives, unsigned int state)
{
	return __atomic_load_n(&lives->fixed, __ATOMIC_SEQ_CST) >> state & 1;
}

/*
 * Set the adaptive threshold, unless an operator has fixed it, possibly concurrently: `before` is the value read before the
 * call, so that the exchange fails if trace_slow_set() stored another one since.
 */
static void set_found_slow(struct trace_lives *lives, unsigned int state, uint64_t before, uint64_t slow)
{
	if (!is_fixed(lives, state))
		__atomic_compare_exchange_n(&lives->stages[state].slow_ticks, &before, slow, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED);
}

/*
 * A device that becomes slower would make all its lives slow until the window ends. After WINDOW_SLOW_MAX of them each
 * slow stay raises its threshold, so that only a life slower than all before it counts.
 */
static COLD void count_slow(struct trace_lives *lives, struct stays *stays)
{
	bool by_found = false;

	for (int i = -1; i < stays->count; i++) {
		unsigned int state = i < 0 ? 0 : stays->state[i];
		uint64_t ticks = i < 0 ? stays->total : stays->ticks[i];
		uint64_t slow = __atomic_load_n(&lives->stages[state].slow_ticks, __ATOMIC_SEQ_CST);

		if (ticks < slow || is_fixed(lives, state))
			continue;
		by_found = true;
		if (stays->window_slow >= WINDOW_SLOW_MAX)
			set_found_slow(lives, state, slow, ticks + 1);
	}
	stays->window_slow += by_found;
}

/* After a window: set the thresholds so that one stay in TRACE_SLOW_ONE_IN of this window would have been slow. */
static void adapt_thresholds(struct trace_lives *lives, struct stays *stays)
{
	uint64_t aim = max_u64(1, (lives->window - lives->window_left) / TRACE_SLOW_ONE_IN);

	for (unsigned int state = 0; state < TRACE_STORY_STATES_MAX; state++) {
		struct trace_stage *stage = &lives->stages[state];
		uint64_t before = __atomic_load_n(&stage->slow_ticks, __ATOMIC_SEQ_CST);

		set_found_slow(lives, state, before, max_u64(find_rank_in_window(stage, aim), slow_ticks_min()));
		memcpy(stage->before, stage->buckets, sizeof(stage->before));
	}
	if (lives->window_left == 0)
		lives->window = min_u64(2 * lives->window, WINDOW_MAX);
	lives->window_left = lives->window;
	stays->window_end = 0;
	stays->window_slow = 0;
}

/*
 * Add the latest life to the histograms. `now`: the end of the next life. A window also ends by time: with few lives per
 * second it would last too long.
 */
static inline void count_last_life(struct trace_lives *lives, struct stays *stays, uint64_t now)
{
	uint64_t times = lives->last.alike;

	if (times == 0)
		return;
	/* first: if the process is killed here, a reader must not count these lives twice; missing a few is harmless */
	lives->last.alike = 0;
	add_to_stage(&lives->stages[0], stays->total, times);
	for (int i = 0; i < stays->count; i++)
		add_to_stage(&lives->stages[stays->state[i]], stays->ticks[i], times);
	lives->window_left -= min_u64(times, lives->window_left);
	if (unlikely(stays->window_end == 0))
		stays->window_end = now + trace_file.process->tick_rate * WINDOW_SEC_MAX;
	else if (unlikely(lives->window_left == 0 || now >= stays->window_end))
		adapt_thresholds(lives, stays);
}

/* ---- exemplars ---- */

static bool is_about(const struct trace_record *record, const struct trace_story *story)
{
	const struct trace_schema *schema = trace_schema();

	return record->object == story->trace.id && record->point <= schema->point_count && record->point > 0 &&
	       schema->points[record->point - 1].object_type == story->trace.type;
}

/* The same state change of the same object. The change that ends a life occurs once per life. */
static bool is_same_move(const struct trace_record *a, const struct trace_record *b)
{
	return a->point == b->point && a->args[0] == b->args[0] && a->args[1] == b->args[1];
}

/*
 * Copy the records about `stories`, newest first, to the end of the exemplar's array; then move them to its beginning.
 * Several records may have the tick at which the life began. So the search stops only at an older tick, or at the record
 * that ended the previous life.
 */
static void copy_records(struct trace_exemplar *row)
{
	const struct trace_lane *lane = &trace_self.lane[TRACE_RING_IO];
	uint64_t head = lane->ring->head, oldest = head > lane->mask ? head - lane->mask : 0;
	uint64_t begin = row->begin_tick & ~TICK_SHARED;
	uint64_t look = max_u64(SCAN_RECORDS_MIN, min_u64(SCAN_RECORDS_MAX, scratch->scan_left));
	const struct trace_record *end = NULL; /* the state change that ended the life */
	uint32_t room = TRACE_EXEMPLAR_RECORDS_MAX;
	bool at_begin = false, whole = false;

	for (; head > oldest && look > 0 && room > 0 && !whole; look--) {
		const struct trace_record *record = trace_slot(lane, --head);
		bool is_request = is_about(record, &row->stories[0]);

		scratch->scan_left -= scratch->scan_left > 0;
		whole = at_begin && (!trace_tick_is(record->tick, begin) || (is_request && is_same_move(record, end)));
		if (whole || record->point == TRACE_POINT_PART)
			continue;
		if (!is_request && (row->story_count < 2 || !is_about(record, &row->stories[1])))
			continue;
		row->records[--room] = *record;
		if (is_request) {
			at_begin |= trace_tick_is(record->tick, begin);
			end = end ? end : record;
		}
	}
	row->record_count = (uint16_t)(TRACE_EXEMPLAR_RECORDS_MAX - room);
	row->records_cut = !whole && !(at_begin && head == 0);
	memmove(row->records, row->records + room, row->record_count * sizeof(row->records[0]));
}

void trace_exemplar_write(struct trace_exemplar *row, const struct trace_exemplar *what)
{
	uint32_t version = row->version | 1;

	__atomic_store_n(&row->version, version, __ATOMIC_RELAXED);
	atomic_thread_fence(memory_order_release);
	memcpy((char *)row + sizeof(version), (const char *)what + sizeof(version), sizeof(*row) - sizeof(version));
	__atomic_store_n(&row->version, version + 1, __ATOMIC_RELEASE);
}

void trace_exemplar_push_slow(struct trace_exemplars *exemplars, const struct trace_exemplar *what)
{
	uint64_t number = exemplars->slow_head++;
	uint32_t at = exemplars->epoch_count * exemplars->epoch_rows + (uint32_t)(number % exemplars->slow_rows);

	trace_exemplar_write(&exemplars->rows[at], what);
}

static void push_failed(struct trace_exemplars *exemplars, const struct trace_exemplar *what)
{
	uint64_t number = exemplars->failed_head++;
	uint32_t at = exemplars->epoch_count * exemplars->epoch_rows + exemplars->slow_rows +
		      (uint32_t)(number % exemplars->failed_rows);

	trace_exemplar_write(&exemplars->rows[at], what);
}

static uint64_t least_of_epoch(const struct trace_exemplars *exemplars, const struct trace_exemplar *rows, uint32_t number)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < exemplars->epoch_rows; i++)
		least = rows[i].epoch == number ? min_u64(least, rows[i].total_ticks) : 0;
	return least;
}

/*
 * Keep the life among the slowest of its epoch if it is slower than the fastest of them, which then moves to the ring of
 * the latest slow lives; otherwise put it into that ring.
 */
static void keep_slow(struct trace_exemplars *exemplars, struct trace_exemplar *what)
{
	struct trace_exemplar *rows, *least = NULL;

	what->epoch = (uint32_t)(what->end_tick / exemplars->epoch_ticks) + 1;
	rows = exemplars->rows + (size_t)(what->epoch % exemplars->epoch_count) * exemplars->epoch_rows;
	for (uint32_t i = 0; i < exemplars->epoch_rows; i++) {
		struct trace_exemplar *row = &rows[i];

		if (row->epoch != what->epoch || row->version % 2) {
			least = row;
			break;
		}
		if (!least || row->total_ticks < least->total_ticks)
			least = row;
	}
	must(least);
	if (least->epoch == what->epoch && what->total_ticks <= least->total_ticks) {
		trace_exemplar_push_slow(exemplars, what);
		return;
	}
	if (least->epoch == what->epoch)
		trace_exemplar_push_slow(exemplars, least);
	trace_exemplar_write(least, what);
	scratch->epoch.end = (uint64_t)what->epoch * exemplars->epoch_ticks;
	scratch->epoch.least = least_of_epoch(exemplars, rows, what->epoch);
}

static void keep_exemplar(struct trace_lives *lives, const struct trace_story *story, const struct trace_story *with,
			  bool failed, uint8_t slow_state, uint64_t now)
{
	struct trace_exemplar *row = &scratch->row;
	uint64_t begin = story->ticks[0] & ~TICK_SHARED;

	if (!trace_self.exemplars)
		return;
	if (scratch->scan_refill_tick == 0 ||
	    now - scratch->scan_refill_tick > trace_file.process->tick_rate / SCAN_REFILLS_PER_SEC) {
		scratch->scan_refill_tick = now;
		scratch->scan_left = SCAN_BUDGET;
	}
	row->why = failed ? TRACE_EXEMPLAR_FAILED : TRACE_EXEMPLAR_SLOW;
	row->slow_state = slow_state;
	row->begin_tick = begin;
	row->end_tick = now & ~TICK_SHARED;
	row->total_ticks = row->end_tick > begin ? row->end_tick - begin : 0;
	row->epoch = 0;
	row->story_count = 1;
	row->stories[0] = *story;
	if (with && with->ticks[0] != 0 && (with->ticks[0] & ~TICK_SHARED) >= begin)
		row->stories[row->story_count++] = *with;
	copy_records(row);
	lives->kept++;
	if (failed)
		push_failed(trace_self.exemplars, row);
	else
		keep_slow(trace_self.exemplars, row);
}

void trace_life_sum(struct trace_lives *lives, struct trace_story *story, const struct trace_story *with, bool failed,
		    bool may_keep, uint64_t now)
{
	struct stays *stays = &scratch->latest[lives - trace_self.lives];
	uint8_t slow_state = 0;
	bool slow;

	count_last_life(lives, stays, now);
	compute_stays(story->ticks, story->path, now, stays);
	slow = stays->total >= lives->stages[0].slow_ticks ||
	       (!(lives->fixed & 1) && (stays->total > scratch->epoch.least || now >= scratch->epoch.end));
	for (int i = 0; i < stays->count && !slow; i++) {
		slow = stays->ticks[i] >= lives->stages[stays->state[i]].slow_ticks;
		slow_state = slow ? stays->state[i] : 0;
	}
	if (unlikely(slow))
		count_slow(lives, stays);
	lives->object_type = story->trace.type;
	lives->last.path = story->path;
	lives->last.slow = slow;
	lives->last.end = now;
	memcpy(lives->last.ticks, story->ticks, sizeof(lives->last.ticks));
	__atomic_store_n(&lives->last.alike, 1, __ATOMIC_RELEASE);
	lives->failed += failed;
	if (unlikely(may_keep && (slow || failed)))
		keep_exemplar(lives, story, with, failed, slow_state, now);
}
