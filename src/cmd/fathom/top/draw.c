/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Draws the screen of `fathom top`: title, summary, alarms, tabs, columns and rows; details, help or a choice over them;
 * status and keys. A value above its threshold has a mark behind it, and a colour if the terminal has colours.
 */
#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#include "base/bits.h"
#include "base/clock.h"
#include "cmd/fathom/top/screen.h"

enum { COLUMNS_LEAST = 40, LINES_LEAST = LINES_FIXED + 3, CELL_MAX = 512, NAME_MORE = 12 };
enum cut { CUT_END, CUT_BEGIN };

static const char *const help_lines[] = {
	"1 to 6, Tab      threads, pollers, cores, volumes, hosts, buffers; the next one",
	"Up Down          select a row; PgUp, PgDn, Home, End likewise",
	"Enter            all values of the row; Esc closes it",
	"s                choose the column to sort by",
	"c                choose the columns that are shown",
	"< >              sort by the column before, by the next one",
	"R                reverse the order",
	"/                only rows with a text in one of their names; Esc shows all",
	"t                totals since the engine's start, or values of the interval",
	"r                change the interval",
	"p                pause: stop sampling, or continue",
	"Space            sample at once",
	"h ?              this page",
	"q                quit",
	"",
	"A - means that the engine does not report the value, or that nothing happened.",
	"IOPS and columns with /S are per second; other numbers are of the interval.",
	"A * marks a high value, a ! one that is too high: shares from 75 and 90 %,",
	"latencies from 10 and 100 ms, failed I/Os, commands that wait for a buffer.",
	"The bar LATENCY compares rows: that of the slowest one is full.",
	"Above: \"under way\" are commands of hosts, with the age of the oldest one.",
};

uint32_t top_draw_help_lines(void)
{
	return ARRAY_COUNT(help_lines);
}

uint32_t top_draw_rows(void)
{
	return LINES > LINES_FIXED ? (uint32_t)(LINES - LINES_FIXED) : 0;
}

/* ---- cells ---- */

/* Convert to wide characters; unprintable ones become '?'. Returns the length. */
static size_t convert_to_wide(const char *text, wchar_t *to)
{
	mbstate_t state = { 0 };
	size_t used = 0;

	while (*text && used + 1 < CELL_MAX) {
		size_t bytes = mbrtowc(&to[used], text, strlen(text), &state);

		if (bytes == 0 || bytes > strlen(text) || wcwidth(to[used]) < 0) {
			to[used] = L'?';
			bytes = 1;
			memset(&state, 0, sizeof(state));
		}
		text += bytes;
		used++;
	}
	to[used] = L'\0';
	return used;
}

static int measure_width(const wchar_t *text, size_t count)
{
	int width = 0;

	for (size_t i = 0; i < count; i++)
		width += wcwidth(text[i]);
	return width;
}

/* Print `text` at `x` in exactly `width` cells; a cut text has a '~'. Prints nothing outside the terminal. */
static void draw_cell(int y, int x, int width, bool right, enum cut cut, const char *text)
{
	wchar_t wide[CELL_MAX];
	size_t count = convert_to_wide(text, wide), begin = 0;
	int used;

	width = x + width > COLS ? COLS - x : width;
	if (width <= 0)
		return;
	used = measure_width(wide, count);
	if (used > width) {
		while (count > begin && used > width - 1)
			used -= cut == CUT_END ? wcwidth(wide[--count]) : wcwidth(wide[begin++]);
		mvhline(y, x, ' ', width);
		mvaddnwstr(y, x + (cut == CUT_BEGIN), wide + begin, (int)(count - begin));
		mvaddch(y, cut == CUT_BEGIN ? x : x + used, '~');
		return;
	}
	mvhline(y, x, ' ', width);
	mvaddnwstr(y, right ? x + width - used : x, wide, (int)count);
}

static void draw_line(int y, const char *text)
{
	draw_cell(y, 0, COLS, false, CUT_END, text);
}

