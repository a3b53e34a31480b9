/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules_spdk - what an SPDK target's process and control socket tell: it publishes neither what its threads run nor
 * requests under way.
 *
 * Its reactors poll all the time. So one that used no CPU time, and does not wait for events (interrupt mode), is blocked;
 * and a light thread whose time did not advance is on a reactor that hangs. If its trace records I/Os of devices
 * (`-e bdev`), rules_devices.c judges those under way.
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

/* How many I/Os of a device ended with this status, in the first look. */
static int64_t errors_before(const json_t *evidence, const char *device, const char *status)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "answers.iostat_before.bdevs"), i, row) {
		if (strcmp(doc_text_at(row, "name"), device) == 0)
			return json_integer_value(json_object_get(doc_at(row, "io_error"), status));
	}
	return INT64_MAX; /* it is new: nothing to compare with */
}

/* I/Os that failed while the doctor looked: a target of SPDK publishes no events of errors. */
static void judge_errors(const json_t *evidence, const json_t *row, struct findings *list)
{
	const char *device = doc_text_at(row, "name"), *status, *most_status = "";
	int64_t failed, total = 0, most = 0;
	struct finding *it;
	json_t *count;

	json_object_foreach ((json_t *)doc_at(row, "io_error"), status, count) {
		failed = json_integer_value(count) - errors_before(evidence, device, status);
		total += failed > 0 ? failed : 0;
		if (failed > most) {
			most = failed;
			most_status = status;
		}
	}
	if (total == 0)
		return;
	it = find_device_fails(list, FINDING_CERTAIN, device, (uint64_t)total, most_status);
	finding_shows(it, "io_error of bdev_get_iostat counted %" PRId64 " more after %d ms", total, DOCTOR_LOOK_MS);
	finding_see(it, "fathom rpc bdev_get_iostat --names %s", device);
}

/* Devices whose I/O the trace does not record may hang unseen: the socket counts only I/Os that ended. */
static void judge_unseen(const json_t *evidence, struct findings *list)
{
	int64_t queues = 0;
	const json_t *group;
	struct finding *it;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "answers.poll_groups.poll_groups"), i, group)
		queues += doc_number(group, "current_io_qpairs", 0);
	if (queues == 0 || doc_is(evidence, "trace.records_bdev"))
		return;
	it = find_trace_incomplete(list, FINDING_CERTAIN,
				   "the target does not record I/Os of devices, so one that hangs is not seen");
	finding_see(it, "fathom rpc trace_enable_tpoint_group bdev");
}

void rules_spdk(const json_t *evidence, struct findings *list)
{
	const json_t *thread, *row;
	size_t i;

	if (!doc_is_running(evidence) || !doc_is_spdk(evidence) || findings_have(list, FINDING_PROCESS_STOPPED) ||
	    findings_have(list, FINDING_PROCESS_FROZEN) || findings_have(list, FINDING_PROCESS_TRACED))
		return;
	json_array_foreach ((json_t *)doc_at(evidence, "process.threads"), i, thread)
		judge_reactor(evidence, thread, list);
	judge_light_threads(evidence, list);
	json_array_foreach ((json_t *)doc_at(evidence, "answers.iostat.bdevs"), i, row)
		judge_errors(evidence, row, list);
	judge_unseen(evidence, list);
}
