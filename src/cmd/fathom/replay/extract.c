/* SPDX-License-Identifier: BSD-2-Clause */
/* extract - `fathom replay extract` and `fathom replay show`. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/table.h"
#include "cmd/fathom/replay/replay.h"

/* ---- extract ---- */

static uint64_t count_left_out(const struct replay_left_out *left_out)
{
	return left_out->partial + left_out->unplaced + left_out->block_size + left_out->tables;
}

static void print_left_out(const struct replay_summary *summary)
{
	const struct replay_left_out *left_out = &summary->left_out;

	if (count_left_out(left_out) > 0)
		printf("left out: %" PRIu64 " commands that began before the recording, %" PRIu64
		       " without a place in it, %" PRIu64 " at devices of unknown block size, %" PRIu64
		       " of too many queues or devices\n",
		       left_out->partial, left_out->unplaced, left_out->block_size, left_out->tables);
	if (summary->records_missing > 0)
		printf("the recording lacks %" PRIu64 " records, so operations are missing\n", summary->records_missing);
}

static uint64_t file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

int replay_extract(int argc, char **argv)
{
	struct replay_options options;
	struct replay_summary summary;
	struct fathom_fault why = { 0 };
	int status = replay_parse_options(&replay_extract_table, argc, argv, &options);

	if (status != OPTIONS_RUN)
		return status;
	if (incident_write(&options, &summary, &why) != 0)
		return replay_complain(why.text);
	if (options.json) {
		printf("{\"operations\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"queues\": %" PRIu32
		       ", \"devices\": %" PRIu32 ", \"left_out\": %" PRIu64 ", \"records_missing\": %" PRIu64 "}\n",
		       summary.operations, file_bytes(options.output), summary.queue_count, summary.device_count,
		       count_left_out(&summary.left_out), summary.records_missing);
	} else {
		printf("%" PRIu64 " operations of %" PRIu32 " queue%s in %s, %" PRIu64 " bytes\n", summary.operations,
		       summary.queue_count, summary.queue_count == 1 ? "" : "s", options.output,
		       file_bytes(options.output));
		print_left_out(&summary);
	}
	replay_summary_deinit(&summary);
	return EXIT_SUCCESS;
}

/* ---- show ---- */

struct shown_kind {
	uint64_t operations, blocks_bytes, failed, unfinished;
	struct histogram bytes, latency;
};

struct shown {
	struct shown_kind kinds[REPLAY_KINDS];
	uint64_t operations, last_ns, queues[REPLAY_QUEUES_MAX], devices[REPLAY_DEVICES_MAX];
	uint64_t second, in_second, peak; /* operations that began in the busiest second */
};

static void add_shown(struct shown *shown, const struct replay_summary *summary, const struct replay_operation *operation)
{
	struct shown_kind *kind = &shown->kinds[operation->kind];
	uint64_t bytes = (uint64_t)operation->blocks * summary->devices[operation->device].block_bytes;

	shown->operations++;
	shown->queues[operation->queue]++;
	shown->devices[operation->device]++;
	shown->last_ns = operation->start_ns;
	if (operation->start_ns / NS_PER_SEC != shown->second)
		shown->in_second = 0;
	shown->second = operation->start_ns / NS_PER_SEC;
	shown->peak = max_u64(shown->peak, ++shown->in_second);
	kind->operations++;
	kind->blocks_bytes += bytes;
	kind->failed += operation->failed;
	histogram_add(&kind->bytes, bytes);
	if (operation->latency_ns == REPLAY_NO_LATENCY)
		kind->unfinished++;
	else
		histogram_add(&kind->latency, operation->latency_ns);
}

static int read_shown(const struct incident_file *file, const struct incident_selection *selection, struct shown *shown,
		      struct fathom_fault *why)
{
	struct incident_stream *stream = calloc(1, sizeof(*stream));
	struct replay_operation operation;
	uint64_t number;
	int rc;

	must(stream); /* 75 KB */
	stream->file = file;
	stream->selection = selection;
	while ((rc = incident_stream_next(stream, &operation, &number, why)) > 0)
		add_shown(shown, &file->summary, &operation);
	free(stream);
	return rc;
}

