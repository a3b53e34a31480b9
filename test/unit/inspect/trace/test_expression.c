/* SPDX-License-Identifier: BSD-2-Clause */
/* Conditions: their meaning, and the position of errors. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/trace/expression.h"

/* An event: a read of 4096 bytes on r12, 7.5 us, on core 3. */
static const struct {
	const char *name;
	struct expression_value value;
} arguments[] = {
	{ "bytes", { .has_number = true, .number = 4096 } },
	{ "type", { .has_number = true, .number = 0, .text = "READ", .text_bytes = 4 } },
	{ "device", { .text = "Malloc0", .text_bytes = 7 } },
	{ "latency_us", { .has_number = true, .number = 7.5L, .unit_ns = 1000 } },
	{ "timeout", { .has_number = true, .number = 30000000, .unit_ns = 1 } },
	{ "core", { .has_number = true, .number = 3 } },
	{ "object", { .has_number = true, .number = 12, .text = "r12", .text_bytes = 3 } },
	{ "delta", { .has_number = true, .number = -5 } },
	{ "big", { .has_number = true, .number = (long double)UINT64_MAX } },
	{ "empty", { .text = "", .text_bytes = 0 } },
};

static bool lookup(void *ctx, uint32_t name, struct expression_value *value_ret)
{
	size_t place;
	const char *text = expression_name(ctx, name, &place);

	for (size_t i = 0; i < ARRAY_COUNT(arguments); i++) {
		if (strcmp(arguments[i].name, text) == 0) {
			*value_ret = arguments[i].value;
			return true;
		}
	}
	return false;
}

static bool holds(const char *text)
{
	struct expression *expression;
	struct fathom_fault why = { 0 };
	size_t place;
	bool result;

	if (expression_parse(text, &expression, &why, &place) != 0)
		fail_msg("%s: %s at %zu", text, why.text, place);
	result = expression_evaluate(expression, lookup, expression);
	expression_free(expression);
	return result;
}

static void numbers_compare(void **state)
{
	assert_true(holds("bytes == 4096"));
	assert_true(holds("bytes=4096"));
	assert_true(holds("bytes == 0x1000"));
	assert_false(holds("bytes != 4096"));
	assert_true(holds("bytes != 4095"));
	assert_true(holds("bytes < 4097"));
	assert_false(holds("bytes < 4096"));
	assert_true(holds("bytes <= 4096"));
	assert_true(holds("bytes > 4095"));
	assert_false(holds("bytes > 4096"));
	assert_true(holds("bytes >= 4096"));
	assert_true(holds("delta == -5"));
	assert_true(holds("delta < 0"));
	assert_true(holds("latency_us > 7.4 and latency_us < 7.6"));
	assert_true(holds("big == 18446744073709551615"));
	assert_false(holds("big == 18446744073709551614"));
	assert_true(holds("big == 0xffffffffffffffff"));
}

static void numbers_have_units(void **state)
{
	assert_true(holds("bytes == 4k"));
	assert_true(holds("bytes == 4KiB"));
	assert_true(holds("bytes < 1M and bytes < 1g and bytes < 1TiB"));
	assert_true(holds("latency_us > 7us"));
	assert_true(holds("latency_us > 7499ns"));
	assert_false(holds("latency_us > 1ms"));
	assert_true(holds("latency_us == 7500ns"));
	assert_true(holds("timeout == 30ms"));
	assert_true(holds("timeout == 0.03s"));
	assert_true(holds("timeout < 1min"));
	/* a value that is not a time is neither longer nor shorter than a time */
	assert_false(holds("bytes > 1us"));
	assert_false(holds("bytes < 1s"));
}

static void texts_compare(void **state)
{
	assert_true(holds("type == READ"));
	assert_true(holds("type == read"));
	assert_true(holds("type == 0"));
	assert_false(holds("type == WRITE"));
	assert_true(holds("type != WRITE"));
	assert_true(holds("device == \"malloc0\""));
	assert_true(holds("device == 'Malloc0'"));
	assert_false(holds("device == Malloc"));
	assert_true(holds("device =~ alloc"));
	assert_true(holds("device =~ \"C0\""));
	assert_false(holds("device =~ alloc00"));
	assert_true(holds("device =~ \"\""));
	assert_true(holds("object == r12"));
	assert_true(holds("object == 12"));
	/* a text that is not a number */
	assert_false(holds("device == 5"));
	assert_false(holds("bytes == READ"));
	assert_false(holds("bytes != READ"));
}

static void a_name_alone_means_not_zero(void **state)
{
	assert_true(holds("core"));
	assert_false(holds("type"));
	assert_true(holds("device"));
	assert_false(holds("empty"));
	assert_false(holds("nothing"));
}

static void conditions_combine(void **state)
{
	assert_true(holds("core == 3 and bytes == 4k"));
	assert_true(holds("core == 3 && bytes == 4k"));
	assert_false(holds("core == 3 and bytes == 5k"));
	assert_true(holds("core == 4 or bytes == 4k"));
	assert_true(holds("core == 4 || bytes == 4k"));
	assert_true(holds("not core == 4"));
	assert_true(holds("!core == 4"));
	assert_false(holds("not (core == 4 or bytes == 4k)"));
	assert_true(holds("not not core == 3"));
	/* `and` has precedence over `or`; left to right */
	assert_true(holds("core == 3 or core == 4 and core == 5"));
	assert_false(holds("(core == 3 or core == 4) and core == 5"));
	assert_true(holds("  (  core==3)AND(bytes=4k)  "));
}

