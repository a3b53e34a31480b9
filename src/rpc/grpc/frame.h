/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame - gRPC messages in a stream of bytes. Pure.
 *
 *   u8 compressed, u32 length (big endian), that many bytes
 *
 * A unary call has one message in each direction. Memory grows with the bytes received, not with the announced length.
 */
#ifndef GRPC_FRAME_H
#define GRPC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum { GRPC_PREFIX_BYTES = 5 };

enum grpc_frame {
	GRPC_FRAME_MORE,
	GRPC_FRAME_WHOLE, /* one message is complete, and no byte follows it */
	/* each of these ends the call */
	GRPC_FRAME_COMPRESSED,
	GRPC_FRAME_BAD_FLAG, /* neither 0 nor 1 */
	GRPC_FRAME_TOO_LARGE,
	GRPC_FRAME_SECOND, /* bytes after the message */
	GRPC_FRAME_NO_MEMORY,
};

/* In the caller's storage; zeroed: empty. */
struct grpc_message {
	uint8_t prefix[GRPC_PREFIX_BYTES];
	uint8_t *data; /* NULL while there are no bytes */
	size_t room;   /* allocated */
	uint32_t prefix_bytes, bytes, total_bytes;
};

/* Add received bytes. `bytes_max` limits the message. Do not call it again after an error. */
MUST_CHECK enum grpc_frame grpc_message_take(struct grpc_message *message, const uint8_t *data, size_t bytes,
					     uint32_t bytes_max);
bool grpc_message_is_empty(const struct grpc_message *message); /* no byte was received */
bool grpc_message_is_whole(const struct grpc_message *message);
void grpc_message_clear(struct grpc_message *message);

void grpc_prefix_write(uint8_t prefix[static GRPC_PREFIX_BYTES], uint32_t message_bytes);

#endif
