/* SPDX-License-Identifier: BSD-2-Clause */
/* Bars of characters, and the thresholds above which a value is marked. */
#include <string.h>

#include "base/bits.h"
#include "inspect/top/internal.h"

/* docs/man/fathom-top.1 names them. */
#define SHARE_HIGH 75.0 /* percent */
#define SHARE_BAD 90.0
#define LATENCY_HIGH_US 10e3
#define LATENCY_BAD_US 100e3

enum { EIGHTHS = 8, BLOCK_BYTES = 3 /* of each block character in UTF-8 */ };

/* ---- levels ---- */

static enum top_level level_above(double value, double high, double bad)
{
	return value >= bad ? TOP_LEVEL_BAD : value >= high ? TOP_LEVEL_HIGH : TOP_LEVEL_FINE;
}

enum top_level level_of_share(double percent)
{
	return level_above(percent, SHARE_HIGH, SHARE_BAD);
}

enum top_level level_of_latency(double us)
{
	return level_above(us, LATENCY_HIGH_US, LATENCY_BAD_US);
}

enum top_level top_value_level(const struct top_column *column, const struct top_value *value, bool totals)
{
	if (value->kind != TOP_NUMBER)
		return TOP_LEVEL_FINE;
	switch (column->watch) {
	case TOP_WATCH_NONE:
		break;
	case TOP_WATCH_SHARE:
		return level_of_share(value->number);
	case TOP_WATCH_LATENCY:
		return level_of_latency(value->number);
	case TOP_WATCH_SOME:
		return value->number > 0 ? TOP_LEVEL_HIGH : TOP_LEVEL_FINE;
	case TOP_WATCH_FAILED:
		return value->number > 0 && !totals ? TOP_LEVEL_BAD : TOP_LEVEL_FINE;
	}
	return TOP_LEVEL_FINE;
}

char top_level_mark(enum top_level level)
{
	static const char marks[] = { [TOP_LEVEL_FINE] = ' ', [TOP_LEVEL_HIGH] = '*', [TOP_LEVEL_BAD] = '!' };

	must(level < ARRAY_COUNT(marks));
	return marks[level];
}

/* ---- bars ---- */

/* U+2588 is the full block; before it stand the lower blocks of 1 to 7 eighths, behind it the left blocks of 7 to 1. */
static char *add_block(char *to, unsigned int code)
{
	must(code >= 0x2581 && code <= 0x258f);
	to[0] = '\xe2';
	to[1] = (char)(0x80 | (code >> 6 & 0x3f));
	to[2] = (char)(0x80 | (code & 0x3f));
	return to + BLOCK_BYTES;
}

const char *top_bar_text(double percent, uint32_t cells, bool utf8, char text_ret[TOP_BAR_BYTES_MAX])
{
	uint32_t steps = utf8 ? EIGHTHS : 1, filled;
	char *to = text_ret;

	must(cells > 0);
	must(cells <= TOP_BAR_CELLS_MAX);
	percent = percent < 0 ? 0 : percent > 100 ? 100 : percent;
	filled = (uint32_t)(percent * cells * steps / 100 + 0.5);
	if (percent > 0 && filled == 0)
		filled = 1;
	for (uint32_t cell = 0; cell < cells; cell++) {
		uint32_t part = filled > cell * steps ? filled - cell * steps : 0;

		if (part == 0)
			*to++ = ' ';
		else if (!utf8)
			*to++ = '#';
		else
			to = add_block(to, part >= EIGHTHS ? 0x2588 : 0x2588 + EIGHTHS - part);
	}
	*to = '\0';
	return text_ret;
}

const char *top_bars_text(const float *values, uint32_t count, float max, bool utf8, char text_ret[TOP_BAR_BYTES_MAX])
{
	static const char densities[EIGHTHS + 1] = ".:-=+*#@";
	char *to = text_ret;

	must(count <= TOP_BAR_CELLS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t height = max > 0 && values[i] > 0 ? (uint32_t)(values[i] * EIGHTHS / max + 0.5f) : 0;

		height = (uint32_t)(height > EIGHTHS ? EIGHTHS : height == 0 && values[i] > 0 ? 1 : height);
		if (values[i] < 0)
			*to++ = ' ';
		else if (height == 0)
			*to++ = '_';
		else if (!utf8)
			*to++ = densities[height - 1];
		else
			to = add_block(to, 0x2580 + height);
	}
	*to = '\0';
	return text_ret;
}
