/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ledger - the space that volumes were promised and have not used yet.
 *
 * A thick volume, and a thin one of a pool without overcommit, has a promise: what it may still allocate (its size less
 * what it occupies). One that may share blocks with a snapshot or a clone can need new ones for all of its size. A new
 * promise is made only if the free space covers it and all former ones. Volumes of pools with overcommit, and files of
 * others, can use up what was promised. A part is kept for the file system's own structures.
 *
 * Reads the copy of the storage. Worker thread, during a change: the control thread changes the copy only between changes.
 */
#ifndef DATA_STORE_VOLUME_LEDGER_H
#define DATA_STORE_VOLUME_LEDGER_H

#include "data/store/volume/internal.h"

struct ledger {
	uint64_t total_bytes, free_bytes; /* of the file system */
	uint64_t kept_bytes;		  /* of them for the file system's own structures */
	uint64_t promised_bytes;	  /* of free_bytes */
};

bool ledger_is_promised(const struct pool *pool, const struct volume_record *volume);
/* Errors (explained): those of the storage. */
MUST_CHECK int ledger_read(struct volumes *volumes, struct ledger *ledger_ret, struct fathom_fault *why);
/*
 * Whether `bytes` more may be promised to `volume` of `pool`. Errors (explained): -ENOSPC, those of the storage.
 */
MUST_CHECK int ledger_check(struct volumes *volumes, const struct pool *pool, const struct volume_record *volume,
			    uint64_t bytes, struct fathom_fault *why);
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
