/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server over its socket: requests and replies, batches, invalid input, slow and vanished clients, life of the socket.
 */
#include "rig.h"

static void assert_answered(const char *question, const char *answer)
{
	int fd = client();

	send_text(fd, question);
	expect(fd, answer);
	close(fd);
}

/* ---- requests ---- */

static void a_request_is_answered_in_one_line(void **state)
{
	assert_answered("{\"jsonrpc\":\"2.0\",\"method\":\"nothing\",\"id\":7}", OK("7", "true"));
	assert_answered("{\"method\":\"echo\",\"id\":\"x\",\"params\":{\"a\":[1,2]}}", OK("\"x\"", "{\"a\":[1,2]}"));
	assert_answered("{\"method\":\"nothing\",\"id\":null,\"params\":null}", OK("null", "true"));
	assert_answered("{\"method\":\"refuse\",\"id\":1}", BAD("1", "-19", "No such device: x"));
}

static void requests_in_pieces_and_many_at_once_are_answered(void **state)
{
	static const char text[] =
		"{\"method\":\"nothing\",\"id\":1}{\"method\":\"nothing\",\"id\":2}\n {\"method\":\"nothing\",\"id\":3}";
	int fd = client();

	for (size_t i = 0; i < sizeof(text) - 1; i++)
		assert_int_equal(send(fd, &text[i], 1, MSG_NOSIGNAL), 1);
	expect(fd, OK("1", "true"));
	expect(fd, OK("2", "true"));
	expect(fd, OK("3", "true"));
	close(fd);
}

static void an_invalid_request_is_answered_with_its_error(void **state)
{
	static const char *const rows[][2] = {
		{ "{\"method\":\"no\",\"id\":1}", BAD("1", "-32601", "Method not found: there is no \\\"no\\\"") },
		{ "{\"id\":1}", BAD("1", "-32600", "Invalid request: \\\"method\\\" is missing, or not a string") },
		{ "{\"jsonrpc\":\"1.0\",\"method\":\"nothing\",\"id\":1}",
		  BAD("1", "-32600", "Invalid request: \\\"jsonrpc\\\" is not \\\"2.0\\\"") },
		{ "{\"method\":\"nothing\",\"id\":1,\"x\":2}",
		  BAD("1", "-32600",
		      "Invalid request: no member \\\"x\\\" in a request; there are jsonrpc, method, params, id") },
		{ "{\"method\":\"nothing\",\"id\":{}}",
		  BAD("null", "-32600", "Invalid request: \\\"id\\\" is not a string, a number or null") },
		{ "{\"method\":\"nothing\",\"id\":1,\"params\":5}",
		  BAD("1", "-32600", "Invalid request: \\\"params\\\" is not an object") },
		{ "{\"method\":\"nothing\",\"id\":1,\"params\":[]}",
		  BAD("1", "-32602", "Invalid parameters: \\\"params\\\" must be an object") },
		{ "{\"method\":\"nothing\",\"id\":1,\"params\":{\"y\":1}}",
		  BAD("1", "-32602", "Invalid parameters: no parameter \\\"y\\\" here; there are none") },
		{ "[]", BAD("null", "-32600", "Invalid request: an empty batch") },
		{ "{\"method\":\"a\",\"method\":\"b\"}",
		  BAD("null", "-32600", "Invalid request: duplicate object key near '\\\"method\\\"'") },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		assert_answered(rows[i][0], rows[i][1]);
}

static void the_connection_is_closed_after_invalid_json(void **state)
{
	static const char *const rows[] = { "{\"a\":}", "hello", "{\"method\":\"nothing\",\"id\":1]", "{\"a\":\"\\ud800\"}",
					    "{\"a\":01}" };

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		int fd = client();

		send_text(fd, rows[i]);
		assert_non_null(
			strstr(read_line(fd),
			       "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error: "));
		expect(fd, "");
		close(fd);
	}
}

