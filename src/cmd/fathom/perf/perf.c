/* SPDX-License-Identifier: BSD-2-Clause */
/* perf - `fathom perf`: load on a namespace through our own initiator, and verification of its data. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/perf/perf.h"
#include "cmd/fathom/perf/options.h"

enum {
	TICK_MS = 100, /* progress bar, keep alive */
	BAR_CELLS = 28,
	EXIT_WRONG = 1,
};

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	signals = signals + 1;
}

/* ---- Set up ---- */

/* Check the options against the namespace. Fills perf->blocks, perf->lbas_per_io. */
static int check_namespace_range(struct perf *perf, struct fathom_fault *why)
{
	const struct fathom_controller_info *info = fathom_controller_info(perf->controller);
	struct perf_options *options = &perf->options;
	uint32_t lba_bytes = perf->ns.block_bytes;
	uint64_t bytes = perf->ns.blocks * lba_bytes;

	if (perf->ns.metadata_bytes > 0)
		return fault(why, -ENOTSUP, "namespace %" PRIu32 " has metadata, which perf does not support",
			     options->nsid);
	if (options->io_bytes % lba_bytes != 0 || options->io_bytes / lba_bytes > 65536)
		return fault(why, -EINVAL, "--bs: 1 to 65536 blocks of %" PRIu32 " bytes, not %" PRIu64 " bytes", lba_bytes,
			     options->io_bytes);
	if (info->transfer_bytes_max > 0 && options->io_bytes > info->transfer_bytes_max)
		return fault(why, -EINVAL, "--bs: the controller takes at most %" PRIu32 " bytes at a time",
			     info->transfer_bytes_max);
	if (options->range_offset % lba_bytes != 0)
		return fault(why, -EINVAL, "--range: byte %" PRIu64 " is not the first of a block of %" PRIu32 " bytes",
			     options->range_offset, lba_bytes);
	if (options->range_offset >= bytes || options->range_bytes > bytes - options->range_offset)
		return fault(why, -EINVAL, "--range: not inside the namespace's %" PRIu64 " bytes", bytes);
	if (options->range_bytes == 0)
		options->range_bytes = bytes - options->range_offset;
	perf->lbas_per_io = (uint32_t)(options->io_bytes / lba_bytes);
	perf->blocks = options->range_bytes / options->io_bytes;
	if (perf->blocks < (uint64_t)options->queues * options->depth)
		return fault(why, -EINVAL, "%" PRIu64 " blocks are too few for %" PRIu32 " I/Os at a time", perf->blocks,
			     options->queues * options->depth);
	return 0;
}

/* Open the ledger: a new one, or that of an earlier run. */
static int open_ledger(struct perf *perf, struct fathom_fault *why)
{
	const struct perf_options *options = &perf->options;
	uint64_t run;
	int error;

	if (!options->verify)
		return 0;
	if (options->verify_state && access(options->verify_state, F_OK) == 0) {
		error = verify_load(&perf->ledger, options->verify_state, why);
		if (!error)
			error = verify_may_save(options->verify_state, why);
		if (error)
			return error;
		perf->ledger_loaded = true;
		if (perf->ledger.block_bytes == options->io_bytes && perf->ledger.blocks == perf->blocks &&
		    perf->ledger.offset == options->range_offset)
			return 0;
		return fault(why, -EINVAL,
			     "%s is about %" PRIu64 " blocks of %" PRIu32 " bytes from byte %" PRIu64
			     ": use the same --bs and --range",
			     options->verify_state, perf->ledger.blocks, perf->ledger.block_bytes, perf->ledger.offset);
	}
	if (options->time_s == 0 && options->count == 0)
		return fault(why, -ENOENT, "%s does not exist, so there is nothing to check", options->verify_state);
	if (options->read_percent == 100)
		return fault(why, -EINVAL,
			     "--verify has no expected contents: use a mode that writes, or load --verify-state");
	if (options->verify_state) {
		error = verify_may_save(options->verify_state, why);
		if (error)
			return error;
	}
	if (getrandom(&run, sizeof(run), 0) != sizeof(run))
		return fault(why, -EIO, "the kernel returned no random number");
	error = verify_init(&perf->ledger, run, options->seed, options->range_offset, perf->blocks,
			    (uint32_t)options->io_bytes);
	return error ? fault(why, error,
			     "out of memory for the ledger of %" PRIu64 " blocks: use a smaller --range or a larger --bs",
			     perf->blocks)
		     : 0;
}

static int open_workers(struct perf *perf, struct fathom_fault *why)
{
	const struct perf_options *options = &perf->options;
	uint32_t queues = options->queues;

	perf->workers = calloc(queues, sizeof(*perf->workers));
	if (!perf->workers)
		return fault(why, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < queues; i++) {
		struct perf_worker *worker = &perf->workers[i];
		struct fathom_fault reason;
		int error = fathom_qpair_create(perf->controller, options->depth, &reason, &worker->qpair);

		if (error)
			return fault(why, error, "%s", reason.text);
		worker->perf = perf;
		worker->first_block = perf->blocks * i / queues;
		worker->blocks = perf->blocks * (i + 1) / queues - worker->first_block;
		worker->seed = options->seed + i;
		worker->budget = options->count ? options->count * (i + 1) / queues - options->count * i / queues
						: UINT64_MAX;
		worker->counts = calloc(1, sizeof(*worker->counts));
		if (!worker->counts)
			return fault(why, -ENOMEM, "out of memory");
		perf->depth = fathom_qpair_depth(worker->qpair);
	}
	if (perf->depth < options->depth && !options->quiet)
		fprintf(stderr, "fathom perf: the controller allows no more than depth %" PRIu32 "\n", perf->depth);
	return 0;
}

