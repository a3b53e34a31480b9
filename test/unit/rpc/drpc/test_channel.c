/* SPDX-License-Identifier: BSD-2-Clause */
/* Our client and server: calls, sizes up to the limit, time-outs, concurrent calls, and the life of the socket. */
#include "rig.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static struct drpc_client *client;

struct call {
	int32_t module, method;
	const ProtobufCMessage *request;
	const ProtobufCMessageDescriptor *response;
	uint64_t timeout_ns;
	/* the result */
	struct drpc_result result;
	int64_t sequence; /* from a response that is a Call */
	int32_t number[2];
	size_t body_bytes;
	sem_t done;
	bool destroy; /* destroy the client in its callback */
};

static void note(void *ctx, const struct drpc_result *result)
{
	struct call *call = ctx;

	call->result = *result;
	call->body_bytes = result->body_bytes;
	if (result->response && result->response->descriptor == &drpc__call__descriptor) {
		call->sequence = ((const Drpc__Call *)result->response)->sequence;
		call->number[0] = ((const Drpc__Call *)result->response)->module;
		call->number[1] = ((const Drpc__Call *)result->response)->method;
	}
	if (call->destroy) {
		drpc_client_destroy(client);
		client = NULL;
	}
	sem_post(&call->done);
}

static int start(void *ctx)
{
	struct call *call = ctx;

	return drpc_client_call(client, &(struct drpc_request){
						.module = call->module,
						.method = call->method,
						.message = call->request,
						.response = call->response,
						.timeout_ns = call->timeout_ns,
						.done = note,
						.ctx = call,
					});
}

static void begin(struct call *call)
{
	sem_init(&call->done, 0, 0);
	if (!call->timeout_ns)
		call->timeout_ns = 30 * NS_PER_SEC;
	assert_int_equal(on_control(start, call), 0);
}

static void finish(struct call *call)
{
	while (sem_wait(&call->done))
		;
	sem_destroy(&call->done);
}

static void run(struct call *call)
{
	begin(call);
	finish(call);
}

static int create(void *options)
{
	return drpc_client_create(options, &client, &why);
}

static int destroy(void *unused)
{
	drpc_client_destroy(client);
	client = NULL;
	return 0;
}

static int with_client(void **state)
{
	struct drpc_client_options options = { .path = rig_path, .connections_max = 4 };

	rig_serve(state);
	return on_control(create, &options);
}

static int without_client(void **state)
{
	on_control(destroy, NULL);
	return rig_serve_no_more(state);
}

/* ---- calls ---- */

static void a_call_is_answered(void **state)
{
	Drpc__Call request = DRPC__CALL__INIT;
	struct call call = { .method = 1, .request = &request.base, .response = &drpc__call__descriptor };

	request.sequence = -77;
	run(&call);
	assert_int_equal(call.result.error, 0);
	assert_int_equal(call.result.status, DRPC_SUCCESS);
	assert_int_equal(call.sequence, -77);
}

static void a_call_without_a_body_is_answered(void **state)
{
	struct call call = { .method = 1, .response = &drpc__call__descriptor };

	run(&call);
	assert_int_equal(call.result.error, 0);
	assert_int_equal(call.body_bytes, 0);
}

static void unknown_modules_and_methods_and_failures_have_their_status(void **state)
{
	struct call module = { .module = 9, .method = 1 }, method = { .method = 99 }, fail = { .method = 3 };

	run(&module);
	assert_int_equal(module.result.status, DRPC_UNKNOWN_MODULE);
	run(&method);
	assert_int_equal(method.result.status, DRPC_UNKNOWN_METHOD);
	run(&fail);
	assert_int_equal(fail.result.status, DRPC_FAILURE);
	assert_int_equal(fail.result.error, 0);
	assert_int_equal(on_control(rig_connections, NULL), 1);
}

static void the_caller_is_identified_by_the_kernel(void **state)
{
	struct call call = { .method = 5, .response = &drpc__call__descriptor };

	run(&call);
	assert_int_equal(call.number[0], getpid());
	assert_int_equal(call.number[1], getuid());
	assert_int_equal(call.sequence, getgid());
}

