/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * worker - one queue pair under load.
 *
 *      CHECK (a ledger was loaded) -> LOAD (until time or count is up) -> CHECK (with --verify)
 *
 * In LOAD the callback of each completed I/O submits the next one; so at depth 128 a poll that receives 64 responses
 * sends 64 commands at once. In CHECK the next I/O reads the next block that was ever written. With --verify a block has
 * at most one I/O at a time, so that its expected contents are known; a busy block is replaced by the next free one.
 * With --rate an I/O that completes before the next is due is kept in `paused`, and the loop of the phase starts it then.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/random.h"
#include "cmd/fathom/perf/perf.h"

enum {
	PUBLISH_MS = 10,
	IDLE_POLLS = 64, /* polls without a completion between two reads of the clock */
	SPIN_US = 100,	 /* then sleep until an event; 0 if queue pairs share processors */
	PAUSE_MS = 1,	 /* sleep between two I/Os that a rate separates */
};

enum phase { PHASE_CHECK, PHASE_LOAD };

struct job;

/* One I/O in flight and its memory. */
struct io {
	struct job *job;
	uint64_t block; /* in the range */
	uint64_t tick;
	uint32_t generation; /* of a write that is verified */
	uint8_t kind;
	struct iovec iov;
	STAILQ_ENTRY(io) in_paused;
};

/* State of a running worker. */
struct job {
	struct perf_worker *worker;
	struct perf *perf;
	struct verify *ledger; /* NULL: contents are not verified */
	struct random random;
	struct io *ios;
	uint8_t *memory;
	uint8_t *busy; /* one byte per block of our part; NULL without ledger */
	uint32_t ios_count;
	uint32_t in_flight;
	STAILQ_HEAD(, io) paused; /* I/Os that the rate does not allow yet */
	uint64_t rate_ticks;	  /* between two I/Os; 0: no rate */
	uint64_t due_tick;	  /* of the next I/O */
	enum phase phase;
	enum perf_stop stop_level; /* the stop request that ends this phase */
	bool stopping;
	bool lost; /* the controller is lost: I/Os in flight never complete */
	bool measuring;
	uint64_t cursor; /* sequential: the next block of our part */
	uint64_t budget;
	uint64_t event_tick; /* when to check stop requests and time again */
	uint64_t measure_tick;
	uint64_t stop_tick;
	uint64_t spin_ticks;
	uint64_t started; /* of the measured part */
	uint64_t ended;
	uint64_t read_back; /* number of blocks read back since the load */
	struct perf_progress progress;
};

void perf_complain(struct perf *perf, const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&perf->mutex);
	if (perf->error_lines++ < PERF_ERROR_LINES_MAX) {
		va_start(args, format);
		fputs("fathom perf: ", stderr);
		vfprintf(stderr, format, args);
		fputc('\n', stderr);
		va_end(args);
	}
	pthread_mutex_unlock(&perf->mutex);
}

/* ---- choosing blocks ---- */

/* The first free block of our part at or after `from`, with wrap-around. */
static uint64_t find_free_block(const struct job *job, uint64_t from)
{
	uint64_t blocks = job->worker->blocks;

	for (uint64_t i = 0; i < blocks; i++) {
		uint64_t at = from + i < blocks ? from + i : from + i - blocks;

		if (!job->busy[at])
			return at;
	}
	must(!"more I/Os than blocks");
	return 0;
}

/* Choose a block for the load. Returns its index in our part. */
static uint64_t choose_block(struct job *job)
{
	uint64_t blocks = job->worker->blocks, at;

	if (job->perf->options.random)
		at = random_below(&job->random, blocks);
	else
		at = job->cursor;
	if (job->busy)
		at = find_free_block(job, at);
	if (!job->perf->options.random)
		job->cursor = at + 1 < blocks ? at + 1 : 0;
	return at;
}

/* Choose the next block to read back. False: no more written blocks. */
static bool find_next_written_block(struct job *job, uint64_t *at_ret)
{
	while (job->cursor < job->worker->blocks) {
		uint64_t at = job->cursor++;

		if (verify_was_written(job->ledger, job->worker->first_block + at)) {
			*at_ret = at;
			return true;
		}
	}
	return false;
}

