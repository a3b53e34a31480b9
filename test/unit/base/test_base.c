/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/cpuset.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"

static struct cpuset parsed(const char *text)
{
	struct cpuset set;

	assert_int_equal(cpuset_parse(text, &set), 0);
	return set;
}

static void a_mask_and_a_list_name_the_same_cpus(void **state)
{
	struct cpuset mask = parsed("0xD"), list = parsed("[0,2-3]");

	assert_memory_equal(&mask, &list, sizeof(mask));
	assert_int_equal(cpuset_count(&mask), 3);
	assert_true(cpuset_has(&mask, 2));
	assert_false(cpuset_has(&mask, 1));
	mask = parsed("d");
	assert_memory_equal(&mask, &list, sizeof(mask));
}

static void the_last_cpu_fits_and_the_next_does_not(void **state)
{
	struct cpuset set = parsed("[255]");

	assert_true(cpuset_has(&set, 255));
	assert_false(cpuset_has(&set, 256));
	assert_int_equal(cpuset_parse("[256]", &set), -ERANGE);
	assert_int_equal(cpuset_parse("[0-99999999999999999999]", &set), -ERANGE);
	assert_int_equal(cpuset_parse("10000000000000000000000000000000000000000000000000000000000000000", &set), -ERANGE);
}

static void an_invalid_cpu_set_is_refused_and_changes_nothing(void **state)
{
	static const char *const bad[] = { "",	   "0",	   "0x",    "0x0",  "xyz",  "[",    "[]", "[1",
					   "[1,]", "[,1]", "[3-1]", "[1-]", "[1]x", "[-1]", "1 2" };
	struct cpuset set = parsed("[7]");

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		assert_int_equal(cpuset_parse(bad[i], &set), -EINVAL);
	assert_true(cpuset_has(&set, 7));
	assert_int_equal(cpuset_count(&set), 1);
}

static void a_cpu_set_is_printed_as_its_mask(void **state)
{
	struct cpuset set = parsed("[0,2-3]");
	char text[80];

	cpuset_format(&set, text, sizeof(text));
	assert_string_equal(text, "d");
	set = parsed("[0,64]");
	cpuset_format(&set, text, sizeof(text));
	assert_string_equal(text, "10000000000000001");
	cpuset_format(&set, text, 4);
	assert_string_equal(text, "100");
}

static void sizes_are_powers_of_1024(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = { { "0", 0 },
		     { "512", 512 },
		     { "4k", 4096 },
		     { "4K", 4096 },
		     { "4KiB", 4096 },
		     { "256M", 256ull << 20 },
		     { "1GiB", 1ull << 30 },
		     { "2TB", 2ull << 40 },
		     { "15P", 15ull << 50 } };
	static const char *const bad[] = { "", "k", "-1", "4kk", "4 k", "4x", "4KiBs", "0x10" };
	uint64_t bytes = 42;

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		assert_int_equal(text_parse_bytes(bad[i], &bytes), -EINVAL);
	assert_int_equal(text_parse_bytes("16384P", &bytes), -ERANGE);
	assert_int_equal(text_parse_bytes("99999999999999999999", &bytes), -ERANGE);
	assert_int_equal(bytes, 42);
	for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
		assert_int_equal(text_parse_bytes(good[i].text, &bytes), 0);
		assert_int_equal(bytes, good[i].bytes);
	}
}

static void a_switch_is_on_or_true(void **state)
{
	static const char *const bad[] = { "", "On", "yes", "1", "on ", "tru" };
	bool is_on = false;

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		assert_int_equal(text_parse_switch(bad[i], &is_on), -EINVAL);
	assert_true(text_parse_switch("on", &is_on) == 0 && is_on);
	assert_true(text_parse_switch("off", &is_on) == 0 && !is_on);
	assert_true(text_parse_switch("true", &is_on) == 0 && is_on);
	assert_true(text_parse_switch("false", &is_on) == 0 && !is_on);
}

