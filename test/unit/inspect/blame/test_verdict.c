/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows, the main cause, and how sure it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/blame/blame.h"

enum { REQUESTS = 20 };

static struct reader_exemplar exemplars[REQUESTS];
static struct blame_request rows[REQUESTS];
static const struct blame_request *requests[REQUESTS];
static uint32_t count;
static struct blame_coverage coverage;
static struct blame_verdict verdict;

static int setup(void **state)
{
	memset(rows, 0, sizeof(rows));
	memset(exemplars, 0, sizeof(exemplars));
	memset(&coverage, 0, sizeof(coverage));
	count = 0;
	return 0;
}

static void add(uint64_t disk, uint64_t host, uint64_t unknown, bool whole)
{
	struct blame_request *row = &rows[count];

	exemplars[count].stories[0].begin_tick = 5000;
	*row = (struct blame_request){ .exemplar = &exemplars[count], .whole = whole };
	row->split.ticks[BLAME_DISK] = disk;
	row->split.ticks[BLAME_HOST] = host;
	row->split.ticks[BLAME_UNKNOWN] = unknown;
	row->split.whole = disk + host + unknown;
	row->cause = disk >= host && disk >= unknown ? BLAME_DISK : host >= unknown ? BLAME_HOST : BLAME_UNKNOWN;
	requests[count++] = row;
	coverage.found = count;
}

static void judge(void)
{
	blame_verdict(requests, count, &coverage, &verdict);
}

static void rows_sum_up_the_requests(void **state)
{
	add(100, 0, 0, true);
	add(300, 50, 0, true);
	add(200, 10, 0, true); /* less than a tenth of it */
	judge();
	assert_int_equal(verdict.whole, 660);
	assert_int_equal(verdict.cause, BLAME_DISK);
	assert_int_equal(verdict.rows[BLAME_DISK].count, 3);
	assert_int_equal(verdict.rows[BLAME_DISK].main_count, 3);
	assert_int_equal(verdict.rows[BLAME_DISK].ticks, 600);
	assert_int_equal(verdict.rows[BLAME_DISK].p50, 200);
	assert_int_equal(verdict.rows[BLAME_DISK].max, 300);
	assert_int_equal(verdict.rows[BLAME_DISK].example, 1);
	assert_int_equal(verdict.rows[BLAME_HOST].count, 1);
	assert_int_equal(verdict.rows[BLAME_HOST].ticks, 60);
	assert_int_equal(verdict.rows[BLAME_HOST].example, 1);
	assert_int_equal(verdict.rows[BLAME_CPU].example, UINT32_MAX);
	assert_int_equal(verdict.confidence, BLAME_HIGH);
	assert_string_equal(verdict.reason, "3 of 3 requests are kept whole");
}

static void requests_that_are_not_whole_lower_the_confidence(void **state)
{
	for (int i = 0; i < 10; i++)
		add(100, 0, 0, i > 0);
	judge();
	assert_int_equal(verdict.confidence, BLAME_HIGH);
	for (int i = 0; i < 5; i++)
		add(100, 0, 0, false);
	judge();
	assert_int_equal(verdict.confidence, BLAME_MEDIUM);
	assert_string_equal(verdict.reason, "9 of 15 requests are kept whole");
	for (int i = 0; i < 5; i++)
		add(100, 0, 0, false);
	judge();
	assert_int_equal(verdict.confidence, BLAME_LOW);
}

static void unexplained_time_lowers_the_confidence(void **state)
{
	for (int i = 0; i < 4; i++)
		add(80, 0, 20, true);
	judge();
	assert_int_equal(verdict.confidence, BLAME_MEDIUM);
	assert_string_equal(verdict.reason, "the file does not explain 20 % of the time");
	for (int i = 0; i < 10; i++)
		add(40, 0, 60, true);
	judge();
	assert_int_equal(verdict.cause, BLAME_DISK);
	assert_int_equal(verdict.confidence, BLAME_LOW);
	for (int i = 0; i < 4; i++)
		add(0, 0, 100, true);
	judge();
	assert_int_equal(verdict.cause, BLAME_UNKNOWN);
	assert_int_equal(verdict.confidence, BLAME_LOW);
}

static void few_requests_and_mixed_causes_lower_the_confidence(void **state)
{
	add(100, 0, 0, true);
	judge();
	assert_int_equal(verdict.confidence, BLAME_MEDIUM);
	assert_string_equal(verdict.reason, "there is only one request");
	for (int i = 0; i < 5; i++)
		add(0, 20, 0, true);
	rows[0].split.ticks[BLAME_CPU] = 90;
	rows[0].split.whole += 90;
	judge();
	assert_int_equal(verdict.confidence, BLAME_MEDIUM);
	assert_string_equal(verdict.reason, "no cause has half of the time");
}

static void lost_history_lowers_the_confidence(void **state)
{
	for (int i = 0; i < 5; i++)
		add(100, 0, 0, true);
	coverage.holds_from = 5000;
	judge();
	assert_int_equal(verdict.confidence, BLAME_HIGH);
	coverage.holds_from = 5001;
	judge();
	assert_int_equal(verdict.confidence, BLAME_MEDIUM);
	coverage.holds_from = 0;
	coverage.counted = 11;
	judge();
	assert_int_equal(verdict.confidence, BLAME_MEDIUM);
	assert_string_equal(verdict.reason, "5 of the 11 slow requests since the start are still in the file");
	coverage.counted = 9;
	judge();
	assert_int_equal(verdict.confidence, BLAME_HIGH);
}

static void no_request_has_no_cause_to_blame(void **state)
{
	judge();
	assert_int_equal(verdict.whole, 0);
	assert_string_equal(verdict.reason, "");
	for (enum blame_cause cause = 0; cause < BLAME_CAUSES; cause++)
		assert_int_equal(verdict.rows[cause].example, UINT32_MAX);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		CASE(rows_sum_up_the_requests),
		CASE(requests_that_are_not_whole_lower_the_confidence),
		CASE(unexplained_time_lowers_the_confidence),
		CASE(few_requests_and_mixed_causes_lower_the_confidence),
		CASE(lost_history_lowers_the_confidence),
		CASE(no_request_has_no_cause_to_blame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