/* ---- choosing columns ---- */

struct layout {
	uint32_t count;
	uint32_t columns[TOP_COLUMNS_MAX];
	int widths[TOP_COLUMNS_MAX];
};

/* Distribute the remaining width: some to a name, then to the history, then the rest to the name. */
static void widen_columns(const struct top_column *columns, struct layout *layout, int left)
{
	bool has_name = layout->columns[0] == 0 && top_show_is_text(columns[0].unit);

	for (uint32_t i = 0; i < layout->count; i++) {
		int *width = &layout->widths[i], more;

		if (columns[layout->columns[i]].unit != TOP_UNIT_HISTORY || left <= 0)
			continue;
		more = has_name ? (int)min_u64((uint64_t)left, NAME_MORE) : 0;
		layout->widths[0] += more;
		left -= more;
		more = (int)min_u64((uint64_t)left, (uint64_t)(TOP_HISTORY_SLOTS - *width));
		*width += more;
		left -= more;
	}
	if (left > 0 && has_name)
		layout->widths[0] += left;
}

/*
 * Of the columns that are not hidden: the sort column, then those of rank 0 that fit, then others by rank. Remaining
 * width goes to the first column, if it is a name.
 */
static void choose_columns(const struct top_screen *screen, struct layout *layout)
{
	uint32_t count, sort = screen->views[screen->tab].sort, hidden = screen->views[screen->tab].hidden;
	const struct top_column *columns = top_columns(screen->tab, &count);
	bool shown[TOP_COLUMNS_MAX] = { false };
	int left = COLS; /* each column has a blank behind it, for its mark */

	for (uint32_t i = 0; i < count; i++) {
		shown[i] = !(hidden & BIT(i)) && (columns[i].rank == 0 || i == sort);
		left -= shown[i] ? columns[i].width + 1 : 0;
	}
	for (uint32_t i = count - 1; i > 0 && left < 0; i--) {
		if (shown[i] && i != sort) {
			shown[i] = false;
			left += columns[i].width + 1;
		}
	}
	for (uint8_t rank = 1; rank < TOP_COLUMNS_MAX; rank++) {
		for (uint32_t i = 0; i < count; i++) {
			if (columns[i].rank == rank && !shown[i] && !(hidden & BIT(i)) && left > columns[i].width) {
				shown[i] = true;
				left -= columns[i].width + 1;
			}
		}
	}
	layout->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (!shown[i])
			continue;
		layout->columns[layout->count] = i;
		layout->widths[layout->count++] = columns[i].width;
	}
	widen_columns(columns, layout, left);
}

/* ---- parts ---- */

static void draw_title(const struct top_screen *screen, const struct top_summary *summary)
{
	const struct top_show *show = &screen->show;
	time_t wall = (time_t)show->wall_sec;
	char text[CELL_MAX], when[16] = "", uptime[TOP_TEXT_BYTES_MAX];
	struct tm parts;

	if (show->sampled_ns)
		strftime(when, sizeof(when), "%H:%M:%S", localtime_r(&wall, &parts));
	snprintf(text, sizeof(text), "%s %lld  %.32s  up %.20s  %s", show->program[0] ? show->program : "process",
		 (long long)(show->pid > 0 ? show->pid : 0), summary->version[0] ? summary->version : "-",
		 top_uptime_text(&summary->uptime_seconds, uptime), show->path);
	attron(A_BOLD);
	draw_cell(LINE_TITLE, 0, COLS - 20, false, CUT_END, text);
	snprintf(text, sizeof(text), "every %g s %s", (double)screen->interval_ns / NS_PER_SEC, when);
	draw_cell(LINE_TITLE, COLS - 20, 20, true, CUT_END, text);
	attroff(A_BOLD);
}

