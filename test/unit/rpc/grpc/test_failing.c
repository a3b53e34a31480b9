/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first, second, third ... external call fails, until a run meets no failure: allocations, sockets, epoll. In each run
 * a server is opened, a client created, a call made and answered, and all is closed; over dRPC and over gRPC. In each run
 * the call must end once, nothing may be left, and the next run must succeed.
 *
 * The linker redirects the calls to this file (meson.build). Not redirected are calls inside nghttp2 and OpenSSL, and calls
 * that end the program when out of memory, by contract: messages and interned names.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "base/clock.h"
#include "rpc/drpc/drpc.h"
#include "fathom/trace/trace.h"

#include "../../control_thread.h"
#include "../../failing_calls.h"
#include "echo.h"

/* ---- calls that fail ---- */

static struct failing_calls failing;

static bool fails(void)
{
	return pthread_equal(pthread_self(), control_pthread) && failing_calls_next(&failing);
}

FAILING_CALL(malloc)
FAILING_CALL(calloc)
FAILING_CALL(realloc)
FAILING_CALL(aligned_alloc)
FAILING_CALL(socket)
FAILING_CALL(bind)
FAILING_CALL(listen)
FAILING_CALL(connect)
FAILING_CALL(accept4)
FAILING_CALL(recv)
FAILING_CALL(send)
FAILING_CALL(sendmsg)
FAILING_CALL(fd_watch_add)

/* Calls that cannot fail or that end the program. */
SPARED_CALL(thread_send_msg)
SPARED_CALL(fathom_trace_intern)

/* ---- one run ---- */

static char directory[] = "/tmp/fathom-failing-XXXXXX", path[64];

static struct run {
	bool over_grpc;
	struct drpc_server *drpc_server;
	struct drpc_client *drpc_client;
	struct grpc_server *grpc_server;
	struct grpc_client *grpc_client;
	int done_count;
	bool answered;
	sem_t done;
} run;

static void drpc_echo(struct drpc_call *call, const ProtobufCMessage *request)
{
	drpc_reply(call, request);
}

static const struct drpc_method drpc_methods[] = { { 0, 1, "echo", &google__rpc__status__descriptor, drpc_echo } };

static void drpc_done(void *ctx, const struct drpc_result *result)
{
	run.done_count++;
	run.answered = result->error == 0 && result->status == DRPC_SUCCESS;
	sem_post(&run.done);
}

static void grpc_done(void *ctx, const struct grpc_result *result)
{
	run.done_count++;
	run.answered = result->code == GRPC_OK;
	sem_post(&run.done);
}

static int start_drpc(void)
{
	struct drpc_server_options there = { .path = path, .methods = drpc_methods, .method_count = 1 };
	struct drpc_client_options here = { .path = path };
	Google__Rpc__Status request = GOOGLE__RPC__STATUS__INIT;
	int error = drpc_server_open(&there, &run.drpc_server, NULL);

	error = error ? error : drpc_client_create(&here, &run.drpc_client, NULL);
	request.code = 5;
	return error ? error
		     : drpc_client_call(run.drpc_client, &(struct drpc_request){
								 .module = 0,
								 .method = 1,
								 .message = &request.base,
								 .response = &google__rpc__status__descriptor,
								 .timeout_ns = 20 * NS_PER_SEC,
								 .done = drpc_done,
							 });
}

static int start_grpc(void)
{
	struct grpc_server_options there = { .address = "127.0.0.1:0",
					     .methods = echo_methods,
					     .method_count = ARRAY_COUNT(echo_methods) };
	struct grpc_client_options here = { .role = GRPC_ROLE_ADMIN, .version = "1" };
	Google__Rpc__Status request = GOOGLE__RPC__STATUS__INIT;
	char address[32];
	int error = grpc_server_open(&there, &run.grpc_server, NULL);

	error = error ? error : grpc_client_create(&here, &run.grpc_client, NULL);
	if (error)
		return error;
	snprintf(address, sizeof(address), "127.0.0.1:%u", grpc_server_port(run.grpc_server));
	request.code = 5;
	return grpc_client_call(run.grpc_client, &(struct grpc_request){
							 .address = address,
							 .path = "/test.Echo/Say",
							 .message = &request.base,
							 .response = &google__rpc__status__descriptor,
							 .timeout_ns = 20 * NS_PER_SEC,
							 .done = grpc_done,
						 });
}

static int start(void *unused)
{
	failing.count = 0;
	failing.met = false;
	failing.armed = true;
	return run.over_grpc ? start_grpc() : start_drpc();
}

static int end(void *unused)
{
	failing.armed = false;
	drpc_client_destroy(run.drpc_client);
	drpc_server_close(run.drpc_server);
	grpc_client_destroy(run.grpc_client);
	grpc_server_close(run.grpc_server);
	return 0;
}

/* Return true if a call has failed. */
static bool run_with_failure(bool over_grpc, uint32_t fail_at)
{
	int error;

	memset(&run, 0, sizeof(run));
	run.over_grpc = over_grpc;
	sem_init(&run.done, 0, 0);
	failing.fail_at = fail_at;
	error = on_control(start, NULL);
	if (!error) {
		while (sem_wait(&run.done))
			;
	}
	on_control(end, NULL);
	assert_int_equal(run.done_count, error ? 0 : 1);
	if (!failing.met) {
		assert_int_equal(error, 0);
		assert_true(run.answered);
	}
	sem_destroy(&run.done);
	return failing.met;
}

static void each_call_fails_once(bool over_grpc)
{
	uint32_t before, n;

	assert_false(run_with_failure(over_grpc, 0));
	before = descriptor_count();
	for (n = 1; run_with_failure(over_grpc, n); n++) {
		assert_int_equal(descriptor_count(), before);
		assert_true(n < 10000);
	}
	assert_true(n > 20);
	assert_false(run_with_failure(over_grpc, 0));
}

static void after_a_failed_call_drpc_works_again(void **state)
{
	each_call_fails_once(false);
}

static void after_a_failed_call_grpc_works_again(void **state)
{
	each_call_fails_once(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_failed_call_drpc_works_again),
		cmocka_unit_test(after_a_failed_call_grpc_works_again),
	};
	struct reactor_options none = { .simulated = false };
	int failed;

	must(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/sock", directory);
	control_start(&none);
	failed = cmocka_run_group_tests_name("grpc failing", tests, NULL, NULL);
	control_stop();
	rmdir(directory);
	return failed;
}
