/* SPDX-License-Identifier: BSD-2-Clause */
#include "rpc/drpc/chunk.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/buffer.h"

static uint64_t chunks_needed(uint64_t bytes)
{
	return bytes == 0 ? 1 : (bytes + DRPC_CHUNK_BYTES_MAX - 1) / DRPC_CHUNK_BYTES_MAX;
}

static enum drpc_chunk check_first(const struct drpc_chunk_header *h, uint64_t bytes_max)
{
	if (h->total_bytes > bytes_max)
		return DRPC_CHUNK_TOO_LARGE;
	if (h->total_chunks < chunks_needed(h->total_bytes) || h->total_chunks > max_u64(1, h->total_bytes))
		return DRPC_CHUNK_WRONG_TOTAL;
	return DRPC_CHUNK_MORE;
}

static enum drpc_chunk check_chunk(const struct drpc_message *m, const struct drpc_chunk_header *h, uint64_t bytes_max)
{
	enum drpc_chunk first = m->total_chunks == 0 ? check_first(h, bytes_max) : DRPC_CHUNK_MORE;

	if (first != DRPC_CHUNK_MORE)
		return first;
	if (m->total_chunks > 0 && (h->total_bytes != m->total_bytes || h->total_chunks != m->total_chunks))
		return DRPC_CHUNK_CHANGED;
	if (h->index != m->next_index)
		return DRPC_CHUNK_GAP;
	if (h->chunk_bytes > h->total_bytes - m->bytes)
		return DRPC_CHUNK_OVERFLOW;
	if (h->chunk_bytes == 0 && h->total_bytes > 0)
		return DRPC_CHUNK_EMPTY;
	if (h->index == h->total_chunks - 1 && m->bytes + h->chunk_bytes < h->total_bytes)
		return DRPC_CHUNK_SHORT;
	return DRPC_CHUNK_MORE;
}

enum drpc_chunk drpc_message_take(struct drpc_message *m, const uint8_t *packet, size_t packet_bytes, uint64_t bytes_max)
{
	struct drpc_chunk_header h;
	enum drpc_chunk result;

	must(m->total_chunks == 0 || m->next_index < m->total_chunks);
	must(m->bytes <= m->total_bytes);
	if (packet_bytes < sizeof(h) || packet_bytes > DRPC_PACKET_BYTES_MAX)
		return DRPC_CHUNK_TRUNCATED;
	memcpy(&h, packet, sizeof(h));
	if (h.chunk_bytes != packet_bytes - sizeof(h))
		return DRPC_CHUNK_WRONG_BYTES;
	result = check_chunk(m, &h, bytes_max);
	if (result != DRPC_CHUNK_MORE)
		return result;
	m->total_bytes = h.total_bytes;
	if (buffer_reserve(&m->data, &m->room, m->bytes + h.chunk_bytes, m->total_bytes))
		return DRPC_CHUNK_NO_MEMORY;
	m->total_chunks = h.total_chunks;
	if (h.chunk_bytes > 0)
		memcpy(m->data + m->bytes, packet + sizeof(h), h.chunk_bytes);
	m->bytes += h.chunk_bytes;
	m->next_index++;
	if (m->next_index < m->total_chunks)
		return DRPC_CHUNK_MORE;
	must(m->bytes == m->total_bytes);
	return DRPC_CHUNK_MESSAGE;
}

void drpc_message_clear(struct drpc_message *m)
{
	free(m->data);
	memset(m, 0, sizeof(*m));
}

const char *drpc_chunk_text(enum drpc_chunk chunk)
{
	static const char *const texts[] = {
		[DRPC_CHUNK_MORE] = "more is to come",
		[DRPC_CHUNK_MESSAGE] = "complete",
		[DRPC_CHUNK_TRUNCATED] = "a packet is shorter than a chunk's header or longer than 131072 bytes",
		[DRPC_CHUNK_WRONG_BYTES] = "a packet is not as long as its chunk's header says",
		[DRPC_CHUNK_TOO_LARGE] = "the message is larger than allowed",
		[DRPC_CHUNK_WRONG_TOTAL] = "the number of chunks does not fit the number of bytes",
		[DRPC_CHUNK_GAP] = "a chunk is missing or came twice",
		[DRPC_CHUNK_CHANGED] = "the totals changed from one chunk to the next",
		[DRPC_CHUNK_OVERFLOW] = "there are more bytes than the total says",
		[DRPC_CHUNK_SHORT] = "the last chunk came and bytes are missing",
		[DRPC_CHUNK_EMPTY] = "a chunk has no bytes",
		[DRPC_CHUNK_NO_MEMORY] = "out of memory for the message",
	};

	must(chunk < ARRAY_COUNT(texts));
	return texts[chunk];
}

struct drpc_chunk_header drpc_chunk_at(uint64_t total_bytes, uint64_t offset)
{
	must(offset % DRPC_CHUNK_BYTES_MAX == 0);
	must(offset < total_bytes || offset == 0);
	return (struct drpc_chunk_header){
		.total_bytes = total_bytes,
		.chunk_bytes = min_u64(total_bytes - offset, DRPC_CHUNK_BYTES_MAX),
		.index = (uint32_t)(offset / DRPC_CHUNK_BYTES_MAX),
		.total_chunks = (uint32_t)chunks_needed(total_bytes),
	};
}
