/* SPDX-License-Identifier: BSD-2-Clause */
#include "jail_rig.h"

#include <string.h>
#include <time.h>

#include "../../../base/reactor/rig.h"
#include "base/clock.h"

/* longer than the longest time-out of a request */
enum { WAIT_STEPS = 300000, WAIT_STEP_NS = 300000 };

static struct fathom_thread *home;
static struct jail *jail;

struct creation {
	struct jail_options options;
	struct fathom_fault *why;
};

static void create(void *ctx)
{
	struct creation *creation = ctx;

	jail = jail_create(&creation->options, creation->why);
}

struct jail *jail_rig_start(const char *program, uint32_t children_max, uint32_t timeout_ms, struct fathom_fault *why)
{
	struct creation creation = {
		{ .children_max = children_max, .timeout_ns = timeout_ms * NS_PER_MS, .program = program }, why
	};

	rig_start(1);
	home = thread_create("jail", rig_reactor(0));
	assert_non_null(home);
	rig_run_on(home, create, &creation);
	return jail;
}

static void destroy(void *unused)
{
	jail_destroy(jail);
	jail = NULL;
}

void jail_rig_stop(void)
{
	rig_run_on(home, destroy, NULL);
	rig_exit(home);
	rig_stop();
}

static void take(void *ctx, int error, struct dof_set *set, const struct fathom_fault *why)
{
	struct jail_rig_result *result = ctx;
	struct jail_stats stats;

	must(!result->told);
	must((error == 0) == (set != NULL));
	result->error = error;
	result->why = *why;
	if (set)
		result->set = *set;
	jail_get_stats(jail, &stats);
	result->slices = stats.slices;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	result->told = true;
}

struct parse {
	const struct dof_input *const *inputs;
	struct jail_rig_result *results;
	size_t count;
};

static void parse(void *ctx)
{
	struct parse *call = ctx;

	for (size_t i = 0; i < call->count; i++) {
		jail_parse(jail, call->inputs[i], take, &call->results[i]);
		must(!call->results[i].told || i > 0);
	}
}

void jail_rig_parse(const struct dof_input *const *inputs, struct jail_rig_result *results, size_t count)
{
	memset(results, 0, count * sizeof(*results));
	rig_run_on(home, parse, &(struct parse){ inputs, results, count });
}

void jail_rig_wait(const struct jail_rig_result *result)
{
	for (int i = 0; i < WAIT_STEPS && !result->told; i++)
		nanosleep(&(struct timespec){ .tv_nsec = WAIT_STEP_NS }, NULL);
	assert_true(result->told);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

void jail_rig_parse_now(const struct dof_input *input, struct jail_rig_result *result)
{
	jail_rig_parse(&input, result, 1);
	jail_rig_wait(result);
}

static void get_stats(void *ctx)
{
	jail_get_stats(jail, ctx);
}

void jail_rig_stats(struct jail_stats *stats)
{
	rig_run_on(home, get_stats, stats);
}
