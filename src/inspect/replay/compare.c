/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/replay/compare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

enum { SENTENCE_PER_10000 = 9900 };

/* Ratios between these count as equal: the histograms are exact within 1 %, and runs differ by more. */
static const double equal_from = 0.9, equal_to = 1.1;

struct comparison *comparison_create(uint32_t queue_count)
{
	struct comparison *comparison = calloc(1, sizeof(*comparison));

	if (!comparison)
		return NULL;
	comparison->queue_count = queue_count;
	comparison->queues = calloc(queue_count + 1, sizeof(struct comparison_pair *));
	if (!comparison->queues) {
		free(comparison);
		return NULL;
	}
	return comparison;
}

void comparison_destroy(struct comparison *comparison)
{
	if (!comparison)
		return;
	for (uint32_t i = 0; i < comparison->queue_count; i++)
		free(comparison->queues[i]);
	free(comparison->queues);
	free(comparison);
}

/* The pair of a queue, made when it is new. NULL: out of memory. */
static struct comparison_pair *queue_pair(struct comparison *comparison, uint32_t queue)
{
	must(queue < comparison->queue_count);
	if (!comparison->queues[queue])
		comparison->queues[queue] = calloc(1, sizeof(struct comparison_pair));
	return comparison->queues[queue];
}

static int64_t difference(const struct comparison_worst *worst)
{
	return (int64_t)(worst->replayed_ns - worst->operation.latency_ns);
}

/* The entry for the stall that delayed this operation; NULL: none. */
static struct comparison_worst *find_stall(struct comparison *comparison, uint64_t end_ns)
{
	for (uint32_t i = 0; i < comparison->worst_count; i++) {
		uint64_t other_ns = comparison->worst[i].end_ns;

		if ((end_ns > other_ns ? end_ns - other_ns : other_ns - end_ns) < COMPARISON_STALL_NS)
			return &comparison->worst[i];
	}
	return NULL;
}

static void add_worst(struct comparison *comparison, const struct comparison_worst *worst)
{
	struct comparison_worst *least = find_stall(comparison, worst->end_ns);
	uint64_t others;

	if (least) {
		others = least->others + worst->others + 1;
		if (difference(worst) > difference(least))
			*least = *worst;
		least->others = others;
		return;
	}
	if (comparison->worst_count < COMPARISON_WORST_MAX) {
		comparison->worst[comparison->worst_count++] = *worst;
		return;
	}
	least = &comparison->worst[0];
	for (uint32_t i = 1; i < COMPARISON_WORST_MAX; i++) {
		if (difference(&comparison->worst[i]) < difference(least))
			least = &comparison->worst[i];
	}
	if (difference(worst) > difference(least))
		*least = *worst;
}

static void add_latencies(struct comparison_pair *pair, const struct replay_operation *operation, uint64_t replayed_ns)
{
	histogram_add(&pair->recorded, operation->latency_ns);
	histogram_add(&pair->replayed, replayed_ns);
	if (!operation->device_known)
		return;
	pair->known_count++;
	pair->known_device_ns += operation->device_ns;
	pair->known_recorded_ns += operation->latency_ns;
	pair->known_replayed_ns += replayed_ns;
}

int comparison_add(struct comparison *comparison, const struct comparison_result *result)
{
	const struct replay_operation *operation = result->operation;
	struct comparison_worst worst = { .operation = *operation,
					  .number = result->number,
					  .replayed_ns = result->replayed_ns,
					  .end_ns = result->end_ns };
	struct comparison_pair *queue;

	comparison->failed_in_recording += operation->failed;
	comparison->failed_in_replay += result->failed;
	comparison->failed_in_both += operation->failed && result->failed;
	if (operation->failed || result->failed)
		return 0;
	if (operation->latency_ns == REPLAY_NO_LATENCY) {
		comparison->unknown++;
		return 0;
	}
	queue = queue_pair(comparison, operation->queue);
	if (!queue)
		return -ENOMEM;
	add_latencies(&comparison->kinds[operation->kind], operation, result->replayed_ns);
	add_latencies(queue, operation, result->replayed_ns);
	if (result->replayed_ns > operation->latency_ns)
		add_worst(comparison, &worst);
	return 0;
}

static void merge_pair(struct comparison_pair *to, const struct comparison_pair *from)
{
	histogram_merge(&to->recorded, &from->recorded);
	histogram_merge(&to->replayed, &from->replayed);
	to->known_count += from->known_count;
	to->known_device_ns += from->known_device_ns;
	to->known_recorded_ns += from->known_recorded_ns;
	to->known_replayed_ns += from->known_replayed_ns;
}

int comparison_merge(struct comparison *to, const struct comparison *from)
{
	must(to->queue_count == from->queue_count);
	for (uint32_t i = 0; i < from->queue_count; i++) {
		if (!from->queues[i])
			continue;
		if (!queue_pair(to, i))
			return -ENOMEM;
		merge_pair(to->queues[i], from->queues[i]);
	}
	for (unsigned int kind = 0; kind < REPLAY_KINDS; kind++)
		merge_pair(&to->kinds[kind], &from->kinds[kind]);
	to->failed_in_recording += from->failed_in_recording;
	to->failed_in_replay += from->failed_in_replay;
	to->failed_in_both += from->failed_in_both;
	to->unknown += from->unknown;
	for (uint32_t i = 0; i < from->worst_count; i++)
		add_worst(to, &from->worst[i]);
	return 0;
}

