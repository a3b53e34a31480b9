/* SPDX-License-Identifier: BSD-2-Clause */
/* replay - `fathom replay`: sends the operations of a recording to a target again, and compares. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/fathom/interrupt.h"
#include "cmd/fathom/replay/replay.h"

enum {
	TICK_MS = 100, /* progress, keep alive */
	BAR_CELLS = 28,
};

/* ---- start ---- */

static uint32_t usable_cpus(void)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? (uint32_t)CPU_COUNT(&allowed) : 1;
}

static int create_workers(struct replay *replay)
{
	struct replay_target *target = &replay->target;
	uint32_t most = (uint32_t)min_u64(usable_cpus(), REPLAY_WORKERS_MAX);

	replay->worker_count = (uint32_t)min_u64(target->qpair_count, max_u64(most, 1));
	replay->workers = calloc(replay->worker_count, sizeof(*replay->workers));
	if (!replay->workers)
		return -ENOMEM;
	for (uint32_t i = 0; i < replay->worker_count; i++) {
		replay->workers[i].replay = replay;
		replay->workers[i].index = i;
		replay->workers[i].comparison = comparison_create(replay->file.summary.queue_count);
		if (!replay->workers[i].comparison)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < replay->file.summary.queue_count; i++)
		target->routes[i].worker = target->routes[i].used ? target->routes[i].qpair % replay->worker_count
								  : UINT32_MAX;
	return 0;
}

static void print_waiting_step(void *ctx, const char *what)
{
	fprintf(stderr, "fathom replay: %s\n", what);
}

static void warn_about_writes(const struct replay *replay)
{
	const struct replay_summary *summary = &replay->file.summary;
	uint64_t count = summary->kinds[REPLAY_WRITE] + summary->kinds[REPLAY_UNMAP] + summary->kinds[REPLAY_ZEROES];

	if (count == 0 || replay->options.write || replay->options.quiet)
		return;
	fprintf(stderr,
		"fathom replay: the recording has %" PRIu64
		" writes, unmaps and writes of zeroes. They are left out, because "
		"they would destroy data; --write replays them\n",
		count);
}

static int open_all(struct replay *replay, struct fathom_fault *why)
{
	struct replay_options *options = &replay->options;
	int rc;

	if (!options->quiet)
		options->connect.waiting = print_waiting_step;
	rc = incident_open(&options->files, &options->choice, true, &replay->file, why);
	if (rc == 0)
		rc = incident_select(&replay->file, &options->choice, &replay->selection, why);
	if (rc)
		return rc;
	warn_about_writes(replay);
	rc = replay_target_open(&replay->target, options, &replay->file, &replay->selection, why);
	if (rc == 0) {
		rc = create_workers(replay);
		if (rc)
			fill_fault(why, rc, "out of memory");
	}
	return rc;
}

static void close_all(struct replay *replay)
{
	for (uint32_t i = 0; replay->workers && i < replay->worker_count; i++)
		comparison_destroy(replay->workers[i].comparison);
	free(replay->workers);
	replay_target_close(&replay->target);
	incident_close(&replay->file);
}

/* ---- run ---- */

/* The sum of all workers' progress. The mutex is held. */
static struct replay_progress sum_progress(const struct replay *replay)
{
	struct replay_progress total = { .finished = true };

	for (uint32_t i = 0; i < replay->worker_count; i++) {
		const struct replay_progress *progress = &replay->workers[i].progress;

		total.done += progress->done;
		total.position_ns = max_u64(total.position_ns, progress->position_ns);
		total.finished = total.finished && progress->finished;
	}
	return total;
}

static void draw_bar(const struct replay *replay, const struct replay_progress *now, uint64_t since, double seconds)
{
	uint64_t end_ns = min_u64(replay->file.summary.span_ns, replay->selection.to_ns), span_ns;
	char bar[BAR_CELLS + 1];
	double part;

	span_ns = end_ns > replay->selection.from_ns ? end_ns - replay->selection.from_ns : 1;
	part = (double)now->position_ns / (double)span_ns;
	part = part > 1 ? 1 : part;
	for (int i = 0; i < BAR_CELLS; i++)
		bar[i] = (double)i < part * BAR_CELLS ? '#' : '.';
	bar[BAR_CELLS] = '\0';
	fprintf(stderr, "\r[%s] %3.0f%%  %" PRIu64 " operations, %.0f/s   ", bar, part * 100, now->done,
		(double)since / seconds);
}

