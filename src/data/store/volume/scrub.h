/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scrub - reads volumes with checksums in the background, one block of memory at a time.
 *
 *   CLEANING   the marks of regions that were not written of late are removed, after a flush: every CLEAN_SEC. When the
 *              engine stops, those of all regions, and durably
 *   CHECKING   regions that a crash, or a failed write, left suspect are read, and become trusted
 *   SCRUBBING  all blocks of a volume are read, at a rate; a block that does not fit its checksum is a mismatch
 *
 * One volume at a time, in turn; a turn ends after one region, or a second. It reads through the block device as hosts do,
 * so a mismatch is found, counted and reported in the same way. There is one read in progress at most, so that hosts
 * hardly notice it. A storage that hangs stops it.
 *
 * Control thread.
 */
#ifndef DATA_STORE_VOLUME_SCRUB_H
#define DATA_STORE_VOLUME_SCRUB_H

#include "data/store/volume/volumes.h"

enum {
	SCRUB_BLOCK_BYTES = 4096,
	SCRUB_CHECK_BYTES_PER_SEC = 256 << 20,
	SCRUB_BYTES_PER_SEC_DEFAULT = 4 << 20,
	SCRUB_FIRST_SEC = 600,
	SCRUB_REST_SEC = 7 * 24 * 3600, /* from the end of a scrub to the next */
};

/* The object of the probes. */
struct scrub {
	struct trace_object trace;
	enum scrub_state state;
	struct volumes *volumes;
	TAILQ_HEAD(, volume) volumes_in_turn; /* with checksums, ONLINE */
	struct poller *poller;		      /* NULL: there was no such volume yet */
	uint64_t bytes_per_sec;		      /* of SCRUBBING; 0: none */
	uint64_t turn_ns;		      /* the begin of the turn; clock_monotonic_ns() */
	struct volume *volume;		      /* whose turn it is; NULL: none */
	struct bdev_desc *desc;		      /* of it, */
	struct bdev_channel *channel;	      /* during its turn */
	uint64_t next, end;		      /* blocks of the region */
	uint64_t failures;		      /* of file_sums_begin_check() */
	uint32_t read_errors;		      /* in the region */
	bool is_reading;		      /* or flushing */
	bool is_leaving;		      /* the turn ends with the I/O */
	bool is_stopping;
	bool is_syncing_marks; /* stopping: the second flush of a volume */
	uint64_t stop_ns;      /* stopping: when the cleaning began; clock_monotonic_ns(); 0: not yet */
	uint8_t *memory;
	struct iovec iov;
	struct bdev_io io;
};

/* Aborts if out of memory. */
struct scrub *scrub_create(struct volumes *volumes);
/* A volume with checksums is ONLINE. Pair: scrub_remove_volume(), before its block device is unregistered. */
void scrub_add_volume(struct scrub *scrub, struct volume *volume);
void scrub_remove_volume(struct scrub *scrub, struct volume *volume);
/* The pool of the volume has another time between two scrubs: it begins now. */
void scrub_set_due(struct volume *volume);
/*
 * End: clean all volumes, once no host writes to them. True: it is freed. False: an I/O is in progress, and
 * volumes_continue_close() is called after it.
 */
bool scrub_stop(struct scrub *scrub);

#endif