/* ---- I/O ---- */

static void handle_completion(void *ctx, const struct fathom_completion *completion);

static int submit_io(struct io *io)
{
	const struct perf *perf = io->job->perf;
	uint64_t lba = perf->options.range_offset / perf->ns.block_bytes + io->block * perf->lbas_per_io;

	if (io->kind == PERF_READ)
		return fathom_read(io->job->worker->qpair, perf->ns.nsid, lba, perf->lbas_per_io, &io->iov, 1,
				   handle_completion, io);
	return fathom_write(io->job->worker->qpair, perf->ns.nsid, lba, perf->lbas_per_io, &io->iov, 1, handle_completion,
			    io);
}

/*
 * True: the rate allows an I/O now, and it is counted. A queue that could not keep up makes up for PUBLISH_MS at most, so
 * that no burst follows a pause of the target.
 */
static bool take_due(struct job *job, uint64_t tick)
{
	uint64_t debt_ticks = clock_ticks_from_ns(PUBLISH_MS * NS_PER_MS);

	if (job->rate_ticks == 0 || job->phase != PHASE_LOAD)
		return true;
	if (tick < job->due_tick)
		return false;
	job->due_tick = max_u64(job->due_tick, tick - min_u64(tick, debt_ticks)) + job->rate_ticks;
	return true;
}

/* Start the next I/O with `io`, if there is work; `tick` is the present. */
static void start_io(struct io *io, uint64_t tick)
{
	struct job *job = io->job;
	uint64_t at;

	if (job->stopping || (job->phase == PHASE_LOAD && job->budget == 0))
		return;
	if (!take_due(job, tick)) {
		STAILQ_INSERT_TAIL(&job->paused, io, in_paused);
		return;
	}
	if (job->phase == PHASE_CHECK) {
		if (!find_next_written_block(job, &at))
			return;
		io->kind = PERF_READ;
	} else {
		uint32_t percent = job->perf->options.read_percent;

		job->budget--;
		at = choose_block(job);
		io->kind = percent == 100 || (percent > 0 && random_below(&job->random, 100) < percent) ? PERF_READ
													: PERF_WRITE;
	}
	io->block = job->worker->first_block + at;
	io->tick = tick;
	if (job->ledger) {
		job->busy[at] = 1;
		if (io->kind == PERF_WRITE)
			io->generation = verify_write_begin(job->ledger, io->block, io->iov.iov_base);
	}
	if (submit_io(io) != 0) {
		/* submission fails only on a lost connection, which the poll reports */
		job->stopping = true;
		return;
	}
	job->in_flight++;
}

static void check_content(struct io *io)
{
	char text[VERIFY_TEXT_BYTES];
	struct verify_finding finding;
	struct perf *perf = io->job->perf;

	if (verify_read(io->job->ledger, io->block, io->iov.iov_base, &finding))
		return;
	perf_complain(perf, "%s", verify_describe(&finding, text));
	pthread_mutex_lock(&perf->mutex);
	perf->findings++;
	pthread_mutex_unlock(&perf->mutex);
}

static void report_failed_io(struct io *io, const struct fathom_completion *completion)
{
	char text[160];

	io->job->worker->counts->errors[io->kind]++;
	if (fathom_qpair_fault(io->job->worker->qpair)->error)
		return; /* the connection's error is reported once, at the end */
	perf_complain(io->job->perf, "%s of block %llu: %s", io->kind == PERF_READ ? "read" : "write",
		      (unsigned long long)io->block, fathom_completion_text(completion, text, sizeof(text)));
}

