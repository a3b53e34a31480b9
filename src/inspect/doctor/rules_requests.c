/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_requests - commands of hosts that wait or fail, and turns of reactors that took long: symptoms, mostly. */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum { SLOW_TURN_US = 500000, SLOW_TURNS_MIN = 3, MINUTE_MS = 60000, FAILURES_MIN = 10 };

/* Stages that other rules explain. */
static bool is_of_host(const char *stage)
{
	return strcmp(stage, "SENDING") == 0 || strcmp(stage, "TRANSFER_IN") == 0 || strcmp(stage, "PARKED") == 0;
}

void doc_show_records(const json_t *group, struct finding *it)
{
	const json_t *records = doc_at(group, "records"), *line;
	size_t i;

	if (json_array_size(records))
		finding_shows(it, "its last records, from `fathom trace io`:");
	json_array_foreach ((json_t *)records, i, line)
		finding_shows(it, "  %s", json_string_value(line));
}

/*
 * Requests that are being executed for long, and that no device has: the engine lost them. One that was answered and is not
 * sent, either.
 */
static void judge_leaked(const json_t *evidence, struct findings *list)
{
	char text[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	const json_t *group;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.under_way"), i, group) {
		const char *stage = doc_text_at(group, "stage"), *oldest = doc_text_at(group, "oldest");
		uint64_t count = (uint64_t)doc_number(group, "without_io", 0);
		struct finding *it;

		if (count == 0 || strcmp(doc_text_at(group, "object"), "nvmf_req") != 0 ||
		    (strcmp(stage, "EXECUTING") != 0 && strcmp(stage, "COMPLETED") != 0))
			continue;
		it = find_request_leaked(list, FINDING_LIKELY, count, stage,
					 doc_duration((uint64_t)doc_number(group, "stage_ms", 0), text));
		finding_shows(it,
			      "the oldest is %s of [%s]; of %" PRId64 " commands in this stage %" PRIu64
			      " have no I/O under way",
			      oldest, doc_text_at(group, "owner"), doc_number(group, "count", 0), count);
		doc_show_records(group, it);
		doc_trace_option(evidence, option, sizeof(option));
		finding_see(it, "fathom trace stuck%s", option);
		finding_see(it, "fathom trace io %s%s", oldest, option);
	}
}

static void judge_waiting(const json_t *evidence, struct findings *list)
{
	const json_t *group, *oldest = NULL;
	char text[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	uint64_t hung = 0;
	struct finding *it;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.under_way"), i, group) {
		if (strcmp(doc_text_at(group, "object"), "nvmf_req") != 0 || doc_is(group, "resting") ||
		    doc_number(group, "hung", 0) == 0 || is_of_host(doc_text_at(group, "stage")))
			continue;
		hung += (uint64_t)doc_number(group, "hung", 0);
		if (doc_number(group, "stage_ms", 0) > doc_number(oldest, "stage_ms", -1))
			oldest = group;
	}
	if (!oldest)
		return;
	doc_duration((uint64_t)doc_number(oldest, "stage_ms", 0), text);
	it = find_requests_waiting(list, FINDING_CERTAIN, doc_text_at(oldest, "stage"), hung, text);
	finding_shows(it, "the oldest is %s of [%s]", doc_text_at(oldest, "oldest"), doc_text_at(oldest, "owner"));
	if (!findings_have(list, FINDING_DEVICE_HUNG) && !findings_have(list, FINDING_COMMAND_LOST) &&
	    !findings_have(list, FINDING_REQUEST_LEAKED))
		doc_show_records(oldest, it); /* else the cause shows them */
	doc_trace_option(evidence, option, sizeof(option));
	finding_see(it, "fathom trace stuck%s", option);
	finding_see(it, "fathom trace io %s%s", doc_text_at(oldest, "oldest"), option);
}

/* Failed requests that no device failed. */
static void judge_failing(const json_t *evidence, struct findings *list)
{
	char option[TRACE_OPTION_BYTES];
	const json_t *row, *newest = NULL;
	struct doc_signs signs = { 0 };
	struct finding *it;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.kept"), i, row) {
		if (!doc_is(row, "failed") || !doc_text_at(row, "device")[0])
			continue;
		doc_sign(&signs, doc_number(row, "ago_ms", 0));
		if (!newest || doc_number(row, "ago_ms", 0) < doc_number(newest, "ago_ms", 0))
			newest = row;
	}
	if (signs.count < FAILURES_MIN)
		return;
	it = find_requests_fail(list, FINDING_LIKELY, signs.count,
				doc_text_at(newest, "status")[0] ? doc_text_at(newest, "status") : "of different kinds");
	doc_end_by_signs(it, &signs);
	finding_shows(it, "the latest is %s at %s of [%s]", doc_text_at(newest, "id"), doc_text_at(newest, "device"),
		      doc_text_at(newest, "owner"));
	finding_see(it, "fathom trace slowest --failed%s", doc_trace_option(evidence, option, sizeof(option)));
}

/* Turns that took long, unless the reactor had no CPU. */
static void judge_turns(const json_t *evidence, struct findings *list)
{
	char option[TRACE_OPTION_BYTES], text[SHORT_TEXT_BYTES];
	const json_t *event, *longest = NULL;
	struct doc_signs signs = { 0 };
	struct finding *it;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.events.poller_slow.last"), i, event) {
		if (doc_number(event, "ago_ms", 0) >= MINUTE_MS || doc_real(event, "args.ran", 0) < SLOW_TURN_US)
			continue;
		doc_sign(&signs, doc_number(event, "ago_ms", 0));
		if (doc_real(event, "args.ran", 0) > doc_real(longest, "args.ran", 0))
			longest = event;
	}
	/* a server waits for the disk on its control thread, and serves no hosts */
	if (signs.count < SLOW_TURNS_MIN || doc_at(evidence, "server") || findings_have(list, FINDING_CPU_CONTENDED))
		return;
	it = find_reactor_slow(list, FINDING_LIKELY, doc_text_at(longest, "args.name"), signs.count,
			       doc_latency(doc_real(longest, "args.ran", 0), text));
	doc_end_by_signs(it, &signs);
	finding_see(it, "fathom trace -n poller_slow%s", doc_trace_option(evidence, option, sizeof(option)));
}

void rules_requests(const json_t *evidence, struct findings *list)
{
	if (!doc_is_running(evidence))
		return;
	judge_leaked(evidence, list);
	judge_waiting(evidence, list);
	judge_failing(evidence, list);
	judge_turns(evidence, list);
}
