/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/trace/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/trace/internal.h"

enum {
	LABEL_BYTES = 96,
	SAME_COUNTER_MS = 10,	    /* files of one boot agree on the counter's origin much better than this */
	RATE_PARTS_UNKNOWN = 10000, /* error of a tick rate that clock pairs cannot confirm: at most 1 / this */
	PAIR_ERROR_NS = 200,	    /* best case for a pair: its three clocks are not read at the same instant */
};

struct source {
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event; /* next, if `ready` */
	bool ready;
	uint64_t wall_ns; /* of `event`; never decreases within a file */
	char label[LABEL_BYTES];
	struct trace_clock_pair *pairs; /* owned by the first file of each counter: pairs of all its files */
};

struct reader_merge {
	uint32_t count;
	uint64_t start_ns;
	struct source sources[];
};

/* ---- clocks ---- */

/* CLOCK_MONOTONIC at tick 0. */
static int64_t counter_origin_ns(const struct reader *reader)
{
	const struct trace_clock_pair *pair = &reader->pairs[0];

	return (int64_t)(pair->monotonic_ns - tick_scale_ns(&reader->scale, pair->tick));
}

/*
 * Do both files use the same counter? They must name the same host, and their counters must have the same origin in
 * uptime, within the accuracy of the tick rates, which each process measured when it started.
 */
static bool is_same_counter(const struct reader *a, const struct reader *b)
{
	uint64_t rate = min_u64(a->info.tick_rate, b->info.tick_rate),
		 apart = max_u64(a->info.tick_rate, b->info.tick_rate) - rate;
	int64_t origin = counter_origin_ns(a) - counter_origin_ns(b);
	uint64_t uptime = max_u64(a->pairs[0].monotonic_ns, b->pairs[0].monotonic_ns);

	if (!a->info.host[0] || strcmp(a->info.host, b->info.host) != 0 || apart > rate / RATE_PARTS_UNKNOWN ||
	    !a->pairs[0].monotonic_ns || !b->pairs[0].monotonic_ns)
		return false;
	return (uint64_t)llabs(origin) <
	       SAME_COUNTER_MS * NS_PER_MS + (uint64_t)((double)uptime * (double)apart / (double)rate);
}

static int compare_pairs_by_tick(const void *left, const void *right)
{
	const struct trace_clock_pair *a = left, *b = right;

	return a->tick < b->tick ? -1 : a->tick > b->tick;
}

/* Let all files that use the counter of `first` share all their pairs. */
static int share_pairs(struct reader_merge *merge, uint32_t first)
{
	struct source *source = &merge->sources[first];
	uint32_t count = 0;

	source->pairs = malloc(merge->count * sizeof(source->reader->pairs));
	if (!source->pairs)
		return -ENOMEM;
	for (uint32_t i = first; i < merge->count; i++) {
		struct reader *reader = merge->sources[i].reader;

		if (reader->all_pairs || !is_same_counter(source->reader, reader))
			continue;
		memcpy(source->pairs + count, reader->pairs, reader->pair_count * sizeof(reader->pairs[0]));
		count += reader->pair_count;
		reader->all_pairs = source->pairs;
	}
	qsort(source->pairs, count, sizeof(source->pairs[0]), compare_pairs_by_tick);
	for (uint32_t i = first; i < merge->count; i++) {
		if (merge->sources[i].reader->all_pairs == source->pairs)
			merge->sources[i].reader->all_pair_count = count;
	}
	return 0;
}

/* Difference between the pair's time of day and the one interpolated from its neighbours. */
static uint64_t pair_error_ns(const struct trace_clock_pair *pair)
{
	double part = (double)(pair->tick - pair[-1].tick) / (double)(pair[1].tick - pair[-1].tick);
	double expected = part * (double)(int64_t)(pair[1].realtime_ns - pair[-1].realtime_ns);
	double is = (double)(int64_t)(pair->realtime_ns - pair[-1].realtime_ns);

	return (uint64_t)(expected > is ? expected - is : is - expected);
}

/* Relative error of the tick rate, measured between the outermost pairs. */
static double rate_error(const struct reader *reader)
{
	const struct trace_clock_pair *first = &reader->pairs[0], *last = &reader->pairs[reader->pair_count - 1];
	double unknown = 1.0 / RATE_PARTS_UNKNOWN, expected;

	/* over less than a second, the error of reading the clocks exceeds that of their rates */
	if (last->tick - first->tick < reader->info.tick_rate)
		return unknown;
	expected = (double)tick_scale_ns(&reader->scale, last->tick - first->tick);
	expected = (double)(int64_t)(last->realtime_ns - first->realtime_ns) / expected - 1;
	return expected < 0 ? -expected : expected;
}

uint64_t reader_wall_error_ns(const struct reader *reader)
{
	const struct trace_clock_pair *pairs = reader->pairs;
	uint64_t error = PAIR_ERROR_NS, begin = reader->info.start_tick, end = reader_now(reader), beyond = 0;

	if (reader->pair_count == 0)
		return UINT64_MAX;
	for (uint32_t i = 1; i + 1 < reader->pair_count; i++) {
		if (pairs[i + 1].tick > pairs[i - 1].tick)
			error = max_u64(error, pair_error_ns(&pairs[i]));
	}
	if (begin < pairs[0].tick)
		beyond = pairs[0].tick - begin;
	if (end > pairs[reader->pair_count - 1].tick)
		beyond = max_u64(beyond, end - pairs[reader->pair_count - 1].tick);
	return error + (uint64_t)((double)tick_scale_ns(&reader->scale, beyond) * rate_error(reader));
}

