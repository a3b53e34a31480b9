/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * move_out - the engine that has a volume which moves to another one: move.h.
 *
 *   MOVE_OFFER     the device notes changes; then a worker thread reads which regions of the file have blocks: the first
 *                  round. A write that it does not see ends later, so it is noted. Then the session's host may connect
 *   MOVE_CHANGES   the regions of the next round. They are kept for a repeated call
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
#include "data/engine/move.h"
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

/* ---- the end of a session ---- */

static void free_if_ended(struct move_out *out)
{
	if (out->state != MOVE_OUT_ENDING || out->track || out->is_scanning || out->is_following || out->call)
		return;
	move(out, MOVE_OUT_ABSENT);
	TAILQ_REMOVE(&outs, out, link);
	free(out->regions);
	free(out->sent);
	free(out);
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
	else
		free_if_ended(out);
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

static void scan_file(struct worker_job *job)
{
	struct move_out *out = container_of(job, struct move_out, job);
	uint64_t at = 0;

	while (at < out->size_bytes) {
		off_t data = lseek(out->file, (off_t)at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			return;
		hole = data < 0 ? -1 : lseek(out->file, data, SEEK_HOLE);
		if (hole < 0) {
			out->error = -errno;
			return;
		}
		if ((uint64_t)data >= out->size_bytes)
			return;
		if (hole <= data) /* a host has unmapped the block meanwhile: there are no data at `at` now */
			continue;
		at = min_u64((uint64_t)hole, out->size_bytes);
		for (uint64_t region = (uint64_t)data / out->region_bytes; region <= (at - 1) / out->region_bytes; region++)
			out->regions[region / 64] |= 1ull << (region % 64);
	}
}

static void scan_done(struct worker_job *job)
{
	struct move_out *out = container_of(job, struct move_out, job);

	close(out->file);
	out->is_scanning = false;
	if (out->state == MOVE_OUT_ENDING) {
		free_if_ended(out);
		return;
	}
	if (out->error) {
		end_session(out, out->error, "cannot read which blocks the volume has");
		return;
	}
	move(out, MOVE_OUT_OFFERED);
	out->is_following = true;
	export_follow(out->uuid, note_served, out);
}

static void start_scan(struct move_out *out)
{
	const struct volume *volume = engine_storage() ? volumes_find_uuid(engine_storage(), out->uuid) : NULL;
	char *path = volume && volume->state == VOLUME_ONLINE ? volumes_data_path(engine_storage(), volume) : NULL;
	int error = 0;

	out->file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	free(path);
	if (out->file < 0) {
		end_session(out, -EIO, "cannot open the volume's data file");
		return;
	}
	out->job = (struct worker_job){ .work = scan_file, .done = scan_done };
	error = worker_start(&out->job);
	if (!error) {
		out->is_scanning = true;
		return;
	}
	close(out->file);
	end_session(out, error, "no thread for the copy of the volume");
}

static void note_begun(void *ctx, int error)
{
	if (error)
		end_session(ctx, error, "cannot note the changes of the volume");
	else
		start_scan(ctx);
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
	else if (volume->snapshot_count > 0)
		fill_fault(&why, -ENOTEMPTY, "volume %s has %u snapshots, which do not move: destroy them first",
			   volume->device, volume->snapshot_count);
	else if (volume->record.checksums)
		fill_fault(&why, -EOPNOTSUPP, "volume %s has checksums, which do not move: export and import it",
			   volume->device);
	else if (export_is_held(volume) || volumes_get_copy(call->volumes, volume, &copy))
		fill_fault(&why, -EBUSY, "volume %s is being destroyed or copied", volume->device);
	else if (uuid_parse(call->request->move_session, session) != 0)
		fill_fault(&why, -EINVAL, "the session is not a UUID");
	if (!why.error)
		return volume;
	storage_call_end(call, &why);
	return NULL;
}

static uint64_t region_bytes_of(const struct volume *volume)
{
	uint64_t bytes = max_u64(MOVE_REGION_BYTES, volume->record.block_bytes);

	while ((volume->record.size_bytes + bytes - 1) / bytes > MOVE_REGIONS_MAX)
		bytes *= 2;
	return bytes;
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
	out->size_bytes = volume->record.size_bytes;
	out->region_bytes = region_bytes_of(volume);
	out->words = ((out->size_bytes + out->region_bytes - 1) / out->region_bytes + 63) / 64;
	out->regions = calloc(out->words, sizeof(*out->regions));
	out->sent = calloc(out->words, sizeof(*out->sent));
	must(out->regions && out->sent); /* at most 128 KiB */
	out->call = call;
	TAILQ_INSERT_TAIL(&outs, out, link);
	move(out, MOVE_OUT_BEGINNING);
	error = bdev ? bdev_track_begin(bdev, out->region_bytes / volume->record.block_bytes, &track_calls, out,
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
	size_t bytes = (out->size_bytes / out->region_bytes) / 8 + 1;

	call->move.region_bytes = out->region_bytes;
	call->move.regions = calloc(1, bytes);
	must(call->move.regions);
	call->move.regions_bytes = bytes;
	for (uint64_t i = 0; i < out->words * 64; i++) {
		if (!(out->sent[i / 64] & (1ull << (i % 64))))
			continue;
		must(i / 8 < bytes);
		call->move.regions[i / 8] |= (uint8_t)(1u << (i % 8));
		call->move.region_count++;
	}
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
		out->call = call;
		/* the first round has the regions with blocks; the others what has changed since */
		memcpy(out->sent, out->regions, out->words * sizeof(*out->sent));
		memset(out->regions, 0, out->words * sizeof(*out->regions));
		bdev_track_take(out->track, out->sent);
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

void move_fence(struct storage_call *call)
{
	static const struct volume_moving fence = { VOLUME_MOVE_NONE, VOLUME_MOVE_OUTGOING, NULL, 0 };

	if (find_session(call))
		volumes_move(call->volumes, &call->key, &fence, follow, call);
}

void move_unfence(struct storage_call *call)
{
	static const struct volume_moving unfence = { VOLUME_MOVE_OUTGOING, VOLUME_MOVE_NONE, NULL, 0 };
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