/* The figures that fit, then the alarms. */
static void draw_summary(const struct top_screen *screen, const struct top_summary *summary)
{
	char alarms[TOP_ALARMS_MAX * TOP_ALARM_BYTES_MAX], text[sizeof(alarms) + 2];
	bool is_lost = screen->show.lost.error != 0, is_bad = is_lost || summary->alarm_count > 0;
	struct top_part parts[TOP_PARTS_MAX];
	uint32_t count = top_summary_parts(summary, parts);
	int x = 0;

	draw_line(LINE_SUMMARY, "");
	for (uint32_t i = 0; i < count && x + (int)strlen(parts[i].text) <= COLS; i++) {
		attron(top_color_of(parts[i].level));
		draw_cell(LINE_SUMMARY, x, (int)strlen(parts[i].text), false, CUT_END, parts[i].text);
		attroff(top_color_of(parts[i].level));
		x += (int)strlen(parts[i].text) + 2;
	}
	snprintf(text, sizeof(text), "%s%s", is_bad ? "! " : "",
		 is_lost ? "the target does not answer" : top_summary_alarms(summary, alarms, sizeof(alarms)));
	attron(is_bad ? top_color_of(TOP_LEVEL_BAD) : A_DIM);
	draw_line(LINE_ALARMS, screen->show.last || is_lost ? text : "");
	attroff(is_bad ? top_color_of(TOP_LEVEL_BAD) : A_DIM);
}

static void draw_tabs(const struct top_screen *screen)
{
	int x = 0;

	draw_line(LINE_TABS, "");
	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		char text[32];

		snprintf(text, sizeof(text), " %d %s ", (int)tab + 1, top_tab_title(tab));
		if (tab == screen->tab)
			attron(A_REVERSE);
		draw_cell(LINE_TABS, x, (int)strlen(text), false, CUT_END, text);
		attroff(A_REVERSE);
		x += (int)strlen(text) + 1;
	}
	draw_cell(LINE_TABS, x, COLS - x, true, CUT_END,
		  screen->paused				     ? "paused"
		  : screen->totals				     ? "totals"
		  : top_show_seconds(&screen->show, screen->tab) > 0 ? "interval"
								     : "first sample");
}

struct top_place {
	int y, x, width;
};

static bool is_right(enum top_unit unit)
{
	return !top_show_is_text(unit) && !top_unit_is_picture(unit);
}

static void draw_header(const struct top_screen *screen, const struct layout *layout)
{
	uint32_t count, sort = screen->views[screen->tab].sort;
	const struct top_column *columns = top_columns(screen->tab, &count);
	int x = 0;

	draw_line(LINE_HEADER, "");
	for (uint32_t i = 0; i < layout->count; i++) {
		const struct top_column *column = &columns[layout->columns[i]];

		attron(layout->columns[i] == sort ? A_BOLD | A_UNDERLINE : A_BOLD);
		draw_cell(LINE_HEADER, x, layout->widths[i], is_right(column->unit), CUT_END,
			  top_show_title(column, screen->totals));
		attroff(A_BOLD | A_UNDERLINE);
		x += layout->widths[i] + 1;
	}
}

/* A value that is neither fine nor nothing has its mark behind it. `is_plain`: without a colour. */
static void draw_value(const struct top_screen *screen, const struct top_row *row, uint32_t index,
		       const struct top_place *place, bool is_plain)
{
	uint32_t count;
	const struct top_column *column = &top_columns(screen->tab, &count)[index];
	enum top_unit unit = top_show_unit(column, screen->totals);
	/* a bar has the level of the value before it */
	uint32_t watched = unit == TOP_UNIT_BAR ? index - 1 : index;
	enum top_level level = top_value_level(column - (index - watched), &row->values[watched], screen->totals);
	unsigned long attributes = is_plain ? 0 : top_color_of(level);
	char text[TOP_TEXT_BYTES_MAX] = "";

	if (unit == TOP_UNIT_HISTORY)
		top_history_bars(screen->show.history, row->key, (uint32_t)place->width, screen->utf8, text);
	else if (unit != TOP_UNIT_BAR)
		top_value_text(&row->values[index], unit, text);
	else if (row->values[index].kind == TOP_NUMBER)
		top_bar_text(row->values[index].number, (uint32_t)place->width, screen->utf8, text);
	attron(attributes);
	draw_cell(place->y, place->x, place->width, is_right(unit), unit == TOP_UNIT_NAME ? CUT_BEGIN : CUT_END, text);
	if (unit != TOP_UNIT_BAR && level != TOP_LEVEL_FINE)
		mvaddch(place->y, place->x + place->width, (chtype)top_level_mark(level));
	attroff(attributes);
}

