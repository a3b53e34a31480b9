/* SPDX-License-Identifier: BSD-2-Clause */
/* The columns of the tables, and the formatting of their values. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "inspect/top/internal.h"

/* Longer latencies have no decimal; still longer ones are scaled. Both fit a column of 8 characters. */
#define LATENCY_WHOLE_US 99999.95
#define LATENCY_WIDE_US 99999999.5

/* The columns of rows.c and hosts.c, in the order in which these fill them. */
static const struct top_column threads[] = {
	{ "name", "THREAD", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 23, 0, "its name", TOP_WATCH_NONE },
	{ "id", "ID", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 4, 2, "its number", TOP_WATCH_NONE },
	{ "core", "CORE", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 4, 0, "its core; -: not pinned", TOP_WATCH_NONE },
	{ "active_pollers", "ACTIVE", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 6, 0, "pollers that run in every turn",
	  TOP_WATCH_NONE },
	{ "timed_pollers", "TIMED", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 5, 0, "pollers with a period",
	  TOP_WATCH_NONE },
	{ "paused_pollers", "PAUSED", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 6, 1, "pollers that do not run",
	  TOP_WATCH_NONE },
	{ "idle_us", "IDLE us", NULL, NULL, TOP_UNIT_US, TOP_UNIT_US, 10, 1, "polled and found nothing, or slept",
	  TOP_WATCH_NONE },
	{ "busy_us", "BUSY us", NULL, NULL, TOP_UNIT_US, TOP_UNIT_US, 10, 0, "found something to do", TOP_WATCH_NONE },
	{ "cpu_percent", "CPU %", NULL, NULL, TOP_UNIT_PERCENT, TOP_UNIT_PERCENT, 6, 0, "share of a core's time",
	  TOP_WATCH_SHARE },
	{ "cpu_bar", "LOAD", NULL, NULL, TOP_UNIT_BAR, TOP_UNIT_BAR, 8, 0, "the same as a bar", TOP_WATCH_NONE },
	{ "status", "STATUS", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 6, 1, "busy or idle in the interval",
	  TOP_WATCH_NONE },
};

static const struct top_column pollers[] = {
	{ "name", "POLLER", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 18, 0, "its name", TOP_WATCH_NONE },
	{ "type", "TYPE", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 6, 0, "active, timed or paused", TOP_WATCH_NONE },
	{ "thread", "THREAD", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 23, 0, "its thread", TOP_WATCH_NONE },
	{ "runs", "RUNS", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 9, 0, "number of runs", TOP_WATCH_NONE },
	{ "busy_runs", "BUSY RUNS", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 9, 0, "runs that found something to do",
	  TOP_WATCH_NONE },
	{ "period_us", "PERIOD us", NULL, NULL, TOP_UNIT_US, TOP_UNIT_US, 9, 0, "period of a timed poller",
	  TOP_WATCH_NONE },
	{ "status", "STATUS", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 7, 1, "busy or idle, or what it does now",
	  TOP_WATCH_NONE },
};

static const struct top_column cores[] = {
	{ "core", "CORE", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 4, 0, "its number", TOP_WATCH_NONE },
	{ "threads", "THREADS", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 7, 0, "threads on this core", TOP_WATCH_NONE },
	{ "pollers", "POLLERS", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 7, 0, "pollers of these threads",
	  TOP_WATCH_NONE },
	{ "idle_us", "IDLE us", NULL, NULL, TOP_UNIT_US, TOP_UNIT_US, 10, 0, "polled and found nothing, or slept",
	  TOP_WATCH_NONE },
	{ "busy_us", "BUSY us", NULL, NULL, TOP_UNIT_US, TOP_UNIT_US, 10, 0, "found something to do", TOP_WATCH_NONE },
	{ "busy_percent", "BUSY %", NULL, NULL, TOP_UNIT_PERCENT, TOP_UNIT_PERCENT, 6, 0, "share of both",
	  TOP_WATCH_SHARE },
	{ "busy_bar", "LOAD", NULL, NULL, TOP_UNIT_BAR, TOP_UNIT_BAR, 8, 0, "the same as a bar", TOP_WATCH_NONE },
	{ "status", "STATUS", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 6, 1, "busy, idle or asleep", TOP_WATCH_NONE },
	{ "interrupt", "INTR", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 4, 3, "waits for events now instead of polling",
	  TOP_WATCH_NONE },
	{ "sys_percent", "SYS %", NULL, NULL, TOP_UNIT_PERCENT, TOP_UNIT_PERCENT, 6, 1, "processor time in the kernel",
	  TOP_WATCH_NONE },
	{ "irq_percent", "IRQ %", NULL, NULL, TOP_UNIT_PERCENT, TOP_UNIT_PERCENT, 6, 2, "and in interrupts",
	  TOP_WATCH_NONE },
	{ "cpu_percent", "CPU %", NULL, NULL, TOP_UNIT_PERCENT, TOP_UNIT_PERCENT, 6, 0, "all processor time",
	  TOP_WATCH_NONE },
	{ "mhz", "MHz", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 5, 3, "its frequency", TOP_WATCH_NONE },
};