static void print_waiting_step(void *ctx, const char *what)
{
	fprintf(stderr, "fathom perf: %s\n", what);
}

static int connect_and_prepare(struct perf *perf, struct fathom_fault *why)
{
	struct fathom_fault reason;
	int error;

	perf->cpus = perf_avoid_reactors(perf->options.queues, perf->options.quiet);
	perf->options.connect.io_queues = (uint16_t)perf->options.queues;
	if (!perf->options.quiet)
		perf->options.connect.waiting = print_waiting_step;
	error = fathom_connect(&perf->options.connect, &reason, &perf->controller);
	if (!error)
		error = fathom_namespace_info(perf->controller, perf->options.nsid, &reason, &perf->ns);
	if (error)
		return fault(why, error, "%s", reason.text);
	error = check_namespace_range(perf, why);
	if (!error)
		error = open_ledger(perf, why);
	if (!error)
		error = open_workers(perf, why);
	return error;
}

static void disconnect_and_free(struct perf *perf)
{
	for (uint32_t i = 0; perf->workers && i < perf->options.queues; i++) {
		fathom_qpair_destroy(perf->workers[i].qpair);
		free(perf->workers[i].counts);
	}
	fathom_disconnect(perf->controller);
	verify_deinit(&perf->ledger);
	free(perf->workers);
}

/* ---- Running ---- */

/* The sum of all workers' progress. The mutex is held. */
static struct perf_progress sum_progress(const struct perf *perf)
{
	struct perf_progress total = { .finished = true };

	for (uint32_t i = 0; i < perf->options.queues; i++) {
		const struct perf_progress *progress = &perf->workers[i].progress;

		for (int kind = 0; kind < PERF_KINDS; kind++)
			total.done[kind] += progress->done[kind];
		total.checked += progress->checked;
		total.check_total += progress->check_total;
		total.finished = total.finished && progress->finished;
	}
	return total;
}

/* Progress output: every TICK_MS on a terminal, once a second with -V. */
struct display {
	bool bar;
	bool interval;
	bool drawn;
	uint64_t started_ns;
	uint64_t second_ns; /* begin of the current second */
	uint64_t bar_ns;
	struct perf_progress at_second;
	struct perf_progress at_bar;
};

static void draw_bar(const struct perf *perf, struct display *display, const struct perf_progress *now, uint64_t now_ns)
{
	const struct perf_options *options = &perf->options;
	uint64_t ios = now->done[PERF_READ] + now->done[PERF_WRITE];
	uint64_t since = ios - display->at_bar.done[PERF_READ] - display->at_bar.done[PERF_WRITE];
	double seconds = (double)(now_ns - display->bar_ns) / NS_PER_SEC, part;
	char bar[BAR_CELLS + 1];
	bool checking = now->check_total > 0 && now->checked < now->check_total;

	if (checking)
		part = (double)now->checked / (double)now->check_total;
	else if (options->count > 0)
		part = (double)ios / (double)options->count;
	else
		part = (double)(now_ns - display->started_ns) / NS_PER_SEC / (options->warmup_s + options->time_s + 1e-9);
	part = part > 1 ? 1 : part;
	for (int i = 0; i < BAR_CELLS; i++)
		bar[i] = (double)i < part * BAR_CELLS ? '#' : '.';
	bar[BAR_CELLS] = '\0';
	if (checking)
		fprintf(stderr, "\r[%s] %3.0f%%  reading back %" PRIu64 " of %" PRIu64 " blocks   ", bar, part * 100,
			now->checked, now->check_total);
	else
		fprintf(stderr, "\r[%s] %3.0f%%  %.0f IOPS, %.1f MiB/s   ", bar, part * 100, (double)since / seconds,
			(double)since / seconds * (double)options->io_bytes / (1 << 20));
	display->at_bar = *now;
	display->bar_ns = now_ns;
	display->drawn = true;
}

static void erase_bar(struct display *display)
{
	if (display->drawn)
		fprintf(stderr, "\r\033[K");
	display->drawn = false;
}

static void print_interval(const struct perf *perf, struct display *display, const struct perf_progress *now,
			   uint64_t now_ns)
{
	double seconds = (double)(now_ns - display->second_ns) / NS_PER_SEC;
	double reads = (double)(now->done[PERF_READ] - display->at_second.done[PERF_READ]) / seconds;
	double writes = (double)(now->done[PERF_WRITE] - display->at_second.done[PERF_WRITE]) / seconds;

	erase_bar(display);
	fprintf(perf->options.json ? stderr : stdout, "%6.1f s  read %9.0f IOPS  write %9.0f IOPS  %9.1f MiB/s%s\n",
		(double)(now_ns - display->started_ns) / NS_PER_SEC, reads, writes,
		(reads + writes) * (double)perf->options.io_bytes / (1 << 20),
		now->checked > display->at_second.checked ? "  (reading back)" : "");
	fflush(stdout);
	display->at_second = *now;
	display->second_ns = now_ns;
}

