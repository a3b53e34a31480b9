/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * move_image - a snapshot that another engine reads, because its volume moves there: a read-only block device and a
 * subsystem of its own, with the UUID of the snapshot. Only the session's host may connect. It exists only in memory, and
 * ends with the session (move/move.h), so a restarted engine serves none.
 *
 *   move_image_serve() -> done(NULL)          the host may read it
 *                      -> done(why)           it cannot be served; nothing of it is left
 *   move_image_end()   -> ended()             its connections, its subsystem and its block device are gone
 *
 * While it is served, changes of the volume's snapshots are refused, so its files stay. A worker thread opens them: a disk
 * that hangs stops the move, and its end, but no other call. Control thread only. Callbacks may run before the call
 * returns.
 */
#ifndef ENGINE_MOVE_IMAGE_H
#define ENGINE_MOVE_IMAGE_H

#include <stdbool.h>

#include "base/fault.h"
#include "base/reactor/worker.h"
#include "data/engine/states.gen.h" /* enum move_image_state */
#include "data/nvme/fabrics.h"
#include "data/store/bdev/bdev.h"
#include "data/store/volume/snapshots.h"
#include "fathom/trace/trace.h"

struct move_image {
	struct trace_object trace;
	enum move_image_state state;
	uint8_t uuid[POOL_UUID_BYTES]; /* of the snapshot; zero: ABSENT */
	char device[BDEV_NAME_BYTES_MAX], nqn[NVME_NQN_FIELD_BYTES], host[NVME_NQN_FIELD_BYTES];
	bool is_busy; /* a step is in progress */
	struct worker_job job;
	char *data, *sums; /* of the job: the paths */
	uint32_t block_bytes;
	struct file_bdev *opened; /* its result; NULL: `why` */
	bool has_device, has_subsystem, has_host;
	bool is_ending;						 /* `ended` is called when it is ABSENT */
	struct fathom_fault why;				 /* why it could not be served */
	void (*done)(void *ctx, const struct fathom_fault *why); /* NULL: it has been called */
	void (*ended)(void *ctx);
	void *ctx;
};

/* The NQN of the subsystem of a snapshot. */
void move_image_nqn(const uint8_t uuid[POOL_UUID_BYTES], char nqn_ret[NVME_NQN_FIELD_BYTES]);
/* The block device is "POOL/VOLUME@SNAPSHOT"; no volume has such a name. */
void move_image_init(struct move_image *image, void *ctx);
/* The image is ABSENT. `host`: its NQN. Errors of `done`: those of file_volume_open(), and of the subsystem. */
void move_image_serve(struct move_image *image, const struct volume *volume, const struct snapshot *snapshot,
		      const char *host, void (*done)(void *ctx, const struct fathom_fault *why));
/* In every state, also during the serve; then `done` is not called. Once for each serve. */
void move_image_end(struct move_image *image, void (*ended)(void *ctx));

#endif
