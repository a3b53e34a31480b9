/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads, pollers and channels. These methods answer even if a reactor hangs. Clients are strict: exactly these keys. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/engine/internal.h"
#include "base/reactor/reactor.h"

static json_t *result_with(json_t *threads)
{
	json_t *result = json_made(json_object());

	json_put(result, "tick_rate", json_integer((json_int_t)clock_tick_rate()));
	json_put(result, "threads", threads);
	return result;
}

static void walk_and_reply(struct rpc_request *request, const json_t *params, thread_stats_fn add)
{
	json_t *threads;

	if (!rpc_params(request, params, NULL, NULL))
		return;
	threads = json_made(json_array());
	thread_stats_walk(add, threads);
	rpc_reply(request, result_with(threads));
}

/* The CPUs on which it may run: its reactor's CPU; for the control thread all CPUs of this process. */
static json_t *cpumask_of(const struct thread_stats *stats)
{
	char mask[CPUSET_CPUS_MAX / 4 + 1];
	struct cpuset cpus = { { 0 } };
	cpu_set_t ours;

	if (!stats->control) {
		cpuset_add(&cpus, stats->cpu);
	} else if (sched_getaffinity(0, sizeof(ours), &ours) == 0) {
		for (unsigned int cpu = 0; cpu < CPUSET_CPUS_MAX; cpu++) {
			if (CPU_ISSET(cpu, &ours))
				cpuset_add(&cpus, cpu);
		}
	}
	cpuset_format(&cpus, mask, sizeof(mask));
	return json_string(mask);
}

static void add_stats(void *ctx, const struct thread_stats *stats)
{
	json_t *thread = json_made(json_object());

	json_put(thread, "name", json_text(stats->name));
	json_put(thread, "id", json_integer((json_int_t)stats->id));
	json_put(thread, "cpumask", cpumask_of(stats));
	json_put(thread, "busy", json_integer((json_int_t)stats->busy_ticks));
	json_put(thread, "idle", json_integer((json_int_t)stats->idle_ticks));
	json_put(thread, "active_pollers_count", json_integer(stats->active_pollers));
	json_put(thread, "timed_pollers_count", json_integer(stats->timed_pollers));
	json_put(thread, "paused_pollers_count", json_integer(stats->paused_pollers));
	json_add(ctx, thread);
}

static void thread_get_stats(struct rpc_request *request, const json_t *params)
{
	walk_and_reply(request, params, add_stats);
}

static json_t *poller_json(const struct poller_stats *stats)
{
	static const char *const states[] = {
		[POLLER_WAITING] = "waiting",
		[POLLER_RUNNING] = "running",
		[POLLER_PAUSED] = "paused",
	};
	json_t *poller = json_made(json_object());

	json_put(poller, "name", json_text(stats->name));
	json_put(poller, "id", json_integer((json_int_t)stats->id));
	json_put(poller, "state", json_string(states[stats->state]));
	json_put(poller, "run_count", json_integer((json_int_t)stats->run_count));
	json_put(poller, "busy_count", json_integer((json_int_t)stats->busy_count));
	if (stats->timed)
		json_put(poller, "period_ticks", json_integer((json_int_t)stats->period_ticks));
	return poller;
}

static void add_pollers(void *ctx, const struct thread_stats *stats)
{
	json_t *active = json_made(json_array()), *timed = json_made(json_array()), *paused = json_made(json_array());
	json_t *thread = json_made(json_object());

	for (uint32_t i = 0; i < stats->poller_count; i++) {
		const struct poller_stats *poller = &stats->pollers[i];

		json_add(poller->paused ? paused : poller->timed ? timed : active, poller_json(poller));
	}
	json_put(thread, "name", json_text(stats->name));
	json_put(thread, "id", json_integer((json_int_t)stats->id));
	json_put(thread, "active_pollers", active);
	json_put(thread, "timed_pollers", timed);
	json_put(thread, "paused_pollers", paused);
	json_add(ctx, thread);
}

static void thread_get_pollers(struct rpc_request *request, const json_t *params)
{
	walk_and_reply(request, params, add_pollers);
}

static void add_channels(void *ctx, const struct thread_stats *stats)
{
	json_t *thread = json_made(json_object()), *channels = json_made(json_array());

	for (uint32_t i = 0; i < stats->channel_count; i++) {
		json_t *channel = json_made(json_object());

		json_put(channel, "name", json_text(stats->channels[i].device));
		json_put(channel, "ref", json_integer(stats->channels[i].ref_count));
		json_add(channels, channel);
	}
	json_put(thread, "name", json_text(stats->name));
	json_put(thread, "io_channels", channels);
	json_add(ctx, thread);
}

static void thread_get_io_channels(struct rpc_request *request, const json_t *params)
{
	walk_and_reply(request, params, add_channels);
}

struct place {
	uint64_t id;
	const char *cpumask;
};

static const struct rpc_param place_fields[] = {
	RPC_PARAM_U64("id", place, id, true),
	RPC_PARAM_STRING("cpumask", place, cpumask, true),
	RPC_PARAM_END,
};

