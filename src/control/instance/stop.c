/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How an engine is stopped:
 *
 *	PREP_SHUTDOWN -> SIGTERM -(time-out)-> SIGKILL -(time-out)-> the stop fails: the process does not die
 *
 * An engine that hangs gets no PREP_SHUTDOWN and a shorter time-out. The storage is unmounted when the process has ended.
 * An engine that does not die stays STOPPING until the kernel call that it hangs in returns.
 */
#include <signal.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"

static void finish_stop(struct instance *instance)
{
	struct fathom_fault why = instance->stop_why;

	must(instance->process.pid == 0);
	must(instance->working == 0);
	must(!instance->mounted || why.error); /* a stop for another reason leaves the storage mounted */
	instance->stop_why.error = 0;
	if (why.error) {
		instance_fail(instance, &why, NULL);
		return;
	}
	instance_move(instance, INSTANCE_STOPPED);
	instance_answer_all(instance, INSTANCE_DO_STOP, NULL);
	if (instance_waits(instance, INSTANCE_DO_START))
		instance_begin(instance, INSTANCE_DO_START);
	instance_turn_soon(instance);
}

void instance_stop_next(struct instance *instance)
{
	must(instance->state == INSTANCE_STOPPING);
	if (instance->process.pid != 0 || instance->working > 0)
		return;
	if (instance->mounted && !instance->stop_why.error)
		instance_unmount(instance);
	else
		finish_stop(instance);
}

static void on_kill_timeout(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, limit);

	instance_check(instance);
	must(instance->process.killed);
	fill_fault_engine_unkillable(&instance->why, instance->options.index,
				     (uint32_t)instance->process.pid); /* it is shown */
	instance_answer_all(instance, INSTANCE_DO_STOP, &instance->why);
	instance_answer_all(instance, INSTANCE_DO_START, &instance->why);
}

void instance_kill(struct instance *instance)
{
	instance_signal(instance, SIGKILL);
	instance->process.killed = true;
	deadline_set(&instance->deadlines, &instance->limit, instance->options.stop_timeout_ns, on_kill_timeout);
}

static uint64_t stop_timeout_ns(const struct instance *instance)
{
	return instance->process.hung ? min_u64(instance->options.stop_timeout_ns, INSTANCE_HUNG_TERM_SECONDS * NS_PER_SEC)
				      : instance->options.stop_timeout_ns;
}

static void on_term_timeout(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, limit);
	char text[128];

	instance_check(instance);
	must(instance->state == INSTANCE_STOPPING);
	must(instance->process.pid != 0);
	must(!instance->process.killed);
	snprintf(text, sizeof(text), "fathom-engine %u did not stop within %u s and was killed: process %d",
		 instance->options.index, (uint32_t)(stop_timeout_ns(instance) / NS_PER_SEC), instance->process.pid);
	instance_raise(instance, RAS_ENGINE_KILLED, text);
	instance_kill(instance);
}

void instance_kill_again(struct instance *instance)
{
	if (instance->process.pid != 0 && instance->process.killed && !instance->limit.set)
		instance_kill(instance);
}

static void terminate_process(struct instance *instance)
{
	if (instance->process.pid == 0)
		return;
	if (instance->process.killed) { /* instance_move() has cleared the time-out: set it again */
		instance_kill(instance);
		return;
	}
	instance_signal(instance, SIGTERM);
	deadline_set(&instance->deadlines, &instance->limit, stop_timeout_ns(instance), on_term_timeout);
}

/* Terminate it, whatever it answered. */
static void on_prepared(struct instance *instance, const struct drpc_result *result)
{
	terminate_process(instance);
}

static void prepare_engine(struct instance *instance, instance_engine_fn then)
{
	Mgmt__PrepShutdownReq request = MGMT__PREP_SHUTDOWN_REQ__INIT;

	request.rank = instance->superblock.has_rank ? instance->superblock.rank : RANK_NONE;
	instance_ask_engine(instance,
			    &(struct drpc_request){
				    .module = DRPC_MODULE_MGMT,
				    .method = DRPC_MGMT_PREP_SHUTDOWN,
				    .message = &request.base,
				    .response = &mgmt__daos_resp__descriptor,
				    .timeout_ns = instance->options.prepare_timeout_ns,
			    },
			    then);
}

void instance_begin_stopping(struct instance *instance, bool force)
{
	bool serves = instance->state == INSTANCE_JOINED || instance->process.serving;

	instance_move(instance, INSTANCE_STOPPING);
	instance_drop_group(instance);
	if (instance->process.pid != 0)
		(void)!instance_write_pid_file(instance); /* ASKED: the next server raises no death event */
	if (instance->process.pid == 0)
		instance_stop_next(instance);
	else if (force)
		instance_kill(instance);
	else if (serves && !instance->process.prepared && !instance->process.hung)
		prepare_engine(instance, on_prepared);
	else
		terminate_process(instance);
}
