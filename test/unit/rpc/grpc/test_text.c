/* SPDX-License-Identifier: BSD-2-Clause */
/* Header texts and message prefixes: encoded, decoded, and invalid ones refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "rpc/grpc/frame.h"
#include "rpc/grpc/grpc.h"
#include "rpc/grpc/text.h"

static void time_outs_are_decoded(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} rows[] = {
		{ "299998m", 299998000000 },
		{ "1H", 3600000000000 },
		{ "2M", 120000000000 },
		{ "5S", 5000000000 },
		{ "7u", 7000 },
		{ "99999999n", 99999999 },
		{ "0S", 0 },
		{ "5124096H", GRPC_NO_DEADLINE }, /* 80 ms, modulo 2^64 */
		{ "99999999H", GRPC_NO_DEADLINE },
		{ "876000H", 876000 * UINT64_C(3600000000000) },
	};
	static const char *const wrong[] = { "", "5", "m", "123456789m", "-5S", "5s", "5SS", " 5S", "5 S", "1.5S" };
	uint64_t ns = 77;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		assert_int_equal(grpc_timeout_parse(rows[i].text, &ns), 0);
		assert_int_equal(ns, rows[i].ns);
	}
	ns = 77;
	for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
		assert_int_equal(grpc_timeout_parse(wrong[i], &ns), -EINVAL);
	assert_int_equal(ns, 77);
}

static void an_encoded_time_out_is_never_shorter(void **state)
{
	static const uint64_t rows[] = { 1, 99999999, 100000000, 100000001, 299998000000, 3600000000001, UINT64_MAX };
	char text[GRPC_TIMEOUT_BYTES_MAX];
	uint64_t ns;

	for (size_t i = 0; i < ARRAY_COUNT(rows) - 1; i++) {
		grpc_timeout_format(text, rows[i]);
		assert_int_equal(grpc_timeout_parse(text, &ns), 0);
		assert_true(ns >= rows[i]);
		assert_true(ns - rows[i] <= rows[i] / 50000 + 1);
	}
	grpc_timeout_format(text, UINT64_MAX);
	assert_int_equal(grpc_timeout_parse(text, &ns), 0);
	assert_true(ns == GRPC_NO_DEADLINE);
}

static void messages_are_equal_after_encoding_in_a_header(void **state)
{
	static const char *const rows[][2] = {
		{ "plain text, ~ and all", "plain text, ~ and all" },
		{ "100%", "100%25" },
		{ "two\nlines\t", "two%0Alines%09" },
		{ "\xc3\xa9", "%C3%A9" },
		{ "", "" },
	};
	char there[256], back[256];

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		grpc_percent_encode(there, sizeof(there), rows[i][0]);
		assert_string_equal(there, rows[i][1]);
		grpc_percent_decode(back, sizeof(back), there);
		assert_string_equal(back, rows[i][0]);
	}
	grpc_percent_decode(back, sizeof(back), "50% of %zz and %4");
	assert_string_equal(back, "50% of %zz and %4");
	grpc_percent_encode(there, 6, "ab\n\n");
	assert_string_equal(there, "ab%0A");
	grpc_percent_encode(there, 5, "ab\n\n");
	assert_string_equal(there, "ab");
}

static void base64_is_decoded_with_and_without_padding(void **state)
{
	static const char *const rows[][2] = { { "", "" },	  { "f", "Zg" },	{ "fo", "Zm8" },
					       { "foo", "Zm9v" }, { "foob", "Zm9vYg" }, { "\xff\xfe\xfd", "//79" } };
	char text[64], padded[80];
	uint8_t data[64];
	size_t bytes;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		size_t length = strlen(rows[i][0]);

		grpc_base64_encode(text, (const uint8_t *)rows[i][0], length);
		assert_string_equal(text, rows[i][1]);
		assert_true(strlen(text) < GRPC_BASE64_BYTES(length));
		snprintf(padded, sizeof(padded), "%s%.*s", text, (int)((4 - strlen(text) % 4) % 4), "===");
		assert_int_equal(grpc_base64_decode(data, text, &bytes), 0);
		assert_int_equal(bytes, length);
		assert_int_equal(grpc_base64_decode(data, padded, &bytes), 0);
		assert_memory_equal(data, rows[i][0], length);
	}
	assert_int_equal(grpc_base64_decode(data, "A", &bytes), -EINVAL);
	assert_int_equal(grpc_base64_decode(data, "AB-_", &bytes), -EINVAL);
	assert_int_equal(grpc_base64_decode(data, "AA=A", &bytes), -EINVAL);
}

static void a_message_is_joined_from_any_pieces(void **state)
{
	static const uint8_t stream[] = { 0, 0, 0, 0, 6, 'a', 'b', 'c', 'd', 'e', 'f' };

	for (size_t piece = 1; piece <= sizeof(stream); piece++) {
		struct grpc_message m = { .bytes = 0 };
		enum grpc_frame result = GRPC_FRAME_MORE;

		assert_true(grpc_message_is_empty(&m));
		for (size_t at = 0; at < sizeof(stream); at += piece) {
			assert_int_equal(result, GRPC_FRAME_MORE);
			result = grpc_message_take(&m, stream + at, min_u64(piece, sizeof(stream) - at), 6);
		}
		assert_int_equal(result, GRPC_FRAME_WHOLE);
		assert_true(grpc_message_is_whole(&m));
		assert_memory_equal(m.data, "abcdef", 6);
		grpc_message_clear(&m);
	}
}

static void invalid_messages_are_named(void **state)
{
	static const struct {
		uint8_t bytes[8];
		size_t count;
		enum grpc_frame wanted;
	} rows[] = {
		{ { 1, 0, 0, 0, 1, 'x' }, 6, GRPC_FRAME_COMPRESSED },
		{ { 2, 0, 0, 0, 1, 'x' }, 6, GRPC_FRAME_BAD_FLAG },
		{ { 0, 0, 0, 1, 1, 'x' }, 6, GRPC_FRAME_TOO_LARGE },
		{ { 0, 255, 255, 255, 255 }, 5, GRPC_FRAME_TOO_LARGE },
		{ { 0, 0, 0, 0, 1, 'x', 0 }, 7, GRPC_FRAME_SECOND },
		{ { 0, 0, 0, 0, 0, 0 }, 6, GRPC_FRAME_SECOND },
		{ { 0, 0, 0, 0, 0 }, 5, GRPC_FRAME_WHOLE },
		{ { 0, 0, 0 }, 3, GRPC_FRAME_MORE },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct grpc_message m = { .bytes = 0 };

		assert_int_equal(grpc_message_take(&m, rows[i].bytes, rows[i].count, 256), rows[i].wanted);
		grpc_message_clear(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_outs_are_decoded),
		cmocka_unit_test(an_encoded_time_out_is_never_shorter),
		cmocka_unit_test(messages_are_equal_after_encoding_in_a_header),
		cmocka_unit_test(base64_is_decoded_with_and_without_padding),
		cmocka_unit_test(a_message_is_joined_from_any_pieces),
		cmocka_unit_test(invalid_messages_are_named),
	};

	return cmocka_run_group_tests_name("grpc text", tests, NULL, NULL);
}