static int compare_worst(const void *left, const void *right)
{
	int64_t a = difference(left), b = difference(right);

	return a > b ? -1 : a < b;
}

void comparison_sort(struct comparison *comparison)
{
	qsort(comparison->worst, comparison->worst_count, sizeof(comparison->worst[0]), compare_worst);
}

/* ---- what it means ---- */

/* The replay's percentile without the round trip, which no operation can be quicker than. */
static uint64_t own_ns(const struct comparison_pair *pair, uint32_t per_10000, uint64_t round_trip_ns)
{
	uint64_t ns = histogram_percentile(&pair->replayed, per_10000);

	return ns > round_trip_ns ? ns - round_trip_ns : 0;
}

double comparison_ratio(const struct comparison_pair *pair, uint32_t per_10000, uint64_t round_trip_ns)
{
	uint64_t recorded_ns = histogram_percentile(&pair->recorded, per_10000);

	if (pair->recorded.count == 0 || recorded_ns == 0)
		return 0;
	return (double)own_ns(pair, per_10000, round_trip_ns) / (double)recorded_ns;
}

const char *comparison_sentence(const struct comparison *comparison, unsigned int kind, uint64_t round_trip_ns,
				char text[COMPARISON_SENTENCE_BYTES])
{
	const struct comparison_pair *pair = &comparison->kinds[kind];
	double ratio = comparison_ratio(pair, SENTENCE_PER_10000, round_trip_ns);
	uint64_t recorded_us = histogram_percentile(&pair->recorded, SENTENCE_PER_10000) / NS_PER_US;
	uint64_t own_us = own_ns(pair, SENTENCE_PER_10000, round_trip_ns) / NS_PER_US;
	char how[64];

	if (pair->recorded.count == 0) {
		snprintf(text, COMPARISON_SENTENCE_BYTES, "no %s ended in both", replay_kind_plural(kind));
		return text;
	}
	if (ratio > equal_to)
		snprintf(how, sizeof(how), "%.1f times as long as", ratio);
	else if (ratio < equal_from)
		snprintf(how, sizeof(how), "%.2f of the time", ratio);
	else
		snprintf(how, sizeof(how), "as long as");
	snprintf(text, COMPARISON_SENTENCE_BYTES, "%s took %s in the recording: p99 %" PRIu64 " us, was %" PRIu64 " us",
		 replay_kind_plural(kind), how, own_us, recorded_us);
	return text;
}

/* ---- where the difference is ---- */

struct comparison_difference comparison_find_difference(const struct comparison_pair *pair, uint64_t round_trip_ns)
{
	struct comparison_difference found = { 0 };
	double difference, elsewhere_ns;

	if (pair->known_count == 0)
		return found;
	found.recorded_ns = pair->known_recorded_ns / pair->known_count;
	found.device_ns = min_u64(pair->known_device_ns / pair->known_count, found.recorded_ns);
	found.replayed_ns = pair->known_replayed_ns / pair->known_count;
	found.replayed_ns -= min_u64(round_trip_ns, found.replayed_ns);
	if ((double)found.replayed_ns > equal_to * (double)found.recorded_ns) {
		found.where = COMPARISON_SLOWER;
		return found;
	}
	if ((double)found.replayed_ns >= equal_from * (double)found.recorded_ns) {
		found.where = COMPARISON_EQUAL;
		return found;
	}
	difference = (double)(found.recorded_ns - found.replayed_ns);
	elsewhere_ns = (double)(found.recorded_ns - found.device_ns);
	found.where = COMPARISON_UNCLEAR;
	if (difference - elsewhere_ns > difference / 2) {
		found.where = COMPARISON_DEVICE;
		found.least = (difference - elsewhere_ns) / difference;
	} else if (difference - (double)found.device_ns > difference / 2) {
		found.where = COMPARISON_ELSEWHERE;
		found.least = (difference - (double)found.device_ns) / difference;
	}
	return found;
}

const char *comparison_where_key(enum comparison_where where)
{
	switch (where) {
	case COMPARISON_DEVICE:
		return "device";
	case COMPARISON_ELSEWHERE:
		return "elsewhere";
	case COMPARISON_UNCLEAR:
		return "unclear";
	case COMPARISON_NOT_KNOWN:
	case COMPARISON_EQUAL:
	case COMPARISON_SLOWER:
		break;
	}
	return NULL;
}

const char *comparison_difference_sentence(const struct comparison *comparison, unsigned int kind, uint64_t round_trip_ns,
					   char text[COMPARISON_SENTENCE_BYTES])
{
	struct comparison_difference found = comparison_find_difference(&comparison->kinds[kind], round_trip_ns);
	char lead[96];

	if (!comparison_where_key(found.where))
		return NULL;
	if (found.where == COMPARISON_DEVICE)
		snprintf(lead, sizeof(lead), "at least %d %% of the difference is the device of the recording",
			 (int)(100 * found.least));
	else if (found.where == COMPARISON_ELSEWHERE)
		snprintf(lead, sizeof(lead), "at least %d %% of the difference is not the device of the recording",
			 (int)(100 * found.least));
	else
		snprintf(lead, sizeof(lead), "the difference may be the device of the recording or the rest of it");
	snprintf(text, COMPARISON_SENTENCE_BYTES,
		 "%s: %s took %.0f us on average, %.0f us of them at the device; the replay took %.0f us", lead,
		 replay_kind_plural(kind), (double)found.recorded_ns / NS_PER_US, (double)found.device_ns / NS_PER_US,
		 (double)found.replayed_ns / NS_PER_US);
	return text;
}
