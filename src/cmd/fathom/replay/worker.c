/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * worker - one thread of a replay, with the queues whose routes name it.
 *
 *      read operations that are due -> schedule -> send -> poll the queue pairs -> compare -> sleep until the next is due
 *
 * When the replay is to stop, the worker starts nothing more and waits DRAIN_MS for answers; then it gives the rest up.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "cmd/fathom/replay/replay.h"

enum {
	PUBLISH_MS = 10,
	DRAIN_MS = 2000,
	SPIN_US = 50,  /* do not sleep for less */
	SLEEP_MS = 10, /* the longest sleep */
	TIMER_SLACK_NS = 1000,
	LATE_US = 100, /* later than this counts */
};

struct job {
	struct replay_worker *worker;
	struct replay *replay;
	struct incident_stream stream;
	struct schedule *schedule;
	struct replay_operation next; /* of the recording; valid if has_next */
	uint64_t next_number, next_at_ns;
	bool has_next, at_end, stopping;
	struct scheduled held; /* taken, and its queue pair, which queues share, had no room; valid if has_held */
	bool has_held;
	uint64_t publish_ns, give_up_ns, position_ns;
	uint32_t in_flight, flight_count;
	struct replay_flight *flights, *free_flights;
	uint8_t *scratch;
	struct fathom_qpair *qpairs[REPLAY_CONNECTIONS_MAX];
	uint32_t qpair_count;
	struct pollfd poll[REPLAY_CONNECTIONS_MAX];
};

void replay_note_error(struct replay *replay, const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&replay->mutex);
	if (replay->error_lines++ < REPLAY_ERROR_LINES_MAX) {
		va_start(args, format);
		fputs("fathom replay: ", stderr);
		vfprintf(stderr, format, args);
		fputc('\n', stderr);
		va_end(args);
	}
	pthread_mutex_unlock(&replay->mutex);
}

static void fail(struct job *job, int error, const char *text)
{
	job->stopping = true;
	if (job->worker->error)
		return;
	job->worker->error = error;
	snprintf(job->worker->error_text, sizeof(job->worker->error_text), "%s", text);
}

static uint64_t now_ns(const struct job *job)
{
	return clock_monotonic_ns() - job->replay->origin_ns;
}

/* ---- read ---- */

static bool is_left_out(struct job *job, const struct replay_operation *operation)
{
	if (job->replay->target.routes[operation->queue].worker != job->worker->index)
		return true;
	if (!job->replay->options.write && replay_kind_is_destructive(operation->kind)) {
		job->worker->omitted.destructive++;
		return true;
	}
	return false;
}

/* Find the next operation of this worker. */
static void find_next(struct job *job)
{
	struct fathom_fault why = { 0 };
	int rc;

	job->has_next = false;
	while (!job->at_end) {
		rc = incident_stream_next(&job->stream, &job->next, &job->next_number, &why);
		if (rc <= 0) {
			job->at_end = true;
			if (rc < 0)
				fail(job, rc, why.text);
		} else if (!is_left_out(job, &job->next)) {
			job->has_next = true;
			return;
		}
	}
}

/* Put operations that are due into the schedule. */
static void read_due(struct job *job, uint64_t now)
{
	while (!job->stopping && job->has_next && schedule_wants(job->schedule, job->next.start_ns, now)) {
		schedule_add(job->schedule, &job->next, job->next_number);
		find_next(job);
	}
}

/* ---- operations ---- */

static struct fathom_qpair *qpair_of(const struct job *job, const struct replay_operation *operation)
{
	const struct replay_target *target = &job->replay->target;

	return target->qpairs[target->routes[operation->queue].qpair];
}

static void note_failure(struct job *job, const struct replay_flight *flight, const struct fathom_completion *completion)
{
	const struct replay_operation *operation = &flight->item.operation;
	char text[160];

	job->worker->failed++;
	replay_note_error(job->replay, "operation %" PRIu64 ", a %s of %" PRIu32 " blocks from %" PRIu64 ": %s%s",
			  flight->item.number, replay_kind_name(operation->kind), flight->blocks, flight->lba,
			  fathom_completion_text(completion, text, sizeof(text)),
			  operation->failed ? " (it failed in the recording, too)" : "");
}