static const struct top_column volumes[] = {
	{ "name", "VOLUME", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 12, 0, "the block device", TOP_WATCH_NONE },
	{ "iops", "IOPS", "ops", "OPS", TOP_UNIT_RATE, TOP_UNIT_COUNT, 8, 0, "reads, writes, unmaps and copies",
	  TOP_WATCH_NONE },
	{ "read_iops", "READ/S", "read_ops", "READS", TOP_UNIT_RATE, TOP_UNIT_COUNT, 8, 2, "reads", TOP_WATCH_NONE },
	{ "write_iops", "WRITE/S", "write_ops", "WRITES", TOP_UNIT_RATE, TOP_UNIT_COUNT, 8, 2, "writes", TOP_WATCH_NONE },
	{ "read_bytes_per_second", "READ B/S", "read_bytes", "READ B", TOP_UNIT_BYTES, TOP_UNIT_BYTES, 8, 0, "bytes read",
	  TOP_WATCH_NONE },
	{ "write_bytes_per_second", "WRITE B/S", "write_bytes", "WRITE B", TOP_UNIT_BYTES, TOP_UNIT_BYTES, 9, 0,
	  "bytes written", TOP_WATCH_NONE },
	{ "latency_us", "AVG us", NULL, NULL, TOP_UNIT_LATENCY, TOP_UNIT_LATENCY, 8, 0, "average time of an I/O",
	  TOP_WATCH_LATENCY },
	{ "latency_bar", "LATENCY", NULL, NULL, TOP_UNIT_BAR, TOP_UNIT_BAR, 8, 0,
	  "the same as a bar; that of the slowest volume is full", TOP_WATCH_NONE },
	{ "history", "HISTORY", NULL, NULL, TOP_UNIT_HISTORY, TOP_UNIT_HISTORY, 10, 0,
	  "IOPS of the last minutes, as bars; the present is on the right", TOP_WATCH_NONE },
	{ "read_latency_us", "READ us", NULL, NULL, TOP_UNIT_LATENCY, TOP_UNIT_LATENCY, 8, 4, "average time of a read",
	  TOP_WATCH_LATENCY },
	{ "write_latency_us", "WRITE us", NULL, NULL, TOP_UNIT_LATENCY, TOP_UNIT_LATENCY, 8, 4, "average time of a write",
	  TOP_WATCH_LATENCY },
	{ "depth", "DEPTH", NULL, NULL, TOP_UNIT_DEPTH, TOP_UNIT_DEPTH, 7, 0,
	  "average number of I/Os in flight, from the times of those that ended", TOP_WATCH_NONE },
	{ "depth_now", "NOW", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 5, 1, "I/Os in flight now", TOP_WATCH_NONE },
	{ "unmap_iops", "UNMAP/S", "unmap_ops", "UNMAPS", TOP_UNIT_RATE, TOP_UNIT_COUNT, 8, 5, "unmaps", TOP_WATCH_NONE },
	{ "errors", "ERRORS", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 6, 3, "I/Os that failed", TOP_WATCH_FAILED },
};

