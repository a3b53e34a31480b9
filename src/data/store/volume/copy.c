/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/volume/copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/clock.h"
#include "base/log.h"

struct copy *copy_create(uint32_t count)
{
	struct copy *copy = calloc(1, sizeof(*copy));

	must(count > 0);
	must(copy);
	copy->count = count;
	copy->volumes = calloc(count, sizeof(*copy->volumes));
	copy->members = calloc(count, sizeof(*copy->members));
	copy->files = calloc(count, sizeof(*copy->files));
	must(copy->volumes && copy->members && copy->files); /* small, as a change */
	for (uint32_t i = 0; i < count; i++)
		copy->files[i].from = copy->files[i].sums_from = -1;
	return copy;
}

void copy_close_sources(struct copy *copy)
{
	for (uint32_t i = 0; i < copy->count; i++) {
		struct barrier_member *file = &copy->files[i];

		if (file->from >= 0)
			(void)close(file->from); /* only read */
		if (file->sums_from >= 0)
			(void)close(file->sums_from);
		file->from = file->sums_from = -1;
	}
}

void copy_free(struct copy *copy)
{
	if (!copy)
		return;
	must(!copy->barrier && !copy->is_open && !copy->quiesce && !copy->replacement);
	copy_close_sources(copy);
	volume_record_deinit(&copy->record);
	free(copy->volumes);
	free(copy->members);
	free(copy->files);
	free(copy);
}

/* The copy is given up: its caller gets the result now, its files are removed by the end kind. */
static void fail_copy(struct change *change, const struct fathom_fault *why)
{
	change->copy->error = why->error;
	change->copy->why = *why;
	change->error = why->error;
	change->why = *why;
	change_report(change);
}

static void note_done(void *ctx, const struct fathom_fault *why)
{
	struct change *change = ctx;
	struct barrier_info info;

	barrier_get_info(change->copy->barrier, &info);
	change->copy->instant_ns = info.instant_ns;
	if (why)
		fail_copy(change, why);
}

void copy_go_on(struct change *change, const struct change_kind *end_kind)
{
	must(change->is_copying);
	change->kind = end_kind;
	change->is_ending = true;
	change_submit_first(change);
}

static void start_end_kind(struct change *change)
{
	copy_go_on(change, change->copy->end_kind);
}

static void note_quiesced(void *ctx, const struct fathom_fault *why)
{
	struct change *change = ctx;

	if (why) {
		change->copy->quiesce = NULL;
		fail_copy(change, why);
	}
	start_end_kind(change);
}

static void run_settle(struct worker_job *job)
{
	struct change *change = container_of(job, struct change, job);

	change->copy->error = change->copy->settle(change, &change->copy->why);
}

static void finish_settle(struct worker_job *job)
{
	struct change *change = container_of(job, struct change, job);
	struct copy *copy = change->copy;

	if (copy->error) { /* the end kind has the reason, and nothing that hangs: the caller waits for it */
		start_end_kind(change);
		return;
	}
	copy->quiesced_ns = clock_monotonic_ns();
	copy->quiesce = quiesce_start(copy->quiesced->device, note_quiesced, change);
}

static void start_settle(struct change *change)
{
	struct fathom_fault why;
	int error;

	change->job = (struct worker_job){ .work = run_settle, .done = finish_settle };
	error = worker_start(&change->job);
	if (!error)
		return;
	fill_fault(&why, error, "cannot start a thread: %s", strerror(-error));
	fail_copy(change, &why);
	start_end_kind(change);
}

static void note_released(void *ctx)
{
	struct change *change = ctx;
	struct copy *copy = change->copy;

	copy->barrier = NULL;
	if (copy->quiesced && !copy->error)
		start_settle(change);
	else
		start_end_kind(change);
}

static const struct barrier_calls calls = { note_done, note_released };