static void messages_of_many_chunks_are_exchanged(void **state)
{
	static const size_t sizes[] = { 131000, 131048, 200000, 5 << 20, (64 << 20) - 100 };

	for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
		Drpc__Call request = DRPC__CALL__INIT, ask = DRPC__CALL__INIT;
		struct call there = { .method = 6, .request = &request.base, .response = &drpc__call__descriptor };
		struct call back = { .method = 4, .request = &ask.base, .response = &drpc__response__descriptor };

		request.body.len = sizes[i];
		request.body.data = calloc(1, sizes[i]);
		run(&there);
		assert_int_equal(there.result.error, 0);
		assert_int_equal(there.sequence, protobuf_c_message_get_packed_size(&request.base));
		free(request.body.data);
		ask.sequence = (int64_t)sizes[i];
		run(&back);
		assert_int_equal(back.result.error, 0);
		assert_int_equal(back.result.status, DRPC_SUCCESS);
		assert_true(back.body_bytes > sizes[i]);
	}
}

static int too_large(void *unused)
{
	Drpc__Call request = DRPC__CALL__INIT;
	struct call call = { .method = 6, .request = &request.base };
	int error;

	request.body.len = 64 << 20;
	request.body.data = calloc(1, request.body.len);
	error = start(&call);
	free(request.body.data);
	return error;
}

static void a_message_over_the_limit_is_refused_by_its_sender(void **state)
{
	Drpc__Call ask = DRPC__CALL__INIT;
	struct call back = { .method = 4, .request = &ask.base };

	assert_int_equal(on_control(too_large, NULL), -EMSGSIZE);
	ask.sequence = 64 << 20;
	run(&back);
	assert_int_equal(back.result.status, DRPC_FAILED_MARSHAL);
}

static int client_connections(void *unused)
{
	return (int)drpc_client_stats(client).connections;
}

static void connections_are_kept_and_calls_wait_for_one(void **state)
{
	struct call calls[20] = { 0 };

	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		calls[i].method = 2;
		begin(&calls[i]);
	}
	rig_wait(rig_held, 4);
	assert_int_equal(on_control(rig_connections, NULL), 4);
	for (size_t done = 0; done < ARRAY_COUNT(calls); done += 4) {
		rig_wait(rig_held, 4);
		on_control(rig_release, NULL);
	}
	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		finish(&calls[i]);
		assert_int_equal(calls[i].result.error, 0);
	}
	assert_int_equal(on_control(client_connections, NULL), 4);
	assert_int_equal(drpc_client_stats(client).connections_total, 4);
}

static void a_call_ends_at_its_time_out(void **state)
{
	struct call calls[6] = { 0 }, after = { .method = 3 };

	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		calls[i].method = 2;
		calls[i].timeout_ns = (100 + i) * NS_PER_MS;
		begin(&calls[i]);
	}
	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		finish(&calls[i]);
		assert_int_equal(calls[i].result.error, -ETIMEDOUT);
		assert_non_null(strstr(calls[i].result.why.text, rig_path));
	}
	run(&after);
	assert_int_equal(after.result.status, DRPC_FAILURE);
}

static void a_client_may_be_destroyed_in_a_callback_and_with_calls_in_progress(void **state)
{
	struct drpc_client_options options = { .path = rig_path, .connections_max = 4 };
	struct call held_one = { .method = 2 }, waiting[8] = { 0 }, last = { .method = 3, .destroy = true };

	begin(&held_one);
	rig_wait(rig_held, 1);
	begin(&last);
	finish(&last);
	finish(&held_one);
	assert_int_equal(held_one.result.error, -ECANCELED);
	assert_null(client);
	assert_int_equal(on_control(create, &options), 0);
	for (size_t i = 0; i < ARRAY_COUNT(waiting); i++) {
		waiting[i].method = 2;
		begin(&waiting[i]);
	}
	on_control(destroy, NULL);
	for (size_t i = 0; i < ARRAY_COUNT(waiting); i++) {
		finish(&waiting[i]);
		assert_int_equal(waiting[i].result.error, -ECANCELED);
	}
}

static void a_reply_after_the_server_closed_is_dropped(void **state)
{
	struct call call = { .method = 2 }, again = { .method = 1 };

	begin(&call);
	rig_wait(rig_held, 1);
	on_control(rig_close, NULL);
	finish(&call);
	assert_int_equal(call.result.error, -ECONNRESET);
	on_control(rig_release, NULL);
	run(&again);
	assert_int_equal(again.result.error, -ENOENT);
	rig_serve(state);
	run(&again);
	assert_int_equal(again.result.error, 0);
}

