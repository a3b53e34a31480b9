/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * move_in - the engine that gets a volume from another one: move/move.h.
 *
 *   MOVE_PREPARE   creates the volume as INCOMING: it is not served, whatever happens
 *   MOVE_COPY      starts a round on a worker thread. A round of another session is cancelled first
 *   MOVE_SNAPSHOT  the round before has copied a snapshot: the volume gets the same one
 *   MOVE_STATUS    how far it is; -ESTALE if this round is not known. A failed round is reported once, then forgotten
 *   MOVE_ACCEPT    the volume is no longer INCOMING, and has its hosts
 *   MOVE_DISCARD   destroys it, but only if it is INCOMING
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "data/engine/internal.h"
#include "data/engine/move/move.h"
#include "data/engine/probes.gen.h"
#include "data/engine/volume_export.h"
#include "data/nvme/fabrics.h"
#include "data/store/volume/snapshots.h"

static TAILQ_HEAD(move_in_list, move_in) ins = TAILQ_HEAD_INITIALIZER(ins);
static struct {
	void (*stopped)(void); /* NULL: not stopping, or stopped */
	bool is_stopping;
	uint64_t rounds, failed, bytes;
} moves;

static struct move_in *find_in(const uint8_t uuid[POOL_UUID_BYTES])
{
	struct move_in *in;

	TAILQ_FOREACH (in, &ins, link) {
		if (!in->is_dropped && memcmp(in->uuid, uuid, POOL_UUID_BYTES) == 0)
			return in;
	}
	return NULL;
}

/* Whether a worker thread still writes to the volume's file, perhaps of a round that was dropped. */
static bool is_copying(const uint8_t uuid[POOL_UUID_BYTES])
{
	const struct move_in *in;

	TAILQ_FOREACH (in, &ins, link) {
		if (in->state == MOVE_IN_COPYING && memcmp(in->uuid, uuid, POOL_UUID_BYTES) == 0)
			return true;
	}
	return false;
}

static void end_with(struct storage_call *call, int error, const char *text)
{
	struct fathom_fault why;

	fill_fault(&why, error, "%s", text);
	storage_call_end(call, &why);
}

/* Answer the MOVE_STATUS that waits. */
static void end_wait(struct move_in *in, const struct fathom_fault *why)
{
	struct storage_call *call = in->call;

	if (!call)
		return;
	deadline_clear(&engine_control.deadlines, &in->deadline);
	in->call = NULL;
	call->move.copied_bytes = in->copied_bytes;
	call->move.total_bytes = in->total_bytes;
	call->move.is_done = in->state == MOVE_IN_COPIED;
	storage_call_end(call, why);
}

static void free_in(struct move_in *in)
{
	must(in->state != MOVE_IN_COPYING);
	must(!in->call);
	TAILQ_REMOVE(&ins, in, link);
	close(in->cancel_fd);
	free(in->data_path);
	free(in->sums_path);
	free(in->regions);
	free(in);
	if (moves.is_stopping && moves.stopped && TAILQ_EMPTY(&ins)) {
		void (*stopped)(void) = moves.stopped;

		moves.stopped = NULL;
		stopped();
	}
}

/* Forget the round; a copy in progress is cancelled, and frees it at its end. */
static void drop(struct move_in *in, int error, const char *text)
{
	struct fathom_fault why;

	fill_fault(&why, error, "%s", text);
	end_wait(in, &why);
	if (in->state != MOVE_IN_COPYING) {
		free_in(in);
		return;
	}
	in->is_dropped = true;
	must(eventfd_write(in->cancel_fd, 1) == 0);
}

/* ---- the copy ---- */

/* Worker thread. */
static int open_file(struct move_in *in, const char *path, int *file_ret)
{
	int file = open(path, O_RDWR | O_CLOEXEC);

	if (file < 0)
		return fault(&in->why, -errno, "cannot open %s: %s", path, strerror(errno));
	*file_ret = file;
	return 0;
}

static void close_file(int *file)
{
	if (*file >= 0)
		(void)close(*file); /* the copy was synced */
	*file = -1;
}

/* After the files were opened: before it, the volume may have been destroyed, and another one may have got its name. */
static int check_cancelled(struct move_in *in)
{
	struct pollfd cancel = { .fd = in->cancel_fd, .events = POLLIN };

	return poll(&cancel, 1, 0) > 0 ? fault(&in->why, -ECANCELED, "the copy was given up") : 0;
}