static void draw_row(const struct top_screen *screen, const struct layout *layout, const struct top_row *row, int y,
		     bool is_selected)
{
	struct top_place place = { .y = y };

	if (is_selected)
		attron(A_REVERSE);
	draw_line(y, "");
	for (uint32_t i = 0; i < layout->count; i++) {
		place.width = layout->widths[i];
		draw_value(screen, row, layout->columns[i], &place, is_selected);
		place.x += layout->widths[i] + 1;
	}
	attroff(A_REVERSE);
}

/* Scroll so that the selected row is visible. */
static void scroll_to(struct top_view *view, uint32_t selected, uint32_t rows, uint32_t count)
{
	if (selected < view->first)
		view->first = selected;
	if (rows > 0 && selected >= view->first + rows)
		view->first = selected - rows + 1;
	if (view->first > 0 && view->first + rows > count)
		view->first = count > rows ? count - rows : 0;
}

static void draw_rows(struct top_screen *screen)
{
	struct top_view *view = &screen->views[screen->tab];
	const struct top_table *table = screen->table;
	int64_t selected = table ? top_table_find(table, view->selected) : -1;
	uint32_t rows = top_draw_rows();
	struct layout layout;

	choose_columns(screen, &layout);
	draw_header(screen, &layout);
	if (!table)
		return;
	scroll_to(view, selected < 0 ? 0 : (uint32_t)selected, rows, table->row_count);
	for (uint32_t i = 0; i < rows && view->first + i < table->row_count; i++) {
		uint32_t row = view->first + i;

		draw_row(screen, &layout, &table->rows[row], (int)i + LINE_ROWS, row == (selected < 0 ? 0 : selected));
	}
}

static void draw_status(const struct top_screen *screen)
{
	const struct top_view *view = &screen->views[screen->tab];
	uint32_t count;
	const struct top_column *columns = top_columns(screen->tab, &count);
	char text[CELL_MAX], note[256] = "", filter[INPUT_BYTES_MAX + 16] = "";

	if (screen->show.lost.error) {
		snprintf(text, sizeof(text), "%.400s; retrying every second", screen->show.lost.text);
		attron(A_BOLD);
	} else if (screen->notice[0]) {
		snprintf(text, sizeof(text), "%s", screen->notice);
	} else {
		bool noted = screen->table &&
			     top_table_note(screen->table, screen->show.now[screen->tab], note, sizeof(note));

		if (screen->filter[0])
			snprintf(filter, sizeof(filter), " with \"%s\"", screen->filter);
		snprintf(text, sizeof(text), "%u of %u%s, by %s, %s%s%s", screen->table ? screen->table->row_count : 0,
			 screen->rows_all, filter, top_show_title(&columns[view->sort], screen->totals),
			 view->descending ? "descending" : "ascending", noted ? "; " : "", note);
	}
	draw_line(LINES - 2, text);
	attroff(A_BOLD);
}

