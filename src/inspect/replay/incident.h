/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * incident - the file in which operations are shared (docs/formats/incident.md): a header, blocks of operations, and a
 * description of queues and devices in JSON.
 *
 *   writer   incident_encoder_add() until it is false -> incident_encoder_finish() -> write the block -> ...
 *            then incident_describe(), and at last the header, which makes the file valid
 *   reader   incident_decode_header() -> incident_parse_description() -> for each block incident_block_bytes(),
 *            incident_decoder_begin(), incident_decoder_next() until it returns 0
 *
 * Each block has a CRC-32C and needs no other, so a reader holds one block at a time. What is read is untrusted: every
 * number is checked. Pure: no I/O. One thread at a time for each structure.
 */
#ifndef INSPECT_REPLAY_INCIDENT_H
#define INSPECT_REPLAY_INCIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "inspect/replay/operation.h"

enum {
	INCIDENT_VERSION = 2, /* 1, without the time at the device, is read, too */
	INCIDENT_HEADER_BYTES = 64,
	INCIDENT_BLOCK_HEADER_BYTES = 32,
	INCIDENT_PAYLOAD_BYTES_MAX = 1 << 16,
	INCIDENT_BLOCK_BYTES_MAX = INCIDENT_BLOCK_HEADER_BYTES + INCIDENT_PAYLOAD_BYTES_MAX,
	INCIDENT_OPERATION_BYTES_MAX = 56, /* flags, and seven numbers of at most 10, 3, 3, 10, 5, 10 and 10 bytes */
	INCIDENT_DESCRIPTION_BYTES_MAX = 1 << 20,
};
static_assert(1 + 10 + 3 + 3 + 10 + 5 + 10 + 10 <= INCIDENT_OPERATION_BYTES_MAX, "the longest operation fits");

/* ---- header ---- */

struct incident_header {
	uint32_t version; /* set by decoding; encoded is INCIDENT_VERSION */
	uint64_t operations;
	uint64_t blocks_bytes; /* of all blocks; the description is behind them */
	uint32_t description_bytes;
	uint32_t description_crc;
};

/* Do the first bytes of a file look like an incident? */
bool incident_recognise(const uint8_t *bytes, size_t count);
void incident_encode_header(const struct incident_header *header, uint8_t out[INCIDENT_HEADER_BYTES]);
/* Errors (explained): -EBADMSG; -EPROTONOSUPPORT: a later version. */
MUST_CHECK int incident_decode_header(const uint8_t *bytes, size_t count, struct incident_header *header_ret,
				      struct fathom_fault *why);

/* ---- description ---- */

/* The description and its CRC. Free `*text_ret`. Errors: -ENOMEM; -E2BIG: names that are too long together. */
MUST_CHECK int incident_describe(const struct replay_summary *summary, char **text_ret, size_t *bytes_ret,
				 uint32_t *crc_ret);
/*
 * Parse and check a description against its header. Pair: replay_summary_deinit(). Errors (explained): -EBADMSG, -ENOMEM.
 */
MUST_CHECK int incident_parse_description(const struct incident_header *header, const char *text, size_t bytes,
					  struct replay_summary *summary_ret, struct fathom_fault *why);

/* ---- blocks ---- */

struct incident_encoder {
	uint64_t number; /* of the next operation in the file */
	uint64_t first_number, base_ns, last_ns;
	size_t used;
	uint32_t operations; /* in this block */
	uint16_t queue, device;
	uint64_t ends[REPLAY_QUEUES_MAX]; /* of the queue's previous operation in this block */
	uint8_t bytes[INCIDENT_BLOCK_BYTES_MAX];
};

void incident_encoder_init(struct incident_encoder *encoder);
/* Add an operation, which must be valid and not before the one before. False: the block is full; finish it first. */
MUST_CHECK bool incident_encoder_add(struct incident_encoder *encoder, const struct replay_operation *operation);
/*
 * The block is encoder->bytes; returns its length, 0 if it has no operation. Call incident_encoder_next() when it is
 * written.
 */
size_t incident_encoder_finish(struct incident_encoder *encoder);
void incident_encoder_next(struct incident_encoder *encoder);

struct incident_decoder {
	const uint8_t *at, *end;
	uint64_t last_ns;
	uint32_t left; /* operations */
	uint32_t queue_count, device_count;
	bool lacks_device_times;
	uint16_t queue, device;
	uint64_t ends[REPLAY_QUEUES_MAX];
};

/* The length of a block by its first INCIDENT_BLOCK_HEADER_BYTES. Errors (explained): -EBADMSG. */
MUST_CHECK int incident_block_bytes(const uint8_t *bytes, size_t count, size_t *bytes_ret, struct fathom_fault *why);
/*
 * Start a block of `count` bytes, which are lent until its last operation. `number` operations came before it. Errors
 * (explained): -EBADMSG.
 */
MUST_CHECK int incident_decoder_begin(struct incident_decoder *decoder, const uint8_t *bytes, size_t count, uint64_t number,
				      const struct replay_summary *summary, struct fathom_fault *why);
/* 1: an operation; 0: the block has ended. Errors (explained): -EBADMSG. */
MUST_CHECK int incident_decoder_next(struct incident_decoder *decoder, struct replay_operation *operation_ret,
				     struct fathom_fault *why);

#endif
