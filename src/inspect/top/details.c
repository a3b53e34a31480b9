/* SPDX-License-Identifier: BSD-2-Clause */
/* All that is known of one row, line by line: its columns, and then what no column has. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "inspect/top/internal.h"

enum { LINE_BYTES = TOP_TEXT_BYTES_MAX + 256 };

struct teller {
	top_line_fn line;
	void *ctx;
};

static void PRINTF_LIKE(2, 3) say(const struct teller *to, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	to->line(to->ctx, line);
}

static const char *string(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value ? value : "-";
}

static long long whole(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

/* ---- threads ---- */

static const json_t *row_named(const json_t *list, const char *name)
{
	const json_t *row;
	size_t i;

	json_array_foreach (list, i, row) {
		if (strcmp(string(row, "name"), name) == 0)
			return row;
	}
	return NULL;
}

static void tell_thread(const struct teller *to, const struct top_sample *now, const struct item *item)
{
	const json_t *all = json_object_get(now->answers[CALL_CHANNELS], "threads"), *channel;
	const struct items *pollers = &now->items[TOP_POLLERS];
	size_t i;

	say(to, "CPU mask %s", string(item->json, "cpumask"));
	say(to, "pollers:");
	for (i = 0; i < pollers->count; i++) {
		const struct item *poller = &pollers->items[i];

		if (whole(poller->parent, "id") == whole(item->json, "id"))
			say(to, "  %s, %s, %lld runs, %lld of them busy", string(poller->json, "name"), poller->text,
			    whole(poller->json, "run_count"), whole(poller->json, "busy_count"));
	}
	say(to, "I/O channels:");
	json_array_foreach (json_object_get(row_named(all, string(item->json, "name")), "io_channels"), i, channel)
		say(to, "  %s, %lld references", string(channel, "name"), whole(channel, "ref"));
}

/* ---- cores ---- */

static void tell_core(const struct teller *to, const struct top_sample *now, const struct item *item)
{
	const json_t *thread;
	size_t i;

	say(to, "thread of the kernel %lld, NUMA node %lld", whole(item->json, "tid"), whole(item->json, "numa_id"));
	say(to, "threads:");
	json_array_foreach (json_object_get(item->json, "lw_threads"), i, thread)
		say(to, "  %s, number %lld, CPU mask %s, since %.1f s", string(thread, "name"), whole(thread, "id"),
		    string(thread, "cpumask"), now->tick_rate > 0 ? (double)whole(thread, "elapsed") / now->tick_rate : 0);
}

/* ---- volumes ---- */

static void tell_volume(const struct teller *to, const struct top_sample *now, const struct item *item)
{
	static const char *const kinds[] = { "read", "write", "unmap", "copy" };
	static const char *const ops[] = { "num_read_ops", "num_write_ops", "num_unmap_ops", "num_copy_ops" };
	static const char *const bytes[] = { "bytes_read", "bytes_written", "bytes_unmapped", "bytes_copied" };
	const json_t *count;
	const char *status;

	say(to, "since the last reset:");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		char least[48], most[48];

		snprintf(least, sizeof(least), "min_%s_latency_ticks", kinds[i]);
		snprintf(most, sizeof(most), "max_%s_latency_ticks", kinds[i]);
		say(to, "  %-6s %12lld ops %16lld bytes, latency from %.1f to %.1f us", kinds[i], whole(item->json, ops[i]),
		    whole(item->json, bytes[i]), (double)whole(item->json, least) * 1e6 / now->tick_rate,
		    (double)whole(item->json, most) * 1e6 / now->tick_rate);
	}
	json_object_foreach (json_object_get(item->json, "io_error"), status, count)
		say(to, "  failed with %s: %lld", status, (long long)json_integer_value(count));
}

/* ---- hosts ---- */

static const char *shown(struct top_value value, enum top_unit unit, char *text_ret)
{
	return top_value_text(&value, unit, text_ret);
}

static void tell_qpair(const struct teller *to, const struct pair *pair)
{
	char iops[TOP_TEXT_BYTES_MAX], read[TOP_TEXT_BYTES_MAX], written[TOP_TEXT_BYTES_MAX], depth[TOP_TEXT_BYTES_MAX];
	const json_t *json = pair->item->json, *peer = json_object_get(json, "peer_address");
	const char *rate = pair->totals ? "" : "/s";

	say(to, "    queue %lld, %s, %s, from %s port %s", whole(json, "qid"), string(json, "state"),
	    string(json, "thread"), string(peer, "traddr"), string(peer, "trsvcid"));
	say(to, "      %.40s commands%s, read %.40sB%s, written %.40sB%s, %.40s under way",
	    shown(pair_rate(pair, "num_commands"), TOP_UNIT_RATE, iops), rate,
	    shown(pair_rate(pair, "bytes_read"), TOP_UNIT_BYTES, read), rate,
	    shown(pair_rate(pair, "bytes_written"), TOP_UNIT_BYTES, written), rate,
	    shown(pair_gauge(pair, "commands_under_way"), TOP_UNIT_COUNT, depth));
}

static void tell_host(const struct teller *to, const struct top_sample *before, const struct top_sample *now,
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
			say(to, "subsystem %s", item->text);
		if (!last || strcmp(last->text, item->text) != 0 ||
		    whole(last->json, "cntlid") != whole(item->json, "cntlid"))
			say(to, "  controller %lld, %s, host id %s", whole(item->json, "cntlid"),
			    string(item->parent, "cntrltype"), string(item->parent, "hostid"));
		tell_qpair(to, &pair);
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
		say(&to, "It is gone.");
		return;
	}
	item = items_find(&now->items[table->tab], key); /* of a host there is none */
	for (uint32_t i = 0; i < count; i++) {
		char value[TOP_TEXT_BYTES_MAX];
		bool total = table->totals && columns[i].title_total;

		say(&to, "%-10s %s   (%s)", total ? columns[i].title_total : columns[i].title,
		    top_value_text_full(&table->rows[index].values[i],
					table->totals ? columns[i].unit_total : columns[i].unit, value),
		    columns[i].help);
	}
	if (table->tab == TOP_THREADS)
		tell_thread(&to, now, item);
	else if (table->tab == TOP_CORES)
		tell_core(&to, now, item);
	else if (table->tab == TOP_VOLUMES)
		tell_volume(&to, now, item);
	else if (table->tab == TOP_HOSTS)
		tell_host(&to, before, now, key, table->totals);
}
