/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_machine - does the engine get the CPU time, the memory and the descriptors that it needs? */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum {
	THROTTLED_PERCENT = 20, /* of the periods of a cgroup */
	WAITED_PERCENT = 20,	/* of the time, for a CPU */
	CONTENDED_PERCENT = 50, /* of the time: all that the engine measures is too long */
	NEIGHBOUR_PERCENT = 10, /* of a CPU */
	MEMORY_PERCENT = 95,
	SWAPPED_PERCENT = 10, /* of the resident memory */
	STOLEN_PERCENT = 10,
	SCARCE_PERCENT = 90, /* of the descriptors */
};

#define NO_LIMIT_BYTES (1ll << 60)

/* ---- cgroups ---- */

/* The row of the first look for the same cgroup and controller. */
static const json_t *row_before(const json_t *evidence, const json_t *row)
{
	const json_t *before;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "process.cgroups_before"), i, before) {
		if (strcmp(doc_text_at(before, "path"), doc_text_at(row, "path")) == 0 &&
		    !json_object_get(before, "periods") == !json_object_get(row, "periods"))
			return before;
	}
	return NULL;
}

static void judge_cpu_limit(const json_t *evidence, const json_t *row, struct findings *list)
{
	const json_t *before = row_before(evidence, row);
	int64_t periods = doc_number(row, "periods", 0) - doc_number(before, "periods", 0);
	int64_t throttled = doc_number(row, "throttled", 0) - doc_number(before, "throttled", 0);
	int64_t quota = doc_number(row, "quota_us", -1), period = doc_number(row, "period_us", 0);
	char limit[SHORT_TEXT_BYTES];
	struct finding *it;

	if (!before || periods <= 0 || throttled * 100 < THROTTLED_PERCENT * periods)
		return;
	if (quota > 0 && period > 0)
		snprintf(limit, sizeof(limit), "%.2f CPUs", (double)quota / (double)period);
	else
		snprintf(limit, sizeof(limit), "not readable");
	it = find_cgroup_throttled(list, FINDING_CERTAIN, doc_text_at(row, "path"), (uint64_t)(throttled * 100 / periods),
				   limit);
	finding_shows(it,
		      "throttled in %" PRId64 " of %" PRId64 " periods while the doctor looked; %" PRId64
		      " times since it exists",
		      throttled, periods, doc_number(row, "throttled", 0));
	finding_see(it, "cat /proc/%" PRId64 "/cgroup", doc_engine_pid(evidence));
}

static void judge_memory_limit(const json_t *row, struct findings *list)
{
	int64_t limit = doc_number(row, "memory_max", 0),
		used = doc_number(row, "memory", 0) - doc_number(row, "inactive_file", 0);
	char used_text[SHORT_TEXT_BYTES], limit_text[SHORT_TEXT_BYTES];
	struct finding *it;

	if (limit <= 0 || limit >= NO_LIMIT_BYTES || used * 100 < MEMORY_PERCENT * limit)
		return;
	it = find_memory_near_limit(list, FINDING_CERTAIN, doc_text_at(row, "path"), doc_bytes((uint64_t)used, used_text),
				    doc_bytes((uint64_t)limit, limit_text));
	finding_shows(it, "the kernel killed %" PRId64 " processes of this cgroup for memory",
		      doc_number(row, "oom_kills", 0));
}

/* ---- CPUs ---- */

/* The busiest thread of another process that is bound to `cpu`; NULL: none. */
static const json_t *neighbour_on(const json_t *evidence, int64_t cpu)
{
	const json_t *row, *busiest = NULL;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "machine.neighbours"), i, row) {
		if (doc_number(row, "cpu", -1) == cpu && doc_real(row, "percent", 0) >= NEIGHBOUR_PERCENT &&
		    doc_real(row, "percent", 0) > doc_real(busiest, "percent", 0))
			busiest = row;
	}
	return busiest;
}

static double waited_percent(const json_t *evidence, int64_t tid)
{
	double interval_ms = doc_real(evidence, "process.interval_ms", 0);
	const json_t *thread;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "process.threads"), i, thread) {
		if (doc_number(thread, "tid", 0) == tid && interval_ms > 0)
			return doc_real(thread, "waited_ms", 0) * 100 / interval_ms;
	}
	return 0;
}

/* Of the engine's threads, the one that waited most. */
static double most_waited_percent(const json_t *evidence)
{
	double waited = 0, most = 0;
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.threads"), i, row) {
		waited = waited_percent(evidence, doc_number(row, "tid", 0));
		most = waited > most ? waited : most;
	}
	return most;
}

void doc_doubt_if_contended(const json_t *evidence, struct finding *it)
{
	double waited = most_waited_percent(evidence);

	if (it && waited >= CONTENDED_PERCENT) {
		it->sure = FINDING_POSSIBLE;
		finding_shows(it, "a reactor waited for a CPU in %.0f %% of the time: that may be the cause", waited);
	}
}

