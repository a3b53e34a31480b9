/* SPDX-License-Identifier: BSD-2-Clause */
/* Each fault of the table is raised and printed, encoded as google.rpc.ErrorInfo, and decoded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"

static const char *print_with_prefix(const char *prefix, const struct fathom_fault *why)
{
	static char lines[FAULT_LINES_BYTES_MAX];
	struct fault_shown shown;

	fault_show(why, &shown);
	return fault_print(&shown, prefix, lines, sizeof(lines));
}

static const char *print(const struct fathom_fault *why)
{
	return print_with_prefix("", why);
}

/* Check one fault, and print it on the test's output. */
static void check_fault(int code, int error, const struct fathom_fault *why)
{
	struct fault_shown shown, back;
	struct fault_info info;
	struct fathom_fault again = { 0 };
	const char *lines = print_with_prefix("# ", why);
	char head[32];

	printf("%s", lines);
	assert_true(error < 0);
	assert_int_equal(why->error, error);
	assert_int_equal(why->code, code);
	assert_non_null(fault_name(code));
	snprintf(head, sizeof(head), ": code = %d ", code);
	assert_non_null(strstr(lines, head));
	assert_null(strstr(lines, "no known resolution"));
	assert_null(strchr(why->text, '{'));
	assert_null(strchr(why->resolution, '{'));
	assert_true(strlen(why->resolution) > 5);
	fault_show(why, &shown);
	fault_to_info(&shown, &info);
	assert_int_equal(fault_from_info(&info, &back), 0);
	assert_string_equal(back.domain, shown.domain);
	assert_string_equal(back.description, shown.description);
	assert_string_equal(back.resolution, shown.resolution);
	fault_from_shown(&back, &again);
	assert_int_equal(again.error, error);
	assert_int_equal(again.code, code);
	assert_string_equal(again.text, why->text);
	assert_string_equal(again.resolution, why->resolution);
}

static void each_fault_is_equal_after_encoding_and_decoding(void **state)
{
	struct fathom_fault why;
	int codes = 0, last = 0;

#define SAMPLE(number, call)                                                                                               \
	memset(&why, 0, sizeof(why));                                                                                      \
	check_fault(number, call, &why);                                                                                   \
	assert_true(number > last);                                                                                        \
	last = number;                                                                                                     \
	codes++;
#include "control/fault/faults_samples.gen.inc"
#undef SAMPLE
	assert_true(codes > 50);
}

static void printed_lines_equal_those_of_dmg(void **state)
{
	struct fathom_fault why = { 0 };

	assert_int_equal(fault_pool_label_taken(&why, "p1"), -EEXIST);
	assert_string_equal(print(&why),
			    "server: code = 609 description = \"pool label \\\"p1\\\" already exists in the system\"\n"
			    "server: code = 609 resolution = \"retry the request with a unique pool label\"\n");
	assert_int_equal(fault_pool_label_taken(NULL, "p1"), -EEXIST);
}

static void error_info_has_the_fields_that_dmg_reads(void **state)
{
	static const struct {
		const char *key, *value;
	} expected[] = {
		{ "Domain", "server" },
		{ "Code", "609" },
		{ "Description", "pool label \"p1\" already exists in the system" },
		{ "Reason", "" },
		{ "Resolution", "retry the request with a unique pool label" },
	};
	struct fathom_fault why = { 0 };
	struct fault_shown shown;
	struct fault_info info;
	char message[256];

	assert_int_equal(fault_pool_label_taken(&why, "p1"), -EEXIST);
	fault_show(&why, &shown);
	fault_to_info(&shown, &info);
	assert_string_equal(info.reason, "proto.fault.Fault");
	assert_string_equal(info.domain, "server");
	assert_int_equal(info.metadata_count, ARRAY_COUNT(expected));
	for (size_t i = 0; i < ARRAY_COUNT(expected); i++) {
		assert_string_equal(info.metadata[i].key, expected[i].key);
		assert_string_equal(info.metadata[i].value, expected[i].value);
	}
	assert_string_equal(fault_message(&shown, message, sizeof(message)),
			    "server: code = 609 description = \"pool label \\\"p1\\\" already exists in the system\"");
}

static void an_unknown_code_is_printed_with_the_senders_text(void **state)
{
	struct fault_info info = {
		"proto.fault.Fault", "a new: part", { { "Code", "4711" }, { "Description", "x\nis \xff off" } }, 2, ""
	};
	struct fault_shown shown;
	struct fathom_fault why;
	char lines[FAULT_LINES_BYTES_MAX];

	assert_int_equal(fault_from_info(&info, &shown), 0);
	assert_string_equal(fault_print(&shown, "ERROR: dmg: ", lines, sizeof(lines)),
			    "ERROR: dmg: anewpart: code = 4711 description = \"x\\nis ? off\"\n"
			    "ERROR: dmg: anewpart: code = 4711 resolution = \"no known resolution\"\n");
	fault_from_shown(&shown, &why);
	assert_int_equal(why.error, -EREMOTEIO);
	assert_int_equal(why.code, 4711);
	assert_null(fault_name(4711));
	info.reason = "proto.daos.DaosStatus";
	assert_int_equal(fault_from_info(&info, &shown), -ENOENT);
	info.reason = FAULT_INFO_REASON;
	info.metadata[0].value = "12x";
	assert_int_equal(fault_from_info(&info, &shown), -EBADMSG);
	info.metadata_count = 0;
	assert_int_equal(fault_from_info(&info, &shown), -EBADMSG);
}

static void a_fault_without_a_code_is_printed_as_its_text(void **state)
{
	struct fathom_fault why = { 0 };

	assert_int_equal(fault_no_hosts(&why), -EINVAL);
	assert_int_equal(fault(&why, -EIO, "the disk of \"%s\" is gone", "a"), -EIO);
	assert_int_equal(why.code, 0);
	assert_string_equal(print(&why), "the disk of \"a\" is gone\n");
	fault_resolve(&why, "buy another");
	assert_non_null(strstr(print(&why), "resolution = \"buy another\"\n"));
}

static void a_long_text_is_cut_between_characters(void **state)
{
	char longest[1024], small[40];
	struct fathom_fault why = { 0 };
	struct fault_shown shown;

	for (size_t i = 0; i < sizeof(longest) - 1; i++)
		longest[i] = (char)(i % 2 ? 0xa4 : 0xc3);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(fault_pool_label_taken(&why, longest), -EEXIST);
	assert_int_equal(strlen(why.text), sizeof(why.text) - 1);
	fault_show(&why, &shown);
	for (const char *at = shown.description; *at; at += text_utf8_length(at, strlen(at)))
		assert_true(text_utf8_length(at, strlen(at)) > 0);
	for (size_t bytes = 1; bytes <= sizeof(small); bytes++) {
		memset(small, 'x', sizeof(small));
		fault_print(&shown, "p: ", small, bytes);
		assert_non_null(memchr(small, '\0', bytes));
	}
	memset(longest, '"', sizeof(longest) - 1);
	assert_int_equal(fault_pool_label_taken(&why, longest), -EEXIST);
	assert_int_equal(print(&why)[strlen(print(&why)) - 1], '\n');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_is_equal_after_encoding_and_decoding),
		cmocka_unit_test(printed_lines_equal_those_of_dmg),
		cmocka_unit_test(error_info_has_the_fields_that_dmg_reads),
		cmocka_unit_test(an_unknown_code_is_printed_with_the_senders_text),
		cmocka_unit_test(a_fault_without_a_code_is_printed_as_its_text),
		cmocka_unit_test(a_long_text_is_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
