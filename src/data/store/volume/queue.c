/* SPDX-License-Identifier: BSD-2-Clause */
/* queue - runs the changes of the storage one at a time, each on a worker thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "data/store/backend/backend.h"
#include "data/store/volume/copy.h"
#include "data/store/volume/upkeep.h"
#include "data/store/volume/probes.gen.h"

struct change *change_create(struct volumes *volumes, const struct change_kind *kind, volumes_done_fn done, void *ctx)
{
	struct change *change = calloc(1, sizeof(*change));

	must(change);
	must(done);
	change->volumes = volumes;
	change->kind = kind;
	change->done = done;
	change->ctx = ctx;
	return change;
}

static const struct trace_istr *shown_name(const struct change *change)
{
	return trace_intern(change->record.name[0] ? change->record.name : change->pool);
}

void change_report(struct change *change)
{
	struct volumes *volumes = change->volumes;

	must(change->error <= 0);
	if (change->is_reported)
		return;
	change->is_reported = true;
	if (change->kind == &empty_trash_kind || change->kind->change == VOLUME_CHANGE_READ_SPACE || upkeep_is_step(change))
		; /* the engine makes them itself */
	else if (change->error)
		volumes->changes_failed++;
	else
		volumes->changes_done++;
	change->done(change->ctx, change->error ? &change->why : NULL);
}

/* The change has ended, and is not in the queue any more. */
static void finish_change(struct change *change)
{
	change_report(change);
	copy_free(change->copy);
	file_volume_abandon(change->opened);
	volume_record_deinit(&change->record);
	free(change);
}

static void insert_change(struct change *change)
{
	struct volumes *volumes = change->volumes;

	STAILQ_INSERT_TAIL(&volumes->changes, change, link);
	volumes->change_count++;
}

/* The first change that no copy keeps waiting; NULL: none. */
static struct change *take_next(struct volumes *volumes)
{
	struct change *change;

	STAILQ_FOREACH (change, &volumes->changes, link) {
		if (!copies_block(volumes, change))
			break;
	}
	if (!change)
		return NULL;
	must(volumes->change_count > 0);
	STAILQ_REMOVE(&volumes->changes, change, change, link);
	volumes->change_count--;
	return change;
}

static void start_next(struct volumes *volumes);
static void finish_empty_trash(void *ctx, const struct fathom_fault *why);

/* Worker thread. */
static void run_work(struct worker_job *job)
{
	struct change *change = container_of(job, struct change, job);

	change->error = change->kind->work(change, &change->why);
	must(change->error <= 0);
}

/* The work of the running change has ended, or was not begun. */
static void end_running(struct change *change)
{
	struct volumes *volumes = change->volumes;

	must(volumes->running == change);
	volumes->running = NULL;
	probe_volume_change_end(clock_ticks(), volumes, change->kind->change, shown_name(change), change->error,
				clock_monotonic_ns() - change->begin_ns);
	if (!change->error)
		change->kind->apply(change);
	else if (change->kind->undo)
		change->kind->undo(change);
	volumes_note_trash(volumes);
	if (volumes->state == STORAGE_OPEN && pool_tree_is_failed(volumes->tree)) {
		log_error("storage %s: a change could not be synced, so its state on disk is not known: changes are"
			  " rejected until the engine restarts",
			  volumes->root);
		storage_move(volumes, STORAGE_FAILED);
		if (volumes->failed)
			volumes->failed(volumes->failed_ctx, NULL);
	}
	if (!change->is_copying) /* else its end kind comes later */
		finish_change(change);
}

static void finish_work(struct worker_job *job)
{
	struct change *change = container_of(job, struct change, job);
	struct volumes *volumes = change->volumes;

	end_running(change);
	start_next(volumes);
}

void change_prepared(struct change *change, int error)
{
	struct volumes *volumes = change->volumes;

	must(volumes->running == change);
	if (!error) {
		change->job = (struct worker_job){ .work = run_work, .done = finish_work };
		error = worker_start(&change->job);
		if (!error)
			return;
		fill_fault(&change->why, error, "cannot start a thread: %s", strerror(-error));
	}
	change->error = error;
	end_running(change);
	queue_wake(volumes);
}