/* Publish progress; check for a stop request, and for the start and end of the measurement. */
static void publish_progress(struct job *job, uint64_t now)
{
	struct perf *perf = job->perf;

	pthread_mutex_lock(&perf->mutex);
	job->worker->progress = job->progress;
	if (perf->stop >= job->stop_level)
		job->stopping = true;
	job->lost |= perf->stop == PERF_LOST;
	pthread_mutex_unlock(&perf->mutex);
	job->event_tick = now + clock_ticks_from_ns(PUBLISH_MS * NS_PER_MS);
	if (job->phase != PHASE_LOAD)
		return;
	if (!job->measuring && now >= job->measure_tick) {
		memset(job->worker->counts->latency, 0, sizeof(job->worker->counts->latency));
		job->measuring = true;
		job->started = now;
	}
	if (now >= job->stop_tick)
		job->stopping = true;
	job->event_tick = min_u64(job->event_tick, max_u64(job->stop_tick, now + 1));
	if (!job->measuring)
		job->event_tick = min_u64(job->event_tick, max_u64(job->measure_tick, now + 1));
}

static void handle_completion(void *ctx, const struct fathom_completion *completion)
{
	uint64_t now = clock_ticks();
	struct io *io = ctx;
	struct job *job = io->job;

	must(job->in_flight > 0);
	job->in_flight--;
	if (unlikely(now >= job->event_tick))
		publish_progress(job, now);
	if (unlikely(completion->error || completion->status)) {
		report_failed_io(io, completion);
	} else if (job->phase == PHASE_LOAD) {
		histogram_add(&job->worker->counts->latency[io->kind], now - io->tick);
		job->progress.done[io->kind]++;
	} else {
		job->progress.checked++;
		job->read_back++;
	}
	if (job->ledger) {
		bool good = !completion->error && !completion->status;

		job->busy[io->block - job->worker->first_block] = 0;
		if (good && io->kind == PERF_READ)
			check_content(io);
		else if (good)
			verify_write_end(job->ledger, io->block, io->generation);
		now = io->kind == PERF_READ ? clock_ticks() : now;
	}
	start_io(io, now);
}

/* Start paused I/Os that are due. The end of the phase drops them. */
static void resume_paused(struct job *job, uint64_t now)
{
	struct io *io;

	while ((io = STAILQ_FIRST(&job->paused)) && (job->stopping || job->budget == 0 || now >= job->due_tick)) {
		STAILQ_REMOVE_HEAD(&job->paused, in_paused);
		start_io(io, now);
	}
}

/* ---- Phases ---- */

/* Keep I/Os in flight until the phase has no more work. False: the connection is lost. */
static bool run_phase(struct job *job, enum phase phase)
{
	uint64_t now = clock_ticks(), quiet_since = now;
	uint32_t idle = 0;

	job->phase = phase;
	job->cursor = 0;
	job->event_tick = 0;
	publish_progress(job, now);
	for (uint32_t i = 0; i < job->ios_count; i++)
		start_io(&job->ios[i], clock_ticks());
	while (job->in_flight > 0 || !STAILQ_EMPTY(&job->paused)) {
		int ended = fathom_qpair_poll(job->worker->qpair);

		if (ended < 0)
			return false;
		if (!STAILQ_EMPTY(&job->paused))
			resume_paused(job, clock_ticks());
		if (ended > 0)
			idle = 0;
		else if (idle++ % IDLE_POLLS == 0) {
			now = clock_ticks();
			if (idle == 1)
				quiet_since = now;
			if (now >= job->event_tick)
				publish_progress(job, now);
			if (job->lost) {
				fathom_qpair_abort(job->worker->qpair);
				continue;
			}
			if (now - quiet_since >= job->spin_ticks)
				fathom_qpair_wait(job->worker->qpair, STAILQ_EMPTY(&job->paused) ? PUBLISH_MS : PAUSE_MS);
		}
	}
	return fathom_qpair_fault(job->worker->qpair)->error == 0;
}

/* Number of blocks of our part that must be read back. */
static uint64_t count_written(const struct job *job)
{
	uint64_t total = 0;

	for (uint64_t i = 0; i < job->worker->blocks; i++)
		total += verify_was_written(job->ledger, job->worker->first_block + i);
	return total;
}

static bool read_back_blocks(struct job *job)
{
	job->progress.check_total += count_written(job);
	job->read_back = 0;
	return run_phase(job, PHASE_CHECK);
}

