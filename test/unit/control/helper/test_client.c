/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server's side of the helper: answers are matched to requests; a helper that hangs, dies or sends invalid answers is
 * replaced.
 */
#include "fake_helper.h"
#include "rig.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/helper/client.h"

enum { ASKED_MAX = 64 };

struct asked {
	struct helper_request request;
	bool answered;
	struct helper_reply reply;
	struct fathom_fault why;
};

static struct asked asked[ASKED_MAX];
static _Atomic(uint64_t) answers;
static struct fathom_thread *home;
static struct helper_client *client;
static struct helper_client_options options;
static struct helper_client_stats stats;
static char own_path[256];

static void done(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct asked *a = ctx;

	must(thread_self() == home);
	must(!a->answered);
	must(why->error == reply->error);
	must((why->text[0] != '\0') == (reply->error != 0));
	a->answered = true;
	a->reply = *reply;
	a->why = *why;
	answers++;
}

static void create(void *unused)
{
	struct fathom_fault why;

	client = helper_client_create(&options, &why);
	must(client);
}

static void destroy(void *unused)
{
	helper_client_destroy(client);
}

static void start_client(const char *manner)
{
	memset(asked, 0, sizeof(asked));
	answers = 0;
	options = (struct helper_client_options){ .program = own_path,
						  .config = manner,
						  .version = "1.2.3",
						  .grace_ns = 200 * NS_PER_MS,
						  .start_ns = NS_PER_SEC };
	rig_start(1);
	home = thread_create("asker", rig_reactor(0));
	rig_run_on(home, create, NULL);
}

static void stop_client(void)
{
	rig_run_on(home, destroy, NULL);
	rig_exit(home);
	rig_stop();
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
	assert_int_equal(errno, ECHILD);
}

static void submit(void *ctx)
{
	struct asked *a = ctx;

	helper_client_submit(client, &a->request, done, a);
}

static void ask(size_t at, enum helper_operation operation, const char *device, uint32_t timeout_ms)
{
	asked[at].answered = false;
	asked[at].request = (struct helper_request){ .operation = operation, .timeout_ms = timeout_ms, .label = "x" };
	snprintf(asked[at].request.device, sizeof(asked[at].request.device), "%s", device);
	rig_run_on(home, submit, &asked[at]);
}

static void read_stats(void *unused)
{
	helper_client_get_stats(client, &stats);
}

static const struct helper_client_stats *get_stats(void)
{
	rig_run_on(home, read_stats, NULL);
	return &stats;
}

static void answers_are_matched_to_requests(void **state)
{
	char device[32], label[8];

	start_client("good");
	for (size_t i = 0; i < ASKED_MAX; i++) { /* more requests than a helper accepts at a time */
		snprintf(device, sizeof(device), "/dev/loop%zu", i);
		ask(i, i % 8 ? HELPER_CHECK_FORMAT : HELPER_FORMAT, device, 5000);
	}
	rig_wait_u64(&answers, ASKED_MAX);
	for (size_t i = 0; i < ASKED_MAX; i++) {
		snprintf(label, sizeof(label), "%zu", i);
		if (asked[i].reply.error)
			fail_msg("%s", asked[i].why.text);
		assert_string_equal(asked[i].reply.signature.label, label);
	}
	assert_int_equal(get_stats()->started, 1);
	assert_int_equal(stats.answered, ASKED_MAX);
	assert_int_equal(stats.waiting + stats.sent, 0);
	stop_client();
}

