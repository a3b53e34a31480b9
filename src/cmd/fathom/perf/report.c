/* SPDX-License-Identifier: BSD-2-Clause */
/* report - prints the results as a table, or as one JSON object. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/table.h"
#include "cmd/fathom/perf/perf.h"

/* One row: reads, writes or both. */
struct row {
	const char *name;
	double iops;
	double mib_per_s;
	double average_us;
	uint64_t errors;
	struct histogram latency;
};

static const struct {
	const char *name;
	uint32_t per_10000;
} percentiles[] = { { "p50", 5000 }, { "p90", 9000 }, { "p99", 9900 }, { "p99.9", 9990 } };

static const struct table_column columns[] = {
	{ "", TABLE_LEFT, 6 },	      { "IOPS", TABLE_RIGHT, 11 },  { "MiB/s", TABLE_RIGHT, 10 },
	{ "avg us", TABLE_RIGHT, 9 }, { "min", TABLE_RIGHT, 8 },    { "p50", TABLE_RIGHT, 8 },
	{ "p90", TABLE_RIGHT, 8 },    { "p99", TABLE_RIGHT, 8 },    { "p99.9", TABLE_RIGHT, 8 },
	{ "max", TABLE_RIGHT, 9 },    { "errors", TABLE_RIGHT, 7 },
};
static const struct table_layout layout = { TABLE_COLUMNS(columns), .gap = 1 };

static double us_from_ticks(uint64_t ticks)
{
	return (double)clock_ns_from_ticks(ticks) / NS_PER_US;
}

/* `kinds`: one bit for each kind. */
static void fill_report_row(const struct perf *perf, const char *name, unsigned int kinds, struct row *row)
{
	row->name = name;
	for (uint32_t i = 0; i < perf->options.queues; i++) {
		const struct perf_worker *worker = &perf->workers[i];

		for (unsigned int kind = 0; kind < PERF_KINDS; kind++) {
			if (!(kinds & BIT(kind)))
				continue;
			histogram_merge(&row->latency, &worker->counts->latency[kind]);
			row->errors += worker->counts->errors[kind];
			if (worker->seconds > 0)
				row->iops += (double)worker->counts->latency[kind].count / worker->seconds;
		}
	}
	row->mib_per_s = row->iops * (double)perf->options.io_bytes / (1 << 20);
	if (row->latency.count > 0)
		row->average_us = us_from_ticks(row->latency.sum / row->latency.count);
}

static void print_report_row(const struct row *row)
{
	const struct histogram *latency = &row->latency;
	struct table_line line;

	table_line_begin(&line, &layout);
	table_cell(&line, "%s", row->name);
	table_cell(&line, "%.0f", row->iops);
	table_cell(&line, "%.1f", row->mib_per_s);
	table_cell(&line, "%.1f", row->average_us);
	table_cell(&line, "%.1f", us_from_ticks(latency->min));
	for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
		table_cell(&line, "%.1f", us_from_ticks(histogram_percentile(latency, percentiles[i].per_10000)));
	table_cell(&line, "%.1f", us_from_ticks(latency->max));
	table_cell(&line, "%" PRIu64, row->errors);
	puts(table_line_text(&line));
}

static json_t *make_row_json(const struct row *row)
{
	json_t *latency = json_object(), *object = json_object();

	json_object_set_new(latency, "avg", json_real(row->average_us));
	json_object_set_new(latency, "min", json_real(us_from_ticks(row->latency.min)));
	for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
		json_object_set_new(latency, percentiles[i].name,
				    json_real(
					    us_from_ticks(histogram_percentile(&row->latency, percentiles[i].per_10000))));
	json_object_set_new(latency, "max", json_real(us_from_ticks(row->latency.max)));
	json_object_set_new(object, "ios", json_integer((json_int_t)row->latency.count));
	json_object_set_new(object, "iops", json_real(row->iops));
	json_object_set_new(object, "mib_per_s", json_real(row->mib_per_s));
	json_object_set_new(object, "latency_us", latency);
	json_object_set_new(object, "errors", json_integer((json_int_t)row->errors));
	return object;
}

static double find_longest_seconds(const struct perf *perf)
{
	double longest = 0;

	for (uint32_t i = 0; i < perf->options.queues; i++)
		longest = perf->workers[i].seconds > longest ? perf->workers[i].seconds : longest;
	return longest;
}

static uint64_t count_read_back(const struct perf *perf)
{
	uint64_t blocks = 0;

	for (uint32_t i = 0; i < perf->options.queues; i++)
		blocks += perf->workers[i].progress.checked;
	return blocks;
}

