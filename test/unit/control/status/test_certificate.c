/* SPDX-License-Identifier: BSD-2-Clause */
/* When the expiry of a certificate is reported. */
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

static void the_stage_depends_on_the_time_left(void **state)
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

/* The check runs each hour. */
static void each_stage_is_reported_once(void **state)
{
	static const int expected[] = { 30, 7, 1, CERTIFICATE_OVER };
	int stage_reported = CERTIFICATE_NOT_NEAR;
	size_t count = 0;

	for (int64_t now = END - 60ll * DAY; now < END + 3ll * DAY; now += 3600) {
		int stage = certificate_step(&stage_reported, now, END);

		if (stage == CERTIFICATE_NOT_NEAR)
			continue;
		assert_true(count < ARRAY_COUNT(expected));
		assert_int_equal(stage, expected[count++]);
	}
	assert_int_equal(count, ARRAY_COUNT(expected));
}

static void a_replaced_certificate_starts_again(void **state)
{
	int stage_reported = CERTIFICATE_NOT_NEAR;

	assert_int_equal(certificate_step(&stage_reported, END - DAY, END), 1);
	assert_int_equal(certificate_step(&stage_reported, END - DAY + 60, END + 300ll * DAY), CERTIFICATE_NOT_NEAR);
	assert_int_equal(certificate_step(&stage_reported, END + 295ll * DAY, END + 300ll * DAY), 7);
	/* after a long pause the server reports only the latest stage */
	stage_reported = CERTIFICATE_NOT_NEAR;
	assert_int_equal(certificate_step(&stage_reported, END + DAY, END), CERTIFICATE_OVER);
	assert_int_equal(certificate_step(&stage_reported, END + 2 * DAY, END), CERTIFICATE_NOT_NEAR);
	/* after the clock was set back, no stage is reported again until the clock has caught up */
	assert_int_equal(certificate_step(&stage_reported, END - DAY, END), CERTIFICATE_NOT_NEAR);
	assert_int_equal(certificate_step(&stage_reported, END + 1, END), CERTIFICATE_OVER);
}

static void dates_are_printed_as_days(void **state)
{
	char date[CERTIFICATE_DATE_BYTES];

	assert_string_equal(certificate_date(END, date), "2033-05-18");
	assert_string_equal(certificate_date(INT64_MAX, date), "?");
}

static void an_error_of_a_tls_file_becomes_its_fault(void **state)
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
		cmocka_unit_test(the_stage_depends_on_the_time_left),	    cmocka_unit_test(each_stage_is_reported_once),
		cmocka_unit_test(a_replaced_certificate_starts_again),	    cmocka_unit_test(dates_are_printed_as_days),
		cmocka_unit_test(an_error_of_a_tls_file_becomes_its_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
