/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * top - `fathom top`: the activity of a live target, by file:
 *
 *   top.c      its options; chooses between screen and --batch
 *   find.c     finds the target: a process, a name or a socket -> the path of its control socket
 *   link.c     the connection: makes the calls of a sample, reconnects after a loss
 *   sampler.c  makes samples in a thread, for the screen
 *   show.c     the samples that are shown: shared by the screen and --batch
 *   screen.c   ncurses: reads keys       draw.c   draws the state in screen.h       color.c   its colours
 *   batch.c    tables and JSON for scripts
 *
 * The calls, and the evaluation of their answers, are in inspect/top. `fathom trace top` has no screen and is a command of
 * its own: cmd/fathom/trace/top.c.
 */
#ifndef CMD_FATHOM_TOP_TOP_H
#define CMD_FATHOM_TOP_TOP_H

#include "base/clock.h"
#include "base/fault.h"
#include "inspect/top/top.h"

enum top_color { TOP_COLOR_AUTO, TOP_COLOR_ON, TOP_COLOR_OFF };

struct top_options {
	const char *target; /* NULL: the only running one */
	uint64_t interval_ns;
	uint64_t count; /* number of intervals to show; UINT64_MAX: until interrupted */
	bool batch, json, totals;
	bool tab_given; /* with --batch: print only `tab` */
	enum top_tab tab;
	const char *sort;   /* a column's key; NULL: the tab's own */
	const char *filter; /* "": all rows */
	enum top_color color;
	uint64_t history_ns; /* 0: not given */
};

/* Parse a sampling interval. False: invalid, or not from 100 ms to an hour. */
MUST_CHECK bool top_read_interval(const char *text, uint64_t *ns_ret);

/* ---- find.c ---- */

enum { TOP_PATH_BYTES = 108 }; /* capacity of a socket address */

/*
 * Find the control socket of `target`: a process id, the name of a program or of its trace file, a socket's path, or
 * NULL: the default socket, or that of the only engine. Errors (explained): -ENOENT, -EACCES, -EEXIST (several),
 * -ENAMETOOLONG.
 */
MUST_CHECK int top_find_socket(const char *target, char path_ret[TOP_PATH_BYTES], struct fathom_fault *why);

/* ---- link.c ---- */

struct top_link;

/* Errors (explained): those of top_find_socket() and connect(). `target` is borrowed until top_link_close(). */
MUST_CHECK int top_link_open(const char *target, struct top_link **link_ret, struct fathom_fault *why);
/* Accepts NULL. */
void top_link_close(struct top_link *link);
/* A sample, or the reason for which it failed. */
struct top_reply {
	struct top_sample *sample; /* NULL: it failed */
	struct fathom_fault why;
	char path[TOP_PATH_BYTES]; /* the path that was tried */
};
/*
 * Sample the target for the tabs with their bits set; reconnects if the connection was lost. Blocks until the target
 * answers, or the time limit is over.
 */
void top_reply_get(struct top_link *link, uint32_t tabs, struct top_reply *reply_ret);

/* ---- sampler.c ---- */

struct top_sampler;

/* Makes samples with `link`, which it uses exclusively until it is destroyed. Thread: one; no function blocks. */
struct top_sampler *top_sampler_create(struct top_link *link);
/* False: a sample is in progress, which may take long. Then nothing was destroyed, and the link is still in use. */
MUST_CHECK bool top_sampler_destroy(struct top_sampler *sampler);
bool top_sampler_is_busy(const struct top_sampler *sampler);
/* Start a sample for the tabs with their bits set; none may be in progress. Pair: top_sampler_end(). */
void top_sampler_begin(struct top_sampler *sampler, uint32_t tabs);
/* False: still in progress, or none was started. */
MUST_CHECK bool top_sampler_end(struct top_sampler *sampler, struct top_reply *reply_ret);

/* ---- show.c ---- */

/* The samples that are shown. */
struct top_show {
	/* for each tab its latest two samples, of any age; NULL: none */
	struct top_sample *before[TOP_TABS], *now[TOP_TABS];
	struct top_sample *last, *before_last; /* the latest two of any tabs; NULL: none */
	struct top_history *history;	       /* of volumes; NULL: not kept */
	uint64_t volumes_ns;		       /* monotonic time of the latest sample with VOLUMES; 0: none */
	char path[TOP_PATH_BYTES];	       /* the target's socket */
	uint64_t sampled_ns;		       /* monotonic time of the latest sample, also a failed one; 0: never */
	int64_t wall_sec;		       /* wall-clock time of the latest sample */
	char program[64];		       /* the target's program and process; "" and 0: unknown */
	int64_t pid;
	struct fathom_fault lost; /* why the latest sample failed; error 0: it did not */
};

#define TOP_HISTORY_NS_DEFAULT (10 * 60 * NS_PER_SEC)

/* `history_ns`: keep the history of volumes for that time; 0: keep none. Pair: top_show_deinit(). */
void top_show_init(struct top_show *show, uint64_t history_ns);
/*
 * Add the result of a sample. False: it failed, show->lost has the reason; earlier samples stay. Takes the contents of
 * `reply`.
 */
bool top_show_take(struct top_show *show, const struct top_reply *reply);
void top_show_deinit(struct top_show *show);
/* Seconds between the tab's two samples; 0: fewer than two. */
double top_show_seconds(const struct top_show *show, enum top_tab tab);
/* The column with key `key`, ignoring case (also for totals), or -1. NULL: the tab's default. */
int32_t top_show_column(enum top_tab tab, const char *key);
/* Is the natural order of the column descending? */
bool top_show_descending(enum top_tab tab, uint32_t column);
/* Its title and unit, for totals or for an interval. */
const char *top_show_title(const struct top_column *column, bool totals);
enum top_unit top_show_unit(const struct top_column *column, bool totals);
bool top_show_is_text(enum top_unit unit);
/* Whether the locale has the characters of bars. */
bool top_show_is_utf8(void);

/* ---- output ---- */

/* Both take `link`. The result is an exit status. */
int top_screen(const struct top_options *options, struct top_link *link);
int top_batch(const struct top_options *options, struct top_link *link);

#endif