static const struct table_column kind_columns[] = {
	{ "", TABLE_LEFT, 12 },		{ "operations", TABLE_RIGHT, 10 }, { "MiB", TABLE_RIGHT, 9 },
	{ "size p50", TABLE_RIGHT, 8 }, { "max", TABLE_RIGHT, 8 },	   { "us p50", TABLE_RIGHT, 8 },
	{ "p90", TABLE_RIGHT, 8 },	{ "p99", TABLE_RIGHT, 8 },	   { "max", TABLE_RIGHT, 9 },
	{ "failed", TABLE_RIGHT, 6 },	{ "no end", TABLE_RIGHT, 6 },
};
static const struct table_layout kind_layout = { TABLE_COLUMNS(kind_columns), .gap = 1 };

static double percentile_us(const struct histogram *histogram, uint32_t per_10000)
{
	return (double)histogram_percentile(histogram, per_10000) / NS_PER_US;
}

static void print_kinds(const struct shown *shown)
{
	struct table_line line;

	puts(table_line_titles(&line, &kind_layout));
	for (unsigned int i = 0; i < REPLAY_KINDS; i++) {
		const struct shown_kind *kind = &shown->kinds[i];

		if (kind->operations == 0)
			continue;
		table_line_begin(&line, &kind_layout);
		table_cell(&line, "%s", replay_kind_name(i));
		table_cell(&line, "%" PRIu64, kind->operations);
		table_cell(&line, "%.1f", (double)kind->blocks_bytes / (1 << 20));
		table_cell(&line, "%" PRIu64, histogram_percentile(&kind->bytes, 5000));
		table_cell(&line, "%" PRIu64, kind->bytes.max);
		table_cell(&line, "%.1f", percentile_us(&kind->latency, 5000));
		table_cell(&line, "%.1f", percentile_us(&kind->latency, 9000));
		table_cell(&line, "%.1f", percentile_us(&kind->latency, 9900));
		table_cell(&line, "%.1f", (double)kind->latency.max / NS_PER_US);
		table_cell(&line, "%" PRIu64, kind->failed);
		table_cell(&line, "%" PRIu64, kind->unfinished);
		puts(table_line_text(&line));
	}
}

static void print_tables(const struct incident_file *file, const struct incident_selection *selection,
			 const struct shown *shown)
{
	const struct replay_summary *summary = &file->summary;

	for (uint32_t i = 0; i < summary->queue_count; i++) {
		const struct replay_queue *queue = &summary->queues[i];

		if (selection->queues[i])
			printf("queue %" PRIu32 ": host %" PRIu32 "%s%s, qid %" PRIu32 ", %" PRIu64
			       " operations, at most %" PRIu32 " at a time\n",
			       i + 1, queue->host_number, queue->host[0] ? " " : "", queue->host, queue->qid,
			       shown->queues[i], queue->depth);
	}
	for (uint32_t i = 0; i < summary->device_count; i++) {
		const struct replay_device *device = &summary->devices[i];

		if (!selection->devices[i])
			continue;
		printf("device %" PRIu32 "%s%s: ", i + 1, device->name[0] ? " " : "", device->name);
		if (device->nsid)
			printf("namespace %" PRIu32 ", ", device->nsid);
		printf("%" PRIu64 " operations, ", shown->devices[i]);
		if (device->block_bytes)
			printf("blocks of %" PRIu32 " bytes, used up to byte %" PRIu64 "\n", device->block_bytes,
			       device->blocks_used * device->block_bytes);
		else
			printf("blocks of unknown size, used up to block %" PRIu64 "\n", device->blocks_used);
	}
}

static double rate(const struct shown *shown)
{
	return shown->last_ns > 0 ? (double)shown->operations * NS_PER_SEC / (double)shown->last_ns : 0;
}

static void print_shown(const struct incident_file *file, const struct incident_selection *selection,
			const struct shown *shown)
{
	const struct replay_summary *summary = &file->summary;

	if (summary->source[0])
		printf("recorded from %s\n", summary->source);
	printf("%" PRIu64 " operations in %.3f s: %.0f/s, %" PRIu64 " in the busiest second\n", shown->operations,
	       (double)shown->last_ns / NS_PER_SEC, rate(shown), shown->peak);
	print_kinds(shown);
	print_tables(file, selection, shown);
	print_left_out(summary);
}

