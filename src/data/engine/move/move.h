/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * move - the two engines' parts in the move of a volume; the management service calls them (docs/formats/catalog.md).
 *
 *   move/out.c     the engine that has the volume: notes changes, lets one more host read it, gives it away or keeps it
 *   move/image.c   the same engine: lets that host read a snapshot
 *   move/in.c      the engine that gets it: copies in the background, in rounds
 *   move/copy.c    the copy itself
 *
 * A volume with snapshots moves with them, the oldest one first. A round copies what differs between a snapshot and the one
 * before it; then the target takes its own snapshot, with the same name, UUID and time. The rounds of the volume as it is
 * now come last, and the first of them copies what differs from the newest snapshot. While the session exists the source
 * refuses to take, destroy or restore snapshots of the volume.
 *
 * A copy has a session, a UUID. What is known of it is only in memory: an engine that was restarted does not know it and
 * answers -ESTALE, and the service starts again. What must survive is in the volume's record: volumes_move().
 *
 * The session's host, which reads the volume, is no host of the record: it may connect only while the session exists. It
 * may read also while the volume is OUTGOING.
 *
 * Control thread only.
 */
#ifndef ENGINE_MOVE_H
#define ENGINE_MOVE_H

#include "base/reactor/deadline.h"
#include "base/reactor/worker.h"
#include "data/engine/move/copy.h"
#include "data/engine/move/image.h"
#include "data/engine/move/regions.h"
#include "data/engine/states.gen.h"
#include "data/engine/storage/calls.h"
#include "data/target/target.h"
#include "fathom/trace/trace.h"

enum {
	MOVE_REGION_BYTES = 1 << 20,	   /* more for volumes with over MOVE_REGIONS_MAX of them */
	MOVE_IMAGE_REGION_BYTES = 1 << 16, /* the same for snapshots, of which the changes are known better */
	MOVE_STATUS_MS = 500,
	MOVE_PROGRESS_BYTES = 8 << 20,
};

/* The objects of the machines; private to their files. */
struct move_out {
	struct trace_object trace;
	enum move_out_state state;
	uint8_t uuid[POOL_UUID_BYTES]; /* of the volume */
	char session[POOL_UUID_TEXT_BYTES], nqn[POOL_NQN_BYTES_MAX];
	uint64_t serial; /* of the session */
	struct bdev_track *track;
	struct move_regions scanned; /* of the volume without snapshots: the first round. The others: its sizes only */
	struct move_regions sent;    /* of round `round`, for a repeated call; of the round in progress */
	uint32_t round, images;	     /* `images`: so many of the rounds were about snapshots */
	struct move_image image;     /* that the session's host may read */
	char snapshot[POOL_NAME_BYTES_MAX], from[POOL_NAME_BYTES_MAX]; /* whose changes are read; "": the volume; none */
	struct volume_changed *changed;				       /* owned; NULL: none yet */
	bool is_scanning, is_following; /* the worker thread reads the file; the export lets the host connect */
	bool is_reading;		/* the changes between snapshots */
	bool is_image_leaving;
	struct worker_job job; /* the scan */
	char *path;	       /* of its file */
	int error;
	struct storage_call *call; /* that waits: MOVE_OFFER, MOVE_CHANGES; NULL: none */
	TAILQ_ENTRY(move_out) link;
};

struct move_in {
	struct trace_object trace;
	enum move_in_state state;
	uint8_t uuid[POOL_UUID_BYTES];
	char session[POOL_UUID_TEXT_BYTES], nqn[POOL_NQN_BYTES_MAX], subnqn[NVME_NQN_FIELD_BYTES], address[64];
	char snapshot[POOL_NAME_BYTES_MAX]; /* that the round copies; "": the volume */
	uint32_t round;
	struct move_copy copy;
	struct worker_job job;
	char *data_path, *sums_path; /* of the job; owned; NULL: there are no checksums */
	uint8_t *regions;	     /* owned */
	int cancel_fd;
	uint64_t total_bytes, copied_bytes;
	uint64_t reported_bytes; /* worker thread: as of the last report of progress */
	uint64_t begin_ns;	 /* clock_monotonic_ns() */
	int error;
	struct fathom_fault why;
	bool is_dropped;	   /* free it when the copy has ended */
	struct storage_call *call; /* MOVE_STATUS that waits */
	struct deadline deadline;
	TAILQ_ENTRY(move_in) link;
};

/* ---- the actions of storage/calls.c ---- */

void move_offer(struct storage_call *call);
void move_changes(struct storage_call *call);
void move_fence(struct storage_call *call);
void move_unfence(struct storage_call *call);
void move_prepare(struct storage_call *call);
void move_copy_begin(struct storage_call *call);
void move_status(struct storage_call *call);
void move_accept(struct storage_call *call);
void move_discard(struct storage_call *call);
void move_snapshot(struct storage_call *call);
void move_erase(struct storage_call *call);

/* ---- for volume_export.c ---- */

/* The UUID of the volume of which the subsystem serves a snapshot to its copier; NULL: it does not. */
const uint8_t *move_out_image_volume(const char *nqn);

/* The NQN of the host that may read the volume for its move; NULL: none. */
const char *move_out_host(const uint8_t uuid[POOL_UUID_BYTES]);

/* ---- the life of the module ---- */

/* The engine stops: end the calls that wait, and cancel copies. `stopped` is called when none runs, possibly at once. */
void moves_stop(void (*stopped)(void));
void moves_stats(json_t *object);

/* ---- move/out.c, for moves_stop() and moves_stats() ---- */

void moves_out_stop(void);
uint32_t moves_out_count(void);

#endif
