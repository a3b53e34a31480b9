/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets are joined to messages; each kind of invalid packet is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "rpc/drpc/chunk.h"

enum { LIMIT = 1 << 20 };

struct packet {
	struct drpc_chunk_header header;
	uint8_t data[DRPC_PACKET_BYTES_MAX];
};

static struct packet packet;

static enum drpc_chunk receive_chunk(struct drpc_message *m, struct drpc_chunk_header header, size_t data_bytes)
{
	packet.header = header;
	return drpc_message_take(m, (const uint8_t *)&packet, sizeof(header) + data_bytes, LIMIT);
}

static void a_message_of_any_length_is_equal_after_splitting_and_joining(void **state)
{
	static const uint64_t lengths[] = {
		0,    1, DRPC_CHUNK_BYTES_MAX - 1, DRPC_CHUNK_BYTES_MAX, DRPC_CHUNK_BYTES_MAX + 1, 5 * DRPC_CHUNK_BYTES_MAX,
		LIMIT
	};
	uint8_t *data = malloc(LIMIT);
	struct random random;

	random_init(&random, 1);
	for (size_t i = 0; i < LIMIT; i++)
		data[i] = (uint8_t)random_below(&random, 256);
	for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
		struct drpc_message m = { 0 };
		enum drpc_chunk result = DRPC_CHUNK_MORE;
		uint64_t offset = 0;

		do {
			struct drpc_chunk_header h = drpc_chunk_at(lengths[i], offset);

			assert_int_equal(result, DRPC_CHUNK_MORE);
			memcpy(packet.data, data + offset, h.chunk_bytes);
			result = receive_chunk(&m, h, h.chunk_bytes);
			offset += h.chunk_bytes;
		} while (offset < lengths[i]);
		assert_int_equal(result, DRPC_CHUNK_MESSAGE);
		assert_int_equal(m.bytes, lengths[i]);
		if (lengths[i] > 0)
			assert_memory_equal(m.data, data, lengths[i]);
		drpc_message_clear(&m);
	}
	free(data);
}

static void the_header_has_the_bytes_of_the_protocol(void **state)
{
	struct drpc_chunk_header h = drpc_chunk_at(DRPC_CHUNK_BYTES_MAX + 5, DRPC_CHUNK_BYTES_MAX);
	static const uint8_t wanted[24] = { 0xed, 0xff, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0 };

	assert_int_equal(DRPC_CHUNK_BYTES_MAX, 131048);
	assert_memory_equal(&h, wanted, sizeof(wanted));
}

#define H(total, chunk, at, chunks)                                                                                        \
	((struct drpc_chunk_header){ .total_bytes = total, .chunk_bytes = chunk, .index = at, .total_chunks = chunks })

