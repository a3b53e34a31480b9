/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * top_screen - what is on the screen: top_screen.c reads keys and changes it, top_draw.c draws it and changes nothing of it
 * but how far lists are scrolled.
 */
#ifndef CMD_FATHOM_TOP_SCREEN_H
#define CMD_FATHOM_TOP_SCREEN_H

#include "cmd/fathom/top.h"

enum { INPUT_BYTES_MAX = 64, LINES_FIXED = 5 /* title, tabs, header; status, keys */ };

enum top_mode {
	TOP_MODE_ROWS,
	TOP_MODE_DETAILS,  /* of the selected row */
	TOP_MODE_HELP,	   /* the keys */
	TOP_MODE_SORT,	   /* choosing a column */
	TOP_MODE_COLUMNS,  /* choosing which of them are shown */
	TOP_MODE_FILTER,   /* typing a text */
	TOP_MODE_INTERVAL, /* typing a time */
};

/* How a tab is shown; stays while others are looked at. */
struct top_view {
	uint32_t sort;
	bool descending;
	uint32_t hidden; /* columns by their bits, never the first, which says what a row is */
	char *selected;	 /* key of the row; NULL: the first */
	uint32_t first;	 /* row on the screen */
};

static_assert(TOP_COLUMNS_MAX <= 32, "each has its bit");

struct top_text {
	char **lines;
	uint32_t count;
	uint32_t first; /* line on the screen */
};

struct top_screen {
	struct top_show show;
	struct top_looker *looker;
	enum top_tab tab;
	enum top_mode mode;
	bool totals, paused, quit;
	uint64_t interval_ns;
	char filter[INPUT_BYTES_MAX];
	char input[INPUT_BYTES_MAX]; /* being typed */
	char notice[160];	     /* said once, until the next key */
	struct top_view views[TOP_TABS];
	struct top_table *table; /* NULL: nothing has been seen yet */
	uint32_t rows_all;	 /* before the filter */
	struct top_text text;	 /* of details */
	uint32_t choice;	 /* of TOP_MODE_SORT and TOP_MODE_COLUMNS */
};

/* Draw all of it. */
void top_draw(struct top_screen *screen);
/* Rows, or lines of a text, that fit the terminal as it is now. */
uint32_t top_draw_rows(void);
/* How many lines the help has. */
uint32_t top_draw_help_lines(void);

#endif
