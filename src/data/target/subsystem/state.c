/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * state - operations on a subsystem, one at a time, and its state changes over all poll groups.
 *
 *   START   INACTIVE -> ACTIVATING -> ACTIVE          each group creates its part. On an error: DEACTIVATING -> INACTIVE
 *   STOP    ACTIVE, PAUSED -> DEACTIVATING -> INACTIVE  each closes its queue pairs and frees its part
 *   PAUSE   ACTIVE -> PAUSING -> PAUSED               each waits for running commands and queues new ones. On a time-out:
 *                                                     RESUMING -> ACTIVE
 *   RESUME  PAUSED -> RESUMING -> ACTIVE              each runs the queued commands
 *
 * STOP and PAUSE have a deadline for commands at block devices. A STOP also limits the deadlines of a running pause and of
 * running removals of namespaces. Changes of hosts and listeners do not visit groups and have a queue of their own.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"

static void run_next(struct nvmf_subsystem *subsystem, struct nvmf_op_line *line);
static void resume_subsystem(struct nvmf_subsystem *subsystem);

void nvmf_refuse(nvmf_done_fn done, void *ctx, int error, const char *format, ...)
{
	struct fathom_fault why = { .error = error };
	va_list args;

	must(error < 0);
	va_start(args, format);
	vsnprintf(why.text, sizeof(why.text), format, args);
	va_end(args);
	done(ctx, error, &why);
}

struct nvmf_subsystem *nvmf_subsystem_or_refuse(const char *nqn, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem *subsystem;

	must_be_on(thread_control());
	subsystem = nvmf_subsystem_find(nqn);
	if (!subsystem || subsystem->destroying) {
		nvmf_refuse(done, ctx, -ENOENT, "Subsystem with NQN '%s' not found", nqn);
		return NULL;
	}
	return subsystem;
}

void *nvmf_op_create(size_t bytes, enum nvmf_op_kind kind, nvmf_done_fn done, void *ctx)
{
	struct nvmf_subsystem_op *op = nvmf_alloc(bytes);

	must(bytes >= sizeof(*op));
	op->kind = kind;
	op->done = done;
	op->ctx = ctx;
	return op;
}

static struct nvmf_op_line *line_of(struct nvmf_subsystem *subsystem, enum nvmf_op_kind kind)
{
	return kind == NVMF_OP_ACCESS ? &subsystem->access : &subsystem->states;
}

/* The drain deadline of a stop that starts now. */
static uint64_t stop_deadline(void)
{
	return nvmf_tgt.stop_deadline_tick != 0 ? nvmf_tgt.stop_deadline_tick : nvmf_drain_deadline(nvmf_tgt.drain_ms);
}

void nvmf_op_submit(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct nvmf_op_line *line = line_of(subsystem, op->kind);

	must_be_on(thread_control());
	must(op->kind == NVMF_OP_ACCESS || !op->apply);
	if (op->kind == NVMF_OP_STOP && (line->op || subsystem->ns_changes > 0))
		nvmf_group_hurry_all(subsystem, stop_deadline());
	TAILQ_INSERT_TAIL(&line->ops, op, link);
	if (!line->op)
		run_next(subsystem, line);
}

/* ---- operations and changes of namespaces exclude each other ---- */

static bool is_start_or_stop(const struct nvmf_subsystem_op *op)
{
	return op->kind == NVMF_OP_START || op->kind == NVMF_OP_STOP;
}

bool nvmf_subsystem_is_turning(const struct nvmf_subsystem *subsystem)
{
	const struct nvmf_subsystem_op *op;

	if (subsystem->states.op && is_start_or_stop(subsystem->states.op))
		return true;
	TAILQ_FOREACH (op, &subsystem->states.ops, link) {
		if (is_start_or_stop(op))
			return true;
	}
	return false;
}

bool nvmf_subsystem_is_idle(const struct nvmf_subsystem *subsystem)
{
	return nvmf_op_line_is_idle(&subsystem->states) && nvmf_op_line_is_idle(&subsystem->access) &&
	       subsystem->ns_changes == 0 && TAILQ_EMPTY(&subsystem->ns_waiting);
}

void nvmf_subsystem_go_on(struct nvmf_subsystem *subsystem)
{
	must(subsystem->ns_changes == 0);
	if (!subsystem->states.op && !TAILQ_EMPTY(&subsystem->states.ops))
		run_next(subsystem, &subsystem->states);
}

/* ---- end of an operation ---- */

