/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules_past - is the engine slower, or less busy, than it was in the hour before? The past is that of the trace and, if
 * there is one, of a recording of it.
 *
 * An average over a minute says little if it is of few I/Os, and an I/O takes longer if a host sends more at a time.
 * So a finding needs many I/Os, a multiple of the former time, and more time than a busy machine explains; a slower device
 * that has more to do than before is a note.
 */
#include <string.h>

#include "base/bits.h"
#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum {
	IOS_MIN = 20,	      /* in the last minute and before it */
	GROWN_FACTOR = 4,     /* of the former time */
	GROWN_US = 5000,      /* and at least this much */
	CONTENDED_US = 20000, /* the same if the machine has more work than CPUs: a turn takes some milliseconds */
	NOTED_US = 1000,      /* for a note */
	MORE_FACTOR = 2,      /* more I/Os than before: they explain a longer time */
	RATE_MIN = 10,	      /* I/Os per second: below it, a pause is normal */
	DROPPED_FACTOR = 10,
	GROWN_STAGES_SHOWN = 3,
	TEXT_BYTES = 64,
};

/* The span that is compared: the first in which the figures differ. */
static const char *const spans[] = { "hour", "ten minutes", "day" };
static const int64_t span_minutes[] = { 60, 10, 24 * 60 };
static_assert(ARRAY_COUNT(span_minutes) == ARRAY_COUNT(spans), "each has its length");

/* The figures of a device or a stage in a span before the latest; NULL: not known. */
static const json_t *past_of(const json_t *evidence, const char *list, const char *name, const char *op, const char *span)
{
	static const char *const sources[] = { "trace.past", "recording.past" };

	for (size_t i = 0; i < ARRAY_COUNT(sources); i++) {
		const json_t *row = json_object_get(json_object_get(doc_at(evidence, sources[i]), list), name);
		const json_t *figures = json_object_get(op ? json_object_get(row, op) : row, span);

		if (doc_number(figures, "count", 0) >= IOS_MIN)
			return figures;
	}
	return NULL;
}

static double rate_of(const json_t *figures)
{
	double ms = doc_real(figures, "ms", 0);

	return ms > 0 ? doc_real(figures, "count", 0) * 1000 / ms : 0;
}

/* How a report names the past: the span, or the time of its notes if that is much less, as after a start of the engine. */
static const char *when_text(int64_t covered_ms, const char *span, char to[SHORT_TEXT_BYTES])
{
	int64_t sec = covered_ms / 1000;
	size_t i = 0;

	while (i + 1 < ARRAY_COUNT(spans) && strcmp(spans[i], span) != 0)
		i++;
	if (sec <= 0 || 2 * sec > span_minutes[i] * 60)
		snprintf(to, SHORT_TEXT_BYTES, "%s", span);
	else if (sec < 120)
		snprintf(to, SHORT_TEXT_BYTES, "%" PRId64 " s", sec);
	else if (sec < 120 * 60)
		snprintf(to, SHORT_TEXT_BYTES, "%" PRId64 " min", sec / 60);
	else
		snprintf(to, SHORT_TEXT_BYTES, "%" PRId64 " h", sec / 3600);
	return to;
}

/* ---- stages ---- */

struct growth {
	const char *stage;
	double us, past_us;
	int64_t past_ms; /* the time of the notes */
};

/* The stages whose time grew most, the most first. Returns their number. */
static size_t grown_stages(const json_t *evidence, const char *span, struct growth grown[GROWN_STAGES_SHOWN])
{
	const char *stage;
	const json_t *row;
	size_t count = 0;

	json_object_foreach ((json_t *)doc_at(evidence, "trace.past.stages"), stage, row) {
		const json_t *past = past_of(evidence, "stages", stage, NULL, span);
		struct growth growth = { stage, doc_real(row, "latest.us", 0), doc_real(past, "us", 0),
					 doc_number(past, "ms", 0) };
		size_t at;

		if (!past || doc_number(row, "latest.count", 0) < IOS_MIN || growth.us < 2 * growth.past_us ||
		    growth.us - growth.past_us < 100 || strstr(stage, " ALL") || strstr(stage, "WAIT_EVENT"))
			continue;
		for (at = count; at > 0 && growth.us - growth.past_us > grown[at - 1].us - grown[at - 1].past_us; at--) {
			if (at < GROWN_STAGES_SHOWN)
				grown[at] = grown[at - 1];
		}
		if (at < GROWN_STAGES_SHOWN)
			grown[at] = growth;
		count += count < GROWN_STAGES_SHOWN;
	}
	return count;
}

