/* SPDX-License-Identifier: BSD-2-Clause */
/* All data about one row, line by line: its columns, then what no column has. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "inspect/top/internal.h"

enum { LINE_BYTES = TOP_TEXT_BYTES_MAX + 256 };

struct teller {
	top_line_fn line;
	void *ctx;
};

static void PRINTF_LIKE(2, 3) print_line(const struct teller *to, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	to->line(to->ctx, line);
}

static const char *string_member(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value ? value : "-";
}

static long long integer_of_member(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

/* ---- threads ---- */

static const json_t *row_named(const json_t *list, const char *name)
{
	const json_t *row;
	size_t i;

	json_array_foreach (list, i, row) {
		if (strcmp(string_member(row, "name"), name) == 0)
			return row;
	}
	return NULL;
}

static void print_thread(const struct teller *to, const struct top_sample *now, const struct item *item)
{
	const json_t *all = json_object_get(now->answers[CALL_CHANNELS], "threads"), *channel;
	const struct items *pollers = &now->items[TOP_POLLERS];
	size_t i;

	print_line(to, "CPU mask %s", string_member(item->json, "cpumask"));
	print_line(to, "pollers:");
	for (i = 0; i < pollers->count; i++) {
		const struct item *poller = &pollers->items[i];

		if (integer_of_member(poller->parent, "id") == integer_of_member(item->json, "id"))
			print_line(to, "  %s, %s, %lld runs, %lld of them busy", string_member(poller->json, "name"),
				   poller->text, integer_of_member(poller->json, "run_count"),
				   integer_of_member(poller->json, "busy_count"));
	}
	print_line(to, "I/O channels:");
	json_array_foreach (json_object_get(row_named(all, string_member(item->json, "name")), "io_channels"), i, channel)
		print_line(to, "  %s, %lld references", string_member(channel, "name"), integer_of_member(channel, "ref"));
}

/* ---- cores ---- */

static void print_core(const struct teller *to, const struct top_sample *now, const struct item *item)
{
	const json_t *thread;
	size_t i;

	print_line(to, "thread of the kernel %lld, NUMA node %lld", integer_of_member(item->json, "tid"),
		   integer_of_member(item->json, "numa_id"));
	print_line(to, "threads:");
	json_array_foreach (json_object_get(item->json, "lw_threads"), i, thread)
		print_line(to, "  %s, number %lld, CPU mask %s, since %.1f s", string_member(thread, "name"),
			   integer_of_member(thread, "id"), string_member(thread, "cpumask"),
			   now->tick_rate > 0 ? (double)integer_of_member(thread, "elapsed") / now->tick_rate : 0);
}

/* ---- volumes ---- */

static void print_volume(const struct teller *to, const struct top_sample *now, const struct item *item)
{
	static const char *const kinds[] = { "read", "write", "unmap", "copy" };
	static const char *const ops[] = { "num_read_ops", "num_write_ops", "num_unmap_ops", "num_copy_ops" };
	static const char *const bytes[] = { "bytes_read", "bytes_written", "bytes_unmapped", "bytes_copied" };
	const json_t *count;
	const char *status;

	print_line(to, "since the last reset:");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		char least[48], most[48];

		snprintf(least, sizeof(least), "min_%s_latency_ticks", kinds[i]);
		snprintf(most, sizeof(most), "max_%s_latency_ticks", kinds[i]);
		print_line(to, "  %-6s %12lld ops %16lld bytes, latency from %.1f to %.1f us", kinds[i],
			   integer_of_member(item->json, ops[i]), integer_of_member(item->json, bytes[i]),
			   (double)integer_of_member(item->json, least) * 1e6 / now->tick_rate,
			   (double)integer_of_member(item->json, most) * 1e6 / now->tick_rate);
	}
	json_object_foreach (json_object_get(item->json, "io_error"), status, count)
		print_line(to, "  failed with %s: %lld", status, (long long)json_integer_value(count));
}

/* ---- hosts ---- */

static const char *format_value(struct top_value value, enum top_unit unit, char *text_ret)
{
	return top_value_text(&value, unit, text_ret);
}

