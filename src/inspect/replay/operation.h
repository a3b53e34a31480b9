/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * operation - what a recording says about one operation of a host, and about the queues and devices of all of them.
 *
 * No data: an operation has its kind, its place, its length, its queue, and its times.
 */
#ifndef INSPECT_REPLAY_OPERATION_H
#define INSPECT_REPLAY_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"

enum {
	REPLAY_QUEUES_MAX = 1024,
	REPLAY_DEVICES_MAX = 1024,
	REPLAY_NAME_BYTES = 104, /* of a host or device, with its NUL */
	REPLAY_BLOCKS_MAX = 1 << 30,
	REPLAY_BLOCK_BYTES_MIN = 512,
	REPLAY_BLOCK_BYTES_MAX = 65536,
};

#define REPLAY_TIME_NS_MAX ((uint64_t)1 << 62)
#define REPLAY_BLOCK_MAX ((uint64_t)1 << 52) /* of a first block; with REPLAY_BLOCK_BYTES_MAX bytes each it fits 64 bits */
#define REPLAY_NO_LATENCY UINT64_MAX	     /* it did not end in the recording */

/* In a file these are frozen. */
enum replay_kind {
	REPLAY_READ,
	REPLAY_WRITE,
	REPLAY_FLUSH,
	REPLAY_UNMAP,
	REPLAY_ZEROES,
	REPLAY_COMPARE,
	REPLAY_KINDS,
};

struct replay_operation {
	uint64_t start_ns;   /* since the first operation of the recording; never less than that of the one before */
	uint64_t latency_ns; /* REPLAY_NO_LATENCY: unknown */
	uint64_t device_ns;  /* the part of the latency at the block device; valid if device_known */
	uint64_t block;	     /* the first; 0 for a flush */
	uint32_t blocks;     /* 0 for a flush, else at least 1 */
	uint16_t queue;	     /* index */
	uint16_t device;     /* index */
	uint8_t kind;
	bool failed;  /* it ended with an error */
	bool durable; /* a write that was flushed before it was answered (FUA) */
	bool device_known;
};

/* A connection of a host. */
struct replay_queue {
	char host[REPLAY_NAME_BYTES]; /* "": left out of the file */
	uint32_t host_number;	      /* from 1 on */
	uint32_t qid;		      /* 0: not known */
	uint32_t depth;		      /* the most operations that it had in flight; at least 1 */
	uint64_t operations;
};

struct replay_device {
	char name[REPLAY_NAME_BYTES]; /* "": left out of the file */
	uint32_t nsid;		      /* 0: not known */
	uint32_t block_bytes;	      /* 0: not known */
	uint64_t blocks_used;	      /* the end of the operation that reaches farthest */
	uint64_t operations;
};

/* Commands that a recording has and that are no operations here. */
struct replay_left_out {
	uint64_t partial;    /* began before the recording */
	uint64_t unplaced;   /* ended before their first block was recorded */
	uint64_t block_size; /* at a device whose block size is not known */
	uint64_t tables;     /* of queues or devices beyond the limits */
};

/* All that is known about the operations together. */
struct replay_summary {
	char source[REPLAY_NAME_BYTES]; /* the program that recorded them; "": left out of the file */
	uint64_t operations, span_ns;	/* span: from the first start to the last end */
	uint64_t kinds[REPLAY_KINDS];
	uint64_t records_missing; /* of the trace: the recording has gaps */
	bool lacks_device_times;  /* the file's version does not have them */
	struct replay_left_out left_out;
	uint32_t queue_count, device_count;
	struct replay_queue *queues;   /* owned */
	struct replay_device *devices; /* owned */
};

static inline bool replay_kind_has_data(unsigned int kind)
{
	return kind == REPLAY_READ || kind == REPLAY_WRITE || kind == REPLAY_COMPARE;
}

/* Does it change the contents of a namespace? */
static inline bool replay_kind_is_destructive(unsigned int kind)
{
	return kind == REPLAY_WRITE || kind == REPLAY_UNMAP || kind == REPLAY_ZEROES;
}

/* "read" and "reads". A name is also a key in JSON. */
const char *replay_kind_name(unsigned int kind);
const char *replay_kind_plural(unsigned int kind);

/* Can it stand in a file, with tables of this size? */
bool replay_operation_is_valid(const struct replay_operation *operation, uint32_t queue_count, uint32_t device_count);

/* Free what it owns. */
void replay_summary_deinit(struct replay_summary *summary);

#endif
