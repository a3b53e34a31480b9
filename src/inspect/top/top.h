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
 *   summary.c   the target in one line, and its alarms
 *   history.c   volumes in the last minutes
 *   bar.c       bars, and thresholds of values
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
	TOP_COLUMNS_MAX = 18,
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
/* The target rejected the call; `why` is copied for top_table_note(). TOP_CORE_SILENT is an alarm. */
#define TOP_CORE_SILENT "a core does not answer; the tab CORES shows which one is busy"
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
	TOP_UNIT_BAR,	  /* from 0 to 100: the column before it, as a bar */
	TOP_UNIT_HISTORY, /* no value: see top_history_bars() */
};

/* A picture: it has no value of its own, so it is neither in lines nor in JSON. */
static inline bool top_unit_is_picture(enum top_unit unit)
{
	return unit == TOP_UNIT_BAR || unit == TOP_UNIT_HISTORY;
}

/* What a value may not exceed; bar.c has the thresholds. */
enum top_watch { TOP_WATCH_NONE, TOP_WATCH_SHARE, TOP_WATCH_LATENCY, TOP_WATCH_SOME, TOP_WATCH_FAILED };
enum top_level { TOP_LEVEL_FINE, TOP_LEVEL_HIGH, TOP_LEVEL_BAD };

struct top_column {
	const char *key, *title; /* for the interval: "read_iops", "READ/S" */
	const char *key_total;	 /* for totals; NULL: the same */
	const char *title_total;
	enum top_unit unit, unit_total;
	uint8_t width; /* characters; of the first column the minimum */
	uint8_t rank;  /* 0: always shown; others if there is space, low ranks first */
	const char *help;
	enum top_watch watch;
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
	uint32_t not_offered; /* bits of columns of latencies that the target does not report */
	struct top_row *rows;
};
static_assert(TOP_COLUMNS_MAX <= 32, "each has its bit");

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

/* ---- bars ---- */

enum { TOP_BAR_CELLS_MAX = 60, TOP_BAR_BYTES_MAX = TOP_BAR_CELLS_MAX * 4 + 1 };

/* The level of a value. Totals of counts have none: they never shrink. A bar has that of the column before it. */
enum top_level top_value_level(const struct top_column *column, const struct top_value *value, bool totals);
/* The mark of a level, which stands behind the value: ' ', '*' or '!'. */
char top_level_mark(enum top_level level);

/*
 * A horizontal bar of `percent` (0 to 100) in `cells` characters, with blanks behind it: eighths of blocks or, without
 * `utf8`, '#'. More than 0 is never empty. Returns `text_ret`.
 */
const char *top_bar_text(double percent, uint32_t cells, bool utf8, char text_ret[TOP_BAR_BYTES_MAX]);
/*
 * One character for each of `count` values, the highest of which is `max`: 8 heights or, without `utf8`, 8 characters of
 * growing density; '_' is 0, a blank an unknown value (below 0).
 */
const char *top_bars_text(const float *values, uint32_t count, float max, bool utf8, char text_ret[TOP_BAR_BYTES_MAX]);

/* ---- the target as a whole ---- */

enum { TOP_ALARMS_MAX = 12, TOP_PARTS_MAX = 8, TOP_ALARM_BYTES_MAX = 192, TOP_PART_BYTES_MAX = 48 };

struct top_alarm {
	char alarm[40]; /* its key in JSON: "device_slow" */
	uint64_t count;
	char text[TOP_ALARM_BYTES_MAX]; /* "1 device is slow (m0, 12 s)" */
};

struct top_summary {
	char version[64]; /* "": unknown */
	struct top_value uptime_seconds, hosts;
	struct top_value iops, read_bytes, write_bytes; /* per second, in the interval between the samples */
	struct top_value busy_percent;			/* of all reactors, in the interval */
	struct top_value under_way, oldest_us;		/* commands of hosts, now */
	bool has_alarms;				/* the target reports alarms; otherwise only some are known */
	uint32_t alarm_count;
	struct top_alarm alarms[TOP_ALARMS_MAX];
};

/* `before`: the sample before `now`, of any tabs; NULL: none. The result borrows nothing. */
void top_summary_get(const struct top_sample *before, const struct top_sample *now, struct top_summary *summary_ret);
/* "3 d 04:05", "04:05:06"; "-" if it is unknown. Returns `text_ret`. */
const char *top_uptime_text(const struct top_value *seconds, char text_ret[TOP_TEXT_BYTES_MAX]);

/* The line of figures, in parts; the most important come first. A part that is not fine ends with its mark. */
struct top_part {
	char text[TOP_PART_BYTES_MAX];
	enum top_level level;
};
uint32_t top_summary_parts(const struct top_summary *summary, struct top_part parts_ret[TOP_PARTS_MAX]);
/* All alarms, with "; " between them, or that there is none. Returns `text_ret`. */
const char *top_summary_alarms(const struct top_summary *summary, char *text_ret, size_t bytes);
/* Pair: json_decref(). */
json_t *top_summary_json(const struct top_summary *summary);

/* ---- history ---- */

/*
 * IOPS and average latency of each volume in the last TOP_HISTORY_SLOTS slots of time, as far as they were sampled. A
 * sample counts for all the slots since the one before it, so a long interval is an average and no gap.
 */
struct top_history;

enum { TOP_HISTORY_SLOTS = 60, TOP_HISTORY_VOLUMES_MAX = 4096 /* further ones have no history */ };
static_assert((int)TOP_HISTORY_SLOTS <= (int)TOP_BAR_CELLS_MAX, "a bar for each");

/* Pair: top_history_destroy(). */
struct top_history *top_history_create(uint64_t slot_ns);
/* Accepts NULL. */
void top_history_destroy(struct top_history *history);
uint64_t top_history_slot_ns(const struct top_history *history);
/* Add the interval between two samples that include VOLUMES. Volumes that `now` does not have are forgotten. */
void top_history_add(struct top_history *history, const struct top_sample *before, const struct top_sample *now);

/* The slots of a volume, the present one last. Below 0: not sampled, or, of latency, no I/O. */
struct top_slots {
	float iops[TOP_HISTORY_SLOTS], latency_us[TOP_HISTORY_SLOTS];
};
/* False: it has none, and *slots_ret has no known value. */
bool top_history_get(const struct top_history *history, const char *key, struct top_slots *slots_ret);
/* The IOPS of the last `cells` slots as bars, relative to the highest in all slots of the volume. Returns `text_ret`. */
const char *top_history_bars(const struct top_history *history, const char *key, uint32_t cells, bool utf8,
			     char text_ret[TOP_BAR_BYTES_MAX]);
/* {"slot_seconds", "iops", "latency_us"}; arrays from the oldest slot to the present one, null where nothing is known. */
json_t *top_history_json(const struct top_history *history, const char *key);

/* ---- details ---- */

/* Calls `line` for each line about the row with `key`. The table must have been created from these samples. */
typedef void (*top_line_fn)(void *ctx, const char *line);
void top_details(const struct top_table *table, const struct top_sample *before, const struct top_sample *now,
		 const char *key, top_line_fn line, void *ctx);
/* The same for the history of a volume. */
void top_history_details(const struct top_history *history, const char *key, bool utf8, top_line_fn line, void *ctx);

#endif