static void a_client_reconnects_to_a_restarted_server(void **state)
{
	struct call call = { .method = 3 };

	for (int i = 0; i < 5; i++) {
		run(&call);
		assert_int_equal(call.result.error, 0);
		on_control(rig_close, NULL);
		rig_serve(state);
	}
}

/* ---- the socket ---- */

static void the_socket_has_the_configured_mode(void **state)
{
	struct drpc_server_options options = rig_options();
	mode_t mask = umask(022);
	struct stat stat;

	assert_int_equal(lstat(rig_path, &stat), 0);
	assert_int_equal(stat.st_mode & 07777, 0600);
	on_control(rig_close, NULL);
	assert_int_equal(lstat(rig_path, &stat), -1);
	options.mode = 0666;
	assert_int_equal(on_control(rig_open, &options), 0);
	assert_int_equal(lstat(rig_path, &stat), 0);
	assert_int_equal(stat.st_mode & 07777, 0666);
	umask(mask);
}

static void a_path_in_use_is_refused_with_a_resolution(void **state)
{
	struct drpc_server_options options = rig_options();
	struct drpc_server *first = rig_server;
	char lock[80], pid[32];

	options.option = "a_key_of_yours";
	assert_int_equal(on_control(rig_open, &options), -EADDRINUSE);
	assert_ptr_equal(rig_server, first);
	assert_non_null(strstr(why.text, "choose another with a_key_of_yours"));
	snprintf(pid, sizeof(pid), "process %d", getpid());
	assert_non_null(strstr(why.text, pid));
	/* also if the serving process uses no lock */
	snprintf(lock, sizeof(lock), "%s.lock", rig_path);
	assert_int_equal(unlink(lock), 0);
	assert_int_equal(on_control(rig_open, &options), -EADDRINUSE);
	assert_ptr_equal(rig_server, first);
}

static void a_dead_servers_socket_is_replaced(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	memcpy(address.sun_path, rig_path, strlen(rig_path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
	rig_serve(state);
	rig_serve_no_more(state);
}

static void a_path_that_is_not_a_socket_is_refused(void **state)
{
	struct drpc_server_options options = rig_options();
	FILE *file = fopen(rig_path, "w");
	char longest[200];

	fclose(file);
	assert_int_equal(on_control(rig_open, &options), -EEXIST);
	unlink(rig_path);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	options.path = longest;
	assert_int_equal(on_control(rig_open, &options), -ENAMETOOLONG);
	options.path = "";
	assert_int_equal(on_control(rig_open, &options), -EINVAL);
}

static void a_missing_server_is_an_error_with_its_path(void **state)
{
	struct drpc_client_options options = { .path = rig_path };
	struct call call = { .method = 1 };

	assert_int_equal(on_control(create, &options), 0);
	run(&call);
	assert_int_equal(call.result.error, -ENOENT);
	assert_non_null(strstr(call.result.why.text, rig_path));
	on_control(destroy, NULL);
}

#define TALK(name) cmocka_unit_test_setup_teardown(name, with_client, without_client)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TALK(a_call_is_answered),
		TALK(a_call_without_a_body_is_answered),
		TALK(unknown_modules_and_methods_and_failures_have_their_status),
		TALK(the_caller_is_identified_by_the_kernel),
		TALK(messages_of_many_chunks_are_exchanged),
		TALK(a_message_over_the_limit_is_refused_by_its_sender),
		TALK(connections_are_kept_and_calls_wait_for_one),
		TALK(a_call_ends_at_its_time_out),
		TALK(a_reply_after_the_server_closed_is_dropped),
		TALK(a_client_reconnects_to_a_restarted_server),
		SERVED(the_socket_has_the_configured_mode),
		SERVED(a_path_in_use_is_refused_with_a_resolution),
		cmocka_unit_test(a_dead_servers_socket_is_replaced),
		cmocka_unit_test(a_path_that_is_not_a_socket_is_refused),
		cmocka_unit_test(a_missing_server_is_an_error_with_its_path),
		TALK(a_client_may_be_destroyed_in_a_callback_and_with_calls_in_progress),
	};

	return cmocka_run_group_tests_name("drpc channel", tests, rig_setup, rig_teardown);
}