static void durations_have_units_and_default_to_seconds(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = { { "0", 0 },
		     { "1", NS_PER_SEC },
		     { "1s", NS_PER_SEC },
		     { "500ms", 500 * NS_PER_MS },
		     { "2.5us", 2500 },
		     { "10ns", 10 },
		     { ".5", NS_PER_SEC / 2 },
		     { "0.29s", 290 * NS_PER_MS },
		     { "2m", 120 * NS_PER_SEC },
		     { "100h", 360000 * NS_PER_SEC },
		     { "0.6ns", 1 } };
	static const char *const bad[] = { "",	    ".",   "s",	  "-1",	  "+1s", " 1",	"1 s",	"1S",  "1d",
					   "1.2.3", "1e3", "0x1", "0x1s", "inf", "nan", "infs", "1ss", "12:30:00" };
	uint64_t ns = 42;

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		assert_int_equal(text_parse_duration(bad[i], &ns), -EINVAL);
	assert_int_equal(text_parse_duration("277778h", &ns), -ERANGE);
	assert_int_equal(text_parse_duration("1000000001", &ns), -ERANGE);
	assert_int_equal(text_parse_duration("99999999999999999999999", &ns), -ERANGE);
	assert_int_equal(ns, 42);
	for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
		assert_int_equal(text_parse_duration(good[i].text, &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
	assert_int_equal(text_parse_duration("1000000000", &ns), 0);
	assert_int_equal(ns, DURATION_NS_MAX);
}

static void numbers_are_printed_in_both_bases(void **state)
{
	static const uint64_t numbers[] = { 0, 1, 9, 10, 15, 16, 99, 100, 4096, UINT32_MAX, INT64_MAX, UINT64_MAX };

	for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
		char text[TEXT_NUMBER_BYTES], expected[32];

		assert_int_equal(text_decimal(text, numbers[i]),
				 snprintf(expected, sizeof(expected), "%" PRIu64, numbers[i]));
		assert_string_equal(text, expected);
		assert_int_equal(text_hexadecimal(text, numbers[i]),
				 snprintf(expected, sizeof(expected), "%" PRIx64, numbers[i]));
		assert_string_equal(text, expected);
	}
}

static void invalid_numbers_are_refused_and_change_nothing(void **state)
{
	uint64_t number = 7;

	assert_int_equal(text_parse_u64("12x", 10, 100, &number), -EINVAL);
	assert_int_equal(text_parse_u64("", 10, 100, &number), -EINVAL);
	assert_int_equal(text_parse_u64(" 1", 10, 100, &number), -EINVAL);
	assert_int_equal(text_parse_u64("-1", 10, UINT64_MAX, &number), -EINVAL);
	assert_int_equal(text_parse_u64("101", 10, 100, &number), -ERANGE);
	assert_int_equal(text_parse_u64("18446744073709551616", 10, UINT64_MAX, &number), -ERANGE);
	assert_int_equal(number, 7);
	assert_int_equal(text_parse_u64("100", 10, 100, &number), 0);
	assert_int_equal(number, 100);
	assert_int_equal(text_parse_u64("ff", 16, UINT64_MAX, &number), 0);
	assert_int_equal(number, 255);
}

static void overlong_and_invalid_utf8_is_refused(void **state)
{
	static const struct {
		const char *text;
		size_t length;
	} rows[] = {
		{ "a", 1 },
		{ "\x7f", 1 },
		{ "\xc2\x80", 2 },
		{ "\xdf\xbf", 2 },
		{ "\xe0\xa0\x80", 3 },
		{ "\xed\x9f\xbf", 3 },
		{ "\xef\xbf\xbf", 3 },
		{ "\xf0\x90\x80\x80", 4 },
		{ "\xf4\x8f\xbf\xbf", 4 },
		{ "\x80", 0 },		   /* a continuation byte at the start */
		{ "\xc1\xbf", 0 },	   /* overlong */
		{ "\xe0\x9f\xbf", 0 },	   /* the same */
		{ "\xf0\x8f\xbf\xbf", 0 }, /* the same */
		{ "\xed\xa0\x80", 0 },	   /* a surrogate */
		{ "\xf4\x90\x80\x80", 0 }, /* beyond U+10FFFF */
		{ "\xf5\x80\x80\x80", 0 }, /* the same */
		{ "\xff", 0 },
		{ "\xc3\x28", 0 }, /* not a continuation byte */
		{ "\xe2\x82\x28", 0 },
		{ "\xf0\x9f\x92\x28", 0 },
	};

	assert_int_equal(text_utf8_length("\0", 1), 1);
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		size_t bytes = strlen(rows[i].text);

		assert_int_equal(text_utf8_length(rows[i].text, bytes), rows[i].length);
		if (rows[i].length > 1)
			assert_int_equal(text_utf8_length(rows[i].text, bytes - 1), 0);
	}
}