/* Wait for a worker to finish, at most TICK_MS. The mutex is held. */
static void wait_for_worker(struct replay *replay)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += TICK_MS * (long)NS_PER_MS;
	until.tv_sec += until.tv_nsec / (long)NS_PER_SEC;
	until.tv_nsec %= (long)NS_PER_SEC;
	(void)pthread_cond_timedwait(&replay->finished, &replay->mutex, &until); /* a timeout needs no handling */
}

/* Keep the controllers alive. False: one is lost. */
static bool poll_controllers(struct replay *replay)
{
	for (uint32_t i = 0; i < replay->target.controller_count; i++) {
		struct fathom_controller *controller = replay->target.controllers[i];

		if (fathom_controller_poll(controller) < 0) {
			replay_note_error(replay, "the admin queue is lost: %s",
					  fathom_qpair_fault(fathom_controller_admin(controller))->text);
			return false;
		}
	}
	return true;
}

static void supervise_workers(struct replay *replay)
{
	bool has_bar = !replay->options.quiet && isatty(STDERR_FILENO), alive = true, drawn = false;
	uint64_t drawn_ns = clock_monotonic_ns(), drawn_done = 0;

	for (;;) {
		struct replay_progress progress;
		uint64_t now_ns;

		pthread_mutex_lock(&replay->mutex);
		if (!sum_progress(replay).finished)
			wait_for_worker(replay);
		progress = sum_progress(replay);
		if (!alive)
			replay->stop = REPLAY_LOST;
		else if (interrupt_arrived())
			replay->stop = REPLAY_STOP;
		pthread_mutex_unlock(&replay->mutex);
		if (progress.finished)
			break;
		now_ns = clock_monotonic_ns();
		if (has_bar && now_ns - drawn_ns >= TICK_MS * NS_PER_MS) {
			draw_bar(replay, &progress, progress.done - drawn_done, (double)(now_ns - drawn_ns) / NS_PER_SEC);
			drawn = true;
			drawn_ns = now_ns;
			drawn_done = progress.done;
		}
		alive = alive && poll_controllers(replay);
	}
	if (drawn)
		fprintf(stderr, "\r\033[K");
}

/* A worker without a thread counts as one that failed. */
static void run_workers(struct replay *replay)
{
	uint32_t started = 0;

	replay->origin_ns = clock_monotonic_ns();
	for (; started < replay->worker_count; started++) {
		if (pthread_create(&replay->workers[started].thread, NULL, replay_worker_main, &replay->workers[started]) !=
		    0)
			break;
	}
	pthread_mutex_lock(&replay->mutex);
	for (uint32_t i = started; i < replay->worker_count; i++) {
		replay->workers[i].progress.finished = true;
		replay->workers[i].error = -EAGAIN;
		snprintf(replay->workers[i].error_text, sizeof(replay->workers[i].error_text), "cannot create a thread");
	}
	pthread_mutex_unlock(&replay->mutex);
	supervise_workers(replay);
	for (uint32_t i = 0; i < started; i++)
		(void)pthread_join(replay->workers[i].thread, NULL); /* fails only for an invalid thread */
}

int cmd_replay(int argc, char **argv)
{
	const struct option_command *command = argc > 1 ? options_find_command(&replay_table, argv[1]) : NULL;
	struct replay *replay;
	struct fathom_fault why = { 0 };
	int status;

	if (command)
		return command->run(argc - 1, argv + 1); /* its name takes the place of the program */
	replay = calloc(1, sizeof(*replay));
	must(replay); /* 100 KB */
	replay->file.fd = -1;
	pthread_mutex_init(&replay->mutex, NULL);
	pthread_cond_init(&replay->finished, NULL);
	status = replay_parse_options(&replay_table, argc, argv, &replay->options);
	if (status == OPTIONS_RUN) {
		if (open_all(replay, &why) != 0) {
			status = replay_complain(why.text);
		} else {
			interrupt_catch();
			run_workers(replay);
			status = replay_report(replay, interrupt_arrived());
		}
	}
	close_all(replay);
	pthread_cond_destroy(&replay->finished);
	pthread_mutex_destroy(&replay->mutex);
	free(replay);
	return status;
}
