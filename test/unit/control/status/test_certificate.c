/* SPDX-License-Identifier: BSD-2-Clause */
/* When the end of a certificate is reported, as time goes by. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/status/certificate.h"

enum { DAY = 86400 };
#define END 2000000000ll

static void a_stage_begins_with_so_many_days_left(void **state)
{
	static const struct {
		int64_t left_s;
		int stage;
	} rows[] = {
		{ 30ll * DAY + 1, CERTIFICATE_NOT_NEAR },
		{ 30ll * DAY, 30 },
		{ 7ll * DAY + 1, 30 },
		{ 7ll * DAY, 7 },
		{ DAY + 1, 7 },
		{ DAY, 1 },
		{ 1, 1 },
		{ 0, CERTIFICATE_OVER },
		{ -5ll * DAY, CERTIFICATE_OVER },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		assert_int_equal(certificate_stage(END - rows[i].left_s, END), rows[i].stage);
	assert_int_equal(certificate_stage(END, INT64_MAX), CERTIFICATE_NOT_NEAR);
}

/* Hour by hour: each stage is reported once. */
static void each_stage_is_reported_once(void **state)
{
	static const int expected[] = { 30, 7, 1, CERTIFICATE_OVER };
	int told = CERTIFICATE_NOT_NEAR;
	size_t count = 0;

	for (int64_t now = END - 60ll * DAY; now < END + 3ll * DAY; now += 3600) {
		int stage = certificate_step(&told, now, END);

		if (stage == CERTIFICATE_NOT_NEAR)
			continue;
		assert_true(count < ARRAY_COUNT(expected));
		assert_int_equal(stage, expected[count++]);
	}
	assert_int_equal(count, ARRAY_COUNT(expected));
}

static void one_that_was_replaced_begins_anew(void **state)
{
	int told = CERTIFICATE_NOT_NEAR;

	assert_int_equal(certificate_step(&told, END - DAY, END), 1);
	assert_int_equal(certificate_step(&told, END - DAY + 60, END + 300ll * DAY), CERTIFICATE_NOT_NEAR);
	assert_int_equal(certificate_step(&told, END + 295ll * DAY, END + 300ll * DAY), 7);
	/* a server that slept for long says the latest only */
	told = CERTIFICATE_NOT_NEAR;
	assert_int_equal(certificate_step(&told, END + DAY, END), CERTIFICATE_OVER);
	assert_int_equal(certificate_step(&told, END + 2 * DAY, END), CERTIFICATE_NOT_NEAR);
	/* a clock that is set back tells nothing twice before it is there again */
	assert_int_equal(certificate_step(&told, END - DAY, END), CERTIFICATE_NOT_NEAR);
	assert_int_equal(certificate_step(&told, END + 1, END), CERTIFICATE_OVER);
}

static void dates_are_days(void **state)
{
	char date[CERTIFICATE_DATE_BYTES];

	assert_string_equal(certificate_date(END, date), "2033-05-18");
	assert_string_equal(certificate_date(INT64_MAX, date), "?");
}

/* Each message about a file becomes the fault of that file. */
static void what_is_wrong_with_a_file_is_a_fault(void **state)
{
	const struct grpc_tls_options options = { .ca = "/c/ca", .certificate = "/c/ca.own", .key = "/c/key" };
	static const struct {
		int error;
		const char *said;
		int code;
	} rows[] = {
		{ -ENOENT, "/c/ca: No such file", FAULT_CERTIFICATE_MISSING },
		{ -EACCES, "/c/ca.own: Permission denied", FAULT_CERTIFICATE_UNREADABLE },
		{ -EKEYREJECTED, "/c/key: everybody may read it", FAULT_KEY_EXPOSED },
		{ -EINVAL, "/c/key: is no key", FAULT_CERTIFICATE_INVALID },
		{ -ENOMEM, "out of memory for TLS", 0 },
	};
	struct fathom_fault denied = { .error = -EACCES, .text = "/c/key: Permission denied" }, why = { 0 };

	assert_int_equal(fault_from_tls(&options, -EACCES, &denied, &why), -EACCES);
	assert_int_equal(why.code, FAULT_CERTIFICATE_UNREADABLE);
	assert_non_null(strstr(why.text, "/c/key"));
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct fathom_fault said = { 0 };

		why = (struct fathom_fault){ 0 };
		fill_fault(&said, rows[i].error, "%s", rows[i].said);
		assert_true(fault_from_tls(&options, rows[i].error, &said, &why) < 0);
		assert_int_equal(why.code, rows[i].code);
		if (!rows[i].code)
			assert_string_equal(why.text, rows[i].said);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stage_begins_with_so_many_days_left), cmocka_unit_test(each_stage_is_reported_once),
		cmocka_unit_test(one_that_was_replaced_begins_anew),	 cmocka_unit_test(dates_are_days),
		cmocka_unit_test(what_is_wrong_with_a_file_is_a_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
