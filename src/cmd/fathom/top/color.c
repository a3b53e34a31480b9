/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The colours of `fathom top`. They stand on the terminal's own background, so only colours that a light and a dark
 * background show well are used: neither yellow nor blue. A colour is never the only sign: values have a mark, too.
 */
#include <curses.h>
#include <stdlib.h>

#include "cmd/fathom/top/screen.h"

enum { PAIR_HIGH = 1, PAIR_BAD, COLORS_LEAST = 8 };

static bool is_on;

void top_color_start(enum top_color color)
{
	const char *no_color = getenv("NO_COLOR");

	if (color == TOP_COLOR_OFF || (color == TOP_COLOR_AUTO && no_color && no_color[0]))
		return;
	if (!has_colors() || start_color() == ERR || COLORS < COLORS_LEAST)
		return;
	if (use_default_colors() == ERR) /* the terminal cannot keep its background */
		return;
	is_on = init_pair(PAIR_HIGH, COLOR_MAGENTA, -1) != ERR && init_pair(PAIR_BAD, COLOR_RED, -1) != ERR;
}

unsigned long top_color_of(enum top_level level)
{
	if (level == TOP_LEVEL_BAD)
		return A_BOLD | (is_on ? (unsigned long)COLOR_PAIR(PAIR_BAD) : 0);
	return level == TOP_LEVEL_HIGH && is_on ? (unsigned long)COLOR_PAIR(PAIR_HIGH) : 0;
}
