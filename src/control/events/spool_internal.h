/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the spool: its format on disk and its state in memory. */
#ifndef CONTROL_EVENTS_SPOOL_INTERNAL_H
#define CONTROL_EVENTS_SPOOL_INTERNAL_H

#include <stdbool.h>

#include "control/events/spool.h"

enum {
	SPOOL_VERSION = 1,
	SPOOL_UUID_BYTES = 16,
	SPOOL_UUID_TEXT_BYTES = 37,
	SPOOL_PAYLOAD_MAX = 8192,
	SPOOL_INCARNATIONS = 4, /* remembered per instance; older incarnations send no events any more */
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
	uint32_t sum; /* CRC-32C of all fields before it */
};
static_assert(sizeof(struct spool_head) == 40, "on disk");

enum spool_kind {
	SPOOL_EVENT = 1, /* payload: the protobuf of a shared.RASEvent */
	SPOOL_TAKEN = 2, /* all events up to `number` were taken */
	SPOOL_MARK = 3,	 /* only an origin: events up to its sequence were added */
};

struct spool_record {
	uint32_t magic;
	uint32_t sum; /* CRC-32C of the rest of the record and of the payload */
	uint32_t payload_bytes;
	uint16_t kind;
	uint16_t instance; /* UINT16_MAX: no engine */
	uint64_t number;
	uint64_t incarnation;
	uint64_t sequence;
	uint64_t synced; /* bytes of the file that were on disk when this record was written */
};
static_assert(sizeof(struct spool_record) == 48, "on disk");
static_assert(offsetof(struct spool_record, synced) == 40, "on disk");

#define SPOOL_NO_INSTANCE UINT16_MAX
static_assert(SPOOL_SOURCES_MAX < SPOOL_NO_INSTANCE, "no instance has this number");

/* The position of an event in the file. */
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
	uint64_t bytes;	 /* valid bytes of the file */
	uint64_t synced; /* of these, synced bytes: all but the last records of SPOOL_TAKEN */
	uint8_t uuid[SPOOL_UUID_BYTES];
	char source[SPOOL_UUID_TEXT_BYTES];
	uint64_t taken, last;
	struct spool_place *places; /* of the events taken + 1 ... last, starting at index `place_first` */
	size_t place_first, place_count, place_room;
	uint8_t *pending; /* records that the next flush writes */
	size_t pending_bytes, pending_room;
	size_t pending_count;
	uint64_t live_bytes; /* record bytes of all events not taken, both written and pending */
	struct spool_known known[SPOOL_SOURCES_MAX][SPOOL_INCARNATIONS];
};

uint32_t spool_sum(const struct spool_record *record, const void *payload);

/* The contents of a record. */
struct spool_contents {
	enum spool_kind kind;
	uint64_t number;		   /* of SPOOL_TAKEN: the last one taken; of SPOOL_MARK: 0 */
	const struct spool_origin *origin; /* NULL: no engine */
	const void *payload;		   /* may be NULL if payload_bytes is 0 */
	size_t payload_bytes;		   /* at most SPOOL_PAYLOAD_MAX */
	uint64_t synced;		   /* as in the record; 0 claims nothing */
};

/* Fill `record` with `contents` (borrowed) and its checksum. The payload itself is written behind the record. */
void spool_record_fill(struct spool_record *record, const struct spool_contents *contents);

/* Whether the event was added before. An incarnation older than all remembered ones counts as known. */
bool spool_is_known(const struct spool *spool, const struct spool_origin *origin);
/* Remember that the events up to `origin` were added. */
void spool_learn(struct spool *spool, const struct spool_origin *origin);

/* The position of event `number`, which must not be taken yet. */
struct spool_place *spool_place(const struct spool *spool, uint64_t number);
/* Errors: -ENOMEM. */
MUST_CHECK int spool_places_reserve(struct spool *spool, size_t more);
void spool_places_add(struct spool *spool, uint64_t offset, uint32_t payload_bytes);
void spool_places_drop(struct spool *spool, size_t count);

/*
 * Write a new file with the events not taken and the known origins, and replace the open file (or none) by it. Errors:
 * -errno; the old file stays in use then, unless only the sync of the folder failed.
 */
MUST_CHECK int spool_rewrite(struct spool *spool);

/* Read the whole file into memory; the caller frees `*data_ret`. Errors: -errno. */
MUST_CHECK int spool_read_all(int fd, uint8_t **data_ret, uint64_t *bytes_ret);
/* Check the header of a file. Returns NULL if it is valid, else the reason. */
const char *spool_head_check(const uint8_t *data, uint64_t bytes, struct spool_head *head_ret);
/* Read the record at offset `at`. false: there is no complete record with a correct checksum. */
bool spool_record_read(const uint8_t *data, uint64_t bytes, uint64_t at, struct spool_record *record_ret);
/* Lock the open file until `fd` is closed; the lock holds for all names of the file. -EBUSY (spool_in_use), -errno. */
MUST_CHECK int spool_lock(int fd, const char *path, struct fathom_fault *why);
/* Fill `why` with the fault spool_failed and the errno `error`. Returns `error`. */
int spool_failed(const char *path, int error, const char *operation, struct fathom_fault *why);

/* Read the open file into `spool`, and cut off an incomplete write. Errors: those of spool_open(). */
MUST_CHECK int spool_load(struct spool *spool, uint64_t *cut_bytes_ret, struct fathom_fault *why);

#endif
