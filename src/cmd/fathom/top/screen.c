/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * screen - the screen of `fathom top`: one loop reads keys, starts samples when they are due, and shows their results.
 * Samples are made in another thread (sampler.c), so that the screen reacts to keys while the target does not answer.
 */
#include "cmd/fathom/top/screen.h"

#include <curses.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/command.h"

enum { KEY_ESCAPE = 27, ESCAPE_DELAY_MS = 25, RETRY_MS = 1000, SAMPLE_WAIT_MS = 10, KEY_WAIT_MS_MAX = 1000 };

static volatile sig_atomic_t ended;

static void stop_screen(int number)
{
	ended = 1;
}

/* ---- the shown table and texts ---- */

static struct top_view *view_of_tab(struct top_screen *screen)
{
	return &screen->views[screen->tab];
}

static void clear_text(struct top_text *text)
{
	for (uint32_t i = 0; i < text->count; i++)
		free(text->lines[i]);
	free(text->lines);
	text->lines = NULL;
	text->count = 0;
}

static void add_text_line(void *ctx, const char *line)
{
	struct top_text *text = ctx;

	text->lines = reallocarray(text->lines, text->count + 1, sizeof(*text->lines));
	must(text->lines);
	text->lines[text->count] = strdup(line);
	must(text->lines[text->count]);
	text->count++;
}

static void select_row(struct top_screen *screen, int64_t index)
{
	struct top_view *view = view_of_tab(screen);

	free(view->selected);
	view->selected = NULL;
	if (!screen->table || screen->table->row_count == 0)
		return;
	index = index < 0 ? 0 : (int64_t)min_u64((uint64_t)index, screen->table->row_count - 1);
	view->selected = strdup(screen->table->rows[index].key);
	must(view->selected);
}

static int64_t selected_index(struct top_screen *screen)
{
	int64_t index = screen->table ? top_table_find(screen->table, view_of_tab(screen)->selected) : -1;

	return index < 0 ? 0 : index;
}

/* Rebuild the table and texts from the present samples. */
static void rebuild_table(struct top_screen *screen)
{
	const struct top_sample *before = screen->show.before[screen->tab], *now = screen->show.now[screen->tab];
	struct top_view *view = view_of_tab(screen);

	top_table_destroy(screen->table);
	screen->table = NULL;
	if (!now)
		return;
	screen->table = top_table_create(before, now, screen->tab, screen->totals);
	screen->rows_all = screen->table->row_count;
	if (screen->mode == TOP_MODE_DETAILS) {
		clear_text(&screen->text);
		top_details(screen->table, before, now, view->selected, add_text_line, &screen->text);
		if (screen->tab == TOP_VOLUMES && view->selected)
			top_history_details(screen->show.history, view->selected, screen->utf8, add_text_line,
					    &screen->text);
	}
	top_table_filter(screen->table, screen->filter);
	top_table_sort(screen->table, view->sort, view->descending);
}

/* Whether the history needs a sample of the volumes, which no other tab makes. */
static bool is_history_due(const struct top_show *show)
{
	return clock_monotonic_ns() - show->volumes_ns >= top_history_slot_ns(show->history);
}

/*
 * Start a sample; at most one is in progress. The first is for all tabs, so that each has data; later ones only for the
 * shown tab and for the history of volumes.
 */
static void start_sample(struct top_screen *screen)
{
	uint32_t tabs = screen->show.now[screen->tab] ? (uint32_t)BIT(screen->tab) : TOP_ALL_TABS;

	if (is_history_due(&screen->show))
		tabs |= (uint32_t)BIT(TOP_VOLUMES);
	if (!top_sampler_is_busy(screen->sampler))
		top_sampler_begin(screen->sampler, tabs);
}

/* Show a finished sample. The table borrows from samples that will be released, so it is destroyed first. */
static void show_sample(struct top_screen *screen)
{
	struct top_reply made;

	if (!top_sampler_end(screen->sampler, &made))
		return;
	top_table_destroy(screen->table);
	screen->table = NULL;
	(void)top_show_take(&screen->show, &made); /* an error is shown on the screen */
	rebuild_table(screen);
}

/* ---- keys ---- */

static void open_details(struct top_screen *screen)
{
	if (!screen->table || screen->table->row_count == 0)
		return;
	select_row(screen, selected_index(screen));
	screen->mode = TOP_MODE_DETAILS;
	screen->text.first = 0;
}

static void sort_by(struct top_screen *screen, uint32_t column)
{
	struct top_view *view = view_of_tab(screen);

	if (view->sort == column && screen->mode == TOP_MODE_SORT)
		view->descending = !view->descending;
	else
		view->descending = top_show_descending(screen->tab, column);
	view->sort = column;
}

static void sort_by_neighbor(struct top_screen *screen, int step)
{
	uint32_t count;

	(void)top_columns(screen->tab, &count); /* only the number */
	sort_by(screen, (view_of_tab(screen)->sort + count + (uint32_t)step) % count);
}

