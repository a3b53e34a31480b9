/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables: creating, filtering and sorting rows; columns that the target does not report; JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/top/internal.h"

/* The bars of latencies: relative to the slowest row. */
static void scale_latencies(struct top_table *table)
{
	uint32_t count, bar = 1;
	const struct top_column *columns = top_columns(table->tab, &count);
	double slowest = 0;

	while (bar < count && (columns[bar].unit != TOP_UNIT_BAR || columns[bar - 1].unit != TOP_UNIT_LATENCY))
		bar++;
	if (bar == count)
		return;
	for (uint32_t i = 0; i < table->row_count; i++) {
		const struct top_value *latency = &table->rows[i].values[bar - 1];

		if (latency->kind == TOP_NUMBER && latency->number > slowest)
			slowest = latency->number;
	}
	for (uint32_t i = 0; i < table->row_count; i++) {
		const struct top_value *latency = &table->rows[i].values[bar - 1];

		if (latency->kind == TOP_NUMBER && slowest > 0)
			table->rows[i].values[bar] = value_number(100 * latency->number / slowest);
	}
}

struct top_table *top_table_create(const struct top_sample *before, const struct top_sample *now, enum top_tab tab,
				   bool totals)
{
	struct top_table *table = calloc(1, sizeof(*table));

	must(table);
	must(now->complete);
	must(now->tabs & BIT(tab));
	must(!before || before->complete);
	must(!before || (before->tabs & BIT(tab)));
	table->tab = tab;
	table->totals = totals;
	if (tab == TOP_HOSTS)
		hosts_make(before, now, table);
	else
		rows_make(before, now, table);
	scale_latencies(table);
	return table;
}

void top_table_destroy(struct top_table *table)
{
	if (!table)
		return;
	free(table->rows);
	free(table);
}

int64_t top_table_find(const struct top_table *table, const char *key)
{
	for (uint32_t i = 0; key && i < table->row_count; i++) {
		if (strcmp(table->rows[i].key, key) == 0)
			return i;
	}
	return -1;
}

/* ---- order ---- */

struct order {
	uint32_t column;
	bool descending;
};

static int compare_values(const struct top_value *a, const struct top_value *b)
{
	if (a->kind == TOP_TEXT && b->kind == TOP_TEXT)
		return strcmp(a->text, b->text);
	return (a->number > b->number) - (a->number < b->number);
}

static int compare_table_rows(const void *a, const void *b, void *ctx)
{
	const struct top_row *left = a, *right = b;
	const struct order *order = ctx;
	const struct top_value *x = &left->values[order->column], *y = &right->values[order->column];
	int sign = 0;

	if (x->kind == TOP_NOTHING || y->kind == TOP_NOTHING)
		sign = (x->kind == TOP_NOTHING) - (y->kind == TOP_NOTHING);
	else
		sign = order->descending ? compare_values(y, x) : compare_values(x, y);
	return sign ? sign : strcmp(left->key, right->key);
}

void top_table_sort(struct top_table *table, uint32_t column, bool descending)
{
	struct order order = { column, descending };
	uint32_t count;

	(void)top_columns(table->tab, &count); /* only the number */
	must(column < count);
	if (table->row_count > 1)
		qsort_r(table->rows, table->row_count, sizeof(*table->rows), compare_table_rows, &order);
}

static bool row_has(const struct top_row *row, const char *text)
{
	for (uint32_t i = 0; i < TOP_COLUMNS_MAX; i++) {
		if (row->values[i].kind == TOP_TEXT && strcasestr(row->values[i].text, text))
			return true;
	}
	return false;
}

void top_table_filter(struct top_table *table, const char *text)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < table->row_count; i++) {
		if (text[0] == '\0' || row_has(&table->rows[i], text))
			table->rows[kept++] = table->rows[i];
	}
	table->row_count = kept;
}

/* ---- columns without data ---- */

/* Are all values missing? Values that need an interval may be missing in totals, and for an idle device. */
static bool is_empty(const struct top_table *table, uint32_t column, const struct top_column *about)
{
	if (table->row_count == 0 || top_unit_is_picture(about->unit) || (table->totals && about->unit == TOP_UNIT_DEPTH))
		return false;
	if (about->unit == TOP_UNIT_LATENCY)
		return table->not_offered & BIT(column);
	for (uint32_t i = 0; i < table->row_count; i++) {
		if (table->rows[i].values[column].kind != TOP_NOTHING)
			return false;
	}
	return true;
}