static void run_copy(struct worker_job *job)
{
	struct move_in *in = container_of(job, struct move_in, job);

	in->error = open_file(in, in->data_path, &in->copy.file);
	if (!in->error && in->sums_path)
		in->error = open_file(in, in->sums_path, &in->copy.sums_file);
	if (!in->error)
		in->error = check_cancelled(in);
	if (!in->error)
		in->error = move_copy_run(&in->copy, &in->why);
	close_file(&in->copy.file);
	close_file(&in->copy.sums_file);
}

static void copy_done(struct worker_job *job)
{
	struct move_in *in = container_of(job, struct move_in, job);

	space_limit_unref(in->copy.limit);
	in->copy.limit = NULL;
	moves.rounds++;
	moves.failed += in->error != 0;
	if (!in->error) {
		in->copied_bytes = in->total_bytes;
		moves.bytes += in->total_bytes;
	}
	probe_engine_move_copied(clock_ticks(), in, in->round, in->copied_bytes, in->error,
				 clock_monotonic_ns() - in->begin_ns);
	move_in_state_move(clock_ticks(), in, in->error ? MOVE_IN_FAILED : MOVE_IN_COPIED);
	if (in->is_dropped) {
		free_in(in);
	} else if (!in->error) {
		end_wait(in, NULL);
	} else {
		log_warning("the copy of a volume from %s ended: %s", in->address, in->why.text);
		if (in->call)
			drop(in, in->error, in->why.text);
	}
}

/* A report of progress on its way; the round may be gone when it arrives. */
struct progress {
	uint8_t uuid[POOL_UUID_BYTES];
	uint64_t bytes;
};

static void note_progress(void *ctx)
{
	struct progress *progress = ctx;
	struct move_in *in = find_in(progress->uuid);

	if (in && in->state == MOVE_IN_COPYING)
		in->copied_bytes = progress->bytes;
	free(progress);
}

/* Worker thread. */
static void report_progress(void *ctx, uint64_t bytes)
{
	struct move_in *in = ctx;
	struct progress *progress;

	if (bytes - in->reported_bytes < MOVE_PROGRESS_BYTES || !(progress = malloc(sizeof(*progress))))
		return;
	in->reported_bytes = bytes;
	uuid_copy(progress->uuid, in->uuid);
	progress->bytes = bytes;
	thread_send_msg(in->job.home, note_progress, progress);
}

static void fill_copy(struct move_in *in, const struct storage_call *call, const struct volume *volume)
{
	struct space_limit *limit = volumes_space_limit(call->volumes, volume);
	const Store__StorageReq *request = call->request;
	bool is_image = !uuid_is_null(call->new_uuid);

	uuid_copy(in->uuid, volume->record.uuid);
	(void)text_copy(in->session, sizeof(in->session), request->move_session);
	snprintf(in->nqn, sizeof(in->nqn), NVME_UUID_NQN_PREFIX "%s", in->session);
	(void)text_copy(in->snapshot, sizeof(in->snapshot), request->snapshot); /* "" if it is too long for a name */
	if (is_image)
		move_image_nqn(call->new_uuid, in->subnqn);
	else
		export_get_nqn(volume, in->subnqn);
	in->round = request->move_round;
	in->copy = (struct move_copy){
		.address = in->address,
		.subnqn = in->subnqn,
		.hostnqn = in->nqn,
		.snapshot = in->snapshot,
		.file = -1,
		.sums_file = -1,
		.size_bytes = is_image ? request->size_bytes : volume->record.size_bytes,
		.file_bytes = volume->record.size_bytes,
		.is_shared = volume->snapshot_count > 0,
		.block_bytes = volume->record.block_bytes,
		.is_thick = volume->record.thick,
		.limit = limit ? space_limit_ref(limit) : NULL,
		.regions = in->regions,
		.regions_bytes = request->move_regions.len,
		.region_bytes = request->move_region_bytes,
		.cancel_fd = in->cancel_fd,
		.progress = report_progress,
		.ctx = in,
	};
	in->total_bytes = move_copy_bytes(&in->copy);
}

