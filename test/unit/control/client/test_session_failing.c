/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session is opened with the configuration in $HOME; it resolves the host name, calls the management service and a host,
 * and is closed. The first, second, third ... external call fails, until a run meets no failure. Each failure must be a
 * fault with a resolution, the repeated call must succeed, and no descriptor may be left. Waiting calls are interrupted
 * every other time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "failing.h"
#include "fathom/control.h"
#include "rpc/proto/fathom.pb-c.h"

#include "../../failing_calls.h"
#include "host.h"

enum { RUNS_MAX = 1000, MISSES = 3 };

/* ---- calls that fail ---- */

static bool fails(void)
{
	return failing_this_call();
}

/* Each waiting call has its own `is_odd`. */
static bool is_interrupted(bool *is_odd)
{
	*is_odd = !*is_odd;
	errno = EINTR;
	return *is_odd;
}

FAILING_CALL(socket)
FAILING_CALL(connect)
FAILING_CALL(recv)
FAILING_CALL(send)
FAILING_CALL(setsockopt)
FAILING_CALL(getsockopt)
FAILING_CALL(epoll_create1)
FAILING_CALL(eventfd)
FAILING_CALL(sched_getaffinity)
FAILING_CALL(inet_ntop)

int __real_prctl(int option, unsigned long a, unsigned long b, unsigned long c);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c)
{
	return fails() ? -1 : __real_prctl(option, a, b, c);
}

/* Only EPOLL_CTL_ADD fails: changing and removing a watched descriptor cannot fail. */
int __real_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event)
{
	if (what != EPOLL_CTL_ADD || !fails())
		return __real_epoll_ctl(epoll_fd, what, fd, event);
	errno = ENOSPC;
	return -1;
}

int __real_epoll_wait(int fd, struct epoll_event *events, int count, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int count, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
	static bool is_odd;

	return is_interrupted(&is_odd) ? -1 : __real_epoll_wait(fd, events, count, timeout);
}

int __real_epoll_pwait2(int fd, struct epoll_event *events, int count, const struct timespec *timeout,
			const sigset_t *mask);
int __wrap_epoll_pwait2(int fd, struct epoll_event *events, int count, const struct timespec *timeout,
			const sigset_t *mask);
int __wrap_epoll_pwait2(int fd, struct epoll_event *events, int count, const struct timespec *timeout, const sigset_t *mask)
{
	static bool is_odd;

	return is_interrupted(&is_odd) ? -1 : __real_epoll_pwait2(fd, events, count, timeout, mask);
}

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	static bool is_odd;

	return is_interrupted(&is_odd) ? -1 : __real_nanosleep(time, left);
}

/* The resolver has started with some names and is out of memory for the others. */
static const struct gaicb *pending[8];
static size_t started_count;
static const struct gaicb *unknown;

int __real_getaddrinfo_a(int mode, struct gaicb *list[], int count, struct sigevent *tell);
int __wrap_getaddrinfo_a(int mode, struct gaicb *list[], int count, struct sigevent *tell);
int __wrap_getaddrinfo_a(int mode, struct gaicb *list[], int count, struct sigevent *tell)
{
	int error;

	unknown = NULL;
	for (size_t i = 0; i < started_count; i++) {
		if (pending[i] == list[0])
			fail_msg("a name list is freed while the resolver uses it");
	}
	error = __real_getaddrinfo_a(mode, list, count, tell);
	if (!fails())
		return error;
	assert_true(started_count < ARRAY_COUNT(pending));
	pending[started_count++] = list[0];
	return EAI_SYSTEM;
}

int __real_gai_error(struct gaicb *request);
int __wrap_gai_error(struct gaicb *request);
int __wrap_gai_error(struct gaicb *request)
{
	int error = __real_gai_error(request);

	if (error == 0 && request != unknown && fails()) {
		freeaddrinfo(request->ar_result);
		unknown = request;
	}
	return request == unknown ? EAI_AGAIN : error;
}

/* ---- a host ---- */

static void answer_events(struct grpc_call *call, const ProtobufCMessage *message)
{
	Fathom__SystemEventsResp answer = FATHOM__SYSTEM_EVENTS_RESP__INIT;

	answer.last = 7;
	grpc_reply(call, &answer.base);
}

static void answer_version(struct grpc_call *call, const ProtobufCMessage *message)
{
	Fathom__EngineQueryResp answer = FATHOM__ENGINE_QUERY_RESP__INIT;

	answer.version = (char *)"1.2.3";
	grpc_reply(call, &answer.base);
}

static const struct grpc_method methods[] = {
	{ "/fathom.ControlSvc/SystemEvents", &fathom__system_events_req__descriptor,
	  &fathom__system_events_resp__descriptor, 0, answer_events },
	{ "/fathom.ControlSvc/EngineQuery", &fathom__engine_query_req__descriptor, &fathom__engine_query_resp__descriptor,
	  0, answer_version },
};

