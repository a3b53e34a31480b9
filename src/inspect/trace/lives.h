/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lives - what a trace file remembers of requests that have ended, long after the rings have overwritten them: histograms
 * of how long they stayed in each state, and exemplars: the slowest, the slow and the failed ones as they were.
 *
 * Like everything in the file, hostile until proven otherwise. Of a running engine a copy is made and looked at again: a
 * row that changed meanwhile is copied once more, and one that never comes to rest is counted and not shown.
 */
#ifndef INSPECT_TRACE_LIVES_H
#define INSPECT_TRACE_LIVES_H

#include "inspect/trace/trace_file.h"

#define READER_ALL_THREADS UINT32_MAX

/* ---- histograms ---- */

struct reader_stay_sums {
	uint64_t count, ticks, ticks_max; /* stays, of all together, the longest */
	uint64_t slow_ticks; /* a stay as long as this counts as slow now, on one thread at least; 0: on none */
	uint64_t buckets[TRACE_BUCKETS];
};

/* All lives of one type that ever ended. */
struct reader_lives {
	const struct reader_object *object;
	uint32_t thread_count;					/* on which any did */
	uint64_t failed, kept;					/* kept: exemplars ever made of them */
	struct reader_stay_sums stages[TRACE_STORY_STATES_MAX]; /* [0]: the whole life; s: state s */
};

/* Does the file have any? Files of the first engines, and of SPDK, do not. */
bool reader_has_lives(const struct reader *reader);

/*
 * Of a file without: from here on reader_lives() tells of whole lives among the events given to reader_lives_event(), in
 * their order; reader_lives_from_rings() gives it all that the rings hold. -ENOMEM.
 */
MUST_CHECK int reader_lives_from_events(struct reader *reader);
void reader_lives_event(struct reader *reader, const struct reader_event *event);
MUST_CHECK int reader_lives_from_rings(struct reader *reader);
/* How many of these lives entered their present state before `tick`, resting ones left out. */
uint64_t reader_lives_waiting(const struct reader *reader, uint64_t tick);

/*
 * Those of `object` on thread `thread` or READER_ALL_THREADS, with the latest ones, so that sums are exact when nothing is
 * under way. False: none have ended.
 */
bool reader_lives(const struct reader *reader, const struct reader_object *object, uint32_t thread,
		  struct reader_lives *lives_ret);

/* Add `times` stays of `ticks`. */
void reader_stay_add(struct reader_stay_sums *sums, uint64_t ticks, uint64_t times);

/*
 * What `per_100000` of 100,000 stays did not exceed (50000: the median), in ticks; interpolated within a bucket, so within
 * 1/8 of what it was.
 */
double reader_stay_percentile(const struct reader_stay_sums *sums, uint32_t per_100000);

/* `later` minus `earlier`, of the same file and threads: what ended in between. Its longest is what the histogram shows. */
void reader_stay_difference(const struct reader_stay_sums *later, const struct reader_stay_sums *earlier,
			    struct reader_stay_sums *sums_ret);

/* ---- one life ---- */

/* The states of a life in their order, each with how long it lasted. */
struct reader_stays {
	uint32_t count;
	uint8_t states[TRACE_STORY_STATES_MAX];
	uint64_t begins[TRACE_STORY_STATES_MAX], ticks[TRACE_STORY_STATES_MAX];
};

/*
 * `path`: bits of the states that it was in; `ticks`: when each was entered. One that was entered twice counts from the
 * second time.
 */
void reader_stays(const uint64_t ticks[TRACE_STORY_STATES_MAX], uint32_t path, uint64_t end_tick,
		  struct reader_stays *stays_ret);

/* A request's life from begin to end, with that of the I/O that it made. */
struct reader_exemplar {
	uint32_t thread;
	int32_t cpu;				     /* of the thread; -1: not pinned */
	bool slow, failed;			     /* why it was kept; neither: it is whole in the rings */
	uint8_t slow_state;			     /* the state whose stay was too long; 0: the whole life was */
	bool args_known[TRACE_EXEMPLAR_STORIES_MAX]; /* the stories' arguments are of this life */
	bool records_cut;			     /* there may have been more records */
	uint64_t spent_ticks;			     /* reader_exemplar_spent() */
	uint32_t story_count, record_count;
	struct reader_story stories[TRACE_EXEMPLAR_STORIES_MAX]; /* the request's; its I/O's. In state 0 */
	uint64_t end_ticks[TRACE_EXEMPLAR_STORIES_MAX];
	struct reader_stays stays[TRACE_EXEMPLAR_STORIES_MAX];
	struct trace_record records[TRACE_EXEMPLAR_RECORDS_MAX]; /* heads of events */
};

/* Ticks from the request's begin to its end without the time in resting states. */
uint64_t reader_exemplar_spent(const struct reader_exemplar *exemplar);

/* Where a walk stands; zero it to begin. */
struct reader_exemplar_walk {
	uint32_t thread;
	uint64_t row;
	uint64_t seen, torn, cleared; /* rows in use; being written or half-written; ended before clear_tick */
};

/* The next exemplar, in the order of the file; false: no more. */
MUST_CHECK bool reader_exemplar_next(const struct reader *reader, struct reader_exemplar_walk *walk,
				     struct reader_exemplar *exemplar_ret);

/* Record `index` of an exemplar as an event. False: it is of an unknown point, or has arguments that were not kept. */
bool reader_exemplar_event(const struct reader *reader, const struct reader_exemplar *exemplar, uint32_t index,
			   struct reader_event *event_ret);

#endif
