/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proto - writing Protocol Buffers, the wire format alone: fields of varints, of 8 bytes, and of bytes that have a length.
 *
 * A message within a message is written in place; its length, of which one byte is set aside, is put in when it ends.
 */
#ifndef INSPECT_EXPORT_PROTO_H
#define INSPECT_EXPORT_PROTO_H

#include <stddef.h>
#include <stdint.h>

enum { PROTO_VARINT_BYTES_MAX = 10 };

/* All zeroes is an empty one. */
struct proto {
	uint8_t *bytes;
	size_t used, capacity;
};

void proto_deinit(struct proto *proto);

/* Returns the bytes written to `to`, at most PROTO_VARINT_BYTES_MAX. */
size_t proto_put_varint(uint8_t *to, uint64_t number);

void proto_u64(struct proto *proto, uint32_t field, uint64_t number);
/* As int32 and int64 are: negative ones have ten bytes. */
void proto_i64(struct proto *proto, uint32_t field, int64_t number);
void proto_fixed64(struct proto *proto, uint32_t field, uint64_t number);
void proto_bytes(struct proto *proto, uint32_t field, const void *bytes, size_t count);
void proto_text(struct proto *proto, uint32_t field, const char *text);

/* What comes until proto_end(), to which the result is given, is in the message `field`. */
size_t proto_begin(struct proto *proto, uint32_t field);
void proto_end(struct proto *proto, size_t begin);

#endif
