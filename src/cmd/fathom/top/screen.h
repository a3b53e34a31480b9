/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * screen - the state of the screen: screen.c reads keys and changes it; draw.c draws it and changes only
 * scroll positions.
 */
#ifndef CMD_FATHOM_TOP_SCREEN_H
#define CMD_FATHOM_TOP_SCREEN_H

#include "cmd/fathom/top/top.h"

/* Lines of the screen from the top; below the rows stand the status and the keys. */
enum { LINE_TITLE, LINE_SUMMARY, LINE_ALARMS, LINE_TABS, LINE_HEADER, LINE_ROWS, LINES_FIXED = LINE_ROWS + 2 };
enum { INPUT_BYTES_MAX = 64 };

enum top_mode {
	TOP_MODE_ROWS,
	TOP_MODE_DETAILS,  /* of the selected row */
	TOP_MODE_HELP,	   /* the keys */
	TOP_MODE_SORT,	   /* choosing a column */
	TOP_MODE_COLUMNS,  /* choosing the shown columns */
	TOP_MODE_FILTER,   /* typing a text */
	TOP_MODE_INTERVAL, /* typing a time */
};

/* The view of a tab; kept while other tabs are shown. */
struct top_view {
	uint32_t sort;
	bool descending;
	uint32_t hidden; /* bits of columns; never the first, which identifies the row */
	char *selected;	 /* key of the row; NULL: the first */
	uint32_t first;	 /* first row on the screen */
};

struct top_text {
	char **lines;
	uint32_t count;
	uint32_t first; /* first line on the screen */
};

struct top_screen {
	struct top_show show;
	struct top_sampler *sampler;
	enum top_tab tab;
	enum top_mode mode;
	bool totals, paused, quit;
	bool utf8; /* the terminal has the characters of bars */
	uint64_t interval_ns;
	char filter[INPUT_BYTES_MAX];
	char input[INPUT_BYTES_MAX]; /* text being typed */
	char notice[160];	     /* shown until the next key */
	struct top_view views[TOP_TABS];
	struct top_table *table; /* NULL: no sample yet */
	uint32_t rows_all;	 /* before the filter */
	struct top_text text;	 /* of details */
	uint32_t choice;	 /* of TOP_MODE_SORT and TOP_MODE_COLUMNS */
};

/* ---- color.c ---- */

/* Use colours if the terminal has them and `color` allows it. After newterm(). */
void top_color_start(enum top_color color);
/* The attributes of a level; of TOP_LEVEL_FINE none. */
unsigned long top_color_of(enum top_level level);

/* ---- draw.c ---- */

/* Draw the whole screen. */
void top_draw(struct top_screen *screen);
/* Number of rows, or lines of a text, that fit the terminal now. */
uint32_t top_draw_rows(void);
/* Number of lines of the help. */
uint32_t top_draw_help_lines(void);

#endif
