/* SPDX-License-Identifier: BSD-2-Clause */
/* report - the latencies of the recording and of its replay, as text or as one JSON object. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/table.h"
#include "cmd/fathom/replay/replay.h"

static const struct {
	const char *name;
	uint32_t per_10000;
} percentiles[] = { { "p50", 5000 }, { "p90", 9000 }, { "p99", 9900 }, { "p99.9", 9990 } };

static const struct table_column columns[] = {
	{ "us", TABLE_LEFT, 12 },  { "operations", TABLE_RIGHT, 10 }, { "", TABLE_LEFT, 8 },
	{ "avg", TABLE_RIGHT, 9 }, { "p50", TABLE_RIGHT, 9 },	      { "p90", TABLE_RIGHT, 9 },
	{ "p99", TABLE_RIGHT, 9 }, { "p99.9", TABLE_RIGHT, 9 },	      { "max", TABLE_RIGHT, 10 },
};
static const struct table_layout layout = { TABLE_COLUMNS(columns), .gap = 1 };

/* Of so many operations, one that was sent late is no reason to doubt the comparison. */
enum { LATE_SHARE = 100 };

/* All workers together. */
struct totals {
	struct comparison *comparison;
	struct histogram lateness;
	uint64_t lateness_for_room, started, ended, failed, given_up, widened, wrapped, as_reads, longest_ns;
	struct replay_omitted omitted;
	const char *error; /* NULL: none */
};

static void add_worker(struct totals *totals, const struct replay_worker *worker)
{
	must(comparison_merge(totals->comparison, worker->comparison) == 0); /* at the end of a run */
	histogram_merge(&totals->lateness, &worker->lateness);
	totals->lateness_for_room += worker->lateness_for_room;
	totals->started += worker->started;
	totals->ended += worker->ended;
	totals->failed += worker->failed;
	totals->given_up += worker->given_up;
	totals->widened += worker->widened;
	totals->wrapped += worker->wrapped;
	totals->as_reads += worker->as_reads;
	totals->omitted.destructive += worker->omitted.destructive;
	totals->omitted.too_large += worker->omitted.too_large;
	totals->omitted.not_reached += worker->omitted.not_reached;
	totals->longest_ns = max_u64(totals->longest_ns, worker->seconds_ns);
	if (worker->error && !totals->error)
		totals->error = worker->error_text;
}

static double us(uint64_t ns)
{
	return (double)ns / NS_PER_US;
}

static double average_us(const struct histogram *histogram)
{
	return histogram->count > 0 ? us(histogram->sum) / (double)histogram->count : 0;
}

/* ---- text ---- */

static void print_side(const char *name, uint64_t count, const char *side, const struct histogram *histogram)
{
	struct table_line line;

	table_line_begin(&line, &layout);
	table_cell(&line, "%s", name);
	if (count > 0)
		table_cell(&line, "%" PRIu64, count);
	else
		table_cell(&line, "%s", "");
	table_cell(&line, "%s", side);
	table_cell(&line, "%.1f", average_us(histogram));
	for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
		table_cell(&line, "%.1f", us(histogram_percentile(histogram, percentiles[i].per_10000)));
	table_cell(&line, "%.1f", us(histogram->max));
	puts(table_line_text(&line));
}

static void print_ratios(const struct comparison_pair *pair, uint64_t round_trip_ns)
{
	double average = average_us(&pair->recorded), own = average_us(&pair->replayed) - us(round_trip_ns);
	struct table_line line;

	table_line_begin(&line, &layout);
	table_cell(&line, "%s", "");
	table_cell(&line, "%s", "");
	table_cell(&line, "ratio");
	table_cell(&line, "%.2f", average > 0 && own > 0 ? own / average : 0);
	for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
		table_cell(&line, "%.2f", comparison_ratio(pair, percentiles[i].per_10000, round_trip_ns));
	table_cell(&line, "%.2f", comparison_ratio(pair, 10000, round_trip_ns));
	puts(table_line_text(&line));
}

static void print_pair(const char *name, const struct comparison_pair *pair, uint64_t round_trip_ns)
{
	if (pair->recorded.count == 0)
		return;
	print_side(name, pair->recorded.count, "recorded", &pair->recorded);
	print_side("", 0, "replayed", &pair->replayed);
	print_ratios(pair, round_trip_ns);
}

