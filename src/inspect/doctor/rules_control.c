/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_control - the clock, certificates, and the engine as a member of its system. */
#include <stdlib.h>
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum {
	CLOCK_OFF_MS = 2000,
	EVENTS_WAITING_MIN = 1,
	DAY_S = 86400,
	EXPIRES_DAYS = 30,
	CALL_MS = 12000 /* removals of namespaces drain for 10 s */
};

static void clock_finding(const json_t *evidence, struct findings *list, int64_t by_ms, int64_t ago_ms)
{
	char by[SHORT_TEXT_BYTES + 2], ago[SHORT_TEXT_BYTES], text[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	struct finding *it;

	snprintf(by, sizeof(by), "%s%s", by_ms < 0 ? "-" : "+", doc_duration((uint64_t)llabs(by_ms), text));
	it = find_clock_stepped(list, FINDING_CERTAIN, by, doc_duration((uint64_t)ago_ms, ago));
	finding_shows(it, "the wall clock against the time stamp counter, in the trace file");
	finding_see(it, "fathom trace summary%s", doc_trace_option(evidence, option, sizeof(option)));
}

static void judge_clock(const json_t *evidence, struct findings *list)
{
	int64_t off_ms = doc_number(evidence, "trace.clock_off_ms", 0);
	const json_t *step;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.clock_steps"), i, step) {
		if (doc_number(step, "ago_ms", 0) < 6 * RECENT_MS)
			clock_finding(evidence, list, doc_number(step, "by_ms", 0), doc_number(step, "ago_ms", 0));
	}
	if (llabs(off_ms) >= CLOCK_OFF_MS)
		clock_finding(evidence, list, off_ms, 0);
}

/* rules_server.c judges it. */
static bool is_of_server(const json_t *evidence, const char *path)
{
	const json_t *own;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "server.own_certificates"), i, own) {
		if (json_is_string(own) && strcmp(json_string_value(own), path) == 0)
			return true;
	}
	return false;
}

static void judge_certificates(const json_t *evidence, struct findings *list)
{
	const json_t *certificate;
	const char *path;

	json_object_foreach ((json_t *)doc_at(evidence, "certificates"), path, certificate) {
		int64_t left_s = doc_number(certificate, "left_s", INT64_MAX);
		char text[SHORT_TEXT_BYTES];
		struct finding *it = NULL;

		if (!json_is_object(certificate) || (left_s <= 0 && is_of_server(evidence, path)))
			continue;
		if (left_s <= 0)
			it = find_certificate_expired(list, FINDING_CERTAIN, path,
						      doc_duration((uint64_t)-left_s * 1000, text));
		else if (left_s < EXPIRES_DAYS * DAY_S)
			it = find_certificate_expiring(list, FINDING_CERTAIN, path,
						       doc_duration((uint64_t)left_s * 1000, text));
		if (it)
			finding_see(it, "openssl x509 -noout -subject -dates -in %s", path);
	}
}

static void judge_member(const json_t *evidence, struct findings *list)
{
	const json_t *control = doc_at(evidence, "answers.control");
	const char *state = doc_text_at(control, "state");

	const char *file_state = doc_text_at(control, "state_file.state");

	if (strcmp(file_state, "HELD") == 0 || strcmp(file_state, "UNSAVED") == 0)
		finding_see(find_configuration_unsaved(list, FINDING_CERTAIN, doc_text_at(control, "state_file.path"),
						       doc_text_at(control, "state_file.reason")[0]
							       ? doc_text_at(control, "state_file.reason")
							       : "the last write failed"),
			    "fathom rpc framework_get_control");
	if (json_object_get(control, "instance") && strcmp(state, "SERVING") != 0)
		finding_see(find_rank_not_joined(list, FINDING_CERTAIN, state), "fathom rpc framework_get_control");
	if (doc_number(control, "events.waiting", 0) >= EVENTS_WAITING_MIN &&
	    doc_number(control, "events.waiting_ms", 0) > RECENT_MS)
		finding_see(find_events_waiting(list, FINDING_LIKELY, (uint64_t)doc_number(control, "events.waiting", 0)),
			    "fathom rpc framework_get_control");
}

/* The oldest call of an operator that does not end. */
static void judge_calls(const json_t *evidence, struct findings *list)
{
	const json_t *row, *oldest = NULL;
	char since[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	struct finding *it;
	int64_t count = 0;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.calls"), i, row) {
		if (doc_number(row, "ago_ms", 0) < CALL_MS)
			continue;
		count++;
		if (doc_number(row, "ago_ms", 0) > doc_number(oldest, "ago_ms", 0))
			oldest = row;
	}
	/* not if its cause is known: a file system or a thread that hangs */
	if (!oldest || findings_have(list, FINDING_FILE_SYSTEM_HANGS) || findings_have(list, FINDING_CONTROL_BLOCKED) ||
	    findings_have(list, FINDING_REACTOR_BLOCKED) || findings_have(list, FINDING_REACTOR_RUNAWAY))
		return;
	doc_duration((uint64_t)doc_number(oldest, "ago_ms", 0), since);
	it = find_call_hangs(list, FINDING_LIKELY, doc_text_at(oldest, "method"), since);
	finding_shows(it, "%" PRId64 " calls of the control socket have no reply after %d s", count, CALL_MS / 1000);
	finding_see(it, "fathom trace -n rpc_request_received%s", doc_trace_option(evidence, option, sizeof(option)));
	finding_see(it, "grep -H . /proc/%" PRId64 "/task/*/wchan", doc_engine_pid(evidence));
}

void rules_control(const json_t *evidence, struct findings *list)
{
	judge_clock(evidence, list);
	judge_certificates(evidence, list);
	if (!doc_is_running(evidence))
		return;
	judge_member(evidence, list);
	judge_calls(evidence, list);
}
