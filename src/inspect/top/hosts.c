/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of HOSTS: queue pairs, summed up by the NQN of their host. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/top/internal.h"

enum column {
	HOST,
	SUBSYSTEMS,
	CONTROLLERS,
	QPAIRS,
	IOPS,
	LATENCY,
	LATENCY_BAR,
	READ_LATENCY,
	WRITE_LATENCY,
	BYTES_READ,
	BYTES_WRITTEN,
	NOW,
};

/* The reads and writes of a host's I/O queues in the interval, and their time in ticks. TOP_NOTHING: not reported. */
struct times {
	struct top_value reads, read_ticks, writes, write_ticks;
};

const char *host_of(const struct item *qpair)
{
	const char *nqn = json_string_value(json_object_get(qpair->json, "hostnqn"));

	if (!nqn)
		nqn = json_string_value(json_object_get(qpair->parent, "hostnqn"));
	return nqn && nqn[0] ? nqn : "(no name)"; /* SPDK's perf sends none */
}

static struct top_row *host_row_of(struct top_table *table, const char *host)
{
	struct top_row *row;
	int64_t index = top_table_find(table, host);

	if (index >= 0)
		return &table->rows[index];
	row = &table->rows[table->row_count++];
	row->key = host;
	row->values[HOST] = value_text(host);
	for (enum column i = SUBSYSTEMS; i <= QPAIRS; i++)
		row->values[i] = value_number(0);
	for (enum column i = IOPS; i <= NOW; i++)
		row->values[i] = value_none();
	return row;
}

/* An admin queue counts as 0, if the target reports the figure: so an idle host shows 0 and not "-". */
static void add_figure(struct top_value *sum, struct top_value more, bool does_io)
{
	if (!does_io)
		more.number = 0;
	if (sum->kind == TOP_NOTHING)
		*sum = more;
	else if (more.kind == TOP_NUMBER)
		sum->number += more.number;
}

static bool same_controller(const struct item *a, const struct item *b)
{
	return strcmp(a->text, b->text) == 0 &&
	       json_equal(json_object_get(a->json, "cntlid"), json_object_get(b->json, "cntlid"));
}

/*
 * Items are sorted by their keys, which begin with subsystem and controller, each ended by a character that no NQN has.
 * So items of one controller, and of one subsystem, are adjacent; the controllers of a subsystem may belong to several
 * hosts.
 */
static void add_qpair(struct top_row *row, const struct items *items, uint32_t index, const struct pair *pair)
{
	const struct item *item = &items->items[index];
	bool subsystem_seen = false, does_io = json_integer_value(json_object_get(item->json, "qid")) != 0;

	for (uint32_t i = index; i > 0 && !subsystem_seen && strcmp(items->items[i - 1].text, item->text) == 0; i--)
		subsystem_seen = strcmp(host_of(&items->items[i - 1]), row->key) == 0;
	row->values[SUBSYSTEMS].number += !subsystem_seen;
	row->values[CONTROLLERS].number += index == 0 || !same_controller(&items->items[index - 1], item);
	row->values[QPAIRS].number += does_io;
	add_figure(&row->values[IOPS], pair_rate(pair, "num_commands"), does_io);
	add_figure(&row->values[BYTES_READ], pair_rate(pair, "bytes_read"), does_io);
	add_figure(&row->values[BYTES_WRITTEN], pair_rate(pair, "bytes_written"), does_io);
	add_figure(&row->values[NOW], pair_gauge(pair, "commands_under_way"), does_io);
}

static void add_times(struct times *times, const struct pair *pair)
{
	bool does_io = json_integer_value(json_object_get(pair->item->json, "qid")) != 0;

	add_figure(&times->reads, pair_count(pair, "num_read_ops"), does_io);
	add_figure(&times->read_ticks, pair_count(pair, "read_latency_ticks"), does_io);
	add_figure(&times->writes, pair_count(pair, "num_write_ops"), does_io);
	add_figure(&times->write_ticks, pair_count(pair, "write_latency_ticks"), does_io);
}

static struct top_value average_us(const struct pair *pair, struct top_value ticks, struct top_value ops)
{
	return pair_us(pair, value_divide(ticks, ops.kind == TOP_NUMBER ? ops.number : 0));
}

static void fill_latencies(struct top_row *row, const struct times *times, const struct pair *pair)
{
	row->values[READ_LATENCY] = average_us(pair, times->read_ticks, times->reads);
	row->values[WRITE_LATENCY] = average_us(pair, times->write_ticks, times->writes);
	row->values[LATENCY] = average_us(pair, value_add(times->read_ticks, times->write_ticks),
					  value_add(times->reads, times->writes));
}

void hosts_make(const struct top_sample *before, const struct top_sample *now, struct top_table *table)
{
	const struct items *items = &now->items[TOP_HOSTS];
	struct times *times = calloc(items->count ? items->count : 1, sizeof(*times)); /* of each row */
	bool offers_times = false;

	table->rows = calloc(items->count ? items->count : 1, sizeof(*table->rows));
	must(table->rows);
	must(times);
	for (uint32_t i = 0; i < items->count; i++) {
		struct pair pair = pair_make(before, now, TOP_HOSTS, &items->items[i], table->totals);
		struct top_row *row = host_row_of(table, host_of(&items->items[i]));

		add_qpair(row, items, i, &pair);
		add_times(&times[row - table->rows], &pair);
		fill_latencies(row, &times[row - table->rows], &pair);
		offers_times |= json_object_get(items->items[i].json, "read_latency_ticks") != NULL;
	}
	if (!offers_times)
		table->not_offered = BIT(LATENCY) | BIT(READ_LATENCY) | BIT(WRITE_LATENCY);
	free(times);
}