static uint64_t count_left_out(const struct perf *perf)
{
	uint64_t blocks = 0;

	for (uint32_t i = 0; i < perf->options.queues; i++)
		blocks += perf->workers[i].left_out;
	return blocks;
}

static void print_report_json(const struct perf *perf, const struct row *rows, bool good)
{
	const struct perf_options *options = &perf->options;
	json_t *object = json_object(), *verify;

	json_object_set_new(object, "address", json_string(options->connect.address));
	json_object_set_new(object, "service", json_string(options->connect.service));
	json_object_set_new(object, "subnqn", json_string(options->connect.subnqn));
	json_object_set_new(object, "nsid", json_integer(options->nsid));
	json_object_set_new(object, "rw", json_string(options->rw));
	json_object_set_new(object, "read_percent", json_integer(options->read_percent));
	json_object_set_new(object, "block_bytes", json_integer((json_int_t)options->io_bytes));
	json_object_set_new(object, "depth", json_integer(perf->depth));
	json_object_set_new(object, "queues", json_integer(options->queues));
	json_object_set_new(object, "header_digest", json_boolean(options->connect.header_digest));
	json_object_set_new(object, "data_digest", json_boolean(options->connect.data_digest));
	json_object_set_new(object, "seed", json_integer((json_int_t)options->seed));
	json_object_set_new(object, "seconds", json_real(find_longest_seconds(perf)));
	json_object_set_new(object, "read", make_row_json(&rows[PERF_READ]));
	json_object_set_new(object, "write", make_row_json(&rows[PERF_WRITE]));
	json_object_set_new(object, "total", make_row_json(&rows[PERF_KINDS]));
	if (options->verify) {
		verify = json_object();
		json_object_set_new(verify, "blocks_read_back", json_integer((json_int_t)count_read_back(perf)));
		json_object_set_new(verify, "blocks_left_out", json_integer((json_int_t)count_left_out(perf)));
		json_object_set_new(verify, "wrong_reads", json_integer((json_int_t)perf->findings));
		json_object_set_new(object, "verify", verify);
	}
	json_object_set_new(object, "ok", json_boolean(good));
	json_dumpf(object, stdout, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(object);
}

static void print_report_table(const struct perf *perf, const struct row *rows)
{
	const struct perf_options *options = &perf->options;
	bool both = rows[PERF_READ].latency.count > 0 && rows[PERF_WRITE].latency.count > 0;
	struct table_line line;

	printf("%s, %" PRIu64 " bytes, depth %" PRIu32 ", %" PRIu32 " queue%s, %.2f s\n", options->rw, options->io_bytes,
	       perf->depth, options->queues, options->queues == 1 ? "" : "s", find_longest_seconds(perf));
	puts(table_line_titles(&line, &layout));
	for (size_t i = 0; i < PERF_KINDS; i++) {
		if (rows[i].latency.count > 0 || rows[i].errors > 0)
			print_report_row(&rows[i]);
	}
	if (both || rows[PERF_KINDS].latency.count == 0)
		print_report_row(&rows[PERF_KINDS]);
	if (!options->verify)
		return;
	printf("verified: %" PRIu64 " blocks read back, %" PRIu64 " reads were wrong\n", count_read_back(perf),
	       perf->findings);
	if (count_left_out(perf) > 0)
		printf("not verified: %" PRIu64 " blocks were written and not read back\n", count_left_out(perf));
}

bool perf_report(struct perf *perf)
{
	struct row *rows = calloc(PERF_KINDS + 1, sizeof(*rows));
	bool good = perf->findings == 0;

	must(rows); /* 90 KB at the end of a run */
	fill_report_row(perf, "read", BIT(PERF_READ), &rows[PERF_READ]);
	fill_report_row(perf, "write", BIT(PERF_WRITE), &rows[PERF_WRITE]);
	fill_report_row(perf, "total", BIT(PERF_READ) | BIT(PERF_WRITE), &rows[PERF_KINDS]);
	good = good && rows[PERF_KINDS].errors == 0 && count_left_out(perf) == 0;
	for (uint32_t i = 0; i < perf->options.queues; i++)
		good = good && !perf->workers[i].lost;
	if (perf->error_lines > PERF_ERROR_LINES_MAX)
		fprintf(stderr, "fathom perf: ... and %" PRIu64 " more\n", perf->error_lines - PERF_ERROR_LINES_MAX);
	if (perf->options.json)
		print_report_json(perf, rows, good);
	else
		print_report_table(perf, rows);
	free(rows);
	return good;
}