void nvmf_op_end(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	struct nvmf_op_line *line = line_of(subsystem, op->kind);

	must_be_on(thread_control());
	must(line->op == op);
	line->op = NULL;
	if (op->finish)
		op->finish(subsystem, op);
	else if (op->done)
		op->done(op->ctx, op->rc, &op->why);
	free(op);
	/* done() may have submitted and started the next operation. It must not have freed the subsystem. */
	if (!line->op && !TAILQ_EMPTY(&line->ops))
		run_next(subsystem, line);
	if (!nvmf_subsystem_is_turning(subsystem))
		nvmf_ns_changes_go_on(subsystem);
}

static void op_finished(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	must(op);
	if (op->after)
		op->after(subsystem, op);
	else
		nvmf_op_end(subsystem, op);
}

static void run_after(struct nvmf_subsystem *subsystem)
{
	must(subsystem->state == NVMF_SUBSYSTEM_INACTIVE || subsystem->state == NVMF_SUBSYSTEM_ACTIVE ||
	     subsystem->state == NVMF_SUBSYSTEM_PAUSED);
	op_finished(subsystem, subsystem->states.op);
}

static void move_state(struct nvmf_subsystem *subsystem, enum nvmf_subsystem_state to)
{
	nvmf_subsystem_state_move(reactor_now(), subsystem, to);
}

/* Start a state change to `requested`, with the intermediate state `through`. */
static void begin_change(struct nvmf_subsystem *subsystem, enum nvmf_subsystem_state requested,
			 enum nvmf_subsystem_state through)
{
	must(subsystem->states.op);
	must(subsystem->state != requested);
	subsystem->requested = requested;
	subsystem->original = subsystem->state;
	probe_nvmf_subsystem_change_state(reactor_now(), subsystem->nqn_istr, requested, subsystem->state);
	move_state(subsystem, through);
}

static void end_change(struct nvmf_subsystem *subsystem, enum nvmf_subsystem_state to, int status)
{
	move_state(subsystem, to);
	probe_nvmf_subsystem_change_state_done(reactor_now(), subsystem->nqn_istr, subsystem->requested,
					       subsystem->original, status);
}

static void op_failed(struct nvmf_subsystem_op *op, int status)
{
	must(status < 0);
	if (op->rc == 0)
		op->rc = status;
	if (op->why.error == 0)
		fill_fault(&op->why, status, "a poll group could not follow: %s", strerror(-status));
}

/* ---- stop, and the failed start ---- */

static void groups_stopped(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;

	must(status == 0);
	end_change(subsystem, NVMF_SUBSYSTEM_INACTIVE, subsystem->states.op->rc);
	run_after(subsystem);
}

static void stop_subsystem(struct nvmf_subsystem *subsystem)
{
	if (subsystem->state == NVMF_SUBSYSTEM_INACTIVE) {
		run_after(subsystem);
		return;
	}
	subsystem->deadline_tick = stop_deadline();
	begin_change(subsystem, NVMF_SUBSYSTEM_INACTIVE, NVMF_SUBSYSTEM_DEACTIVATING);
	for_each_channel(&nvmf_tgt, nvmf_group_deactivate, groups_stopped, subsystem);
}

/* ---- start ---- */

static void groups_started(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;

	if (status) {
		op_failed(subsystem->states.op, status);
		subsystem->deadline_tick = stop_deadline();
		move_state(subsystem, NVMF_SUBSYSTEM_DEACTIVATING);
		for_each_channel(&nvmf_tgt, nvmf_group_deactivate, groups_stopped, subsystem);
		return;
	}
	end_change(subsystem, NVMF_SUBSYSTEM_ACTIVE, 0);
	run_after(subsystem);
}

static void start_subsystem(struct nvmf_subsystem *subsystem)
{
	if (subsystem->state != NVMF_SUBSYSTEM_INACTIVE) {
		run_after(subsystem);
		return;
	}
	begin_change(subsystem, NVMF_SUBSYSTEM_ACTIVE, NVMF_SUBSYSTEM_ACTIVATING);
	for_each_channel(&nvmf_tgt, nvmf_group_activate, groups_started, subsystem);
}

/* ---- pause and resume ---- */

static void groups_resumed(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;

	must(status == 0);
	end_change(subsystem, NVMF_SUBSYSTEM_ACTIVE, 0);
	run_after(subsystem);
}

static void resume_subsystem(struct nvmf_subsystem *subsystem)
{
	begin_change(subsystem, NVMF_SUBSYSTEM_ACTIVE, NVMF_SUBSYSTEM_RESUMING);
	for_each_channel(&nvmf_tgt, nvmf_group_resume, groups_resumed, subsystem);
}