static void the_connection_is_closed_if_nesting_is_too_deep(void **state)
{
	int fd = client();

	for (int i = 0; i < 100; i++)
		(void)!send(fd, "[", 1, MSG_NOSIGNAL);
	assert_non_null(strstr(read_line(fd), "nested deeper"));
	close(fd);
}

static void numbers_of_64_bits_are_exact(void **state)
{
	assert_answered("{\"method\":\"number\",\"id\":1,\"params\":{\"n\":9223372036854775807}}",
			OK("1", "{\"is\":9223372036854775807}"));
	assert_answered("{\"method\":\"number\",\"id\":1,\"params\":{\"n\":18446744073709551615}}",
			OK("1", "{\"is\":\"18446744073709551615\"}"));
	assert_answered("{\"method\":\"number\",\"id\":1,\"params\":{\"s\":\"\\\" 18446744073709551615\",\"n\": "
			"18446744073709551614 }}",
			OK("1", "{\"is\":\"18446744073709551614\"}"));
}

static void a_batch_is_answered_in_one_line(void **state)
{
	assert_answered("[{\"method\":\"nothing\",\"id\":1},{\"method\":\"refuse\"},5,{\"method\":\"echo\",\"id\":2}]",
			"[" OK("1", "true") "," BAD("null", "-32600",
						    "Invalid request: a request is an object") "," OK("2", "{}") "]");
}

static void notifications_are_not_answered(void **state)
{
	int fd = client();

	send_text(fd,
		  "{\"method\":\"nothing\"}[{\"method\":\"refuse\"},{\"method\":\"no\"}]{\"method\":\"nothing\",\"id\":3}");
	expect(fd, OK("3", "true"));
	close(fd);
}

static void methods_are_refused_in_other_states(void **state)
{
	rpc_set_state(RPC_STARTUP);
	assert_answered("{\"method\":\"early\",\"id\":1}", OK("1", "true"));
	assert_answered(
		"{\"method\":\"late\",\"id\":1}",
		BAD("1", "-1",
		    "late can be called only after framework_start_init; the engine was started with --wait-for-rpc"));
	rpc_set_state(RPC_RUNTIME);
	assert_answered("{\"method\":\"early\",\"id\":1}", BAD("1", "-1",
							       "early can be called only while an engine that was started "
							       "with --wait-for-rpc waits; this one has started"));
	assert_answered("{\"method\":\"late\",\"id\":1}", OK("1", "true"));
}

/* ---- later replies ---- */

static int hold_calls(void *ctx)
{
	rpc_hold_calls(ctx != NULL);
	return 0;
}

/* The engine starts without a call of framework_start_init. */
static void calls_wait_while_the_engine_starts(void **state)
{
	int first = client(), second = client();

	rpc_set_state(RPC_STARTUP);
	on_control(hold_calls, path);
	send_text(first, "{\"method\":\"late\",\"id\":1}{\"method\":\"early\",\"id\":2}");
	expect(first, OK("2", "true"));
	send_text(second, "{\"method\":\"late\",\"id\":3,\"params\":{\"x\":1}}");
	send_text(second, "{\"method\":\"early\",\"id\":4}");
	expect(second, OK("4", "true"));
	rpc_set_state(RPC_RUNTIME);
	on_control(hold_calls, NULL);
	expect(first, OK("1", "true"));
	expect(second, BAD("3", "-32602", "Invalid parameters: no parameter \\\"x\\\" here; there are none"));
	close(first);
	close(second);
}

static void calls_that_wait_end_when_the_server_closes(void **state)
{
	int fd;

	assert_int_equal(on_control(open_server, path), 0);
	rpc_set_state(RPC_STARTUP);
	on_control(hold_calls, path);
	fd = client();
	send_text(fd, "{\"method\":\"late\",\"id\":1}{\"method\":\"early\",\"id\":2}");
	expect(fd, OK("2", "true"));
	on_control(close_server, NULL);
	expect(fd, BAD("1", "-1", "the engine stops before it is ready"));
	expect(fd, "");
	close(fd);
	rpc_set_state(RPC_RUNTIME);
}

