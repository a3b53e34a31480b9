/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * move_out - the engine that has a volume which moves to another one: move/move.h.
 *
 *   MOVE_OFFER     the device notes changes; then a worker thread reads which regions of the file have blocks: the first
 *                  round. A write that it does not see ends later, so it is noted. Then the session's host may connect
 *   MOVE_CHANGES   the regions of the next round. They are kept for a repeated call. Of a snapshot: it is served in place
 *                  of the one before; then the maps of both are compared
 *   MOVE_FENCE     the record says OUTGOING, then the hosts of the volume are disconnected: what was confirmed to them is
 *                  in the next round
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "data/engine/move/move.h"
#include "data/engine/probes.gen.h"
#include "data/engine/volume_export.h"
#include "data/nvme/fabrics.h"
#include "data/store/bdev/track.h"
#include "data/store/volume/snapshots.h"

static TAILQ_HEAD(, move_out) outs = TAILQ_HEAD_INITIALIZER(outs);

static struct move_out *find_out(const uint8_t uuid[POOL_UUID_BYTES])
{
	struct move_out *out;

	TAILQ_FOREACH (out, &outs, link) {
		if (memcmp(out->uuid, uuid, POOL_UUID_BYTES) == 0)
			return out;
	}
	return NULL;
}

const char *move_out_host(const uint8_t uuid[POOL_UUID_BYTES])
{
	const struct move_out *out = find_out(uuid);

	return out && out->state == MOVE_OUT_OFFERED ? out->nqn : NULL;
}

static void move(struct move_out *out, enum move_out_state to)
{
	move_out_state_move(clock_ticks(), out, to);
}

const uint8_t *move_out_image_volume(const char *nqn)
{
	const struct move_out *out;

	TAILQ_FOREACH (out, &outs, link) {
		if (out->image.state != MOVE_IMAGE_ABSENT && strcmp(out->image.nqn, nqn) == 0)
			return out->uuid;
	}
	return NULL;
}

/* ---- the end of a session ---- */

static void free_if_ended(struct move_out *out)
{
	if (out->state != MOVE_OUT_ENDING || out->track || out->is_scanning || out->is_following || out->is_reading ||
	    out->is_image_leaving || out->call)
		return;
	must(out->image.state == MOVE_IMAGE_ABSENT);
	move(out, MOVE_OUT_ABSENT);
	TAILQ_REMOVE(&outs, out, link);
	move_regions_free(&out->scanned);
	move_regions_free(&out->sent);
	volume_changed_free(out->changed);
	free(out);
}

static void serve_image(struct move_out *out);

/* May run before move_image_end() returns. */
static void note_image_gone(void *ctx)
{
	struct move_out *out = ctx;

	must(out->is_image_leaving);
	out->is_image_leaving = false;
	if (out->state == MOVE_OUT_ENDING)
		free_if_ended(out);
	else
		serve_image(out);
}

static void end_image(struct move_out *out)
{
	if (out->is_image_leaving)
		return;
	out->is_image_leaving = true;
	move_image_end(&out->image, note_image_gone);
}

/* `why`: for the call that waits; NULL: it succeeded. */
static void end_wait(struct move_out *out, const struct fathom_fault *why)
{
	struct storage_call *call = out->call;

	out->call = NULL;
	if (call)
		storage_call_end(call, why);
}

/* End the session. Frees it, now or later. */
static void end_session(struct move_out *out, int error, const char *text)
{
	bool was_offered = out->state == MOVE_OUT_OFFERED;
	struct fathom_fault why;

	if (out->state == MOVE_OUT_ENDING)
		return;
	move(out, MOVE_OUT_ENDING);
	fill_fault(&why, error, "%s", text);
	end_wait(out, &why);
	if (was_offered && !exports_are_stopped())
		export_follow(out->uuid, NULL, NULL); /* the session's host goes */
	if (out->track)
		bdev_track_end(out->track);
	end_image(out); /* frees the session, perhaps */
}

