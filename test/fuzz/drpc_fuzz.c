/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drpc_fuzz - any packets as dRPC chunks.
 *
 *      u16 length, that many bytes of a packet; again and again
 *
 * Holds: a message that comes out is as long as every chunk of it said, is the chunks' bytes in order, and takes no more
 * memory than has come, doubled; after an error nothing more is given. Built by clang -fsanitize=fuzzer it fuzzes; else it
 * replays.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "drpc/chunk.h"

enum { INPUT_BYTES_MAX = 1 << 20, LIMIT = 1 << 18 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t collected[INPUT_BYTES_MAX];
	struct drpc_message message = { 0 };
	struct drpc_chunk_header header;
	enum drpc_chunk result = DRPC_CHUNK_MORE;
	size_t count = 0;

	while (size >= 2 && result <= DRPC_CHUNK_MESSAGE) {
		size_t bytes = min_u64((size_t)(data[0] | data[1] << 8), size - 2);

		result = drpc_message_take(&message, data + 2, bytes, LIMIT);
		must(drpc_chunk_text(result));
		if (result <= DRPC_CHUNK_MESSAGE) {
			must(bytes >= sizeof(header));
			memcpy(&header, data + 2, sizeof(header));
			must(header.chunk_bytes == bytes - sizeof(header));
			must(count + header.chunk_bytes <= sizeof(collected));
			memcpy(collected + count, data + 2 + sizeof(header), header.chunk_bytes);
			count += header.chunk_bytes;
			must(message.bytes == count);
			must(message.room <= max_u64(16, 2 * count));
		}
		if (result == DRPC_CHUNK_MESSAGE) {
			must(message.bytes == header.total_bytes);
			must(header.index == header.total_chunks - 1);
			must(count == 0 || memcmp(message.data, collected, count) == 0);
			drpc_message_clear(&message);
			count = 0;
		}
		data += 2 + bytes;
		size -= 2 + bytes;
	}
	drpc_message_clear(&message);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

/* Messages of 100 bytes in 1, 2 and 5 chunks, one after the other. */
static int write_seeds(const char *directory)
{
	static const uint32_t chunks[] = { 1, 2, 5 };

	for (size_t i = 0; i < ARRAY_COUNT(chunks); i++) {
		uint8_t packet[2 + sizeof(struct drpc_chunk_header) + 100] = { 0 };
		size_t bytes = 100 / chunks[i];
		char path[512];
		FILE *file;

		snprintf(path, sizeof(path), "%s/seed-%zu", directory, i);
		file = fopen(path, "w");
		for (uint32_t at = 0; file && at < chunks[i]; at++) {
			struct drpc_chunk_header header = { 100, bytes, at, chunks[i] };

			packet[0] = (uint8_t)(sizeof(header) + bytes);
			memcpy(packet + 2, &header, sizeof(header));
			if (fwrite(packet, 1, 2 + sizeof(header) + bytes, file) != 2 + sizeof(header) + bytes)
				return 1;
		}
		if (!file || fclose(file)) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t data[INPUT_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
