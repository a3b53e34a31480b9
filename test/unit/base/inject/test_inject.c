/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of fault injection: what a point does, how often, and how a wait ends. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/log.h"

static int clear_all(void **state)
{
	inject_set_hook(NULL);
	inject_clear_all();
	return 0;
}

static struct inject_status read_status(enum inject_point point)
{
	struct inject_status status;

	inject_read(point, &status);
	return status;
}

static void arm(const char *text)
{
	struct fathom_fault why = { 0 };

	if (inject_arm_text(text, &why) != 0)
		fail_msg("%s", why.text);
}

static void assert_bad(const char *text, const char *expected)
{
	struct fathom_fault why = { 0 };

	assert_true(inject_arm_text(text, &why) < 0);
	if (!strstr(why.text, expected))
		fail_msg("%s: \"%s\" does not have \"%s\"", text, why.text, expected);
	assert_true(inject_check_text(text, NULL) < 0);
}

static void a_point_without_a_rule_does_nothing_and_counts(void **state)
{
	uint64_t before = read_status(INJECT_DB_WRITE).passed;

	assert_int_equal(inject(INJECT_DB_WRITE), 0);
	assert_int_equal(inject(INJECT_DB_WRITE), 0);
	assert_int_equal(read_status(INJECT_DB_WRITE).passed, before + 2);
	assert_int_equal(read_status(INJECT_DB_WRITE).fired, 0);
	assert_false(read_status(INJECT_DB_WRITE).is_armed);
}

static void fail_returns_the_error_of_the_rule_or_of_the_row(void **state)
{
	arm("db_write=fail");
	assert_int_equal(inject(INJECT_DB_WRITE), -EIO);
	arm("db_write=fail:ENOSPC");
	assert_int_equal(inject(INJECT_DB_WRITE), -ENOSPC);
	arm("db_write=fail:5");
	assert_int_equal(inject(INJECT_DB_WRITE), -EIO);
	assert_int_equal(inject(INJECT_DB_READ), 0); /* another point */
}

static void skip_and_count_limit_a_rule(void **state)
{
	struct inject_status status;
	char text[INJECT_RULE_BYTES];

	arm("spool_write=fail,skip=2,count=3");
	status = read_status(INJECT_SPOOL_WRITE);
	assert_string_equal(inject_rule_text(&status.rule, text), "fail:ENOSPC,skip=2,count=3");
	for (int i = 0; i < 2; i++)
		assert_int_equal(inject(INJECT_SPOOL_WRITE), 0);
	for (int i = 0; i < 3; i++) {
		assert_true(read_status(INJECT_SPOOL_WRITE).is_armed);
		assert_int_equal(inject(INJECT_SPOOL_WRITE), -ENOSPC);
	}
	assert_false(read_status(INJECT_SPOOL_WRITE).is_armed);
	assert_int_equal(inject(INJECT_SPOOL_WRITE), 0);
	assert_int_equal(read_status(INJECT_SPOOL_WRITE).fired, 3);
	assert_true(read_status(INJECT_SPOOL_WRITE).fired_ns >= read_status(INJECT_SPOOL_WRITE).armed_ns);
}

static void a_wrong_rule_is_explained(void **state)
{
	assert_bad("db_write", "write POINT=ACTION");
	assert_bad("db_wriet=fail", "there is no point \"db_wriet\"");
	assert_bad("db_write=explode", "none of fail, delay, crash and hang");
	assert_bad("db_write=fail:ENOTHING", "not the name of an errno");
	assert_bad("db_write=fail:0", "not the name of an errno");
	assert_bad("db_write=delay", "delay:TIME");
	assert_bad("db_write=delay:0", "from 1 ms to 60 s");
	assert_bad("db_write=delay:61s", "at most 60 s");
	assert_bad("db_write=crash:1", "takes no value");
	assert_bad("db_write=fail,count=x", "neither skip=N nor count=N");
	assert_bad("db_write=fail,", "neither skip=N nor count=N");
	assert_bad("db_write=hang", "cannot hang"); /* it runs on a reactor */
	assert_bad("volume_close=fail", "cannot fail");
	assert_false(read_status(INJECT_DB_WRITE).is_armed);
}

static void several_rules_stand_in_one_text(void **state)
{
	struct fathom_fault why = { 0 };

	assert_int_equal(inject_check_texts("db_write=fail db_read=nonsense", &why), -EINVAL);
	assert_int_equal(inject_arm_texts(" db_write=fail; join=fail:EBUSY,count=1  ", &why), 0);
	assert_int_equal(inject(INJECT_JOIN), -EBUSY);
	assert_int_equal(inject(INJECT_DB_WRITE), -EIO);
	assert_int_equal(inject_arm_texts("", &why), 0);
	inject_clear_all();
	assert_int_equal(inject(INJECT_DB_WRITE), 0);
}

/* ---- waits ---- */

static void *pass_state_write(void *ctx)
{
	*(int *)ctx = inject(INJECT_STATE_WRITE);
	return NULL;
}

static void wait_held(uint32_t count)
{
	uint64_t end = clock_monotonic_ns() + 60 * NS_PER_SEC;

	while (read_status(INJECT_STATE_WRITE).held != count) {
		assert_true(clock_monotonic_ns() < end);
		usleep(1000);
	}
}

