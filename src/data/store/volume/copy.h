/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * copy, internal: the part of a change that copies data. It runs beside the queue, and holds the volumes that take part in
 * it: their other changes wait.
 *
 *   begin kind (in the queue)   check, work: makes empty files; apply: copy_begin()
 *   barrier                     copies into them
 *   settle                      what may take long, while hosts go on to use the volume; only if its I/O is held afterwards
 *   end kind (in the queue)     work: the files appear in the tree, or are removed; apply, undo: copy_end(), or
 *                               copy_go_on() with another end kind
 *
 * The caller of the change gets its result after the end kind. If the copy fails, it gets it at once, because a hung step
 * may keep the files for ever.
 */
#ifndef DATA_STORE_VOLUME_COPY_H
#define DATA_STORE_VOLUME_COPY_H

#include "data/store/volume/barrier.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/quiesce.h"
#include "data/store/volume/snapshots.h"

/* A volume that takes part. */
struct copy_volume {
	char pool[POOL_NAME_BYTES_MAX], name[POOL_NAME_BYTES_MAX];
	uint8_t uuid[POOL_UUID_BYTES]; /* zero: any */
	uint64_t allocated_bytes;      /* of its new snapshot; set by the end kind */
	bool is_marked;		       /* SNAPSHOT: its record on disk says `shares` now, and the copy does not */
};

struct copy {
	TAILQ_ENTRY(copy) link;
	struct change *change;
	const struct change_kind *end_kind;
	struct barrier *barrier; /* NULL: it has ended */
	uint64_t since_ns, instant_ns;
	int error; /* of the barrier, or of what came after it: the copy is given up */
	struct fathom_fault why;
	uint64_t promised_bytes; /* in the ledger until it ends; set by the begin kind */
	uint64_t new_bytes;	 /* CLONE, RESTORE: the same, of the pool's size */
	bool is_open;		 /* files are open, and in pending: abandon or commit */
	uint32_t count;
	struct copy_volume *volumes;	 /* `count` */
	struct snapshot_member *members; /* `count`: SNAPSHOT */
	struct barrier_member *files;	 /* `count`; `from` and `sums_from` are the copy's to close */
	struct snapshot_group group;	 /* SNAPSHOT */
	bool is_copied;		     /* SNAPSHOT: its size, time and group are those of the caller: an INCOMING volume */
	struct volume_build build;   /* CLONE, RESTORE */
	struct volume_record record; /* CLONE: the new volume; RESTORE: the volume before */
	/* Worker thread, after the copy and before the I/O of `quiesced` is held; what may take long. */
	int (*settle)(struct change *change, struct fathom_fault *why);
	const struct volume *quiesced; /* its I/O is held while the end kind runs; NULL: none */
	struct quiesce *quiesce;       /* NULL: not held */
	uint64_t quiesced_ns;	       /* before it was held; clock_monotonic_ns() */
	struct file_bdev *replacement; /* RESTORE: the open new files; NULL: none */
	bool is_unknown;	       /* RESTORE: the disk may have either generation */
};

/* For `count` volumes; aborts if out of memory. Pair: copy_free(). */
struct copy *copy_create(uint32_t count);
/* Accepts NULL. */
void copy_free(struct copy *copy);

/* In `apply` of the begin kind: copy the files; then run `end_kind` for the same change. */
void copy_begin(struct change *change, const struct change_kind *end_kind);
/* In `apply` of an end kind: run `end_kind` next, in place of copy_end(). */
void copy_go_on(struct change *change, const struct change_kind *end_kind);
/* In `apply` and `undo` of the last end kind. */
void copy_end(struct change *change);
/* Close the sources. */
void copy_close_sources(struct copy *copy);
/* Give up all copies. */
void copies_cancel(struct volumes *volumes);
/* Whether a snapshot of the volume is being cloned: even if it is destroyed meanwhile, its blocks are shared. */
bool copies_clone(const struct volume *volume);
/* What copies in progress will add to the volumes of the pool. */
uint64_t copies_new_bytes(const struct pool *pool);
/* Whether the change must wait for a copy of one of its volumes. */
bool copies_block(const struct volumes *volumes, const struct change *change);

#endif
