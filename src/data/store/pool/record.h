/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record - what a storage tree knows about a pool, a volume and a snapshot, beside their data: one small JSON file each.
 *
 *     {"checksum": "0x1a2b3c4d", "volume": {"block_bytes": 512, "size_bytes": 107374182400, "uuid": "950fc86b-...", ...}}
 *
 * `checksum` is the CRC-32C of the inner object as JSON without blanks, with sorted keys. Keys are fixed, so equal records
 * are equal bytes. A record has the lowest version whose programs handle the object rightly: one with checksums has version
 * 2, because programs that read only version 1 would write data without sums.
 * A damaged record is reported, and none of its values are used. A record does not contain the name: the
 * name of the folder is the name of the object, so the two cannot disagree. Pure: no I/O. Any thread.
 */
#ifndef DATA_STORE_POOL_RECORD_H
#define DATA_STORE_POOL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

enum {
	POOL_RECORD_VERSION = 1,
	POOL_RECORD_VERSION_SUMS = 2, /* of a volume or a snapshot with checksums */
	POOL_RECORD_VERSION_MAX = POOL_RECORD_VERSION_SUMS,
	POOL_UUID_BYTES = 16,
	POOL_UUID_TEXT_BYTES = 37, /* with the NUL */
	POOL_NAME_BYTES_MAX = 64,  /* of a pool, a volume or a snapshot, with the NUL */
	POOL_NQN_BYTES_MAX = 224,  /* with the NUL; NVMe Base 2.0, 4.5 */
	POOL_VOLUME_HOSTS_MAX = 64,
	POOL_RECORD_BYTES_MAX = 32 << 10,
};

struct pool_record {
	char name[POOL_NAME_BYTES_MAX];
	uint8_t uuid[POOL_UUID_BYTES];
	uint64_t size_bytes;	/* the most that its volumes may take; 0: as much as the storage has */
	bool overcommit;	/* thin volumes may promise more than there is */
	bool scrub_off;		/* its volumes with checksums are scrubbed only on request */
	uint32_t scrub_seconds; /* from the end of a scrub of a volume to the next; 0: SCRUB_REST_SEC */
	uint64_t created_ns;	/* since 1970 */
};

/*
 * The part of a volume in a move to another engine. INCOMING: it is a copy that is not complete. OUTGOING: another engine
 * has it, or is about to. Neither is served to the hosts of its record.
 */
enum volume_move { VOLUME_MOVE_NONE, VOLUME_MOVE_INCOMING, VOLUME_MOVE_OUTGOING };

/* A host that may connect to a volume. */
struct volume_host {
	char nqn[POOL_NQN_BYTES_MAX];
};

struct volume_record {
	char name[POOL_NAME_BYTES_MAX];
	uint8_t uuid[POOL_UUID_BYTES];
	uint64_t size_bytes; /* a multiple of block_bytes; the data file may be longer, never shorter */
	uint32_t block_bytes;
	uint32_t generation; /* number of the data file, from 1: a restored snapshot becomes the next one */
	bool thick;
	bool read_only; /* a clone that is only read: it is promised no space */
	bool checksums;
	bool allocating; /* thick: some of its blocks may not be allocated yet */
	bool shares;	 /* its file may share blocks; or it did, and the file system still marks it: upkeep.c */
	enum volume_move move;
	uint64_t created_ns;
	bool has_origin; /* a clone: the volume and the snapshot that it was made of */
	uint8_t origin_volume[POOL_UUID_BYTES], origin_snapshot[POOL_UUID_BYTES];
	uint32_t host_count;
	struct volume_host *hosts; /* owned; NULL if there are none */
};

struct snapshot_record {
	char name[POOL_NAME_BYTES_MAX];
	uint8_t uuid[POOL_UUID_BYTES];
	uint8_t volume[POOL_UUID_BYTES];
	uint8_t group[POOL_UUID_BYTES]; /* equal in the snapshots of one instant */
	uint64_t size_bytes;
	uint32_t block_bytes;
	bool checksums;
	uint64_t created_ns;
};

/*
 * Whether `name` may be the name of a pool, a volume or a snapshot: a letter or a digit, then letters, digits, ".", "_" and
 * "-", at most 63 characters. Errors (explained; `kind` is "pool", "volume" or "snapshot"): -EINVAL.
 */
MUST_CHECK int pool_name_check(const char *kind, const char *name, struct fathom_fault *why);

/* "incoming", "outgoing"; NONE: "". */
const char *volume_move_text(enum volume_move move);

/* Free what the record owns; the structure is the caller's. */
void volume_record_deinit(struct volume_record *record);
/* Copy with its hosts. Errors: -ENOMEM. */
MUST_CHECK int volume_record_copy(struct volume_record *to, const struct volume_record *from);

/*
 * Encode without the name. `text_ret` is the caller's to free, without a NUL; `bytes_ret` at most POOL_RECORD_BYTES_MAX.
 * Errors: -ENOMEM.
 */
MUST_CHECK int pool_record_encode(const struct pool_record *record, char **text_ret, size_t *bytes_ret);
MUST_CHECK int volume_record_encode(const struct volume_record *record, char **text_ret, size_t *bytes_ret);
MUST_CHECK int snapshot_record_encode(const struct snapshot_record *record, char **text_ret, size_t *bytes_ret);

/*
 * Decode; `name` is the folder's. Errors (explained): -EBADMSG (damaged), -EPROTO (of a newer version), -ENOMEM.
 */
MUST_CHECK int pool_record_decode(const char *name, const char *text, size_t bytes, struct pool_record *record_ret,
				  struct fathom_fault *why);
MUST_CHECK int volume_record_decode(const char *name, const char *text, size_t bytes, struct volume_record *record_ret,
				    struct fathom_fault *why);
MUST_CHECK int snapshot_record_decode(const char *name, const char *text, size_t bytes, struct snapshot_record *record_ret,
				      struct fathom_fault *why);

#endif
