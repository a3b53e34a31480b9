/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ledger - the space that volumes were promised and have not used yet.
 *
 * A thick volume, and a thin one of a pool without overcommit, has a promise, unless it is only read: what it may still
 * allocate (its size less what it occupies). One that may share blocks with a snapshot or a clone can need new ones for all
 * of its size. A new promise is made only if the free space covers it and all former ones. A part is kept for the file
 * system's own structures. Files of other programs can use up what was promised.
 *
 * A promise is in the ledger from the call until it is used. A volume that becomes thick gets blocks for its holes in the
 * background (upkeep.h). If it may share blocks, its promise does not shrink with them, so that of the holes comes in
 * addition; the record says `allocating`, so this is the same after a restart. What a snapshot, a clone or a restore needs
 * is in its copy (copy.h) until the volume has it.
 *
 * Thin volumes of pools with overcommit have no promise: together they may allocate only what is not promised
 * (data/store/backend/limit.h). Each reading of the ledger sets that limit. It is not set while LEDGER_PLENTY_BYTES are
 * left, so writes are not counted then; the engine reads the ledger each second if there are such volumes, and in a second
 * nothing writes as much.
 *
 * Reads the copy of the storage. Worker thread, during a change: the control thread changes the copy only between changes.
 */
#ifndef DATA_STORE_VOLUME_LEDGER_H
#define DATA_STORE_VOLUME_LEDGER_H

#include "data/store/volume/internal.h"

#define LEDGER_PLENTY_BYTES (16ull << 30)

struct ledger {
	uint64_t total_bytes, free_bytes; /* of the file system */
	uint64_t kept_bytes;		  /* of them for the file system's own structures */
	uint64_t promised_bytes;	  /* of free_bytes */
	uint64_t mark;			  /* of the limit, before the reading */
};

bool ledger_is_promised(const struct pool *pool, const struct volume_record *volume);
/* The promise of a volume that occupies `allocated_bytes`, whether it has one or not. */
uint64_t ledger_bytes(const struct volume_record *record, bool may_share, uint64_t allocated_bytes);
/* What a volume may still allocate, whether it has a promise or not. Errors (explained): those of the storage. */
MUST_CHECK int ledger_promise_bytes(struct volumes *volumes, const struct volume *volume, uint64_t *bytes_ret,
				    struct fathom_fault *why);
/* Whether a write to an allocated block may need a new one, because a snapshot or another volume has it too. */
bool ledger_may_share(const struct volume *volume);
/* What can still be promised, or be allocated without a promise. */
uint64_t ledger_headroom(const struct ledger *ledger);
/* Limit the volumes without a promise to the headroom, less `bytes`, which are promised now. Worker, or no change runs. */
void ledger_set_limit(struct volumes *volumes, const struct ledger *ledger, uint64_t bytes);
/* The ledger by the sizes that volumes had when the storage was opened, and the free space then. Control thread. */
void ledger_from_open(const struct volumes *volumes, uint64_t total_bytes, uint64_t free_bytes, struct ledger *ledger_ret);
/* Read it from the storage, and set the limit. Errors (explained): those of the storage. */
MUST_CHECK int ledger_read(struct volumes *volumes, struct ledger *ledger_ret, struct fathom_fault *why);
/*
 * Whether `bytes` more may be promised to `volume` of `pool`. Errors (explained): -ENOSPC, those of the storage.
 */
MUST_CHECK int ledger_check(struct volumes *volumes, const struct pool *pool, const struct volume_record *volume,
			    uint64_t bytes, struct fathom_fault *why);
/*
 * Whether the pool can begin or end overcommit: at the end its thin volumes must get promises. Sets the limit of volumes
 * without a promise. Errors (explained): -ENOSPC, those of the storage.
 */
MUST_CHECK int ledger_check_overcommit(struct volumes *volumes, const struct pool *pool, bool overcommit,
				       struct fathom_fault *why);
/*
 * The bytes that must be promised before a snapshot of `volume`, beyond its former promise: it may write all of its blocks
 * again. 0 if it may share blocks already, but then its writes may have used up the space of the former promise.
 */
MUST_CHECK int ledger_snapshot_bytes(struct volumes *volumes, const struct volume *volume, uint64_t *bytes_ret,
				     struct fathom_fault *why);
/*
 * Whether `bytes` more may be promised for `what`; 0: whether the space covers the former promises. Errors (explained):
 * -ENOSPC, those of the storage.
 */
MUST_CHECK int ledger_check_bytes(struct volumes *volumes, const char *what, uint64_t bytes, struct fathom_fault *why);

#endif
