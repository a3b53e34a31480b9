/* SPDX-License-Identifier: BSD-2-Clause */
/* Each call to the operating system fails once: the instance says so, holds nothing, and does it right the next time. */
#include "instance_rig.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

static void formatting_and_starting(int error)
{
	struct failing failing;
	unsigned int rounds = 0, failed = 0;

	for (failing_begin(&failing, provider_system(), error); failing_goes_on(&failing); rounds++) {
		rig_begin();
		rig.options.os = &failing.provider;
		rig_create();
		rig_format_it(&asked, false, false);
		settle();
		failed += rig.info.state != INSTANCE_JOINED;
		rig_stop_it(&asked, false);
		rig_answered(&asked);
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
}

static void what_cannot_be_used_is_a_fault(void **state)
{
	FILE *file;

	rig_begin();
	file = fopen(rig.storage, "w"); /* where its folder should be */
	must(file && fclose(file) == 0);
	rig_create();
	rig_start_it(&asked);
	rig_fails(&asked, 670);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 670);
	must(unlink(rig.storage) == 0);
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
	struct fault why;

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
		cmocka_unit_test(each_failing_call_is_told),
		cmocka_unit_test(what_cannot_be_used_is_a_fault),
		cmocka_unit_test(half_options_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
