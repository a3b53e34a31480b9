/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_process - is the process dead, stopped, frozen or held? */
#include <signal.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum { SOURCE_BYTES = 64 };
enum { KILL_S = 5 }; /* between the last sign of life and the line in the kernel's log */

static const char *signal_name(int64_t number)
{
	static const char *const names[] = {
		[SIGQUIT] = "SIGQUIT", [SIGILL] = "SIGILL",   [SIGABRT] = "SIGABRT", [SIGBUS] = "SIGBUS",
		[SIGFPE] = "SIGFPE",   [SIGSEGV] = "SIGSEGV", [SIGSYS] = "SIGSYS",   [SIGTRAP] = "SIGTRAP"
	};

	return number > 0 && (size_t)number < ARRAY_COUNT(names) && names[number] ? names[number] : "a signal";
}

/* What the thread that crashed was doing. */
static void show_running(const json_t *thread, struct finding *it)
{
	const char *name = doc_text_at(thread, "name"), *running = doc_text_at(thread, "running"),
		   *of = doc_text_at(thread, "of");

	if (running[0])
		finding_shows(it, "thread %s ran %s%s%s", name, running, of[0] ? " of " : "", of);
	else
		finding_shows(it, "thread %s ran no poller and no message%s%s", name, of[0] ? " of " : "", of);
}

/* What a dead process was doing. */
static void show_end(const json_t *evidence, struct finding *it)
{
	char option[TRACE_OPTION_BYTES], text[SHORT_TEXT_BYTES];
	int64_t last = doc_number(evidence, "trace.last_sign_s", 0);
	const json_t *group;
	size_t i;

	if (!doc_at(evidence, "core"))
		finding_shows(it, "its trace file is %s", doc_text_at(evidence, "trace.path"));
	json_array_foreach ((json_t *)doc_at(evidence, "trace.threads"), i, group) {
		if (doc_number(group, "tid", 0) == doc_number(evidence, "trace.frozen.tid", -1))
			show_running(group, it);
	}
	if (last)
		finding_shows(it, "last sign of life at %s", doc_time(last, text));
	json_array_foreach ((json_t *)doc_at(evidence, "trace.under_way"), i, group) {
		if (i < 8 && !doc_is(group, "resting"))
			finding_shows(it, "%" PRId64 " %s were in %s [%s]", doc_number(group, "count", 0),
				      doc_text_at(group, "object"), doc_text_at(group, "stage"),
				      doc_text_at(group, "owner"));
	}
	doc_trace_option(evidence, option, sizeof(option));
	finding_see(it, "fathom trace stuck%s", option);
	finding_see(it, "fathom trace -n 100%s", option);
	if (doc_text_at(evidence, "trace.report")[0])
		finding_see(it, "cat %s", doc_text_at(evidence, "trace.report"));
	if (doc_text_at(evidence, "process.core")[0])
		finding_see(it, "fathom core %s", doc_text_at(evidence, "process.core"));
}

/*
 * The line of the kernel's log about the end of this process; NULL: none. In a container its number there is another one:
 * then the time must be that of the last sign of life.
 */
static const json_t *kill_for_memory(const json_t *evidence, int64_t pid, enum finding_certainty *sure_ret)
{
	int64_t last_s = doc_number(evidence, "trace.last_sign_s", 0);
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "machine.kills"), i, row) {
		int64_t after_s = doc_number(row, "at_s", 0) - last_s;
		bool is_near = after_s >= -KILL_S && after_s <= KILL_S;

		if (!is_near || (doc_number(row, "pid", 0) != pid &&
				 strncmp(doc_text_at(row, "name"), "fathom", strlen("fathom")) != 0))
			continue;
		*sure_ret = doc_number(row, "pid", 0) == pid ? FINDING_CERTAIN : FINDING_LIKELY;
		return row;
	}
	return NULL;
}

/* The functions that called the one of the crash. */
static void show_callers(const json_t *evidence, struct finding *it)
{
	const json_t *frame;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.crash.backtrace"), i, frame) {
		if (i > 0)
			finding_shows(it, "called from %s", json_string_value(frame));
	}
}

/* Where the thread was, and who raised the signal. The kernel gives an address only with these signals. */
static void show_signal(const json_t *evidence, struct finding *it)
{
	int64_t code = doc_number(evidence, "trace.frozen.code", SI_KERNEL),
		number = doc_number(evidence, "trace.frozen.signal", 0),
		sender = doc_number(evidence, "trace.crash.sender", 0);
	bool has_address = code > 0 && code != SI_KERNEL &&
			   (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL);
	char source[SOURCE_BYTES] = "";

	if (has_address)
		snprintf(source, sizeof(source), ", address 0x%" PRIx64,
			 (uint64_t)doc_number(evidence, "trace.frozen.address", 0));
	else if (code <= 0 && sender > 0 && sender == doc_number(evidence, "trace.pid", 0))
		snprintf(source, sizeof(source), ", sent by the process itself");
	else if (code <= 0 && sender > 0)
		snprintf(source, sizeof(source), ", sent by process %" PRId64, sender);
	else if (code <= 0)
		snprintf(source, sizeof(source), ", sent by a process");
	finding_shows(it, "thread %" PRId64 ", at offset 0x%" PRIx64 " of the file%s",
		      doc_number(evidence, "trace.frozen.tid", 0), (uint64_t)doc_number(evidence, "trace.frozen.offset", 0),
		      source);
}