static void note_removed(void *ctx)
{
	end_session(ctx, -ENODEV, "the volume is being removed");
}

static void note_track_ended(void *ctx)
{
	struct move_out *out = ctx;

	out->track = NULL;
	free_if_ended(out);
}

/* ---- offer ---- */

static void note_served(void *ctx, const struct fathom_fault *why)
{
	struct move_out *out = ctx;

	out->is_following = false;
	if (out->state != MOVE_OUT_OFFERED)
		free_if_ended(out);
	else if (why)
		end_session(out, why->error, why->text);
	else
		end_wait(out, NULL);
}

/* Note the regions with blocks. */
static int scan_regions(struct move_regions *scanned, int file)
{
	uint64_t at = 0, size_bytes = scanned->size_bytes;

	while (at < size_bytes) {
		off_t data = lseek(file, (off_t)at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			return 0;
		hole = data < 0 ? -1 : lseek(file, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		if ((uint64_t)data >= size_bytes)
			return 0;
		if (hole <= data) /* a host has unmapped the block meanwhile: there are no data at `at` now */
			continue;
		at = min_u64((uint64_t)hole, size_bytes);
		move_regions_add(scanned, (uint64_t)data, at - (uint64_t)data);
	}
	return 0;
}

/* Worker thread. */
static void scan_file(struct worker_job *job)
{
	struct move_out *out = container_of(job, struct move_out, job);
	int file = open(out->path, O_RDONLY | O_CLOEXEC);

	if (file < 0) {
		out->error = -errno;
		return;
	}
	out->error = scan_regions(&out->scanned, file);
	(void)close(file); /* only read */
}

static void let_host_connect(struct move_out *out)
{
	move(out, MOVE_OUT_OFFERED);
	out->is_following = true;
	export_follow(out->uuid, note_served, out);
}

static void scan_done(struct worker_job *job)
{
	struct move_out *out = container_of(job, struct move_out, job);

	free(out->path);
	out->path = NULL;
	out->is_scanning = false;
	if (out->state == MOVE_OUT_ENDING) {
		free_if_ended(out);
		return;
	}
	if (out->error) {
		end_session(out, out->error, "cannot read which blocks the volume has");
		return;
	}
	let_host_connect(out);
}

static void start_scan(struct move_out *out)
{
	const struct volume *volume = engine_storage() ? volumes_find_uuid(engine_storage(), out->uuid) : NULL;

	if (!volume || volume->state != VOLUME_ONLINE) {
		end_session(out, -EIO, "the volume is not ONLINE any more");
		return;
	}
	out->path = volumes_data_path(engine_storage(), volume);
	must(out->path); /* as a session, it is small */
	out->is_scanning = true;
	out->job = (struct worker_job){ .work = scan_file, .done = scan_done };
	out->error = worker_start(&out->job);
	if (!out->error)
		return;
	log_warning("the copy of volume %s: no thread reads its blocks: %s", volume->device, strerror(-out->error));
	scan_done(&out->job);
}

/* With snapshots, the rounds are what differs between them. */
static void note_begun(void *ctx, int error)
{
	struct move_out *out = ctx;
	const struct volume *volume = engine_storage() ? volumes_find_uuid(engine_storage(), out->uuid) : NULL;

	if (error)
		end_session(out, error, "cannot note the changes of the volume");
	else if (volume && volume->snapshot_count > 0)
		let_host_connect(out);
	else
		start_scan(out);
}

static void note_taken(void *ctx);

static const struct bdev_track_calls track_calls = { note_begun, note_taken, note_removed, note_track_ended };

/* The volume of the call, which can be offered. NULL: it cannot, and the call has ended. */
static const struct volume *check_offer(struct storage_call *call)
{
	const struct volume *volume = storage_call_volume(call);
	struct fathom_fault why = { 0 };
	uint8_t session[POOL_UUID_BYTES];
	struct copy_info copy;

	if (!volume)
		fill_fault(&why, -ENOENT, "there is no such volume");
	else if (volume->state != VOLUME_ONLINE)
		fill_fault(&why, -EIO, "volume %s is %s: %s", volume->device, volume_state_name(volume->state),
			   volume->why.text);
	else if (volume->record.move != VOLUME_MOVE_NONE)
		fill_fault(&why, -EBUSY, "volume %s is %s", volume->device, volume_move_text(volume->record.move));
	else if (export_is_held(volume) || volumes_get_copy(call->volumes, volume, &copy))
		fill_fault(&why, -EBUSY, "volume %s is being destroyed or copied", volume->device);
	else if (volumes_is_changing(call->volumes, volume)) /* perhaps its first snapshot begins */
		fill_fault(&why, -EAGAIN, "volume %s is being changed: try again", volume->device);
	else if (uuid_parse(call->request->move_session, session) != 0)
		fill_fault(&why, -EINVAL, "the session is not a UUID");
	if (!why.error)
		return volume;
	storage_call_end(call, &why);
	return NULL;
}

static void begin_session(struct storage_call *call, const struct volume *volume)
{
	struct move_out *out = calloc(1, sizeof(*out));
	struct bdev *bdev = bdev_find(volume->device);
	int error;

	must(out);
	trace_object_init(&out->trace, TRACE_OBJECT_MOVE_OUT);
	uuid_copy(out->uuid, volume->record.uuid);
	(void)text_copy(out->session, sizeof(out->session), call->request->move_session); /* it is a UUID */
	out->serial = call->request->move_serial;
	snprintf(out->nqn, sizeof(out->nqn), NVME_UUID_NQN_PREFIX "%s", out->session);
	move_regions_reset(&out->scanned, volume->record.size_bytes,
			   max_u64(MOVE_REGION_BYTES, volume->record.block_bytes));
	move_image_init(&out->image, out);
	out->call = call;
	TAILQ_INSERT_TAIL(&outs, out, link);
	move(out, MOVE_OUT_BEGINNING);
	error = bdev ? bdev_track_begin(bdev, out->scanned.region_bytes / volume->record.block_bytes, &track_calls, out,
					&out->track)
		     : -ENODEV;
	if (error)
		end_session(out, error == -EBUSY ? -EAGAIN : error, "cannot note the changes of the volume");
}

static void end_with(struct storage_call *call, int error, const char *text)
{
	struct fathom_fault why;

	fill_fault(&why, error, "%s", text);
	storage_call_end(call, &why);
}

void move_offer(struct storage_call *call)
{
	const struct volume *volume = check_offer(call);
	struct move_out *out = volume ? find_out(volume->record.uuid) : NULL;

	if (!volume)
		return;
	if (!out) {
		begin_session(call, volume);
	} else if (out->state == MOVE_OUT_OFFERED && strcmp(out->session, call->request->move_session) == 0) {
		storage_call_end(call, NULL);
	} else {
		if (strcmp(out->session, call->request->move_session) != 0)
			end_session(out, -ECANCELED, "another copy begins");
		end_with(call, -EAGAIN, "an earlier copy of the volume begins or ends: try again");
	}
}

/* ---- changes ---- */

/* The session of the call. NULL: it is not known, and the call has ended. */
static struct move_out *find_session(struct storage_call *call)
{
	struct move_out *out = find_out(call->key.uuid);

	if (out && out->state == MOVE_OUT_OFFERED && strcmp(out->session, call->request->move_session) == 0)
		return out;
	end_with(call, -ESTALE, "the engine does not know this copy: begin another one");
	return NULL;
}

static void reply_regions(struct move_out *out)
{
	struct storage_call *call = out->call;

	call->move.region_bytes = out->sent.region_bytes;
	call->move.regions = move_regions_encode(&out->sent, &call->move.regions_bytes, &call->move.region_count);
	end_wait(out, NULL);
}

static void note_taken(void *ctx)
{
	struct move_out *out = ctx;

	if (out->state != MOVE_OUT_OFFERED || !out->call)
		return;
	out->round++;
	if (bdev_track_is_complete(out->track))
		reply_regions(out);
	else
		end_session(out, -ESTALE, "the size of the volume has changed");
}

/* ---- changes: snapshots ---- */

static const struct volume *volume_of(const struct move_out *out)
{
	return engine_storage() ? volumes_find_uuid(engine_storage(), out->uuid) : NULL;
}

static void read_changed(struct move_out *out);

static void note_changed(void *ctx, const struct fathom_fault *why)
{
	struct move_out *out = ctx;
	const struct volume_changed *changed = out->changed;

	out->is_reading = false;
	if (out->state != MOVE_OUT_OFFERED) {
		free_if_ended(out);
		return;
	}
	if (why) {
		end_session(out, why->error, why->text);
		return;
	}
	for (uint32_t i = 0; i < changed->count; i++)
		move_regions_add(&out->sent, changed->ranges[i].offset, changed->ranges[i].bytes);
	if (changed->next_offset < changed->size_bytes) {
		out->changed->offset = changed->next_offset;
		read_changed(out);
	} else if (!out->snapshot[0]) {
		bdev_track_take(out->track, out->sent.bits);
	} else {
		out->round++;
		out->images++;
		reply_regions(out);
	}
}

/* One part of the list; the next ones follow. */
static void read_changed(struct move_out *out)
{
	const struct volume *volume = volume_of(out);
	struct volume_key key;

	if (!volume) {
		end_session(out, -ESTALE, "the volume is gone");
		return;
	}
	key = (struct volume_key){ .pool = volume->pool->record.name, .volume = volume->record.name };
	uuid_copy(key.uuid, out->uuid);
	out->is_reading = true;
	volumes_read_changed(engine_storage(), &key, out->changed, note_changed, out);
}

static void start_reading(struct move_out *out)
{
	if (!out->changed)
		out->changed = volume_changed_create(0);
	out->changed->snapshot = out->snapshot;
	out->changed->from = out->from;
	out->changed->offset = 0;
	read_changed(out);
}

static void note_image_served(void *ctx, const struct fathom_fault *why)
{
	struct move_out *out = ctx;

	must(out->state == MOVE_OUT_OFFERED);
	if (why)
		end_session(out, why->error, why->text);
	else
		start_reading(out);
}

/* The image of the round before is gone. */
static void serve_image(struct move_out *out)
{
	const struct volume *volume = volume_of(out);
	const struct snapshot *snapshot = volume ? volumes_find_snapshot(volume, out->snapshot) : NULL;

	if (!snapshot) {
		end_session(out, -ESTALE, "the snapshots of the volume have changed");
		return;
	}
	move_regions_reset(&out->sent, snapshot->record.size_bytes,
			   max_u64(MOVE_IMAGE_REGION_BYTES, snapshot->record.block_bytes));
	move_image_serve(&out->image, volume, snapshot, out->nqn, note_image_served);
}

/* Whether the round may follow those before it: so the copy gets all snapshots, each after the one that it is made of. */
static bool is_in_order(const struct move_out *out, const Store__StorageReq *request)
{
	const struct volume *volume = volume_of(out);
	bool is_first_of_volume = !request->snapshot[0] && out->round == out->images;

	if (request->snapshot[0])
		return out->round == out->images && strcmp(request->from_snapshot, out->snapshot) == 0;
	if (is_first_of_volume)
		return volume && volume->snapshot_count == out->images &&
		       strcmp(request->from_snapshot, out->snapshot) == 0;
	return !request->from_snapshot[0];
}

static void begin_round(struct move_out *out, struct storage_call *call)
{
	const Store__StorageReq *request = call->request;

	if (!is_in_order(out, request)) {
		end_with(call, -ESTALE,
			 "the snapshots of the volume have changed, or this one is not the next: begin again");
		return;
	}
	out->call = call;
	(void)text_copy(out->snapshot, sizeof(out->snapshot), request->snapshot); /* a longer one is not found */
	(void)text_copy(out->from, sizeof(out->from), request->from_snapshot);
	if (request->snapshot[0]) {
		end_image(out);
		return;
	}
	/* the first round has the regions with blocks, or what differs from the last snapshot; the next ones the changes */
	move_regions_reset(&out->sent, out->scanned.size_bytes, out->scanned.region_bytes);
	memcpy(out->sent.bits, out->scanned.bits, out->sent.words * sizeof(*out->sent.bits));
	memset(out->scanned.bits, 0, out->scanned.words * sizeof(*out->scanned.bits));
	if (out->from[0])
		start_reading(out);
	else
		bdev_track_take(out->track, out->sent.bits);
}

void move_changes(struct storage_call *call)
{
	struct move_out *out = find_session(call);
	uint32_t round = call->request->move_round;

	if (!out)
		return;
	if (out->call) {
		end_with(call, -EAGAIN, "an earlier call about this copy is in progress: try again");
	} else if (round > 0 && round == out->round) {
		out->call = call;
		reply_regions(out);
	} else if (round != out->round + 1) {
		end_with(call, -ESTALE, "this round of the copy is over");
	} else {
		begin_round(out, call);
	}
}

/* ---- fence, unfence ---- */

static void end_call(void *ctx, const struct fathom_fault *why)
{
	storage_call_end(ctx, why);
}

/* The record is durable: the export follows it. A volume that is not there is as wanted after an unfence. */
static void follow(void *ctx, const struct fathom_fault *why)
{
	struct storage_call *call = ctx;

	if (why && why->error == -ENOENT && call->request->action == STORE__ACTION__MOVE_UNFENCE)
		storage_call_end(call, NULL);
	else if (why || uuid_is_null(call->key.uuid))
		storage_call_end(call, why);
	else
		export_follow(call->key.uuid, end_call, call);
}

/* A snapshot may be in progress still: the change itself compares their number. */
void move_fence(struct storage_call *call)
{
	const struct move_out *out = find_session(call);
	struct volume_moving fence = { .from = VOLUME_MOVE_NONE, .to = VOLUME_MOVE_OUTGOING };

	if (!out)
		return;
	fence.snapshot_count = out->images;
	volumes_move(call->volumes, &call->key, &fence, follow, call);
}

void move_unfence(struct storage_call *call)
{
	static const struct volume_moving unfence = { .from = VOLUME_MOVE_OUTGOING, .to = VOLUME_MOVE_NONE };
	struct move_out *out = find_out(call->key.uuid);

	if (out && call->request->move_serial <= out->serial) {
		/* it was delayed: the service may have given the volume away since. To give up, it takes a new serial */
		end_with(call, -ESTALE, "the copy of the volume has begun since");
		return;
	}
	if (out)
		end_session(out, -ECANCELED, "the move was given up");
	volumes_move(call->volumes, &call->key, &unfence, follow, call);
}

/* ---- erase ---- */

/* The volume was moved away. Only its record proves that: a call that was delayed may be about an earlier move. */
void move_erase(struct storage_call *call)
{
	const struct volume *volume = storage_call_volume(call);
	const struct move_out *out = volume ? find_out(volume->record.uuid) : NULL;

	if (!volume)
		storage_call_end(call, NULL);
	else if (volume->record.move != VOLUME_MOVE_OUTGOING)
		end_with(call, -EINVAL, "the volume was not moved away: it is not erased");
	else if (out && out->serial > call->request->move_serial)
		end_with(call, -ESTALE, "another move of the volume has begun since");
	else
		export_destroy_volume(call->volumes, &call->key, true, storage_end_destroy, call);
}

/* ---- the life of the module ---- */

void moves_out_stop(void)
{
	struct move_out *out, *next;

	TAILQ_FOREACH_SAFE (out, &outs, link, next)
		end_session(out, -ESHUTDOWN, "the engine is stopping");
}

uint32_t moves_out_count(void)
{
	const struct move_out *out;
	uint32_t count = 0;

	TAILQ_FOREACH (out, &outs, link)
		count++;
	return count;
}