static void groups_paused(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;
	struct nvmf_subsystem_op *op = subsystem->states.op;

	must(subsystem->state == NVMF_SUBSYSTEM_PAUSING);
	if (status) {
		must(status == -ETIMEDOUT);
		op->rc = fault(&op->why, status, "subsystem '%s' has commands at a block device that does not answer",
			       subsystem->options.nqn);
		resume_subsystem(subsystem);
		return;
	}
	end_change(subsystem, NVMF_SUBSYSTEM_PAUSED, 0);
	run_after(subsystem);
}

static void pause_subsystem(struct nvmf_subsystem *subsystem)
{
	begin_change(subsystem, NVMF_SUBSYSTEM_PAUSED, NVMF_SUBSYSTEM_PAUSING);
	for_each_channel(&nvmf_tgt, nvmf_group_pause, groups_paused, subsystem);
}

/* ---- hosts and listeners ---- */

static void change_access(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	must(op->rc == 0);
	if (op->apply)
		op->rc = op->apply(subsystem, op);
	must(op->rc <= 0);
	must(op->rc == 0 || op->why.error == op->rc);
	op_finished(subsystem, op);
}

static void fail_wrong_state(struct nvmf_subsystem *subsystem)
{
	struct nvmf_subsystem_op *op = subsystem->states.op;

	op->rc = fault(&op->why, -EINVAL, "subsystem '%s' is in state %s", subsystem->options.nqn,
		       nvmf_subsystem_state_name(subsystem->state));
	nvmf_op_end(subsystem, op);
}

static void run_next(struct nvmf_subsystem *subsystem, struct nvmf_op_line *line)
{
	struct nvmf_subsystem_op *op = TAILQ_FIRST(&line->ops);

	must(op);
	must(!line->op);
	if (is_start_or_stop(op) && subsystem->ns_changes > 0)
		return; /* nvmf_subsystem_go_on() calls again */
	TAILQ_REMOVE(&line->ops, op, link);
	line->op = op;
	switch (op->kind) {
	case NVMF_OP_START:
		start_subsystem(subsystem);
		return;
	case NVMF_OP_STOP:
		stop_subsystem(subsystem);
		return;
	case NVMF_OP_PAUSE:
		if (subsystem->state == NVMF_SUBSYSTEM_ACTIVE)
			pause_subsystem(subsystem);
		else
			fail_wrong_state(subsystem);
		return;
	case NVMF_OP_RESUME:
		if (subsystem->state == NVMF_SUBSYSTEM_PAUSED)
			resume_subsystem(subsystem);
		else
			fail_wrong_state(subsystem);
		return;
	case NVMF_OP_ACCESS:
		change_access(subsystem, op);
		return;
	}
}

/* ---- dropping controllers ---- */

static bool has_concerned_ctrlr(const struct nvmf_subsystem *subsystem, const struct nvmf_waiter *waiter)
{
	const struct nvmf_ctrlr *ctrlr;

	TAILQ_FOREACH (ctrlr, &subsystem->ctrlrs, link) {
		if (waiter->concerns(ctrlr, waiter->what))
			return true;
	}
	return false;
}

void nvmf_subsystem_ctrlr_gone(struct nvmf_subsystem *subsystem)
{
	struct nvmf_waiter *waiter, *next;

	TAILQ_FOREACH_SAFE (waiter, &subsystem->waiters, link, next) {
		if (has_concerned_ctrlr(subsystem, waiter))
			continue;
		TAILQ_REMOVE(&subsystem->waiters, waiter, link);
		waiter->done(waiter->ctx);
		free(waiter);
	}
}

void nvmf_subsystem_drop_ctrlrs(struct nvmf_subsystem *subsystem, bool (*concerns)(const struct nvmf_ctrlr *, const void *),
				const void *what, const char *reason, void (*done)(void *ctx), void *ctx)
{
	struct nvmf_waiter *waiter;
	struct nvmf_ctrlr *ctrlr;
	bool any = false;

	must_be_on(thread_control());
	must(concerns);
	must(done);
	TAILQ_FOREACH (ctrlr, &subsystem->ctrlrs, link) {
		if (concerns(ctrlr, what)) {
			nvmf_ctrlr_drop(ctrlr, reason);
			any = true;
		}
	}
	if (!any) {
		done(ctx);
		return;
	}
	waiter = nvmf_alloc(sizeof(*waiter));
	waiter->concerns = concerns;
	waiter->what = what;
	waiter->done = done;
	waiter->ctx = ctx;
	TAILQ_INSERT_TAIL(&subsystem->waiters, waiter, link);
}
