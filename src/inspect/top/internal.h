/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - shared by the parts of top: the answers of one sample, and a row with its previous values. */
#ifndef INSPECT_TOP_INTERNAL_H
#define INSPECT_TOP_INTERNAL_H

#include "inspect/top/top.h"

/* The calls of a sample; those from CONTROLLERS on are made for each subsystem. */
enum call {
	CALL_THREADS,
	CALL_POLLERS,
	CALL_CHANNELS,
	CALL_REACTORS,
	CALL_IOSTAT,
	CALL_SUBSYSTEMS,
	CALL_BUFFERS,
	CALL_SUMMARY,
	CALL_VERSION, /* only if the target has no CALL_SUMMARY */
	CALL_CONTROLLERS,
	CALL_QPAIRS,
};
enum { CALLS = CALL_QPAIRS + 1 };

/* One item of a tab (of HOSTS: a queue pair), as reported. */
struct item {
	char *key;
	const json_t *json; /* borrowed from the answer */
	const json_t
		*parent; /* of a poller its thread, of a queue pair its controller, of a share all of them; NULL: none */
	const char *
		text; /* of a poller its type, of a queue pair the subsystem's NQN, of a share its poll group; NULL: none */
};

struct items {
	struct item *items; /* by key */
	uint32_t count, room;
};

struct top_sample {
	uint32_t holders;
	uint32_t tabs;	     /* bits */
	uint32_t calls;	     /* bits of the calls that the tabs need */
	uint32_t calls_made; /* also rejected ones */
	json_t *params;	     /* of the current call */
	json_t *answers[CALL_CONTROLLERS];
	char *refusals[CALLS]; /* the first error of each call; NULL: none */
	uint64_t times_ns[CALLS];
	/* one for each subsystem that accepts hosts */
	json_t *nqns;	     /* strings */
	json_t *controllers; /* answers, or null */
	json_t *qpairs;
	/* derived when all answers have arrived */
	bool complete;
	double tick_rate; /* 0: not reported */
	json_t *cores;	  /* thread's id: its core */
	json_t *threads;  /* thread's id: its statistics */
	struct items items[TOP_TABS];
};

const struct item *items_find(const struct items *items, const char *key);

/* A row in progress: its item now and before, and the interval. */
struct pair {
	const struct top_sample *now;
	const struct item *item;
	const json_t *before; /* NULL: new, or totals are wanted */
	bool known;	      /* counters can be computed */
	bool totals;
	double seconds; /* of the interval; 1 for totals, so that division has no effect */
	double ticks;	/* of the interval; 0: unknown, or totals */
};

/* Pair the item of `now` with its previous values in `before` (NULL: none). */
struct pair pair_make(const struct top_sample *before, const struct top_sample *now, enum top_tab tab,
		      const struct item *item, bool totals);

static inline struct top_value value_none(void)
{
	return (struct top_value){ .kind = TOP_NOTHING };
}

static inline struct top_value value_number(double value)
{
	return (struct top_value){ .kind = TOP_NUMBER, .number = value };
}

/* NULL: nothing. */
static inline struct top_value value_text(const char *value)
{
	return (struct top_value){ .kind = value ? TOP_TEXT : TOP_NOTHING, .text = value };
}

/* The present value of `field`; the increase of its counter in the interval; the increase per second. */
struct top_value pair_gauge(const struct pair *pair, const char *field);
struct top_value pair_count(const struct pair *pair, const char *field);
struct top_value pair_rate(const struct pair *pair, const char *field);
struct top_value pair_us(const struct pair *pair, struct top_value ticks); /* ticks in microseconds */
struct top_value value_add(struct top_value a, struct top_value b);	   /* TOP_NOTHING if either is */
struct top_value value_divide(struct top_value a, double by);		   /* TOP_NOTHING if `by` is 0 */

/* Fill the tab's rows. Keys are those of the items or, of HOSTS, texts of the sample. */
void rows_make(const struct top_sample *before, const struct top_sample *now, struct top_table *table);
void hosts_make(const struct top_sample *before, const struct top_sample *now, struct top_table *table);
const char *host_of(const struct item *qpair); /* its NQN; never NULL */

/* bar.c: the level of a share in percent, and of a latency. */
enum top_level level_of_share(double percent);
enum top_level level_of_latency(double us);

/* The call with the data of a tab. */
enum call call_of(enum top_tab tab);
const char *call_method(enum call call);

#endif
