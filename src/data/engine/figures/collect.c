/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/observe/trace/figures.h"
#include "base/reactor/deadline.h"
#include "base/reactor/reactor.h"
#include "data/engine/figures/figures.h"

/* A collection that waits for the reactors. */
struct waiting {
	struct deadline deadline;
	enum figures_format format;
	char rank[FIGURES_RANK_BYTES];
	uint64_t muted;
	uint64_t begun_tick;
	engine_figures_fn done;
	void *ctx;
	TAILQ_ENTRY(waiting) link;
};

static struct {
	struct deadlines deadlines;
	uint64_t start_ns; /* of the engine; since 1970 */
	bool is_asking;	   /* reactors; one question at a time, so that a silent one cannot make them pile up */
	TAILQ_HEAD(, waiting) waiting;
	struct figure_checks checks; /* of the collection that ends now */
} collect = { .waiting = TAILQ_HEAD_INITIALIZER(collect.waiting) };

/* ---- the engine itself ---- */

static double cpu_seconds(void)
{
	struct timespec spent = { 0 };

	must(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent) == 0);
	return (double)spent.tv_sec + (double)spent.tv_nsec / (double)NS_PER_SEC;
}

static void add_memory(struct figures *figures)
{
	unsigned long long pages, resident;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file)
		return;
	if (fscanf(file, "%llu %llu", &pages, &resident) == 2)
		figure_engine_resident_memory_bytes(figures, (double)resident * (double)sysconf(_SC_PAGESIZE));
	fclose(file);
}

static void add_engine(struct figures *figures)
{
	char build_id[TRACE_BUILD_ID_TEXT_BYTES];

	trace_figures_build_id(build_id);
	figure_engine(figures, engine_options()->version, build_id);
	figure_engine_start_time_seconds(figures, (double)(collect.start_ns / NS_PER_MS) / 1000.0);
	figure_engine_cpu_seconds(figures, cpu_seconds());
	add_memory(figures);
}

static void add_reactor(void *ctx, const struct reactor_stats *stats)
{
	char core[16] = "control";
	uint64_t now = clock_ticks();
	uint64_t step = stats->running[0] && now > stats->running_since_tick ? now - stats->running_since_tick : 0;

	engine_figures_note(FIGURE_CHECK_REACTOR_HANGS, !stats->control && step > clock_tick_rate());
	if (!stats->control)
		snprintf(core, sizeof(core), "%u", stats->cpu);
	figure_reactor_seconds(ctx, core, "busy", figures_seconds(stats->busy_ticks));
	figure_reactor_seconds(ctx, core, "idle", figures_seconds(stats->idle_ticks));
	figure_reactor_sleeps(ctx, core, (double)stats->sleep_count);
	figure_reactor_longest_stall_seconds(ctx, core, figures_seconds(stats->longest_stall_ticks));
	figure_reactor_current_step_seconds(ctx, core, figures_seconds(step));
}

static void add_trace(struct figures *figures)
{
	struct trace_totals totals;

	trace_figures_totals(&totals);
	figure_trace_records(figures, (double)totals.records);
	figure_trace_overwritten(figures, (double)totals.overwritten);
	figure_kept_lives(figures, "slow", (double)totals.kept_slow);
	figure_kept_lives(figures, "failed", (double)totals.kept_failed);
}

static void add_times(struct figures *figures, const char *method, const char *code, const struct rpc_times *times)
{
	const struct figure_histogram histogram = { .buckets = times->buckets,
						    .sum_seconds = figures_seconds(times->ticks) };

	if (times->ticks > 0)
		figure_rpc_seconds(figures, method, code, &histogram);
}

static void add_calls(struct figures *figures)
{
	const struct rpc_method *method;

	for (size_t i = 0; (method = rpc_method_at(i)); i++) {
		add_times(figures, method->name, "0", &rpc_method_times_at(i)->succeeded);
		add_times(figures, method->name, "error", &rpc_method_times_at(i)->failed);
	}
}

/* ---- a collection ---- */

static void finish(struct waiting *waiting)
{
	struct figures *figures = figures_create(waiting->format, waiting->rank);
	uint64_t now = clock_ticks(), asked = engine_figures_asked_tick();

	TAILQ_REMOVE(&collect.waiting, waiting, link);
	deadline_clear(&collect.deadlines, &waiting->deadline);
	collect.checks = (struct figure_checks){ 0 };
	add_engine(figures);
	engine_figures_volumes(figures);
	engine_figures_requests(figures);
	engine_figures_hosts(figures);
	reactor_stats_walk(add_reactor, figures);
	add_trace(figures);
	add_calls(figures);
	figures_add_checks(figures, &collect.checks, false, waiting->muted);
	if (asked)
		figure_engine_connections_age_seconds(figures, now > asked ? figures_seconds(now - asked) : 0);
	figure_engine_collect_seconds(figures, figures_seconds(clock_ticks() - waiting->begun_tick));
	waiting->done(waiting->ctx, figures);
	figures_destroy(figures);
	free(waiting);
}

static void reactors_answered(void)
{
	struct waiting *waiting;

	collect.is_asking = false;
	while ((waiting = TAILQ_FIRST(&collect.waiting)))
		finish(waiting);
}

static void waited_enough(struct deadline *deadline)
{
	finish(container_of(deadline, struct waiting, deadline));
}

void engine_figures_note(enum figure_check check, uint64_t count)
{
	must(check < FIGURE_CHECKS_MAX);
	collect.checks.counts[check] += count;
}

void engine_figures_collect(const struct engine_figures_options *options, engine_figures_fn done, void *ctx)
{
	struct waiting *waiting = calloc(1, sizeof(*waiting));

	must(waiting);
	waiting->format = options->format;
	waiting->muted = options->muted;
	snprintf(waiting->rank, sizeof(waiting->rank), "%s", options->rank);
	waiting->begun_tick = clock_ticks();
	waiting->done = done;
	waiting->ctx = ctx;
	TAILQ_INSERT_TAIL(&collect.waiting, waiting, link);
	if (!collect.is_asking)
		collect.is_asking = engine_figures_ask(reactors_answered);
	if (collect.is_asking)
		deadline_set(&collect.deadlines, &waiting->deadline, FIGURES_WAIT_MS * NS_PER_MS, waited_enough);
	else
		finish(waiting);
}

int engine_collect_open(void)
{
	collect.start_ns = clock_realtime_ns();
	return deadlines_init(&collect.deadlines, "engine_figures");
}

void engine_collect_close(void)
{
	struct waiting *waiting;

	while ((waiting = TAILQ_FIRST(&collect.waiting))) {
		TAILQ_REMOVE(&collect.waiting, waiting, link);
		waiting->done(waiting->ctx, NULL);
		free(waiting);
	}
	deadlines_deinit(&collect.deadlines);
	engine_figures_forget();
}
