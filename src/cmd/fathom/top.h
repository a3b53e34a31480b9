/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * top - `fathom top`: what a live target does, by file:
 *
 *   top.c         its options; chooses between screen and lines
 *   top_find.c    which target is meant: a process, a name or a socket -> the path of its control socket
 *   top_link.c    the connection to it: makes the calls of a look, begins anew where it was lost
 *   top_looker.c  looks by a thread, for the screen
 *   top_show.c    the looks that are shown, and how: what screen and lines have in common
 *   top_screen.c  ncurses: reads keys          top_draw.c   draws what top_screen.h says
 *   top_batch.c   lines and JSON for scripts
 *
 * What is asked, and what is made of the answers, is inspect/top's.
 */
#ifndef CMD_FATHOM_TOP_H
#define CMD_FATHOM_TOP_H

#include "base/fault.h"
#include "inspect/top/top.h"

struct top_options {
	const char *target; /* NULL: the one that runs */
	uint64_t interval_ns;
	uint64_t count; /* intervals to show; UINT64_MAX: until it is ended */
	bool batch, json, totals;
	bool tab_given; /* of lines: `tab` alone */
	enum top_tab tab;
	const char *sort;   /* a column's key; NULL: the tab's own */
	const char *filter; /* "": all rows */
};

/* How often to look, as people write it. False: it is no time, or not from 100 ms to an hour. */
MUST_CHECK bool top_read_interval(const char *text, uint64_t *ns_ret);

/* ---- top_find.c ---- */

enum { TOP_PATH_BYTES = 108 }; /* what a socket's address holds */

/*
 * The control socket of `target`: a process id, the name of a program or of its trace file, a socket's path, or NULL: the
 * default socket, or that of the only engine there is. Errors (explained): -ENOENT, -EACCES, -EEXIST (several),
 * -ENAMETOOLONG.
 */
MUST_CHECK int top_find_socket(const char *target, char path_ret[TOP_PATH_BYTES], struct fault *why);

/* ---- top_link.c ---- */

struct top_link;

/* Errors (explained): those of top_find_socket(), what connect() says. `target` is borrowed until top_link_close(). */
MUST_CHECK int top_link_open(const char *target, struct top_link **link_ret, struct fault *why);
/* Accepts NULL. */
void top_link_close(struct top_link *link);
/* A look, or why there is none. */
struct top_look {
	struct top_sample *sample; /* NULL: there is none */
	struct fault why;
	char path[TOP_PATH_BYTES]; /* where the target was looked for */
};
/*
 * Look at the target, for the tabs whose bits are set; connects again where the connection was lost. Takes as long as the
 * target takes to answer, or to be given up.
 */
void top_look_make(struct top_link *link, uint32_t tabs, struct top_look *look_ret);

/* ---- top_looker.c ---- */

struct top_looker;

/* It makes looks at `link`, which is its own until it is destroyed. All of it is for one thread, and none of it waits. */
struct top_looker *top_looker_create(struct top_link *link);
/* False: a look is under way, whose end nobody may want to wait for. Then nothing happens, and the link is still in use. */
MUST_CHECK bool top_looker_destroy(struct top_looker *looker);
bool top_looker_is_under_way(const struct top_looker *looker);
/* Begin a look for the tabs whose bits are set. None is under way. Pair: top_looker_end(). */
void top_looker_begin(struct top_looker *looker, uint32_t tabs);
/* False: it is still under way, or none was begun. */
MUST_CHECK bool top_looker_end(struct top_looker *looker, struct top_look *look_ret);

/* ---- top_show.c ---- */

/* The looks that are shown. */
struct top_show {
	/* of each tab the last two looks that were for it, whenever that was; NULL: there is none */
	struct top_sample *before[TOP_TABS], *now[TOP_TABS];
	char path[TOP_PATH_BYTES]; /* the target's socket */
	uint64_t looked_ns;	   /* monotonic; 0: never */
	int64_t wall_sec;	   /* when the last was taken */
	char program[64];	   /* the target's, and its process; "" and 0: not known */
	int64_t pid;
	struct fault lost; /* why there was no look this time; error 0: there was */
};

/* A look has been made. False: there was none, show->lost says why; what was shown stays. Takes what is in `look`. */
bool top_show_take(struct top_show *show, const struct top_look *look);
void top_show_deinit(struct top_show *show);
/* Seconds between the tab's two looks; 0: there are no two. */
double top_show_seconds(const struct top_show *show, enum top_tab tab);
/* The column with the key `key`, in small or large letters (of totals, too), or -1. NULL: the tab's own. */
int32_t top_show_column(enum top_tab tab, const char *key);
/* Whether people want to see the largest of the column first. */
bool top_show_descending(enum top_tab tab, uint32_t column);
/* Its title and unit, of totals or of an interval. */
const char *top_show_title(const struct top_column *column, bool totals);
enum top_unit top_show_unit(const struct top_column *column, bool totals);
bool top_show_is_text(enum top_unit unit);

/* ---- the two ways ---- */

/* Both take `link`. The result is an exit status. */
int top_screen(const struct top_options *options, struct top_link *link);
int top_batch(const struct top_options *options, struct top_link *link);

#endif