static json_t *kinds_json(const struct shown *shown)
{
	json_t *object = json_object();

	for (unsigned int i = 0; i < REPLAY_KINDS; i++) {
		const struct shown_kind *kind = &shown->kinds[i];

		if (kind->operations == 0)
			continue;
		json_object_set_new(object, replay_kind_name(i),
				    json_pack("{sI sI sI sI sI sI sf sf sf sf}", "operations", (json_int_t)kind->operations,
					      "bytes", (json_int_t)kind->blocks_bytes, "size_p50",
					      (json_int_t)histogram_percentile(&kind->bytes, 5000), "size_max",
					      (json_int_t)kind->bytes.max, "failed", (json_int_t)kind->failed, "unfinished",
					      (json_int_t)kind->unfinished, "p50_us", percentile_us(&kind->latency, 5000),
					      "p90_us", percentile_us(&kind->latency, 9000), "p99_us",
					      percentile_us(&kind->latency, 9900), "max_us",
					      (double)kind->latency.max / NS_PER_US));
	}
	return object;
}

static json_t *queues_json(const struct replay_summary *summary, const struct incident_selection *selection,
			   const struct shown *shown)
{
	json_t *array = json_array(), *row;

	for (uint32_t i = 0; i < summary->queue_count; i++) {
		const struct replay_queue *queue = &summary->queues[i];

		if (!selection->queues[i])
			continue;
		row = json_pack("{sI sI sI sI sI}", "queue", (json_int_t)i + 1, "host", (json_int_t)queue->host_number,
				"qid", (json_int_t)queue->qid, "depth", (json_int_t)queue->depth, "operations",
				(json_int_t)shown->queues[i]);
		if (queue->host[0])
			json_object_set_new(row, "host_name", json_string(queue->host));
		json_array_append_new(array, row);
	}
	return array;
}

static json_t *devices_json(const struct replay_summary *summary, const struct incident_selection *selection,
			    const struct shown *shown)
{
	json_t *array = json_array(), *row;

	for (uint32_t i = 0; i < summary->device_count; i++) {
		const struct replay_device *device = &summary->devices[i];

		if (!selection->devices[i])
			continue;
		row = json_pack("{sI sI sI sI sI}", "device", (json_int_t)i + 1, "nsid", (json_int_t)device->nsid,
				"block_bytes", (json_int_t)device->block_bytes, "bytes_used",
				(json_int_t)(device->blocks_used * device->block_bytes), "operations",
				(json_int_t)shown->devices[i]);
		if (device->name[0])
			json_object_set_new(row, "name", json_string(device->name));
		json_array_append_new(array, row);
	}
	return array;
}

static void print_shown_json(const struct incident_file *file, const struct incident_selection *selection,
			     const struct shown *shown)
{
	const struct replay_summary *summary = &file->summary;
	json_t *object = json_object();

	json_object_set_new(object, "version", json_integer(INCIDENT_VERSION));
	if (summary->source[0])
		json_object_set_new(object, "source", json_string(summary->source));
	json_object_set_new(object, "operations", json_integer((json_int_t)shown->operations));
	json_object_set_new(object, "seconds", json_real((double)shown->last_ns / NS_PER_SEC));
	json_object_set_new(object, "per_second", json_real(rate(shown)));
	json_object_set_new(object, "peak_per_second", json_integer((json_int_t)shown->peak));
	json_object_set_new(object, "kinds", kinds_json(shown));
	json_object_set_new(object, "queues", queues_json(summary, selection, shown));
	json_object_set_new(object, "devices", devices_json(summary, selection, shown));
	json_object_set_new(object, "left_out", json_integer((json_int_t)count_left_out(&summary->left_out)));
	json_object_set_new(object, "records_missing", json_integer((json_int_t)summary->records_missing));
	json_dumpf(object, stdout, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(object);
}

int replay_show(int argc, char **argv)
{
	struct replay_options options;
	struct incident_selection *selection;
	struct incident_file file;
	struct shown *shown;
	struct fathom_fault why = { 0 };
	int status = replay_parse_options(&replay_show_table, argc, argv, &options), rc;

	if (status != OPTIONS_RUN)
		return status;
	if (incident_open(&options.files, &options.choice, true, &file, &why) != 0)
		return replay_complain(why.text);
	selection = calloc(1, sizeof(*selection));
	shown = calloc(1, sizeof(*shown));
	must(selection && shown); /* 400 KB */
	rc = incident_select(&file, &options.choice, selection, &why);
	if (rc == 0)
		rc = read_shown(&file, selection, shown, &why);
	if (rc == 0)
		(options.json ? print_shown_json : print_shown)(&file, selection, shown);
	free(shown);
	free(selection);
	incident_close(&file);
	return rc ? replay_complain(why.text) : EXIT_SUCCESS;
}