static void print_worst(const struct comparison *comparison)
{
	if (comparison->worst_count == 0)
		return;
	printf("took longest, compared with the recording:\n");
	for (uint32_t i = 0; i < comparison->worst_count; i++) {
		const struct comparison_worst *worst = &comparison->worst[i];
		const struct replay_operation *operation = &worst->operation;

		printf("  operation %" PRIu64 " at %.6f s, queue %u, device %u: %s of %" PRIu32 " blocks from %" PRIu64
		       ": %.1f us, was %.1f us",
		       worst->number, (double)operation->start_ns / NS_PER_SEC, operation->queue + 1u,
		       operation->device + 1u, replay_kind_name(operation->kind), operation->blocks, operation->block,
		       us(worst->replayed_ns), us(operation->latency_ns));
		if (worst->others > 0)
			printf("; %" PRIu64 " more ended within a millisecond", worst->others);
		putchar('\n');
	}
}

static void print_omitted(const struct totals *totals)
{
	const struct comparison *comparison = totals->comparison;

	if (totals->omitted.destructive > 0)
		printf("left out: %" PRIu64 " writes, unmaps and writes of zeroes (--write replays them)\n",
		       totals->omitted.destructive);
	if (totals->omitted.too_large > 0)
		printf("left out: %" PRIu64 " operations that are too large for the target\n", totals->omitted.too_large);
	if (totals->omitted.not_reached + totals->given_up > 0)
		printf("not done: %" PRIu64 " operations were not sent, %" PRIu64 " got no answer\n",
		       totals->omitted.not_reached, totals->given_up);
	if (totals->as_reads > 0)
		printf("%" PRIu64 " compares were replayed as reads, because the recording has no data\n",
		       totals->as_reads);
	if (totals->widened > 0)
		printf("%" PRIu64 " operations were extended to the target's larger blocks\n", totals->widened);
	if (totals->wrapped > 0)
		printf("%" PRIu64 " operations beyond the end of the namespace went to other blocks\n", totals->wrapped);
	if (comparison->failed_in_recording + comparison->failed_in_replay > 0)
		printf("failed: %" PRIu64 " in the recording, %" PRIu64 " in the replay, %" PRIu64
		       " of them in both; they are not compared\n",
		       comparison->failed_in_recording, comparison->failed_in_replay, comparison->failed_in_both);
	if (comparison->unknown > 0)
		printf("%" PRIu64 " operations have no end in the recording; they are not compared\n", comparison->unknown);
}

static void print_lateness(const struct replay *replay, const struct totals *totals)
{
	const struct histogram *lateness = &totals->lateness;

	if (replay->options.speed == 0) {
		printf("speed max: an operation was sent when its queue had room\n");
		return;
	}
	printf("sent after their time: p50 %.1f us, p99 %.1f us, at most %.1f us", us(histogram_percentile(lateness, 5000)),
	       us(histogram_percentile(lateness, 9900)), us(lateness->max));
	putchar('\n');
}

static void print_text(const struct replay *replay, const struct totals *totals)
{
	const struct comparison *comparison = totals->comparison;
	uint64_t round_trip_ns = replay->target.round_trip_ns;
	char text[COMPARISON_SENTENCE_BYTES], name[32];
	struct table_line line;
	uint32_t used = 0;

	for (unsigned int kind = 0; kind < REPLAY_KINDS; kind++) {
		if (comparison->kinds[kind].recorded.count > 0)
			puts(comparison_sentence(comparison, kind, round_trip_ns, text));
		if (comparison_difference_sentence(comparison, kind, round_trip_ns, text))
			puts(text);
	}
	printf("%" PRIu64 " operations in %.2f s (recorded: %.2f s)\n", totals->ended,
	       (double)totals->longest_ns / NS_PER_SEC, (double)replay->file.summary.span_ns / NS_PER_SEC);
	if (totals->lateness_for_room > 0)
		printf("%s%" PRIu64 " operation%s sent late, because %s queue was full\n",
		       totals->lateness_for_room * LATE_SHARE >= totals->ended ? "the target did not keep up: " : "",
		       totals->lateness_for_room, totals->lateness_for_room == 1 ? " was" : "s were",
		       totals->lateness_for_room == 1 ? "its" : "their");
	print_omitted(totals);
	puts(table_line_titles(&line, &layout));
	for (unsigned int kind = 0; kind < REPLAY_KINDS; kind++)
		print_pair(replay_kind_name(kind), &comparison->kinds[kind], round_trip_ns);
	for (uint32_t i = 0; i < comparison->queue_count; i++)
		used += comparison->queues[i] != NULL;
	for (uint32_t i = 0; i < comparison->queue_count && used > 1; i++) {
		snprintf(name, sizeof(name), "queue %" PRIu32, i + 1);
		if (comparison->queues[i])
			print_pair(name, comparison->queues[i], round_trip_ns);
	}
	print_worst(comparison);
	print_lateness(replay, totals);
	printf("Times of the recording are those of its engine; times of the replay also contain the network. Ratios are "
	       "without the %.1f us of a command that needs no device.\n",
	       us(round_trip_ns));
}

