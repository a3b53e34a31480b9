/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending hosts away: nobody may come any more; then each subsystem is paused, so that what its block devices have is ended
 * and answered, and stopped, which closes its connections. What hosts had sent meanwhile they send again elsewhere.
 *
 * Ending by ourselves: the hosts are sent away, the server is told, and when it has heard (or is not there to hear) the
 * engine stops as by SIGTERM.
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
	DRAIN_TIMEOUT_SEC = 8, /* less than a server waits */
	TELL_TIMEOUT_SEC = 5,  /* how long an end waits for the server to hear of it */
};

struct drain_waiter {
	drain_done_fn done;
	void *ctx;
	STAILQ_ENTRY(drain_waiter) link;
};

static struct {
	STAILQ_HEAD(, drain_waiter) waiters;
	struct deadline timeout, tell_timeout;
	bool is_terminating, drained, told;
} drain = { .waiters = STAILQ_HEAD_INITIALIZER(drain.waiters) };

static void tell_waiters(int32_t status)
{
	struct drain_waiter *waiter;

	while ((waiter = STAILQ_FIRST(&drain.waiters))) {
		STAILQ_REMOVE_HEAD(&drain.waiters, link);
		waiter->done(waiter->ctx, status);
		free(waiter);
	}
}

static void stop_next(void *ctx);

static void subsystem_stopped(void *ctx, int rc, const struct fault *why)
{
	maybe(rc != 0); /* it was taken away meanwhile */
	thread_send_msg(thread_control(), stop_next, NULL);
}

/* By its NQN, for it may have gone since. */
static void subsystem_paused(void *ctx, int rc, const struct fault *why)
{
	char *nqn = ctx;

	maybe(rc != 0); /* it was stopped or paused by hand */
	nvmf_subsystem_stop(nqn, subsystem_stopped, NULL);
	free(nqn);
}

static void drained(void)
{
	deadline_clear(&engine_control.deadlines, &drain.timeout);
	engine_control_move(ENGINE_RANK_DRAINED);
	log_notice("drained: no host is connected");
	drain.drained = true;
	tell_waiters(0);
	self_terminate_check();
}

static void stop_next(void *ctx)
{
	struct nvmf_subsystem *subsystem;
	char *nqn;

	if (engine_control.state != ENGINE_RANK_DRAINING)
		return; /* the engine stops, and the target with it */
	for (subsystem = nvmf_subsystem_first(); subsystem; subsystem = nvmf_subsystem_next(subsystem)) {
		if (nvmf_subsystem_get_state(subsystem) != NVMF_SUBSYSTEM_INACTIVE)
			break;
	}
	if (!subsystem) {
		drained();
		return;
	}
	nqn = strdup(nvmf_subsystem_get_options(subsystem)->nqn);
	must(nqn);
	nvmf_subsystem_pause(nqn, subsystem_paused, nqn);
}

static void timed_out(struct deadline *deadline)
{
	log_error("I/O has not ended in %d s; `fathom trace stuck` shows it", DRAIN_TIMEOUT_SEC);
	tell_waiters(DER_TIMEDOUT);
	drain.drained = true; /* as far as it goes */
	self_terminate_check();
}

static void begin(void)
{
	if (engine_control.state == ENGINE_RANK_DRAINING || engine_control.state == ENGINE_RANK_DRAINED)
		return;
	log_notice("draining: hosts are sent away");
	engine_control_move(ENGINE_RANK_DRAINING);
	drain.drained = false;
	nvmf_target_admit(false);
	deadline_set(&engine_control.deadlines, &drain.timeout, DRAIN_TIMEOUT_SEC * NS_PER_SEC, timed_out);
	thread_send_msg(thread_control(), stop_next, NULL);
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
	begin();
}

void drain_cancel(void)
{
	deadline_clear(&engine_control.deadlines, &drain.timeout);
	deadline_clear(&engine_control.deadlines, &drain.tell_timeout);
	tell_waiters(DER_CANCELED);
}

/* ---- ending by ourselves ---- */

static void stop_engine(void *ctx)
{
	engine_stop();
}

void self_terminate_check(void)
{
	if (!drain.is_terminating || !drain.drained || (event_first() && !drain.told))
		return;
	drain.is_terminating = false;
	thread_send_msg(thread_control(), stop_engine, NULL); /* whoever calls here has not ended yet */
}

static void not_heard(struct deadline *deadline)
{
	drain.told = true;
	self_terminate_check();
}

void engine_self_terminate(const char *reason)
{
	if (drain.is_terminating)
		return;
	log_error("%s: ending", reason);
	drain.is_terminating = true;
	devices_unwatch(); /* its own end is the last that it says */
	engine_raise_event(RAS_ENGINE_SELF_TERMINATED, NULL, "%s", reason);
	deadline_set(&engine_control.deadlines, &drain.tell_timeout, TELL_TIMEOUT_SEC * NS_PER_SEC, not_heard);
	if (engine_control.state == ENGINE_RANK_DRAINED)
		self_terminate_check();
	else
		begin();
}