static void a_hang_ends_when_its_rule_is_cleared(void **state)
{
	pthread_t threads[2];
	int results[2] = { 1, 1 };

	arm("state_write=hang,count=2");
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pass_state_write, &results[i]), 0);
	wait_held(2);
	assert_false(read_status(INJECT_STATE_WRITE).is_armed); /* used up, but the threads wait on */
	assert_int_equal(inject(INJECT_STATE_WRITE), 0);
	inject_clear(INJECT_STATE_WRITE);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(results[i], 0);
	}
	assert_int_equal(read_status(INJECT_STATE_WRITE).held, 0);
}

static void a_new_rule_ends_the_waits_of_the_former_one(void **state)
{
	pthread_t thread;
	int result = 1;

	arm("state_write=delay:60s");
	assert_int_equal(pthread_create(&thread, NULL, pass_state_write, &result), 0);
	wait_held(1);
	arm("state_write=fail");
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(result, 0);
}

static void a_delay_takes_its_time(void **state)
{
	uint64_t began = clock_monotonic_ns();

	arm("db_read=delay:20ms,count=1");
	assert_int_equal(inject(INJECT_DB_READ), 0);
	assert_true(clock_monotonic_ns() - began >= 20 * NS_PER_MS);
}

static void crash_aborts(void **state)
{
	int status = 0;
	pid_t child;

	arm("db_read=crash");
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		signal(SIGABRT, SIG_DFL);
		_exit(inject(INJECT_DB_READ));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* ---- the table ---- */

static void *pass_point(void *ctx)
{
	(void)!inject_pass(*(enum inject_point *)ctx);
	return NULL;
}

static void assert_hangs(enum inject_point point)
{
	uint64_t end = clock_monotonic_ns() + 60 * NS_PER_SEC;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, pass_point, &point), 0);
	while (read_status(point).held == 0) {
		assert_true(clock_monotonic_ns() < end);
		usleep(1000);
	}
	inject_clear(point);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void assert_crashes(enum inject_point point)
{
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		signal(SIGABRT, SIG_DFL);
		_exit(inject_pass(point));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	inject_clear(point);
}

/* Every action that a row allows has its effect there, and no other can be armed. */
static void each_point_has_each_of_its_actions(void **state)
{
	for (unsigned int i = 0; i < INJECT_POINTS; i++) {
		enum inject_point point = (enum inject_point)i;
		struct inject_status status = read_status(point);

		for (unsigned int action = 0; action < INJECT_ACTIONS; action++) {
			const struct inject_rule rule = { .action = (enum inject_action)action,
							  .delay_ms = action == INJECT_DELAY };
			uint64_t fired = read_status(point).fired;
			int error = inject_arm(point, &rule, NULL);

			if (!(status.may & (1u << action))) {
				assert_int_equal(error, -EINVAL);
				continue;
			}
			assert_int_equal(error, 0);
			if (action == INJECT_HANG) {
				assert_hangs(point);
			} else if (action == INJECT_CRASH) {
				assert_crashes(point);
				continue; /* it was the child's */
			} else {
				int got = inject_pass(point);

				assert_true(action == INJECT_FAIL ? got < 0 : got == 0);
			}
			assert_int_equal(read_status(point).fired, fired + 1);
			inject_clear(point);
		}
	}
}

/* ---- the hook ---- */

static struct {
	int calls;
	uint64_t fired;
	int error;
	char name[64];
} hooked;

static void on_fired(const struct inject_status *point, const struct inject_rule *rule)
{
	hooked.calls++;
	hooked.fired = point->fired;
	hooked.error = rule->error;
	strncpy(hooked.name, point->name, sizeof(hooked.name) - 1);
}

static void the_hook_gets_each_effect(void **state)
{
	uint64_t before = read_status(INJECT_HELPER_CALL).fired;

	inject_set_hook(on_fired);
	arm("helper_call=fail,skip=1,count=1");
	for (int i = 0; i < 3; i++)
		(void)!inject_pass(INJECT_HELPER_CALL); /* the second one fails */
	assert_int_equal(hooked.calls, 1);
	assert_int_equal(hooked.fired, before + 1);
	assert_int_equal(hooked.error, -EIO);
	assert_string_equal(hooked.name, "helper_call");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_point_without_a_rule_does_nothing_and_counts),
		cmocka_unit_test_teardown(fail_returns_the_error_of_the_rule_or_of_the_row, clear_all),
		cmocka_unit_test_teardown(skip_and_count_limit_a_rule, clear_all),
		cmocka_unit_test_teardown(a_wrong_rule_is_explained, clear_all),
		cmocka_unit_test_teardown(several_rules_stand_in_one_text, clear_all),
		cmocka_unit_test_teardown(a_hang_ends_when_its_rule_is_cleared, clear_all),
		cmocka_unit_test_teardown(a_new_rule_ends_the_waits_of_the_former_one, clear_all),
		cmocka_unit_test_teardown(a_delay_takes_its_time, clear_all),
		cmocka_unit_test_teardown(crash_aborts, clear_all),
		cmocka_unit_test_teardown(each_point_has_each_of_its_actions, clear_all),
		cmocka_unit_test_teardown(the_hook_gets_each_effect, clear_all),
	};

	if (!inject_is_built()) {
		puts("1..0 # SKIP a build without fault injection");
		return 0;
	}
	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