/* Replies once the request to move was sent to the thread. */
static void thread_set_cpumask(struct rpc_request *request, const json_t *params)
{
	struct place p = { 0 };
	struct cpuset cpus;
	int rc;

	if (!rpc_params(request, params, place_fields, &p))
		return;
	if (cpuset_parse(p.cpumask, &cpus) != 0) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: cpumask \"%s\" is not a mask of CPUs (0x3) and not a list ([0,2-3])",
			  p.cpumask);
		return;
	}
	rc = thread_place(p.id, &cpus);
	if (rc == -ENOENT)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: there is no thread %" PRIu64 "; thread_get_stats shows them", p.id);
	else if (rc == -EPERM)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: thread %" PRIu64 " is the control thread, which is not moved", p.id);
	else if (rc)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: no reactor is on a CPU of %s; framework_get_reactors shows them", p.cpumask);
	else
		rpc_reply(request, json_true());
}

/* ---- reactor_hold, of --test-methods: blocks a reactor, to test the detection of stuck reactors ---- */

enum {
	HOLD_MS_MAX = 60000,
	HOLDS_MAX = 4, /* at a time */
};

struct hold {
	uint32_t reactor, milliseconds;
	struct poller *poller;
};

static uint32_t hold_count;

static const struct rpc_param hold_fields[] = {
	RPC_PARAM_U32("reactor", hold, reactor, true),
	RPC_PARAM_U32("milliseconds", hold, milliseconds, true),
	RPC_PARAM_END,
};

static void finish_hold(void *ctx)
{
	must(hold_count > 0);
	hold_count--;
	free(ctx);
}

static int hold_poll(void *ctx)
{
	struct hold *hold = ctx;
	struct timespec pause = { hold->milliseconds / 1000, hold->milliseconds % 1000 * (long)NS_PER_MS };

	nanosleep(&pause, NULL);
	poller_unregister(&hold->poller);
	thread_send_msg(thread_control(), finish_hold, hold);
	thread_exit(thread_self());
	return 1;
}

static void hold_begin(void *ctx)
{
	struct hold *hold = ctx;

	hold->poller = poller_register("reactor_hold", hold_poll, hold, 0);
	must(hold->poller);
}

/* Block a reactor in a poller for a while. Replies before the block starts. */
static void reactor_hold(struct rpc_request *request, const json_t *params)
{
	struct hold p = { 0 }, *hold;
	struct fathom_thread *thread;

	if (!rpc_params(request, params, hold_fields, &p))
		return;
	if (p.reactor >= reactors_count() || p.milliseconds > HOLD_MS_MAX) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: there are %u reactors, and %d ms are the most", reactors_count(),
			  HOLD_MS_MAX);
		return;
	}
	if (hold_count == HOLDS_MAX) {
		rpc_error(request, RPC_CODE_INTERNAL, "reactors are being held by %d calls, the most at a time", HOLDS_MAX);
		return;
	}
	hold_count++;
	hold = malloc(sizeof(*hold));
	thread = thread_create("reactor_hold", reactor_at(p.reactor));
	must(hold);
	must(thread);
	*hold = p;
	thread_send_msg(thread, hold_begin, hold);
	rpc_reply(request, json_true());
}

struct crash {
	const char *how;
	uint64_t reactor;
};

static const struct rpc_param crash_fields[] = {
	RPC_PARAM_STRING("how", crash, how, true),
	RPC_PARAM_U64("reactor", crash, reactor, false),
	RPC_PARAM_END,
};

static void crash_store(void *ctx)
{
	*(volatile int *)ctx = 1; /* an unmapped address: SIGSEGV */
}

static uint64_t recurse_without_end(volatile uint64_t *above)
{
	volatile uint64_t frame[512];

	frame[0] = *above;
	return frame[0] ? recurse_without_end(frame) + frame[0] : 0;
}

static void crash_stack(void *unused)
{
	volatile uint64_t one = 1;

	(void)recurse_without_end(&one); /* never returns: overflows the stack */
}

static void crash_must(void *unused)
{
	must(unused == &crash_fields);
}

static void crash_begin(void *ctx)
{
	thread_exit(thread_self());
	((void (*)(void *))ctx)((void *)64);
}

/* Crash the engine on purpose. Does not reply. */
static void engine_crash(struct rpc_request *request, const json_t *params)
{
	static const struct {
		const char *how;
		void (*run)(void *ctx);
	} ways[] = { { "store", crash_store }, { "stack", crash_stack }, { "must", crash_must } };
	struct crash p = { 0 };

	if (!rpc_params(request, params, crash_fields, &p))
		return;
	for (size_t i = 0; i < ARRAY_COUNT(ways) && p.reactor < reactors_count(); i++) {
		if (strcmp(p.how, ways[i].how) == 0)
			thread_send_msg(thread_create("engine_crash", reactor_at((unsigned int)p.reactor)), crash_begin,
					(void *)ways[i].run);
	}
	rpc_reply(request, json_true());
}

static const struct rpc_method test_methods[] = {
	{ "engine_crash", RPC_ALWAYS, engine_crash },
	{ "reactor_hold", RPC_RUNTIME | RPC_CLIENTS_ONLY, reactor_hold },
};

static const struct rpc_method methods[] = {
	{ "thread_get_stats", RPC_ALWAYS, thread_get_stats },
	{ "thread_get_pollers", RPC_ALWAYS, thread_get_pollers },
	{ "thread_get_io_channels", RPC_ALWAYS, thread_get_io_channels },
	{ "thread_set_cpumask", RPC_RUNTIME, thread_set_cpumask },
};

void rpc_thread_register(void)
{
	rpc_register(methods, ARRAY_COUNT(methods));
	if (engine_options()->test_methods)
		rpc_register(test_methods, ARRAY_COUNT(test_methods));
}
