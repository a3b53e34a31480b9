/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests wait in a list until the next turn of the reactor's loop; handle_next_call() then decides by the state. All
 * requests for the same end (started, stopped) are answered together. Answers are sent in the turn, too: `done` is never
 * called from within a request, so callers need not be reentrant.
 */
#include "control/instance/instance.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "control/instance/probes.gen.h"

/* ---- calls ---- */

void instance_answer(struct instance *instance, struct instance_call *call, const struct fathom_fault *why)
{
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
	must(call); /* as for messages: a server that cannot allocate so little must end */
	*call = (struct instance_call){ .kind = kind, .done = done, .ctx = ctx };
	TAILQ_INSERT_TAIL(&instance->calls, call, link);
	instance_turn_soon(instance);
	return call;
}

/* ---- steps ---- */

struct instance_step *instance_step_begin(struct instance *instance)
{
	struct instance_step *step = calloc(1, sizeof(*step));

	must(step);
	step->instance = instance;
	step->moves = instance->moves;
	LIST_INSERT_HEAD(&instance->steps, step, link);
	return step;
}

struct instance *instance_step_end(struct instance_step *step, bool *current_ret)
{
	struct instance *instance = step->instance;

	*current_ret = instance && step->moves == instance->moves;
	if (instance)
		LIST_REMOVE(step, link);
	free(step);
	return instance;
}

/* ---- states ---- */

void instance_move(struct instance *instance, enum instance_state to)
{
	enum instance_state from = instance->state;

	instance_state_move(reactor_now(), instance, to);
	instance->moves++;
	instance->tries = 0;
	deadline_clear(&instance->deadlines, &instance->limit);
	deadline_clear(&instance->deadlines, &instance->again);
	deadline_clear(&instance->deadlines, &instance->restart);
	deadline_clear(&instance->deadlines, &instance->steady);
	deadline_clear(&instance->deadlines, &instance->ping);
	instance_forget_described(instance);
	instance_take_back_group(instance);
	if (to != INSTANCE_ADOPTING && to != INSTANCE_CHECKING && to != INSTANCE_FORMATTING && to != INSTANCE_ERRORED)
		instance->restart_held = false;
	instance->hooks.changed(instance->hooks.ctx, instance, from, to);
}

/* Raise one event for each reason in a row that prevents the start. A process that died has an event of its own. */
static void raise_not_started(struct instance *instance, const struct fathom_fault *why)
{
	bool is_starting = (instance->state == INSTANCE_ADOPTING || instance->state == INSTANCE_CHECKING) &&
			   instance->purpose == INSTANCE_DO_START;
	uint32_t rank = instance->superblock.has_rank ? instance->superblock.rank : RAS_RANK_NONE;
	struct ras_event event;

	if (!is_starting || instance->said_not_started == why->code)
		return;
	instance->said_not_started = why->code;
	ras_event_init(&event, RAS_ENGINE_NOT_STARTED, "fathom-engine %u is not started: %s", instance->options.index,
		       why->text);
	ras_event_set_engine(&event, rank, 0, instance->options.index, 0, why->text);
	instance->hooks.event(instance->hooks.ctx, instance, &event.message);
}

void instance_fail(struct instance *instance, const struct fathom_fault *why, const enum instance_cause *cause)
{
	struct fathom_fault kept = *why; /* `why` may point into the instance */

	must(why->error && instance->process.pid == 0);
	raise_not_started(instance, why);
	instance->why = kept;
	instance_move(instance, INSTANCE_ERRORED);
	if (cause)
		instance_schedule_restart(instance, *cause);
	else
		instance_resume_restart(instance);
	instance->restart_held = false;
	instance_answer_all(instance, INSTANCE_DO_START, &instance->why);
	instance_answer_all(instance, INSTANCE_DO_FORMAT, &instance->why);
	instance_answer_all(instance, INSTANCE_DO_ERASE, &instance->why);
	instance_answer_all(instance, INSTANCE_DO_LOOK, NULL);
	instance_answer_all(instance, INSTANCE_DO_STOP, NULL); /* it does not run */
	instance_turn_soon(instance);
}

void instance_restore(struct instance *instance)
{
	bool start = instance_waits(instance, INSTANCE_DO_START), stopped = instance->purpose == INSTANCE_DO_STOP;
	struct fathom_fault why = instance->before_why;

	if ((instance->before == INSTANCE_AWAIT_FORMAT || instance->before == INSTANCE_MISSING) && !stopped) {
		instance->why = why;
		instance_move(instance, instance->before);
		if (instance->state == INSTANCE_MISSING)
			instance_look_for_storage(instance);
		instance_answer_all(instance, INSTANCE_DO_START, &why);
	} else if (instance->before == INSTANCE_ERRORED && !stopped && !start) {
		instance_fail(instance, &why, NULL);
	} else {
		instance->why.error = 0;
		instance_move(instance, INSTANCE_STOPPED);
		if (start)
			instance_begin(instance, INSTANCE_DO_START);
	}
	instance_turn_soon(instance);
}

