/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/export/proto.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/must.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

void proto_deinit(struct proto *proto)
{
	free(proto->bytes);
	*proto = (struct proto){ 0 };
}

static void reserve_proto_bytes(struct proto *proto, size_t count)
{
	if (likely(proto->used + count <= proto->capacity))
		return;
	proto->capacity = round_up_power_of_two(proto->used + count + 4096);
	proto->bytes = realloc(proto->bytes, proto->capacity);
	must(proto->bytes);
}

size_t proto_put_varint(uint8_t *to, uint64_t number)
{
	size_t count = 0;

	for (; number >= 0x80; number >>= 7)
		to[count++] = (uint8_t)(number | 0x80);
	to[count++] = (uint8_t)number;
	must(count <= PROTO_VARINT_BYTES_MAX);
	return count;
}

static void put_varint(struct proto *proto, uint64_t number)
{
	reserve_proto_bytes(proto, PROTO_VARINT_BYTES_MAX);
	proto->used += proto_put_varint(proto->bytes + proto->used, number);
}

void proto_u64(struct proto *proto, uint32_t field, uint64_t number)
{
	put_varint(proto, (uint64_t)field << 3 | WIRE_VARINT);
	put_varint(proto, number);
}

void proto_i64(struct proto *proto, uint32_t field, int64_t number)
{
	proto_u64(proto, field, (uint64_t)number);
}

void proto_fixed64(struct proto *proto, uint32_t field, uint64_t number)
{
	put_varint(proto, (uint64_t)field << 3 | WIRE_FIXED64);
	reserve_proto_bytes(proto, sizeof(number));
	for (size_t i = 0; i < sizeof(number); i++, number >>= 8)
		proto->bytes[proto->used++] = (uint8_t)number;
}

void proto_bytes(struct proto *proto, uint32_t field, const void *bytes, size_t count)
{
	put_varint(proto, (uint64_t)field << 3 | WIRE_BYTES);
	put_varint(proto, count);
	reserve_proto_bytes(proto, count);
	memcpy(proto->bytes + proto->used, bytes, count);
	proto->used += count;
}

void proto_text(struct proto *proto, uint32_t field, const char *text)
{
	proto_bytes(proto, field, text, strlen(text));
}

size_t proto_begin(struct proto *proto, uint32_t field)
{
	put_varint(proto, (uint64_t)field << 3 | WIRE_BYTES);
	reserve_proto_bytes(proto, 1);
	proto->used++;
	return proto->used;
}

void proto_end(struct proto *proto, size_t begin)
{
	uint8_t length[PROTO_VARINT_BYTES_MAX];
	size_t count = proto->used - begin, length_bytes = proto_put_varint(length, count);

	must(begin > 0 && begin <= proto->used);
	reserve_proto_bytes(proto, length_bytes);
	memmove(proto->bytes + begin + length_bytes - 1, proto->bytes + begin, count);
	memcpy(proto->bytes + begin - 1, length, length_bytes);
	proto->used += length_bytes - 1;
}
