/* SPDX-License-Identifier: BSD-2-Clause */
/* The frame of a daemon reports to its supervisor, receives signals as calls, and ends with the given status. */
#include "rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/observe/trace/points.gen.h"
#include "base/reactor/daemon.h"

enum { STATUS = 7, STATUS_ABANDONED = 9, STATUS_FAULT = 11 };

static char folder[] = "/tmp/fathom-daemon-XXXXXX", supervisor_path[64];
static int supervisor;

static int open_supervisor(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval second = { .tv_sec = 10 };

	must(mkdtemp(folder));
	snprintf(supervisor_path, sizeof(supervisor_path), "%s/notify", folder);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", supervisor_path);
	supervisor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	must(supervisor >= 0);
	must(setsockopt(supervisor, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second)) == 0);
	must(setenv("NOTIFY_SOCKET", supervisor_path, 1) == 0);
	trace_schema_set(&fathom_schema);
	return bind(supervisor, (const struct sockaddr *)&address, sizeof(address));
}

static int close_supervisor(void **state)
{
	close(supervisor);
	unlink(supervisor_path);
	return rmdir(folder);
}

static void assert_notified(const char *wanted)
{
	char text[64];
	ssize_t bytes = recv(supervisor, text, sizeof(text) - 1, 0);

	assert_true(bytes > 0);
	text[bytes] = '\0';
	assert_string_equal(text, wanted);
}

/* ---- in the child ---- */

static uint32_t reloads;
static bool has_ended;

static void start(void)
{
	daemon_ready();
}

static void on_signal(const struct daemon_signal *info)
{
	must(info->pid != 0 && info->uid == getuid());
	if (info->number == SIGHUP) {
		reloads++;
		return;
	}
	must(!daemon_is_stopping());
	daemon_stopping();
	must(daemon_is_stopping());
	if (info->number == SIGINT)
		daemon_abandon(STATUS_ABANDONED);
	daemon_end(STATUS + (int)reloads);
}

static void note_end(void)
{
	has_ended = true;
}

static pid_t start_daemon(const struct daemon_options *options)
{
	pid_t pid = fork();
	struct fathom_fault why = { 0 };
	int status = -1;

	assert_true(pid >= 0);
	if (pid != 0)
		return pid;
	if (daemon_run(options, &status, &why) != 0)
		_exit(why.error < 0 && strstr(why.text, "-m: reactors cannot start") && status == -1 ? STATUS_FAULT : 1);
	_exit(has_ended ? status : 2);
}

/* ---- in the test ---- */

static const struct daemon_options options = {
	.name = "daemon", .trace_spec = "all", .start = start, .on_signal = on_signal, .ended = note_end
};

static void assert_status(pid_t pid, int wanted)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), wanted);
}

static void a_daemon_ends_at_sigterm_with_its_status(void **state)
{
	pid_t pid = start_daemon(&options);

	assert_notified("READY=1");
	assert_int_equal(kill(pid, SIGUSR1), 0); /* nothing to do */
	assert_int_equal(kill(pid, SIGHUP), 0);
	assert_int_equal(kill(pid, SIGPIPE), 0); /* ignored */
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_notified("STOPPING=1");
	assert_status(pid, STATUS + 1);
}

static void an_abandoned_daemon_ends_at_once(void **state)
{
	pid_t pid = start_daemon(&options);

	assert_notified("READY=1");
	assert_int_equal(kill(pid, SIGINT), 0);
	assert_notified("STOPPING=1");
	assert_status(pid, STATUS_ABANDONED);
}

static void a_daemon_that_cannot_start_reports_the_reason(void **state)
{
	struct daemon_options bad = options;
	char last[16];

	bad.cpus_option = "-m";
	snprintf(last, sizeof(last), "[%d]", CPUSET_CPUS_MAX - 1);
	must(cpuset_parse(last, &bad.reactors.cpus) == 0);
	assert_status(start_daemon(&bad), STATUS_FAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_daemon_ends_at_sigterm_with_its_status),
		cmocka_unit_test(an_abandoned_daemon_ends_at_once),
		cmocka_unit_test(a_daemon_that_cannot_start_reports_the_reason),
	};

	return cmocka_run_group_tests_name("reactor daemon", tests, open_supervisor, close_supervisor);
}