static void start_copy(struct storage_call *call, const struct volume *volume)
{
	const Store__StorageReq *request = call->request;
	struct move_in *in = calloc(1, sizeof(*in));
	int error;

	must(in);
	trace_object_init(&in->trace, TRACE_OBJECT_MOVE_IN);
	in->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	in->regions = malloc(request->move_regions.len + 1);
	must(in->cancel_fd >= 0 && in->regions);
	memcpy(in->regions, request->move_regions.data, request->move_regions.len);
	TAILQ_INSERT_TAIL(&ins, in, link);
	error = text_copy(in->address, sizeof(in->address), request->move_address) < 0 ? -EINVAL : 0;
	fill_copy(in, call, volume);
	in->data_path = volumes_data_path(call->volumes, volume);
	in->sums_path = volume->record.checksums ? volumes_sums_path(call->volumes, volume) : NULL;
	must(in->data_path && (in->sums_path || !volume->record.checksums)); /* as a session, a path is small */
	in->begin_ns = clock_monotonic_ns();
	in->job = (struct worker_job){ .work = run_copy, .done = copy_done };
	if (!error)
		error = worker_start(&in->job);
	if (error) {
		space_limit_unref(in->copy.limit);
		free_in(in);
		end_with(call, error, "cannot start to copy the volume");
		return;
	}
	move_in_state_move(clock_ticks(), in, MOVE_IN_COPYING);
	storage_call_end(call, NULL);
}

/* The INCOMING volume of the call. NULL: there is none, and the call has ended. */
static const struct volume *find_incoming(struct storage_call *call)
{
	const struct volume *volume = storage_call_volume(call);

	if (!volume)
		end_with(call, -ESTALE, "there is no such volume: begin another copy");
	else if (volume->record.move != VOLUME_MOVE_INCOMING)
		end_with(call, -EINVAL, "the volume is no copy in progress");
	else if (volume->state != VOLUME_ONLINE)
		end_with(call, -EIO, volume->why.text);
	else
		return volume;
	return NULL;
}

static bool is_round(const struct move_in *in, const Store__StorageReq *request)
{
	return in && in->round == request->move_round && strcmp(in->session, request->move_session) == 0;
}

void move_copy_begin(struct storage_call *call)
{
	const struct volume *volume = find_incoming(call);
	const Store__StorageReq *request = call->request;
	struct move_in *in = volume ? find_in(volume->record.uuid) : NULL;
	uint8_t session[POOL_UUID_BYTES];
	struct copy_info copy;

	if (!volume)
		return;
	if (!uuid_is_null(call->new_uuid) &&
	    (request->size_bytes == 0 || request->size_bytes % volume->record.block_bytes != 0)) {
		end_with(call, -EINVAL, "the snapshot has no size, or it ends within a block");
	} else if (volumes_get_copy(call->volumes, volume, &copy)) {
		end_with(call, -EAGAIN, "a snapshot of an earlier copy is being taken: try again");
	} else if (uuid_parse(request->move_session, session) != 0 || !is_power_of_two(request->move_region_bytes) ||
		   request->move_region_bytes < volume->record.block_bytes) {
		end_with(call, -EINVAL, "the session is not a UUID, or the regions have no size");
	} else if (moves.is_stopping) {
		end_with(call, -ESHUTDOWN, "the engine is stopping");
	} else if (is_round(in, request)) {
		storage_call_end(call, NULL);
	} else if (is_copying(volume->record.uuid)) {
		if (in)
			drop(in, -ECANCELED, "another copy begins");
		end_with(call, -EAGAIN, "an earlier copy ends: try again");
	} else {
		if (in)
			drop(in, -ECANCELED, "another copy begins");
		start_copy(call, volume);
	}
}

/* ---- status ---- */

static void status_is_due(struct deadline *deadline)
{
	end_wait(container_of(deadline, struct move_in, deadline), NULL);
}

void move_status(struct storage_call *call)
{
	struct move_in *in = find_in(call->key.uuid);

	if (!is_round(in, call->request)) {
		end_with(call, -ESTALE, "the engine does not know this copy: begin another one");
		return;
	}
	end_wait(in, NULL); /* the one before */
	in->call = call;
	if (in->state == MOVE_IN_COPYING)
		deadline_set(&engine_control.deadlines, &in->deadline, MOVE_STATUS_MS * NS_PER_MS, status_is_due);
	else if (in->state == MOVE_IN_COPIED)
		end_wait(in, NULL);
	else
		drop(in, in->error, in->why.text);
}

/* ---- snapshot, prepare, accept, discard ---- */

static void end_call(void *ctx, const struct fathom_fault *why)
{
	storage_call_end(ctx, why);
}