static bool run_load(struct job *job)
{
	const struct perf_options *options = &job->perf->options;
	uint64_t now = clock_ticks();
	bool alive;

	job->measure_tick = now + clock_ticks_from_ns((uint64_t)(options->warmup_s * NS_PER_SEC));
	job->stop_tick = options->count > 0
				 ? UINT64_MAX
				 : job->measure_tick + clock_ticks_from_ns((uint64_t)(options->time_s * NS_PER_SEC));
	job->started = now;
	job->due_tick = now;
	job->read_back = 0;
	alive = run_phase(job, PHASE_LOAD);
	job->ended = clock_ticks();
	return alive;
}

static bool run_phases(struct job *job)
{
	bool check_only = job->perf->options.time_s == 0 && job->perf->options.count == 0;

	job->stop_level = PERF_STOP_LOAD;
	if (job->ledger && job->perf->ledger_loaded && !read_back_blocks(job))
		return false;
	if (!check_only && !job->stopping && !run_load(job))
		return false;
	/* A signal ends only the load: written blocks are still read back, until the next signal. */
	job->stop_level = PERF_STOP_ALL;
	job->stopping = false;
	return !job->ledger || check_only || read_back_blocks(job);
}

static bool prepare_job(struct job *job)
{
	struct perf *perf = job->perf;
	uint64_t io_bytes = perf->options.io_bytes;
	void *memory = NULL;

	job->ios_count = fathom_qpair_depth(job->worker->qpair);
	job->ios = calloc(job->ios_count, sizeof(*job->ios));
	job->busy = job->ledger ? calloc(job->worker->blocks, 1) : NULL;
	if (posix_memalign(&memory, 4096, io_bytes * job->ios_count) != 0)
		memory = NULL;
	job->memory = memory;
	if (!job->ios || !memory || (job->ledger && !job->busy))
		return false;
	for (uint64_t i = 0; i < io_bytes * job->ios_count / 8; i++)
		((uint64_t *)memory)[i] = random_next(&job->random);
	for (uint32_t i = 0; i < job->ios_count; i++) {
		job->ios[i].job = job;
		job->ios[i].iov = (struct iovec){ .iov_base = job->memory + i * io_bytes, .iov_len = io_bytes };
	}
	return true;
}

void *perf_worker_main(void *arg)
{
	struct perf_worker *worker = arg;
	struct perf *perf = worker->perf;
	struct job job = {
		.worker = worker,
		.perf = perf,
		.ledger = perf->options.verify ? &perf->ledger : NULL,
		.budget = worker->budget,
		.spin_ticks = perf->options.queues <= perf->cpus && perf->options.queues < sysconf(_SC_NPROCESSORS_ONLN)
				      ? clock_ticks_from_ns(SPIN_US * NS_PER_US)
				      : 0,
	};

	random_init(&job.random, worker->seed);
	STAILQ_INIT(&job.paused);
	if (perf->options.rate > 0)
		job.rate_ticks = max_u64(clock_ticks_from_ns(NS_PER_SEC * perf->options.queues / perf->options.rate), 1);
	if (!prepare_job(&job)) {
		perf_complain(perf, "out of memory for the I/Os of a queue");
		worker->lost = true;
	} else if (!run_phases(&job)) {
		perf_complain(perf, "%s", fathom_qpair_fault(worker->qpair)->text);
		worker->lost = true;
	}
	if (job.ledger)
		worker->left_out = count_written(&job) - job.read_back;
	if (job.started > 0)
		worker->seconds = (double)clock_ns_from_ticks((job.ended > 0 ? job.ended : clock_ticks()) - job.started) /
				  NS_PER_SEC;
	free(job.ios);
	free(job.memory);
	free(job.busy);
	pthread_mutex_lock(&perf->mutex);
	worker->progress = job.progress;
	worker->progress.finished = true;
	pthread_cond_signal(&perf->finished);
	pthread_mutex_unlock(&perf->mutex);
	return NULL;
}