static void judge_end(const json_t *evidence, struct findings *list)
{
	const char *name = doc_engine_name(evidence), *why = doc_text_at(evidence, "trace.frozen.why"),
		   *state = doc_text_at(evidence, "trace.state"), *place;
	int64_t pid = doc_number(evidence, "trace.pid", doc_number(evidence, "process.pid", 0));
	enum finding_certainty sure = FINDING_POSSIBLE;
	const json_t *kill = kill_for_memory(evidence, pid, &sure);
	struct finding *it = NULL;

	if (strcmp(why, "must") == 0) {
		it = find_must_failed(list, FINDING_CERTAIN, name, pid, doc_text_at(evidence, "trace.frozen.text"));
		finding_shows(it, "at %s", doc_text_at(evidence, "trace.frozen.place"));
	} else if (strcmp(why, "signal") == 0) {
		place = doc_text_at(evidence, "trace.crash.function");
		it = find_process_crashed(list, FINDING_CERTAIN, name, pid,
					  signal_name(doc_number(evidence, "trace.frozen.signal", 0)),
					  place[0] ? place : doc_text_at(evidence, "trace.frozen.place"));
		show_signal(evidence, it);
		show_callers(evidence, it);
	} else if (doc_is(evidence, "trace.recording") || doc_is(evidence, "trace.pid_runs")) {
		it = find_trace_copy(list, FINDING_CERTAIN, doc_text_at(evidence, "trace.path"), name, pid);
	} else if (doc_is(evidence, "trace.died") && kill) {
		it = find_killed_out_of_memory(list, sure, name, pid);
		finding_shows(it, "the kernel's log: %s", doc_text_at(kill, "line"));
	} else if (strcmp(state, "ended") == 0) {
		it = find_process_ended(list, FINDING_CERTAIN, name, pid);
	} else if (doc_is(evidence, "trace.died")) {
		it = find_process_killed(list, doc_is(evidence, "process.gone") ? FINDING_CERTAIN : FINDING_LIKELY, name,
					 pid);
		finding_shows(it, "no signal and no failed check is in the trace file, and it was not closed");
	}
	if (it)
		show_end(evidence, it);
}

/* The number of threads in `state`. */
static size_t count_in_state(const json_t *threads, const char *state)
{
	const json_t *thread;
	size_t i, count = 0;

	json_array_foreach ((json_t *)threads, i, thread)
		count += strcmp(doc_text_at(thread, "state"), state) == 0;
	return count;
}

static void judge_stop(const json_t *evidence, struct findings *list)
{
	const char *name = doc_engine_name(evidence), *tracer = doc_text_at(evidence, "process.tracer_name");
	const json_t *threads = doc_at(evidence, "process.threads"), *row;
	size_t i, all = json_array_size(threads), traced = count_in_state(threads, "t");
	int64_t pid = doc_engine_pid(evidence);
	struct finding *it = NULL;

	json_array_foreach ((json_t *)doc_at(evidence, "process.cgroups"), i, row) {
		if (doc_is(row, "frozen")) {
			it = find_process_frozen(list, FINDING_CERTAIN, name, pid, doc_text_at(row, "path"));
			finding_see(it, "cat /proc/%" PRId64 "/cgroup", pid);
			return;
		}
	}
	if (traced > 0 && traced == all) {
		it = find_process_traced(list, FINDING_CERTAIN, name, pid, tracer[0] ? tracer : "?");
	} else if (strcmp(doc_text_at(evidence, "process.state"), "T") == 0 && count_in_state(threads, "T") == all) {
		it = find_process_stopped(list, FINDING_CERTAIN, name, pid);
	}
	if (it) {
		finding_shows(it, "the state of all %zu threads is %s", all, doc_text_at(evidence, "process.state"));
		finding_shows(it, "no sign of life for %" PRId64 " ms", doc_number(evidence, "trace.silent_ms", 0));
		finding_see(it, "grep -E 'State|TracerPid' /proc/%" PRId64 "/status", pid);
		return;
	}
	json_array_foreach ((json_t *)threads, i, row) {
		if (strcmp(doc_text_at(row, "state"), "t") == 0)
			finding_see(find_thread_held(list, FINDING_CERTAIN, doc_text_at(row, "name"),
						     doc_number(row, "tid", 0), tracer[0] ? tracer : "?"),
				    "grep -E 'State|TracerPid' /proc/%" PRId64 "/task/%" PRId64 "/status", pid,
				    doc_number(row, "tid", 0));
	}
}

void rules_process(const json_t *evidence, struct findings *list)
{
	struct finding *end = rules_core_end(evidence, list);

	if (end) {
		if (doc_text_at(evidence, "trace.path")[0])
			show_end(evidence, end);
		return;
	}
	if (doc_is_running(evidence))
		judge_stop(evidence, list);
	else
		judge_end(evidence, list);
}