static void json_strings_have_escapes(void **state)
{
	static const struct {
		const char *text, *plain, *one_letter, *html;
	} rows[] = {
		{ "a", "a", "a", "a" },
		{ "\"", "\\\"", "\\\"", "\\\"" },
		{ "\\", "\\\\", "\\\\", "\\\\" },
		{ "\n", "\\u000a", "\\n", "\\u000a" },
		{ "\t", "\\u0009", "\\t", "\\u0009" },
		{ "\x01", "\\u0001", "\\u0001", "\\u0001" },
		{ "\x1f", "\\u001f", "\\u001f", "\\u001f" },
		{ "\x7f", "?", "?", "?" },
		{ "\xff", "?", "?", "?" },
		{ "\xc3\xa9", "\xc3\xa9", "\xc3\xa9", "\xc3\xa9" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
		{ "<", "<", "<", "\\u003c" },
		{ "&", "&", "&", "\\u0026" },
		{ "\xe2\x80\xa8", "\xe2\x80\xa8", "\xe2\x80\xa8", "\\u2028" },
		{ "\xe2\x80\xa9", "\xe2\x80\xa9", "\xe2\x80\xa9", "\\u2029" },
	};
	char to[TEXT_JSON_BYTES_MAX];
	size_t read;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		const char *wanted_by_style[] = { [TEXT_JSON_PLAIN] = rows[i].plain,
						  [TEXT_JSON_SHORT] = rows[i].one_letter,
						  [TEXT_JSON_HTML] = rows[i].html };

		for (enum text_json_style style = TEXT_JSON_PLAIN; style <= TEXT_JSON_HTML; style++) {
			const char *wanted = wanted_by_style[style];
			size_t bytes = text_json_escape(to, rows[i].text, strlen(rows[i].text), style, &read);

			assert_int_equal(read, strlen(rows[i].text));
			assert_int_equal(bytes, strlen(wanted));
			assert_memory_equal(to, wanted, bytes);
		}
	}
	/* a NUL inside of a text; a truncated character */
	assert_int_equal(text_json_escape(to, "\0", 1, TEXT_JSON_SHORT, &read), 6);
	assert_memory_equal(to, "\\u0000", 6);
	assert_int_equal(text_json_escape(to, "\xc3\xa9", 1, TEXT_JSON_SHORT, &read), 1);
	assert_int_equal(read, 1);
	assert_int_equal(to[0], '?');
}

static void invalid_utf8_is_copied_as_question_marks(void **state)
{
	static const char from[] = "a\xff\xc3\xa4\x01\t\n\x7f\xe2\x82";
	static const char clean[] = "a?\xc3\xa4?\t\n???";
	char to[16];

	assert_int_equal(text_utf8_copy(to, sizeof(to), from, strlen(from)), strlen(clean));
	assert_memory_equal(to, clean, strlen(clean));
	/* a character is copied completely or not at all */
	assert_int_equal(text_utf8_copy(to, 3, from, strlen(from)), 2);
	assert_int_equal(text_utf8_copy(to, 4, from, strlen(from)), 4);
	assert_int_equal(text_utf8_copy(to, 0, from, strlen(from)), 0);
}

