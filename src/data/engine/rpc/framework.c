/* SPDX-License-Identifier: BSD-2-Clause */
/* Startup, subsystems (the source of save_config), reactors and the scheduler. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"
#include "base/reactor/reactor.h"

enum { PROC_TICK_MS = 10 }; /* "usr" and "sys" are in ticks of /proc/stat, 1/100 s, as in SPDK */

/* ---- startup ---- */

static void init_done(void *ctx, const struct fathom_fault *why)
{
	if (why)
		rpc_error_fault(ctx, RPC_CODE_INTERNAL, why);
	else
		rpc_reply(ctx, NULL);
}

void method_framework_start_init(struct rpc_request *request)
{
	if (engine_init(init_done, request) < 0)
		rpc_error(request, RPC_CODE_WRONG_STATE, "framework_start_init has been called already");
}

void method_framework_wait_init(struct rpc_request *request)
{
	engine_wait_ready(init_done, request);
}

/* ---- subsystems ---- */

static const struct {
	const char *name;
	const char *depends_on; /* NULL: none */
	void (*config)(json_t *calls);
} subsystems[] = {
	{ "bdev", NULL, bdev_config },
	{ "nvmf", "bdev", nvmf_config },
};

bool framework_has_subsystem(const char *name)
{
	for (size_t i = 0; i < ARRAY_COUNT(subsystems); i++) {
		if (strcmp(subsystems[i].name, name) == 0)
			return true;
	}
	return false;
}

void method_framework_get_subsystems(struct rpc_request *request)
{
	json_t *list;

	list = json_made(json_array());
	for (size_t i = 0; i < ARRAY_COUNT(subsystems); i++) {
		json_t *subsystem = json_made(json_object()), *depends_on = json_made(json_array());

		if (subsystems[i].depends_on)
			json_add(depends_on, json_string(subsystems[i].depends_on));
		json_put(subsystem, "subsystem", json_string(subsystems[i].name));
		json_put(subsystem, "depends_on", depends_on);
		json_add(list, subsystem);
	}
	rpc_reply(request, list);
}

void method_framework_get_config(struct rpc_request *request, const struct framework_get_config_params *p)
{
	for (size_t i = 0; i < ARRAY_COUNT(subsystems); i++) {
		if (strcmp(subsystems[i].name, p->name) == 0) {
			json_t *calls = json_made(json_array());

			subsystems[i].config(calls);
			rpc_reply(request, calls);
			return;
		}
	}
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Subsystem '%.64s' not found; framework_get_subsystems lists them",
		  p->name);
}

json_t *framework_config(void)
{
	json_t *config = json_made(json_object()), *list = json_made(json_array());

	for (size_t i = 0; i < ARRAY_COUNT(subsystems); i++) {
		json_t *subsystem = json_made(json_object()), *calls = json_made(json_array());

		subsystems[i].config(calls);
		json_put(subsystem, "subsystem", json_string(subsystems[i].name));
		json_put(subsystem, "config", calls);
		json_add(list, subsystem);
	}
	json_put(config, "subsystems", list);
	return config;
}

/* ---- reactors ---- */

static unsigned int numa_node_of(unsigned int cpu)
{
	char path[64];

	for (unsigned int node = 0; node < 64; node++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/node%u", cpu, node);
		if (access(path, F_OK) == 0)
			return node;
	}
	return 0;
}

struct lw_threads {
	unsigned int cpu;
	json_t *list;
};

static void add_lw_thread(void *ctx, const struct thread_stats *stats)
{
	struct lw_threads *threads = ctx;
	struct cpuset cpus = { { 0 } };
	char mask[CPUSET_CPUS_MAX / 4 + 1];
	json_t *thread;

	if (stats->control || stats->cpu != threads->cpu)
		return;
	cpuset_add(&cpus, stats->cpu);
	cpuset_format(&cpus, mask, sizeof(mask));
	thread = json_made(json_object());
	json_put(thread, "name", json_text(stats->name));
	json_put(thread, "id", json_integer((json_int_t)stats->id));
	json_put(thread, "cpumask", json_string(mask));
	json_put(thread, "elapsed", json_integer((json_int_t)stats->elapsed_ticks));
	json_add(threads->list, thread);
}

static void add_reactor(void *ctx, const struct reactor_stats *stats)
{
	struct lw_threads threads = { stats->cpu, NULL };
	json_t *list = ctx, *reactor;

	/* spdk_top treats each entry as a polled core, so the control thread is not listed */
	if (stats->control)
		return;
	threads.list = json_made(json_array());
	thread_stats_walk(add_lw_thread, &threads);
	reactor = json_made(json_object());
	json_put(reactor, "lcore", json_integer(stats->cpu));
	json_put(reactor, "numa_id", json_integer(numa_node_of(stats->cpu)));
	json_put(reactor, "tid", json_integer(stats->tid));
	json_put(reactor, "busy", json_integer((json_int_t)stats->busy_ticks));
	json_put(reactor, "idle", json_integer((json_int_t)stats->idle_ticks));
	json_put(reactor, "in_interrupt", json_boolean(stats->sleeping));
	json_put(reactor, "irq", json_integer(0));
	json_put(reactor, "sys", json_integer((json_int_t)(stats->sys_ms / PROC_TICK_MS)));
	json_put(reactor, "usr", json_integer((json_int_t)(stats->usr_ms / PROC_TICK_MS)));
	json_put(reactor, "lw_threads", threads.list);
	json_add(list, reactor);
}

void method_framework_get_reactors(struct rpc_request *request)
{
	json_t *result, *list;

	list = json_made(json_array());
	reactor_stats_walk(add_reactor, list);
	result = json_made(json_object());
	json_put(result, "tick_rate", json_integer((json_int_t)clock_tick_rate()));
	json_put(result, "pid", json_integer(getpid()));
	json_put(result, "reactors", list);
	rpc_reply(request, result);
}

/* ---- the scheduler: threads stay where they were created ---- */

#define SCHEDULER "static"

void method_framework_get_scheduler(struct rpc_request *request)
{
	json_t *result;

	result = json_made(json_object());
	json_put(result, "scheduler_name", json_string(SCHEDULER));
	json_put(result, "scheduler_period", json_integer(0));
	json_put(result, "isolated_core_mask", json_string("0"));
	json_put(result, "scheduling_core", json_integer(reactor_cpu(reactor_at(0))));
	rpc_reply(request, result);
}

/* Accepts configurations that set the only existing scheduler. */
void method_framework_set_scheduler(struct rpc_request *request, const struct framework_set_scheduler_params *p)
{
	if (strcmp(p->name, SCHEDULER) == 0)
		rpc_reply(request, NULL);
	else
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: there is no scheduler \"%.64s\", only \"%s\": threads stay on their reactor",
			  p->name, SCHEDULER);
}
