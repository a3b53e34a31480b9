/* SPDX-License-Identifier: BSD-2-Clause */
/* Each call to the operating system fails once: the instance says so, holds nothing, and does it right the next time. */
#include "instance_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "failing.h"

static struct rig_asked asked, other;

/* Up, or down with a fault that says what to do. */
static bool settled(void)
{
	enum instance_state state = rig_look()->state;

	return state == INSTANCE_JOINED || state == INSTANCE_ERRORED || state == INSTANCE_AWAIT_FORMAT;
}

static void settle(void)
{
	rig_answered(&asked);
	while (!settled())
		usleep(500);
	if (rig.info.state == INSTANCE_JOINED)
		return;
	assert_true(rig.info.why.code != 0 && rig.info.why.resolution[0] != '\0');
	assert_int_equal(rig.info.pid, 0);
}

/* It was formatted: it comes up, if not by itself, when it is started. The one call has failed by then. */
static void settle_up(const struct failing *failing)
{
	while (!settled())
		usleep(500);
	if (rig.info.state == INSTANCE_JOINED)
		return;
	assert_true(failing->failed);
	rig_start_it(&asked);
	rig_done(&asked);
}

static void formatting_and_starting(int error)
{
	struct failing failing;
	unsigned int rounds = 0, failed = 0;

	for (failing_begin(&failing, provider_system(), error); failing_goes_on(&failing); rounds++) {
		rig_begin();
		rig.options.os = &failing.provider;
		rig.options.stop_timeout_ns = 200 * NS_PER_MS; /* of a signal that fails */
		rig_create();
		rig_format_it(&asked, false, false);
		settle();
		failed += rig.info.state != INSTANCE_JOINED;
		rig_stop_it(&asked, false);
		rig_answered(&asked);
		rig_stop_it(&asked, true);
		rig_done(&asked);
		rig_format_it(&asked, true, false);
		settle();
		if (rig.info.state != INSTANCE_JOINED) { /* now the one call has failed: all is well */
			assert_true(failing.failed);
			rig_format_it(&asked, true, false);
			rig_done(&asked);
		}
		rig_until(INSTANCE_JOINED);
		assert_int_equal(rig_told("TWICE"), 0);
		rig_stop_it(&asked, false);
		rig_done(&asked);
		rig_end();
	}
	assert_true(rounds > 5 && failed > 2);
}

static void each_failing_call_is_told(void **state)
{
	formatting_and_starting(-EIO);
	formatting_and_starting(-ENOSPC);
	formatting_and_starting(-EMFILE);
}

/* ---- one that runs ---- */

static bool rests(void)
{
	enum instance_state state = rig_look()->state;

	return state == INSTANCE_STOPPED || state == INSTANCE_ERRORED || state == INSTANCE_AWAIT_FORMAT;
}

/*
 * An engine that serves, a new server, a call that fails while it is found, stopped and erased. It is never joined by a
 * second one, and each answer is true: an engine that is reported stopped has no process.
 */
static void finding_stopping_and_erasing(int error)
{
	struct failing failing;
	unsigned int rounds = 0, failed = 0;

	for (failing_begin(&failing, provider_system(), error); failing_goes_on(&failing); rounds++) {
		pid_t pid;

		rig_begin();
		rig.options.stop_timeout_ns = 200 * NS_PER_MS;
		rig_bring_up();
		pid = rig_look()->pid;
		rig_destroy();
		rig.options.os = &failing.provider;
		rig_create();
		rig_start_it(&asked);
		rig_answered(&asked);
		failed += asked.failed;
		rig_stop_it(&asked, false);
		rig_answered(&asked);
		if (!asked.failed) {
			assert_true(rests());
			assert_int_equal(rig.info.pid, 0);
			assert_true(kill(pid, 0) != 0);
		}
		failed += asked.failed;
		rig_stop_it(&asked, true); /* the second time it goes, whatever was in the way */
		rig_done(&asked);
		assert_true(kill(pid, 0) != 0);
		rig_erase_it(&asked);
		rig_answered(&asked);
		failed += asked.failed;
		if (asked.failed) {
			assert_true(asked.why.resolution[0] != '\0' && rests());
			rig_erase_it(&asked);
			rig_done(&asked);
		}
		assert_int_equal(rig_look()->state, INSTANCE_AWAIT_FORMAT);
		rig_format_it(&asked, false, false);
		rig_answered(&asked);
		if (asked.failed || rig_look()->state == INSTANCE_ERRORED) {
			assert_true(failing.failed);
			rig_format_it(&asked, true, false);
			rig_done(&asked);
		}
		settle_up(&failing);
		rig_stop_it(&asked, false);
		rig_answered(&asked);
		rig_stop_it(&asked, true);
		rig_done(&asked);
		rig_end();
	}
	print_message("# %u calls, %u failures were reported\n", rounds - 1, failed);
	assert_true(rounds > 15 && failed > 2);
}

