/* SPDX-License-Identifier: BSD-2-Clause */
/* html - the data that html.c keeps until html_write.c writes the page. */
#ifndef INSPECT_EXPORT_HTML_H
#define INSPECT_EXPORT_HTML_H

#include "inspect/export/internal.h"

enum {
	HTML_EVENTS_MAX = 200000, /* the newest */
	HTML_LIVES_MAX = 50000,	  /* the newest that have ended */
	HTML_SLOWEST_MAX = 200,	  /* of lives without a parent */
	HTML_LIFE_EVENTS_MAX = 96,
	HTML_LIFE_STAGES_MAX = 16, /* moves; beyond, the last stage kept extends to the end */
	HTML_CHILDREN_MAX = 8,
	HTML_TRACKS_MAX = 1 << 14, /* simultaneous lives with stages */
	HTML_KINDS_MAX = 8,

	/* eight buckets for each power of two of nanoseconds */
	HTML_BUCKET_BITS = 3,
	HTML_BUCKETS = 48 << HTML_BUCKET_BITS,
	HTML_HEAT_COLUMNS = 160,
};

/* An event, until it is written. */
struct html_event {
	uint64_t ordinal; /* index among all wanted events */
	uint64_t tick, life;
	const struct reader_point *point; /* NULL: unknown */
	uint32_t object_id;
	uint16_t owner, point_id;
	uint8_t thread;
	bool shared, has_object;
	uint32_t slots[READER_SLOTS_MAX];
};

/* A life that has ended, or was in progress at the last event. */
struct html_life {
	struct life life;
	uint64_t ended;	     /* tick */
	uint64_t busy_ticks; /* outside of resting states */
	bool is_open;
	uint8_t stage_count;
	uint8_t states[HTML_LIFE_STAGES_MAX];
	uint64_t entered[HTML_LIFE_STAGES_MAX]; /* ticks */
};

/* The data kept with a life. */
struct html_track {
	struct html_track *next_free;
	struct html_life present;
	uint32_t event_count, child_count;
	struct html_event events[HTML_LIFE_EVENTS_MAX]; /* its own and those of its children */
	struct html_life children[HTML_CHILDREN_MAX];
};

/* One type of objects: sums over all of its whole lives. */
struct html_kind {
	const struct reader_object *object;
	uint64_t count, partial;
	uint32_t buckets[LIVES_STATES_MAX][HTML_BUCKETS]; /* [0]: whole lives */
	uint32_t heat[HTML_HEAT_COLUMNS][HTML_BUCKETS];	  /* by the tick at which a life ended */
};

struct html {
	struct lives *lives;
	struct html_track *tracks[HTML_TRACKS_MAX], *free_tracks;
	uint32_t track_count;
	uint64_t event_count, life_count, last_tick, not_kept;
	struct html_event *events;		      /* a ring: number n at n % HTML_EVENTS_MAX */
	struct html_life *done;			      /* a ring: number n at n % HTML_LIVES_MAX */
	struct html_track *slowest[HTML_SLOWEST_MAX]; /* a heap: the fastest of them first */
	uint32_t slowest_count;
	uint64_t heat_from, heat_ticks; /* begin of the first column; width of a column */
	struct html_kind *kinds[HTML_KINDS_MAX];
	uint32_t kind_count;
	bool threads[TRACE_THREADS_MAX];
};

/* The bucket of a time. */
uint32_t html_bucket(uint64_t ns);
/* NULL: too many types. */
struct html_kind *html_kind(struct html *html, const struct reader_object *object);

/* Write the whole page. */
void html_write(struct export *export, const struct reader_counts *counts);

/* The page's own text, made by scripts/embed-page: NUL-terminated. The data goes between the two. */
extern const char html_page_before[], html_page_after[];

#endif
