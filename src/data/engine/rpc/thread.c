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
#include "data/engine/methods.gen.h"
#include "base/reactor/reactor.h"

static json_t *result_with(json_t *threads)
{
	json_t *result = json_made(json_object());

	json_put(result, "tick_rate", json_integer((json_int_t)clock_tick_rate()));
	json_put(result, "threads", threads);
	return result;
}

/* Reply with a list of all threads, to which `add` appends each. */
static void reply_threads(struct rpc_request *request, thread_stats_fn add)
{
	json_t *threads = json_made(json_array());

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

void method_thread_get_stats(struct rpc_request *request)
{
	reply_threads(request, add_stats);
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

void method_thread_get_pollers(struct rpc_request *request)
{
	reply_threads(request, add_pollers);
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

void method_thread_get_io_channels(struct rpc_request *request)
{
	reply_threads(request, add_channels);
}

/* Replies once the request to move was sent to the thread. */
void method_thread_set_cpumask(struct rpc_request *request, const struct thread_set_cpumask_params *p)
{
	struct cpuset cpus;
	int rc;

	if (cpuset_parse(p->cpumask, &cpus) != 0) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: cpumask \"%s\" is not a mask of CPUs (0x3) and not a list ([0,2-3])",
			  p->cpumask);
		return;
	}
	rc = thread_place(p->id, &cpus);
	if (rc == -ENOENT)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: there is no thread %" PRIu64 "; thread_get_stats shows them", p->id);
	else if (rc == -EPERM)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: thread %" PRIu64 " is the control thread, which is not moved", p->id);
	else if (rc)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: no reactor is on a CPU of %s; framework_get_reactors shows them",
			  p->cpumask);
	else
		rpc_reply(request, json_true());
}

/* ---- reactor_hold, of --test-methods: blocks a reactor, to test the detection of stuck reactors ---- */

enum { HOLDS_MAX = 4 }; /* at a time */

struct hold {
	uint32_t milliseconds;
	bool busy;
	struct poller *poller;
};

static uint32_t hold_count;

static void end_hold(void *ctx)
{
	must(hold_count > 0);
	hold_count--;
	free(ctx);
}

static int poll_hold(void *ctx)
{
	struct hold *hold = ctx;
	struct timespec pause = { hold->milliseconds / 1000, hold->milliseconds % 1000 * (long)NS_PER_MS };

	if (hold->busy) {
		uint64_t until_ns = clock_monotonic_ns() + hold->milliseconds * NS_PER_MS;

		while (clock_monotonic_ns() < until_ns)
			;
	} else {
		nanosleep(&pause, NULL);
	}
	poller_unregister(&hold->poller);
	thread_send_msg(thread_control(), end_hold, hold);
	thread_exit(thread_self());
	return 1;
}

static void start_hold(void *ctx)
{
	struct hold *hold = ctx;

	hold->poller = poller_register("reactor_hold", poll_hold, hold, 0);
	must(hold->poller);
}

/* Block a reactor in a poller for a while. Replies before the block starts. */
void method_reactor_hold(struct rpc_request *request, const struct reactor_hold_params *p)
{
	struct fathom_thread *thread;
	struct hold *hold;

	if (p->reactor >= reactors_count()) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: there is no reactor %u, only %u reactors", p->reactor, reactors_count());
		return;
	}
	if (hold_count == HOLDS_MAX) {
		rpc_error(request, RPC_CODE_INTERNAL, "%d calls hold reactors already, which is the limit", HOLDS_MAX);
		return;
	}
	hold_count++;
	hold = calloc(1, sizeof(*hold));
	thread = thread_create("reactor_hold", reactor_at(p->reactor));
	must(hold);
	must(thread);
	hold->milliseconds = p->milliseconds;
	hold->busy = p->busy;
	thread_send_msg(thread, start_hold, hold);
	rpc_reply(request, json_true());
}