static void one_that_runs_is_not_lost(void **state)
{
	finding_stopping_and_erasing(-EIO);
	finding_stopping_and_erasing(-EMFILE);
}

/* ---- one that does not die ---- */

static bool is_deaf;

static int signal_the_deaf(struct provider *self, int pid_fd, int signal)
{
	return is_deaf ? 0 : provider_system()->calls->signal_process(provider_system(), pid_fd, signal);
}

static void one_that_does_not_die_is_told(void **state)
{
	static struct provider_calls calls;
	static struct provider deaf = { .calls = &calls };
	pid_t pid;

	calls = *provider_system()->calls;
	calls.signal_process = signal_the_deaf;
	is_deaf = true;
	rig_begin();
	rig.options.os = &deaf;
	rig.options.stop_timeout_ns = 50 * NS_PER_MS;
	rig_bring_up();
	pid = rig_look()->pid;
	rig_stop_it(&asked, false);
	rig_fails(&asked, 669);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPING);
	assert_int_equal(rig.info.why.code, 669);
	assert_int_equal(rig.info.pid, pid);
	rig_stop_it(&asked, true); /* who asks later is answered, too */
	rig_fails(&asked, 669);
	rig_start_it(&asked);
	rig_fails(&asked, 669);
	is_deaf = false;
	rig_stop_it(&asked, false);
	rig_done(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED);
	assert_int_equal(rig.info.why.error, 0);
	is_deaf = true;
	rig_manner("refuse-setup"); /* it is given up */
	rig_start_it(&asked);
	rig_fails(&asked, 669);
	rig_stop_it(&asked, false);
	rig_fails(&asked, 669);
	rig_manner("");
	is_deaf = false;
	rig_stop_it(&asked, false);
	rig_done(&asked);
	assert_int_equal(rig_look()->pid, 0);
	rig_end();
}

static void what_cannot_be_used_is_a_fault(void **state)
{
	FILE *file;

	rig_begin();
	must(rmdir(rig.storage) == 0);
	file = fopen(rig.storage, "w"); /* where its folder should be */
	must(file && fclose(file) == 0);
	rig_create();
	rig_start_it(&asked);
	rig_fails(&asked, 670);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 670);
	must(unlink(rig.storage) == 0 && mkdir(rig.storage, 0700) == 0);
	rig_format_it(&asked, false, false);
	rig_format_it(&other, false, false); /* while it is */
	rig_fails(&other, 667);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_stop_it(&asked, false);
	rig_done(&asked);
	rig_end();
}

static void half_options_are_refused(void **state)
{
	struct instance_options options;
	struct fathom_fault why;

	rig_begin();
	options = rig.options;
	assert_int_equal(rig_refuses(&options, &why), 0);
	options.port = 0;
	assert_int_equal(rig_refuses(&options, &why), -EINVAL);
	options = rig.options;
	options.mount = NULL;
	assert_int_equal(rig_refuses(&options, &why), -EINVAL);
	options = rig.options;
	options.storage = INSTANCE_STORAGE_DEVICE;
	assert_int_equal(rig_refuses(&options, &why), -EINVAL);
	options = rig.options;
	options.system = "a system whose name is longer than what a superblock of ours has room for";
	assert_int_equal(rig_refuses(&options, &why), -ENAMETOOLONG);
	assert_true(why.text[0] != '\0');
	rig_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_failing_call_is_told),	 cmocka_unit_test(one_that_runs_is_not_lost),
		cmocka_unit_test(one_that_does_not_die_is_told), cmocka_unit_test(what_cannot_be_used_is_a_fault),
		cmocka_unit_test(half_options_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
