/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules_threads - does a thread not turn? The trace says what it runs and since when, the kernel whether it uses the CPU or
 * waits, and for what.
 */
#include <string.h>

#include "base/bits.h"
#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum { SILENT_MS = 5000, BUSY_PERCENT = 50 };

/* Of x86-64: calls in which an engine's thread can wait. */
static const char *call_name(int64_t number)
{
	static const struct {
		int64_t number;
		const char *name;
	} calls[] = { { 0, "read" },
		      { 1, "write" },
		      { 3, "close" },
		      { 4, "stat" },
		      { 5, "fstat" },
		      { 7, "poll" },
		      { 17, "pread64" },
		      { 18, "pwrite64" },
		      { 19, "readv" },
		      { 20, "writev" },
		      { 35, "nanosleep" },
		      { 44, "sendto" },
		      { 45, "recvfrom" },
		      { 46, "sendmsg" },
		      { 47, "recvmsg" },
		      { 61, "wait4" },
		      { 74, "fsync" },
		      { 75, "fdatasync" },
		      { 82, "rename" },
		      { 137, "statfs" },
		      { 138, "fstatfs" },
		      { 202, "futex" },
		      { 230, "clock_nanosleep" },
		      { 232, "epoll_wait" },
		      { 257, "openat" },
		      { 262, "newfstatat" },
		      { 281, "epoll_pwait" },
		      { 285, "fallocate" },
		      { 295, "preadv" },
		      { 296, "pwritev" },
		      { 426, "io_uring_enter" } };

	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		if (calls[i].number == number)
			return calls[i].name;
	}
	return "a system call";
}

/* The kernel's view of the thread; NULL: none. */
static const json_t *find_thread(const json_t *evidence, int64_t tid)
{
	const json_t *thread;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "process.threads"), i, thread) {
		if (doc_number(thread, "tid", 0) == tid)
			return thread;
	}
	return NULL;
}

const char *doc_where(const json_t *thread, char to[DOC_WHERE_BYTES])
{
	int64_t call = doc_number(thread, "syscall", -1);
	const char *wchan = doc_text_at(thread, "wchan");

	if (!thread)
		snprintf(to, DOC_WHERE_BYTES, "not known where");
	else if (call >= 0)
		snprintf(to, DOC_WHERE_BYTES, "%s()%s%s", call_name(call), wchan[0] ? " in " : "", wchan);
	else if (wchan[0])
		snprintf(to, DOC_WHERE_BYTES, "%s", wchan);
	else
		snprintf(to, DOC_WHERE_BYTES, "state %s", doc_text_at(thread, "state"));
	return to;
}

static void show_thread(const json_t *evidence, struct finding *it, const json_t *traced, const json_t *thread)
{
	char option[TRACE_OPTION_BYTES];
	const json_t *frame;
	size_t i;

	finding_shows(it, "thread %s, tid %" PRId64 ", CPU %" PRId64, doc_text_at(traced, "name"),
		      doc_number(traced, "tid", 0), doc_number(traced, "cpu", -1));
	if (thread)
		finding_shows(it, "state %s; in %" PRId64 " ms it ran for %.0f ms and waited %.0f ms for a CPU",
			      doc_text_at(thread, "state"), doc_number(evidence, "process.interval_ms", 0),
			      doc_real(thread, "ran_ms", 0), doc_real(thread, "waited_ms", 0));
	if (doc_text_at(thread, "file")[0])
		finding_shows(it, "the call is on descriptor %" PRId64 ": %s", doc_number(thread, "descriptor", -1),
			      doc_text_at(thread, "file"));
	if (doc_text_at(thread, "lock")[0])
		finding_shows(it, "it waits for the lock %s, which thread %" PRId64 " has", doc_text_at(thread, "lock"),
			      doc_number(thread, "lock_owner", 0));
	json_array_foreach ((json_t *)doc_at(thread, "stack"), i, frame)
		finding_shows(it, "stack in the kernel: %s", json_string_value(frame));
	finding_see(it, "fathom trace threads%s", doc_trace_option(evidence, option, sizeof(option)));
	finding_see(it, "gdb -p %" PRId64 " -batch -ex 'thread apply all bt'", doc_engine_pid(evidence));
}

static bool uses_cpu(const json_t *evidence, const json_t *thread)
{
	double interval_ms = doc_real(evidence, "process.interval_ms", 0);

	return interval_ms > 0 && doc_real(thread, "ran_ms", 0) * 100 >= BUSY_PERCENT * interval_ms;
}

/* It is ready to run, and gets no CPU: see rules_locks.c and rules_machine.c. */
static bool waits_for_cpu(const json_t *evidence, const json_t *thread)
{
	double interval_ms = doc_real(evidence, "process.interval_ms", 0);

	return interval_ms > 0 && doc_real(thread, "waited_ms", 0) * 100 >= BUSY_PERCENT * interval_ms &&
	       doc_real(thread, "ran_ms", 0) < LONG_TURN_RAN_MS;
}