static void other_requests_are_answered_during_a_held_one(void **state)
{
	int slow = client(), quick = client();

	send_text(slow,
		  "[{\"method\":\"hold\",\"id\":1},{\"method\":\"nothing\",\"id\":2}]{\"method\":\"nothing\",\"id\":3}");
	expect(slow, OK("3", "true"));
	send_text(quick, "{\"method\":\"release\",\"id\":4}");
	expect(quick, OK("4", "1"));
	expect(slow, "[" OK("2", "true") "," OK("1", "\"released\"") "]");
	close(slow);
	close(quick);
}

static void a_reply_to_a_client_that_left_is_dropped(void **state)
{
	int gone = client(), other = client();

	send_text(gone, "{\"method\":\"hold\",\"id\":1}{\"method\":\"nothing\",\"id\":2}");
	expect(gone, OK("2", "true"));
	close(gone);
	/* after this answer the server has noticed that the first client left, or notices when it replies */
	send_text(other, "{\"method\":\"nothing\",\"id\":3}");
	expect(other, OK("3", "true"));
	send_text(other, "{\"method\":\"release\",\"id\":4}");
	expect(other, OK("4", "1"));
	close(other);
}

static void a_client_that_only_stopped_sending_is_answered(void **state)
{
	int half = client(), other = client();

	send_text(half, "{\"method\":\"hold\",\"id\":1}{\"method\":\"nothing\",\"id\":2}");
	assert_int_equal(shutdown(half, SHUT_WR), 0);
	expect(half, OK("2", "true"));
	send_text(other, "{\"method\":\"release\",\"id\":3}");
	expect(other, OK("3", "1"));
	expect(half, OK("1", "\"released\""));
	expect(half, "");
	close(half);
	close(other);
}

static void requests_sent_before_a_client_left_are_executed(void **state)
{
	int gone = client(), other = client();

	send_text(gone, "{\"method\":\"hold\"}");
	close(gone);
	do
		send_text(other, "{\"method\":\"release\",\"id\":1}");
	while (strcmp(read_line(other), OK("1", "0")) == 0);
	close(other);
}

/* ---- slow readers, many clients ---- */

static void a_client_that_does_not_read_delays_only_itself(void **state)
{
	static const char question[] = "{\"method\":\"big\",\"id\":1,\"params\":{\"bytes\":300000}}";
	int slow = client(), other = client(), count = 0;

	/* until the server reads no more: its limit and the socket buffers are full */
	for (struct pollfd ready = { .fd = slow, .events = POLLOUT }; count < 40 && poll(&ready, 1, 0) == 1; count++)
		send_text(slow, question);
	send_text(other, "{\"method\":\"nothing\",\"id\":2}");
	expect(other, OK("2", "true"));
	for (int i = 0; i < count; i++)
		assert_int_equal(strlen(read_line(slow)), 300000 + strlen(OK("1", "\"\"")));
	close(slow);
	close(other);
}

/* ---- from inside the process ---- */

static int inside_code;
static char inside_message[RPC_MESSAGE_BYTES_MAX];

static void inside_done(void *ctx, int code, const char *message, const json_t *result)
{
	inside_code = code;
	snprintf(inside_message, sizeof(inside_message), "%s", message ? message : json_is_true(result) ? "true" : "?");
}

static int call_inside(void *ctx)
{
	json_t *params = json_pack("{s:i}", "y", 1);

	rpc_call(ctx, strcmp(ctx, "nothing") == 0 ? NULL : params, inside_done, NULL);
	json_decref(params);
	return inside_code;
}

static void calls_within_the_process_give_the_same_results(void **state)
{
	char nothing_name[] = "nothing", late_name[] = "late", none_name[] = "none";

	assert_int_equal(on_control(call_inside, nothing_name), 0);
	assert_string_equal(inside_message, "true");
	assert_int_equal(on_control(call_inside, late_name), RPC_CODE_INVALID_PARAMETERS);
	assert_int_equal(on_control(call_inside, none_name), RPC_CODE_METHOD_NOT_FOUND);
}

