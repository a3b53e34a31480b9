/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * barrier - copies volumes at one instant: see barrier.h.
 *
 * The control thread fills a batch with steps: the regions for which writes wait, in the order of the requests, or if no
 * write waits the next ones of each member. A worker thread runs the batch for BATCH_NS at most, and one step longer. Then
 * the regions are opened in all channels, and the next batch begins.
 */
#include "data/store/volume/barrier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "data/store/backend/backend.h"
#include "data/store/volume/barrier_internal.h"
#include "data/store/volume/probes.gen.h"

enum {
	REGION_BYTES_MIN = 1 << 20,
	REGIONS_MAX = 4 << 20, /* of a member: its list takes half a mebibyte, and one for each channel */
	STEP_BYTES_FIRST = 4 << 20,
	BATCH_STEPS_NEXT = 8, /* steps that no write waits for */
	POLL_MS = 100,
};

#define BATCH_NS (20 * NS_PER_MS)
#define STEP_SLOW_NS (20 * NS_PER_MS) /* a longer one halves the steps of its member */
#define STEP_FAST_NS (5 * NS_PER_MS)  /* a shorter one doubles them */

/* ---- regions ---- */

static bool is_copied(const struct member *member, uint64_t region)
{
	return member->copied[region / 8] & (1u << (region % 8));
}

static void mark_copied(struct barrier *barrier, const struct step *step)
{
	struct member *member = step->member;

	for (uint64_t i = step->run.first; i < step->run.first + step->run.count; i++) {
		must(!is_copied(member, i));
		member->copied[i / 8] |= (uint8_t)(1u << (i % 8));
		barrier->bytes_copied += min_u64(member->region_bytes, member->bytes - i * member->region_bytes);
	}
	while (member->next < member->region_count && is_copied(member, member->next))
		member->next++;
}

/* ---- the end ---- */

static void release_if_unused(struct barrier *barrier)
{
	const struct barrier_calls *calls = barrier->calls;
	void *ctx = barrier->ctx;

	if (barrier->state != BARRIER_RELEASING || barrier->holds > 0 || barrier->is_working || barrier->is_starting ||
	    !barrier->is_done)
		return;
	barrier_state_move(clock_ticks(), barrier, BARRIER_ENDED);
	poller_unregister(&barrier->poller);
	while (!STAILQ_EMPTY(&barrier->requests)) {
		struct request *request = STAILQ_FIRST(&barrier->requests);

		STAILQ_REMOVE_HEAD(&barrier->requests, link);
		free(request);
	}
	for (uint32_t i = 0; i < barrier->member_count; i++) {
		free(barrier->members[i].copied);
		free(barrier->members[i].suspect);
	}
	free(barrier);
	calls->released(ctx);
}

static void call_done(struct barrier *barrier, const struct fathom_fault *why)
{
	must(!barrier->is_done);
	barrier->is_done = true;
	probe_volume_barrier_end(clock_ticks(), barrier, why ? why->error : 0, barrier->steps_done, barrier->step_ns_max);
	barrier->calls->done(barrier->ctx, why);
}

/* All writes go on. */
static void release_holds(struct barrier *barrier)
{
	if (barrier->state == BARRIER_RELEASING)
		return;
	barrier_state_move(clock_ticks(), barrier, BARRIER_RELEASING);
	barrier->waits_since_ns = clock_monotonic_ns();
	for (uint32_t i = 0; i < barrier->member_count; i++) {
		if (barrier->members[i].hold)
			bdev_hold_end(barrier->members[i].hold);
	}
}

static void give_up(struct barrier *barrier, const struct fathom_fault *why)
{
	release_holds(barrier);
	if (!barrier->is_done)
		call_done(barrier, why);
	release_if_unused(barrier);
}

static void finish_if_released(struct barrier *barrier)
{
	struct fathom_fault why;

	if (barrier->state == BARRIER_RELEASING && barrier->holds == 0 && !barrier->is_done) {
		if (barrier->is_inexact)
			fill_fault(&why, -ETIMEDOUT,
				   "a write passed before its region was copied, because the engine did not run for long");
		call_done(barrier, barrier->is_inexact ? &why : NULL);
	}
	release_if_unused(barrier);
}

/* ---- steps ---- */