static void show_tab(struct top_screen *screen, int tab)
{
	screen->tab = (enum top_tab)((tab + TOP_TABS) % TOP_TABS);
	if (!screen->paused)
		start_sample(screen);
}

static void begin_input(struct top_screen *screen, enum top_mode mode, const char *text)
{
	screen->mode = mode;
	(void)text_copy(screen->input, sizeof(screen->input), text); /* same size */
}

/* The row to which a key moves from `at`; -1: not a movement key. */
static int64_t find_moved_row(int key, int64_t at, uint32_t page, uint32_t count)
{
	switch (key) {
	case KEY_UP:
		return at > 0 ? at - 1 : 0;
	case KEY_DOWN:
		return at + 1;
	case KEY_PPAGE:
		return at > page ? at - page : 0;
	case KEY_NPAGE:
		return at + page;
	case KEY_HOME:
		return 0;
	case KEY_END:
		return count;
	default:
		return -1;
	}
}

static void handle_rows_key(struct top_screen *screen, int key)
{
	int64_t to = find_moved_row(key, selected_index(screen), top_draw_rows(),
				    screen->table ? screen->table->row_count : 0);

	if (to >= 0)
		select_row(screen, to);
	else if (key >= '1' && key < '1' + TOP_TABS)
		show_tab(screen, key - '1');
	else if (key == '\t' || key == KEY_RIGHT)
		show_tab(screen, (int)screen->tab + 1);
	else if (key == KEY_BTAB || key == KEY_LEFT)
		show_tab(screen, (int)screen->tab - 1);
	else if (key == '\n' || key == '\r' || key == KEY_ENTER)
		open_details(screen);
	else if (key == '<' || key == '>')
		sort_by_neighbor(screen, key == '<' ? -1 : 1);
	else if (key == 'R')
		view_of_tab(screen)->descending = !view_of_tab(screen)->descending;
	else if (key == 't')
		screen->totals = !screen->totals;
	else if (key == 'p')
		screen->paused = !screen->paused;
	else if (key == ' ')
		start_sample(screen);
	else if (key == KEY_ESCAPE)
		screen->filter[0] = '\0';
	else if (key == '/')
		begin_input(screen, TOP_MODE_FILTER, screen->filter);
	else if (key == 'r')
		begin_input(screen, TOP_MODE_INTERVAL, "");
	else if (key == 's' || key == 'c') {
		screen->mode = key == 's' ? TOP_MODE_SORT : TOP_MODE_COLUMNS;
		screen->choice = key == 's' ? view_of_tab(screen)->sort : 0;
	}
}

static void handle_text_key(struct top_screen *screen, int key)
{
	uint32_t count = screen->mode == TOP_MODE_HELP ? top_draw_help_lines() : screen->text.count;
	int64_t to = find_moved_row(key, screen->text.first, top_draw_rows(), count);

	if (to >= 0)
		screen->text.first = (uint32_t)min_u64((uint64_t)to, count);
	else if (key == KEY_ESCAPE || key == '\n' || key == '\r' || key == KEY_ENTER)
		screen->mode = TOP_MODE_ROWS;
}

static void show_or_hide(struct top_screen *screen, uint32_t column)
{
	if (column == 0)
		snprintf(screen->notice, sizeof(screen->notice),
			 "the first column cannot be hidden: it identifies the row");
	else
		view_of_tab(screen)->hidden ^= (uint32_t)BIT(column);
}

static void handle_choice_key(struct top_screen *screen, int key)
{
	bool is_enter = key == '\n' || key == '\r' || key == KEY_ENTER;
	uint32_t count;
	int64_t to;

	(void)top_columns(screen->tab, &count); /* only the number */
	to = find_moved_row(key, screen->choice, top_draw_rows(), count);
	if (to >= 0)
		screen->choice = (uint32_t)min_u64((uint64_t)to, count - 1);
	else if (screen->mode == TOP_MODE_COLUMNS && (is_enter || key == ' '))
		show_or_hide(screen, screen->choice);
	else if (screen->mode == TOP_MODE_SORT && is_enter)
		sort_by(screen, screen->choice);
	if (key == KEY_ESCAPE || (screen->mode == TOP_MODE_SORT && is_enter) ||
	    (screen->mode == TOP_MODE_COLUMNS && key == 'c'))
		screen->mode = TOP_MODE_ROWS;
}

static void apply_input(struct top_screen *screen)
{
	if (screen->mode == TOP_MODE_FILTER)
		(void)text_copy(screen->filter, sizeof(screen->filter), screen->input); /* same size */
	else if (!top_read_interval(screen->input, &screen->interval_ns))
		snprintf(screen->notice, sizeof(screen->notice), "\"%s\" is not a time from 100ms to 1h", screen->input);
	screen->mode = TOP_MODE_ROWS;
}

