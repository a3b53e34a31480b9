/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target - start and stop, one state per turn of the control thread, so that each can be observed.
 *
 *   NONE -> CREATE_TARGET -> CREATE_POLL_GROUPS -> START_SUBSYSTEMS -> RUNNING
 *   RUNNING -> FINI_STOP_SUBSYSTEMS    every connection that belongs to a subsystem is closed
 *           -> FINI_STOP_LISTEN        no new connections
 *           -> FINI_DESTROY_SUBSYSTEMS waits until the last controller is freed
 *           -> FINI_DESTROY_POLL_GROUPS connections without a Connect are closed; waits for commands that block devices
 *                                       still hold, after a call of nvmf_tgt.stuck if there are any
 *           -> FINI_DESTROY_TARGET -> STOPPED
 *
 * A failed start ends in ERROR. From there nvmf_target_stop() runs the same states to STOPPED.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/observe/trace/points.gen.h"
#include "data/target/probes.gen.h"
#include "data/target/subsystem/subsystem.h"

struct nvmf_target nvmf_tgt = {
	.subsystems = TAILQ_HEAD_INITIALIZER(nvmf_tgt.subsystems),
	.listens = TAILQ_HEAD_INITIALIZER(nvmf_tgt.listens),
	.subsystems_max = NVMF_SUBSYSTEMS_MAX,
	.drain_ms = NVMF_DRAIN_MS_DEFAULT,
};

static void run_state(void *ctx);

void *nvmf_alloc(size_t bytes)
{
	void *memory = calloc(1, bytes);

	must(memory);
	return memory;
}

enum nvmf_tgt_state nvmf_target_state(void)
{
	return nvmf_tgt.state;
}

void nvmf_target_set_crdt(const uint16_t crdt[3])
{
	memcpy(nvmf_tgt.crdt, crdt, sizeof(nvmf_tgt.crdt));
}

void nvmf_target_get_crdt(uint16_t crdt_ret[3])
{
	memcpy(crdt_ret, nvmf_tgt.crdt, sizeof(nvmf_tgt.crdt));
}

void nvmf_target_set_max_subsystems(uint32_t count)
{
	must(count >= 1);
	must(count <= NVMF_SUBSYSTEMS_MAX);
	nvmf_tgt.subsystems_max = count;
}

uint32_t nvmf_target_max_subsystems(void)
{
	return nvmf_tgt.subsystems_max;
}

void nvmf_target_set_drain_ms(uint32_t ms)
{
	must_be_on(thread_control());
	must(nvmf_tgt.group_count == 0);
	nvmf_tgt.drain_ms = ms;
}

void nvmf_target_on_stuck(nvmf_stuck_fn stuck)
{
	nvmf_tgt.stuck = stuck;
}

/* Change the state, and run its action in a later turn. */
static void enter_state(enum nvmf_tgt_state to)
{
	must_be_on(thread_control());
	nvmf_tgt_state_move(reactor_now(), &nvmf_tgt, to);
	thread_send_msg(thread_control(), run_state, NULL);
}

static void call_done(int rc)
{
	nvmf_done_fn done = nvmf_tgt.done;

	nvmf_tgt.done = NULL;
	must(done);
	done(nvmf_tgt.done_ctx, rc, &nvmf_tgt.why);
}

static void start_failed(int rc)
{
	must(rc < 0);
	must_be_on(thread_control());
	must(nvmf_tgt.done);
	if (nvmf_tgt.why.error == 0)
		fill_fault(&nvmf_tgt.why, rc, "the target could not start: %s", strerror(-rc));
	nvmf_tgt_state_move(reactor_now(), &nvmf_tgt, NVMF_TGT_ERROR);
	call_done(rc);
}

/* ---- start ---- */

static void groups_have_transports(int status, void *ctx)
{
	if (status)
		start_failed(status);
	else
		enter_state(NVMF_TGT_START_SUBSYSTEMS);
}

static void groups_created(int status)
{
	if (status)
		start_failed(status);
	else
		for_each_channel(&nvmf_tgt, nvmf_transport_groups_create, groups_have_transports, NULL);
}

static void start_next(void *ctx, int rc, const struct fathom_fault *why)
{
	struct nvmf_subsystem *subsystem;

	if (rc) {
		nvmf_tgt.why = *why;
		start_failed(rc);
		return;
	}
	must(nvmf_tgt.state == NVMF_TGT_START_SUBSYSTEMS);
	TAILQ_FOREACH (subsystem, &nvmf_tgt.subsystems, link) {
		if (subsystem->state == NVMF_SUBSYSTEM_INACTIVE && !subsystem->states.op) {
			nvmf_subsystem_start(subsystem->options.nqn, start_next, NULL);
			return;
		}
	}
	enter_state(NVMF_TGT_RUNNING);
}