static bool is_interval_known(const struct top_table *table)
{
	static const uint32_t always_known_later[] = {
		[TOP_THREADS] = 6, [TOP_POLLERS] = 3, [TOP_CORES] = 3,
		[TOP_VOLUMES] = 1, [TOP_HOSTS] = 0,   [TOP_BUFFERS] = 0,
	};
	uint32_t column = always_known_later[table->tab];

	return table->totals || (table->row_count > 0 && table->rows[0].values[column].kind != TOP_NOTHING);
}

static const char *title_of(const struct top_table *table, const struct top_column *column)
{
	return table->totals && column->title_total ? column->title_total : column->title;
}

bool top_table_note(const struct top_table *table, const struct top_sample *now, char *text_ret, size_t bytes)
{
	const char *refusal = now->refusals[call_of(table->tab)];
	uint32_t count;
	const struct top_column *columns = top_columns(table->tab, &count);
	size_t used = 0;

	if (table->tab == TOP_HOSTS && !refusal)
		refusal = now->refusals[CALL_SUBSYSTEMS];
	if (refusal) {
		snprintf(text_ret, bytes, "the target does not report this: %s", refusal);
		return true;
	}
	for (uint32_t i = 0; i < count && is_interval_known(table) && used < bytes; i++) {
		if (is_empty(table, i, &columns[i]))
			used += (size_t)snprintf(text_ret + used, bytes - used, "%s%s",
						 used ? ", " : "the target does not offer: ", title_of(table, &columns[i]));
	}
	return used > 0;
}

/* ---- JSON ---- */

static const char *key_of(const struct top_table *table, const struct top_column *column)
{
	return table->totals && column->key_total ? column->key_total : column->key;
}

static enum top_unit unit_of(const struct top_table *table, const struct top_column *column)
{
	return table->totals ? column->unit_total : column->unit;
}

static json_t *value_json(const struct top_value *value, enum top_unit unit)
{
	bool whole = unit == TOP_UNIT_COUNT || unit == TOP_UNIT_BYTES || unit == TOP_UNIT_US;

	if (value->kind == TOP_NOTHING)
		return json_null();
	if (value->kind == TOP_TEXT)
		return json_string(value->text);
	return whole ? json_integer((json_int_t)(value->number + 0.5)) : json_real(value->number);
}

json_t *top_row_json(const struct top_table *table, const struct top_row *row)
{
	uint32_t count;
	const struct top_column *columns = top_columns(table->tab, &count);
	json_t *object = json_object();

	must(object);
	for (uint32_t i = 0; i < count; i++) {
		if (!top_unit_is_picture(columns[i].unit))
			json_object_set_new(object, key_of(table, &columns[i]),
					    value_json(&row->values[i], unit_of(table, &columns[i])));
	}
	return object;
}

static json_t *list_missing_columns(const struct top_table *table, const struct top_sample *now)
{
	uint32_t count;
	const struct top_column *columns = top_columns(table->tab, &count);
	json_t *list = json_array();

	must(list);
	for (uint32_t i = 0; i < count; i++) {
		if (top_unit_is_picture(columns[i].unit))
			continue;
		if (now->refusals[call_of(table->tab)] || (is_interval_known(table) && is_empty(table, i, &columns[i])))
			json_array_append_new(list, json_string(key_of(table, &columns[i])));
	}
	return list;
}

json_t *top_json(const struct top_sample *before, const struct top_sample *now, bool totals)
{
	json_t *document = json_object(), *seconds = json_object(), *missing = json_object();

	must(document);
	must(seconds);
	must(missing);
	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		struct top_table *table = top_table_create(before, now, tab, totals);
		json_t *rows = json_array();

		must(rows);
		for (uint32_t i = 0; i < table->row_count; i++)
			json_array_append_new(rows, top_row_json(table, &table->rows[i]));
		json_object_set_new(document, top_tab_key(tab), rows);
		json_object_set_new(seconds, top_tab_key(tab),
				    totals ? json_null() : json_real(top_seconds(before, now, tab)));
		json_object_set_new(missing, top_tab_key(tab), list_missing_columns(table, now));
		top_table_destroy(table);
	}
	json_object_set_new(document, "seconds", seconds);
	json_object_set_new(document, "not_offered", missing);
	return document;
}