/* ---- the client ---- */

static pid_t host;
static char folder[] = "/tmp/fathom-session-XXXXXX", path[64];

static int setup(void **state)
{
	uint16_t port;
	FILE *file;

	if (!mkdtemp(folder) || setenv("HOME", folder, 1) != 0)
		return -1;
	host = host_begin(methods, ARRAY_COUNT(methods), &port);
	snprintf(path, sizeof(path), "%s/.fathom_control.yml", folder);
	file = fopen(path, "we");
	if (!file)
		return -1;
	fprintf(file, "name: played\nport: %u\nhostlist: [localhost]\n", port);
	return fclose(file);
}

static int teardown(void **state)
{
	host_end(host);
	unlink(path);
	return rmdir(folder);
}

static void take_line(void *ctx, const char *line)
{
	assert_true(line[0] != '\0');
}

static struct fathom_control *control;

static int open_session(struct fathom_fault *why)
{
	struct fathom_control_options options = {
		.insecure = true, .timeout_ms = 20000, .patience_ms = 1, .log = take_line
	};
	int error = fathom_control_open(&options, &control, why);

	if (error)
		return error;
	/* only this file is used, so that no other system is called */
	assert_string_equal(fathom_control_config(control), path);
	return 0;
}

static int call_service(struct fathom_fault *why)
{
	struct fathom_control_events *events;
	int error = fathom_control_events(control, 0, 0, 0, &events, why);

	if (error)
		return error;
	assert_int_equal(events->last, 7);
	fathom_control_free(events);
	return 0;
}

static int call_host(struct fathom_fault *why)
{
	struct fathom_control_answers *answers;
	int error = fathom_control_versions(control, &answers, why);

	if (error)
		return error;
	assert_int_equal(answers->count + answers->error_count, 1);
	if (answers->count == 1) {
		assert_string_equal(answers->answers[0].version, "1.2.3");
	} else {
		*why = answers->errors[0].why;
		error = why->error;
	}
	fathom_control_free(answers);
	return error;
}

static uint32_t refused, unstarted, unasked, unread;

/* Run a step. It must succeed, or report a fault and succeed when repeated. */
static void run_step(uint32_t n, const char *what, int (*step)(struct fathom_fault *why))
{
	struct fathom_fault why = { 0 };
	bool had_failed = failing_has_failed();
	int error = step(&why);

	if (error == 0)
		return;
	if (had_failed || !failing_has_failed())
		fail_msg("call %u: %s fails although no call was made to fail: %s", n, what, why.text);
	if (error != why.error || !why.text[0] || why.code == 0 || !why.resolution[0])
		fail_msg("call %u: %s: error %d, fault %d (%d): %s; %s", n, what, error, why.code, why.error, why.text,
			 why.resolution);
	refused++;
	unread += why.code == FAULT_CONFIG_UNREADABLE;
	if (strstr(why.text, "event loop")) {
		assert_int_equal(why.code, FAULT_SESSION_UNSTARTED);
		unstarted++;
	} else if (strstr(why.text, "host names cannot be resolved")) {
		assert_int_equal(why.code, FAULT_NAMES_UNASKED);
		unasked++;
	}
	if (step(&why) != 0)
		fail_msg("call %u: %s fails again: %s", n, what, why.text);
}

static bool run(uint32_t n)
{
	failing_begin_files(n);
	run_step(n, "opening", open_session);
	run_step(n, "asking the service", call_service);
	run_step(n, "asking a host", call_host);
	fathom_control_close(control);
	return failing_end();
}

static void a_failed_call_is_a_fault_and_the_session_stays_usable(void **state)
{
	uint32_t n, calls = 0, missed = 0;
	uint32_t before;

	assert_false(run(RUNS_MAX)); /* starts the resolver's thread, which stays */
	before = descriptor_count();
	for (n = 1; missed < MISSES; n++) { /* the number of reads depends on timing */
		assert_true(n < RUNS_MAX);
		if (run(n)) {
			calls = n;
			missed = 0;
		} else {
			missed++;
		}
		for (int i = 0; descriptor_count() != before; i++) { /* the resolver may still use a descriptor */
			if (i == 1000)
				fail_msg("call %u: %u descriptors, expected %u", n, descriptor_count(), before);
			usleep(1000);
		}
	}
	printf("# %u calls, %u steps failed\n", calls, refused);
	assert_true(calls > 30);
	assert_true(refused > 10);
	assert_true(unread > 0 && unstarted > 0 && unasked > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_failed_call_is_a_fault_and_the_session_stays_usable) };

	return cmocka_run_group_tests_name("control client session failing", tests, setup, teardown);
}
