/* SPDX-License-Identifier: BSD-2-Clause */
/* The server over its socket: requests and replies, batches, bad input, slow and vanished clients, life of the socket. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include <sched.h>

#include "base/bits.h"
#include "reactor/reactor.h"
#include "rpc/rpc.h"

#include "../control_thread.h"

enum { REPLY_BYTES_MAX = 1 << 20, ANSWER_MS = 10000 };

static char directory[] = "/tmp/fathom-rpc-XXXXXX", path[64];

/* ---- methods ---- */

static void echo(struct rpc_request *request, const json_t *params)
{
	rpc_reply(request, json_incref((json_t *)params));
}

static void nothing(struct rpc_request *request, const json_t *params)
{
	if (rpc_params(request, params, NULL, NULL))
		rpc_reply(request, NULL);
}

static void refuse(struct rpc_request *request, const json_t *params)
{
	rpc_error(request, -ENODEV, "No such device: %s", "x");
}

/* Kept until "release" comes. */
static struct rpc_request *held[8];
static size_t held_count;

static void hold(struct rpc_request *request, const json_t *params)
{
	assert_true(held_count < ARRAY_COUNT(held));
	held[held_count++] = request;
}

static void release(struct rpc_request *request, const json_t *params)
{
	json_int_t count = (json_int_t)held_count;

	for (size_t i = 0; i < held_count; i++)
		rpc_reply(held[i], json_string("released"));
	held_count = 0;
	rpc_reply(request, json_integer(count));
}

struct big_params {
	uint32_t bytes;
};
static const struct rpc_param big_fields[] = { RPC_PARAM_U32("bytes", big_params, bytes, true), RPC_PARAM_END };

static void big(struct rpc_request *request, const json_t *params)
{
	struct big_params p = { 0 };
	char *text;

	if (!rpc_params(request, params, big_fields, &p))
		return;
	text = malloc(p.bytes);
	memset(text, 'x', p.bytes);
	rpc_reply(request, json_stringn(text, p.bytes));
	free(text);
}

static void number(struct rpc_request *request, const json_t *params)
{
	rpc_reply(request, json_pack("{s:O}", "is", json_object_get(params, "n")));
}

static const struct rpc_method methods[] = {
	{ "echo", RPC_ALWAYS, echo },	  { "nothing", RPC_ALWAYS, nothing }, { "refuse", RPC_ALWAYS, refuse },
	{ "hold", RPC_ALWAYS, hold },	  { "release", RPC_ALWAYS, release }, { "big", RPC_ALWAYS, big },
	{ "number", RPC_ALWAYS, number }, { "early", RPC_STARTUP, nothing },  { "late", RPC_RUNTIME, nothing },
};

static struct fault why;

static int open_server(void *ctx)
{
	return rpc_server_open(ctx, &why);
}

static int close_server(void *ctx)
{
	rpc_server_close();
	return 0;
}

static int setup(void **state)
{
	struct reactor_options options = { .simulated = false };
	cpu_set_t cpus;

	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/sock", directory);
	assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	for (unsigned int cpu = 0; cpuset_count(&options.cpus) == 0; cpu++) {
		if (CPU_ISSET(cpu, &cpus))
			cpuset_add(&options.cpus, cpu);
	}
	rpc_register(methods, ARRAY_COUNT(methods));
	control_start(&options);
	return 0;
}

static int teardown(void **state)
{
	control_stop();
	return rmdir(directory);
}

static int serve(void **state)
{
	assert_int_equal(on_control(open_server, path), 0);
	return 0;
}

static int serve_no_more(void **state)
{
	return on_control(close_server, NULL);
}

/* ---- a client ---- */