void instance_begin(struct instance *instance, enum instance_request purpose)
{
	must(instance->process.pid == 0 && instance->working == 0);
	instance->purpose = purpose;
	instance_move(instance, INSTANCE_ADOPTING);
	instance_look(instance);
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
static void look_for_engine_first(struct instance *instance, enum instance_request purpose)
{
	instance->before = instance->state;
	instance->before_why = instance->why;
	instance_hold_restart(instance);
	instance_begin(instance, purpose);
}

static void handle_look(struct instance *instance, struct instance_call *call)
{
	if (instance->state == INSTANCE_AWAIT_FORMAT || instance->state == INSTANCE_MISSING ||
	    instance->state == INSTANCE_STOPPED || instance->state == INSTANCE_ERRORED)
		look_for_engine_first(instance, INSTANCE_DO_LOOK);
	else
		instance_answer(instance, call, NULL); /* ADOPTING, or another state that looks for the engine */
}

static void handle_storage_call(struct instance *instance, struct instance_call *call)
{
	const char *what = call->kind == INSTANCE_DO_FORMAT ? "formatting" : "erasing";
	struct fathom_fault why;

	switch (instance->state) {
	case INSTANCE_IDLE:
	case INSTANCE_AWAIT_FORMAT:
	case INSTANCE_MISSING:
	case INSTANCE_STOPPED:
	case INSTANCE_ERRORED:
		look_for_engine_first(instance, call->kind);
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
	bool rests = instance->state == INSTANCE_IDLE || instance->state == INSTANCE_AWAIT_FORMAT ||
		     instance->state == INSTANCE_MISSING || instance->state == INSTANCE_STOPPED ||
		     instance->state == INSTANCE_ERRORED;

	return !call->taken && (instance->working == 0 || !rests);
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
		handle_look(instance, call);
	else if (call->kind != INSTANCE_DO_TELL) /* answered when the engine answers */
		handle_storage_call(instance, call);
	return true;
}

static void run_turn(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, turn);
	struct instance_call *call;

	while (handle_next_call(instance))
		;
	while ((call = TAILQ_FIRST(&instance->answered))) {
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

/* ---- the door: requests ---- */

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

static void ignore_look_result(void *ctx, const struct fathom_fault *why)
{
}

void instance_look_soon(struct instance *instance)
{
	const struct instance_call *call;

	TAILQ_FOREACH (call, &instance->calls, link) {
		if (call->kind == INSTANCE_DO_LOOK)
			return;
	}
	queue_call(instance, INSTANCE_DO_LOOK, ignore_look_result, NULL);
}

struct instance_call *instance_ask_to_tell(struct instance *instance, instance_done_fn done, void *ctx)
{
	struct instance_call *call = queue_call(instance, INSTANCE_DO_TELL, done, ctx);

	call->taken = true;
	return call;
}

/* ---- the door: life ---- */

static int make_path(char *path, const char *folder, const char *name, struct fathom_fault *why)
{
	if ((size_t)snprintf(path, INSTANCE_PATH_BYTES, "%s/%s", folder, name) < INSTANCE_PATH_BYTES)
		return 0;
	return fault(why, -ENAMETOOLONG, "%s is too long", folder);
}

static int make_paths(struct instance *instance, struct fathom_fault *why)
{
	const struct instance_options *o = &instance->options;
	char drpc[40], rpc[40];
	int error = make_path(instance->superblock_path, o->superblock_dir ? o->superblock_dir : o->mount, "superblock",
			      why);

	snprintf(drpc, sizeof(drpc), "fathom_engine%u.sock", o->index);
	snprintf(rpc, sizeof(rpc), "engine%u.sock", o->index);
	if (!error && o->storage == INSTANCE_STORAGE_DEVICE && strlen(o->mount) >= HELPER_TARGET_BYTES_MAX)
		error = fault(why, -ENAMETOOLONG, "%s is too long", o->mount);
	if (!error && o->state_dir && strlen(o->state_dir) >= INSTANCE_PATH_BYTES - 32)
		error = fault(why, -ENAMETOOLONG, "%s is too long", o->state_dir);
	if (!error)
		error = make_path(instance->data_path, o->mount, "data.img", why);
	if (!error)
		error = make_path(instance->socket_path, o->socket_dir, drpc, why);
	return error ? error : make_path(instance->rpc_socket, o->socket_dir, rpc, why);
}

static int init_parts(struct instance *instance, const struct instance_options *options, struct fathom_fault *why)
{
	struct drpc_client_options engine = { .path = instance->socket_path };
	int error = instance_options_check(options, why);

	if (error)
		return error;
	if (instance_options_copy(&instance->options, options) != 0 ||
	    deadlines_init(&instance->deadlines, "instance") != 0)
		return fault(why, -ENOMEM, "out of memory for instance %u", options->index);
	if (!options->ready_timeout_ns)
		instance->options.ready_timeout_ns = 60 * NS_PER_SEC;
	if (!options->stop_timeout_ns)
		instance->options.stop_timeout_ns = 30 * NS_PER_SEC;
	if (!options->prepare_timeout_ns)
		instance->options.prepare_timeout_ns = INSTANCE_PREPARE_SECONDS * NS_PER_SEC;
	if (!options->answer_timeout_ns)
		instance->options.answer_timeout_ns = INSTANCE_ANSWER_SECONDS * NS_PER_SEC;
	if (!options->ping_interval_ns)
		instance->options.ping_interval_ns = INSTANCE_PING_SECONDS * NS_PER_SEC;
	if (!options->steady_ns)
		instance->options.steady_ns = INSTANCE_STEADY_SECONDS * NS_PER_SEC;
	if (!options->missing_interval_ns)
		instance->options.missing_interval_ns = INSTANCE_MISSING_SECONDS * NS_PER_SEC;
	error = make_paths(instance, why);
	return error ? error : drpc_client_create(&engine, &instance->engine, why);
}

static void destroy_parts(struct instance *instance)
{
	drpc_client_destroy(instance->engine);
	deadlines_deinit(&instance->deadlines);
	instance_options_free(&instance->options);
	free(instance);
}

int instance_create(const struct instance_options *options, const struct instance_hooks *hooks,
		    struct instance **instance_ret, struct fathom_fault *why)
{
	struct instance *instance = calloc(1, sizeof(*instance));
	int error;

	must(thread_self());
	must(hooks->join && hooks->event && hooks->gone && hooks->changed);
	if (!instance)
		return fault(why, -ENOMEM, "out of memory for instance %u", options->index);
	trace_object_init(&instance->trace, TRACE_OBJECT_INSTANCE);
	instance->thread = thread_self();
	instance->hooks = *hooks;
	instance->process.pid_fd = -1;
	TAILQ_INIT(&instance->calls);
	TAILQ_INIT(&instance->answered);
	LIST_INIT(&instance->steps);
	error = init_parts(instance, options, why);
	if (error)
		destroy_parts(instance);
	else
		*instance_ret = instance;
	return error;
}

static void cancel_calls(struct instance_calls *calls, const struct fathom_fault *why)
{
	struct instance_call *call;

	while ((call = TAILQ_FIRST(calls))) {
		TAILQ_REMOVE(calls, call, link);
		call->done(call->ctx, why ? why : call->why.error ? &call->why : NULL);
		free(call);
	}
}

void instance_destroy(struct instance *instance)
{
	struct instance_step *step;
	struct fathom_fault why;

	if (!instance)
		return;
	must_be_on(instance->thread);
	instance->destroying = true;
	while ((step = LIST_FIRST(&instance->steps))) {
		LIST_REMOVE(step, link);
		step->instance = NULL;
	}
	instance_process_forget(instance);
	instance_forget_described(instance);
	instance_drop_group(instance);
	if (instance->state != INSTANCE_IDLE)
		instance_state_move(reactor_now(), instance, INSTANCE_IDLE);
	fill_fault(&why, -ECANCELED, "the server lets go of instance %u", instance->options.index); /* reported */
	cancel_calls(&instance->answered, NULL);
	cancel_calls(&instance->calls, &why);
	if (instance->heard)
		srv__notify_ready_req__free_unpacked(instance->heard, NULL);
	destroy_parts(instance);
}

/* ---- the door: its state ---- */

void instance_get_info(const struct instance *instance, struct instance_info *info)
{
	uint64_t now = reactor_now();

	*info = (struct instance_info){
		.index = instance->options.index,
		.state = instance->state,
		.rank = instance->superblock.has_rank ? instance->superblock.rank : RANK_NONE,
		.has_uuid = instance->has_superblock || instance->superblock.has_rank,
		.is_adopted = instance->process.adopted,
		.is_prepared = instance->process.prepared,
		.is_hung = instance->process.hung,
		.incarnation = instance->ready ? instance->ready->incarnation : instance->superblock.incarnation,
		.map_version = instance->process.pid ? instance->group_version : 0,
		.pid = instance->process.pid,
		.uri = instance->ready ? instance->ready->uri : instance->superblock.uri,
		.version = instance->ready ? instance->ready->version : "",
		.storage = instance->options.device ? instance->options.device : instance->options.mount,
		.mount = instance->options.mount,
		.rpc_socket = instance->rpc_socket,
		.why = instance->why.error || !instance->process.hung ? instance->why : instance->process.hung_why,
		.starts = instance->starts,
	};
	memcpy(info->uuid, instance->superblock.uuid, sizeof(info->uuid));
	if (instance->restart.set && instance->restart.due > now)
		info->restart_in_ns = clock_ns_from_ticks(instance->restart.due - now);
	if (instance->restart.set && info->restart_in_ns == 0)
		info->restart_in_ns = 1;
	static_assert(sizeof(info->last_end) == sizeof(instance->last_end), "");
	memcpy(info->last_end, instance->last_end, sizeof(info->last_end));
}
