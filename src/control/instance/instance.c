/* SPDX-License-Identifier: BSD-2-Clause */
/* An instance's states, the steps of its operations, its creation and its end; requests.c has its requests. */
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

/* ---- invariants ---- */

bool instance_is_resting(enum instance_state state)
{
	return state == INSTANCE_IDLE || state == INSTANCE_AWAIT_FORMAT || state == INSTANCE_MISSING ||
	       state == INSTANCE_STOPPED || state == INSTANCE_ERRORED;
}

static bool has_running_engine(enum instance_state state)
{
	return state == INSTANCE_STARTING || state == INSTANCE_READY || state == INSTANCE_REFUSED ||
	       state == INSTANCE_JOINED;
}

static void check_process(const struct instance *instance)
{
	const struct instance_process *process = &instance->process;
	bool is_there = process->pid != 0;

	must(process->pid >= 0);
	must(is_there == (process->pid_fd >= 0));
	must(is_there == (process->watch != NULL));
	must(is_there || !process->serving);
	must(is_there || !process->prepared);
	must(is_there || !process->killed);
	must(is_there || !process->hung);
	must(is_there || !process->given_up.error);
	must(process->killed || !process->given_up.error);
	must(is_there || !instance->ready);
	must(is_there || !instance->ping.set);
}

void instance_check(const struct instance *instance)
{
	enum instance_state state = instance->state;
	bool is_joined = state == INSTANCE_JOINED;

	must_be_on(instance->thread);
	must(!instance->destroying);
	check_process(instance);
	/* a process exists exactly where the state says so; while STOPPING it may have ended already */
	must(instance->process.pid != 0 || !has_running_engine(state));
	must(instance->process.pid == 0 || has_running_engine(state) || state == INSTANCE_STOPPING);
	must(instance->ready || (state != INSTANCE_READY && state != INSTANCE_REFUSED && !is_joined));
	must(instance->process.serving || (state != INSTANCE_REFUSED && !is_joined));
	/* what belongs to one state is gone with it */
	must(state == INSTANCE_ADOPTING || !instance->described);
	must((instance->described != NULL) == (instance->described_fd > 0));
	must(state == INSTANCE_STOPPING || !instance->stop_why.error);
	must(state == INSTANCE_ERRORED || !instance->restart.set);
	must(is_joined || !instance->steady.set);
	must(is_joined || !instance->group_sent);
	must(!instance->restart_held || state == INSTANCE_ADOPTING || state == INSTANCE_CHECKING ||
	     state == INSTANCE_FORMATTING);
	must(!instance->mounted || instance->options.storage == INSTANCE_STORAGE_DEVICE);
}

/* ---- steps ---- */

struct instance_step *instance_step_begin(struct instance *instance)
{
	struct instance_step *step = calloc(1, sizeof(*step));

	must(step);
	must_be_on(instance->thread);
	must(!instance->destroying);
	step->instance = instance;
	step->moves = instance->moves;
	LIST_INSERT_HEAD(&instance->steps, step, link);
	return step;
}

struct instance *instance_step_end(struct instance_step *step, bool *current_ret)
{
	struct instance *instance = step->instance;

	*current_ret = instance && step->moves == instance->moves;
	if (instance) {
		must(step->moves <= instance->moves);
		instance_check(instance);
		LIST_REMOVE(step, link);
	}
	free(step);
	return instance;
}

/* ---- states ---- */

void instance_move(struct instance *instance, enum instance_state to)
{
	enum instance_state from = instance->state;

	must_be_on(instance->thread);
	must(!instance->destroying);
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

	must(why->error < 0);
	must(instance->process.pid == 0);
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

	must(instance->state == INSTANCE_ADOPTING || instance->state == INSTANCE_FORMATTING);
	must(instance_is_resting(instance->before));
	must(instance->process.pid == 0);
	if ((instance->before == INSTANCE_AWAIT_FORMAT || instance->before == INSTANCE_MISSING) && !stopped) {
		instance->why = why;
		instance_move(instance, instance->before);
		if (instance->state == INSTANCE_MISSING)
			instance_poll_missing_storage(instance);
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
	must(instance->process.pid == 0);
	must(instance->working == 0);
	must(instance_is_resting(instance->state));
	instance->purpose = purpose;
	instance_move(instance, INSTANCE_ADOPTING);
	instance_find_engine(instance);
}

/* ---- creation ---- */

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
	if (!options->storage_timeout_ns)
		instance->options.storage_timeout_ns = INSTANCE_STORAGE_SECONDS * NS_PER_SEC;
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
	drpc_client_destroy(instance->storage_client);
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
	must(!instance->destroying); /* neither a hook nor a `done` may destroy it */
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
	fill_fault(&why, -ECANCELED, "the server has closed instance %u", instance->options.index); /* reported */
	cancel_calls(&instance->answered, NULL);
	cancel_calls(&instance->calls, &why);
	if (instance->heard)
		srv__notify_ready_req__free_unpacked(instance->heard, NULL);
	must(TAILQ_EMPTY(&instance->calls));
	must(TAILQ_EMPTY(&instance->answered));
	must(LIST_EMPTY(&instance->steps));
	must(instance->storage_calls == 0);
	destroy_parts(instance);
}

/* ---- its state ---- */

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
		.health = instance->process.health,
	};
	memcpy(info->uuid, instance->superblock.uuid, sizeof(info->uuid));
	if (instance->restart.set && instance->restart.due > now)
		info->restart_in_ns = clock_ns_from_ticks(instance->restart.due - now);
	if (instance->restart.set && info->restart_in_ns == 0)
		info->restart_in_ns = 1;
	static_assert(sizeof(info->last_end) == sizeof(instance->last_end), "");
	memcpy(info->last_end, instance->last_end, sizeof(info->last_end));
}
