/* SPDX-License-Identifier: BSD-2-Clause */
/* The instances of the configured engines: creates and starts them, and logs their state changes. */
#include "control/server/engines/engines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/server/core/probes.gen.h"
#include "control/server/engines/internal.h"
#include "control/server/events/events.h"

static void on_instance_event(void *ctx, struct instance *instance, const Shared__RASEvent *event)
{
	struct instance_info info;

	instance_get_info(instance, &info);
	must(info.index < SERVER_ENGINES_MAX);
	server_add_event(ctx, info.index, event);
	if (event->id == RAS_ENGINE_HUNG || event->id == RAS_ENGINE_ANSWERS)
		report_soon(((struct server *)ctx)->engines);
}

static void on_engine_gone(void *ctx, struct instance *instance)
{
	events_collect_engine_spool(ctx, instance);
}

/* Sent as a message: must not run inside the hook, while the instance is still changing its state. */
static void begin_waiting_formats(void *ctx)
{
	struct server *server = ctx;

	server_job_end(server);
	engines_begin_formats(server);
}

static void on_state_changed(void *ctx, struct instance *instance, enum instance_state from, enum instance_state to)
{
	struct server *server = ctx;
	struct instance_info info;
	char about[32];

	instance_get_info(instance, &info);
	must(from != to);
	must(server->engines);
	must(info.index < SERVER_ENGINES_MAX);
	if (!STAILQ_EMPTY(&server->engines->formats)) {
		server_job_begin(server);
		thread_send_msg(thread_self(), begin_waiting_formats, server);
	}
	/* no report for READY and JOINED: the join has reported these to the management service */
	if (to == INSTANCE_STOPPED || to == INSTANCE_ERRORED || to == INSTANCE_AWAIT_FORMAT || to == INSTANCE_MISSING ||
	    to == INSTANCE_STARTING || to == INSTANCE_STOPPING)
		report_soon(server->engines);
	switch (to) {
	case INSTANCE_JOINED:
		log_notice("engine %u is rank %u at %s%s", info.index, info.rank, info.uri,
			   info.is_adopted ? ", adopted" : "");
		break;
	case INSTANCE_REFUSED:
		log_warning("engine %u serves, but the management service rejects its join", info.index);
		snprintf(about, sizeof(about), "engine %u", info.index);
		if (info.why.error)
			server_log_fault(LOG_LEVEL_WARNING, about, &info.why);
		break;
	case INSTANCE_AWAIT_FORMAT:
		log_notice("engine %u: %s is not formatted: `fathom storage format`", info.index, info.storage);
		break;
	case INSTANCE_MISSING:
	case INSTANCE_ERRORED:
		snprintf(about, sizeof(about), "engine %u", info.index);
		server_log_fault(LOG_LEVEL_ERROR, about, &info.why);
		break;
	case INSTANCE_STOPPED:
		log_notice("engine %u is stopped", info.index);
		break;
	default:
		log_info("engine %u: %s -> %s", info.index, instance_state_name(from), instance_state_name(to));
		break;
	}
}

static void on_health_changed(void *ctx, struct instance *instance)
{
	struct server *server = ctx;
	struct instance_info info;

	instance_get_info(instance, &info);
	if (info.health.reason[0])
		log_warning("engine %u, its storage: %s", info.index, info.health.reason);
	else
		log_notice("engine %u: its storage is well again", info.index);
	report_soon(server->engines);
}

int engines_open(struct server *server, struct fathom_fault *why)
{
	const struct instance_hooks hooks = {
		.ctx = server,
		.join = server_join,
		.event = on_instance_event,
		.gone = on_engine_gone,
		.changed = on_state_changed,
		.health = on_health_changed,
	};
	struct server_engines *engines = calloc(1, sizeof(*engines));
	int error = 0;

	must(!server->engines);
	must(server->events); /* hooks raise events */
	must(server->instance_count == 0);
	must(server->config->engines.count <= SERVER_ENGINES_MAX);
	must(server->helper);
	if (!engines)
		return fault(why, -ENOMEM, "out of memory");
	engines->server = server;
	STAILQ_INIT(&engines->formats);
	server->engines = engines;
	restart_policies_init(engines);
	for (uint32_t i = 0; !error && i < server->config->engines.count; i++) {
		struct instance_options options;
		struct instance_texts texts;

		error = engine_options_fill(server, i, &texts, &options, why);
		if (!error)
			error = instance_create(&options, &hooks, &server->instances[i], why);
		if (!error)
			server->instance_count++;
	}
	must(error || server->instance_count == server->config->engines.count);
	return error;
}

/* A fault of the start is logged by on_state_changed(). */
static void on_engine_started(void *ctx, const struct fathom_fault *why)
{
	struct server *server = ctx;

	must(server->engines->starting > 0);
	must(server->engines->starting <= server->instance_count);
	if (--server->engines->starting == 0)
		probe_server_engines_settled(reactor_now(), server, server->instance_count,
					     clock_ticks_from_ns(clock_monotonic_ns() - server->options->began_ns));
}

void engines_start(struct server *server)
{
	must(server->state == SERVER_READY);
	must(server->engines->starting == 0);
	server->engines->starting = server->instance_count;
	for (size_t i = 0; i < server->instance_count; i++)
		instance_start(server->instances[i], on_engine_started, server);
	reports_begin(server->engines);
}

void engines_close(struct server *server)
{
	struct server_engines *engines = server->engines;

	if (!engines)
		return;
	must(STAILQ_EMPTY(&engines->formats)); /* engines_begin_formats() has failed them */
	must(!engines->is_reporting);
	must(server->state != SERVER_READY);
	for (size_t i = 0; i < server->instance_count; i++)
		instance_destroy(server->instances[i]);
	server->instance_count = 0;
	deadline_clear(&server->deadlines, &engines->report_due);
	server->engines = NULL;
	free(engines);
}