static void a_long_copy_is_cut_and_has_its_nul(void **state)
{
	char text[4];

	assert_int_equal(text_copy(text, sizeof(text), "abc"), 0);
	assert_string_equal(text, "abc");
	assert_int_equal(text_copy(text, sizeof(text), "abcd"), -ENAMETOOLONG);
	assert_string_equal(text, "abc");
	assert_int_equal(text_copy(text, 1, "x"), -ENAMETOOLONG);
	assert_string_equal(text, "");
}

static void a_long_text_is_cut_between_words(void **state)
{
	char text[16], small[8];

	text_copy_words(text, sizeof(text), "fifteen letters");
	assert_string_equal(text, "fifteen letters");
	text_copy_words(text, sizeof(text), "nine fits letters");
	assert_string_equal(text, "nine fits ...");
	text_copy_words(text, sizeof(text), "eleven fits well");
	assert_string_equal(text, "eleven fits ...");
	text_copy_words(text, sizeof(text), "line\n\tend\x1b and more");
	assert_string_equal(text, "line  end? ...");
	/* one long word is cut between two characters; \xc3\xa9 is one character */
	text_copy_words(small, sizeof(small),
			"ab\xc3\xa9"
			"defg");
	assert_string_equal(small, "ab ...");
	text_copy_words(small, sizeof(small), "ab");
	assert_string_equal(small, "ab");
}

static void a_fault_has_its_values_in_its_text_and_returns_its_error(void **state)
{
	struct fathom_fault why = { 0 };

	assert_int_equal(fault(&why, -ENOSPC, "needs %d", 5), -ENOSPC);
	assert_int_equal(why.error, -ENOSPC);
	assert_string_equal(why.text, "needs 5");
	assert_int_equal(fault(NULL, -EIO, "no process listens"), -EIO);
}

static void log_levels_have_the_names_used_by_rpc(void **state)
{
	enum log_level level;

	assert_int_equal(log_level_parse("notice", &level), 0);
	assert_int_equal(level, LOG_LEVEL_NOTICE);
	assert_int_equal(log_level_parse("LOUD", &level), -EINVAL);
	/* names used by DAOS */
	assert_int_equal(log_level_parse("crit", &level), 0);
	assert_int_equal(level, LOG_LEVEL_ERROR);
	assert_int_equal(log_level_parse("WARN", &level), 0);
	assert_int_equal(level, LOG_LEVEL_WARNING);
	assert_int_equal(log_level_parse("DBUG", &level), 0);
	assert_int_equal(level, LOG_LEVEL_DEBUG);
	for (enum log_level l = LOG_LEVEL_ERROR; l <= LOG_LEVEL_DEBUG; l++) {
		assert_int_equal(log_level_parse(log_level_name(l), &level), 0);
		assert_int_equal(level, l);
	}
}

static void ticks_are_even_and_convert_both_ways(void **state)
{
	for (int i = 0; i < 100; i++)
		assert_int_equal(clock_ticks() & TICK_SHARED, 0);
	/* an hour converted to ticks and back differs by less than a tick */
	assert_in_range(clock_ns_from_ticks(clock_ticks_from_ns(3600 * NS_PER_SEC)), 3600 * NS_PER_SEC - 10,
			3600 * NS_PER_SEC);
}

static void the_same_seed_gives_the_same_sequence(void **state)
{
	struct random a, b;

	random_init(&a, 42);
	random_init(&b, 42);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(random_next(&a), random_next(&b));
	for (int i = 0; i < 1000; i++)
		assert_in_range(random_below(&a, 7), 0, 6);
}

