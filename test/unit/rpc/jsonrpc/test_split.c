/* SPDX-License-Identifier: BSD-2-Clause */
/* The splitter finds the same values for any cuts; invalid and oversized input is refused at its byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* after those four */
#include <cmocka.h>

#include "base/bits.h"
#include "rpc/jsonrpc/split.h"

static const char stream[] = " {\"a\":1}{\"b\":\"}]{[\\\"\\\\\"}\n[1,[2,{}],\"\\u005d\"]\t{}";
static const char *const values[] = { "{\"a\":1}", "{\"b\":\"}]{[\\\"\\\\\"}", "[1,[2,{}],\"\\u005d\"]", "{}" };

static void expect_values(const char *buffer, const size_t *ends, size_t cuts)
{
	struct json_splitter splitter = { 0 };
	size_t found = 0;

	for (size_t i = 0; i < cuts; i++) {
		enum json_split result;

		while ((result = json_split(&splitter, buffer, ends[i])) == JSON_SPLIT_VALUE) {
			assert_true(found < ARRAY_COUNT(values));
			assert_int_equal(splitter.at - splitter.begin, strlen(values[found]));
			assert_memory_equal(buffer + splitter.begin, values[found], strlen(values[found]));
			found++;
		}
		assert_int_equal(result, JSON_SPLIT_MORE);
	}
	assert_int_equal(found, ARRAY_COUNT(values));
}

static void values_are_found_for_each_cut(void **state)
{
	size_t bytes = sizeof(stream) - 1;

	for (size_t first = 0; first <= bytes; first++) {
		for (size_t second = first; second <= bytes; second++)
			expect_values(stream, (const size_t[]){ first, second, bytes }, 3);
	}
}

static void values_are_found_byte_by_byte_while_parsed_bytes_are_dropped(void **state)
{
	struct json_splitter splitter = { 0 };
	size_t gone = 0, found = 0;

	for (size_t come = 1; come < sizeof(stream); come++) {
		enum json_split result = json_split(&splitter, stream + gone, come - gone);

		if (result == JSON_SPLIT_VALUE) {
			assert_memory_equal(stream + gone + splitter.begin, values[found], strlen(values[found]));
			found++;
			splitter.begin = splitter.at;
		}
		if (splitter.begin > 0) {
			size_t used = splitter.begin;

			json_splitter_dropped(&splitter, used);
			gone += used;
		}
	}
	assert_int_equal(found, ARRAY_COUNT(values));
}

static void invalid_input_is_refused_at_its_byte(void **state)
{
	static const struct {
		const char *text;
		size_t at;
	} rows[] = {
		{ "x", 0 },	  { "  5", 2 },	    { "\"a\"", 0 },	    { "}", 0 },
		{ "{]", 1 },	  { "[}", 1 },	    { "[1,{\"a\":2]]", 9 }, { "{\"a\":#}", 5 },
		{ "{} true", 3 }, { "{'a':1}", 1 }, { "[\x01]", 1 },	    { ",{}", 0 },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct json_splitter splitter = { 0 };
		enum json_split result;

		do
			result = json_split(&splitter, rows[i].text, strlen(rows[i].text));
		while (result == JSON_SPLIT_VALUE);
		assert_int_equal(result, JSON_SPLIT_MALFORMED);
		assert_int_equal(splitter.at, rows[i].at);
	}
}

static void a_nul_outside_of_strings_is_refused(void **state)
{
	struct json_splitter splitter = { 0 };

	assert_int_equal(json_split(&splitter, "{\0}", 3), JSON_SPLIT_MALFORMED);
}

static void nesting_over_the_limit_is_refused(void **state)
{
	char text[2 * JSON_DEPTH_MAX + 2];
	struct json_splitter splitter = { 0 };

	memset(text, '[', JSON_DEPTH_MAX);
	memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
	assert_int_equal(json_split(&splitter, text, 2 * JSON_DEPTH_MAX), JSON_SPLIT_VALUE);
	splitter = (struct json_splitter){ 0 };
	text[JSON_DEPTH_MAX] = '{';
	assert_int_equal(json_split(&splitter, text, 2 * JSON_DEPTH_MAX), JSON_SPLIT_TOO_DEEP);
}

static void parts_over_the_limit_are_refused(void **state)
{
	/* the bracket counts as a part */
	size_t bytes = 2 * JSON_PARTS_MAX;
	struct json_splitter splitter = { 0 };
	char *text = malloc(bytes + 4);

	assert_non_null(text);
	text[0] = '[';
	for (size_t i = 0; i < JSON_PARTS_MAX - 1; i++)
		memcpy(text + 1 + 2 * i, "1,", 2);
	text[2 * (JSON_PARTS_MAX - 1)] = ']';
	assert_int_equal(json_split(&splitter, text, bytes - 1), JSON_SPLIT_VALUE);
	memcpy(text + 2 * (JSON_PARTS_MAX - 1), ",1]", 3);
	splitter = (struct json_splitter){ 0 };
	assert_int_equal(json_split(&splitter, text, bytes + 1), JSON_SPLIT_TOO_MANY_PARTS);
	free(text);
}

static void bytes_over_the_limit_are_refused(void **state)
{
	struct json_splitter splitter = { 0 };
	char *text = malloc(JSON_BYTES_MAX + 2);

	assert_non_null(text);
	memset(text, ' ', JSON_BYTES_MAX + 2);
	text[0] = '[';
	text[JSON_BYTES_MAX - 1] = ']';
	assert_int_equal(json_split(&splitter, text, JSON_BYTES_MAX), JSON_SPLIT_VALUE);
	splitter = (struct json_splitter){ 0 };
	text[JSON_BYTES_MAX - 1] = ' ';
	text[JSON_BYTES_MAX] = ']';
	assert_int_equal(json_split(&splitter, text, JSON_BYTES_MAX + 1), JSON_SPLIT_TOO_LONG);
	free(text);
}

static void counts_start_at_zero_for_each_value(void **state)
{
	struct json_splitter splitter = { 0 };
	const char text[] = "[1,2,3][4]";

	assert_int_equal(json_split(&splitter, text, sizeof(text) - 1), JSON_SPLIT_VALUE);
	assert_int_equal(splitter.part_count, 4);
	assert_int_equal(json_split(&splitter, text, sizeof(text) - 1), JSON_SPLIT_VALUE);
	assert_int_equal(splitter.part_count, 2);
}

static void each_error_has_a_text(void **state)
{
	for (int result = JSON_SPLIT_MALFORMED; result <= JSON_SPLIT_TOO_LONG; result++)
		assert_true(strlen(json_split_text((enum json_split)result)) > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_found_for_each_cut),
		cmocka_unit_test(values_are_found_byte_by_byte_while_parsed_bytes_are_dropped),
		cmocka_unit_test(invalid_input_is_refused_at_its_byte),
		cmocka_unit_test(a_nul_outside_of_strings_is_refused),
		cmocka_unit_test(nesting_over_the_limit_is_refused),
		cmocka_unit_test(parts_over_the_limit_are_refused),
		cmocka_unit_test(bytes_over_the_limit_are_refused),
		cmocka_unit_test(counts_start_at_zero_for_each_value),
		cmocka_unit_test(each_error_has_a_text),
	};

	return cmocka_run_group_tests_name("rpc split", tests, NULL, NULL);
}
