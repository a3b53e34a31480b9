/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests about pools and volumes: each ends with the engine's answer or one fault, whatever the engine does. */
#include "instance_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"

#include "../../control_thread.h"

static struct rig_storage calls[INSTANCE_STORAGE_CALLS_MAX + 4];
static struct rig_asked asked;

static void wait_until_hung(bool is_hung)
{
	uint64_t until = clock_monotonic_ns() + 60 * NS_PER_SEC;

	while (rig_look()->is_hung != is_hung) {
		assert_true(clock_monotonic_ns() < until);
		usleep(1000);
	}
}

static void end_calls(void *unused)
{
	struct fathom_fault why;

	fill_fault_not_started(&why);
	instance_end_storage_calls(rig.instance, &why);
}

static void the_engines_answer_comes_back(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_storage_it(&calls[0], 3);
	rig_done(&calls[0].asked);
	assert_int_equal(calls[0].error, 0);
	assert_int_equal(calls[0].total_bytes, 77);
	assert_string_equal(calls[0].address, "p1");
	rig_storage_it(&calls[0], 4); /* an error of the engine is its answer */
	rig_done(&calls[0].asked);
	assert_int_equal(calls[0].error, -1);
	assert_int_equal(rig_received("STORAGE 1"), 2);
	rig_stop();
	rig_end();
}

static void an_engine_that_does_not_serve_is_not_asked(void **state)
{
	rig_begin();
	rig_create();
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 671);
	rig.join = RIG_HOLD;
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_READY);
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 677);
	assert_non_null(strstr(calls[0].asked.why.text, "READY"));
	rig_release_join(RIG_WELCOME);
	rig_until(INSTANCE_JOINED);
	rig.join = RIG_WELCOME;
	assert_int_equal(rig_received("STORAGE 1"), 0);
	rig_stop();
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 671);
	rig_end();
}

static void an_engine_that_is_stopping_is_not_asked(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_manner("slow-prepare");
	rig_stop_it(&asked, false);
	rig_until(INSTANCE_STOPPING);
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 677);
	rig_manner("");
	rig_kill(SIGKILL);
	rig_done(&asked);
	rig_end();
}

static void a_rejoining_engine_is_asked(void **state)
{
	rig_begin();
	rig_bring_up();
	rig.join = RIG_HOLD;
	rig_start_it(&asked);
	rig_until(INSTANCE_READY);
	rig_storage_it(&calls[0], 3);
	rig_done(&calls[0].asked);
	rig_release_join(RIG_WELCOME);
	rig_done(&asked);
	rig.join = RIG_WELCOME;
	rig_stop();
	rig_end();
}

static void an_engine_that_hangs_in_a_call_is_given_up(void **state)
{
	rig_begin();
	rig.options.storage_timeout_ns = 20 * NS_PER_MS;
	rig_bring_up();
	rig_manner("hang-storage");
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 697);
	assert_non_null(strstr(calls[0].asked.why.text, "a request about its storage"));
	rig_kill(SIGSTOP);
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 697);
	rig_kill(SIGCONT);
	rig_manner("");
	rig_stop();
	rig_end();
}

/* Its hosts may be served; a call that waits for its time-out would only hide the reason. */
static void an_engine_that_hangs_is_not_asked(void **state)
{
	rig_begin();
	rig.options.ping_interval_ns = 10 * NS_PER_MS;
	rig_bring_up();
	rig_kill(SIGSTOP);
	wait_until_hung(true);
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 674);
	rig_kill(SIGCONT);
	wait_until_hung(false);
	rig_storage_it(&calls[0], 3);
	rig_done(&calls[0].asked);
	rig_stop();
	rig_end();
}

/* With the time-out of 60 s: only the end of the process ends the calls. */
static void an_engine_that_dies_ends_its_calls(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_manner("hang-storage");
	for (size_t i = 0; i < INSTANCE_STORAGE_CALLS_MAX; i++)
		rig_storage_it(&calls[i], 3);
	rig_until_received("STORAGE 1", 32); /* the others wait for a connection */
	rig_kill(SIGKILL);
	for (size_t i = 0; i < INSTANCE_STORAGE_CALLS_MAX; i++) {
		rig_answered(&calls[i].asked);
		assert_true(calls[i].asked.failed);
		/* one that waited may be refused by the kernel, before the end of the process is handled */
		if (calls[i].asked.why.code != 659 && (i < 32 || calls[i].asked.why.code != 698))
			fail_msg("%zu: %d: %s", i, calls[i].asked.why.code, calls[i].asked.why.text);
	}
	rig_until_died(1);
	assert_int_equal(rig_received("STORAGE 1"), 32); /* none was sent to the next process */
	rig_end();
}

static void an_engine_that_dies_at_a_call_ends_it(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_manner("die-storage");
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 659);
	rig_until_died(1);
	rig_manner("");
	rig_start_it(&asked);
	rig_done(&asked);
	rig_storage_it(&calls[0], 3);
	rig_done(&calls[0].asked);
	rig_stop();
	rig_end();
}