static void judge_cpu(const json_t *evidence, const json_t *traced, struct findings *list)
{
	int64_t cpu = doc_number(traced, "cpu", -1), tid = doc_number(traced, "tid", 0);
	double waited = waited_percent(evidence, tid);
	const json_t *neighbour = cpu >= 0 ? neighbour_on(evidence, cpu) : NULL;
	struct finding *it;
	char who[128];

	if (neighbour) {
		snprintf(who, sizeof(who), "%s (tid %" PRId64 " of process %" PRId64 ")", doc_text_at(neighbour, "name"),
			 doc_number(neighbour, "tid", 0), doc_number(neighbour, "pid", 0));
		/* a reactor that hardly waits for its CPU is not disturbed */
		it = waited >= WAITED_PERCENT
			     ? find_reactor_cpu_shared(list, FINDING_CERTAIN, doc_text_at(traced, "name"), cpu, who,
						       (uint64_t)doc_real(neighbour, "percent", 0))
			     : find_reactor_cpu_claimed(list, FINDING_CERTAIN, doc_text_at(traced, "name"), cpu, who,
							(uint64_t)doc_real(neighbour, "percent", 0));
		finding_shows(it, "the reactor waited for the CPU in %.0f %% of the time while the doctor looked", waited);
		finding_see(it, "taskset -pc %" PRId64, doc_number(neighbour, "tid", 0));
	} else if (waited >= WAITED_PERCENT) {
		it = find_cpu_contended(list, FINDING_CERTAIN, doc_text_at(traced, "name"), (uint64_t)waited);
		finding_shows(it, "pressure on CPUs: some thread waits in %.0f %% of the time",
			      doc_real(evidence, "machine.pressure.cpu", 0));
	}
}

/* Calls that were not answered in time, although each thread got its CPU in the time of the looks. */
static void judge_pressure(const json_t *evidence, struct findings *list)
{
	double pressure = doc_real(evidence, "machine.pressure.cpu", 0);
	const char *silent = doc_text_at(evidence, "answers.silent"),
		   *cores = doc_text_at(evidence, "answers.cores_silent");

	if (pressure < PRESSURE_PERCENT || (!silent[0] && !cores[0]) || findings_have(list, FINDING_CPU_CONTENDED))
		return;
	finding_shows(find_cpu_contended(list, FINDING_LIKELY, "some thread of the machine", (uint64_t)pressure), "%s",
		      silent[0] ? silent : cores);
}

static void judge_steal(const json_t *evidence, struct findings *list)
{
	int64_t all = doc_number(evidence, "machine.times.all", 0) - doc_number(evidence, "machine.times_before.all", 0);
	int64_t steal = doc_number(evidence, "machine.times.steal", 0) -
			doc_number(evidence, "machine.times_before.steal", 0);

	if (all > 0 && steal * 100 >= STOLEN_PERCENT * all)
		finding_see(find_cpu_stolen(list, FINDING_CERTAIN, (uint64_t)(steal * 100 / all)), "vmstat 1");
}

/* ---- descriptors and memory of the process ---- */

static void judge_descriptors(const json_t *evidence, struct findings *list)
{
	int64_t used = doc_number(evidence, "process.descriptors", 0),
		limit = doc_number(evidence, "process.limits.files", 0);
	struct doc_signs refused = { 0 };
	bool none_left = used + 1 >= limit;
	const json_t *event;
	struct finding *it;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.events.tcp_refuse.last"), i, event) {
		if (doc_number(event, "ago_ms", RECENT_MS) < RECENT_MS &&
		    strcmp(doc_text_at(event, "args.reason"), "DESCRIPTORS") == 0)
			doc_sign(&refused, doc_number(event, "ago_ms", 0));
	}
	if (limit <= 0 || used <= 0)
		return;
	if (none_left || refused.count > 0) {
		it = find_descriptors_exhausted(list, FINDING_CERTAIN, (uint64_t)used, (uint64_t)limit);
		if (refused.count > 0)
			finding_shows(it, "connections were refused for this reason in the last minutes");
		if (!none_left)
			doc_end_by_signs(it, &refused);
	} else if (used * 100 >= SCARCE_PERCENT * limit) {
		it = find_descriptors_scarce(list, FINDING_CERTAIN, (uint64_t)used, (uint64_t)limit);
	} else {
		return;
	}
	finding_see(it, "ls -l /proc/%" PRId64 "/fd", doc_engine_pid(evidence));
	finding_see(it, "grep 'open files' /proc/%" PRId64 "/limits", doc_engine_pid(evidence));
}

static void judge_swap(const json_t *evidence, struct findings *list)
{
	int64_t swapped = doc_number(evidence, "process.swapped_kib", 0),
		resident = doc_number(evidence, "process.resident_kib", 0);
	char text[SHORT_TEXT_BYTES];

	if (swapped > 0 && swapped * 100 >= SWAPPED_PERCENT * (resident + swapped))
		finding_see(find_memory_swapped(list, FINDING_CERTAIN, doc_bytes((uint64_t)swapped * 1024, text)),
			    "grep -E 'VmRSS|VmSwap' /proc/%" PRId64 "/status", doc_engine_pid(evidence));
}

void rules_machine(const json_t *evidence, struct findings *list)
{
	const json_t *row;
	size_t i;

	if (!doc_is_running(evidence))
		return;
	json_array_foreach ((json_t *)doc_at(evidence, "process.cgroups"), i, row) {
		judge_cpu_limit(evidence, row, list);
		judge_memory_limit(row, list);
	}
	json_array_foreach ((json_t *)doc_at(evidence, "trace.threads"), i, row) {
		if (doc_number(row, "tid", 0) > 0)
			judge_cpu(evidence, row, list);
	}
	judge_pressure(evidence, list);
	judge_steal(evidence, list);
	judge_descriptors(evidence, list);
	judge_swap(evidence, list);
}
