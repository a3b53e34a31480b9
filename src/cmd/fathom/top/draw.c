/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Draws the screen of `fathom top`: title, tabs, columns and rows; details, help or a choice over them; status and keys.
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

enum { COLUMNS_LEAST = 40, LINES_LEAST = LINES_FIXED + 3, CELL_MAX = 512 };
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

/*
 * Of the columns that are not hidden: the sort column, then those of rank 0 that fit, then others by rank. Remaining
 * width goes to the first column, if it is a name.
 */
static void choose_columns(const struct top_screen *screen, struct layout *layout)
{
	uint32_t count, sort = screen->views[screen->tab].sort, hidden = screen->views[screen->tab].hidden;
	const struct top_column *columns = top_columns(screen->tab, &count);
	bool shown[TOP_COLUMNS_MAX] = { false };
	int left = COLS + 1;

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
	if (left > 0 && top_show_is_text(columns[0].unit))
		layout->widths[0] += left;
}

/* ---- parts ---- */

static void draw_title(const struct top_screen *screen)
{
	const struct top_show *show = &screen->show;
	time_t wall = (time_t)show->wall_sec;
	char text[CELL_MAX], when[16] = "";
	struct tm parts;

	if (show->sampled_ns)
		strftime(when, sizeof(when), "%H:%M:%S", localtime_r(&wall, &parts));
	snprintf(text, sizeof(text), "fathom top  %s %lld  %s", show->program[0] ? show->program : "process",
		 (long long)(show->pid > 0 ? show->pid : 0), show->path);
	attron(A_BOLD);
	draw_cell(0, 0, COLS - 20, false, CUT_END, text);
	snprintf(text, sizeof(text), "every %g s %s", (double)screen->interval_ns / NS_PER_SEC, when);
	draw_cell(0, COLS - 20, 20, true, CUT_END, text);
	attroff(A_BOLD);
}

static void draw_tabs(const struct top_screen *screen)
{
	int x = 0;

	draw_line(1, "");
	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		char text[32];

		snprintf(text, sizeof(text), " %d %s ", (int)tab + 1, top_tab_title(tab));
		if (tab == screen->tab)
			attron(A_REVERSE);
		draw_cell(1, x, (int)strlen(text), false, CUT_END, text);
		attroff(A_REVERSE);
		x += (int)strlen(text) + 1;
	}
	draw_cell(1, x, COLS - x, true, CUT_END,
		  screen->paused				     ? "paused"
		  : screen->totals				     ? "totals"
		  : top_show_seconds(&screen->show, screen->tab) > 0 ? "interval"
								     : "first sample");
}

static void draw_header(const struct top_screen *screen, const struct layout *layout)
{
	uint32_t count, sort = screen->views[screen->tab].sort;
	const struct top_column *columns = top_columns(screen->tab, &count);
	int x = 0;

	draw_line(2, "");
	for (uint32_t i = 0; i < layout->count; i++) {
		const struct top_column *column = &columns[layout->columns[i]];

		attron(layout->columns[i] == sort ? A_BOLD | A_UNDERLINE : A_BOLD);
		draw_cell(2, x, layout->widths[i], !top_show_is_text(column->unit), CUT_END,
			  top_show_title(column, screen->totals));
		attroff(A_BOLD | A_UNDERLINE);
		x += layout->widths[i] + 1;
	}
}

static void draw_row(const struct top_screen *screen, const struct layout *layout, const struct top_row *row, int y)
{
	uint32_t count;
	const struct top_column *columns = top_columns(screen->tab, &count);
	char text[TOP_TEXT_BYTES_MAX];
	int x = 0;

	draw_line(y, "");
	for (uint32_t i = 0; i < layout->count; i++) {
		const struct top_column *column = &columns[layout->columns[i]];
		enum top_unit unit = top_show_unit(column, screen->totals);

		draw_cell(y, x, layout->widths[i], !top_show_is_text(unit), unit == TOP_UNIT_NAME ? CUT_BEGIN : CUT_END,
			  top_value_text(&row->values[layout->columns[i]], unit, text));
		x += layout->widths[i] + 1;
	}
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

		if (row == (selected < 0 ? 0 : selected))
			attron(A_REVERSE);
		draw_row(screen, &layout, &table->rows[row], (int)i + 3);
		attroff(A_REVERSE);
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
	draw_line(2, title);
	attroff(A_BOLD);
	for (uint32_t i = 0; i < rows; i++)
		draw_line((int)i + 3, screen->text.first + i < count ? lines[screen->text.first + i] : "");
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
	draw_line(2, is_sort ? "Sort by:" : "Columns: [x] shown, [-] where there is room, [ ] hidden");
	attroff(A_BOLD);
	for (uint32_t i = 0; i < rows; i++) {
		char text[CELL_MAX] = "";

		if (first + i < count)
			snprintf(text, sizeof(text), " %s %-10s %s", is_sort ? "" : column_mark(screen, &layout, first + i),
				 top_show_title(&columns[first + i], screen->totals), columns[first + i].help);
		if (first + i == screen->choice)
			attron(A_REVERSE);
		draw_line((int)i + 3, text);
		attroff(A_REVERSE);
	}
}

void top_draw(struct top_screen *screen)
{
	erase();
	if (COLS < COLUMNS_LEAST || LINES < LINES_LEAST) {
		draw_line(0, "The terminal is too small:");
		draw_line(1, "80x24 shows all.");
		refresh();
		return;
	}
	draw_title(screen);
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