static void a_hung_helper_is_replaced(void **state)
{
	start_client("hangs");
	ask(0, HELPER_FORMAT, "/dev/loop0", 100);
	ask(1, HELPER_MOUNT, "/dev/loop1", 60000);
	rig_wait_u64(&answers, 2);
	assert_int_equal(asked[0].reply.error, -ETIMEDOUT);
	assert_int_equal(asked[0].why.code, FAULT_HELPER_TIMED_OUT);
	assert_non_null(strstr(asked[0].why.text, "/dev/loop0"));
	assert_int_equal(asked[1].reply.error, -ECONNRESET); /* failed, because the helper was killed */
	assert_non_null(strstr(asked[1].why.text, "did not answer"));
	ask(2, HELPER_CHECK_FORMAT, "/dev/loop2", 5000);
	rig_wait_u64(&answers, 3);
	assert_int_equal(asked[2].reply.error, 0);
	assert_int_equal(get_stats()->started, 2);
	assert_int_equal(stats.hung, 1);
	stop_client();
}

static void a_dead_helper_is_replaced(void **state)
{
	start_client("dies");
	for (size_t i = 0; i < 6; i += 2) {
		ask(i, HELPER_FORMAT, "/dev/loop0", 5000);
		rig_wait_u64(&answers, i + 1);
		assert_int_equal(asked[i].reply.error, -ECONNRESET);
		assert_int_equal(asked[i].why.code, FAULT_HELPER_ENDED);
		assert_non_null(strstr(asked[i].why.text, "signal 15"));
		ask(i + 1, HELPER_CHECK_FORMAT, "/dev/loop0", 5000);
		rig_wait_u64(&answers, i + 2);
		assert_int_equal(asked[i + 1].reply.error, 0);
	}
	assert_int_equal(get_stats()->died, 3);
	stop_client();
}

static void a_helper_with_invalid_answers_is_replaced(void **state)
{
	static const char *const manners[] = { "nonsense", "stranger" };

	for (size_t i = 0; i < ARRAY_COUNT(manners); i++) {
		start_client(manners[i]);
		ask(0, HELPER_CHECK_FORMAT, "/dev/loop0", 5000);
		rig_wait_u64(&answers, 1);
		assert_int_equal(asked[0].reply.error, -ECONNRESET);
		assert_non_null(strstr(asked[0].why.text, "an invalid answer"));
		stop_client();
	}
}

static void a_helper_that_cannot_start_is_a_fault_and_is_retried(void **state)
{
	start_client("gone");
	ask(0, HELPER_CHECK_FORMAT, "/dev/loop0", 5000);
	rig_wait_u64(&answers, 1);
	assert_int_equal(asked[0].reply.error, -ECONNRESET);
	assert_non_null(strstr(asked[0].why.text, "ended with status 7"));
	assert_int_equal(asked[0].why.code, FAULT_HELPER_NOT_STARTED);
	assert_non_null(strstr(asked[0].why.resolution, own_path));
	assert_non_null(strstr(asked[0].why.resolution, "--check` as root"));
	ask(1, HELPER_CHECK_FORMAT, "/dev/loop0", 5000); /* during the retry delay or after it */
	rig_wait_u64(&answers, 2);
	assert_non_null(strstr(asked[1].why.text, "ended with status 7"));
	stop_client();
	start_client("good");
	snprintf(own_path, sizeof(own_path), "/nowhere/fathom-helper");
	rig_run_on(home, destroy, NULL);
	rig_run_on(home, create, NULL);
	ask(0, HELPER_CHECK_FORMAT, "/dev/loop0", 5000);
	rig_wait_u64(&answers, 1);
	assert_non_null(strstr(asked[0].why.text, "/nowhere/fathom-helper"));
	assert_int_equal(asked[0].why.code, FAULT_HELPER_MISSING);
	stop_client();
	start_client("good");
	snprintf(own_path, sizeof(own_path), "/etc/passwd"); /* not executable for any user */
	rig_run_on(home, destroy, NULL);
	rig_run_on(home, create, NULL);
	ask(0, HELPER_CHECK_FORMAT, "/dev/loop0", 5000);
	rig_wait_u64(&answers, 1);
	assert_int_equal(asked[0].why.code, FAULT_HELPER_NOT_STARTED);
	assert_non_null(strstr(asked[0].why.text, "Permission denied"));
	stop_client();
	assert_true(readlink("/proc/self/exe", own_path, sizeof(own_path) - 1) > 0);
}