static int client(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* One line without its newline, "" at the end of the stream. */
static const char *hear(int fd)
{
	static char line[REPLY_BYTES_MAX];
	size_t used = 0;

	for (;;) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		const char *end;
		ssize_t there;

		assert_int_equal(poll(&ready, 1, ANSWER_MS), 1);
		there = recv(fd, line + used, sizeof(line) - used - 1, MSG_PEEK);
		if (there <= 0)
			break;
		end = memchr(line + used, '\n', (size_t)there);
		if (end)
			there = end - (line + used) + 1;
		assert_int_equal(recv(fd, line + used, (size_t)there, 0), there);
		used += (size_t)there - (end ? 1 : 0);
		if (end)
			break;
		assert_true(used < sizeof(line) - 1);
	}
	line[used] = '\0';
	return line;
}

static void expect(int fd, const char *wanted)
{
	assert_string_equal(hear(fd), wanted);
}

static void asks_and_hears(const char *question, const char *answer)
{
	int fd = client();

	say(fd, question);
	expect(fd, answer);
	close(fd);
}

#define OK(ID, RESULT) "{\"jsonrpc\":\"2.0\",\"id\":" ID ",\"result\":" RESULT "}"
#define BAD(ID, CODE, MESSAGE)                                                                                             \
	"{\"jsonrpc\":\"2.0\",\"id\":" ID ",\"error\":{\"code\":" CODE ",\"message\":\"" MESSAGE "\"}}"

/* ---- requests ---- */

static void answers_a_request_in_a_line(void **state)
{
	asks_and_hears("{\"jsonrpc\":\"2.0\",\"method\":\"nothing\",\"id\":7}", OK("7", "true"));
	asks_and_hears("{\"method\":\"echo\",\"id\":\"x\",\"params\":{\"a\":[1,2]}}", OK("\"x\"", "{\"a\":[1,2]}"));
	asks_and_hears("{\"method\":\"nothing\",\"id\":null,\"params\":null}", OK("null", "true"));
	asks_and_hears("{\"method\":\"refuse\",\"id\":1}", BAD("1", "-19", "No such device: x"));
}

static void answers_in_pieces_and_many_at_once(void **state)
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

static void says_what_is_wrong_with_a_request(void **state)
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
		  BAD("1", "-32602", "Invalid parameters: they are given by name, in an object") },
		{ "{\"method\":\"nothing\",\"id\":1,\"params\":{\"y\":1}}",
		  BAD("1", "-32602", "Invalid parameters: no parameter \\\"y\\\" here; there are none") },
		{ "[]", BAD("null", "-32600", "Invalid request: an empty batch") },
		{ "{\"method\":\"a\",\"method\":\"b\"}",
		  BAD("null", "-32600", "Invalid request: duplicate object key near '\\\"method\\\"'") },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		asks_and_hears(rows[i][0], rows[i][1]);
}

static void closes_after_an_answer_to_what_is_no_json(void **state)
{
	static const char *const rows[] = { "{\"a\":}", "hello", "{\"method\":\"nothing\",\"id\":1]", "{\"a\":\"\\ud800\"}",
					    "{\"a\":01}" };

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		int fd = client();

		say(fd, rows[i]);
		assert_non_null(
			strstr(hear(fd),
			       "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error: "));
		expect(fd, "");
		close(fd);
	}
}

static void closes_when_nesting_is_too_deep(void **state)
{
	int fd = client();

	for (int i = 0; i < 100; i++)
		(void)!send(fd, "[", 1, MSG_NOSIGNAL);
	assert_non_null(strstr(hear(fd), "nested deeper"));
	close(fd);
}

static void keeps_numbers_of_64_bits(void **state)
{
	asks_and_hears("{\"method\":\"number\",\"id\":1,\"params\":{\"n\":9223372036854775807}}",
		       OK("1", "{\"is\":9223372036854775807}"));
	asks_and_hears("{\"method\":\"number\",\"id\":1,\"params\":{\"n\":18446744073709551615}}",
		       OK("1", "{\"is\":\"18446744073709551615\"}"));
	asks_and_hears("{\"method\":\"number\",\"id\":1,\"params\":{\"s\":\"\\\" 18446744073709551615\",\"n\": "
		       "18446744073709551614 }}",
		       OK("1", "{\"is\":\"18446744073709551614\"}"));
}

