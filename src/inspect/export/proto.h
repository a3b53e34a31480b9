/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proto - writes the Protocol Buffers wire format: fields of varints, of 8 bytes, and of bytes with a length.
 *
 * A nested message is written in place. One byte is reserved for its length, which is filled in at its end.
 */
#ifndef INSPECT_EXPORT_PROTO_H
#define INSPECT_EXPORT_PROTO_H

#include <stddef.h>
#include <stdint.h>

enum { PROTO_VARINT_BYTES_MAX = 10 };

/* Zero-initialised: empty. */
struct proto {
	uint8_t *bytes;
	size_t used, capacity;
};

void proto_deinit(struct proto *proto);

/* Returns the number of bytes written to `to`, at most PROTO_VARINT_BYTES_MAX. */
size_t proto_put_varint(uint8_t *to, uint64_t number);

void proto_u64(struct proto *proto, uint32_t field, uint64_t number);
/* As int32 and int64: negative numbers use ten bytes. */
void proto_i64(struct proto *proto, uint32_t field, int64_t number);
void proto_fixed64(struct proto *proto, uint32_t field, uint64_t number);
void proto_bytes(struct proto *proto, uint32_t field, const void *bytes, size_t count);
void proto_text(struct proto *proto, uint32_t field, const char *text);

/* Begin a nested message `field`; pass the result to proto_end(). */
size_t proto_begin(struct proto *proto, uint32_t field);
void proto_end(struct proto *proto, size_t begin);

#endif