static void draw_keys(const struct top_screen *screen)
{
	static const char *const keys[] = {
		[TOP_MODE_ROWS] = "Enter details  s sort  c columns  / filter  t totals  r rate  h help  q quit",
		[TOP_MODE_DETAILS] = "Up Down PgUp PgDn scroll  Esc back  q quit",
		[TOP_MODE_HELP] = "Up Down PgUp PgDn scroll  Esc back  q quit",
		[TOP_MODE_SORT] = "Up Down choose  Enter sort by it  Esc back",
		[TOP_MODE_COLUMNS] = "Up Down choose  Space Enter show or hide  Esc back",
	};
	char text[CELL_MAX];

	if (screen->mode == TOP_MODE_FILTER || screen->mode == TOP_MODE_INTERVAL) {
		snprintf(text, sizeof(text), "%s%s",
			 screen->mode == TOP_MODE_FILTER ? "only rows with: " : "interval (500ms, 2s, ...): ",
			 screen->input);
		draw_line(LINES - 1, text);
		move(LINES - 1, (int)min_u64(strlen(text), (uint64_t)COLS - 1));
		curs_set(1);
		return;
	}
	curs_set(0);
	attron(A_DIM);
	draw_line(LINES - 1, keys[screen->mode]);
	attroff(A_DIM);
}

/* ---- overlays ---- */

static void draw_text(struct top_screen *screen, const char *title, const char *const *lines, uint32_t count)
{
	uint32_t rows = top_draw_rows();

	if (screen->text.first + rows > count)
		screen->text.first = count > rows ? count - rows : 0;
	attron(A_BOLD);
	draw_line(LINE_HEADER, title);
	attroff(A_BOLD);
	for (uint32_t i = 0; i < rows; i++)
		draw_line((int)i + LINE_ROWS, screen->text.first + i < count ? lines[screen->text.first + i] : "");
}

/* The mark of a column in a list: a chosen column may not fit. */
static const char *column_mark(const struct top_screen *screen, const struct layout *layout, uint32_t column)
{
	for (uint32_t i = 0; i < layout->count; i++) {
		if (layout->columns[i] == column)
			return "[x]";
	}
	return screen->views[screen->tab].hidden & BIT(column) ? "[ ]" : "[-]";
}

static void draw_choice(const struct top_screen *screen)
{
	uint32_t count, rows = top_draw_rows(), first;
	const struct top_column *columns = top_columns(screen->tab, &count);
	bool is_sort = screen->mode == TOP_MODE_SORT;
	struct layout layout;

	choose_columns(screen, &layout);
	first = rows > 0 && screen->choice >= rows ? screen->choice - rows + 1 : 0;
	attron(A_BOLD);
	draw_line(LINE_HEADER, is_sort ? "Sort by:" : "Columns: [x] shown, [-] where there is room, [ ] hidden");
	attroff(A_BOLD);
	for (uint32_t i = 0; i < rows; i++) {
		char text[CELL_MAX] = "";

		if (first + i < count)
			snprintf(text, sizeof(text), " %s %-10s %s", is_sort ? "" : column_mark(screen, &layout, first + i),
				 top_show_title(&columns[first + i], screen->totals), columns[first + i].help);
		if (first + i == screen->choice)
			attron(A_REVERSE);
		draw_line((int)i + LINE_ROWS, text);
		attroff(A_REVERSE);
	}
}

void top_draw(struct top_screen *screen)
{
	struct top_summary summary = { .version = "" };

	erase();
	if (COLS < COLUMNS_LEAST || LINES < LINES_LEAST) {
		draw_line(0, "The terminal is too small:");
		draw_line(1, "80x24 shows all.");
		refresh();
		return;
	}
	if (screen->show.last)
		top_summary_get(screen->show.before_last, screen->show.last, &summary);
	draw_title(screen, &summary);
	draw_summary(screen, &summary);
	draw_tabs(screen);
	if (screen->mode == TOP_MODE_DETAILS)
		draw_text(screen, "Details", (const char *const *)screen->text.lines, screen->text.count);
	else if (screen->mode == TOP_MODE_HELP)
		draw_text(screen, "Keys", help_lines, ARRAY_COUNT(help_lines));
	else if (screen->mode == TOP_MODE_SORT || screen->mode == TOP_MODE_COLUMNS)
		draw_choice(screen);
	else
		draw_rows(screen);
	draw_status(screen);
	draw_keys(screen);
	refresh();
}
