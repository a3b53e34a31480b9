/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams of volumes: what is written is read again; each truncation and each damaged byte of a stream is found. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/stream/stream.h"

enum { BLOCK = 512, SIZE = 64 * BLOCK, BYTES_MAX = 16384 };

static uint8_t bytes[BYTES_MAX];
static size_t length;

static void put(const void *data, size_t count)
{
	must(length + count <= sizeof(bytes));
	memcpy(bytes + length, data, count);
	length += count;
}

static struct stream_header header = {
	.volume_uuid = { 1 },
	.snapshot_uuid = { 2 },
	.base_uuid = { 3 },
	.size_bytes = SIZE,
	.base_bytes = SIZE / 2,
	.block_bytes = BLOCK,
	.pool = "p1",
	.volume = "db",
	.snapshot = "tuesday",
	.base = "monday",
};

static void put_header(struct stream *stream)
{
	uint8_t out[STREAM_HEADER_BYTES];

	length = 0;
	stream_put_header(stream, &header, out);
	put(out, sizeof(out));
}

static void put_data(struct stream *stream, uint64_t block, uint32_t blocks, uint8_t value)
{
	uint8_t out[STREAM_RECORD_BYTES], data[4 * BLOCK];

	memset(data, value, sizeof(data));
	stream_put_data(stream, block * BLOCK, data, blocks * BLOCK, out);
	put(out, sizeof(out));
	put(data, blocks * BLOCK);
}

static void put_rest(struct stream *stream)
{
	uint8_t out[STREAM_RECORD_BYTES + STREAM_DIGEST_BYTES];

	stream_put_zeroes(stream, 8 * BLOCK, 8 * BLOCK, out);
	put(out, STREAM_RECORD_BYTES);
	put_data(stream, 63, 1, 9);
	stream_put_end(stream, out);
	put(out, sizeof(out));
}

static void make_stream(void)
{
	struct stream *stream = stream_create();

	put_header(stream);
	put_data(stream, 1, 2, 7);
	put_rest(stream);
	stream_destroy(stream);
}

/* Read `count` bytes. Returns 0 if they are a complete stream, 1 if they end before its end, or the error. */
static int read_stream(struct stream *stream, size_t count, uint8_t volume[SIZE])
{
	struct stream_record record;
	struct stream_totals totals;
	struct fathom_fault why;
	size_t at = STREAM_HEADER_BYTES;
	int error;

	if (count < at)
		return 1;
	error = stream_take_header(stream, bytes, &why);
	while (!error && at < count) {
		if (count - at < STREAM_RECORD_BYTES)
			return 1;
		error = stream_take_record(stream, bytes + at, &record, &why);
		at += STREAM_RECORD_BYTES;
		if (error)
			break;
		must(record.data_bytes <= STREAM_DATA_BYTES_MAX);
		if (count - at < record.data_bytes)
			return 1;
		error = stream_take_data(stream, bytes + at, &why);
		if (!error && volume && record.type == STREAM_DATA)
			memcpy(volume + record.offset, bytes + at, record.bytes);
		if (!error && volume && record.type == STREAM_ZEROES)
			memset(volume + record.offset, 0, record.bytes);
		at += record.data_bytes;
	}
	if (error) {
		assert_true(strlen(why.text) > 0);
		return error;
	}
	stream_get_totals(stream, &totals);
	assert_int_equal(totals.stream_bytes, at);
	return totals.is_complete ? 0 : 1;
}

static int read_whole(size_t count)
{
	struct stream *stream = stream_create();
	int result = read_stream(stream, count, NULL);

	stream_destroy(stream);
	return result;
}

static void what_is_written_is_read_again(void **state)
{
	uint8_t volume[SIZE], wanted[SIZE];
	struct stream *stream = stream_create();
	struct stream_totals totals;

	make_stream();
	memset(volume, 5, sizeof(volume)); /* of the base */
	memset(wanted, 5, sizeof(wanted));
	memset(wanted + 1 * BLOCK, 7, 2 * BLOCK);
	memset(wanted + 8 * BLOCK, 0, 8 * BLOCK);
	memset(wanted + 63 * BLOCK, 9, BLOCK);
	assert_int_equal(read_stream(stream, length, volume), 0);
	assert_memory_equal(volume, wanted, SIZE);
	assert_memory_equal(stream_get_header(stream), &header, sizeof(header));
	stream_get_totals(stream, &totals);
	assert_int_equal(totals.records, 3);
	assert_int_equal(totals.data_bytes, 3 * BLOCK);
	assert_int_equal(totals.zero_bytes, 8 * BLOCK);
	assert_int_equal(totals.next, SIZE);
	stream_destroy(stream);
}

