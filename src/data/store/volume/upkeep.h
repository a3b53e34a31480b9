/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * upkeep, internal: work on the files of volumes in the background, in short steps, while hosts use them.
 *
 *   ALLOCATING   a volume became thick: its holes get blocks. The record says `allocating` until all have some.
 *   SEARCHING    a volume has no snapshot any more, and its record says `shares`: its data file is searched for blocks
 *                that another file has, too (a clone, or a removed snapshot whose files are not deleted yet)
 *   UNSHARING    there are none: the file system's mark of a file that shared blocks is removed, and `shares`. With the
 *                mark each write is handed to a thread.
 *
 * A step is a change of the queue that runs when no other waits and no trash is left, so that it meets no snapshot, resize
 * or removal of its volume. Volumes take turns. After a step the volume rests UPKEEP_REST_FACTOR times as long as the step
 * took. A search that finds shared blocks, and a step that failed, wait: UPKEEP_WAIT_MIN_MS, then twice as long each time.
 *
 * Control thread.
 */
#ifndef DATA_STORE_VOLUME_UPKEEP_H
#define DATA_STORE_VOLUME_UPKEEP_H

#include "base/reactor/deadline.h"
#include "data/store/volume/volumes.h"

enum {
	UPKEEP_STEP_BYTES_MIN = 4 << 20,
	UPKEEP_STEP_BYTES_MAX = 1 << 30,
	UPKEEP_FAST_MS = 5,  /* the next step is twice as long */
	UPKEEP_SLOW_MS = 20, /* half as long */
	UPKEEP_REST_FACTOR = 3,
	UPKEEP_REST_MIN_MS = 1,
	UPKEEP_WAIT_MIN_MS = 500,
	UPKEEP_WAIT_MAX_MS = 600 * 1000,
};

struct change;

/* The object of the probes. */
struct upkeep {
	struct trace_object trace;
	enum upkeep_state state;
	struct volumes *volumes;
	struct deadlines timer;
	struct deadline due;
	TAILQ_HEAD(, volume) volumes_in_turn; /* whose records say that something is to do */
};

/* Aborts if out of memory. */
struct upkeep *upkeep_create(struct volumes *volumes);
/* Accepts NULL. No step runs. */
void upkeep_destroy(struct upkeep *upkeep);
/* The state, the record or the snapshots of the volume have changed: begin what is to do now. */
void upkeep_note(struct volume *volume);
/* Blocks that volumes share may be gone: search again soon. */
void upkeep_note_removal(struct upkeep *upkeep);
void upkeep_remove_volume(struct volume *volume);
/* The next step, as a change that is not submitted; NULL: none is due, and the queue is woken when one is. */
struct change *upkeep_next_step(struct upkeep *upkeep);
/* Whether the change is a step, which has no caller. */
bool upkeep_is_step(const struct change *change);

#endif