static const struct top_column hosts[] = {
	{ "host", "HOST", NULL, NULL, TOP_UNIT_NAME, TOP_UNIT_NAME, 18, 0, "its NQN", TOP_WATCH_NONE },
	{ "subsystems", "SUBSYS", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 6, 3, "subsystems to which it is connected",
	  TOP_WATCH_NONE },
	{ "controllers", "CTRLRS", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 6, 2, "its associations", TOP_WATCH_NONE },
	{ "qpairs", "QPAIRS", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 6, 1, "its I/O queues", TOP_WATCH_NONE },
	{ "iops", "IOPS", "commands", "COMMANDS", TOP_UNIT_RATE, TOP_UNIT_COUNT, 8, 0, "commands of I/O queues",
	  TOP_WATCH_NONE },
	{ "latency_us", "AVG us", NULL, NULL, TOP_UNIT_LATENCY, TOP_UNIT_LATENCY, 8, 3,
	  "average time of its reads and writes, from the command's arrival to the result", TOP_WATCH_LATENCY },
	{ "latency_bar", "LATENCY", NULL, NULL, TOP_UNIT_BAR, TOP_UNIT_BAR, 8, 0,
	  "the same as a bar; that of the slowest host is full", TOP_WATCH_NONE },
	{ "read_latency_us", "READ us", NULL, NULL, TOP_UNIT_LATENCY, TOP_UNIT_LATENCY, 8, 0, "average time of its reads",
	  TOP_WATCH_LATENCY },
	{ "write_latency_us", "WRITE us", NULL, NULL, TOP_UNIT_LATENCY, TOP_UNIT_LATENCY, 8, 0,
	  "average time of its writes", TOP_WATCH_LATENCY },
	{ "read_bytes_per_second", "READ B/S", "read_bytes", "READ B", TOP_UNIT_BYTES, TOP_UNIT_BYTES, 8, 0,
	  "bytes that these read", TOP_WATCH_NONE },
	{ "write_bytes_per_second", "WRITE B/S", "write_bytes", "WRITE B", TOP_UNIT_BYTES, TOP_UNIT_BYTES, 9, 0,
	  "bytes that these wrote", TOP_WATCH_NONE },
	{ "depth_now", "NOW", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 5, 0, "commands in flight now, on I/O queues",
	  TOP_WATCH_NONE },
};

static const struct top_column buffers[] = {
	{ "user", "USER", NULL, NULL, TOP_UNIT_NAME, TOP_UNIT_NAME, 18, 0, "a host, a block device, or all of them",
	  TOP_WATCH_NONE },
	{ "kind", "KIND", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 6, 0, "host, device or all", TOP_WATCH_NONE },
	{ "poll_group", "POLL GROUP", NULL, NULL, TOP_UNIT_TEXT, TOP_UNIT_TEXT, 23, 2, "the poll group of the buffers",
	  TOP_WATCH_NONE },
	{ "lent_bytes", "LENT", NULL, NULL, TOP_UNIT_BYTES, TOP_UNIT_BYTES, 8, 0, "data buffers that it holds now",
	  TOP_WATCH_NONE },
	{ "limit_bytes", "LIMIT", NULL, NULL, TOP_UNIT_BYTES, TOP_UNIT_BYTES, 8, 0,
	  "current limit of a host; of all: the total that can be lent", TOP_WATCH_NONE },
	{ "lent_percent", "LENT %", NULL, NULL, TOP_UNIT_PERCENT, TOP_UNIT_PERCENT, 6, 0, "share of the limit",
	  TOP_WATCH_SHARE },
	{ "lent_bar", "LOAD", NULL, NULL, TOP_UNIT_BAR, TOP_UNIT_BAR, 8, 0, "the same as a bar", TOP_WATCH_NONE },
	{ "waiting", "WAITING", NULL, NULL, TOP_UNIT_COUNT, TOP_UNIT_COUNT, 7, 0, "commands that wait for a buffer",
	  TOP_WATCH_SOME },
};