void nvmf_target_start(nvmf_done_fn done, void *ctx)
{
	must_be_on(thread_control());
	if (nvmf_tgt.state != NVMF_TGT_NONE || nvmf_tgt.done) {
		nvmf_refuse(done, ctx, -EALREADY, "the target is in state %s and cannot be started",
			    nvmf_tgt_state_name(nvmf_tgt.state));
		return;
	}
	if (nvmf_tgt.trace.type == 0)
		trace_object_init(&nvmf_tgt.trace, TRACE_OBJECT_NVMF_TARGET);
	nvmf_tgt.done = done;
	nvmf_tgt.done_ctx = ctx;
	nvmf_tgt.why = (struct fathom_fault){ 0 };
	nvmf_tgt_state_move(reactor_now(), &nvmf_tgt, NVMF_TGT_NONE);
	enter_state(NVMF_TGT_CREATE_TARGET);
}

/* ---- stop ---- */

static bool needs_stop(const struct nvmf_subsystem *subsystem)
{
	return subsystem->state != NVMF_SUBSYSTEM_INACTIVE || !nvmf_op_line_is_idle(&subsystem->states);
}

static bool has_listeners(const struct nvmf_subsystem *subsystem)
{
	return !TAILQ_EMPTY(&subsystem->listeners);
}

/*
 * The next subsystem of which @needs is true, or NULL if there is none at all. It goes on after the one it found before,
 * so many calls look at each of by_id about twice.
 */
static struct nvmf_subsystem *find_next(bool (*needs)(const struct nvmf_subsystem *))
{
	for (uint32_t i = 0; i < NVMF_SUBSYSTEMS_MAX; i++) {
		struct nvmf_subsystem *subsystem = nvmf_tgt.by_id[nvmf_tgt.stop_id];

		if (subsystem && needs(subsystem))
			return subsystem;
		nvmf_tgt.stop_id = (nvmf_tgt.stop_id + 1) % NVMF_SUBSYSTEMS_MAX;
	}
	return NULL;
}

static void stop_next(void *ctx, int rc, const struct fathom_fault *why)
{
	struct nvmf_subsystem *subsystem = find_next(needs_stop);

	must(nvmf_tgt.state == NVMF_TGT_FINI_STOP_SUBSYSTEMS);
	must(rc == 0);
	if (subsystem)
		nvmf_op_submit(subsystem, nvmf_op_create(sizeof(struct nvmf_subsystem_op), NVMF_OP_STOP, stop_next, NULL));
	else
		enter_state(NVMF_TGT_FINI_STOP_LISTEN);
}

static void stop_subsystems(void)
{
	struct nvmf_subsystem *subsystem;

	TAILQ_FOREACH (subsystem, &nvmf_tgt.subsystems, link)
		subsystem->destroying = true;
	stop_next(NULL, 0, NULL);
}

static void stop_listening_next(void *ctx)
{
	struct nvmf_subsystem *subsystem = find_next(has_listeners);

	must(nvmf_tgt.state == NVMF_TGT_FINI_STOP_LISTEN);
	if (subsystem) {
		nvmf_subsystem_stop_listening(subsystem, stop_listening_next, NULL);
		return;
	}
	must(TAILQ_EMPTY(&nvmf_tgt.listens));
	must(nvmf_tgt.done);
	enter_state(NVMF_TGT_FINI_DESTROY_SUBSYSTEMS);
}

static void destroy_subsystems(void)
{
	struct nvmf_subsystem *subsystem, *next;

	if (nvmf_tgt.ctrlr_count > 0)
		return;
	TAILQ_FOREACH_SAFE (subsystem, &nvmf_tgt.subsystems, link, next) {
		if (nvmf_subsystem_is_idle(subsystem))
			nvmf_subsystem_free(subsystem);
	}
	if (TAILQ_EMPTY(&nvmf_tgt.subsystems))
		enter_state(NVMF_TGT_FINI_DESTROY_POLL_GROUPS);
}

/* Several messages may be queued: only the first, in this state, may destroy the subsystems. */
static void destroy_subsystems_later(void *ctx)
{
	if (nvmf_tgt.state == NVMF_TGT_FINI_DESTROY_SUBSYSTEMS)
		destroy_subsystems();
}

void nvmf_target_check_down(void)
{
	must_be_on(thread_control());
	if (nvmf_tgt.state == NVMF_TGT_FINI_DESTROY_SUBSYSTEMS && nvmf_tgt.ctrlr_count == 0)
		thread_send_msg(thread_control(), destroy_subsystems_later, NULL);
}

