/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests wait in a list until the next turn of the reactor's loop; handle_next_call() then decides by the state. All
 * requests for the same end (started, stopped) are answered together. Answers are sent in the turn, too: `done` is never
 * called from within a request, so callers need not be reentrant.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"

/* ---- calls ---- */

void instance_answer(struct instance *instance, struct instance_call *call, const struct fathom_fault *why)
{
	must(call->taken);
	must(!why || why->error < 0);
	TAILQ_REMOVE(&instance->calls, call, link);
	if (why)
		call->why = *why;
	TAILQ_INSERT_TAIL(&instance->answered, call, link);
	instance_turn_soon(instance);
}

void instance_answer_all(struct instance *instance, enum instance_request kind, const struct fathom_fault *why)
{
	struct instance_call *call, *next;

	TAILQ_FOREACH_SAFE (call, &instance->calls, link, next) {
		if (call->kind == kind && call->taken)
			instance_answer(instance, call, why);
	}
}

bool instance_waits(const struct instance *instance, enum instance_request kind)
{
	const struct instance_call *call;

	TAILQ_FOREACH (call, &instance->calls, link) {
		if (call->kind == kind && call->taken)
			return true;
	}
	return false;
}

static struct instance_call *queue_call(struct instance *instance, enum instance_request kind, instance_done_fn done,
					void *ctx)
{
	struct instance_call *call = calloc(1, sizeof(*call));

	must_be_on(instance->thread);
	must(!instance->destroying);
	must(done);
	must(call); /* as for messages: a server that cannot allocate so little must end */
	*call = (struct instance_call){ .kind = kind, .done = done, .ctx = ctx };
	TAILQ_INSERT_TAIL(&instance->calls, call, link);
	instance_turn_soon(instance);
	return call;
}

/* ---- requests ---- */

/*
 * The engine runs. A prepared engine has disconnected its hosts, so it is stopped and started. Any other engine joins
 * again, since the management service may list it in another state; its hosts do not notice.
 */
static void start_running_engine(struct instance *instance)
{
	if (instance->process.killed) {
		instance_kill_again(instance);
	} else if (instance->process.prepared) {
		instance_begin_stopping(instance, false);
	} else if (instance->process.hung) {
		instance_answer_all(instance, INSTANCE_DO_START, &instance->process.hung_why);
	} else if (instance->state != INSTANCE_READY) {
		instance_move(instance, INSTANCE_READY);
		instance_join(instance);
	}
}

static void handle_start(struct instance *instance, struct instance_call *call)
{
	instance_clear_history(instance);
	switch (instance->state) {
	case INSTANCE_READY:
	case INSTANCE_REFUSED:
	case INSTANCE_JOINED:
		start_running_engine(instance);
		break;
	case INSTANCE_ADOPTING:
		if (instance->purpose == INSTANCE_DO_LOOK)
			instance->purpose = INSTANCE_DO_START;
		break;
	case INSTANCE_STARTING:
	case INSTANCE_STOPPING:
		instance_kill_again(instance);
		break;
	case INSTANCE_IDLE:
	case INSTANCE_AWAIT_FORMAT:
	case INSTANCE_MISSING:
	case INSTANCE_STOPPED:
	case INSTANCE_ERRORED:
		instance_begin(instance, INSTANCE_DO_START);
		break;
	default: /* a start is under way, or follows the operation that is under way */
		break;
	}
}

static void cancel_starts(struct instance *instance)
{
	struct fathom_fault why;

	fill_fault_instance_stopped(&why, instance->options.index); /* reported */
	instance_answer_all(instance, INSTANCE_DO_START, &why);
}

static void handle_stop(struct instance *instance, struct instance_call *call)
{
	instance_clear_history(instance);
	cancel_starts(instance);
	switch (instance->state) {
	case INSTANCE_IDLE:
	case INSTANCE_ERRORED: /* its process may exist: it did not answer when it was looked for, or started since */
		instance_begin(instance, INSTANCE_DO_STOP);
		break;
	case INSTANCE_ADOPTING:
		if (instance->purpose == INSTANCE_DO_START || instance->purpose == INSTANCE_DO_LOOK)
			instance->purpose = INSTANCE_DO_STOP;
		break;
	case INSTANCE_FORMATTING: /* it does not run, and is not started after the formatting */
		instance->purpose = INSTANCE_DO_STOP;
		instance_answer(instance, call, NULL);
		break;
	case INSTANCE_AWAIT_FORMAT:
	case INSTANCE_MISSING:
		instance->why.error = 0;
		instance_begin_stopping(instance, false);
		break;
	case INSTANCE_STOPPED:
		instance_answer(instance, call, NULL);
		break;
	case INSTANCE_CHECKING:
		if (instance->purpose == INSTANCE_DO_START)
			instance_begin_stopping(instance, false);
		break; /* erasing ends in AWAIT_FORMAT, which answers the stop */
	case INSTANCE_STOPPING:
		instance->stop_why.error = 0;
		if (call->force && instance->process.pid != 0 && !instance->process.killed)
			instance_kill(instance);
		instance_kill_again(instance);
		break;
	default:
		instance->why.error = 0;
		instance_begin_stopping(instance, call->force);
		break;
	}
}