static void answers_a_batch_in_one_line(void **state)
{
	asks_and_hears("[{\"method\":\"nothing\",\"id\":1},{\"method\":\"refuse\"},5,{\"method\":\"echo\",\"id\":2}]",
		       "[" OK("1", "true") "," BAD("null", "-32600",
						   "Invalid request: a request is an object") "," OK("2", "{}") "]");
}

static void is_silent_about_notifications(void **state)
{
	int fd = client();

	say(fd, "{\"method\":\"nothing\"}[{\"method\":\"refuse\"},{\"method\":\"no\"}]{\"method\":\"nothing\",\"id\":3}");
	expect(fd, OK("3", "true"));
	close(fd);
}

static void calls_by_state(void **state)
{
	rpc_set_state(RPC_STARTUP);
	asks_and_hears("{\"method\":\"early\",\"id\":1}", OK("1", "true"));
	asks_and_hears(
		"{\"method\":\"late\",\"id\":1}",
		BAD("1", "-1",
		    "late can be called only after framework_start_init; the engine was started with --wait-for-rpc"));
	rpc_set_state(RPC_RUNTIME);
	asks_and_hears("{\"method\":\"early\",\"id\":1}", BAD("1", "-1",
							      "early can be called only while an engine that was started "
							      "with --wait-for-rpc waits; this one has started"));
	asks_and_hears("{\"method\":\"late\",\"id\":1}", OK("1", "true"));
}

/* ---- later replies ---- */

static void completes_later_while_others_are_answered(void **state)
{
	int slow = client(), quick = client();

	say(slow, "[{\"method\":\"hold\",\"id\":1},{\"method\":\"nothing\",\"id\":2}]{\"method\":\"nothing\",\"id\":3}");
	expect(slow, OK("3", "true"));
	say(quick, "{\"method\":\"release\",\"id\":4}");
	expect(quick, OK("4", "1"));
	expect(slow, "[" OK("2", "true") "," OK("1", "\"released\"") "]");
	close(slow);
	close(quick);
}

static void a_late_reply_to_a_client_that_left_goes_nowhere(void **state)
{
	int gone = client(), other = client();

	say(gone, "{\"method\":\"hold\",\"id\":1}{\"method\":\"nothing\",\"id\":2}");
	expect(gone, OK("2", "true"));
	close(gone);
	/* by when this is answered, the server has seen that the first has left, or will meet it when it replies */
	say(other, "{\"method\":\"nothing\",\"id\":3}");
	expect(other, OK("3", "true"));
	say(other, "{\"method\":\"release\",\"id\":4}");
	expect(other, OK("4", "1"));
	close(other);
}

static void answers_a_client_that_has_only_stopped_sending(void **state)
{
	int half = client(), other = client();

	say(half, "{\"method\":\"hold\",\"id\":1}{\"method\":\"nothing\",\"id\":2}");
	assert_int_equal(shutdown(half, SHUT_WR), 0);
	expect(half, OK("2", "true"));
	say(other, "{\"method\":\"release\",\"id\":3}");
	expect(other, OK("3", "1"));
	expect(half, OK("1", "\"released\""));
	expect(half, "");
	close(half);
	close(other);
}

static void runs_what_a_client_sent_before_it_left(void **state)
{
	int gone = client(), other = client();

	say(gone, "{\"method\":\"hold\"}");
	close(gone);
	do
		say(other, "{\"method\":\"release\",\"id\":1}");
	while (strcmp(hear(other), OK("1", "0")) == 0);
	close(other);
}

/* ---- slow readers, many clients ---- */

