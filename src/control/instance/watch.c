/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does an engine that serves still answer? It is asked every few seconds. One that was silent several times in a row hangs:
 * that is told and shown, and so is that it answers again. It is killed only where the restart policy says so (cause HUNG),
 * for its hosts may still be served: what hangs is the thread that answers.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "control/instance/probes.gen.h"

static void ask(struct deadline *deadline);

void instance_raise(struct instance *instance, enum ras_id id, const char *text)
{
	const struct instance_process *process = &instance->process;
	uint32_t rank = instance->superblock.has_rank ? instance->superblock.rank : RAS_RANK_NONE;
	struct ras_event event;

	ras_event_init(&event, id, "%s", text);
	ras_event_set_engine(&event, rank, instance->ready ? instance->ready->incarnation : 0, instance->options.index,
			     (uint64_t)process->pid, text);
	instance->hooks.event(instance->hooks.ctx, instance, &event.message);
}

static void answers(struct instance *instance)
{
	struct instance_process *process = &instance->process;
	char text[64];

	process->misses = 0;
	process->answered = reactor_now();
	if (!process->hung)
		return;
	process->hung = false;
	snprintf(text, sizeof(text), "fathom-engine %u answers again", instance->options.index);
	instance_raise(instance, RAS_ENGINE_ANSWERS, text);
}

void instance_note_hung(struct instance *instance)
{
	struct instance_process *process = &instance->process;
	uint64_t silent_ns = process->answered ? clock_ns_from_ticks(reactor_now() - process->answered) : 0;
	time_t since = (time_t)((clock_realtime_ns() - silent_ns) / NS_PER_SEC);
	char text[32];
	struct tm tm;

	if (process->hung)
		return;
	must(gmtime_r(&since, &tm));
	must(strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
	(void)!fault_engine_hung(&process->hung_why, instance->options.index, (uint32_t)process->pid,
				 text); /* reported and shown */
	process->hung = true;
	instance_raise(instance, RAS_ENGINE_HUNG, process->hung_why.text);
}

static void is_silent(struct instance *instance)
{
	struct instance_process *process = &instance->process;

	if (++process->misses < INSTANCE_PINGS_MISSED)
		return;
	instance_note_hung(instance);
	if (instance->options.restart[INSTANCE_HUNG].restart)
		instance_give_up(instance, &process->hung_why, INSTANCE_HUNG);
}

static void asked(struct instance *instance, const struct drpc_result *result)
{
	struct instance_process *process = &instance->process;
	bool is_ours = result->error == -ENOMEM || result->error == -EMFILE || result->error == -ENFILE ||
		       result->error == -EAGAIN; /* we could not ask */

	if (!result->error)
		answers(instance);
	else if (!is_ours)
		is_silent(instance);
	probe_instance_asked(reactor_now(), instance, result->error, process->misses, process->hung);
	if (!process->killed)
		instance_watch(instance);
}

static void ask(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, ping);
	Mgmt__PingRankReq request = MGMT__PING_RANK_REQ__INIT;

	must(instance->process.pid != 0);
	request.rank = instance->superblock.has_rank ? instance->superblock.rank : RANK_NONE;
	instance_ask_engine(instance, DRPC_MODULE_MGMT, DRPC_MGMT_PING_RANK, &request.base, &mgmt__daos_resp__descriptor,
			    min_u64(instance->options.answer_timeout_ns, instance->options.ping_interval_ns), asked);
}

void instance_watch(struct instance *instance)
{
	if (instance->process.answered == 0)
		instance->process.answered = reactor_now();
	deadline_set(&instance->deadlines, &instance->ping, instance->options.ping_interval_ns, ask);
}