static void note_end(void *ctx, const struct fathom_completion *completion)
{
	uint64_t end_ns = clock_monotonic_ns();
	struct replay_flight *flight = ctx;
	struct job *job = flight->ctx;
	const struct comparison_result result = {
		.operation = &flight->item.operation,
		.number = flight->item.number,
		.replayed_ns = end_ns - flight->start_ns,
		.end_ns = end_ns - job->replay->origin_ns,
		.failed = completion->error || completion->status,
	};

	must(job->in_flight > 0);
	job->in_flight--;
	schedule_end(job->schedule, &flight->item, end_ns - job->replay->origin_ns);
	if (completion->error && fathom_qpair_fault(qpair_of(job, &flight->item.operation))->error) {
		job->worker->given_up++; /* the connection is lost or aborted */
	} else {
		job->worker->ended++;
		job->position_ns = max_u64(job->position_ns, flight->item.operation.start_ns);
		if (result.failed)
			note_failure(job, flight, completion);
		if (comparison_add(job->worker->comparison, &result) != 0)
			fail(job, -ENOMEM, "out of memory for the comparison");
	}
	free(flight->data);
	flight->next_free = job->free_flights;
	job->free_flights = flight;
}

static void note_lateness(struct job *job, const struct scheduled *item, uint64_t start_ns)
{
	uint64_t late_ns = start_ns > item->due_ns ? start_ns - item->due_ns : 0;

	if (job->replay->options.speed == 0)
		return;
	histogram_add(&job->worker->lateness, late_ns);
	if (item->had_to_wait && late_ns > LATE_US * NS_PER_US)
		job->worker->lateness_for_room++;
}

/* An operation that is not sent leaves the schedule. */
static void drop(struct job *job, const struct scheduled *item)
{
	schedule_end(job->schedule, item, now_ns(job));
}

/* Send an operation. False: its queue pair has no room; it is held. */
static bool start(struct job *job, const struct scheduled *item)
{
	const struct replay_target *target = &job->replay->target;
	struct replay_flight *flight = job->free_flights;
	bool widened, wrapped;
	int rc;

	must(flight);
	flight->item = *item;
	flight->ctx = job;
	job->has_held = false;
	if (!replay_place_operation(target, &item->operation, flight, &widened, &wrapped)) {
		job->worker->omitted.too_large++;
		drop(job, item);
		return true;
	}
	flight->start_ns = clock_monotonic_ns();
	rc = replay_send(flight, qpair_of(job, &item->operation), &target->places[item->operation.device], job->scratch,
			 note_end);
	if (rc) {
		free(flight->data);
		if (rc == -EAGAIN) {
			job->held = flight->item;
			job->has_held = true;
			return false;
		}
		drop(job, item);
		job->worker->omitted.not_reached++;
		if (rc != -ENOTCONN) /* a lost connection is reported by the poll */
			fail(job, rc, rc == -ENOMEM ? "out of memory for a write" : strerror(-rc));
		return true;
	}
	job->free_flights = flight->next_free;
	job->in_flight++;
	job->worker->started++;
	job->worker->widened += widened;
	job->worker->wrapped += wrapped;
	job->worker->as_reads += item->operation.kind == REPLAY_COMPARE;
	note_lateness(job, item, flight->start_ns - job->replay->origin_ns);
	return true;
}

/* Send all that is due. False: nothing was sent. */
static bool start_due(struct job *job, uint64_t now)
{
	struct scheduled item;
	bool any = false;

	if (job->stopping)
		return false;
	if (job->has_held) {
		item = job->held;
		if (!start(job, &item))
			return false;
		any = true;
	}
	while (!job->stopping && schedule_take(job->schedule, now, &item)) {
		if (!start(job, &item))
			break;
		any = true;
	}
	return any;
}

/* ---- the loop ---- */

static void publish(struct job *job, uint64_t now)
{
	struct replay *replay = job->replay;
	enum replay_stop stop;

	pthread_mutex_lock(&replay->mutex);
	job->worker->progress.done = job->worker->ended;
	job->worker->progress.position_ns = job->position_ns;
	stop = replay->stop;
	pthread_mutex_unlock(&replay->mutex);
	if (stop == REPLAY_LOST && !job->stopping) {
		fail(job, -ENOTCONN, "the connection to the controller is lost");
		job->give_up_ns = now;
	}
	job->stopping |= stop != REPLAY_GO_ON;
	job->publish_ns = now + PUBLISH_MS * NS_PER_MS;
	if (job->stopping && job->give_up_ns == 0)
		job->give_up_ns = now + DRAIN_MS * NS_PER_MS;
	if (job->stopping && now >= job->give_up_ns) {
		for (uint32_t i = 0; i < job->qpair_count; i++)
			fathom_qpair_abort(job->qpairs[i]);
	}
}

/* Returns the number of operations that ended. */
static uint32_t poll_queues(struct job *job)
{
	uint32_t ended = 0;

	for (uint32_t i = 0; i < job->qpair_count; i++) {
		int rc = fathom_qpair_poll(job->qpairs[i]);

		if (rc >= 0) {
			ended += (uint32_t)rc;
		} else if (!job->stopping) {
			fail(job, rc, fathom_qpair_fault(job->qpairs[i])->text);
			job->give_up_ns = 0;
		}
	}
	return ended;
}