static void a_client_that_does_not_read_stops_only_itself(void **state)
{
	static const char question[] = "{\"method\":\"big\",\"id\":1,\"params\":{\"bytes\":300000}}";
	int slow = client(), other = client(), count = 0;

	/* until the server takes no more: its limit, and what the sockets hold */
	for (struct pollfd ready = { .fd = slow, .events = POLLOUT }; count < 40 && poll(&ready, 1, 0) == 1; count++)
		say(slow, question);
	say(other, "{\"method\":\"nothing\",\"id\":2}");
	expect(other, OK("2", "true"));
	for (int i = 0; i < count; i++)
		assert_int_equal(strlen(hear(slow)), 300000 + strlen(OK("1", "\"\"")));
	close(slow);
	close(other);
}

static void serves_many_clients_and_makes_the_others_wait(void **state)
{
	int fds[RPC_CONNECTIONS_MAX + 1];

	for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
		fds[i] = client();
		say(fds[i], "{\"method\":\"nothing\",\"id\":1}");
		if (i < RPC_CONNECTIONS_MAX)
			expect(fds[i], OK("1", "true"));
	}
	close(fds[0]);
	expect(fds[RPC_CONNECTIONS_MAX], OK("1", "true"));
	for (size_t i = 1; i < ARRAY_COUNT(fds); i++)
		close(fds[i]);
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

static void calls_from_inside_as_from_outside(void **state)
{
	char nothing_name[] = "nothing", late_name[] = "late", none_name[] = "none";

	assert_int_equal(on_control(call_inside, nothing_name), 0);
	assert_string_equal(inside_message, "true");
	assert_int_equal(on_control(call_inside, late_name), RPC_CODE_INVALID_PARAMETERS);
	assert_int_equal(on_control(call_inside, none_name), RPC_CODE_METHOD_NOT_FOUND);
}

/* ---- the socket's life ---- */

static void the_socket_is_the_owners_alone(void **state)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void closing_removes_socket_and_lock(void **state)
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

/* A socket file that nobody listens on, as SIGKILL leaves it. */
static void leave_a_dead_socket(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

static void replaces_a_dead_servers_socket(void **state)
{
	leave_a_dead_socket();
	assert_int_equal(on_control(open_server, path), 0);
	asks_and_hears("{\"method\":\"nothing\",\"id\":1}", OK("1", "true"));
	assert_int_equal(on_control(close_server, NULL), 0);
}

static void refuses_a_path_that_is_served(void **state)
{
	char ready;
	int pipe_fds[2], status;
	pid_t pid;

	/* by another process, without a lock of ours */
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

static void refuses_a_path_that_is_no_socket(void **state)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(on_control(open_server, path), -EEXIST);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

static void refuses_a_path_too_long_or_nowhere(void **state)
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

#define SERVED(TEST) cmocka_unit_test_setup_teardown(TEST, serve, serve_no_more)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(calls_by_state),
		SERVED(answers_a_request_in_a_line),
		SERVED(answers_in_pieces_and_many_at_once),
		SERVED(says_what_is_wrong_with_a_request),
		SERVED(closes_after_an_answer_to_what_is_no_json),
		SERVED(closes_when_nesting_is_too_deep),
		SERVED(keeps_numbers_of_64_bits),
		SERVED(answers_a_batch_in_one_line),
		SERVED(is_silent_about_notifications),
		SERVED(completes_later_while_others_are_answered),
		SERVED(a_late_reply_to_a_client_that_left_goes_nowhere),
		SERVED(answers_a_client_that_has_only_stopped_sending),
		SERVED(runs_what_a_client_sent_before_it_left),
		SERVED(a_client_that_does_not_read_stops_only_itself),
		SERVED(serves_many_clients_and_makes_the_others_wait),
		SERVED(calls_from_inside_as_from_outside),
		SERVED(the_socket_is_the_owners_alone),
		cmocka_unit_test(closing_removes_socket_and_lock),
		cmocka_unit_test(replaces_a_dead_servers_socket),
		cmocka_unit_test(refuses_a_path_that_is_served),
		cmocka_unit_test(refuses_a_path_that_is_no_socket),
		cmocka_unit_test(refuses_a_path_too_long_or_nowhere),
	};

	return cmocka_run_group_tests_name("rpc server", tests, setup, teardown);
}