static void numbers_round_up(void **state)
{
	assert_int_equal(round_up(0, 4096), 0);
	assert_int_equal(round_up(1, 4096), 4096);
	assert_int_equal(round_up(4096, 4096), 4096);
	assert_int_equal(round_up_power_of_two(0), 1);
	assert_int_equal(round_up_power_of_two(3), 4);
	assert_int_equal(round_up_power_of_two(4), 4);
	assert_false(is_power_of_two(0));
	assert_true(is_power_of_two(1ull << 63));
}

static void a_buffer_grows_by_powers_of_two_up_to_its_limit(void **state)
{
	uint8_t *data = NULL, *before;
	size_t room = 0;

	assert_int_equal(buffer_reserve(&data, &room, 0, 0), 0);
	assert_null(data);
	assert_int_equal(buffer_reserve(&data, &room, 5, 100), 0);
	assert_int_equal(room, 8);
	memcpy(data, "12345", 5);
	assert_int_equal(buffer_reserve(&data, &room, 65, 100), 0);
	assert_int_equal(room, 100); /* not 128 */
	assert_memory_equal(data, "12345", 5);
	before = data;
	assert_int_equal(buffer_reserve(&data, &room, 100, SIZE_MAX), 0);
	assert_ptr_equal(data, before);
	assert_int_equal(room, 100);
	free(data);
}

static void all_zero_checks_each_byte(void **state)
{
	uint8_t data[65] = { 0 };

	assert_true(is_all_zero(NULL, 0));
	for (size_t bytes = 1; bytes < sizeof(data); bytes++) {
		data[bytes] = 1; /* the first byte after it */
		assert_true(is_all_zero(data, bytes));
		data[bytes] = 0;
		for (size_t i = 0; i < bytes; i++) {
			data[i] = 0x80;
			assert_false(is_all_zero(data, bytes));
			data[i] = 0;
		}
	}
	memset(data, 7, sizeof(data));
	assert_false(is_all_zero(data, sizeof(data)));
}

static void hook(const char *condition, const char *file, int line)
{
	_exit(strcmp(condition, "1 == 2") == 0 ? 42 : 1);
}

static void a_failed_must_calls_the_hook_and_aborts(void **state)
{
	for (int with_hook = 0; with_hook < 2; with_hook++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			close(STDERR_FILENO);
			if (with_hook)
				must_set_hook(hook);
			must(1 == 2);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (with_hook)
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
		else
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mask_and_a_list_name_the_same_cpus),
		cmocka_unit_test(the_last_cpu_fits_and_the_next_does_not),
		cmocka_unit_test(an_invalid_cpu_set_is_refused_and_changes_nothing),
		cmocka_unit_test(a_cpu_set_is_printed_as_its_mask),
		cmocka_unit_test(sizes_are_powers_of_1024),
		cmocka_unit_test(a_switch_is_on_or_true),
		cmocka_unit_test(durations_have_units_and_default_to_seconds),
		cmocka_unit_test(numbers_are_printed_in_both_bases),
		cmocka_unit_test(invalid_numbers_are_refused_and_change_nothing),
		cmocka_unit_test(overlong_and_invalid_utf8_is_refused),
		cmocka_unit_test(json_strings_have_escapes),
		cmocka_unit_test(invalid_utf8_is_copied_as_question_marks),
		cmocka_unit_test(a_long_copy_is_cut_and_has_its_nul),
		cmocka_unit_test(a_long_text_is_cut_between_words),
		cmocka_unit_test(a_fault_has_its_values_in_its_text_and_returns_its_error),
		cmocka_unit_test(log_levels_have_the_names_used_by_rpc),
		cmocka_unit_test(ticks_are_even_and_convert_both_ways),
		cmocka_unit_test(the_same_seed_gives_the_same_sequence),
		cmocka_unit_test(numbers_round_up),
		cmocka_unit_test(a_buffer_grows_by_powers_of_two_up_to_its_limit),
		cmocka_unit_test(all_zero_checks_each_byte),
		cmocka_unit_test(a_failed_must_calls_the_hook_and_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
