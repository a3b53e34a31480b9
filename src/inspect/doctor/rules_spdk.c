/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules_spdk - what an SPDK target's process and control socket tell: it publishes neither what its threads run nor
 * requests under way.
 *
 * Its reactors poll all the time. So one that used no CPU time, and does not wait for events (interrupt mode), is blocked;
 * and a light thread whose time did not advance is on a reactor that hangs. Commands that pend at devices of which none
 * ended an I/O in a second hang there.
 */
#include <string.h>

#include "base/bits.h"
#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum { IDLE_PERCENT = 2, EPOLL_WAIT = 232, EPOLL_PWAIT = 281 };

bool doc_is_spdk(const json_t *evidence)
{
	return doc_is(evidence, "trace.spdk") || strncmp(doc_text_at(evidence, "answers.version.version"), "SPDK", 4) == 0;
}

static void judge_reactor(const json_t *evidence, const json_t *thread, struct findings *list)
{
	double interval_ms = doc_real(evidence, "process.interval_ms", 0), ran_ms = doc_real(thread, "ran_ms", -1);
	const char *name = doc_text_at(thread, "name"), *state = doc_text_at(thread, "state");
	int64_t call = doc_number(thread, "syscall", -1);
	char where[DOC_WHERE_BYTES], since[SHORT_TEXT_BYTES];
	struct finding *it;

	if (strncmp(name, "reactor_", strlen("reactor_")) != 0 || strcmp(state, "T") == 0 || strcmp(state, "t") == 0 ||
	    interval_ms <= 0 || ran_ms < 0 || ran_ms * 100 > IDLE_PERCENT * interval_ms || strcmp(state, "R") == 0 ||
	    call == EPOLL_WAIT || call == EPOLL_PWAIT)
		return;
	snprintf(since, sizeof(since), "more than %.1f s", interval_ms / 1000);
	it = find_reactor_blocked(list, FINDING_LIKELY, name, "a poller or a message", since, doc_where(thread, where));
	finding_shows(it, "thread %" PRId64 ", state %s: it ran for %.0f ms in %.0f ms", doc_number(thread, "tid", 0),
		      state, ran_ms, interval_ms);
	finding_see(it, "gdb -p %" PRId64 " -batch -ex 'thread apply all bt'", doc_engine_pid(evidence));
}

/* The light thread of this id in the first look. */
static const json_t *thread_before(const json_t *evidence, int64_t id)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "answers.threads_before.threads"), i, row) {
		if (doc_number(row, "id", -1) == id)
			return row;
	}
	return NULL;
}

static void judge_light_threads(const json_t *evidence, struct findings *list)
{
	const json_t *row;
	char why[256];
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "answers.threads.threads"), i, row) {
		const json_t *before = thread_before(evidence, doc_number(row, "id", -1));

		if (!before || doc_number(row, "busy", 0) + doc_number(row, "idle", 0) !=
				       doc_number(before, "busy", 0) + doc_number(before, "idle", 0))
			continue;
		snprintf(why, sizeof(why), "its light thread %.128s made no turn in a second", doc_text_at(row, "name"));
		finding_see(find_reactor_silent(list, FINDING_LIKELY, why), "fathom rpc thread_get_stats");
	}
}

static int64_t ios_of(const json_t *row)
{
	return doc_number(row, "num_read_ops", 0) + doc_number(row, "num_write_ops", 0) +
	       doc_number(row, "num_unmap_ops", 0);
}

/* Commands that pend at devices. */
static int64_t pending_of(const json_t *evidence)
{
	const json_t *group;
	int64_t count = 0;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "answers.poll_groups.poll_groups"), i, group)
		count += doc_number(group, "pending_bdev_io", 0);
	return count;
}

static void judge_pending(const json_t *evidence, struct findings *list)
{
	const json_t *now = doc_at(evidence, "answers.iostat.bdevs"), *row, *before;
	int64_t pending = pending_of(evidence);
	const char *device = NULL;
	struct finding *it;
	size_t i, j;

	json_array_foreach ((json_t *)now, i, row) {
		json_array_foreach ((json_t *)doc_at(evidence, "answers.iostat_before.bdevs"), j, before) {
			if (strcmp(doc_text_at(before, "name"), doc_text_at(row, "name")) == 0 &&
			    ios_of(row) != ios_of(before))
				return;
		}
		device = device ? "of several (one of them)" : doc_text_at(row, "name");
	}
	if (pending == 0 || !device || findings_have(list, FINDING_DEVICE_HUNG))
		return;
	it = find_device_hung(list, FINDING_LIKELY, device, (uint64_t)pending, "more than a second");
	finding_shows(it, "pending_bdev_io of nvmf_get_stats is %" PRId64 ", and no I/O of any device ended in %d ms",
		      pending, DOCTOR_LOOK_MS);
	finding_see(it, "fathom rpc nvmf_get_stats");
	finding_see(it, "fathom rpc bdev_get_iostat");
}

void rules_spdk(const json_t *evidence, struct findings *list)
{
	const json_t *thread;
	size_t i;

	if (!doc_is_running(evidence) || !doc_is_spdk(evidence) || findings_have(list, FINDING_PROCESS_STOPPED) ||
	    findings_have(list, FINDING_PROCESS_FROZEN) || findings_have(list, FINDING_PROCESS_TRACED))
		return;
	json_array_foreach ((json_t *)doc_at(evidence, "process.threads"), i, thread)
		judge_reactor(evidence, thread, list);
	judge_light_threads(evidence, list);
	judge_pending(evidence, list);
}