/* ---- names ---- */

static bool is_label_taken(const struct reader_merge *merge, uint32_t index)
{
	for (uint32_t i = 0; i < merge->count; i++) {
		if (i != index && strcmp(merge->sources[i].label, merge->sources[index].label) == 0)
			return true;
	}
	return false;
}

/*
 * Give each process the shortest unique label: name; then with pid; then with host; then with its place in the command
 * line.
 */
static void name_sources(struct reader_merge *merge)
{
	for (int detail = 0; detail < 4; detail++) {
		bool again[READER_MERGE_MAX];

		for (uint32_t i = 0; i < merge->count; i++)
			again[i] = detail == 0 || is_label_taken(merge, i);
		for (uint32_t i = 0; i < merge->count; i++) {
			const struct reader_info *info = &merge->sources[i].reader->info;
			char *label = merge->sources[i].label;

			if (!again[i])
				continue;
			if (detail == 0)
				snprintf(label, LABEL_BYTES, "%.63s", info->name[0] ? info->name : "?");
			else if (detail == 1)
				snprintf(label, LABEL_BYTES, "%.47s.%d", info->name, info->pid);
			else if (detail == 2)
				snprintf(label, LABEL_BYTES, "%.31s.%d@%.31s", info->name, info->pid, info->host);
			else
				snprintf(label, LABEL_BYTES, "%.31s.%d#%u", info->name, info->pid, i + 1);
			for (; *label; label++) {
				if (*label == ' ' || *label == '"' || *label == '\\' || (*label & 0x80))
					*label = '_';
			}
		}
	}
}

/* ---- public functions ---- */

int reader_merge_create(struct reader *const *readers, uint32_t count, struct reader_merge **merge_ret,
			struct fathom_fault *why)
{
	struct reader_merge *merge;
	int rc = 0;

	must(count > 0 && count <= READER_MERGE_MAX);
	for (uint32_t i = 0; i < count; i++) {
		const struct reader_info *info = reader_info(readers[i]);

		if (readers[i]->pair_count == 0)
			return fault(why, -ENODATA,
				     "%s has no time of day%s, so its events cannot be merged with those of other files: "
				     "read it alone",
				     info->path, info->spdk ? " (files of SPDK have it only while their target runs)" : "");
	}
	merge = calloc(1, sizeof(*merge) + count * sizeof(merge->sources[0]));
	if (!merge)
		return fault(why, -ENOMEM, "out of memory");
	merge->count = count;
	merge->start_ns = UINT64_MAX;
	for (uint32_t i = 0; i < count; i++)
		merge->sources[i].reader = readers[i];
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = readers[i]->all_pairs ? 0 : share_pairs(merge, i);
	if (rc) {
		reader_merge_destroy(merge);
		return fault(why, rc, "out of memory");
	}
	for (uint32_t i = 0; i < count; i++) {
		uint64_t start_ns = 0;

		must(reader_wall_ns(readers[i], readers[i]->info.start_tick, &start_ns) == 0);
		merge->start_ns = min_u64(merge->start_ns, start_ns);
	}
	name_sources(merge);
	*merge_ret = merge;
	return 0;
}

void reader_merge_destroy(struct reader_merge *merge)
{
	if (!merge)
		return;
	for (uint32_t i = 0; i < merge->count; i++) {
		struct source *source = &merge->sources[i];

		reader_events_free(source->events);
		source->reader->all_pairs = NULL;
		free(source->pairs);
	}
	free(merge);
}

static void advance_source(struct source *source)
{
	uint64_t wall_ns = 0;

	source->ready = reader_event_next(source->events, &source->event);
	if (!source->ready)
		return;
	must(reader_wall_ns(source->reader, source->event.tick, &wall_ns) == 0);
	/* a shared tick is older than the event, and the clock may have been set back */
	source->wall_ns = max_u64(source->wall_ns, wall_ns);
}

int reader_merge_begin(struct reader_merge *merge)
{
	for (uint32_t i = 0; i < merge->count; i++) {
		struct source *source = &merge->sources[i];
		int rc;

		must(!source->events);
		rc = reader_events(source->reader, &source->events);
		if (rc)
			return rc;
	}
	for (uint32_t i = 0; i < merge->count; i++)
		advance_source(&merge->sources[i]);
	return 0;
}

bool reader_merge_next(struct reader_merge *merge, uint32_t *index_ret, struct reader_event *event_ret)
{
	struct source *best = NULL;

	for (uint32_t i = 0; i < merge->count; i++) {
		struct source *source = &merge->sources[i];

		if (source->ready && (!best || source->wall_ns < best->wall_ns))
			best = source;
	}
	if (!best)
		return false;
	*index_ret = (uint32_t)(best - merge->sources);
	*event_ret = best->event;
	advance_source(best);
	return true;
}

void reader_merge_counts(const struct reader_merge *merge, uint32_t index, struct reader_counts *counts_ret)
{
	must(index < merge->count);
	reader_events_counts(merge->sources[index].events, counts_ret);
}

uint64_t reader_merge_start_ns(const struct reader_merge *merge)
{
	return merge->start_ns;
}

bool reader_merge_is_one_counter(const struct reader_merge *merge)
{
	for (uint32_t i = 1; i < merge->count; i++) {
		if (merge->sources[i].reader->all_pairs != merge->sources[0].reader->all_pairs)
			return false;
	}
	return true;
}

const char *reader_merge_label(const struct reader_merge *merge, uint32_t index)
{
	must(index < merge->count);
	return merge->sources[index].label;
}