/* Sleep until an answer arrives or the next operation is due. */
static void sleep_until_due(struct job *job, uint64_t now)
{
	uint64_t next_ns = min_u64(schedule_next_ns(job->schedule), now + SLEEP_MS * NS_PER_MS);
	struct timespec left;

	if (job->stopping)
		next_ns = now + NS_PER_MS;
	else if (job->has_next && schedule_waiting(job->schedule) < SCHEDULE_WAITING_MAX)
		next_ns = min_u64(next_ns, schedule_time(job->schedule, job->next.start_ns));
	if (next_ns < now + SPIN_US * NS_PER_US)
		return;
	left = (struct timespec){ .tv_nsec = (long)(next_ns - now - SPIN_US * NS_PER_US / 2) };
	for (uint32_t i = 0; i < job->qpair_count; i++) {
		job->poll[i] = (struct pollfd){ .fd = fathom_qpair_fd(job->qpairs[i]), .events = POLLIN };
		if (fathom_qpair_wants_to_send(job->qpairs[i]))
			job->poll[i].events |= POLLOUT;
	}
	(void)ppoll(job->poll, job->qpair_count, &left, NULL); /* a timeout or a signal; the loop checks all */
}

static bool has_work(const struct job *job)
{
	return job->in_flight > 0 ||
	       (!job->stopping && (job->has_next || job->has_held || schedule_waiting(job->schedule) > 0));
}

static void run(struct job *job)
{
	find_next(job);
	while (has_work(job)) {
		uint64_t now = now_ns(job);
		bool any;

		if (now >= job->publish_ns)
			publish(job, now);
		read_due(job, now);
		any = start_due(job, now);
		if (poll_queues(job) == 0 && !any)
			sleep_until_due(job, now_ns(job));
	}
}

/* Count what was not done, to the end of the recording. */
static void count_rest(struct job *job)
{
	job->worker->omitted.not_reached += schedule_waiting(job->schedule) + job->has_held;
	for (; job->has_next; find_next(job))
		job->worker->omitted.not_reached++;
}

/* ---- the thread ---- */

static bool prepare(struct job *job)
{
	const struct replay_target *target = &job->replay->target;
	uint32_t depths[REPLAY_QUEUES_MAX], queue_count = job->replay->file.summary.queue_count;
	bool mine[REPLAY_CONNECTIONS_MAX] = { false };
	struct schedule_options options = { .speed = job->replay->options.speed,
					    .keeps_gaps = job->replay->options.keep_gaps,
					    .queue_count = queue_count,
					    .depths = depths };
	void *memory = NULL;

	for (uint32_t i = 0; i < queue_count; i++) {
		const struct replay_route *route = &target->routes[i];

		depths[i] = route->used && route->depth > 0 ? route->depth : 1;
		if (!route->used || route->worker != job->worker->index)
			continue;
		job->flight_count += route->depth;
		if (!mine[route->qpair])
			job->qpairs[job->qpair_count++] = target->qpairs[route->qpair];
		mine[route->qpair] = true;
	}
	job->schedule = schedule_create(&options);
	job->flights = calloc(job->flight_count + 1, sizeof(*job->flights));
	if (posix_memalign(&memory, 4096, target->transfer_bytes_max) != 0)
		memory = NULL;
	job->scratch = memory;
	for (uint32_t i = 0; job->flights && i < job->flight_count; i++) {
		job->flights[i].next_free = job->free_flights;
		job->free_flights = &job->flights[i];
	}
	return job->schedule && job->flights && job->scratch;
}

void *replay_worker_main(void *arg)
{
	struct replay_worker *worker = arg;
	struct replay *replay = worker->replay;
	struct job *job = calloc(1, sizeof(*job));

	must(job); /* 80 KB */
	job->worker = worker;
	job->replay = replay;
	job->stream.file = &replay->file;
	job->stream.selection = &replay->selection;
	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0); /* without it, operations start a little later */
	if (prepare(job)) {
		run(job);
		count_rest(job);
		worker->seconds_ns = now_ns(job);
	} else {
		fail(job, -ENOMEM, "out of memory for the queues");
	}
	schedule_destroy(job->schedule);
	free(job->flights);
	free(job->scratch);
	pthread_mutex_lock(&replay->mutex);
	worker->progress.done = worker->ended;
	worker->progress.position_ns = job->position_ns;
	worker->progress.finished = true;
	pthread_cond_signal(&replay->finished);
	pthread_mutex_unlock(&replay->mutex);
	free(job);
	return NULL;
}
