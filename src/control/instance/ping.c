/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pings each serving engine every few seconds. An engine that misses INSTANCE_PINGS_MISSED pings in a row hangs: this is
 * shown and raises an event, and so does its next answer. It is killed only if the restart policy for the cause HUNG says
 * so: only the thread that answers pings is known to hang, and the engine may still serve its hosts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "control/instance/probes.gen.h"

static void send_ping(struct deadline *deadline);

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

static void note_answer(struct instance *instance)
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

static void note_health(struct instance *instance, const Mgmt__PingRankResp *answer)
{
	struct instance_health *known = &instance->process.health, health;
	const Shared__StorageHealth *storage = answer->storage;

	memset(&health, 0, sizeof(health)); /* also what lies between the members: memcmp() compares it */
	if (storage) {
		health.is_failed = storage->failed;
		health.errored_volumes = storage->errored_volumes;
		health.read_only_volumes = storage->read_only_volumes;
		health.errored_pools = storage->errored_pools;
		health.since_ns = storage->since_ns;
		health.reason[text_utf8_copy(health.reason, sizeof(health.reason) - 1, storage->reason,
					     strlen(storage->reason))] = '\0';
	}
	if (memcmp(&health, known, sizeof(health)) == 0)
		return;
	memcpy(known, &health, sizeof(health));
	if (instance->hooks.health)
		instance->hooks.health(instance->hooks.ctx, instance);
}

void instance_note_hung(struct instance *instance)
{
	struct instance_process *process = &instance->process;
	uint64_t silent_ns = process->answered ? clock_ns_from_ticks(reactor_now() - process->answered) : 0;
	time_t since = (time_t)((clock_realtime_ns() - silent_ns) / NS_PER_SEC);
	char text[32];
	struct tm tm;

	must(process->pid != 0);
	if (process->hung)
		return;
	must(gmtime_r(&since, &tm));
	must(strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
	fill_fault_engine_hung(&process->hung_why, instance->options.index, (uint32_t)process->pid,
			       text); /* reported and shown */
	process->hung = true;
	instance_raise(instance, RAS_ENGINE_HUNG, process->hung_why.text);
}

static void note_silence(struct instance *instance)
{
	struct instance_process *process = &instance->process;

	if (++process->misses < INSTANCE_PINGS_MISSED)
		return;
	instance_note_hung(instance);
	if (instance->options.restart[INSTANCE_HUNG].restart)
		instance_give_up(instance, &process->hung_why, INSTANCE_HUNG);
}

static void on_ping_answered(struct instance *instance, const struct drpc_result *result)
{
	struct instance_process *process = &instance->process;
	bool is_ours = result->error == -ENOMEM || result->error == -EMFILE || result->error == -ENFILE ||
		       result->error == -EAGAIN; /* the server lacks resources: the ping was not sent */

	if (!result->error)
		note_answer(instance);
	if (!result->error && result->response)
		note_health(instance, (const Mgmt__PingRankResp *)result->response);
	else if (!result->error)
		maybe(true); /* an answer without a body: the engine lives */
	else if (!is_ours)
		note_silence(instance);
	probe_instance_asked(reactor_now(), instance, result->error, process->misses, process->hung);
	if (!process->killed)
		instance_watch(instance);
}

static void send_ping(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, ping);
	Mgmt__PingRankReq request = MGMT__PING_RANK_REQ__INIT;

	instance_check(instance);
	must(instance->process.pid != 0);
	must(instance->process.serving);
	instance->process.ping_at_once = false;
	request.rank = instance->superblock.has_rank ? instance->superblock.rank : RANK_NONE;
	instance_ask_engine(instance,
			    &(struct drpc_request){
				    .module = DRPC_MODULE_MGMT,
				    .method = DRPC_MGMT_PING_RANK,
				    .message = &request.base,
				    .response = &mgmt__ping_rank_resp__descriptor,
				    .timeout_ns = min_u64(instance->options.answer_timeout_ns,
							  instance->options.ping_interval_ns),
			    },
			    on_ping_answered);
}

void instance_watch(struct instance *instance)
{
	if (instance->process.answered == 0)
		instance->process.answered = reactor_now();
	deadline_set(&instance->deadlines, &instance->ping,
		     instance->process.ping_at_once ? 0 : instance->options.ping_interval_ns, send_ping);
}

void instance_ping_at_once(struct instance *instance)
{
	instance->process.ping_at_once = true;
	if (instance->ping.set)
		deadline_set(&instance->deadlines, &instance->ping, 0, send_ping);
}
