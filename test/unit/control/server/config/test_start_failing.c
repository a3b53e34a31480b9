/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server reads its configuration, resolves its addresses, gets its fault domain from a program and from the host's name,
 * and notifies its supervisor. The first, second, third ... external call fails, until a run meets no failure; then the
 * calls of the program's process before exec. A failure must be a fault with a resolution, a success must have the right
 * result, and no descriptor and no process may be left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/must.h"
#include "base/supervisor.h"
#include "control/fault/fault.h"
#include "control/server/config/address.h"
#include "failing.h"

#include "../../../failing_calls.h"

enum { RUNS_MAX = 300 };

/* ---- calls that fail ---- */

static uint32_t child_fails_at; /* the number of the child's call that fails; 0: none */

static bool fails(void)
{
	return failing_this_call();
}

FAILING_CALL(pipe2)
FAILING_CALL(fstat64)
FAILING_CALL(pread64)
FAILING_CALL(opendir)
FAILING_CALL(readdir64)
FAILING_CALL(readlink)
FAILING_CALL(getifaddrs)
FAILING_CALL(gethostname)
FAILING_CALL(getaddrinfo)
FAILING_CALL(getnameinfo)
FAILING_CALL(socket)
FAILING_CALL(sendto)
FAILING_CALL(dup2)
FAILING_CALL(close_range)
FAILING_CALL(execve)

/* In the child, `child_fails_at` selects the failing call. */
FAILING_FORK(failing_begin_files(child_fails_at))

/* The child has ended also if the call fails. */
pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	bool now = fails();
	pid_t ended = __real_waitpid(pid, status, options);

	if (!now)
		return ended;
	errno = ECHILD;
	return -1;
}

/* ---- a host ---- */

static char folder[] = "/tmp/fathom-start-XXXXXX", program[64], with_program[64], without[64], supervisor[64];
static int supervisor_fd;

static void put(char *path, const char *name, mode_t mode, const char *text)
{
	FILE *file;

	snprintf(path, 64, "%s/%s", folder, name);
	file = fopen(path, "we");
	must(file);
	fputs(text, file);
	must(fclose(file) == 0);
	must(chmod(path, mode) == 0);
}

static int setup(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char text[256];

	must(mkdtemp(folder));
	/* the first part of its output is a different valid domain */
	put(program, "domain", 0755, "#!/bin/sh\nprintf /rack0\nsleep 0.01\necho /node0\n");
	snprintf(text, sizeof(text),
		 "port: 10007\ncontrol_iface: lo\nfault_cb: %s\nengines: [{fabric_iface: lo, "
		 "fabric_iface_port: 4420, storage: [{class: file, scm_mount: /nowhere/a}]}]\n",
		 program);
	put(with_program, "with.yml", 0644, text);
	put(without, "without.yml", 0644, "port: 10007\n");
	snprintf(supervisor, sizeof(supervisor), "%s/notify", folder);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", supervisor);
	supervisor_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(supervisor_fd >= 0);
	must(setenv("NOTIFY_SOCKET", supervisor, 1) == 0);
	return bind(supervisor_fd, (const struct sockaddr *)&address, sizeof(address));
}

static int teardown(void **state)
{
	close(supervisor_fd);
	unlink(supervisor);
	unlink(program);
	unlink(with_program);
	unlink(without);
	return rmdir(folder);
}

static void check_nothing_is_left(uint32_t n, uint32_t before)
{
	if (descriptor_count() != before)
		fail_msg("call %u: %u descriptors, expected %u", n, descriptor_count(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static uint32_t calls, refused;

/* Return true if the result is the same as without a failure. */
static bool start(uint32_t n, const char *path, const char *domain, bool *failed_ret)
{
	struct server_config config;
	struct server_places places = { 0 };
	struct fathom_fault why = { 0 };
	uint32_t before = descriptor_count();
	int error;

	failing_begin_files(n);
	error = server_config_read(path, &config, &why);
	if (!error) {
		error = server_places_find(&config, path, provider_system(), &places, &why);
		server_config_free(&config);
	}
	*failed_ret = failing_end();
	check_nothing_is_left(n, before);
	if (error) {
		/* a fault without a code has its resolution in its text */
		if (error != why.error || !why.text[0] || (why.code != 0 && !why.resolution[0]))
			fail_msg("call %u: error %d, fault %d (%d): %s; %s", n, error, why.code, why.error, why.text,
				 why.resolution);
		if (strstr(why.text, "another host") || strstr(why.text, "no interface"))
			fail_msg("call %u: an interface is missing: %s", n, why.text);
		if (strstr(why.text, "the name of this host"))
			assert_int_equal(why.code, FAULT_HOST_UNNAMED);
		return false;
	}
	if (domain)
		assert_string_equal(places.domain, domain);
	assert_string_equal(places.control, "127.0.0.1:10007");
	assert_string_equal(places.replica, "127.0.0.1:10007");
	assert_true(places.is_replica);
	server_places_free(&places);
	return true;
}

static void start_failing(const char *path, const char *domain)
{
	bool failed = true;

	for (uint32_t n = 1; failed; n++) {
		bool is_fine;

		assert_true(n < RUNS_MAX);
		is_fine = start(n, path, domain, &failed);
		assert_true(is_fine || failed);
		refused += !is_fine;
		calls += failed;
	}
}

static void a_failed_call_is_a_fault_or_leaves_addresses_and_domain_right(void **state)
{
	start_failing(with_program, "/rack0/node0");
	start_failing(without, NULL);
	printf("# %u calls, %u starts failed\n", calls, refused);
	assert_true(calls > 40);
	assert_true(refused > 20);
}

static void a_fault_cb_that_cannot_be_run_is_a_fault(void **state)
{
	bool is_fine = false, failed;
	uint32_t n;

	for (n = 1; !is_fine; n++) {
		assert_true(n < RUNS_MAX);
		child_fails_at = n;
		is_fine = start(0, with_program, "/rack0/node0", &failed);
	}
	child_fails_at = 0;
	printf("# %u calls of the child\n", n - 2);
	assert_true(n > 7);
}

static void a_failed_notification_of_the_supervisor_is_ignored(void **state)
{
	uint32_t before = descriptor_count();
	bool failed = true;
	uint32_t n;

	for (n = 1; failed; n++) {
		char state_text[32];

		assert_true(n < RUNS_MAX);
		failing_begin_files(n);
		supervisor_notify("READY=1");
		failed = failing_end();
		check_nothing_is_left(n, before);
		/* the notification may have been sent before the call failed */
		(void)!recv(supervisor_fd, state_text, sizeof(state_text), 0);
		supervisor_notify("READY=1");
		assert_int_equal(recv(supervisor_fd, state_text, sizeof(state_text), 0), 7);
	}
	assert_int_equal(n - 2, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_failed_call_is_a_fault_or_leaves_addresses_and_domain_right),
					    cmocka_unit_test(a_fault_cb_that_cannot_be_run_is_a_fault),
					    cmocka_unit_test(a_failed_notification_of_the_supervisor_is_ignored) };

	return cmocka_run_group_tests_name("server start failing", tests, setup, teardown);
}