static void a_helper_that_does_not_answer_its_first_ping_is_a_fault(void **state)
{
	start_client("silent");
	ask(0, HELPER_CHECK_FORMAT, "/dev/loop0", 5000);
	rig_wait_u64(&answers, 1);
	assert_int_equal(asked[0].reply.error, -ECONNRESET);
	assert_non_null(strstr(asked[0].why.text, "did not answer the first ping"));
	assert_int_equal(asked[0].why.code, FAULT_HELPER_NOT_STARTED);
	assert_int_equal(get_stats()->hung, 1);
	stop_client();
}

static void a_helper_of_another_release_is_refused(void **state)
{
	start_client("old");
	ask(0, HELPER_CHECK_FORMAT, "/dev/loop0", 5000);
	rig_wait_u64(&answers, 1);
	assert_int_equal(asked[0].reply.error, -ECONNRESET);
	assert_non_null(strstr(asked[0].why.text, "has version 0.0.1"));
	assert_non_null(strstr(asked[0].why.text, "1.2.3"));
	assert_int_equal(get_stats()->foreign, 1);
	stop_client();
}

/* Killed or stopped at any time: each request must be answered once, and a later request must succeed. */
static void a_helper_killed_or_stopped_at_any_time_is_replaced(void **state)
{
	uint64_t expected = 0;

	start_client("good");
	for (int round = 0; round < 60; round++) {
		pid_t pid;

		ask(0, HELPER_FORMAT, "/dev/loop0", 150);
		ask(1, HELPER_CHECK_FORMAT, "/dev/loop1", 150);
		usleep((useconds_t)(round * 1500)); /* STARTING, SENT, answered */
		pid = get_stats()->pid;
		if (pid > 0)
			kill(pid, round % 3 == 2 ? SIGSTOP : SIGKILL);
		expected += 2;
		rig_wait_u64(&answers, expected);
		for (int i = 0; i < 2; i++)
			assert_true(asked[i].reply.error == 0 || asked[i].reply.error == -ECONNRESET ||
				    asked[i].reply.error == -ETIMEDOUT);
	}
	for (int tries = 0; tries < 50; tries++) { /* the client must first detect the helper that was stopped last */
		ask(2, HELPER_CHECK_FORMAT, "/dev/loop2", 2000);
		rig_wait_u64(&answers, ++expected);
		if (asked[2].reply.error == 0)
			break;
		usleep(100000);
	}
	assert_int_equal(asked[2].reply.error, 0);
	stop_client();
}

static void requests_in_progress_are_cancelled_at_the_end(void **state)
{
	start_client("hangs");
	ask(0, HELPER_FORMAT, "/dev/loop0", 60000);
	ask(1, HELPER_CHECK_FORMAT, "/dev/loop0", 60000);
	rig_wait_u64(&answers, 1);
	ask(2, HELPER_MOUNT, "/dev/loop0", 60000);
	stop_client();
	assert_int_equal(asked[0].reply.error, -ECANCELED);
	assert_int_equal(asked[2].reply.error, -ECANCELED);
	start_client("good"); /* ends before a helper was started */
	stop_client();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_matched_to_requests),
		cmocka_unit_test(a_hung_helper_is_replaced),
		cmocka_unit_test(a_dead_helper_is_replaced),
		cmocka_unit_test(a_helper_with_invalid_answers_is_replaced),
		cmocka_unit_test(a_helper_that_cannot_start_is_a_fault_and_is_retried),
		cmocka_unit_test(a_helper_that_does_not_answer_its_first_ping_is_a_fault),
		cmocka_unit_test(a_helper_of_another_release_is_refused),
		cmocka_unit_test(a_helper_killed_or_stopped_at_any_time_is_replaced),
		cmocka_unit_test(requests_in_progress_are_cancelled_at_the_end),
	};

	fake_helper_main(argc, argv);
	must(readlink("/proc/self/exe", own_path, sizeof(own_path) - 1) > 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