/* Worker thread; in the first batch, before writes go on. */
static int clone_sums(struct barrier *barrier)
{
	const struct pool_fs *fs = barrier->fs;
	int error = 0;

	for (uint32_t i = 0; !error && i < barrier->member_count; i++) {
		struct member *member = &barrier->members[i];

		if (member->sums_bytes > 0)
			error = fs->clone(fs->ctx, member->sums_to, member->sums_from, 0, member->sums_bytes);
		if (!error && member->sums_bytes > 0 && member->suspect)
			error = fs->write(fs->ctx, member->sums_to, member->suspect, member->suspect_bytes);
		member->sums_bytes = 0;
	}
	return error;
}

/* Worker thread. */
static void run_steps(struct worker_job *job)
{
	struct barrier *barrier = container_of(job, struct barrier, job);
	const struct pool_fs *fs = barrier->fs;
	uint64_t begin_ns = clock_monotonic_ns(), from_ns = begin_ns, now_ns;

	barrier->error = clone_sums(barrier);
	if (barrier->error)
		return;
	while (barrier->steps_run < barrier->step_count) {
		struct step *step = &barrier->steps[barrier->steps_run];
		const struct member *member = step->member;
		uint64_t offset = step->run.first * member->region_bytes;
		uint64_t bytes = min_u64(step->run.count * member->region_bytes, member->bytes - offset);

		barrier->error = fs->clone(fs->ctx, member->to, member->from, offset, bytes);
		if (barrier->error)
			return;
		now_ns = clock_monotonic_ns();
		step->took_ns = now_ns - from_ns;
		from_ns = now_ns;
		barrier->steps_run++;
		if (now_ns - begin_ns > BATCH_NS)
			return;
	}
}

static void add_step(struct barrier *barrier, struct member *member, struct bdev_regions run, bool is_requested)
{
	must(barrier->step_count < BATCH_STEPS_MAX);
	barrier->steps[barrier->step_count++] = (struct step){ .member = member, .run = run, .is_requested = is_requested };
}

static bool is_in_batch(const struct barrier *barrier, const struct member *member, uint64_t region)
{
	for (uint32_t i = 0; i < barrier->step_count; i++) {
		const struct step *step = &barrier->steps[i];

		if (step->member == member && region - step->run.first < step->run.count)
			return true;
	}
	return false;
}

/* The regions from `first` on that can be one step, at most `count_max` and not after `end`. */
static uint64_t count_free_regions(const struct barrier *barrier, const struct member *member, uint64_t first, uint64_t end,
				   uint64_t count_max)
{
	uint64_t count = 0;

	while (count < count_max && first + count < end && !is_copied(member, first + count) &&
	       !is_in_batch(barrier, member, first + count))
		count++;
	return count;
}

/* A step, or the opening, of the first regions that a write waits for. False: the batch has no room for the opening. */
static bool add_requested(struct barrier *barrier, struct request *request)
{
	struct member *member = request->member;
	struct bdev_regions *run = &request->run;
	uint64_t steps_max = max_u64(1, STEP_BYTES_FIRST / member->region_bytes);
	uint64_t count = count_free_regions(barrier, member, run->first, run->first + run->count, steps_max);

	if (count > 0) {
		add_step(barrier, member, (struct bdev_regions){ run->first, count }, true);
	} else {
		while (count < run->count && is_copied(member, run->first + count))
			count++;
		if (count > 0 && member->hold) {
			/* the channel may have missed the opening, because it was just created */
			if (member->run_count == REOPENINGS_MAX)
				return false;
			member->runs[member->run_count++] = (struct bdev_regions){ run->first, count };
		}
		count = max_u64(1, count); /* 1: it is in the batch */
	}
	run->first += count;
	run->count -= count;
	return true;
}

static void add_requests(struct barrier *barrier)
{
	struct request_list late = STAILQ_HEAD_INITIALIZER(late);
	struct request *request;

	while (barrier->step_count < BATCH_STEPS_MAX / 2 && (request = STAILQ_FIRST(&barrier->requests))) {
		STAILQ_REMOVE_HEAD(&barrier->requests, link);
		if (!add_requested(barrier, request))
			STAILQ_INSERT_TAIL(&late, request, link);
		else if (request->run.count > 0)
			STAILQ_INSERT_TAIL(&barrier->requests, request, link);
		else
			free(request);
	}
	STAILQ_CONCAT(&late, &barrier->requests);
	STAILQ_CONCAT(&barrier->requests, &late); /* these first in the next batch */
}