static void handle_input_key(struct top_screen *screen, int key)
{
	size_t bytes = strlen(screen->input);

	if (key == '\n' || key == '\r' || key == KEY_ENTER) {
		apply_input(screen);
	} else if (key == KEY_ESCAPE) {
		screen->mode = TOP_MODE_ROWS;
	} else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && bytes > 0) {
		screen->input[bytes - 1] = '\0';
	} else if (key >= ' ' && key < 127 && bytes + 1 < sizeof(screen->input)) {
		screen->input[bytes] = (char)key;
		screen->input[bytes + 1] = '\0';
	}
}

static void handle_key(struct top_screen *screen, int key)
{
	screen->notice[0] = '\0';
	if (screen->mode == TOP_MODE_FILTER || screen->mode == TOP_MODE_INTERVAL) {
		handle_input_key(screen, key);
	} else if (key == 'q') {
		screen->quit = true;
	} else if (key == 'h' || key == '?') {
		screen->mode = TOP_MODE_HELP;
		screen->text.first = 0;
	} else if (screen->mode == TOP_MODE_ROWS) {
		handle_rows_key(screen, key);
	} else if (screen->mode == TOP_MODE_SORT || screen->mode == TOP_MODE_COLUMNS) {
		handle_choice_key(screen, key);
	} else {
		handle_text_key(screen, key);
	}
	rebuild_table(screen);
}

/* ---- the loop ---- */

/* Milliseconds until the next sample is due, or may be finished. */
static int ms_until_sample(const struct top_screen *screen)
{
	uint64_t interval = screen->show.lost.error ? RETRY_MS * NS_PER_MS : screen->interval_ns,
		 now = clock_monotonic_ns();
	uint64_t due = screen->show.sampled_ns + interval;

	if (top_sampler_is_busy(screen->sampler))
		return SAMPLE_WAIT_MS;
	if (screen->paused && screen->show.now[screen->tab] && !screen->show.lost.error)
		return KEY_WAIT_MS_MAX;
	return due > now ? (int)min_u64((due - now + NS_PER_MS - 1) / NS_PER_MS, KEY_WAIT_MS_MAX) : 0;
}

static void init_screen(struct top_screen *screen, const struct top_options *options, struct top_link *link)
{
	*screen = (struct top_screen){ .sampler = top_sampler_create(link),
				       .tab = options->tab,
				       .totals = options->totals,
				       .utf8 = top_show_is_utf8(),
				       .interval_ns = options->interval_ns };
	top_show_init(&screen->show, options->history_ns ? options->history_ns : TOP_HISTORY_NS_DEFAULT);
	(void)text_copy(screen->filter, sizeof(screen->filter), options->filter); /* longer texts are cut */
	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		int32_t column = top_show_column(tab, tab == options->tab ? options->sort : NULL);

		must(column >= 0);
		screen->views[tab].sort = (uint32_t)column;
		screen->views[tab].descending = top_show_descending(tab, (uint32_t)column);
	}
}

/* A sample in progress may take seconds; it is not waited for, and its thread ends with the process. */
static void deinit_screen(struct top_screen *screen, struct top_link *link)
{
	if (top_sampler_destroy(screen->sampler))
		top_link_close(link);
	top_table_destroy(screen->table);
	top_show_deinit(&screen->show);
	clear_text(&screen->text);
	for (enum top_tab tab = 0; tab < TOP_TABS; tab++)
		free(screen->views[tab].selected);
}

/* Does the terminal have this capability? */
static bool has_string(const char *capability)
{
	const char *text = tigetstr(capability);

	return text && text != (const char *)-1;
}

static bool begin_curses(enum top_color color)
{
	const char *name = getenv("TERM"), *problem = NULL;

	setlocale(LC_CTYPE, ""); /* only this category: numbers keep their decimal point */
	if (!newterm(NULL, stdout, stdin)) {
		problem = "is unknown";
	} else if (!has_string("cup")) { /* such as "dumb", of a shell in an editor */
		endwin();
		problem = "cannot place its cursor";
	}
	if (problem) {
		fprintf(stderr, "fathom top: the terminal \"%s\" %s; set TERM, or use --batch\n", name ? name : "",
			problem);
		return false;
	}
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	set_escdelay(ESCAPE_DELAY_MS);
	top_color_start(color);
	return true;
}

int top_screen(const struct top_options *options, struct top_link *link)
{
	struct sigaction action = { .sa_handler = stop_screen };
	struct top_screen screen;

	if (!begin_curses(options->color)) {
		top_link_close(link);
		return EXIT_USAGE;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	init_screen(&screen, options, link);
	while (!screen.quit && !ended) {
		int key;

		show_sample(&screen);
		if (!top_sampler_is_busy(screen.sampler) && ms_until_sample(&screen) == 0)
			start_sample(&screen);
		top_draw(&screen);
		timeout(ms_until_sample(&screen));
		key = getch();
		if (key != ERR && key != KEY_RESIZE)
			handle_key(&screen, key);
	}
	endwin();
	deinit_screen(&screen, link);
	return EXIT_SUCCESS;
}