static const struct {
	const char *title, *key;
	const struct top_column *columns;
	uint32_t count;
} tabs[] = {
	[TOP_THREADS] = { "THREADS", "threads", threads, ARRAY_COUNT(threads) },
	[TOP_POLLERS] = { "POLLERS", "pollers", pollers, ARRAY_COUNT(pollers) },
	[TOP_CORES] = { "CORES", "cores", cores, ARRAY_COUNT(cores) },
	[TOP_VOLUMES] = { "VOLUMES", "volumes", volumes, ARRAY_COUNT(volumes) },
	[TOP_HOSTS] = { "HOSTS", "hosts", hosts, ARRAY_COUNT(hosts) },
	[TOP_BUFFERS] = { "BUFFERS", "buffers", buffers, ARRAY_COUNT(buffers) },
};
static_assert(ARRAY_COUNT(tabs) == TOP_TABS, "each has its row");
static_assert(ARRAY_COUNT(threads) <= TOP_COLUMNS_MAX && ARRAY_COUNT(pollers) <= TOP_COLUMNS_MAX, "they fit a row");
static_assert(ARRAY_COUNT(cores) <= TOP_COLUMNS_MAX && ARRAY_COUNT(volumes) <= TOP_COLUMNS_MAX, "they fit a row");
static_assert(ARRAY_COUNT(hosts) <= TOP_COLUMNS_MAX && ARRAY_COUNT(buffers) <= TOP_COLUMNS_MAX, "they fit a row");

const char *top_tab_title(enum top_tab tab)
{
	return tabs[tab].title;
}

const char *top_tab_key(enum top_tab tab)
{
	return tabs[tab].key;
}

const struct top_column *top_columns(enum top_tab tab, uint32_t *count_ret)
{
	*count_ret = tabs[tab].count;
	return tabs[tab].columns;
}

/* ---- values ---- */

/* Copy a text from outside so that a terminal does not interpret any of it. Longer texts are cut. */
static void write_printable(const char *from, char *to)
{
	size_t bytes = text_utf8_copy(to, TOP_TEXT_BYTES_MAX - 1, from, strlen(from));

	to[bytes] = '\0';
	for (; *to; to++) {
		if (*to == '\t' || *to == '\n')
			*to = '?';
	}
}

/* Up to five digits are printed unscaled; larger numbers in powers of `step`, with a decimal. */
static void write_scaled(double value, double step, const char *unit, char *to)
{
	static const char scales[] = " kMGTPE";
	size_t scale = 0;

	while ((value >= 99999.5 || (step > 1000 && value >= step)) && scale + 2 < sizeof(scales)) {
		value /= step;
		scale++;
	}
	if (scale == 0)
		snprintf(to, TOP_TEXT_BYTES_MAX, "%.0f", value);
	else
		snprintf(to, TOP_TEXT_BYTES_MAX, "%.*f%c%s", value < 999.95 ? 1 : 0, value, scales[scale], unit);
}

const char *top_value_text(const struct top_value *value, enum top_unit unit, char text_ret[TOP_TEXT_BYTES_MAX])
{
	if (value->kind == TOP_NUMBER && unit == TOP_UNIT_BYTES)
		write_scaled(value->number, 1024, "i", text_ret);
	else if (value->kind == TOP_NUMBER && (unit == TOP_UNIT_RATE || unit == TOP_UNIT_COUNT))
		write_scaled(value->number, 1000, "", text_ret);
	else if (value->kind == TOP_NUMBER && unit == TOP_UNIT_LATENCY && value->number >= LATENCY_WIDE_US)
		write_scaled(value->number, 1000, "", text_ret);
	else if (value->kind == TOP_NUMBER && unit == TOP_UNIT_LATENCY && value->number >= LATENCY_WHOLE_US)
		snprintf(text_ret, TOP_TEXT_BYTES_MAX, "%.0f", value->number);
	else
		return top_value_text_full(value, unit, text_ret);
	return text_ret;
}

const char *top_value_text_full(const struct top_value *value, enum top_unit unit, char text_ret[TOP_TEXT_BYTES_MAX])
{
	static const int decimals[] = {
		[TOP_UNIT_RATE] = 1,
		[TOP_UNIT_LATENCY] = 1,
		[TOP_UNIT_PERCENT] = 1,
		[TOP_UNIT_DEPTH] = 1,
	};

	switch (value->kind) {
	case TOP_NOTHING:
		(void)text_copy(text_ret, TOP_TEXT_BYTES_MAX, "-"); /* fits */
		break;
	case TOP_TEXT:
		write_printable(value->text, text_ret);
		break;
	case TOP_NUMBER:
		snprintf(text_ret, TOP_TEXT_BYTES_MAX, "%.*f", (size_t)unit < ARRAY_COUNT(decimals) ? decimals[unit] : 0,
			 value->number);
		break;
	}
	return text_ret;
}