static void each_kind_of_invalid_packet_is_named(void **state)
{
	/* a valid first chunk, if its total is not 0; then the invalid one */
	static const struct {
		struct drpc_chunk_header first, header;
		size_t data_bytes;
		enum drpc_chunk wanted;
	} rows[] = {
		{ H(0, 0, 0, 0), H(10, 10, 0, 1), 9, DRPC_CHUNK_WRONG_BYTES },
		{ H(0, 0, 0, 0), H(10, 10, 0, 1), 11, DRPC_CHUNK_WRONG_BYTES },
		{ H(0, 0, 0, 0), H(10, UINT64_MAX, 0, 1), 10, DRPC_CHUNK_WRONG_BYTES },
		{ H(0, 0, 0, 0), H(LIMIT + 1, 10, 0, 100), 10, DRPC_CHUNK_TOO_LARGE },
		{ H(0, 0, 0, 0), H(UINT64_MAX, 10, 0, UINT32_MAX), 10, DRPC_CHUNK_TOO_LARGE },
		{ H(0, 0, 0, 0), H(10, 10, 0, 0), 10, DRPC_CHUNK_WRONG_TOTAL },
		{ H(0, 0, 0, 0), H(10, 5, 0, 11), 5, DRPC_CHUNK_WRONG_TOTAL },
		{ H(0, 0, 0, 0), H(LIMIT, 10, 0, 1), 10, DRPC_CHUNK_WRONG_TOTAL },
		{ H(0, 0, 0, 0), H(0, 0, 0, 2), 0, DRPC_CHUNK_WRONG_TOTAL },
		{ H(0, 0, 0, 0), H(10, 5, 1, 2), 5, DRPC_CHUNK_GAP },
		{ H(0, 0, 0, 0), H(10, 5, 0, 1), 5, DRPC_CHUNK_SHORT },
		{ H(0, 0, 0, 0), H(10, 0, 0, 2), 0, DRPC_CHUNK_EMPTY },
		{ H(0, 0, 0, 0), H(0, 5, 0, 1), 5, DRPC_CHUNK_OVERFLOW },
		{ H(10, 5, 0, 3), H(10, 2, 0, 3), 2, DRPC_CHUNK_GAP },
		{ H(10, 5, 0, 3), H(10, 2, 2, 3), 2, DRPC_CHUNK_GAP },
		{ H(10, 5, 0, 3), H(11, 2, 1, 3), 2, DRPC_CHUNK_CHANGED },
		{ H(10, 5, 0, 3), H(10, 2, 1, 2), 2, DRPC_CHUNK_CHANGED },
		{ H(10, 5, 0, 3), H(10, 6, 1, 3), 6, DRPC_CHUNK_OVERFLOW },
		{ H(10, 5, 0, 2), H(10, 4, 1, 2), 4, DRPC_CHUNK_SHORT },
		{ H(10, 5, 0, 3), H(10, 0, 1, 3), 0, DRPC_CHUNK_EMPTY },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct drpc_message m = { 0 };

		if (rows[i].first.total_bytes > 0)
			assert_int_equal(receive_chunk(&m, rows[i].first, rows[i].first.chunk_bytes), DRPC_CHUNK_MORE);
		assert_int_equal(receive_chunk(&m, rows[i].header, rows[i].data_bytes), rows[i].wanted);
		assert_true(strlen(drpc_chunk_text(rows[i].wanted)) > 10);
		drpc_message_clear(&m);
	}
}

static void a_packet_that_is_not_a_chunk_is_refused(void **state)
{
	struct drpc_message m = { 0 };

	for (size_t bytes = 0; bytes < sizeof(struct drpc_chunk_header); bytes++)
		assert_int_equal(drpc_message_take(&m, (const uint8_t *)&packet, bytes, LIMIT), DRPC_CHUNK_TRUNCATED);
	assert_int_equal(drpc_message_take(&m, (const uint8_t *)&packet, DRPC_PACKET_BYTES_MAX + 1, LIMIT),
			 DRPC_CHUNK_TRUNCATED);
}

static void a_large_total_does_not_allocate_its_memory(void **state)
{
	struct drpc_message m = { 0 };
	struct drpc_chunk_header h = H(DRPC_MESSAGE_BYTES_MAX, 1, 0, DRPC_MESSAGE_BYTES_MAX);

	packet.header = h;
	assert_int_equal(drpc_message_take(&m, (const uint8_t *)&packet, sizeof(h) + 1, DRPC_MESSAGE_BYTES_MAX),
			 DRPC_CHUNK_MORE);
	assert_true(m.room <= 4096);
	drpc_message_clear(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_of_any_length_is_equal_after_splitting_and_joining),
		cmocka_unit_test(the_header_has_the_bytes_of_the_protocol),
		cmocka_unit_test(each_kind_of_invalid_packet_is_named),
		cmocka_unit_test(a_packet_that_is_not_a_chunk_is_refused),
		cmocka_unit_test(a_large_total_does_not_allocate_its_memory),
	};

	return cmocka_run_group_tests_name("drpc chunk", tests, NULL, NULL);
}
