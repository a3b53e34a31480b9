/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * top - what a live target does, out of what its control socket answers. Pure: it says which calls to make, takes what was
 * answered and makes tables of it; it knows no socket and no terminal.
 *
 *   sample.c    the calls of one look and their answers; the rows in them, each with a key
 *   columns.c   what columns the tables have, and how a value is written
 *   rows.c      one look, or two and the time between them -> rows
 *   hosts.c     the same for HOSTS, which adds queue pairs up
 *   table.c     the door: a table; which rows, in which order; what was not offered
 *   details.c   all that is known of one row, line by line
 *
 * Counters of a target only grow. A row's that are smaller than they were belong to something new of the same name, or
 * were reset: what they count is then what happened since. So is that of a row which was not there before. A value that the
 * target does not offer, or that takes two looks when there was one, is TOP_NOTHING and never 0.
 *
 * Any one thread. Memory is taken as needed, and a program without it ends.
 */
#ifndef INSPECT_TOP_H
#define INSPECT_TOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

enum top_tab { TOP_THREADS, TOP_POLLERS, TOP_CORES, TOP_VOLUMES, TOP_HOSTS, TOP_BUFFERS, TOP_TABS };
enum {
	TOP_COLUMNS_MAX = 14,
	TOP_TEXT_BYTES_MAX = 256, /* of a value, written: an NQN has 223 */
	TOP_CALLS_MAX = 1024,	  /* of one look: subsystems beyond are not asked about */
};

/* "THREADS", "threads" */
const char *top_tab_title(enum top_tab tab);
const char *top_tab_key(enum top_tab tab);

/* ---- a look ---- */

struct top_sample;

enum { TOP_ALL_TABS = (1 << TOP_TABS) - 1 };

/* For the tabs whose bits are set: what others take is not asked. Pair: top_sample_release(). */
struct top_sample *top_sample_create(uint32_t tabs);
/* One more holds it, and releases it. */
struct top_sample *top_sample_hold(struct top_sample *sample);
/* Accepts NULL. The last one destroys it. */
void top_sample_release(struct top_sample *sample);
uint32_t top_sample_tabs(const struct top_sample *sample);

/*
 * The next call to make. `*params_ret` is borrowed, NULL: none. Each is followed by one of the two below. False: none is
 * left, and tables can be made.
 */
MUST_CHECK bool top_sample_ask(struct top_sample *sample, const char **method_ret, const json_t **params_ret);
/* Takes `result`, which came at `now_ns` of a monotonic clock. What is not of the shape expected counts as refused. */
void top_sample_answer(struct top_sample *sample, json_t *result, uint64_t now_ns);
/* The target does not do that; `why` is kept for top_table_note(). */
void top_sample_refuse(struct top_sample *sample, const char *why);

/* Of the target's process; 0: it does not say. */
int64_t top_sample_pid(const struct top_sample *sample);
/* The interval that a tab's figures are of: between the same answers of two looks. 0: it is not known. */
double top_seconds(const struct top_sample *before, const struct top_sample *now, enum top_tab tab);

/* ---- a table ---- */

enum top_unit {
	TOP_UNIT_TEXT,	  /* its end is cut where it does not fit */
	TOP_UNIT_NAME,	  /* likewise; of an NQN the beginning is */
	TOP_UNIT_COUNT,	  /* a whole number */
	TOP_UNIT_RATE,	  /* a second */
	TOP_UNIT_BYTES,	  /* or bytes a second */
	TOP_UNIT_US,	  /* microseconds, whole */
	TOP_UNIT_LATENCY, /* microseconds, and tenths */
	TOP_UNIT_PERCENT,
	TOP_UNIT_DEPTH,
};

struct top_column {
	const char *key, *title; /* of the interval: "read_iops", "READ/S" */
	const char *key_total;	 /* NULL: the same of totals */
	const char *title_total;
	enum top_unit unit, unit_total;
	uint8_t width; /* characters; of the first column the least */
	uint8_t rank;  /* 0 is shown always, others as there is room, small ones first */
	const char *help;
};
const struct top_column *top_columns(enum top_tab tab, uint32_t *count_ret);

struct top_value {
	enum { TOP_NOTHING, TOP_NUMBER, TOP_TEXT } kind;
	double number;
	const char *text; /* borrowed from the sample */
};

struct top_row {
	const char *key; /* names the thing from look to look; borrowed from the table */
	struct top_value values[TOP_COLUMNS_MAX];
};

struct top_table {
	enum top_tab tab;
	bool totals;
	uint32_t row_count;
	struct top_row *rows;
};

/*
 * What happened from `before` to `now`, or, with `totals`, until `now`. `before` NULL (or of another process): of the
 * interval nothing is known yet. Both have the tab, and are borrowed until top_table_destroy().
 */
struct top_table *top_table_create(const struct top_sample *before, const struct top_sample *now, enum top_tab tab,
				   bool totals);
/* Accepts NULL. */
void top_table_destroy(struct top_table *table);

/* By one column; nothing comes last, equals keep their order by key. */
void top_table_sort(struct top_table *table, uint32_t column, bool descending);
/* Keep the rows one of whose texts has `text` in it, in any case; "": all. */
void top_table_filter(struct top_table *table, const char *text);
/* The index of the row, or -1. */
int64_t top_table_find(const struct top_table *table, const char *key);

/*
 * What of the tab the target does not offer, in a sentence into `text_ret` of `bytes`. False: it offers all of it.
 */
bool top_table_note(const struct top_table *table, const struct top_sample *now, char *text_ret, size_t bytes);

/* `value` as people read it; `*_full`: all its digits and no scale. TOP_NOTHING is "-". Returns `text_ret`. */
const char *top_value_text(const struct top_value *value, enum top_unit unit, char text_ret[TOP_TEXT_BYTES_MAX]);
const char *top_value_text_full(const struct top_value *value, enum top_unit unit, char text_ret[TOP_TEXT_BYTES_MAX]);

/* The values of a row by their columns' keys. Pair: json_decref(). */
json_t *top_row_json(const struct top_table *table, const struct top_row *row);
/*
 * All tables of looks at all tabs, by the tabs' keys; likewise under "seconds" of which interval they are (null: of totals)
 * and under "not_offered" the columns in which there is nothing.
 */
json_t *top_json(const struct top_sample *before, const struct top_sample *now, bool totals);

/* ---- details ---- */

/* Calls `line` for each line that is known of the row with `key`, whose table was made of these samples. */
typedef void (*top_line_fn)(void *ctx, const char *line);
void top_details(const struct top_table *table, const struct top_sample *before, const struct top_sample *now,
		 const char *key, top_line_fn line, void *ctx);

#endif
