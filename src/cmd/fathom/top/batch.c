/* SPDX-License-Identifier: BSD-2-Clause */
/* batch - --batch and --json, for scripts: prints tables or a JSON document for each interval. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/table.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/interrupt.h"
#include "cmd/fathom/top/top.h"

/* ---- lines ---- */

/* The columns that are printed: bars are not. Returns the number. */
static uint32_t choose_columns(const struct top_show *show, enum top_tab tab, uint32_t chosen_ret[TOP_COLUMNS_MAX])
{
	uint32_t count, chosen = 0;
	const struct top_column *columns = top_columns(tab, &count);

	for (uint32_t i = 0; i < count; i++) {
		if (!top_unit_is_picture(columns[i].unit) || (columns[i].unit == TOP_UNIT_HISTORY && show->history))
			chosen_ret[chosen++] = i;
	}
	return chosen;
}

static void print_tab_table(const struct top_options *options, const struct top_show *show, const struct top_table *from)
{
	char texts[TOP_COLUMNS_MAX][TOP_TEXT_BYTES_MAX];
	const char *cells[TOP_COLUMNS_MAX];
	uint32_t all, chosen[TOP_COLUMNS_MAX], count = choose_columns(show, from->tab, chosen);
	const struct top_column *columns = top_columns(from->tab, &all);
	struct table_column layout_columns[TOP_COLUMNS_MAX];
	struct table_layout layout = { layout_columns, count, .gap = 2 };
	struct table *table;

	for (uint32_t i = 0; i < count; i++) {
		const struct top_column *column = &columns[chosen[i]];

		layout_columns[i] = (struct table_column){
			.title = top_show_title(column, options->totals),
			.align = top_show_is_text(top_show_unit(column, options->totals)) ? TABLE_LEFT : TABLE_RIGHT,
		};
	}
	table = table_create(&layout);
	must(table);
	for (uint32_t row = 0; row < from->row_count; row++) {
		for (uint32_t i = 0; i < count; i++) {
			enum top_unit unit = top_show_unit(&columns[chosen[i]], options->totals);

			cells[i] = unit == TOP_UNIT_HISTORY
					   ? top_history_bars(show->history, from->rows[row].key, TOP_HISTORY_SLOTS,
							      top_show_is_utf8(), texts[i])
					   : top_value_text_full(&from->rows[row].values[chosen[i]], unit, texts[i]);
		}
		must(table_add(table, cells) == 0);
	}
	table_print(table, 0, stdout);
	table_destroy(table);
}

/* The line of figures and that of alarms. */
static void print_summary(const struct top_show *show)
{
	char text[TOP_ALARMS_MAX * TOP_ALARM_BYTES_MAX], uptime[TOP_TEXT_BYTES_MAX];
	struct top_part parts[TOP_PARTS_MAX];
	struct top_summary summary;
	uint32_t count;

	top_summary_get(show->before_last, show->last, &summary);
	count = top_summary_parts(&summary, parts);
	printf("version %s  up %s", summary.version[0] ? summary.version : "-",
	       top_uptime_text(&summary.uptime_seconds, uptime));
	for (uint32_t i = 0; i < count; i++)
		printf("  %s", parts[i].text);
	printf("\n%s\n\n", top_summary_alarms(&summary, text, sizeof(text)));
}

static void print_tab(const struct top_options *options, const struct top_show *show, enum top_tab tab)
{
	struct top_table *table = top_table_create(show->before[tab], show->now[tab], tab, options->totals);
	int32_t column = top_show_column(tab, options->tab_given ? options->sort : NULL);
	char note[256];

	must(column >= 0);
	top_table_filter(table, options->filter);
	top_table_sort(table, (uint32_t)column, top_show_descending(tab, (uint32_t)column));
	printf("%s\n", top_tab_title(tab));
	print_tab_table(options, show, table);
	if (top_table_note(table, show->now[tab], note, sizeof(note)))
		printf("(%s)\n", note);
	putchar('\n');
	top_table_destroy(table);
}

