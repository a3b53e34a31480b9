/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lives - statistics of ended requests, which a trace file keeps long after the rings have overwritten their events:
 * histograms of the time in each state, and exemplars: complete lives of the slowest, the slow and the failed requests.
 *
 * Every value in the file is checked before use. For a running engine a row is copied and checked: a row that changed
 * during the copy is copied again, and one that keeps changing is counted and not shown.
 */
#ifndef INSPECT_TRACE_LIVES_H
#define INSPECT_TRACE_LIVES_H

#include "inspect/trace/trace_file.h"

#define READER_ALL_THREADS UINT32_MAX

/* ---- histograms ---- */

struct reader_dwell_sums {
	uint64_t count, ticks, ticks_max; /* number of stays, their sum, the longest */
	uint64_t slow_ticks;		  /* shortest stay that counts as slow now, on any thread; 0: none does */
	uint64_t buckets[TRACE_BUCKETS];
};

/* All ended lives of one type. */
struct reader_lives {
	const struct reader_object *object;
	uint32_t thread_count;					 /* threads with ended lives */
	uint64_t failed, kept;					 /* kept: exemplars ever made */
	struct reader_dwell_sums stages[TRACE_STORY_STATES_MAX]; /* [0]: the whole life; s: state s */
};

/* Does the file have histograms? Files of the first engines, and of SPDK, have none. */
bool reader_has_lives(const struct reader *reader);

/*
 * For a file without histograms: reader_lives() then sums up the whole lives among the events passed to
 * reader_lives_event(), in their order. reader_lives_from_rings() passes all events of the rings. Errors: -ENOMEM.
 */
MUST_CHECK int reader_lives_from_events(struct reader *reader);
void reader_lives_event(struct reader *reader, const struct reader_event *event);
MUST_CHECK int reader_lives_from_rings(struct reader *reader);
/* Number of these lives that entered their present state before `tick`; resting states do not count. */
uint64_t reader_lives_waiting(const struct reader *reader, uint64_t tick);

/*
 * Sum up the lives of `object` on thread `thread` or READER_ALL_THREADS, with the latest ones, so sums are exact while
 * nothing is in progress. False: none have ended.
 */
bool reader_lives(const struct reader *reader, const struct reader_object *object, uint32_t thread,
		  struct reader_lives *lives_ret);

/* Add `times` stays of `ticks`. */
void reader_dwell_add(struct reader_dwell_sums *sums, uint64_t ticks, uint64_t times);

/*
 * The duration in ticks that `per_100000` of 100,000 stays did not exceed (50000: the median). Interpolated within a
 * bucket: the error is at most 1/8.
 */
double reader_dwell_percentile(const struct reader_dwell_sums *sums, uint32_t per_100000);

/*
 * `later` minus `earlier`, of the same file and threads: what ended in between. The longest stay comes from the
 * histogram.
 */
void reader_dwell_difference(const struct reader_dwell_sums *later, const struct reader_dwell_sums *earlier,
			     struct reader_dwell_sums *sums_ret);

/* ---- one life ---- */

/* The states of a life in order, with the duration of each. */
struct reader_stays {
	uint32_t count;
	uint8_t states[TRACE_STORY_STATES_MAX];
	uint64_t begins[TRACE_STORY_STATES_MAX], ticks[TRACE_STORY_STATES_MAX];
};

/*
 * Fill `*stays_ret` from `path`, the bits of the visited states, and `ticks`, the tick at which each was entered. A
 * state that was entered twice counts from the second time.
 */
void reader_stays(const uint64_t ticks[TRACE_STORY_STATES_MAX], uint32_t path, uint64_t end_tick,
		  struct reader_stays *stays_ret);

/* A complete life of a request, with that of the I/O that it issued. */
struct reader_exemplar {
	uint32_t thread;
	int32_t cpu;				     /* of the thread; -1: not pinned */
	bool slow, failed;			     /* why it was kept; neither: it comes from the rings */
	uint8_t slow_state;			     /* the state that took too long; 0: the whole life */
	bool args_known[TRACE_EXEMPLAR_STORIES_MAX]; /* the stories' arguments belong to this life */
	bool records_cut;			     /* there may have been more records */
	uint64_t spent_ticks;			     /* reader_exemplar_spent() */
	uint32_t story_count, record_count;
	struct reader_story stories[TRACE_EXEMPLAR_STORIES_MAX]; /* the request's and its I/O's; their state is 0 */
	uint64_t end_ticks[TRACE_EXEMPLAR_STORIES_MAX];
	struct reader_stays stays[TRACE_EXEMPLAR_STORIES_MAX];
	struct trace_record records[TRACE_EXEMPLAR_RECORDS_MAX]; /* heads of events */
};

/* Ticks from the request's begin to its end, without resting states. */
uint64_t reader_exemplar_spent(const struct reader_exemplar *exemplar);

/* Position of a walk; zero it to start. */
struct reader_exemplar_walk {
	uint32_t thread;
	uint64_t row;
	uint64_t seen, torn, cleared; /* rows in use; being written or half-written; ended before clear_tick */
};

/* Returns the next exemplar in file order; false: no more. */
MUST_CHECK bool reader_exemplar_next(const struct reader *reader, struct reader_exemplar_walk *walk,
				     struct reader_exemplar *exemplar_ret);

/* Return record `index` of an exemplar as an event. False: its point is unknown, or has arguments that were not kept. */
bool reader_exemplar_event(const struct reader *reader, const struct reader_exemplar *exemplar, uint32_t index,
			   struct reader_event *event_ret);

#endif
