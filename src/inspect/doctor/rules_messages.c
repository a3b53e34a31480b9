/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules_messages - do threads send each other messages without a pause? No I/O needs one. Hosts that connect cause
 * messages of many functions; a storm is of one.
 */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum {
	RECORDS_PER_SECOND = 4000, /* of a thread: two of each message, when it is sent and when it is executed */
	SAMPLE_PERCENT = 30,	   /* of the records that were read: one function's messages, executed */
};

/* Records of the thread's rare ring when the doctor looked first. */
static int64_t records_before(const json_t *evidence, const char *name)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.threads_before"), i, row) {
		if (strcmp(doc_text_at(row, "name"), name) == 0)
			return doc_number(row, "rare", INT64_MAX);
	}
	return INT64_MAX;
}

static void judge_thread(const json_t *evidence, const json_t *traced, struct findings *list)
{
	const char *name = doc_text_at(traced, "name");
	const json_t *sample = json_object_get(doc_at(evidence, "trace.executed"), name);
	int64_t interval_ms = doc_number(evidence, "trace.interval_ms", 0), before = records_before(evidence, name);
	int64_t records = doc_number(sample, "records", 0), of_function = doc_number(sample, "of_function", 0), rate,
		messages;
	char option[TRACE_OPTION_BYTES];
	struct finding *it;

	if (interval_ms <= 0 || records <= 0 || doc_number(traced, "rare", 0) <= before)
		return;
	rate = (doc_number(traced, "rare", 0) - before) * 1000 / interval_ms;
	if (rate < RECORDS_PER_SECOND || of_function * 100 < SAMPLE_PERCENT * records)
		return;
	messages = (int64_t)((double)rate * (double)of_function / (double)records);
	it = find_message_storm(list, FINDING_LIKELY, name, (uint64_t)messages, doc_text_at(sample, "function"));
	finding_shows(it,
		      "%" PRId64 " records of rare events in %" PRId64 " ms; of the last %" PRId64 ", %" PRId64
		      " are of messages of %s",
		      doc_number(traced, "rare", 0) - before, interval_ms, records, of_function,
		      doc_text_at(sample, "function"));
	finding_see(it, "fathom trace -n thread_msg_executed%s", doc_trace_option(evidence, option, sizeof(option)));
	finding_see(it, "fathom top --tab threads");
}

void rules_messages(const json_t *evidence, struct findings *list)
{
	const json_t *traced;
	size_t i;

	if (!doc_is_running(evidence))
		return;
	json_array_foreach ((json_t *)doc_at(evidence, "trace.threads"), i, traced)
		judge_thread(evidence, traced, list);
}