static void show_stages(const json_t *evidence, const char *span, struct finding *it)
{
	char now[SHORT_TEXT_BYTES], past[SHORT_TEXT_BYTES];
	struct growth grown[GROWN_STAGES_SHOWN];
	size_t count = grown_stages(evidence, span, grown);

	for (size_t i = 0; i < count; i++)
		finding_shows(it, "the stage %s grew: %s, before %s", grown[i].stage, doc_latency(grown[i].us, now),
			      doc_latency(grown[i].past_us, past));
}

/* ---- devices ---- */

static bool is_contended(const struct findings *list)
{
	return findings_have(list, FINDING_CPU_CONTENDED) || findings_have(list, FINDING_REACTOR_CPU_SHARED) ||
	       findings_have(list, FINDING_CGROUP_THROTTLED) || findings_have(list, FINDING_CPU_STOLEN);
}

static void grown_finding(const json_t *evidence, const char *device, const char *op, const char *span,
			  struct findings *list)
{
	const json_t *latest =
		json_object_get(json_object_get(json_object_get(doc_at(evidence, "trace.past.devices"), device), op),
				"latest");
	const json_t *past = past_of(evidence, "devices", device, op, span);
	double us = doc_real(latest, "us", 0), past_us = doc_real(past, "us", 0);
	bool has_more = rate_of(latest) > MORE_FACTOR * rate_of(past);
	char now_text[SHORT_TEXT_BYTES], past_text[SHORT_TEXT_BYTES], when[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	struct finding *it;

	when_text(doc_number(past, "ms", 0), span, when);
	doc_latency(us, now_text);
	doc_latency(past_us, past_text);
	if (!has_more && us - past_us >= (is_contended(list) ? CONTENDED_US : GROWN_US) && !doc_is_memory(evidence, device))
		it = find_latency_grew(list, FINDING_LIKELY, device, op, now_text, past_text, when);
	else
		it = find_latency_changed(list, FINDING_POSSIBLE, device, op, now_text, past_text, when);
	finding_shows(it,
		      "%" PRId64 " %s at %.0f a second in the last minute, %" PRId64 " at %.0f a second in the %s before",
		      doc_number(latest, "count", 0), op, rate_of(latest), doc_number(past, "count", 0), rate_of(past),
		      when);
	show_stages(evidence, span, it);
	doc_trace_option(evidence, option, sizeof(option));
	finding_see(it, "fathom blame %s%s", device, option);
	finding_see(it, "fathom trace -n history_device%s", option);
}

/* The first span in which the device was much faster; NULL: none. */
static const char *faster_span(const json_t *evidence, const char *device, const char *op, double us)
{
	for (size_t i = 0; i < ARRAY_COUNT(spans); i++) {
		const json_t *past = past_of(evidence, "devices", device, op, spans[i]);
		double past_us = doc_real(past, "us", 0);

		if (past && us >= GROWN_FACTOR * past_us && us - past_us >= NOTED_US)
			return spans[i];
	}
	return NULL;
}

/* I/Os of the device that ended while the doctor looked; -1: not known. */
static int64_t progress_of(const json_t *evidence, const char *device)
{
	int64_t sums[2] = { -1, -1 };
	const json_t *row;
	size_t i;

	for (int look = 0; look < 2; look++) {
		json_array_foreach ((json_t *)doc_at(evidence,
						     look ? "answers.iostat.bdevs" : "answers.iostat_before.bdevs"),
				    i, row) {
			if (strcmp(doc_text_at(row, "name"), device) == 0)
				sums[look] = doc_number(row, "num_read_ops", 0) + doc_number(row, "num_write_ops", 0);
		}
	}
	return sums[0] >= 0 && sums[1] >= sums[0] ? sums[1] - sums[0] : -1;
}

/* Reads and writes together. */
static double rate_in(const json_t *evidence, const char *device, const char *span)
{
	return rate_of(past_of(evidence, "devices", device, "reads", span)) +
	       rate_of(past_of(evidence, "devices", device, "writes", span));
}

/* The time of the notes of reads and writes. */
static int64_t covered_ms(const json_t *evidence, const char *device, const char *span)
{
	int64_t reads_ms = doc_number(past_of(evidence, "devices", device, "reads", span), "ms", 0);
	int64_t writes_ms = doc_number(past_of(evidence, "devices", device, "writes", span), "ms", 0);

	return reads_ms > writes_ms ? reads_ms : writes_ms;
}

static void judge_rate(const json_t *evidence, const char *device, struct findings *list)
{
	int64_t ended = progress_of(evidence, device);
	double interval_sec = DOCTOR_LOOK_MS / 1000.0, rate = (double)ended / interval_sec;
	char now[TEXT_BYTES], past[TEXT_BYTES], when[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];

	for (size_t i = 0; ended >= 0 && i < ARRAY_COUNT(spans); i++) {
		double before = rate_in(evidence, device, spans[i]);
		struct finding *it;

		if (before < RATE_MIN || rate * DROPPED_FACTOR > before)
			continue;
		snprintf(past, sizeof(past), "%.0f a second on average", before);
		if (ended == 0)
			snprintf(now, sizeof(now), "no I/O");
		else
			snprintf(now, sizeof(now), "%.0f I/Os a second", rate);
		it = find_rate_dropped(list, FINDING_CERTAIN, device, now, past,
				       when_text(covered_ms(evidence, device, spans[i]), spans[i], when));
		finding_shows(it, "%" PRId64 " I/Os ended while the doctor looked, in %d ms", ended, DOCTOR_LOOK_MS);
		finding_see(it, "fathom trace -n history_device%s", doc_trace_option(evidence, option, sizeof(option)));
		finding_see(it, "fathom top --tab volumes");
		return;
	}
}

/* ---- all of them ---- */

static void judge_device(const json_t *evidence, const char *device, const json_t *row, struct findings *list)
{
	static const char *const ops[] = { "reads", "writes" };
	const char *span;

	for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
		const json_t *latest = json_object_get(json_object_get(row, ops[i]), "latest");

		if (doc_number(latest, "count", 0) < IOS_MIN)
			continue;
		span = faster_span(evidence, device, ops[i], doc_real(latest, "us", 0));
		if (span)
			grown_finding(evidence, device, ops[i], span, list);
	}
	judge_rate(evidence, device, list);
}