/* Look for an engine, and remember what the instance is now. */
static void find_engine_first(struct instance *instance, enum instance_request purpose)
{
	must(instance_is_resting(instance->state));
	instance->before = instance->state;
	instance->before_why = instance->why;
	instance_hold_restart(instance);
	instance_begin(instance, purpose);
}

static void handle_find_engine(struct instance *instance, struct instance_call *call)
{
	if (instance->state == INSTANCE_AWAIT_FORMAT || instance->state == INSTANCE_MISSING ||
	    instance->state == INSTANCE_STOPPED || instance->state == INSTANCE_ERRORED)
		find_engine_first(instance, INSTANCE_DO_LOOK);
	else
		instance_answer(instance, call, NULL); /* ADOPTING, or another state that looks for the engine */
}

static void handle_storage_call(struct instance *instance, struct instance_call *call)
{
	const char *what = call->kind == INSTANCE_DO_FORMAT ? "formatting" : "erasing";
	struct fathom_fault why;

	must(call->kind == INSTANCE_DO_FORMAT || call->kind == INSTANCE_DO_ERASE);
	switch (instance->state) {
	case INSTANCE_IDLE:
	case INSTANCE_AWAIT_FORMAT:
	case INSTANCE_MISSING:
	case INSTANCE_STOPPED:
	case INSTANCE_ERRORED:
		find_engine_first(instance, call->kind);
		break;
	case INSTANCE_STARTING:
	case INSTANCE_READY:
	case INSTANCE_REFUSED:
	case INSTANCE_JOINED:
		fill_fault_engine_running(&why, instance->options.index, what); /* reported */
		instance_answer(instance, call, &why);
		break;
	default:
		fill_fault_instance_busy(&why, instance->options.index,
					 instance_state_name(instance->state)); /* likewise */
		instance_answer(instance, call, &why);
		break;
	}
}

/* In a state of rest a request waits until the last operation on the storage has ended. */
static bool may_handle_call(const struct instance *instance, const struct instance_call *call)
{
	return !call->taken && (instance->working == 0 || !instance_is_resting(instance->state));
}

/* Handle the next request; false: there is none. */
static bool handle_next_call(struct instance *instance)
{
	struct instance_call *call;

	TAILQ_FOREACH (call, &instance->calls, link) {
		if (may_handle_call(instance, call))
			break;
	}
	if (!call)
		return false;
	call->taken = true;
	if (call->kind == INSTANCE_DO_START)
		handle_start(instance, call);
	else if (call->kind == INSTANCE_DO_STOP)
		handle_stop(instance, call);
	else if (call->kind == INSTANCE_DO_LOOK)
		handle_find_engine(instance, call);
	else if (call->kind != INSTANCE_DO_TELL) /* answered when the engine answers */
		handle_storage_call(instance, call);
	return true;
}

static void run_turn(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, turn);
	struct instance_call *call;

	instance_check(instance);
	while (handle_next_call(instance))
		instance_check(instance);
	while ((call = TAILQ_FIRST(&instance->answered))) {
		must(call->taken);
		TAILQ_REMOVE(&instance->answered, call, link);
		call->done(call->ctx, call->why.error ? &call->why : NULL);
		free(call);
	}
}

void instance_turn_soon(struct instance *instance)
{
	if (!instance->destroying)
		deadline_set(&instance->deadlines, &instance->turn, 0, run_turn);
}

/* ---- requests from outside ---- */

void instance_start(struct instance *instance, instance_done_fn done, void *ctx)
{
	queue_call(instance, INSTANCE_DO_START, done, ctx);
}

void instance_stop(struct instance *instance, bool force, instance_done_fn done, void *ctx)
{
	queue_call(instance, INSTANCE_DO_STOP, done, ctx)->force = force;
}

void instance_format(struct instance *instance, const struct instance_format *format, instance_done_fn done, void *ctx)
{
	queue_call(instance, INSTANCE_DO_FORMAT, done, ctx)->format = *format;
}

void instance_erase(struct instance *instance, instance_done_fn done, void *ctx)
{
	queue_call(instance, INSTANCE_DO_ERASE, done, ctx);
}

static void ignore_find_result(void *ctx, const struct fathom_fault *why)
{
}

void instance_find_engine_soon(struct instance *instance)
{
	const struct instance_call *call;

	TAILQ_FOREACH (call, &instance->calls, link) {
		if (call->kind == INSTANCE_DO_LOOK)
			return;
	}
	queue_call(instance, INSTANCE_DO_LOOK, ignore_find_result, NULL);
}

struct instance_call *instance_begin_report(struct instance *instance, instance_done_fn done, void *ctx)
{
	struct instance_call *call = queue_call(instance, INSTANCE_DO_TELL, done, ctx);

	call->taken = true;
	return call;
}
