/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * state - operations on a subsystem, one at a time, and the walk of its state over all poll groups.
 *
 *   START   INACTIVE -> ACTIVATING -> ACTIVE          each group makes its part. One fails: DEACTIVATING -> INACTIVE
 *   STOP    ACTIVE, PAUSED -> DEACTIVATING -> INACTIVE  each closes the queue pairs, drops its part
 *   CHANGE  ACTIVE -> PAUSING -> PAUSED               each lets what runs end, and keeps what comes
 *           apply
 *           PAUSED -> RESUMING -> ACTIVE              each follows the change and goes on
 *
 * Where a group cannot follow (no channel to a block device), RESUMING falls back to PAUSED, the change is undone, and it
 * resumes as it was before. In INACTIVE a change is just applied; paused by hand, groups follow it and stay paused.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/controller/controller.h"
#include "target/probes.gen.h"

static void run_next(struct nvmf_subsystem *subsystem);
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

void nvmf_op_submit(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	must_be_on(thread_control());
	must(op->kind == NVMF_OP_CHANGE || !op->apply);
	must(!op->undo || op->apply);
	TAILQ_INSERT_TAIL(&subsystem->ops, op, link);
	if (!subsystem->op)
		run_next(subsystem);
}

/* ---- the end of an operation ---- */

void nvmf_op_end(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op)
{
	must_be_on(thread_control());
	must(subsystem->op == op);
	subsystem->op = NULL;
	if (op->finish)
		op->finish(subsystem, op);
	else if (op->done)
		op->done(op->ctx, op->rc, &op->why);
	free(op);
	/* The caller may have submitted more, and so begun the next; a subsystem is never freed from inside a done. */
	if (!subsystem->op && !TAILQ_EMPTY(&subsystem->ops))
		run_next(subsystem);
}

static void after(struct nvmf_subsystem *subsystem)
{
	struct nvmf_subsystem_op *op = subsystem->op;

	must(op);
	must(subsystem->state == NVMF_SUBSYSTEM_INACTIVE || subsystem->state == NVMF_SUBSYSTEM_ACTIVE ||
	     subsystem->state == NVMF_SUBSYSTEM_PAUSED);
	if (op->after)
		op->after(subsystem, op);
	else
		nvmf_op_end(subsystem, op);
}

static void move(struct nvmf_subsystem *subsystem, enum nvmf_subsystem_state to)
{
	nvmf_subsystem_state_move(reactor_now(), subsystem, to);
}

/* A walk begins: to `requested`, by way of `through`. */
static void begin(struct nvmf_subsystem *subsystem, enum nvmf_subsystem_state requested, enum nvmf_subsystem_state through)
{
	must(subsystem->op);
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
	end(subsystem, NVMF_SUBSYSTEM_INACTIVE, subsystem->op->rc);
	after(subsystem);
}

static void stop(struct nvmf_subsystem *subsystem)
{
	if (subsystem->state == NVMF_SUBSYSTEM_INACTIVE) {
		after(subsystem);
		return;
	}
	begin(subsystem, NVMF_SUBSYSTEM_INACTIVE, NVMF_SUBSYSTEM_DEACTIVATING);
	for_each_channel(&nvmf_tgt, nvmf_group_deactivate, stopped, subsystem);
}

/* ---- start ---- */

static void started(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;

	if (status) {
		op_failed(subsystem->op, status);
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

/* ---- resume ---- */

/* As it was before, which every group can follow: it holds all that it needs for that. */
static void fallen_back(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;

	must(status == 0);
	end(subsystem, NVMF_SUBSYSTEM_PAUSED, subsystem->op->rc);
	subsystem->op->undo(subsystem, subsystem->op);
	resume(subsystem);
}

static void resumed(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;
	struct nvmf_subsystem_op *op = subsystem->op;

	if (status == 0) {
		end(subsystem, NVMF_SUBSYSTEM_ACTIVE, 0);
		after(subsystem);
		return;
	}
	/* Some groups run already: pause these again. */
	must(op->rc == 0);
	must(op->undo);
	op_failed(op, status);
	for_each_channel(&nvmf_tgt, nvmf_group_pause, fallen_back, subsystem);
}

static void resume(struct nvmf_subsystem *subsystem)
{
	begin(subsystem, NVMF_SUBSYSTEM_ACTIVE, NVMF_SUBSYSTEM_RESUMING);
	for_each_channel(&nvmf_tgt, nvmf_group_resume, resumed, subsystem);
}

/* ---- change ---- */

static void followed(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;
	struct nvmf_subsystem_op *op = subsystem->op;

	if (status) {
		must(op->rc == 0);
		must(op->undo);
		op_failed(op, status);
		op->undo(subsystem, op);
		for_each_channel(&nvmf_tgt, nvmf_group_follow, followed, subsystem);
		return;
	}
	after(subsystem);
}

static void apply(struct nvmf_subsystem *subsystem)
{
	struct nvmf_subsystem_op *op = subsystem->op;

	must(subsystem->state == NVMF_SUBSYSTEM_INACTIVE || subsystem->state == NVMF_SUBSYSTEM_PAUSED);
	must(op->rc == 0);
	if (op->apply)
		op->rc = op->apply(subsystem, op);
	must(op->rc <= 0);
	must(op->rc == 0 || op->why.error == op->rc);
}

static void paused(int status, void *ctx)
{
	struct nvmf_subsystem *subsystem = ctx;

	must(status == 0);
	must(subsystem->state == NVMF_SUBSYSTEM_PAUSING);
	end(subsystem, NVMF_SUBSYSTEM_PAUSED, 0);
	if (subsystem->op->kind == NVMF_OP_PAUSE) {
		after(subsystem);
		return;
	}
	apply(subsystem);
	resume(subsystem);
}

static void pause_all(struct nvmf_subsystem *subsystem)
{
	begin(subsystem, NVMF_SUBSYSTEM_PAUSED, NVMF_SUBSYSTEM_PAUSING);
	for_each_channel(&nvmf_tgt, nvmf_group_pause, paused, subsystem);
}

static void change(struct nvmf_subsystem *subsystem)
{
	switch (subsystem->state) {
	case NVMF_SUBSYSTEM_ACTIVE:
		pause_all(subsystem);
		return;
	case NVMF_SUBSYSTEM_PAUSED:
		apply(subsystem);
		for_each_channel(&nvmf_tgt, nvmf_group_follow, followed, subsystem);
		return;
	case NVMF_SUBSYSTEM_INACTIVE:
		apply(subsystem);
		after(subsystem);
		return;
	default:
		must(false);
	}
}

static void wrong_state(struct nvmf_subsystem *subsystem)
{
	struct nvmf_subsystem_op *op = subsystem->op;

	op->rc = fault(&op->why, -EINVAL, "subsystem '%s' is in state %s", subsystem->options.nqn,
		       nvmf_subsystem_state_name(subsystem->state));
	nvmf_op_end(subsystem, op);
}

static void run_next(struct nvmf_subsystem *subsystem)
{
	struct nvmf_subsystem_op *op = TAILQ_FIRST(&subsystem->ops);

	must(op);
	must(!subsystem->op);
	TAILQ_REMOVE(&subsystem->ops, op, link);
	subsystem->op = op;
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
	case NVMF_OP_CHANGE:
		change(subsystem);
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
