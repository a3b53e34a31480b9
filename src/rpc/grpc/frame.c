/* SPDX-License-Identifier: BSD-2-Clause */
#include "rpc/grpc/frame.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/buffer.h"

/* The prefix is complete. */
static enum grpc_frame read_prefix(struct grpc_message *m, uint32_t bytes_max)
{
	const uint8_t *p = m->prefix;

	m->total_bytes = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
	if (p[0] > 1)
		return GRPC_FRAME_BAD_FLAG;
	if (p[0] == 1)
		return GRPC_FRAME_COMPRESSED;
	return m->total_bytes > bytes_max ? GRPC_FRAME_TOO_LARGE : GRPC_FRAME_MORE;
}

enum grpc_frame grpc_message_take(struct grpc_message *m, const uint8_t *data, size_t bytes, uint32_t bytes_max)
{
	size_t count;

	if (m->prefix_bytes < GRPC_PREFIX_BYTES) {
		enum grpc_frame result;

		count = min_u64(bytes, GRPC_PREFIX_BYTES - m->prefix_bytes);
		if (count > 0)
			memcpy(m->prefix + m->prefix_bytes, data, count);
		m->prefix_bytes += (uint32_t)count;
		data += count;
		bytes -= count;
		if (m->prefix_bytes < GRPC_PREFIX_BYTES)
			return GRPC_FRAME_MORE;
		result = read_prefix(m, bytes_max);
		if (result != GRPC_FRAME_MORE)
			return result;
	}
	count = min_u64(bytes, m->total_bytes - m->bytes);
	if (count < bytes)
		return GRPC_FRAME_SECOND;
	if (count > 0) {
		if (buffer_reserve(&m->data, &m->room, m->bytes + count, m->total_bytes))
			return GRPC_FRAME_NO_MEMORY;
		memcpy(m->data + m->bytes, data, count);
		m->bytes += (uint32_t)count;
	}
	must(m->bytes <= m->total_bytes);
	return m->bytes == m->total_bytes ? GRPC_FRAME_WHOLE : GRPC_FRAME_MORE;
}

bool grpc_message_is_empty(const struct grpc_message *m)
{
	return m->prefix_bytes == 0;
}

bool grpc_message_is_whole(const struct grpc_message *m)
{
	return m->prefix_bytes == GRPC_PREFIX_BYTES && m->bytes == m->total_bytes;
}

void grpc_message_clear(struct grpc_message *m)
{
	free(m->data);
	memset(m, 0, sizeof(*m));
}

void grpc_prefix_write(uint8_t prefix[static GRPC_PREFIX_BYTES], uint32_t message_bytes)
{
	prefix[0] = 0;
	for (int i = 0; i < 4; i++)
		prefix[1 + i] = (uint8_t)(message_bytes >> (24 - 8 * i));
}