static void show_load_progress(const struct perf *perf, struct display *display, const struct perf_progress *now)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (display->interval && now_ns - display->second_ns >= NS_PER_SEC)
		print_interval(perf, display, now, now_ns);
	if (display->bar && now_ns - display->bar_ns >= TICK_MS * NS_PER_MS)
		draw_bar(perf, display, now, now_ns);
}

/* Wait for a worker to finish, at most TICK_MS. The mutex is held. */
static void wait_for_worker(struct perf *perf)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += TICK_MS * (long)NS_PER_MS;
	until.tv_sec += until.tv_nsec / (long)NS_PER_SEC;
	until.tv_nsec %= (long)NS_PER_SEC;
	(void)pthread_cond_timedwait(&perf->finished, &perf->mutex, &until); /* a timeout needs no handling */
}

/* Until all workers have finished: show progress, keep the connection alive, pass on signals. */
static void supervise_workers(struct perf *perf)
{
	struct display display = {
		.bar = !perf->options.quiet && isatty(STDERR_FILENO),
		.interval = perf->options.interval,
		.started_ns = clock_monotonic_ns(),
	};
	struct perf_progress progress;
	bool alive = true;

	display.second_ns = display.bar_ns = display.started_ns;
	for (;;) {
		pthread_mutex_lock(&perf->mutex);
		progress = sum_progress(perf);
		if (!progress.finished) {
			wait_for_worker(perf);
			progress = sum_progress(perf);
		}
		if (!alive)
			perf->stop = PERF_LOST;
		else if (signals > 0)
			perf->stop = signals > 1 ? PERF_STOP_ALL : PERF_STOP_LOAD;
		pthread_mutex_unlock(&perf->mutex);
		if (progress.finished)
			break;
		show_load_progress(perf, &display, &progress);
		if (alive && fathom_controller_poll(perf->controller) < 0) {
			alive = false;
			perf_complain(perf, "the admin queue is lost: %s",
				      fathom_qpair_fault(fathom_controller_admin(perf->controller))->text);
		}
	}
	erase_bar(&display);
}

/* A worker without a thread counts as lost. */
static void run_workers(struct perf *perf)
{
	uint32_t started = 0;

	for (; started < perf->options.queues; started++) {
		struct perf_worker *worker = &perf->workers[started];

		if (pthread_create(&worker->thread, NULL, perf_worker_main, worker) != 0)
			break;
	}
	for (uint32_t i = started; i < perf->options.queues; i++) {
		perf_complain(perf, "cannot create the thread of queue %" PRIu32, i);
		pthread_mutex_lock(&perf->mutex);
		perf->workers[i].lost = true;
		perf->workers[i].progress.finished = true;
		pthread_mutex_unlock(&perf->mutex);
	}
	supervise_workers(perf);
	for (uint32_t i = 0; i < started; i++)
		(void)pthread_join(perf->workers[i].thread, NULL); /* fails only for an invalid thread */
}

/* Stay connected and idle; a signal ends it. */
static void hold_connection(struct perf *perf)
{
	uint64_t until_ns = clock_monotonic_ns() + (uint64_t)(perf->options.hold_s * NS_PER_SEC);
	struct timespec tick = { .tv_nsec = TICK_MS * (long)NS_PER_MS };

	while (signals == 0 && clock_monotonic_ns() < until_ns && fathom_controller_poll(perf->controller) >= 0)
		nanosleep(&tick, NULL);
}

static void count_end_signals(void)
{
	struct sigaction action = { .sa_handler = count_signal };

	(void)sigaction(SIGINT, &action, NULL); /* cannot fail for these signals */
	(void)sigaction(SIGTERM, &action, NULL);
}

int cmd_perf(int argc, char **argv)
{
	struct perf perf = { .mutex = PTHREAD_MUTEX_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER };
	struct fathom_fault why;
	bool good;
	int status = perf_parse_options(argc, argv, &perf.options);

	if (status != OPTIONS_RUN)
		return status;
	if (connect_and_prepare(&perf, &why) != 0) {
		fprintf(stderr, "fathom perf: %s\n", why.text);
		disconnect_and_free(&perf);
		return EXIT_USAGE;
	}
	count_end_signals();
	run_workers(&perf);
	good = perf_report(&perf);
	fflush(stdout);
	hold_connection(&perf);
	if (perf.options.verify_state && verify_save(&perf.ledger, perf.options.verify_state, &why) != 0) {
		fprintf(stderr, "fathom perf: cannot save the ledger: %s\n", why.text);
		good = false;
	}
	disconnect_and_free(&perf);
	return good ? EXIT_SUCCESS : EXIT_WRONG;
}