static struct top_value average(const struct pair *pair, const char *ticks, const char *ops)
{
	struct top_value count = pair_count(pair, ops);

	return pair_us(pair, value_divide(pair_count(pair, ticks), count.kind == TOP_NUMBER ? count.number : 0));
}

static void print_qpair(const struct teller *to, const struct pair *pair)
{
	char iops[TOP_TEXT_BYTES_MAX], read[TOP_TEXT_BYTES_MAX], written[TOP_TEXT_BYTES_MAX], depth[TOP_TEXT_BYTES_MAX];
	const json_t *json = pair->item->json, *peer = json_object_get(json, "peer_address");
	const char *rate = pair->totals ? "" : "/s";

	print_line(to, "    queue %lld, %s, %s, from %s port %s", integer_of_member(json, "qid"),
		   string_member(json, "state"), string_member(json, "thread"), string_member(peer, "traddr"),
		   string_member(peer, "trsvcid"));
	print_line(to, "      %.40s commands%s, read %.40sB%s, written %.40sB%s, %.40s under way",
		   format_value(pair_rate(pair, "num_commands"), TOP_UNIT_RATE, iops), rate,
		   format_value(pair_rate(pair, "bytes_read"), TOP_UNIT_BYTES, read), rate,
		   format_value(pair_rate(pair, "bytes_written"), TOP_UNIT_BYTES, written), rate,
		   format_value(pair_gauge(pair, "commands_under_way"), TOP_UNIT_COUNT, depth));
	print_line(to, "      reads take %.40s us, writes %.40s us on average",
		   format_value(average(pair, "read_latency_ticks", "num_read_ops"), TOP_UNIT_LATENCY, read),
		   format_value(average(pair, "write_latency_ticks", "num_write_ops"), TOP_UNIT_LATENCY, written));
}

static void print_host(const struct teller *to, const struct top_sample *before, const struct top_sample *now,
		       const char *host, bool totals)
{
	const struct items *items = &now->items[TOP_HOSTS];
	const struct item *last = NULL;

	for (uint32_t i = 0; i < items->count; i++) {
		const struct item *item = &items->items[i];
		struct pair pair = pair_make(before, now, TOP_HOSTS, item, totals);

		if (strcmp(host_of(item), host) != 0)
			continue;
		if (!last || strcmp(last->text, item->text) != 0)
			print_line(to, "subsystem %s", item->text);
		if (!last || strcmp(last->text, item->text) != 0 ||
		    integer_of_member(last->json, "cntlid") != integer_of_member(item->json, "cntlid"))
			print_line(to, "  controller %lld, %s, host id %s", integer_of_member(item->json, "cntlid"),
				   string_member(item->parent, "cntrltype"), string_member(item->parent, "hostid"));
		print_qpair(to, &pair);
		last = item;
	}
}

void top_details(const struct top_table *table, const struct top_sample *before, const struct top_sample *now,
		 const char *key, top_line_fn line, void *ctx)
{
	const struct teller to = { line, ctx };
	int64_t index = top_table_find(table, key);
	const struct item *item;
	uint32_t count;
	const struct top_column *columns = top_columns(table->tab, &count);

	if (index < 0) {
		print_line(&to, "It no longer exists.");
		return;
	}
	item = items_find(&now->items[table->tab], key); /* NULL for a host, which is no item */
	for (uint32_t i = 0; i < count; i++) {
		char value[TOP_TEXT_BYTES_MAX];
		bool total = table->totals && columns[i].title_total;

		if (top_unit_is_picture(columns[i].unit))
			continue;
		print_line(&to, "%-10s %s   (%s)", total ? columns[i].title_total : columns[i].title,
			   top_value_text_full(&table->rows[index].values[i],
					       table->totals ? columns[i].unit_total : columns[i].unit, value),
			   columns[i].help);
	}
	if (table->tab == TOP_THREADS)
		print_thread(&to, now, item);
	else if (table->tab == TOP_CORES)
		print_core(&to, now, item);
	else if (table->tab == TOP_VOLUMES)
		print_volume(&to, now, item);
	else if (table->tab == TOP_HOSTS)
		print_host(&to, before, now, key, table->totals);
}