void move_snapshot(struct storage_call *call)
{
	const struct volume *volume = find_incoming(call);
	const Store__StorageReq *request = call->request;
	const struct move_in *in = volume ? find_in(volume->record.uuid) : NULL;
	struct snapshot_record copied = { .size_bytes = request->size_bytes, .created_ns = request->snapshot_created_ns };
	struct snapshot_request snapshot = { .key = call->key, .name = request->snapshot, .copied = &copied };

	if (!volume)
		return;
	if (!is_round(in, request) || in->state != MOVE_IN_COPIED || in->copy.size_bytes != request->size_bytes) {
		end_with(call, -ESTALE, "the engine does not know this copy: begin another one");
	} else if (uuid_is_null(call->new_uuid) || uuid_parse(request->snapshot_group_uuid, copied.group) != 0) {
		end_with(call, -EINVAL, "the snapshot or its group has no UUID");
	} else {
		uuid_copy(snapshot.uuid, call->new_uuid);
		volumes_snapshot(call->volumes, &snapshot, 1, end_call, call);
	}
}

void move_prepare(struct storage_call *call)
{
	storage_create_volume(call, VOLUME_MOVE_INCOMING);
}

static void follow(void *ctx, const struct fathom_fault *why)
{
	struct storage_call *call = ctx;

	if (why)
		storage_call_end(call, why);
	else
		export_follow(call->key.uuid, end_call, call);
}

void move_accept(struct storage_call *call)
{
	const Store__StorageReq *request = call->request;
	struct move_in *in = find_in(call->key.uuid);
	struct volume_host hosts[POOL_VOLUME_HOSTS_MAX];
	const struct volume_moving accept = { .from = VOLUME_MOVE_INCOMING,
					      .to = VOLUME_MOVE_NONE,
					      .hosts = hosts,
					      .host_count = (uint32_t)request->n_move_hosts };

	if (request->n_move_hosts > POOL_VOLUME_HOSTS_MAX || uuid_is_null(call->key.uuid)) {
		end_with(call, -EINVAL, "too many hosts, or no UUID");
		return;
	}
	for (size_t i = 0; i < request->n_move_hosts; i++) {
		if (text_copy(hosts[i].nqn, sizeof(hosts[i].nqn), request->move_hosts[i]) < 0) {
			end_with(call, -EINVAL, "the NQN of a host is too long");
			return;
		}
	}
	if (is_copying(call->key.uuid)) {
		end_with(call, -EBUSY, "the volume is still being copied");
		return;
	}
	if (in)
		drop(in, -ECANCELED, "the copy is complete");
	volumes_move(call->volumes, &call->key, &accept, follow, call);
}

void move_discard(struct storage_call *call)
{
	const struct volume *volume = storage_call_volume(call);
	struct move_in *in = find_in(call->key.uuid);

	if (in)
		drop(in, -ECANCELED, "the copy is discarded");
	if (!volume) { /* one of this name that is damaged is another one, perhaps */
		storage_call_end(call, NULL);
		return;
	}
	if (volume->record.move != VOLUME_MOVE_INCOMING) {
		end_with(call, -EINVAL, "the volume is no copy in progress: it is not destroyed");
		return;
	}
	export_destroy_volume(call->volumes, &call->key, true, storage_end_destroy, call);
}

/* ---- the life of the module ---- */

void moves_stop(void (*stopped)(void))
{
	struct move_in *in, *next;

	moves.is_stopping = true;
	moves_out_stop();
	TAILQ_FOREACH_SAFE (in, &ins, link, next) {
		if (!in->is_dropped)
			drop(in, -ESHUTDOWN, "the engine is stopping");
	}
	if (TAILQ_EMPTY(&ins))
		stopped();
	else
		moves.stopped = stopped;
}

void moves_stats(json_t *object)
{
	const struct move_in *in;
	uint32_t copying = 0;

	TAILQ_FOREACH (in, &ins, link)
		copying += in->state == MOVE_IN_COPYING;
	json_put(object, "offered", json_integer(moves_out_count()));
	json_put(object, "copying", json_integer(copying));
	json_put(object, "rounds", json_integer((json_int_t)moves.rounds));
	json_put(object, "failed", json_integer((json_int_t)moves.failed));
	json_put(object, "copied_bytes", json_integer((json_int_t)moves.bytes));
}