/* False: all regions of the member are copied, or in the batch. */
static bool add_next_of(struct barrier *barrier, struct member *member)
{
	uint64_t first = member->next, count;

	while (first < member->region_count && (is_copied(member, first) || is_in_batch(barrier, member, first)))
		first++;
	count = count_free_regions(barrier, member, first, member->region_count,
				   max_u64(1, member->step_bytes / member->region_bytes));
	if (count > 0)
		add_step(barrier, member, (struct bdev_regions){ first, count }, false);
	return count > 0;
}

static void add_next(struct barrier *barrier)
{
	uint32_t added = 0, before;

	do {
		before = added;
		for (uint32_t i = 0; i < barrier->member_count && barrier->step_count < BATCH_STEPS_MAX; i++)
			added += add_next_of(barrier, &barrier->members[i]);
	} while (added > before && added < BATCH_STEPS_NEXT && barrier->step_count < BATCH_STEPS_MAX);
}

static bool is_complete(const struct barrier *barrier)
{
	for (uint32_t i = 0; i < barrier->member_count; i++) {
		if (barrier->members[i].next < barrier->members[i].region_count)
			return false;
	}
	return true;
}

static void finish_steps(struct worker_job *job);

static void start_batch(struct barrier *barrier)
{
	struct fathom_fault why;
	int error;

	must(barrier->state == BARRIER_COPYING && !barrier->is_working && barrier->opening == 0);
	if (is_complete(barrier)) {
		release_holds(barrier);
		finish_if_released(barrier);
		return;
	}
	barrier->step_count = barrier->steps_run = 0;
	add_requests(barrier);
	if (barrier->step_count == 0) /* no write waits */
		add_next(barrier);
	must(barrier->step_count > 0);
	barrier->job = (struct worker_job){ .work = run_steps, .done = finish_steps };
	barrier->waits_since_ns = clock_monotonic_ns();
	barrier->is_working = true;
	error = worker_start(&barrier->job);
	if (!error)
		return;
	barrier->is_working = false;
	fill_fault(&why, error, "cannot start a thread: %s", strerror(-error));
	give_up(barrier, &why);
}

static void note_opened(void *ctx)
{
	struct member *member = ctx;
	struct barrier *barrier = member->barrier;

	must(barrier->opening > 0);
	member->run_count = 0;
	if (--barrier->opening == 0 && barrier->state == BARRIER_COPYING)
		start_batch(barrier);
}

static void open_copied(struct barrier *barrier)
{
	for (uint32_t i = 0; i < barrier->member_count; i++) {
		struct member *member = &barrier->members[i];

		if (!member->hold)
			member->run_count = 0;
		if (member->run_count > 0) {
			barrier->opening++;
			bdev_hold_open(member->hold, member->runs, member->run_count, note_opened);
		}
	}
	if (barrier->opening == 0)
		start_batch(barrier);
}

static void adapt_step(struct barrier *barrier, const struct step *step)
{
	struct member *member = step->member;

	barrier->steps_done++;
	barrier->step_ns_max = max_u64(barrier->step_ns_max, step->took_ns);
	probe_volume_barrier_step(clock_ticks(), barrier, trace_intern(member->device),
				  step->run.first * member->region_bytes, step->run.count * member->region_bytes,
				  step->took_ns);
	if (step->took_ns > STEP_SLOW_NS)
		member->step_bytes = max_u64(member->step_bytes / 2, member->region_bytes);
	else if (step->took_ns < STEP_FAST_NS)
		member->step_bytes = min_u64(member->step_bytes * 2, BARRIER_STEP_BYTES_MAX);
}

/* The batch ended before these steps, for which writes wait: they come first in the next one. */
static void request_again(struct barrier *barrier)
{
	for (uint32_t i = barrier->step_count; i > barrier->steps_run; i--) {
		const struct step *step = &barrier->steps[i - 1];
		struct request *request = step->is_requested ? malloc(sizeof(*request)) : NULL;

		if (!request) /* out of memory: its turn comes anyway, only later */
			continue;
		*request = (struct request){ .member = step->member, .run = step->run };
		STAILQ_INSERT_HEAD(&barrier->requests, request, link);
	}
}