/* ---- JSON ---- */

static json_t *histogram_json(const struct histogram *histogram)
{
	json_t *object = json_object();

	json_object_set_new(object, "average_us", json_real(average_us(histogram)));
	for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++) {
		char key[16];

		snprintf(key, sizeof(key), "%s_us", percentiles[i].name);
		json_object_set_new(object, key, json_real(us(histogram_percentile(histogram, percentiles[i].per_10000))));
	}
	json_object_set_new(object, "max_us", json_real(us(histogram->max)));
	return object;
}

static json_t *pair_json(const struct comparison_pair *pair, uint64_t round_trip_ns)
{
	json_t *object = json_object(), *ratio = json_object();

	json_object_set_new(object, "operations", json_integer((json_int_t)pair->recorded.count));
	json_object_set_new(object, "recorded", histogram_json(&pair->recorded));
	json_object_set_new(object, "replayed", histogram_json(&pair->replayed));
	for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
		json_object_set_new(ratio, percentiles[i].name,
				    json_real(comparison_ratio(pair, percentiles[i].per_10000, round_trip_ns)));
	json_object_set_new(object, "ratio", ratio);
	return object;
}

/* null: the recording does not say where the difference is, or there is none. */
static json_t *difference_json(const struct comparison *comparison, unsigned int kind, uint64_t round_trip_ns)
{
	struct comparison_difference found = comparison_find_difference(&comparison->kinds[kind], round_trip_ns);
	char text[COMPARISON_SENTENCE_BYTES];

	if (!comparison_difference_sentence(comparison, kind, round_trip_ns, text))
		return json_null();
	return json_pack("{ss sf ss sf sf sf}", "where", comparison_where_key(found.where), "at_least", found.least,
			 "sentence", text, "recorded_us", us(found.recorded_ns), "device_us", us(found.device_ns),
			 "replayed_us", us(found.replayed_ns));
}

static json_t *worst_json(const struct comparison *comparison)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < comparison->worst_count; i++) {
		const struct comparison_worst *worst = &comparison->worst[i];
		const struct replay_operation *operation = &worst->operation;

		json_array_append_new(
			array, json_pack("{sI sf sI sI ss sI sI sf sf sI}", "operation", (json_int_t)worst->number, "at_s",
					 (double)operation->start_ns / NS_PER_SEC, "queue",
					 (json_int_t)operation->queue + 1, "device", (json_int_t)operation->device + 1,
					 "kind", replay_kind_name(operation->kind), "block", (json_int_t)operation->block,
					 "blocks", (json_int_t)operation->blocks, "replayed_us", us(worst->replayed_ns),
					 "recorded_us", us(operation->latency_ns), "others", (json_int_t)worst->others));
	}
	return array;
}

static json_t *comparison_json(const struct comparison *comparison, uint64_t round_trip_ns)
{
	json_t *object = json_object(), *kinds = json_object(), *queues = json_object(), *sentences = json_array(), *pair;
	char text[COMPARISON_SENTENCE_BYTES];

	for (unsigned int kind = 0; kind < REPLAY_KINDS; kind++) {
		if (comparison->kinds[kind].recorded.count == 0)
			continue;
		pair = pair_json(&comparison->kinds[kind], round_trip_ns);
		json_object_set_new(pair, "difference", difference_json(comparison, kind, round_trip_ns));
		json_object_set_new(kinds, replay_kind_name(kind), pair);
		json_array_append_new(sentences, json_string(comparison_sentence(comparison, kind, round_trip_ns, text)));
	}
	for (uint32_t i = 0; i < comparison->queue_count; i++) {
		char key[16];

		snprintf(key, sizeof(key), "%" PRIu32, i + 1);
		if (comparison->queues[i])
			json_object_set_new(queues, key, pair_json(comparison->queues[i], round_trip_ns));
	}
	json_object_set_new(object, "sentences", sentences);
	json_object_set_new(object, "kinds", kinds);
	json_object_set_new(object, "queues", queues);
	json_object_set_new(object, "worst", worst_json(comparison));
	json_object_set_new(object, "failed_in_recording", json_integer((json_int_t)comparison->failed_in_recording));
	json_object_set_new(object, "failed_in_both", json_integer((json_int_t)comparison->failed_in_both));
	json_object_set_new(object, "without_end", json_integer((json_int_t)comparison->unknown));
	return object;
}