/* A reason to reject the change now, whatever it is, or 0. */
static int check_storage(const struct change *change, struct fathom_fault *why)
{
	const struct volumes *volumes = change->volumes;

	if (change->is_ending)
		return 0;
	switch (volumes->state) {
	case STORAGE_OPEN:
		return 0;
	case STORAGE_FAILED:
		if (change->kind->change == VOLUME_CHANGE_READ_SPACE) /* it writes nothing, and hosts still do */
			return 0;
		return fault(
			why, -EROFS,
			"storage %s: an earlier change could not be synced; restart the engine to read the storage again",
			volumes->root);
	default:
		return fault(why, -ESHUTDOWN, "storage %s is %s", volumes->root, storage_state_name(volumes->state));
	}
}

/* No change waits: what the engine does by itself. */
static void insert_own(struct volumes *volumes)
{
	struct change *change;

	if (volumes->has_trash)
		change = change_create(volumes, &empty_trash_kind, finish_empty_trash, volumes);
	else
		change = upkeep_next_step(volumes->upkeep);
	if (change)
		insert_change(change);
}

/* Start the first change of the queue on a worker. Changes that need no work, or cannot be done, end here. */
static void start_next(struct volumes *volumes)
{
	while (!volumes->running && !volumes->is_opening) {
		struct change *change;
		int error;

		if (STAILQ_EMPTY(&volumes->changes) && volumes->state == STORAGE_OPEN)
			insert_own(volumes);
		change = take_next(volumes);
		if (!change)
			break;
		error = check_storage(change, &change->why);
		if (!error)
			error = change->kind->check(change, &change->why);
		if (!error) {
			change->begin_ns = clock_monotonic_ns();
			change->since_ns = clock_realtime_ns();
			probe_volume_change_begin(clock_ticks(), volumes, change->kind->change, shown_name(change));
			volumes->running = change;
			if (change->kind->prepare)
				change->kind->prepare(change);
			else
				change_prepared(change, 0);
			return;
		}
		change->error = error == -EALREADY ? 0 : error;
		finish_change(change);
	}
	volumes_continue_close(volumes);
}

/* The trash cannot be read: try again after the next removal, or at the next start. */
static void finish_empty_trash(void *ctx, const struct fathom_fault *why)
{
	struct volumes *volumes = ctx;

	if (!why || volumes->closed)
		return;
	log_warning("storage %s: removed volumes and pools cannot be deleted: %s", volumes->root, why->text);
	volumes->has_trash = false;
}

static void start_by_message(void *ctx)
{
	struct volumes *volumes = ctx;

	must(volumes->is_start_sent);
	volumes->is_start_sent = false;
	start_next(volumes);
}

void queue_wake(struct volumes *volumes)
{
	if (!volumes->is_start_sent)
		thread_send_msg(thread_control(), start_by_message, volumes);
	volumes->is_start_sent = true;
}

void change_submit(struct change *change)
{
	struct volumes *volumes = change->volumes;

	must_be_on(thread_control());
	insert_change(change);
	queue_wake(volumes);
}

void change_submit_first(struct change *change)
{
	struct volumes *volumes = change->volumes;

	must(change->is_ending);
	STAILQ_INSERT_HEAD(&volumes->changes, change, link);
	volumes->change_count++;
	queue_wake(volumes);
}

void changes_fail_waiting(struct volumes *volumes, int error, const char *text)
{
	struct change *change, *next;

	for (change = STAILQ_FIRST(&volumes->changes); change; change = next) {
		next = STAILQ_NEXT(change, link);
		if (change->is_ending)
			continue;
		STAILQ_REMOVE(&volumes->changes, change, change, link);
		volumes->change_count--;
		change->error = fault(&change->why, error, "storage %s: %s", volumes->root, text);
		finish_change(change);
	}
}
