/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * top - the activity of a live target, from the answers of its control socket. Pure: it returns the calls to make,
 * accepts the answers, and makes tables of them. It uses no socket and no terminal.
 *
 *   sample.c    the calls of one sample and their answers; the rows in them, each with a key
 *   columns.c   the columns of the tables, and the formatting of values
 *   rows.c      one sample, or two and the time between them -> rows
 *   hosts.c     the same for HOSTS, which sums up queue pairs
 *   table.c     tables: rows, their order, columns without data
 *   details.c   all data about one row, line by line
 *
 * A target's counters only grow. If a row's counters are smaller than before, the row is a new object of the same name,
 * or was reset: its counts are then those since that moment. The same applies to a row that did not exist before. A
 * value that the target does not report, or that needs two samples when there is one, is TOP_NOTHING and never 0.
 *
 * Thread: any, one at a time. Out of memory: the program aborts.
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
	TOP_TEXT_BYTES_MAX = 256, /* of a formatted value: an NQN has 223 */
	TOP_CALLS_MAX = 1024,	  /* of one sample: further subsystems are not queried */
};

/* "THREADS", "threads" */
const char *top_tab_title(enum top_tab tab);
const char *top_tab_key(enum top_tab tab);

/* ---- samples ---- */

struct top_sample;

enum { TOP_ALL_TABS = (1 << TOP_TABS) - 1 };

/* Create a sample for the tabs with their bits set; only the calls they need are made. Pair: top_sample_release(). */
struct top_sample *top_sample_create(uint32_t tabs);
/* Take another reference. Pair: top_sample_release(). */
struct top_sample *top_sample_hold(struct top_sample *sample);
/* Accepts NULL. The last release destroys it. */
void top_sample_release(struct top_sample *sample);
uint32_t top_sample_tabs(const struct top_sample *sample);

/*
 * Returns the next call to make. `*params_ret` is borrowed; NULL: no parameters. Follow each call by one of the two
 * functions below. False: no more calls, and tables can be created.
 */
MUST_CHECK bool top_sample_ask(struct top_sample *sample, const char **method_ret, const json_t **params_ret);
/* Takes `result`, which arrived at `now_ns` of a monotonic clock. An unexpected shape counts as refused. */
void top_sample_answer(struct top_sample *sample, json_t *result, uint64_t now_ns);
/* The target rejected the call; `why` is copied for top_table_note(). */
void top_sample_refuse(struct top_sample *sample, const char *why);

/* The target's process id; 0: not reported. */
int64_t top_sample_pid(const struct top_sample *sample);
/* The interval of a tab's figures: between the same answers of two samples. 0: unknown. */
double top_seconds(const struct top_sample *before, const struct top_sample *now, enum top_tab tab);

/* ---- a table ---- */

enum top_unit {
	TOP_UNIT_TEXT,	  /* cut at the end if too long */
	TOP_UNIT_NAME,	  /* cut if too long; an NQN at the beginning */
	TOP_UNIT_COUNT,	  /* a whole number */
	TOP_UNIT_RATE,	  /* per second */
	TOP_UNIT_BYTES,	  /* or bytes per second */
	TOP_UNIT_US,	  /* whole microseconds */
	TOP_UNIT_LATENCY, /* microseconds with one decimal */
	TOP_UNIT_PERCENT,
	TOP_UNIT_DEPTH,
};

struct top_column {
	const char *key, *title; /* for the interval: "read_iops", "READ/S" */
	const char *key_total;	 /* for totals; NULL: the same */
	const char *title_total;
	enum top_unit unit, unit_total;
	uint8_t width; /* characters; of the first column the minimum */
	uint8_t rank;  /* 0: always shown; others if there is space, low ranks first */
	const char *help;
};
const struct top_column *top_columns(enum top_tab tab, uint32_t *count_ret);

struct top_value {
	enum { TOP_NOTHING, TOP_NUMBER, TOP_TEXT } kind;
	double number;
	const char *text; /* borrowed from the sample */
};

struct top_row {
	const char *key; /* identifies the object across samples; borrowed from the sample */
	struct top_value values[TOP_COLUMNS_MAX];
};

struct top_table {
	enum top_tab tab;
	bool totals;
	uint32_t row_count;
	struct top_row *rows;
};

/*
 * The activity from `before` to `now` or, with `totals`, until `now`. If `before` is NULL (or of another process),
 * values of the interval are unknown. Both samples must include the tab, and are borrowed until top_table_destroy().
 */
struct top_table *top_table_create(const struct top_sample *before, const struct top_sample *now, enum top_tab tab,
				   bool totals);
/* Accepts NULL. */
void top_table_destroy(struct top_table *table);

/* Sort by one column; TOP_NOTHING comes last, equal rows are sorted by key. */
void top_table_sort(struct top_table *table, uint32_t column, bool descending);
/* Keep the rows with `text` in one of their texts, ignoring case; "": all. */
void top_table_filter(struct top_table *table, const char *text);
/* Returns the index of the row, or -1. */
int64_t top_table_find(const struct top_table *table, const char *key);

/*
 * Write a sentence about what the target does not report of this tab into `text_ret` of `bytes`. False: it reports
 * everything.
 */
bool top_table_note(const struct top_table *table, const struct top_sample *now, char *text_ret, size_t bytes);

/* Format `value` for users; `*_full`: all digits, unscaled. TOP_NOTHING is "-". Returns `text_ret`. */
const char *top_value_text(const struct top_value *value, enum top_unit unit, char text_ret[TOP_TEXT_BYTES_MAX]);
const char *top_value_text_full(const struct top_value *value, enum top_unit unit, char text_ret[TOP_TEXT_BYTES_MAX]);

/* The values of a row by their columns' keys. Pair: json_decref(). */
json_t *top_row_json(const struct top_table *table, const struct top_row *row);
/*
 * All tables, keyed by tab; the samples must include all tabs. "seconds" has the interval of each (null: totals),
 * "not_offered" the columns without data.
 */
json_t *top_json(const struct top_sample *before, const struct top_sample *now, bool totals);

/* ---- details ---- */

/* Calls `line` for each line about the row with `key`. The table must have been created from these samples. */
typedef void (*top_line_fn)(void *ctx, const char *line);
void top_details(const struct top_table *table, const struct top_sample *before, const struct top_sample *now,
		 const char *key, top_line_fn line, void *ctx);

#endif