static void comparisons_with_a_missing_argument_are_false(void **state)
{
	assert_false(holds("missing == 1"));
	assert_false(holds("missing != 1"));
	assert_true(holds("not missing == 1"));
}

static void keywords_are_whole_words(void **state)
{
	struct expression *expression;
	struct fathom_fault why;
	size_t place;

	/* names that start with `or`, `and`, `not` */
	assert_int_equal(expression_parse("order and android or nothing", &expression, &why, &place), 0);
	assert_int_equal(expression_name_count(expression), 3);
	assert_string_equal(expression_name(expression, 1, &place), "android");
	assert_int_equal(place, 10);
	expression_free(expression);
	assert_int_equal(expression_parse("a == 1 or A == 2", &expression, &why, &place), 0);
	assert_int_equal(expression_name_count(expression), 1);
	expression_free(expression);
}

static void errors_have_their_position(void **state)
{
	static const struct {
		const char *text;
		size_t place;
		const char *words;
	} rows[] = {
		{ "", 0, "name of an argument is missing" },
		{ "a >", 3, "a value is missing" },
		{ "a == )", 5, "a value is missing" },
		{ "a == 5 b == 6", 7, "`and` or `or` is missing" },
		{ "a == 5 and", 10, "name of an argument is missing" },
		{ "(a == 5", 0, "not closed" },
		{ "(a == 5 b", 8, "`)` is missing" },
		{ "a == 5)", 6, "missing" },
		{ "a == \"x", 5, "closing quote is missing" },
		{ "a > x", 4, "need a number" },
		{ "a =~ 5", 5, "quotes" },
		{ "a == 5parsecs", 6, "no unit" },
		{ "a == 0x10000000000000000", 5, "64 bits" },
		{ "a $ 5", 2, "missing" },
		{ "5 == a", 0, "name" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct expression *expression = NULL;
		struct fathom_fault why = { 0 };
		size_t place = 999;

		assert_int_equal(expression_parse(rows[i].text, &expression, &why, &place), -EINVAL);
		assert_null(expression);
		if (place != rows[i].place || !strstr(why.text, rows[i].words))
			fail_msg("%s: %s at %zu", rows[i].text, why.text, place);
	}
}

static void expressions_over_the_limits_are_refused(void **state)
{
	struct expression *expression;
	struct fathom_fault why;
	char text[4096] = "";
	size_t place, at = 0;

	memset(text, '(', EXPRESSION_DEPTH_MAX + 1);
	assert_int_equal(expression_parse(text, &expression, &why, &place), -EINVAL);
	assert_int_equal(place, EXPRESSION_DEPTH_MAX);
	memset(text, 'a', EXPRESSION_BYTES_MAX + 1);
	assert_int_equal(expression_parse(text, &expression, &why, &place), -EINVAL);
	assert_int_equal(place, EXPRESSION_BYTES_MAX);
	for (int i = 0; i < EXPRESSION_NAMES_MAX + 1; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%sn%d", i ? " or " : "", i);
	assert_int_equal(expression_parse(text, &expression, &why, &place), -EINVAL);
	assert_non_null(strstr(why.text, "names"));
	at = 0;
	for (int i = 0; i < EXPRESSION_NODES_MAX / 2 + 1; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%sn", i ? " or " : "");
	text[at] = '\0';
	assert_int_equal(expression_parse(text, &expression, &why, &place), -EINVAL);
	assert_non_null(strstr(why.text, "conditions"));
}

static void an_expression_may_start_with_an_event(void **state)
{
	static const struct {
		const char *text, *group, *name;
		size_t begin;
	} rows[] = {
		{ "bdev.bdev_io_done latency_us > 5ms", "bdev", "bdev_io_done", 18 },
		{ "bdev.bdev_io_done", "bdev", "bdev_io_done", 17 },
		{ "  latency_us > 5", "", "", 2 },
		{ "latency_us.x> 5", "", "", 0 },
		{ "a.", "", "", 0 },
		{ ".a", "", "", 0 },
		{ "", "", "", 0 },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		char group[EXPRESSION_NAME_BYTES_MAX], name[EXPRESSION_NAME_BYTES_MAX];

		assert_int_equal(expression_event(rows[i].text, group, name), rows[i].begin);
		assert_string_equal(group, rows[i].group);
		assert_string_equal(name, rows[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_compare),
		cmocka_unit_test(numbers_have_units),
		cmocka_unit_test(texts_compare),
		cmocka_unit_test(a_name_alone_means_not_zero),
		cmocka_unit_test(conditions_combine),
		cmocka_unit_test(comparisons_with_a_missing_argument_are_false),
		cmocka_unit_test(keywords_are_whole_words),
		cmocka_unit_test(errors_have_their_position),
		cmocka_unit_test(expressions_over_the_limits_are_refused),
		cmocka_unit_test(an_expression_may_start_with_an_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