/* ---- the socket's life ---- */

static void only_the_owner_may_use_the_socket(void **state)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void closing_removes_the_socket_and_the_lock(void **state)
{
	char lock_path[80];
	int fd;

	snprintf(lock_path, sizeof(lock_path), "%s.lock", path);
	assert_int_equal(on_control(open_server, path), 0);
	fd = client();
	assert_int_equal(access(lock_path, F_OK), 0);
	assert_int_equal(on_control(close_server, NULL), 0);
	expect(fd, "");
	close(fd);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(access(lock_path, F_OK), -1);
}

/* A socket file on which no process listens, as SIGKILL leaves it. */
static void leave_a_dead_socket(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

static void a_dead_servers_socket_is_replaced(void **state)
{
	leave_a_dead_socket();
	assert_int_equal(on_control(open_server, path), 0);
	assert_answered("{\"method\":\"nothing\",\"id\":1}", OK("1", "true"));
	assert_int_equal(on_control(close_server, NULL), 0);
}

static void a_path_in_use_is_refused(void **state)
{
	char ready;
	int pipe_fds[2], status;
	pid_t pid;

	/* served by another process that uses no lock */
	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	if (pid == 0) {
		struct sockaddr_un address = { .sun_family = AF_UNIX };
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		memcpy(address.sun_path, path, strlen(path) + 1);
		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0)
			(void)!write(pipe_fds[1], "r", 1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(pipe_fds[0], &ready, 1), 1);
	assert_int_equal(on_control(open_server, path), -EADDRINUSE);
	assert_non_null(strstr(why.text, "serves this socket already"));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	assert_int_equal(on_control(open_server, path), 0);
	assert_int_equal(on_control(close_server, NULL), 0);
}

static void a_path_that_is_not_a_socket_is_refused(void **state)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(on_control(open_server, path), -EEXIST);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

static void a_path_that_is_too_long_or_missing_is_refused(void **state)
{
	char longest[200], nowhere[] = "/nonexistent/sock";

	memset(longest, 'x', sizeof(longest) - 1);
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(on_control(open_server, longest), -ENAMETOOLONG);
	assert_int_equal(on_control(open_server, ""), -EINVAL);
	assert_non_null(strstr(why.text, "empty"));
	assert_int_equal(on_control(open_server, nowhere), -ENOENT);
	assert_non_null(strstr(why.text, nowhere));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(methods_are_refused_in_other_states),
		SERVED(a_request_is_answered_in_one_line),
		SERVED(calls_wait_while_the_engine_starts),
		cmocka_unit_test(calls_that_wait_end_when_the_server_closes),
		SERVED(requests_in_pieces_and_many_at_once_are_answered),
		SERVED(an_invalid_request_is_answered_with_its_error),
		SERVED(the_connection_is_closed_after_invalid_json),
		SERVED(the_connection_is_closed_if_nesting_is_too_deep),
		SERVED(numbers_of_64_bits_are_exact),
		SERVED(a_batch_is_answered_in_one_line),
		SERVED(notifications_are_not_answered),
		SERVED(other_requests_are_answered_during_a_held_one),
		SERVED(a_reply_to_a_client_that_left_is_dropped),
		SERVED(a_client_that_only_stopped_sending_is_answered),
		SERVED(requests_sent_before_a_client_left_are_executed),
		SERVED(a_client_that_does_not_read_delays_only_itself),
		SERVED(calls_within_the_process_give_the_same_results),
		SERVED(only_the_owner_may_use_the_socket),
		cmocka_unit_test(closing_removes_the_socket_and_the_lock),
		cmocka_unit_test(a_dead_servers_socket_is_replaced),
		cmocka_unit_test(a_path_in_use_is_refused),
		cmocka_unit_test(a_path_that_is_not_a_socket_is_refused),
		cmocka_unit_test(a_path_that_is_too_long_or_missing_is_refused),
	};

	return cmocka_run_group_tests_name("rpc server", tests, setup, teardown);
}