static json_t *lateness_json(const struct totals *totals)
{
	json_t *object = histogram_json(&totals->lateness);

	json_object_set_new(object, "waited_for_room", json_integer((json_int_t)totals->lateness_for_room));
	return object;
}

static void print_json(const struct replay *replay, const struct totals *totals, bool interrupted, int status)
{
	json_t *object = comparison_json(totals->comparison, replay->target.round_trip_ns);

	json_object_set_new(object, "operations", json_integer((json_int_t)totals->ended));
	json_object_set_new(object, "failed", json_integer((json_int_t)totals->failed));
	json_object_set_new(object, "seconds", json_real((double)totals->longest_ns / NS_PER_SEC));
	json_object_set_new(object, "recorded_seconds", json_real((double)replay->file.summary.span_ns / NS_PER_SEC));
	json_object_set_new(object, "speed",
			    replay->options.speed > 0 ? json_real(replay->options.speed) : json_string("max"));
	json_object_set_new(object, "queue_pairs", json_integer(replay->target.qpair_count));
	json_object_set_new(object, "round_trip_us", json_real(us(replay->target.round_trip_ns)));
	json_object_set_new(object, "lateness", lateness_json(totals));
	json_object_set_new(object, "left_out",
			    json_pack("{sI sI}", "destructive", (json_int_t)totals->omitted.destructive, "too_large",
				      (json_int_t)totals->omitted.too_large));
	json_object_set_new(object, "not_sent", json_integer((json_int_t)totals->omitted.not_reached));
	json_object_set_new(object, "not_answered", json_integer((json_int_t)totals->given_up));
	json_object_set_new(object, "wrapped", json_integer((json_int_t)totals->wrapped));
	json_object_set_new(object, "extended", json_integer((json_int_t)totals->widened));
	json_object_set_new(object, "interrupted", json_boolean(interrupted));
	if (totals->error)
		json_object_set_new(object, "error", json_string(totals->error));
	json_object_set_new(object, "slower", json_boolean(status == EXIT_SLOWER));
	json_dumpf(object, stdout, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(object);
}

/* ---- status ---- */

static bool is_slower(const struct replay *replay, const struct totals *totals)
{
	for (unsigned int kind = 0; replay->options.threshold_given && kind < REPLAY_KINDS; kind++) {
		if (comparison_ratio(&totals->comparison->kinds[kind], 9900, replay->target.round_trip_ns) >
		    1 + replay->options.threshold)
			return true;
	}
	return false;
}

static int exit_status(const struct replay *replay, const struct totals *totals, bool interrupted)
{
	/* an operation that failed in the recording, too, was replayed as it was */
	uint64_t new_failures = totals->comparison->failed_in_replay - totals->comparison->failed_in_both;

	if (totals->error || interrupted || new_failures > 0 || totals->given_up > 0 || totals->omitted.not_reached > 0)
		return EXIT_FAILED;
	return is_slower(replay, totals) ? EXIT_SLOWER : EXIT_SUCCESS;
}

int replay_report(struct replay *replay, bool interrupted)
{
	struct totals *totals = calloc(1, sizeof(*totals));
	int status;

	must(totals); /* 30 KB */
	totals->comparison = comparison_create(replay->file.summary.queue_count);
	must(totals->comparison);
	for (uint32_t i = 0; i < replay->worker_count; i++)
		add_worker(totals, &replay->workers[i]);
	comparison_sort(totals->comparison);
	status = exit_status(replay, totals, interrupted);
	if (replay->error_lines > REPLAY_ERROR_LINES_MAX)
		fprintf(stderr, "fathom replay: ... and %" PRIu64 " more\n", replay->error_lines - REPLAY_ERROR_LINES_MAX);
	if (totals->error)
		fprintf(stderr, "fathom replay: %s\n", totals->error);
	if (interrupted)
		fprintf(stderr, "fathom replay: ended by a signal\n");
	if (replay->options.json)
		print_json(replay, totals, interrupted, status);
	else
		print_text(replay, totals);
	comparison_destroy(totals->comparison);
	free(totals);
	return status;
}