static void more_calls_than_the_bound_are_refused(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_manner("hang-storage");
	for (size_t i = 0; i < ARRAY_COUNT(calls); i++)
		rig_storage_it(&calls[i], 3);
	for (size_t i = INSTANCE_STORAGE_CALLS_MAX; i < ARRAY_COUNT(calls); i++)
		rig_fails(&calls[i].asked, 678);
	rig_ping_it(&asked); /* other calls have connections of their own */
	rig_done(&asked);
	rig_run(end_calls, NULL); /* as the end of the server */
	for (size_t i = 0; i < INSTANCE_STORAGE_CALLS_MAX; i++)
		rig_fails(&calls[i].asked, 610);
	rig_manner("");
	rig_storage_it(&calls[0], 3);
	rig_done(&calls[0].asked);
	rig_stop();
	rig_end();
}

static void an_answer_that_is_none_is_a_fault(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_manner("no-storage old");
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 679);
	assert_non_null(strstr(calls[0].asked.why.text, "0.1.0"));
	rig_manner("fail-storage");
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 665);
	rig_manner("bad-storage");
	rig_storage_it(&calls[0], 3);
	rig_fails(&calls[0].asked, 665);
	rig_manner("");
	rig_stop();
	rig_end();
}

static void a_server_that_closes_answers_its_calls(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_manner("hang-storage");
	for (size_t i = 0; i < 40; i++)
		rig_storage_it(&calls[i], 3);
	rig_destroy(); /* asserts that no request is unanswered */
	for (size_t i = 0; i < 40; i++) {
		rig_answered(&calls[i].asked);
		assert_int_equal(calls[i].asked.why.error, -ECANCELED);
	}
	rig_manner("");
	rig_create();
	rig_start_it(&asked); /* it is adopted */
	rig_done(&asked);
	rig_storage_it(&calls[0], 3);
	rig_done(&calls[0].asked);
	rig_stop();
	rig_end();
}

static void an_engine_whose_storage_failed_is_errored_with_the_reason(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_stop();
	rig_manner("failed-storage");
	rig_start_it(&asked);
	rig_fails(&asked, 658);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_non_null(strstr(rig.info.why.text, "is FAILED"));
	assert_int_equal(rig_received("SET_UP 0"), 1); /* of the first start: it never served */
	rig_manner("");
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop();
	rig_end();
}

/* The answer to the join has requests: the engine gets them before SET_UP, and serves also if it refuses one. */
static void requests_of_the_join_come_before_the_setting_up(void **state)
{
	Store__StorageReq first = STORE__STORAGE_REQ__INIT, second = STORE__STORAGE_REQ__INIT;
	Store__StorageReq *const requests[] = { &first, &second };
	char text[512];
	FILE *file;
	size_t bytes;

	rig_begin();
	rig_bring_up();
	rig_stop();
	assert_int_equal(truncate(rig.received_path, 0), 0);
	first.rank = 9; /* of another engine: refused */
	first.action = STORE__ACTION__POOL_SET;
	second.rank = 3;
	second.action = STORE__ACTION__VOLUME_SET_THICK;
	rig.early = requests;
	rig.early_count = 2;
	rig_start_it(&asked);
	rig_done(&asked);
	file = fopen(rig.received_path, "r");
	assert_non_null(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	text[bytes] = '\0';
	fclose(file);
	assert_non_null(strstr(text, "SET_RANK 3\nSTORAGE 0\nSTORAGE 40\nSTORAGE 46\nSET_UP 0\n"));
	rig_stop();
	rig_manner("no-storage");
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop();
	rig_end();
}

/* Also one that does not know the call, or does not answer it well, is set up: its storage is not known to have failed. */
static void an_older_engine_is_set_up(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_stop();
	rig_manner("no-storage");
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop();
	rig_manner("bad-storage");
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop();
	rig_manner("");
	rig_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_engines_answer_comes_back),
		cmocka_unit_test(an_engine_that_does_not_serve_is_not_asked),
		cmocka_unit_test(an_engine_that_is_stopping_is_not_asked),
		cmocka_unit_test(a_rejoining_engine_is_asked),
		cmocka_unit_test(an_engine_that_hangs_in_a_call_is_given_up),
		cmocka_unit_test(an_engine_that_hangs_is_not_asked),
		cmocka_unit_test(an_engine_that_dies_ends_its_calls),
		cmocka_unit_test(an_engine_that_dies_at_a_call_ends_it),
		cmocka_unit_test(more_calls_than_the_bound_are_refused),
		cmocka_unit_test(an_answer_that_is_none_is_a_fault),
		cmocka_unit_test(a_server_that_closes_answers_its_calls),
		cmocka_unit_test(an_engine_whose_storage_failed_is_errored_with_the_reason),
		cmocka_unit_test(an_older_engine_is_set_up),
		cmocka_unit_test(requests_of_the_join_come_before_the_setting_up),
	};

	return cmocka_run_group_tests_name("instance storage_call", tests, NULL, NULL);
}