static void finish_steps(struct worker_job *job)
{
	struct barrier *barrier = container_of(job, struct barrier, job);
	struct fathom_fault why;

	barrier->is_working = false;
	if (barrier->state != BARRIER_COPYING) { /* given up meanwhile */
		release_if_unused(barrier);
		return;
	}
	for (uint32_t i = 0; i < barrier->steps_run; i++) {
		struct member *member = barrier->steps[i].member;

		mark_copied(barrier, &barrier->steps[i]);
		adapt_step(barrier, &barrier->steps[i]);
		must(member->run_count < RUNS_MAX);
		member->runs[member->run_count++] = barrier->steps[i].run;
	}
	if (barrier->error) {
		fill_fault(&why, barrier->error, "cannot copy %s: %s", barrier->steps[barrier->steps_run].member->device,
			   strerror(-barrier->error));
		give_up(barrier, &why);
		return;
	}
	request_again(barrier);
	barrier->waits_since_ns = clock_monotonic_ns();
	open_copied(barrier);
}

/* ---- the holds ---- */

/*
 * A region is marked while it is written, and marked regions are suspect when a file of checksums is opened. But no write
 * is in progress at T0, so all checksums of the copy fit its data, except those that are suspect already.
 */
static void note_suspect(struct member *member)
{
	const struct bdev *bdev = member->hold && member->sums_bytes > 0 ? bdev_find(member->device) : NULL;

	if (bdev && file_has_sums(bdev))
		member->suspect = file_sums_copy_suspect(bdev, &member->suspect_bytes);
}

/* T0, if the writes of all members are held. */
static void begin_if_held(struct barrier *barrier)
{
	must(barrier->state == BARRIER_HOLDING);
	if (barrier->is_starting)
		return;
	for (uint32_t i = 0; i < barrier->member_count; i++) {
		if (barrier->members[i].hold && !barrier->members[i].is_held)
			return;
	}
	for (uint32_t i = 0; i < barrier->member_count; i++)
		note_suspect(&barrier->members[i]);
	barrier->instant_ns = clock_realtime_ns();
	barrier_state_move(clock_ticks(), barrier, BARRIER_COPYING);
	start_batch(barrier);
}

static void note_held(void *ctx, int error)
{
	struct member *member = ctx;
	struct barrier *barrier = member->barrier;
	struct fathom_fault why;

	if (barrier->state != BARRIER_HOLDING)
		return;
	if (error) {
		fill_fault(&why, error, "cannot hold the writes of %s: %s", member->device, strerror(-error));
		give_up(barrier, &why);
		return;
	}
	member->is_held = true;
	begin_if_held(barrier);
}

static void note_wanted(void *ctx, uint64_t region, uint64_t count)
{
	struct member *member = ctx;
	struct request *request = malloc(sizeof(*request));

	if (!request) /* its turn comes without that, only later */
		return;
	must(region + count <= member->region_count);
	*request = (struct request){ .member = member, .run = { region, count } };
	STAILQ_INSERT_TAIL(&member->barrier->requests, request, link);
}

static void note_ended(void *ctx, bool exact)
{
	struct member *member = ctx;
	struct barrier *barrier = member->barrier;

	must(member->hold && barrier->holds > 0);
	member->hold = NULL;
	barrier->holds--;
	barrier->is_inexact = barrier->is_inexact || !exact;
	finish_if_released(barrier);
}

static const struct bdev_hold_calls hold_calls = { note_held, note_wanted, note_ended };

/* ---- bounds ---- */

static int check_bounds(void *ctx)
{
	struct barrier *barrier = ctx;
	uint64_t waits_ns = clock_monotonic_ns() - barrier->waits_since_ns;
	uint64_t bound_sec = barrier->state == BARRIER_HOLDING ? BARRIER_DRAIN_SEC
			     : barrier->has_holds	       ? BARRIER_STALL_SEC
							       : BARRIER_PATIENT_SEC;
	struct fathom_fault why;

	if (barrier->is_done || waits_ns < bound_sec * NS_PER_SEC)
		return 0;
	if (barrier->state == BARRIER_HOLDING)
		fill_fault(&why, -ETIMEDOUT,
			   "writes that hosts had submitted did not end within %d s: the device is slow or hangs",
			   BARRIER_DRAIN_SEC);
	else if (barrier->is_working)
		fill_fault(&why, -ETIMEDOUT, "a step of the copy did not end within %d s: the device is slow or hangs",
			   (int)bound_sec);
	else
		fill_fault(&why, -ETIMEDOUT, "a thread of the engine did not answer within %d s", (int)bound_sec);
	give_up(barrier, &why);
	return 1;
}

/* ---- start ---- */