/* A thread that has run one poller or message for too long. */
static void judge_thread(const json_t *evidence, const json_t *traced, struct findings *list)
{
	const json_t *thread = find_thread(evidence, doc_number(traced, "tid", 0));
	int64_t running_ms = doc_number(traced, "running_ms", 0);
	char since[SHORT_TEXT_BYTES], where[DOC_WHERE_BYTES], what[256];
	const char *name = doc_text_at(traced, "name"), *state = doc_text_at(thread, "state");
	bool control = strcmp(name, "control") == 0, runs = strcmp(state, "R") == 0 || uses_cpu(evidence, thread);
	struct finding *it;

	if (running_ms < HUNG_MS || strcmp(state, "T") == 0 || strcmp(state, "t") == 0 || waits_for_cpu(evidence, thread))
		return;
	snprintf(what, sizeof(what), "%s%s%s", doc_text_at(traced, "running"), doc_text_at(traced, "of")[0] ? " of " : "",
		 doc_text_at(traced, "of"));
	doc_duration((uint64_t)running_ms, since);
	doc_where(thread, where);
	if (control)
		it = runs ? find_control_runaway(list, FINDING_CERTAIN, what)
			  : find_control_blocked(list, FINDING_CERTAIN, what, where);
	else
		it = runs ? find_reactor_runaway(list, FINDING_CERTAIN, name, what, since)
			  : find_reactor_blocked(list, thread ? FINDING_CERTAIN : FINDING_LIKELY, name, what, since, where);
	show_thread(evidence, it, traced, thread);
}

static void judge_socket(const json_t *evidence, struct findings *list)
{
	const char *silent = doc_text_at(evidence, "answers.silent"), *missing = doc_text_at(evidence, "answers.missing");
	char option[TRACE_OPTION_BYTES];
	const char *unfinished = doc_text_at(evidence, "answers.unfinished");
	double pressure = doc_real(evidence, "machine.pressure.cpu", 0);
	struct finding *it;
	char text[256];

	/* connect() waits while the backlog is full: the program accepts no connection */
	if (unfinished[0] && !silent[0]) {
		snprintf(text, sizeof(text), "%.200s did not return", unfinished);
		silent = text;
	}

	if (silent[0]) {
		it = find_control_silent(list, FINDING_CERTAIN, doc_text_at(evidence, "answers.socket"), silent);
		finding_see(it, "fathom rpc -t 2 spdk_get_version");
	} else if (doc_text_at(evidence, "answers.cores_silent")[0] && list->count == 0 && pressure < PRESSURE_PERCENT) {
		it = find_reactor_silent(list, FINDING_LIKELY, doc_text_at(evidence, "answers.cores_silent"));
		doc_doubt_if_contended(evidence, it);
		finding_shows(it, "the control socket answered other calls, which need no message to a core");
		finding_see(it, "fathom rpc -t 2 nvmf_get_stats");
		finding_shows(it, "pressure on CPUs: some thread of the machine waits in %.0f %% of the time", pressure);
		finding_see(it, "fathom trace threads%s", doc_trace_option(evidence, option, sizeof(option)));
	} else if (missing[0] && !json_is_false(doc_at(evidence, "trace.engine"))) {
		it = find_control_missing(list, FINDING_CERTAIN, missing);
		finding_see(it, "ss -xlp | grep %" PRId64, doc_engine_pid(evidence));
	}
}

/* Messages that a light thread does not take. */
static void judge_messages(const json_t *evidence, struct findings *list)
{
	char why[256], oldest[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.messages"), i, row) {
		if (doc_number(row, "oldest_ms", 0) < HUNG_MS)
			continue;
		snprintf(why, sizeof(why), "%" PRId64 " wait for the light thread %.96s, the oldest for %s",
			 doc_number(row, "count", 0), doc_text_at(row, "thread"),
			 doc_duration((uint64_t)doc_number(row, "oldest_ms", 0), oldest));
		finding_see(find_reactor_silent(list, FINDING_CERTAIN, why), "fathom trace -n thread_send_msg%s",
			    doc_trace_option(evidence, option, sizeof(option)));
	}
}

void rules_threads(const json_t *evidence, struct findings *list)
{
	int64_t silent_ms = doc_number(evidence, "trace.silent_ms", 0);
	char since[SHORT_TEXT_BYTES];
	const json_t *traced;
	struct finding *it;
	size_t i;

	if (!doc_is_running(evidence))
		return;
	json_array_foreach ((json_t *)doc_at(evidence, "trace.threads"), i, traced)
		judge_thread(evidence, traced, list);
	if (silent_ms >= SILENT_MS) {
		it = find_process_silent(list, FINDING_CERTAIN, doc_duration((uint64_t)silent_ms, since));
		finding_see(it, "grep -H . /proc/%" PRId64 "/task/*/wchan", doc_engine_pid(evidence));
	}
	judge_messages(evidence, list);
	judge_socket(evidence, list);
}
