/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scrub - reads volumes with checksums in the background, one block of memory at a time.
 *
 *   CLEANING   the marks of regions that were not written of late are removed, after a flush: every CLEAN_SEC. When the
 *              engine stops, those of all regions of all volumes, and durably (scrub_stop.c)
 *   CHECKING   regions that a crash, or a failed write, left suspect are read, and become trusted
 *   SCRUBBING  all blocks of a volume are read, at a rate; a block that does not fit its checksum is a mismatch
 *
 * One volume at a time, in turn; a turn ends after one region, or a second. It reads through the block device as hosts do,
 * so a mismatch is found, counted and reported in the same way. There is one read in progress at most, so that hosts
 * hardly notice it. A storage that hangs stops it, but not the stop of the engine.
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

struct last_clean;

/* The object of the probes. */
struct scrub {
	struct trace_object trace;
	enum scrub_state state;
	struct volumes *volumes;	      /* NULL: its I/O was given up, and frees it */
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
	/* stopping */
	bool is_stopping, is_given_up;
	uint64_t stop_ns;     /* when it began; clock_monotonic_ns() */
	struct poller *bound; /* NULL: not stopping, or there was no volume */
	LIST_HEAD(, last_clean) cleans;
	uint32_t clean_count;
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
 * End: clean all volumes, once no host writes to them. True: it is freed, or will be when an I/O ends that was given up.
 * False: an I/O is in progress, and volumes_continue_close() is called after it, or when it is given up.
 */
bool scrub_stop(struct scrub *scrub);

/* ---- for scrub_stop.c ---- */

void scrub_move_to(struct scrub *scrub, enum scrub_state to);
/* After a region, or because the volume goes. No I/O is in progress. */
void scrub_end_turn(struct scrub *scrub, bool is_whole);
void scrub_free(void *ctx);

#endif