static void print_page(const struct top_options *options, const struct top_show *show)
{
	time_t now = (time_t)show->wall_sec;
	struct tm parts;
	char when[32];

	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
	printf("%s %lld %s %s", show->program[0] ? show->program : "process", (long long)show->pid, show->path, when);
	if (options->totals)
		printf(", totals\n");
	else
		printf(", %.3f s\n", top_show_seconds(show, options->tab));
	print_summary(show);
	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		if (!options->tab_given || options->tab == tab)
			print_tab(options, show, tab);
	}
}

/* ---- JSON ---- */

static void print_document(json_t *document)
{
	json_dumpf(document, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
	putchar('\n');
	json_decref(document);
}

static void add_histories(json_t *volumes, const struct top_show *show)
{
	json_t *volume;
	size_t i;

	json_array_foreach (volumes, i, volume)
		json_object_set_new(volume, "history",
				    top_history_json(show->history, json_string_value(json_object_get(volume, "name"))));
}

static void print_sample_json(const struct top_options *options, const struct top_show *show)
{
	json_t *document = json_object(),
	       *tables = top_json(show->before[options->tab], show->now[options->tab], options->totals);
	struct top_summary summary;

	must(document);
	top_summary_get(show->before_last, show->last, &summary);
	json_object_set_new(document, "time", json_integer(show->wall_sec));
	json_object_set_new(document, "socket", json_string(show->path));
	json_object_set_new(document, "program", json_string(show->program));
	json_object_set_new(document, "pid", json_integer(show->pid));
	json_object_set_new(document, "totals", json_boolean(options->totals));
	json_object_set_new(document, "summary", top_summary_json(&summary));
	if (show->history)
		add_histories(json_object_get(tables, "volumes"), show);
	json_object_update(document, tables);
	json_decref(tables);
	print_document(document);
}

/* Print a document with the error instead of tables. */
static void print_sample_error(const struct top_show *show)
{
	json_t *document;

	document = json_pack("{sI, ss, ss}", "time", (json_int_t)time(NULL), "socket", show->path, "error",
			     show->lost.text);
	must(document);
	print_document(document);
}

/* ---- the loop ---- */

/* Documents include all tabs. */
static bool make_sample(const struct top_options *options, struct top_link *link, struct top_show *show)
{
	uint32_t tabs = options->tab_given && !options->json ? BIT(options->tab) : TOP_ALL_TABS;
	struct top_reply reply;

	top_reply_get(link, show->history ? tabs | (uint32_t)BIT(TOP_VOLUMES) : tabs, &reply);
	return top_show_take(show, &reply);
}

/* Does a sample count for -n? A failure does: else a target that never answers would never end the loop. */
static bool is_sample_counted(const struct top_options *options, const struct top_show *show, bool there)
{
	return !there || top_show_seconds(show, options->tab) > 0 || options->totals;
}

static void print_sample(const struct top_options *options, const struct top_show *show)
{
	if (options->json)
		print_sample_json(options, show);
	else
		print_page(options, show);
}

int top_batch(const struct top_options *options, struct top_link *link)
{
	uint64_t next_ns = clock_monotonic_ns(), shown = 0;
	struct top_show show;
	bool there = true;

	setlocale(LC_CTYPE, ""); /* only this category: numbers keep their decimal point */
	top_show_init(&show, options->history_ns);
	interrupt_catch();
	while (shown < options->count && !interrupt_arrived() && !ferror(stdout)) {
		bool was_there = there;

		there = make_sample(options, link, &show);
		if (there && !was_there)
			fprintf(stderr, "fathom top: %s answers again\n", show.path);
		if (!there && was_there)
			fprintf(stderr, "fathom top: %s%s\n", show.lost.text,
				shown + 1 < options->count ? "; retrying" : "");
		if (is_sample_counted(options, &show, there)) {
			if (there)
				print_sample(options, &show);
			else if (options->json)
				print_sample_error(&show);
			shown++;
		}
		if (fflush(stdout) != 0)
			break;
		next_ns += options->interval_ns;
		if (shown < options->count)
			interrupt_sleep(next_ns);
	}
	top_show_deinit(&show);
	top_link_close(link);
	return there || interrupt_arrived() ? EXIT_SUCCESS : 1;
}