static int init_member(struct barrier *barrier, struct member *member, const struct barrier_member *from,
		       struct fathom_fault *why)
{
	member->barrier = barrier;
	member->from = from->from;
	member->to = from->to;
	member->bytes = from->bytes;
	member->sums_bytes = from->sums_bytes;
	member->sums_from = from->sums_from;
	member->sums_to = from->sums_to;
	member->region_bytes = REGION_BYTES_MIN;
	member->step_bytes = STEP_BYTES_FIRST;
	must(from->bytes > 0);
	while ((from->bytes - 1) / member->region_bytes >= REGIONS_MAX)
		member->region_bytes *= 2;
	member->region_count = (from->bytes - 1) / member->region_bytes + 1;
	member->copied = calloc((member->region_count + 7) / 8, 1);
	barrier->bytes += from->bytes;
	return member->copied ? 0 : fault(why, -ENOMEM, "out of memory");
}

static int hold_member(struct barrier *barrier, struct member *member, const char *device, struct fathom_fault *why)
{
	struct bdev *bdev = bdev_find(device);
	struct bdev_hold_options options = { .calls = &hold_calls, .ctx = member };
	int error;

	strcpy(member->device, device); /* the name of a block device */
	if (!bdev)
		return fault(why, -ENODEV, "there is no block device \"%s\"", device);
	if (member->bytes != bdev_block_count(bdev) * bdev->block_bytes)
		return fault(why, -EBUSY, "the size of %s is changing", device);
	options.region_blocks = member->region_bytes / bdev->block_bytes;
	error = bdev_hold_begin(bdev, &options, &member->hold);
	if (error)
		return fault(why, error, "cannot hold the writes of %s: %s", device, strerror(-error));
	barrier->holds++;
	barrier->has_holds = true;
	return 0;
}

static int start_members(struct barrier *barrier, const struct barrier_member *members, struct fathom_fault *why)
{
	int error = 0;

	for (uint32_t i = 0; !error && i < barrier->member_count; i++)
		error = init_member(barrier, &barrier->members[i], &members[i], why);
	if (!error) {
		barrier->poller = poller_register("volume_barrier", check_bounds, barrier, POLL_MS * NS_PER_MS);
		error = barrier->poller ? 0 : fault(why, -ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; !error && i < barrier->member_count; i++) {
		if (members[i].device)
			error = hold_member(barrier, &barrier->members[i], members[i].device, why);
	}
	return error;
}

static void begin_by_message(void *ctx)
{
	struct barrier *barrier = ctx;

	barrier->is_starting = false;
	if (barrier->start_error && !barrier->is_done)
		give_up(barrier, &barrier->start_why);
	else if (barrier->state == BARRIER_HOLDING)
		begin_if_held(barrier);
	else
		release_if_unused(barrier);
}

struct barrier *barrier_start(const struct pool_fs *fs, const struct barrier_member *members, uint32_t count,
			      const struct barrier_calls *calls, void *ctx)
{
	struct barrier *barrier = calloc(1, sizeof(*barrier) + count * sizeof(barrier->members[0]));

	must_be_on(thread_control());
	must(count > 0 && count <= BARRIER_MEMBERS_MAX);
	must(calls->done && calls->released);
	must(barrier);
	barrier->fs = fs;
	barrier->calls = calls;
	barrier->ctx = ctx;
	barrier->member_count = count;
	barrier->since_ns = clock_realtime_ns();
	barrier->waits_since_ns = clock_monotonic_ns();
	STAILQ_INIT(&barrier->requests);
	trace_object_init(&barrier->trace, TRACE_OBJECT_BARRIER);
	probe_volume_barrier_begin(clock_ticks(), barrier, count);
	barrier_state_move(clock_ticks(), barrier, BARRIER_HOLDING);
	barrier->is_starting = true;
	barrier->start_error = start_members(barrier, members, &barrier->start_why);
	thread_send_msg(thread_control(), begin_by_message, barrier);
	return barrier;
}

void barrier_cancel(struct barrier *barrier)
{
	struct fathom_fault why;

	must_be_on(thread_control());
	if (barrier->is_done)
		return;
	fill_fault(&why, -ECANCELED, "the copy was cancelled");
	give_up(barrier, &why);
}

void barrier_get_info(const struct barrier *barrier, struct barrier_info *info_ret)
{
	*info_ret = (struct barrier_info){
		.state = barrier->state,
		.since_ns = barrier->since_ns,
		.instant_ns = barrier->instant_ns,
		.bytes = barrier->bytes,
		.bytes_copied = barrier->bytes_copied,
		.steps = barrier->steps_done,
		.step_ns_max = barrier->step_ns_max,
	};
}