void copy_begin(struct change *change, const struct change_kind *end_kind)
{
	struct copy *copy = change->copy;
	struct volumes *volumes = change->volumes;

	must(copy->is_open);
	copy->change = change;
	copy->end_kind = end_kind;
	copy->since_ns = clock_realtime_ns();
	TAILQ_INSERT_TAIL(&volumes->copies, copy, link);
	change->is_copying = true;
	copy->barrier = barrier_start(volumes->fs, copy->files, copy->count, &calls, change);
	if (volumes->closed) /* the close has cancelled the others already */
		barrier_cancel(copy->barrier);
}

void copy_end(struct change *change)
{
	must(!change->copy->barrier && change->is_copying);
	quiesce_end(change->copy->quiesce);
	change->copy->quiesce = NULL;
	TAILQ_REMOVE(&change->volumes->copies, change->copy, link);
	change->is_copying = false;
}

void copies_cancel(struct volumes *volumes)
{
	struct copy *copy;

	TAILQ_FOREACH (copy, &volumes->copies, link) {
		if (copy->barrier)
			barrier_cancel(copy->barrier);
	}
}

/* ---- what waits ---- */

/* An empty `volume`: any of the pool. */
static const struct copy *find_copy(const struct volumes *volumes, const char *pool, const char *volume)
{
	const struct copy *copy;

	TAILQ_FOREACH (copy, &volumes->copies, link) {
		for (uint32_t i = 0; i < copy->count; i++) {
			if (strcmp(copy->volumes[i].pool, pool) == 0 &&
			    (volume[0] == '\0' || strcmp(copy->volumes[i].name, volume) == 0))
				return copy;
		}
	}
	return NULL;
}

bool copies_clone(const struct volume *volume)
{
	const struct copy *copy;

	if (!volume->volumes) /* the storage is being opened */
		return false;
	TAILQ_FOREACH (copy, &volume->volumes->copies, link) {
		/* that of a restore is the volume itself, perhaps a clone of another one */
		if (!copy->quiesced && copy->record.has_origin &&
		    uuid_compare(copy->record.origin_volume, volume->record.uuid) == 0)
			return true;
	}
	return false;
}

uint64_t copies_new_bytes(const struct pool *pool)
{
	const struct volume *first = TAILQ_FIRST(&pool->volumes);
	const struct copy *copy;
	uint64_t bytes = 0;

	if (!first) /* a copy has a source */
		return 0;
	TAILQ_FOREACH (copy, &first->volumes->copies, link) {
		if (strcmp(copy->volumes[0].pool, pool->record.name) == 0)
			bytes += copy->new_bytes;
	}
	return bytes;
}

bool copies_block(const struct volumes *volumes, const struct change *change)
{
	if (change->is_ending || TAILQ_EMPTY(&volumes->copies))
		return false;
	if (change->pool[0] && find_copy(volumes, change->pool, change->record.name))
		return true;
	for (uint32_t i = 0; change->copy && i < change->copy->count; i++) {
		if (find_copy(volumes, change->copy->volumes[i].pool, change->copy->volumes[i].name))
			return true;
	}
	return false;
}

bool volumes_is_changing(const struct volumes *volumes, const struct volume *volume)
{
	const struct change *change = volumes->running;
	const char *pool = volume->pool->record.name;

	if (!change)
		return false;
	if (strcmp(change->pool, pool) == 0 && strcmp(change->record.name, volume->record.name) == 0)
		return true;
	for (uint32_t i = 0; change->copy && i < change->copy->count; i++) {
		if (strcmp(change->copy->volumes[i].pool, pool) == 0 &&
		    strcmp(change->copy->volumes[i].name, volume->record.name) == 0)
			return true;
	}
	return false;
}

bool volumes_get_copy(const struct volumes *volumes, const struct volume *volume, struct copy_info *info_ret)
{
	const struct copy *copy = find_copy(volumes, volume->pool->record.name, volume->record.name);
	struct barrier_info info = { 0 };

	if (!copy)
		return false;
	if (copy->barrier)
		barrier_get_info(copy->barrier, &info);
	*info_ret = (struct copy_info){
		.pool = copy->volumes[0].pool,
		.volume = copy->volumes[0].name,
		.change = copy->change->kind->change,
		.since_ns = copy->since_ns,
		.bytes = info.bytes,
		.bytes_copied = info.bytes_copied,
	};
	return true;
}