static void the_first_bytes_are_those_of_the_format(void **state)
{
	make_stream();
	assert_memory_equal(bytes, "FATHOMVS\1\0\0\0\0\2\0\0\1\0", 18);
	assert_memory_equal(bytes + 88, "p1\0", 3);
	assert_memory_equal(bytes + 512, "\1\0\0\0\0\4\0\0\0\2\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32);
	assert_int_equal(length, 512 + (40 + 1024) + 40 + (40 + 512) + (40 + 32));
}

static void each_truncation_is_found(void **state)
{
	make_stream();
	for (size_t count = 0; count < length; count++)
		assert_int_equal(read_whole(count), 1);
	assert_int_equal(read_whole(length), 0);
}

static void each_damaged_byte_is_found(void **state)
{
	make_stream();
	for (size_t i = 0; i < length; i++) {
		for (int bit = 0; bit < 8; bit += 7) {
			bytes[i] ^= (uint8_t)(1 << bit);
			assert_true(read_whole(length) < 0);
			bytes[i] ^= (uint8_t)(1 << bit);
		}
	}
	assert_int_equal(read_whole(length), 0);
}

static void bytes_behind_the_end_are_found(void **state)
{
	make_stream();
	put(bytes + STREAM_HEADER_BYTES, STREAM_RECORD_BYTES);
	assert_int_equal(read_whole(length), -EBADMSG);
}

/* A record of another stream, complete with its checksums, where one is missing, or twice. */
static void a_missing_and_a_repeated_record_are_found(void **state)
{
	size_t first = STREAM_RECORD_BYTES + 2 * BLOCK;

	make_stream();
	memmove(bytes + STREAM_HEADER_BYTES, bytes + STREAM_HEADER_BYTES + first, length - STREAM_HEADER_BYTES - first);
	assert_int_equal(read_whole(length - first), -EBADMSG);
	make_stream();
	memmove(bytes + STREAM_HEADER_BYTES + first, bytes + STREAM_HEADER_BYTES, length - STREAM_HEADER_BYTES);
	assert_int_equal(read_whole(length + first), -EBADMSG);
	make_stream();
	assert_int_equal(read_whole(length), 0);
}

/* The data of a record differ, and its checksums are right: only the digest finds it. */
static void a_record_of_another_stream_is_found_by_the_digest(void **state)
{
	static uint8_t other[BYTES_MAX];
	struct stream *stream = stream_create();

	put_header(stream);
	put_data(stream, 1, 2, 8);
	memcpy(other, bytes, length);
	stream_destroy(stream);
	make_stream();
	memcpy(bytes + STREAM_HEADER_BYTES, other + STREAM_HEADER_BYTES, STREAM_RECORD_BYTES + 2 * BLOCK);
	assert_int_equal(read_whole(length), -EBADMSG);
}

static void a_writer_goes_on_behind_the_last_complete_record(void **state)
{
	static uint8_t whole[BYTES_MAX];
	const size_t first = STREAM_HEADER_BYTES + STREAM_RECORD_BYTES + 2 * BLOCK; /* its end */
	struct stream_totals totals;
	struct stream *stream;
	size_t whole_bytes;

	make_stream();
	whole_bytes = length;
	memcpy(whole, bytes, length);
	for (size_t count = STREAM_HEADER_BYTES; count < first + STREAM_RECORD_BYTES; count += 7) {
		bool has_first = count >= first;

		memcpy(bytes, whole, count);
		stream = stream_create();
		assert_int_equal(read_stream(stream, count, NULL), 1);
		stream_get_totals(stream, &totals);
		assert_int_equal(totals.records, has_first);
		length = totals.stream_bytes; /* the incomplete record is cut off */
		if (!has_first)
			put_data(stream, 1, 2, 7);
		put_rest(stream);
		stream_destroy(stream);
		assert_int_equal(length, whole_bytes);
		assert_memory_equal(bytes, whole, length);
	}
}

/* CRC-32C, bit by bit. */
static uint32_t sum_of(const uint8_t *data, size_t count)
{
	uint32_t sum = UINT32_MAX;

	for (size_t i = 0; i < 8 * count; i++) {
		sum ^= data[i / 8] >> i % 8 & 1;
		sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78u : 0);
	}
	return ~sum;
}

/* Read a header that says so many bytes a block, with the right sum. */
static int read_block_size(uint32_t block_bytes)
{
	struct stream *stream = stream_create();
	struct fathom_fault why;
	uint32_t sum;
	int result;

	make_stream();
	for (int i = 0; i < 4; i++)
		bytes[80 + i] = (uint8_t)(block_bytes >> 8 * i);
	sum = sum_of(bytes, STREAM_HEADER_BYTES - 4);
	for (int i = 0; i < 4; i++)
		bytes[STREAM_HEADER_BYTES - 4 + i] = (uint8_t)(sum >> 8 * i);
	result = stream_take_header(stream, bytes, &why);
	stream_destroy(stream);
	return result;
}

static void all_block_sizes_of_volumes_are_known(void **state)
{
	const struct stream_header good = header;
	static const uint32_t bad[] = { 0, 1, 256, 513, 1536, 131072, 1u << 31 };

	header.size_bytes = 1 << 20;
	for (uint32_t block_bytes = 512; block_bytes <= 65536; block_bytes *= 2)
		assert_int_equal(read_block_size(block_bytes), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(read_block_size(bad[i]), -EBADMSG);
	header.size_bytes = 65536 + 512;
	assert_int_equal(read_block_size(1024), -EBADMSG);
	header = good;
}

static void values_that_cannot_be_are_refused(void **state)
{
	struct stream_header good = header;

	snprintf(header.pool, sizeof(header.pool), "a\nb");
	make_stream();
	assert_int_equal(read_whole(length), -EBADMSG);
	header = good;
	make_stream();
	memcpy(bytes, "something", 9);
	assert_int_equal(read_whole(length), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_again),
		cmocka_unit_test(the_first_bytes_are_those_of_the_format),
		cmocka_unit_test(each_truncation_is_found),
		cmocka_unit_test(each_damaged_byte_is_found),
		cmocka_unit_test(bytes_behind_the_end_are_found),
		cmocka_unit_test(a_missing_and_a_repeated_record_are_found),
		cmocka_unit_test(a_record_of_another_stream_is_found_by_the_digest),
		cmocka_unit_test(a_writer_goes_on_behind_the_last_complete_record),
		cmocka_unit_test(all_block_sizes_of_volumes_are_known),
		cmocka_unit_test(values_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