static void groups_destroyed(void *unused)
{
	enter_state(NVMF_TGT_FINI_DESTROY_TARGET);
}

static void transports_ended(int status, void *ctx)
{
	must(nvmf_tgt.state == NVMF_TGT_FINI_DESTROY_POLL_GROUPS);
	must(status == 0);
	must(nvmf_tgt.ctrlr_count == 0);
	nvmf_groups_destroy(groups_destroyed);
}

static void devices_have_returned(int status, void *ctx)
{
	must(status == 0);
	for_each_channel(&nvmf_tgt, nvmf_group_end_transports, transports_ended, NULL);
}

/* All queue pairs are closed; only parked commands can be left. */
static void count_parked(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	const struct nvmf_poll_group *group = nvmf_group_of(channel);
	const struct nvmf_qpair *qpair;
	uint32_t *count = ctx;

	TAILQ_FOREACH (qpair, &group->parked_qpairs, group_link)
		*count += qpair->parked_count;
	channel_iter_next(iter, 0);
}

static void counted_parked(int status, void *ctx)
{
	uint32_t *count = ctx;

	must(status == 0);
	if (*count > 0 && nvmf_tgt.stuck)
		nvmf_tgt.stuck(*count);
	free(count);
	for_each_channel(&nvmf_tgt, nvmf_group_wait_for_devices, devices_have_returned, NULL);
}

static void qpairs_closed(int status, void *ctx)
{
	must(status == 0);
	for_each_channel(&nvmf_tgt, count_parked, counted_parked, nvmf_alloc(sizeof(uint32_t)));
}

void nvmf_target_stop(nvmf_done_fn done, void *ctx)
{
	must_be_on(thread_control());
	if ((nvmf_tgt.state != NVMF_TGT_RUNNING && nvmf_tgt.state != NVMF_TGT_ERROR) || nvmf_tgt.done) {
		nvmf_refuse(done, ctx, -EINVAL, "the target is in state %s and cannot be stopped",
			    nvmf_tgt_state_name(nvmf_tgt.state));
		return;
	}
	nvmf_tgt.done = done;
	nvmf_tgt.done_ctx = ctx;
	nvmf_tgt.why = (struct fathom_fault){ 0 };
	nvmf_tgt.stop_deadline_tick = nvmf_drain_deadline((uint32_t)min_u64(nvmf_tgt.drain_ms, NVMF_STOP_DRAIN_MS_MAX));
	enter_state(NVMF_TGT_FINI_STOP_SUBSYSTEMS);
}

void nvmf_target_reset(void)
{
	must(nvmf_tgt.state == NVMF_TGT_STOPPED);
	must(!nvmf_tgt.done);
	must(nvmf_tgt.group_count == 0);
	must(nvmf_tgt.transport_count == 0);
	must(TAILQ_EMPTY(&nvmf_tgt.subsystems));
	nvmf_tgt_state_move(reactor_now(), &nvmf_tgt, NVMF_TGT_NONE);
}

/* Run the action of the current state. */
static void run_state(void *ctx)
{
	must_be_on(thread_control());
	switch (nvmf_tgt.state) {
	case NVMF_TGT_CREATE_TARGET:
		nvmf_subsystem_create_discovery();
		enter_state(NVMF_TGT_CREATE_POLL_GROUPS);
		return;
	case NVMF_TGT_CREATE_POLL_GROUPS:
		nvmf_groups_create(groups_created);
		return;
	case NVMF_TGT_START_SUBSYSTEMS:
		start_next(NULL, 0, NULL);
		return;
	case NVMF_TGT_RUNNING:
		call_done(0);
		return;
	case NVMF_TGT_FINI_STOP_SUBSYSTEMS:
		stop_subsystems();
		return;
	case NVMF_TGT_FINI_STOP_LISTEN:
		stop_listening_next(NULL);
		return;
	case NVMF_TGT_FINI_DESTROY_SUBSYSTEMS:
		destroy_subsystems();
		return;
	case NVMF_TGT_FINI_DESTROY_POLL_GROUPS:
		for_each_channel(&nvmf_tgt, nvmf_group_close_qpairs, qpairs_closed, NULL);
		return;
	case NVMF_TGT_FINI_DESTROY_TARGET:
		must(nvmf_tgt.lent_ns_count == 0);
		nvmf_tgt.stop_deadline_tick = 0;
		nvmf_transports_destroy();
		enter_state(NVMF_TGT_STOPPED);
		return;
	case NVMF_TGT_STOPPED:
		call_done(0);
		return;
	case NVMF_TGT_NONE:
	case NVMF_TGT_ERROR:
		return;
	}
}
