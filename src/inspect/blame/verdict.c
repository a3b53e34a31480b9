/* SPDX-License-Identifier: BSD-2-Clause */
/* verdict - sums up the slow requests: rows by cause, the main cause, and how sure that is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/blame/blame.h"

enum {
	ROW_PART = 10,		 /* a request is in a cause's row if the cause took 1 / ROW_PART of it */
	HIGH_WHOLE_PERCENT = 90, /* at least this part of the requests is whole */
	HIGH_UNKNOWN_PERCENT = 10,
	HIGH_COUNT_MIN = 3,
	LOW_WHOLE_PERCENT = 50,
	LOW_UNKNOWN_PERCENT = 40,
};

const char *blame_cause_key(enum blame_cause cause)
{
	static const char *const keys[BLAME_CAUSES] = { "disk", "host", "network", "queue", "cpu", "unknown" };

	return keys[cause];
}

const char *blame_confidence_word(enum blame_confidence confidence)
{
	static const char *const words[] = { "low", "medium", "high" };

	return words[confidence];
}

static int compare_ticks(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static uint64_t percentile(const uint64_t *sorted, uint32_t count, uint32_t percent)
{
	return count ? sorted[(uint64_t)(count - 1) * percent / 100] : 0;
}

static void fill_row(const struct blame_request *const *requests, uint32_t count, enum blame_cause cause, uint64_t *scratch,
		     struct blame_row *row)
{
	uint64_t longest = 0;

	*row = (struct blame_row){ .example = UINT32_MAX };
	for (uint32_t i = 0; i < count; i++) {
		uint64_t ticks = requests[i]->split.ticks[cause];

		row->ticks += ticks;
		row->main_count += requests[i]->cause == cause;
		if (ticks == 0 || ticks < requests[i]->split.whole / ROW_PART)
			continue;
		scratch[row->count++] = ticks;
		if (ticks > longest) {
			longest = ticks;
			row->example = i;
		}
	}
	qsort(scratch, row->count, sizeof(scratch[0]), compare_ticks);
	row->p50 = percentile(scratch, row->count, 50);
	row->p99 = percentile(scratch, row->count, 99);
	row->max = row->count ? scratch[row->count - 1] : 0;
}

/* Returns true if the reason was lowered to `confidence`. */
static void lower_to(struct blame_verdict *verdict, enum blame_confidence confidence, const char *reason)
{
	if (verdict->confidence <= confidence)
		return;
	verdict->confidence = confidence;
	snprintf(verdict->reason, sizeof(verdict->reason), "%s", reason);
}

/* The first row that is longest; UNKNOWN only if it has more than half. */
static enum blame_cause main_cause(const struct blame_verdict *verdict)
{
	enum blame_cause main = BLAME_DISK;

	for (enum blame_cause cause = BLAME_DISK; cause < BLAME_UNKNOWN; cause++) {
		if (verdict->rows[cause].ticks > verdict->rows[main].ticks)
			main = cause;
	}
	return verdict->rows[BLAME_UNKNOWN].ticks > verdict->whole / 2 ? BLAME_UNKNOWN : main;
}

static void judge(const struct blame_request *const *requests, uint32_t count, const struct blame_coverage *coverage,
		  struct blame_verdict *verdict)
{
	uint64_t unknown = verdict->whole ? verdict->rows[BLAME_UNKNOWN].ticks * 100 / verdict->whole : 0;
	uint64_t share = verdict->whole ? verdict->rows[verdict->cause].ticks * 100 / verdict->whole : 0;
	uint64_t whole_percent = count ? (uint64_t)verdict->whole_count * 100 / count : 0;
	uint64_t first = UINT64_MAX;
	char text[sizeof(verdict->reason)];

	for (uint32_t i = 0; i < count; i++)
		first = min_u64(first, requests[i]->exemplar->stories[0].begin_tick);
	verdict->confidence = BLAME_HIGH;
	snprintf(verdict->reason, sizeof(verdict->reason), "%u of %u requests are kept whole", verdict->whole_count, count);
	if (verdict->cause == BLAME_UNKNOWN || unknown > LOW_UNKNOWN_PERCENT) {
		snprintf(text, sizeof(text), "the file does not explain %u %% of the time", (unsigned int)unknown);
		lower_to(verdict, BLAME_LOW, text);
	}
	if (whole_percent < LOW_WHOLE_PERCENT) {
		snprintf(text, sizeof(text), "only %u of %u requests are kept whole", verdict->whole_count, count);
		lower_to(verdict, BLAME_LOW, text);
	}
	if (whole_percent < HIGH_WHOLE_PERCENT) {
		snprintf(text, sizeof(text), "%u of %u requests are kept whole", verdict->whole_count, count);
		lower_to(verdict, BLAME_MEDIUM, text);
	}
	if (unknown > HIGH_UNKNOWN_PERCENT) {
		snprintf(text, sizeof(text), "the file does not explain %u %% of the time", (unsigned int)unknown);
		lower_to(verdict, BLAME_MEDIUM, text);
	}
	if (share < 50)
		lower_to(verdict, BLAME_MEDIUM, "no cause has half of the time");
	if (count < HIGH_COUNT_MIN) {
		snprintf(text, sizeof(text), "there %s", count == 1 ? "is only one request" : "are only two requests");
		lower_to(verdict, BLAME_MEDIUM, text);
	}
	if (verdict->cause != BLAME_CPU && coverage->holds_from > first)
		lower_to(verdict, BLAME_MEDIUM,
			 "what held the reactors at the time of the oldest requests is no longer recorded");
	if (coverage->counted > 2 * coverage->found && coverage->counted > 2 * (uint64_t)count) {
		snprintf(text, sizeof(text), "%u of the %llu slow requests since the start are still in the file", count,
			 (unsigned long long)coverage->counted);
		lower_to(verdict, BLAME_MEDIUM, text);
	}
}

void blame_verdict(const struct blame_request *const *requests, uint32_t count, const struct blame_coverage *coverage,
		   struct blame_verdict *verdict_ret)
{
	uint64_t *scratch = calloc(count + 1, sizeof(*scratch));

	must(scratch);
	*verdict_ret = (struct blame_verdict){ 0 };
	for (uint32_t i = 0; i < count; i++) {
		verdict_ret->whole += requests[i]->split.whole;
		verdict_ret->whole_count += requests[i]->whole;
	}
	for (enum blame_cause cause = 0; cause < BLAME_CAUSES; cause++)
		fill_row(requests, count, cause, scratch, &verdict_ret->rows[cause]);
	verdict_ret->cause = main_cause(verdict_ret);
	if (count > 0)
		judge(requests, count, coverage, verdict_ret);
	free(scratch);
}
