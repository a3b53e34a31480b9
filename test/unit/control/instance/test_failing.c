/* SPDX-License-Identifier: BSD-2-Clause */
/* Each call to the operating system fails once. The instance reports it, leaks nothing, and succeeds the next time. */
#include "instance_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "failing.h"

static struct rig_asked asked, other;

/* No operation is under way: it serves, or it needs a request. */
static bool settled(void)
{
	enum instance_state state = rig_look()->state;

	return state == INSTANCE_JOINED || state == INSTANCE_ERRORED || state == INSTANCE_AWAIT_FORMAT;
}

/* Wait for the answer and the final state: JOINED, or without a process and with a fault that has a resolution. */
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

/* The storage is formatted. If the engine has not joined, the one call has failed, and a start must succeed. */
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
		rig.options.stop_timeout_ns = 200 * NS_PER_MS; /* waited in full if the signal fails */
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
		if (rig.info.state != INSTANCE_JOINED) { /* the one call has failed: now it must succeed */
			assert_true(failing.failed);
			rig_format_it(&asked, true, false);
			rig_done(&asked);
		}
		rig_until(INSTANCE_JOINED);
		assert_int_equal(rig_received("TWICE"), 0);
		rig_stop_it(&asked, false);
		rig_done(&asked);
		rig_end();
	}
	assert_true(rounds > 5 && failed > 2);
}

static void each_failing_call_is_reported(void **state)
{
	formatting_and_starting(-EIO);
	formatting_and_starting(-ENOSPC);
	formatting_and_starting(-EMFILE);
}

/* ---- a running engine ---- */

static bool rests(void)
{
	enum instance_state state = rig_look()->state;

	return state == INSTANCE_STOPPED || state == INSTANCE_ERRORED || state == INSTANCE_AWAIT_FORMAT;
}

/*
 * A new server adopts, stops and erases a serving engine, and one call fails. A second engine never runs beside the first,
 * and each answer is true: an engine that is reported stopped has no process.
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
		rig_stop_it(&asked, true); /* the second one succeeds, whichever call failed */
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

static void a_running_engine_is_not_lost_when_a_call_fails(void **state)
{
	finding_stopping_and_erasing(-EIO);
	finding_stopping_and_erasing(-EMFILE);
}

/* ---- an engine that cannot be killed ---- */

static bool signals_are_lost;

static int signal_unless_lost(struct provider *self, int pid_fd, int signal)
{
	return signals_are_lost ? 0 : provider_system()->calls->signal_process(provider_system(), pid_fd, signal);
}

static void an_unkillable_engine_is_reported(void **state)
{
	static struct provider_calls calls;
	static struct provider losing = { .calls = &calls };
	pid_t pid;

	calls = *provider_system()->calls;
	calls.signal_process = signal_unless_lost;
	signals_are_lost = true;
	rig_begin();
	rig.options.os = &losing;
	rig.options.stop_timeout_ns = 50 * NS_PER_MS;
	rig_bring_up();
	pid = rig_look()->pid;
	rig_stop_it(&asked, false);
	rig_fails(&asked, 669);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPING);
	assert_int_equal(rig.info.why.code, 669);
	assert_int_equal(rig.info.pid, pid);
	rig_stop_it(&asked, true); /* a later request gets the same answer */
	rig_fails(&asked, 669);
	rig_start_it(&asked);
	rig_fails(&asked, 669);
	signals_are_lost = false;
	rig_stop_it(&asked, false);
	rig_done(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED);
	assert_int_equal(rig.info.why.error, 0);
	signals_are_lost = true;
	rig_manner("refuse-setup"); /* the server kills it for this */
	rig_start_it(&asked);
	rig_fails(&asked, 669);
	rig_stop_it(&asked, false);
	rig_fails(&asked, 669);
	rig_manner("");
	signals_are_lost = false;
	rig_stop_it(&asked, false);
	rig_done(&asked);
	assert_int_equal(rig_look()->pid, 0);
	rig_end();
}

static void unusable_storage_is_a_fault(void **state)
{
	FILE *file;

	rig_begin();
	must(rmdir(rig.storage) == 0);
	file = fopen(rig.storage, "w"); /* a file in place of the folder */
	must(file && fclose(file) == 0);
	rig_create();
	rig_start_it(&asked);
	rig_fails(&asked, 670);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 670);
	must(unlink(rig.storage) == 0 && mkdir(rig.storage, 0700) == 0);
	rig_format_it(&asked, false, false);
	rig_format_it(&other, false, false); /* during the first one */
	rig_fails(&other, 667);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_stop_it(&asked, false);
	rig_done(&asked);
	rig_end();
}

static void incomplete_options_are_rejected(void **state)
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
		cmocka_unit_test(each_failing_call_is_reported),
		cmocka_unit_test(a_running_engine_is_not_lost_when_a_call_fails),
		cmocka_unit_test(an_unkillable_engine_is_reported),
		cmocka_unit_test(unusable_storage_is_a_fault),
		cmocka_unit_test(incomplete_options_are_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
