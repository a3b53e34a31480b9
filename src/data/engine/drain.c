/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Draining: reject new connections; then pause each subsystem, which completes and answers the I/O at its block devices,
 * and stop it, which closes its connections. Hosts retry commands sent meanwhile on another path.
 *
 * Self-termination: drain, send an event to the server, and stop as on SIGTERM once the server accepts it or does not
 * answer in time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "data/engine/control.h"
#include "base/reactor/reactor.h"
#include "data/target/target.h"

enum {
	DRAIN_TIMEOUT_SEC = 8, /* less than the server's timeout */
	EVENT_TIMEOUT_SEC = 5, /* how long self-termination waits for the server to accept the event */
};

struct drain_waiter {
	drain_done_fn done;
	void *ctx;
	STAILQ_ENTRY(drain_waiter) link;
};

static struct {
	STAILQ_HEAD(, drain_waiter) waiters;
	struct deadline timeout, event_timeout;
	bool is_terminating, drained, event_wait_ended;
} drain = { .waiters = STAILQ_HEAD_INITIALIZER(drain.waiters) };

static void complete_drain_waiters(int32_t status)
{
	struct drain_waiter *waiter;

	while ((waiter = STAILQ_FIRST(&drain.waiters))) {
		STAILQ_REMOVE_HEAD(&drain.waiters, link);
		waiter->done(waiter->ctx, status);
		free(waiter);
	}
}

static void stop_next_subsystem(void *ctx);

static void subsystem_stopped(void *ctx, int rc, const struct fathom_fault *why)
{
	maybe(rc != 0); /* the subsystem was removed meanwhile */
	thread_send_msg(thread_control(), stop_next_subsystem, NULL);
}

/* Refers to the subsystem by NQN, because it may have been removed meanwhile. */
static void subsystem_paused(void *ctx, int rc, const struct fathom_fault *why)
{
	char *nqn = ctx;

	maybe(rc != 0); /* an operator stopped or paused it */
	nvmf_subsystem_stop(nqn, subsystem_stopped, NULL);
	free(nqn);
}

static void finish_drain(void)
{
	deadline_clear(&engine_control.deadlines, &drain.timeout);
	engine_control_move(ENGINE_RANK_DRAINED);
	log_notice("drained: no host is connected");
	drain.drained = true;
	complete_drain_waiters(0);
	self_terminate_check();
}

static void stop_next_subsystem(void *ctx)
{
	struct nvmf_subsystem *subsystem;
	char *nqn;

	if (engine_control.state != ENGINE_RANK_DRAINING)
		return; /* the engine stops and stops the target itself */
	for (subsystem = nvmf_subsystem_first(); subsystem; subsystem = nvmf_subsystem_next(subsystem)) {
		if (nvmf_subsystem_get_state(subsystem) != NVMF_SUBSYSTEM_INACTIVE)
			break;
	}
	if (!subsystem) {
		finish_drain();
		return;
	}
	nqn = strdup(nvmf_subsystem_get_options(subsystem)->nqn);
	must(nqn);
	nvmf_subsystem_pause(nqn, subsystem_paused, nqn);
}

static void drain_timed_out(struct deadline *deadline)
{
	log_error("I/O has not completed in %d s; `fathom trace stuck` shows it", DRAIN_TIMEOUT_SEC);
	complete_drain_waiters(DER_TIMEDOUT);
	drain.drained = true; /* give up waiting: self-termination must go on */
	self_terminate_check();
}

static void start_drain(void)
{
	if (engine_control.state == ENGINE_RANK_DRAINING || engine_control.state == ENGINE_RANK_DRAINED)
		return;
	log_notice("draining: hosts are disconnected");
	engine_control_move(ENGINE_RANK_DRAINING);
	drain.drained = false;
	nvmf_target_admit(false);
	deadline_set(&engine_control.deadlines, &drain.timeout, DRAIN_TIMEOUT_SEC * NS_PER_SEC, drain_timed_out);
	thread_send_msg(thread_control(), stop_next_subsystem, NULL);
}

void engine_drain(drain_done_fn done, void *ctx)
{
	struct drain_waiter *waiter;

	if (engine_control.state == ENGINE_RANK_DRAINED) {
		done(ctx, 0);
		return;
	}
	waiter = calloc(1, sizeof(*waiter));
	must(waiter);
	waiter->done = done;
	waiter->ctx = ctx;
	STAILQ_INSERT_TAIL(&drain.waiters, waiter, link);
	start_drain();
}

void drain_cancel(void)
{
	deadline_clear(&engine_control.deadlines, &drain.timeout);
	deadline_clear(&engine_control.deadlines, &drain.event_timeout);
	complete_drain_waiters(DER_CANCELED);
}

/* ---- self-termination ---- */

static void stop_engine(void *ctx)
{
	engine_stop();
}

void self_terminate_check(void)
{
	if (!drain.is_terminating || !drain.drained || (event_first() && !drain.event_wait_ended))
		return;
	drain.is_terminating = false;
	thread_send_msg(thread_control(), stop_engine,
			NULL); /* by message: the caller still uses what engine_stop() frees */
}

static void event_timed_out(struct deadline *deadline)
{
	drain.event_wait_ended = true;
	self_terminate_check();
}

void engine_self_terminate(const char *reason)
{
	if (drain.is_terminating)
		return;
	log_error("%s: stopping", reason);
	drain.is_terminating = true;
	devices_unwatch(); /* no device event may follow this one */
	engine_raise_event(RAS_ENGINE_SELF_TERMINATED, NULL, "%s", reason);
	deadline_set(&engine_control.deadlines, &drain.event_timeout, EVENT_TIMEOUT_SEC * NS_PER_SEC, event_timed_out);
	if (engine_control.state == ENGINE_RANK_DRAINED)
		self_terminate_check();
	else
		start_drain();
}