/* Only if no device explains it. */
static void judge_stages(const json_t *evidence, struct findings *list)
{
	char now[SHORT_TEXT_BYTES], past[SHORT_TEXT_BYTES], when[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	struct growth grown[GROWN_STAGES_SHOWN];

	if (findings_have(list, FINDING_LATENCY_GREW) || findings_have(list, FINDING_LATENCY_CHANGED))
		return;
	for (size_t i = 0; i < ARRAY_COUNT(spans); i++) {
		if (grown_stages(evidence, spans[i], grown) == 0 || grown[0].us < GROWN_FACTOR * grown[0].past_us ||
		    grown[0].us - grown[0].past_us < NOTED_US)
			continue;
		finding_see(find_stage_grew(list, FINDING_POSSIBLE, grown[0].stage, doc_latency(grown[0].us, now),
					    doc_latency(grown[0].past_us, past),
					    when_text(grown[0].past_ms, spans[i], when)),
			    "fathom trace stages%s", doc_trace_option(evidence, option, sizeof(option)));
		return;
	}
}

void rules_past(const json_t *evidence, struct findings *list)
{
	const char *device;
	const json_t *row;

	json_object_foreach ((json_t *)doc_at(evidence, "trace.past.devices"), device, row)
		judge_device(evidence, device, row, list);
	judge_stages(evidence, list);
}
