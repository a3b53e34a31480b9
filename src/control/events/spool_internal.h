/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the spool share: its form on disk, and what is known of it in memory. */
#ifndef CONTROL_EVENTS_SPOOL_INTERNAL_H
#define CONTROL_EVENTS_SPOOL_INTERNAL_H

#include <stdbool.h>

#include "control/events/spool.h"

enum {
	SPOOL_VERSION = 1,
	SPOOL_UUID_BYTES = 16,
	SPOOL_UUID_TEXT_BYTES = 37,
	SPOOL_PAYLOAD_MAX = 8192,
	SPOOL_INCARNATIONS = 4, /* of each instance that are known; older ones have nothing more to say */
	SPOOL_COMPACT_BYTES = 1 << 20,
};

#define SPOOL_MAGIC "FATHOMEV"
#define SPOOL_RECORD_MAGIC 0x56456846u /* "FhEV" */

struct spool_head {
	char magic[8];
	uint32_t version;
	uint32_t head_bytes;
	uint8_t uuid[SPOOL_UUID_BYTES];
	uint32_t reserved;
	uint32_t sum; /* CRC-32C of what stands before it */
};
static_assert(sizeof(struct spool_head) == 40, "on disk");

enum spool_kind {
	SPOOL_EVENT = 1, /* payload: the protobuf of a shared.RASEvent */
	SPOOL_TAKEN = 2, /* all up to `number` were taken */
	SPOOL_MARK = 3,	 /* nothing but an origin: events up to it were added */
};

struct spool_record {
	uint32_t magic;
	uint32_t sum; /* CRC-32C of the rest of the record and of the payload */
	uint32_t payload_bytes;
	uint16_t kind;
	uint16_t instance; /* UINT16_MAX: of no engine */
	uint64_t number;
	uint64_t incarnation;
	uint64_t sequence;
	uint64_t synced; /* so much of the file was on the disk when this was written */
};
static_assert(sizeof(struct spool_record) == 48, "on disk");
static_assert(offsetof(struct spool_record, synced) == 40, "on disk");

#define SPOOL_NO_INSTANCE UINT16_MAX

/* Where an event stands. */
struct spool_place {
	uint64_t offset;
	uint32_t payload_bytes;
};

struct spool_known {
	uint64_t incarnation, sequence;
};

struct spool {
	char *path;
	int fd;
	uint64_t bytes_max;
	uint64_t bytes;	 /* of the file that are good */
	uint64_t synced; /* of these, on the disk: all but the last records of SPOOL_TAKEN */
	uint8_t uuid[SPOOL_UUID_BYTES];
	char source[SPOOL_UUID_TEXT_BYTES];
	uint64_t taken, last;
	struct spool_place *places; /* of the events taken + 1 ... last, from `place_first` on */
	size_t place_first, place_count, place_room;
	uint8_t *pending; /* records that the next flush writes */
	size_t pending_bytes, pending_room;
	size_t pending_count;
	uint64_t live_bytes; /* of records of events not taken, written and pending */
	struct spool_known known[SPOOL_SOURCES_MAX][SPOOL_INCARNATIONS];
};

uint32_t spool_sum(const struct spool_record *record, const void *payload);

/* A record with its sum; `payload` may be NULL. */
void spool_record_fill(struct spool_record *record, enum spool_kind kind, uint64_t number,
		       const struct spool_origin *origin, const void *payload, size_t payload_bytes, uint64_t synced);

/* The highest sequence of that incarnation is at least `sequence`. */
bool spool_is_known(const struct spool *spool, const struct spool_origin *origin);
void spool_learn(struct spool *spool, const struct spool_origin *origin);

/* Where event `number`, which is not taken, stands. */
struct spool_place *spool_place(const struct spool *spool, uint64_t number);
/* Errors: -ENOMEM. */
MUST_CHECK int spool_places_reserve(struct spool *spool, size_t more);
void spool_places_add(struct spool *spool, uint64_t offset, uint32_t payload_bytes);
void spool_places_drop(struct spool *spool, size_t count);

/*
 * Write a file with what is not taken and what is known, and put it in the place of the one that is open (or of none).
 * Errors: of the system, -errno; then all is as before.
 */
MUST_CHECK int spool_rewrite(struct spool *spool);

/* All of the file in memory; `data_ret` is the caller's. Errors: of the system, -errno. */
MUST_CHECK int spool_read_all(int fd, uint8_t **data_ret, uint64_t *bytes_ret);
/* NULL, or what is wrong with the head of a file. */
const char *spool_head_check(const uint8_t *data, uint64_t bytes, struct spool_head *head_ret);
/* A whole record at `at`, with its sum. */
bool spool_record_read(const uint8_t *data, uint64_t bytes, uint64_t at, struct spool_record *record_ret);
/* Nobody else has the file at `path`, under whichever name it is. -EBUSY (spool_in_use), -errno (spool_failed). */
MUST_CHECK int spool_lock(int fd, const char *path, struct fault *why);
/* The fault spool_failed, with this error, which is returned. */
int spool_failed(const char *path, int error, const char *operation, struct fault *why);

/* Read the file that is open into `spool`. Errors: as of spool_open(). */
MUST_CHECK int spool_load(struct spool *spool, uint64_t *cut_bytes_ret, struct fault *why);

#endif
