/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * state - operations on a subsystem, one at a time, and the walk of its state over all poll groups.
 *
 *   START   INACTIVE -> ACTIVATING -> ACTIVE          each group makes its part. One fails: DEACTIVATING -> INACTIVE
 *   STOP    ACTIVE, PAUSED -> DEACTIVATING -> INACTIVE  each closes the queue pairs, drops its part
 *   PAUSE   ACTIVE -> PAUSING -> PAUSED               each lets what runs end, and keeps what comes. One cannot in time:
 *                                                     RESUMING -> ACTIVE
 *   RESUME  PAUSED -> RESUMING -> ACTIVE              each goes on
 *
 * STOP and PAUSE have a deadline for what block devices hold. A STOP that is asked for while a pause or the removal of a
 * namespace waits for devices brings these to an end. Changes of hosts and listeners are operations that walk nowhere, in a
 * line of their own.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"

static void run_next(struct nvmf_subsystem *subsystem, struct nvmf_op_line *line);
static void resume(struct nvmf_subsystem *subsystem);

void nvmf_explain(struct fault *why, int error, const char *format, ...)
{
	va_list args;

	must(error < 0);
	why->error = error;
	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
}

void nvmf_refuse(nvmf_done_fn done, void *ctx, int error, const char *format, ...)
{
	struct fault why = { .error = error };
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

/* How long a stop that begins now waits for devices. */
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

/* ---- what else goes on ---- */

static bool turns(const struct nvmf_subsystem_op *op)
{
	return op->kind == NVMF_OP_START || op->kind == NVMF_OP_STOP;
}

bool nvmf_subsystem_is_turning(const struct nvmf_subsystem *subsystem)
{
	const struct nvmf_subsystem_op *op;

	if (subsystem->states.op && turns(subsystem->states.op))
		return true;
	TAILQ_FOREACH (op, &subsystem->states.ops, link) {
		if (turns(op))
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

/* ---- the end of an operation ---- */

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
	/* The caller may have submitted more, and so begun the next; a subsystem is never freed from inside a done. */
	if (!line->op && !TAILQ_EMPTY(&line->ops))
		run_next(subsystem, line);
	if (!nvmf_subsystem_is_turning(subsystem))
		nvmf_ns_changes_go_on(subsystem);
}

static void op_after(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	must(op);
	if (op->after)
		op->after(subsystem, op);
	else
		nvmf_op_end(subsystem, op);
}

static void after(struct nvmf_subsystem *subsystem)
{
	must(subsystem->state == NVMF_SUBSYSTEM_INACTIVE || subsystem->state == NVMF_SUBSYSTEM_ACTIVE ||
	     subsystem->state == NVMF_SUBSYSTEM_PAUSED);
	op_after(subsystem, subsystem->states.op);
}

static void move(struct nvmf_subsystem *subsystem, enum nvmf_subsystem_state to)
{
	nvmf_subsystem_state_move(reactor_now(), subsystem, to);
}

/* A walk begins: to `requested`, by way of `through`. */
static void begin(struct nvmf_subsystem *subsystem, enum nvmf_subsystem_state requested, enum nvmf_subsystem_state through)
{
	must(subsystem->states.op);
	must(subsystem->state != requested);
	subsystem->requested = requested;
	subsystem->original = subsystem->state;
	probe_nvmf_subsystem_change_state(reactor_now(), subsystem->nqn_istr, requested, subsystem->state);
	move(subsystem, through);
}

static void end(struct nvmf_subsystem *subsystem, enum nvmf_subsystem_state to, int status)
{
	move(subsystem, to);
	probe_nvmf_subsystem_change_state_done(reactor_now(), subsystem->nqn_istr, subsystem->requested,
					       subsystem->original, status);
}

static void op_failed(struct nvmf_subsystem_op *op, int status)
{
	must(status < 0);
	if (op->rc == 0)
		op->rc = status;
	if (op->why.error == 0)
		nvmf_explain(&op->why, status, "a poll group could not follow: %s", strerror(-status));
}

/* ---- stop, and the failed start ---- */

static void stopped(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;

	must(status == 0);
	end(subsystem, NVMF_SUBSYSTEM_INACTIVE, subsystem->states.op->rc);
	after(subsystem);
}

static void stop(struct nvmf_subsystem *subsystem)
{
	if (subsystem->state == NVMF_SUBSYSTEM_INACTIVE) {
		after(subsystem);
		return;
	}
	subsystem->deadline_tick = stop_deadline();
	begin(subsystem, NVMF_SUBSYSTEM_INACTIVE, NVMF_SUBSYSTEM_DEACTIVATING);
	for_each_channel(&nvmf_tgt, nvmf_group_deactivate, stopped, subsystem);
}

/* ---- start ---- */

static void started(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;

	if (status) {
		op_failed(subsystem->states.op, status);
		subsystem->deadline_tick = stop_deadline();
		move(subsystem, NVMF_SUBSYSTEM_DEACTIVATING);
		for_each_channel(&nvmf_tgt, nvmf_group_deactivate, stopped, subsystem);
		return;
	}
	end(subsystem, NVMF_SUBSYSTEM_ACTIVE, 0);
	after(subsystem);
}

static void start(struct nvmf_subsystem *subsystem)
{
	if (subsystem->state != NVMF_SUBSYSTEM_INACTIVE) {
		after(subsystem);
		return;
	}
	begin(subsystem, NVMF_SUBSYSTEM_ACTIVE, NVMF_SUBSYSTEM_ACTIVATING);
	for_each_channel(&nvmf_tgt, nvmf_group_activate, started, subsystem);
}

/* ---- pause and resume ---- */

static void resumed(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;

	must(status == 0);
	end(subsystem, NVMF_SUBSYSTEM_ACTIVE, 0);
	after(subsystem);
}

static void resume(struct nvmf_subsystem *subsystem)
{
	begin(subsystem, NVMF_SUBSYSTEM_ACTIVE, NVMF_SUBSYSTEM_RESUMING);
	for_each_channel(&nvmf_tgt, nvmf_group_resume, resumed, subsystem);
}

static void paused(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;
	struct nvmf_subsystem_op *op = subsystem->states.op;

	must(subsystem->state == NVMF_SUBSYSTEM_PAUSING);
	if (status) {
		must(status == -ETIMEDOUT);
		op->rc = fault(&op->why, status, "subsystem '%s' has commands at a block device that does not answer",
			       subsystem->options.nqn);
		resume(subsystem);
		return;
	}
	end(subsystem, NVMF_SUBSYSTEM_PAUSED, 0);
	after(subsystem);
}

static void pause_all(struct nvmf_subsystem *subsystem)
{
	begin(subsystem, NVMF_SUBSYSTEM_PAUSED, NVMF_SUBSYSTEM_PAUSING);
	for_each_channel(&nvmf_tgt, nvmf_group_pause, paused, subsystem);
}

/* ---- hosts and listeners ---- */

static void change_access(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	must(op->rc == 0);
	if (op->apply)
		op->rc = op->apply(subsystem, op);
	must(op->rc <= 0);
	must(op->rc == 0 || op->why.error == op->rc);
	op_after(subsystem, op);
}

static void wrong_state(struct nvmf_subsystem *subsystem)
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
	if (turns(op) && subsystem->ns_changes > 0)
		return; /* nvmf_subsystem_go_on() comes back */
	TAILQ_REMOVE(&line->ops, op, link);
	line->op = op;
	switch (op->kind) {
	case NVMF_OP_START:
		start(subsystem);
		return;
	case NVMF_OP_STOP:
		stop(subsystem);
		return;
	case NVMF_OP_PAUSE:
		if (subsystem->state == NVMF_SUBSYSTEM_ACTIVE)
			pause_all(subsystem);
		else
			wrong_state(subsystem);
		return;
	case NVMF_OP_RESUME:
		if (subsystem->state == NVMF_SUBSYSTEM_PAUSED)
			resume(subsystem);
		else
			wrong_state(subsystem);
		return;
	case NVMF_OP_ACCESS:
		change_access(subsystem, op);
		return;
	}
}

/* ---- waiting for controllers to go ---- */

static bool anyone_left(const struct nvmf_subsystem *subsystem, const struct nvmf_waiter *waiter)
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
		if (anyone_left(subsystem, waiter))
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
