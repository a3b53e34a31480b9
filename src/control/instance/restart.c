/* SPDX-License-Identifier: BSD-2-Clause */
/* An engine that ended without a stop: its event, and its restart by the restart policy. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "control/instance/probes.gen.h"

static const struct {
	const char *name;
	struct instance_restart restart;
} causes[INSTANCE_CAUSES] = {
	[INSTANCE_EXITED] = { "exited", { false, NS_PER_SEC, 300 * NS_PER_SEC, 0 } },
	[INSTANCE_FAILED] = { "failed", { true, NS_PER_SEC, 300 * NS_PER_SEC, 10 } },
	[INSTANCE_CRASHED] = { "crashed", { true, NS_PER_SEC, 300 * NS_PER_SEC, 0 } },
	[INSTANCE_KILLED] = { "killed", { true, NS_PER_SEC, 300 * NS_PER_SEC, 0 } },
	[INSTANCE_SELF_TERMINATED] = { "self_terminated", { true, 10 * NS_PER_SEC, 300 * NS_PER_SEC, 0 } },
	[INSTANCE_NEVER_READY] = { "never_ready", { true, 5 * NS_PER_SEC, 300 * NS_PER_SEC, 5 } },
	[INSTANCE_GONE] = { "gone", { true, NS_PER_SEC, 300 * NS_PER_SEC, 0 } },
	[INSTANCE_HUNG] = { "hung", { false, 5 * NS_PER_SEC, 300 * NS_PER_SEC, 5 } },
};

const char *instance_cause_word(enum instance_cause cause)
{
	must((unsigned int)cause < INSTANCE_CAUSES);
	return causes[cause].name;
}

struct instance_restart instance_restart_default(enum instance_cause cause)
{
	must((unsigned int)cause < INSTANCE_CAUSES);
	return causes[cause].restart;
}

void instance_set_restart(struct instance *instance, enum instance_cause cause, const struct instance_restart *restart)
{
	must_be_on(instance->thread);
	must((unsigned int)cause < INSTANCE_CAUSES);
	instance->options.restart[cause] = *restart;
}

struct instance_restart instance_get_restart(const struct instance *instance, enum instance_cause cause)
{
	must((unsigned int)cause < INSTANCE_CAUSES);
	return instance->options.restart[cause];
}

void instance_clear_history(struct instance *instance)
{
	instance->restarts = 0;
	instance->restart_held = false;
	deadline_clear(&instance->deadlines, &instance->restart);
}

static void end_restart_row(struct deadline *deadline)
{
	container_of(deadline, struct instance, steady)->restarts = 0;
}

void instance_begin_steady(struct instance *instance)
{
	deadline_set(&instance->deadlines, &instance->steady, instance->options.steady_ns, end_restart_row);
}

/* A restart by policy, not by an operator. */
static void raise_restarted(struct instance *instance)
{
	uint32_t rank = instance->superblock.has_rank ? instance->superblock.rank : RAS_RANK_NONE;
	struct ras_event event;

	ras_event_init(&event, RAS_ENGINE_RESTARTED, "fathom-engine %" PRIu32 " is restarted, restart %" PRIu32 " in a row",
		       instance->options.index, instance->restarts);
	ras_event_set_engine(&event, rank, 0, instance->options.index, 0, "");
	instance->hooks.event(instance->hooks.ctx, instance, &event.message);
}

static void start_due_restart(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, restart);

	instance_check(instance);
	must(instance->state == INSTANCE_ERRORED);
	if (instance->working > 0) { /* an abandoned operation on the storage has not ended yet */
		deadline_set(&instance->deadlines, &instance->restart, INSTANCE_AGAIN_MS * NS_PER_MS, start_due_restart);
		return;
	}
	instance->restarts++;
	raise_restarted(instance);
	instance_begin(instance, INSTANCE_DO_START);
}

void instance_hold_restart(struct instance *instance)
{
	instance->restart_held = instance->restart.set;
	instance->restart_held_due = instance->restart.due;
}

void instance_resume_restart(struct instance *instance)
{
	uint64_t now = reactor_now(), at = instance->restart_held_due;

	must(instance->state == INSTANCE_ERRORED);
	if (!instance->restart_held)
		return;
	instance->restart_held = false;
	deadline_set(&instance->deadlines, &instance->restart, at > now ? clock_ns_from_ticks(at - now) : 0,
		     start_due_restart);
}

static uint64_t restart_delay_ns(const struct instance_restart *restart, uint32_t row)
{
	uint64_t delay = min_u64(restart->delay_min_ns, restart->delay_max_ns);

	for (; row > 0 && delay < restart->delay_max_ns && delay > 0; row--)
		delay = delay > restart->delay_max_ns / 2 ? restart->delay_max_ns : 2 * delay;
	return delay;
}

void instance_schedule_restart(struct instance *instance, enum instance_cause cause)
{
	const struct instance_restart *restart = &instance->options.restart[cause];
	uint64_t delay = restart_delay_ns(restart, instance->restarts);
	char how[FAULT_TEXT_BYTES_MAX];

	must((unsigned int)cause < INSTANCE_CAUSES);
	must(!instance->restart.set);
	must(instance->state == INSTANCE_ERRORED);
	if (!restart->restart)
		return;
	if (restart->limit > 0 && instance->restarts >= restart->limit) {
		snprintf(how, sizeof(how), "%s", instance->last_end[0] != '\0' ? instance->last_end : instance->why.text);
		fill_fault_restarts_spent(&instance->why, instance->options.index, instance->restarts, how,
					  instance_log(instance)); /* shown */
		return;
	}
	probe_instance_restart_due(reactor_now(), instance, cause, delay, instance->restarts);
	deadline_set(&instance->deadlines, &instance->restart, delay, start_due_restart);
}

void instance_report_death(struct instance *instance, const char *how, uint64_t pid, uint64_t incarnation, uint32_t rank)
{
	struct ras_event event;

	ras_event_init(&event, RAS_ENGINE_DIED, "fathom-engine %" PRIu32 " exited unexpectedly: %s",
		       instance->options.index, how);
	ras_event_set_engine(&event, rank, incarnation, instance->options.index, pid, how);
	instance->hooks.event(instance->hooks.ctx, instance, &event.message);
}

/* It ended because its rank was excluded. The rank may be a member again by now. */
static void raise_excluded(struct instance *instance, uint64_t pid, uint64_t incarnation, uint32_t rank)
{
	struct ras_event event;

	ras_event_init(&event, RAS_ENGINE_SELF_TERMINATED,
		       "fathom-engine %" PRIu32 " has ended because its rank was excluded", instance->options.index);
	ras_event_set_engine(&event, rank, incarnation, instance->options.index, pid, "");
	instance->hooks.event(instance->hooks.ctx, instance, &event.message);
}

void instance_died(struct instance *instance, enum instance_cause cause, const char *how, pid_t pid, uint64_t incarnation)
{
	uint32_t rank = instance->superblock.has_rank ? instance->superblock.rank : RAS_RANK_NONE;
	struct fathom_fault why = instance->process.given_up;

	must(instance->process.pid == 0);
	must(pid > 0);
	if (cause == INSTANCE_SELF_TERMINATED)
		raise_excluded(instance, (uint64_t)pid, incarnation, rank);
	else
		instance_report_death(instance, how, (uint64_t)pid, incarnation, rank);
	if (!why.error)
		fill_fault_engine_ended(&why, instance->options.index, how, instance_log(instance)); /* it is shown */
	instance_fail(instance, &why, &cause);
}
