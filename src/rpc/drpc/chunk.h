/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunk - dRPC messages in packets. Pure: packets in, messages out.
 *
 *   0   u64 total_bytes    of the message          a message is `total_chunks` packets, in order, each of at most
 *   8   u64 chunk_bytes    behind this header      DRPC_PACKET_BYTES_MAX; both sides are on one machine, so numbers are
 *   16  u32 index          0, 1, 2 ...             in its byte order
 *   20  u32 total_chunks
 *
 * An empty message is one empty chunk. Memory grows with the bytes received, not with the total that a header claims.
 */
#ifndef DRPC_CHUNK_H
#define DRPC_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum {
	DRPC_PACKET_BYTES_MAX = 1 << 17,
	DRPC_MESSAGE_BYTES_MAX = 64 << 20,
};

struct drpc_chunk_header {
	uint64_t total_bytes;
	uint64_t chunk_bytes;
	uint32_t index;
	uint32_t total_chunks;
};
static_assert(sizeof(struct drpc_chunk_header) == 24, "DAOS's");
static_assert(offsetof(struct drpc_chunk_header, index) == 16, "DAOS's");

enum { DRPC_CHUNK_BYTES_MAX = DRPC_PACKET_BYTES_MAX - (int)sizeof(struct drpc_chunk_header) };

enum drpc_chunk {
	DRPC_CHUNK_MORE,    /* the message goes on in the next packet */
	DRPC_CHUNK_MESSAGE, /* complete */
	/* the results below end the connection */
	DRPC_CHUNK_TRUNCATED,	/* packet shorter than a header, or over the limit */
	DRPC_CHUNK_WRONG_BYTES, /* the packet is not as long as its header says */
	DRPC_CHUNK_TOO_LARGE,	/* the message is over the limit */
	DRPC_CHUNK_WRONG_TOTAL, /* no chunks, more than bytes, or fewer than the bytes need */
	DRPC_CHUNK_GAP,		/* not the next index */
	DRPC_CHUNK_CHANGED,	/* totals other than those of the first chunk */
	DRPC_CHUNK_OVERFLOW,	/* more bytes than the total */
	DRPC_CHUNK_SHORT,	/* the last chunk came and bytes are missing */
	DRPC_CHUNK_EMPTY,	/* a chunk without bytes in a message with some */
	DRPC_CHUNK_NO_MEMORY,
};

/* The caller's storage; all zero is empty. */
struct drpc_message {
	uint8_t *data;
	uint64_t bytes; /* received so far */
	size_t room;	/* allocated */
	uint64_t total_bytes;
	uint32_t next_index, total_chunks; /* total_chunks 0: nothing received */
};

/*
 * Take one packet, header included, of at most DRPC_PACKET_BYTES_MAX + 1 bytes; a longer one is given cut to that. After
 * DRPC_CHUNK_MESSAGE `message->data` has `message->bytes`; drpc_message_clear() before the next packet.
 */
MUST_CHECK enum drpc_chunk drpc_message_take(struct drpc_message *message, const uint8_t *packet, size_t packet_bytes,
					     uint64_t message_bytes_max);
void drpc_message_clear(struct drpc_message *message);

/* The message for a result that is an error. */
const char *drpc_chunk_text(enum drpc_chunk chunk);

/*
 * The header of the chunk that begins at byte `offset` of a message of `total_bytes`; its chunk_bytes are what follows.
 * `offset` is a multiple of DRPC_CHUNK_BYTES_MAX, below `total_bytes` or 0.
 */
struct drpc_chunk_header drpc_chunk_at(uint64_t total_bytes, uint64_t offset);

#endif
