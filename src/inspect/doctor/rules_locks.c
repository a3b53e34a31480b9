/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules_locks - do threads wait for each other's locks, and does the kernel run the threads of reactors? Both are seen from
 * outside, by what the kernel says of a thread in two looks.
 */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum {
	CIRCLE_MAX = 64,
	CIRCLE_BYTES = 512,
	NOT_RUN_PERCENT = 90,	/* of the time, waiting for a CPU */
	LONG_TURN_PERCENT = 50, /* likewise, if one turn has lasted for HUNG_MS */
};

static const json_t *thread_of(const json_t *evidence, int64_t tid)
{
	const json_t *thread;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "process.threads"), i, thread) {
		if (doc_number(thread, "tid", 0) == tid)
			return thread;
	}
	return NULL;
}

/* "reactor_0", or what the kernel calls a thread that has no rings. */
static const char *name_of(const json_t *evidence, const json_t *thread)
{
	const json_t *traced;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.threads"), i, traced) {
		if (doc_number(traced, "tid", 0) == doc_number(thread, "tid", -1))
			return doc_text_at(traced, "name");
	}
	return doc_text_at(thread, "name");
}

/* ---- locks ---- */

/* The thread that has the lock for which `thread` waits without having run meanwhile; NULL: none. */
static const json_t *owner_of(const json_t *evidence, const json_t *thread)
{
	if (!doc_text_at(thread, "lock")[0] || doc_real(thread, "ran_ms", 1) > 0)
		return NULL;
	return thread_of(evidence, doc_number(thread, "lock_owner", 0));
}

/* Is `thread` in a circle, and the first of it by its number? */
static bool leads_circle(const json_t *evidence, const json_t *thread)
{
	const json_t *next = owner_of(evidence, thread);

	for (uint32_t i = 0; next && i < CIRCLE_MAX; i++, next = owner_of(evidence, next)) {
		if (next == thread)
			return true;
		if (doc_number(next, "tid", 0) < doc_number(thread, "tid", 0))
			return false;
	}
	return false;
}

static void judge_circle(const json_t *evidence, const json_t *first, struct findings *list)
{
	char circle[CIRCLE_BYTES] = "", option[TRACE_OPTION_BYTES];
	const json_t *thread = first;
	struct finding *it;
	size_t used = 0;

	do {
		const json_t *owner = owner_of(evidence, thread);
		int bytes = snprintf(circle + used, sizeof(circle) - used, "%s%s (tid %" PRId64 ") for %s",
				     used ? ", " : "", name_of(evidence, thread), doc_number(thread, "tid", 0),
				     name_of(evidence, owner));

		used += bytes > 0 ? (size_t)bytes : 0;
		thread = owner;
	} while (thread != first && used < sizeof(circle));
	it = find_threads_deadlocked(list, FINDING_CERTAIN, circle);
	do {
		finding_shows(it,
			      "%s waits for the lock %s, which tid %" PRId64 " has; it ran for 0 ms of the last %" PRId64
			      " ms",
			      name_of(evidence, thread), doc_text_at(thread, "lock"), doc_number(thread, "lock_owner", 0),
			      doc_number(evidence, "process.interval_ms", 0));
		thread = owner_of(evidence, thread);
	} while (thread != first);
	finding_see(it, "gdb -p %" PRId64 " -batch -ex 'thread apply all bt'", doc_engine_pid(evidence));
	finding_see(it, "fathom trace threads%s", doc_trace_option(evidence, option, sizeof(option)));
}

/* ---- threads that get no turn ---- */

static bool is_frozen(const json_t *thread)
{
	const char *wchan = doc_text_at(thread, "wchan");

	return strstr(wchan, "refrigerator") || strstr(wchan, "freezer");
}

static void judge_reactor(const json_t *evidence, const json_t *traced, struct findings *list)
{
	const json_t *thread = thread_of(evidence, doc_number(traced, "tid", 0));
	double interval_ms = doc_real(evidence, "process.interval_ms", 0), waited_ms = doc_real(thread, "waited_ms", 0),
	       ran_ms = doc_real(thread, "ran_ms", interval_ms);
	int64_t running_ms = doc_number(traced, "running_ms", 0);
	char why[128];
	struct finding *it;

	if (!thread || interval_ms <= 0)
		return;
	if (is_frozen(thread) && ran_ms <= 0)
		snprintf(why, sizeof(why), "a cgroup has frozen it, state %s", doc_text_at(thread, "state"));
	else if ((ran_ms <= 0 && waited_ms * 100 >= NOT_RUN_PERCENT * interval_ms) ||
		 (running_ms >= HUNG_MS && waited_ms * 100 >= LONG_TURN_PERCENT * interval_ms && ran_ms < LONG_TURN_RAN_MS))
		snprintf(why, sizeof(why), "it waited %.0f of %.0f ms for CPU %" PRId64, waited_ms, interval_ms,
			 doc_number(traced, "cpu", -1));
	else
		return;
	it = find_reactor_not_run(list, FINDING_CERTAIN, doc_text_at(traced, "name"), why);
	finding_shows(it, "tid %" PRId64 ", state %s%s%s; it ran for %.0f ms of the last %.0f ms",
		      doc_number(thread, "tid", 0), doc_text_at(thread, "state"),
		      doc_text_at(thread, "wchan")[0] ? " in " : "", doc_text_at(thread, "wchan"), ran_ms, interval_ms);
	if (running_ms >= HUNG_MS)
		finding_shows(it, "its turn has lasted for %" PRId64 " ms: it runs %s of %s", running_ms,
			      doc_text_at(traced, "running"), doc_text_at(traced, "of"));
	if (doc_text_at(evidence, "answers.cores_silent")[0])
		finding_shows(it, "a message to it was not consumed: %s", doc_text_at(evidence, "answers.cores_silent"));
	finding_see(it, "cat /proc/%" PRId64 "/task/%" PRId64 "/cgroup", doc_engine_pid(evidence),
		    doc_number(thread, "tid", 0));
	finding_see(it, "chrt -p %" PRId64, doc_number(thread, "tid", 0));
}

void rules_locks(const json_t *evidence, struct findings *list)
{
	const json_t *row;
	size_t i;

	if (!doc_is_running(evidence))
		return;
	json_array_foreach ((json_t *)doc_at(evidence, "process.threads"), i, row) {
		if (leads_circle(evidence, row))
			judge_circle(evidence, row, list);
	}
	/* if all threads are frozen, the process is: see rules_process.c */
	if (findings_have(list, FINDING_PROCESS_FROZEN))
		return;
	json_array_foreach ((json_t *)doc_at(evidence, "trace.threads"), i, row) {
		if (strncmp(doc_text_at(row, "name"), "reactor", strlen("reactor")) == 0)
			judge_reactor(evidence, row, list);
	}
}
