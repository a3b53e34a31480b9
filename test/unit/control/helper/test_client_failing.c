/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first, second, third ... external call fails, until a run meets no failure: a helper is started, gets a request and
 * is stopped. In each run the request must be answered once, with a reason if it failed, the next request must succeed, and
 * no child and no descriptor may be left.
 *
 * The linker redirects the calls to this file (meson.build). Requests end the program when out of memory, by contract.
 */
#include "fake_helper.h"
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/helper/client.h"

#include "../../failing_calls.h"

enum { TRIES_MAX = 200, PAUSE_US = 20000 };

static struct fathom_thread *home;
static char own_path[256];

/* ---- calls that fail ---- */

static struct failing_calls failing;

static bool fails(void)
{
	return home && thread_self() == home && failing_calls_next(&failing);
}

FAILING_CALL(socketpair)
FAILING_CALL(fcntl64)
FAILING_CALL(setsockopt)
FAILING_CALL(posix_spawn_file_actions_init)
FAILING_CALL(posix_spawnattr_init)
FAILING_CALL(posix_spawn)
FAILING_CALL(recv)
FAILING_CALL(send)
FAILING_CALL(fd_watch_add)

/* Only pidfd_open() is called this way. */
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (number == SYS_pidfd_open && fails()) {
		errno = EMFILE;
		return -1;
	}
	return __real_syscall(number, a, b, c, d, e, f);
}

/* ---- one run ---- */

static struct helper_client *client;
static _Atomic(uint64_t) answers;
static int error;
static char why_text[FAULT_TEXT_BYTES_MAX];

static void done(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	must(reply->error == why->error);
	error = reply->error;
	snprintf(why_text, sizeof(why_text), "%s", why->text);
	answers++;
}

static void create(void *fail_at)
{
	struct helper_client_options options = {
		.program = own_path,
		.config = "good",
		.grace_ns = 200 * NS_PER_MS,
		.start_ns = 500 * NS_PER_MS,
		.pause_min_ns = NS_PER_MS,
		.pause_max_ns = NS_PER_MS,
	};
	struct fathom_fault why;

	client = helper_client_create(&options, &why);
	must(client);
	failing.count = 0;
	failing.met = false;
	failing.fail_at = *(const uint32_t *)fail_at;
	failing.armed = true;
}

static void submit(void *ctx)
{
	struct helper_request request = { .operation = HELPER_CHECK_FORMAT, .timeout_ms = 500, .label = "x" };

	snprintf(request.device, sizeof(request.device), "/dev/loop1");
	helper_client_submit(client, &request, done, NULL);
}

static void stop_failing(void *unused)
{
	failing.armed = false;
}

static void destroy(void *unused)
{
	failing.armed = false;
	helper_client_destroy(client);
}

static void ask(void)
{
	uint64_t before = answers;

	rig_run_on(home, submit, NULL);
	rig_wait_u64(&answers, before + 1);
	assert_int_equal(answers, before + 1);
}

/* Return true if a call has failed. */
static bool run_with_failure(uint32_t fail_at)
{
	rig_run_on(home, create, &fail_at);
	ask();
	if (error)
		assert_true(failing.met && why_text[0] != '\0');
	rig_run_on(home, stop_failing, NULL);
	/* retry until the helper that the failure ended has gone and the retry delay is over */
	for (int tries = 0; tries == 0 || (error && tries < TRIES_MAX); tries++) {
		if (tries > 0)
			usleep(PAUSE_US);
		ask();
	}
	assert_int_equal(error, 0);
	rig_run_on(home, destroy, NULL);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
	assert_int_equal(errno, ECHILD);
	return failing.met;
}

static void after_a_failed_call_the_next_request_succeeds(void **state)
{
	uint32_t before, n;

	rig_start(1);
	home = thread_create("asker", rig_reactor(0));
	assert_false(run_with_failure(0));
	before = descriptor_count();
	for (n = 1; run_with_failure(n); n++) {
		assert_int_equal(descriptor_count(), before);
		assert_true(n < 1000);
	}
	printf("# %u calls failed, one at a time\n", n - 1);
	assert_true(n > 10);
	rig_exit(home);
	home = NULL;
	rig_stop();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(after_a_failed_call_the_next_request_succeeds) };

	fake_helper_main(argc, argv);
	must(readlink("/proc/self/exe", own_path, sizeof(own_path) - 1) > 0);
	return cmocka_run_group_tests_name("helper client failing", tests, NULL, NULL);
}
