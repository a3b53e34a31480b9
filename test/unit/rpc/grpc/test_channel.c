/* SPDX-License-Identifier: BSD-2-Clause */
/* Our client and server in one process: calls, deadlines, concurrent calls, limits, orderly shutdown. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "base/clock.h"

#include "../../control_thread.h"
#include "echo.h"

static struct grpc_server *server;
static struct grpc_client *client;
static struct fathom_fault why;
static char address[32];

struct call {
	const char *path;
	int32_t code;
	const char *message;
	uint64_t timeout_ns;
	bool destroy;
	struct grpc_client *of; /* NULL: the default client */
	/* the result */
	enum grpc_code status;
	int error;
	int32_t response_code;
	char text[256];
	size_t response_bytes;
	char info[64];
	sem_t done;
};

static void note(void *ctx, const struct grpc_result *result)
{
	struct call *call = ctx;
	const Google__Rpc__Status *response = (const Google__Rpc__Status *)result->response;

	call->status = result->code;
	call->error = result->error;
	snprintf(call->text, sizeof(call->text), "%.250s", response ? response->message : result->message);
	call->response_bytes = response ? strlen(response->message) : 0;
	call->response_code = response ? response->code : 0;
	if (result->info)
		snprintf(call->info, sizeof(call->info), "%s", result->info->reason);
	if (call->destroy) {
		grpc_client_destroy(client);
		client = NULL;
	}
	sem_post(&call->done);
}

static int start(void *ctx)
{
	struct call *call = ctx;
	Google__Rpc__Status request = GOOGLE__RPC__STATUS__INIT;

	request.code = call->code;
	request.message = (char *)(call->message ? call->message : "");
	return grpc_client_call(call->of ? call->of : client,
				&(struct grpc_request){
					.address = address,
					.path = call->path ? call->path : "/test.Echo/Say",
					.message = &request.base,
					.response = &google__rpc__status__descriptor,
					.timeout_ns = call->timeout_ns ? call->timeout_ns : 60 * NS_PER_SEC,
					.done = note,
					.ctx = call,
				});
}

static void begin(struct call *call)
{
	sem_init(&call->done, 0, 0);
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

static struct grpc_server_options server_options;
static uint64_t client_keepalive_ns;

static int open_both(void *unused)
{
	struct grpc_client_options options = { .role = GRPC_ROLE_ADMIN,
					       .version = "2.9.100",
					       .keepalive_ns = client_keepalive_ns };
	int error = grpc_server_open(&server_options, &server, &why);

	if (!error)
		snprintf(address, sizeof(address), "127.0.0.1:%u", grpc_server_port(server));
	return error ? error : grpc_client_create(&options, &client, &why);
}

static int close_both(void *unused)
{
	grpc_client_destroy(client);
	client = NULL;
	grpc_server_close(server);
	server = NULL;
	echo_release();
	return 0;
}

static int setup(void **state)
{
	client_keepalive_ns = 0;
	server_options = (struct grpc_server_options){ .address = "127.0.0.1:0",
						       .methods = echo_methods,
						       .method_count = ARRAY_COUNT(echo_methods),
						       .streams_max = 100 };
	return on_control(open_both, NULL);
}

static int teardown(void **state)
{
	return on_control(close_both, NULL);
}

static int held(void *unused)
{
	return (int)echo_held_count;
}

static int renew(void *unused)
{
	grpc_server_renew(server);
	grpc_client_renew(client);
	return 0;
}

static int release(void *unused)
{
	echo_release();
	return 0;
}

static void wait_held(int wanted)
{
	for (int i = 0; on_control(held, NULL) != wanted; i++) {
		assert_true(i < 20000);
		usleep(500);
	}
}

static void a_call_is_answered(void **state)
{
	struct call call = { .code = -5, .message = "h\xc3\xa9llo" }, who = { .path = "/test.Echo/Who" };

	run(&call);
	assert_int_equal(call.status, GRPC_OK);
	assert_int_equal(call.response_code, -5);
	assert_string_equal(call.text, call.message);
	run(&who);
	assert_string_equal(who.text, "admin admin 2.9.100");
	assert_int_equal(who.response_code, 1);
	assert_int_equal(grpc_server_stats(server).connections_total, 1);
}

static void an_error_has_its_code_message_and_details(void **state)
{
	struct call call = { .path = "/test.Echo/Fail", .code = GRPC_NOT_FOUND, .message = "100 %\nno pool" };
	struct call none = { .path = "/test.Echo/None" }, admin = { .path = "/test.Echo/Admin", .message = "x" };

	run(&call);
	assert_int_equal(call.status, GRPC_NOT_FOUND);
	assert_int_equal(call.error, 0);
	assert_string_equal(call.text, "100 %\nno pool");
	assert_string_equal(call.info, "proto.fault.Fault");
	run(&none);
	assert_int_equal(none.status, GRPC_UNIMPLEMENTED);
	run(&admin);
	assert_int_equal(admin.status, GRPC_OK);
}

static void messages_up_to_the_limit_are_accepted(void **state)
{
	struct call big = { .path = "/test.Echo/Big", .code = GRPC_ANSWER_BYTES_MAX - 16 },
		    over = { .path = "/test.Echo/Big", .code = GRPC_ANSWER_BYTES_MAX };
	struct call sent = { .message = NULL };
	char *text = malloc((4 << 20) + 1);

	run(&big);
	assert_int_equal(big.status, GRPC_OK);
	assert_int_equal(big.response_bytes, GRPC_ANSWER_BYTES_MAX - 16);
	run(&over);
	assert_int_equal(over.status, GRPC_RESOURCE_EXHAUSTED);
	memset(text, 'x', 4 << 20);
	text[(4 << 20) - 16] = '\0';
	sent.message = text;
	run(&sent);
	assert_int_equal(sent.status, GRPC_OK);
	text[(4 << 20) - 16] = 'x';
	text[4 << 20] = '\0';
	run(&sent);
	assert_int_equal(sent.status, GRPC_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(sent.text, "4194304"));
	free(text);
}

static void many_calls_share_a_connection(void **state)
{
	static struct call calls[1000];

	memset(calls, 0, sizeof(calls));
	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		calls[i].code = (int32_t)i;
		calls[i].path = i % 10 ? NULL : "/test.Echo/Big";
		begin(&calls[i]);
	}
	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		finish(&calls[i]);
		assert_int_equal(calls[i].status, GRPC_OK);
		if (i % 10)
			assert_int_equal(calls[i].response_code, i);
		else
			assert_int_equal(calls[i].response_bytes, i);
	}
	assert_int_equal(grpc_client_stats(client).connections_total, 1);
}

static void a_call_ends_at_its_deadline(void **state)
{
	struct call call = { .path = "/test.Echo/Hold", .timeout_ns = 50 * NS_PER_MS }, after = { .code = 3 };

	run(&call);
	assert_int_equal(call.status, GRPC_DEADLINE_EXCEEDED);
	on_control(release, NULL);
	run(&after);
	assert_int_equal(after.status, GRPC_OK);
}

static void an_unreachable_or_invalid_address_is_an_error(void **state)
{
	struct call call = { .code = 1 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	snprintf(address, sizeof(address), "127.0.0.1:1");
	run(&call);
	assert_int_equal(call.status, GRPC_UNAVAILABLE);
	assert_int_equal(call.error, -ECONNREFUSED);
	snprintf(address, sizeof(address), "localhost:1");
	assert_int_equal(on_control(start, &call), -EINVAL);
	snprintf(address, sizeof(address), "[::1]");
	assert_int_equal(on_control(start, &call), -EINVAL);
	close(fd);
}

static void drained(void *ctx)
{
	sem_post(ctx);
}

static int drain(void *done)
{
	grpc_server_drain(server, 60 * NS_PER_SEC, drained, done);
	return 0;
}

static int close_server(void *unused)
{
	grpc_server_close(server);
	server = NULL;
	return 0;
}

static void a_draining_server_completes_its_calls(void **state)
{
	struct call calls[5] = { 0 }, late = { .code = 1 };
	sem_t done;

	sem_init(&done, 0, 0);
	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		calls[i].path = "/test.Echo/Hold";
		begin(&calls[i]);
	}
	wait_held(5);
	on_control(drain, &done);
	run(&late);
	assert_int_equal(late.status, GRPC_UNAVAILABLE);
	assert_int_equal(sem_trywait(&done), -1);
	on_control(release, NULL);
	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		finish(&calls[i]);
		assert_int_equal(calls[i].status, GRPC_OK);
	}
	while (sem_wait(&done))
		;
	assert_int_equal(grpc_server_stats(server).connections, 0);
	on_control(close_server, NULL);
}

static int connections(void *unused)
{
	return (int)grpc_server_stats(server).connections;
}

/* As after certificates were replaced: calls in progress end on the old connection, new calls use a new one. */
static void a_renewed_connection_completes_its_calls(void **state)
{
	struct call call = { .path = "/test.Echo/Hold" }, next = { .code = 1 };

	begin(&call);
	wait_held(1);
	on_control(renew, NULL);
	run(&next);
	assert_int_equal(next.status, GRPC_OK);
	assert_int_equal(grpc_client_stats(client).connections_total, 2);
	on_control(release, NULL);
	finish(&call);
	assert_int_equal(call.status, GRPC_OK);
	while (on_control(connections, NULL) > 1)
		usleep(1000);
	run(&next);
	assert_int_equal(grpc_client_stats(client).connections_total, 2);
}

static void a_server_that_is_closed_ends_its_calls(void **state)
{
	struct call call = { .path = "/test.Echo/Hold" };

	begin(&call);
	wait_held(1);
	on_control(close_server, NULL);
	finish(&call);
	assert_int_equal(call.status, GRPC_UNAVAILABLE);
	on_control(release, NULL);
}

static int destroy_client(void *unused)
{
	grpc_client_destroy(client);
	client = NULL;
	return 0;
}

static void a_client_may_be_destroyed_with_calls_in_progress_and_in_a_callback(void **state)
{
	struct call calls[10] = { 0 }, last = { .destroy = true };

	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		calls[i].path = "/test.Echo/Hold";
		begin(&calls[i]);
	}
	wait_held(10);
	run(&last);
	assert_int_equal(last.status, GRPC_OK);
	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		finish(&calls[i]);
		assert_int_equal(calls[i].status, GRPC_CANCELLED);
	}
	on_control(release, NULL);
	on_control(destroy_client, NULL); /* no client */
}

static int group_setup(void **state)
{
	struct reactor_options none = { .simulated = false };

	control_start(&none);
	return 0;
}

static int group_teardown(void **state)
{
	control_stop();
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- keep-alive pings ---- */

enum { FRAME_HEADER_BYTES = 9, FRAME_SETTINGS = 4, FRAME_PING = 6, FLAG_ACK = 1, PING_BYTES = 8 };

static void open_again(uint64_t server_keepalive_ns, uint64_t client_ns)
{
	on_control(close_both, NULL);
	server_options.keepalive_ns = server_keepalive_ns;
	client_keepalive_ns = client_ns;
	assert_int_equal(on_control(open_both, NULL), 0);
}

static bool read_whole(int fd, uint8_t *data, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t count = recv(fd, data + at, bytes - at, 0);

		if (count <= 0)
			return false;
		at += (size_t)count;
	}
	return true;
}

/* Speak enough HTTP/2 to answer `answers` pings, then be silent. Return the number of pings received until the end. */
static int converse(int fd, int answers)
{
	static const uint8_t settings[FRAME_HEADER_BYTES] = { [3] = FRAME_SETTINGS };
	uint8_t frame[FRAME_HEADER_BYTES + (1 << 14)];
	int pings = 0;

	assert_int_equal(send(fd, settings, sizeof(settings), 0), sizeof(settings));
	while (read_whole(fd, frame, FRAME_HEADER_BYTES)) {
		size_t bytes = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];

		assert_true(bytes <= 1 << 14);
		if (!read_whole(fd, frame + FRAME_HEADER_BYTES, bytes))
			break;
		if (frame[3] != FRAME_PING || frame[4] & FLAG_ACK)
			continue;
		assert_int_equal(bytes, PING_BYTES);
		frame[4] = FLAG_ACK;
		if (pings++ < answers)
			assert_int_equal(send(fd, frame, FRAME_HEADER_BYTES + bytes, 0), FRAME_HEADER_BYTES + bytes);
	}
	close(fd);
	return pings;
}

static int connect_silent(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)grpc_server_port(server)) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static int connect_raw(void)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	int fd = connect_silent();

	assert_int_equal(send(fd, preface, sizeof(preface) - 1, 0), sizeof(preface) - 1);
	return fd;
}

/* ---- more clients than the server has room for ---- */

enum { PLACES = 4, CLIENTS = 12, ROUNDS = 20 };

static int open_clients(void *ctx)
{
	struct grpc_client **clients = ctx;

	for (int i = 0; i < CLIENTS; i++)
		must(grpc_client_create(&(struct grpc_client_options){ .role = GRPC_ROLE_ADMIN }, &clients[i], NULL) == 0);
	return 0;
}

static int close_clients(void *ctx)
{
	struct grpc_client **clients = ctx;

	for (int i = 0; i < CLIENTS; i++)
		grpc_client_destroy(clients[i]);
	return 0;
}

/*
 * Three clients for each connection, each with one call after the other. A client without a call is disconnected to make
 * room, and none of its calls fails.
 */
static void all_calls_of_more_clients_than_connections_are_answered(void **state)
{
	struct grpc_client *clients[CLIENTS];
	static struct call calls[CLIENTS];

	server_options.connections_max = PLACES;
	open_again(0, 0);
	on_control(open_clients, clients);
	for (int round = 0; round < ROUNDS; round++) {
		memset(calls, 0, sizeof(calls));
		for (int i = 0; i < CLIENTS; i++) {
			calls[i].of = clients[i];
			calls[i].code = round;
			begin(&calls[i]);
		}
		for (int i = 0; i < CLIENTS; i++) {
			finish(&calls[i]);
			if (calls[i].status != GRPC_OK)
				fail_msg("round %d, client %d: %s", round, i, calls[i].text);
		}
		assert_true(grpc_server_stats(server).connections <= PLACES);
	}
	on_control(close_clients, clients);
}

/*
 * A new connection is about to make a call. If it was disconnected for others, no call would succeed under many new
 * connections.
 */
static void a_connection_without_a_handshake_is_not_disconnected_early(void **state)
{
	struct call call = { .code = 7 };
	uint8_t data[256];
	int silent[2];

	server_options.connections_max = ARRAY_COUNT(silent);
	server_options.handshake_timeout_ns = 500 * NS_PER_MS;
	open_again(0, 0);
	for (size_t i = 0; i < ARRAY_COUNT(silent); i++)
		silent[i] = connect_silent();
	begin(&call);
	usleep(100000);
	for (size_t i = 0; i < ARRAY_COUNT(silent); i++) {
		while (recv(silent[i], data, sizeof(data), MSG_DONTWAIT) > 0)
			;
		assert_int_equal(errno, EAGAIN);
	}
	finish(&call); /* when the time-out of their handshake has passed */
	assert_int_equal(call.status, GRPC_OK);
	for (size_t i = 0; i < ARRAY_COUNT(silent); i++)
		close(silent[i]);
}

/* The server sends GOAWAY, the client does not leave, and the server closes the connection. */
static void an_idle_client_that_ignores_goaway_is_disconnected(void **state)
{
	struct call call = { .code = 7 };
	int fd;

	server_options.connections_max = 1;
	open_again(0, 0);
	fd = connect_raw();
	assert_int_equal(send(fd, (uint8_t[FRAME_HEADER_BYTES]){ [3] = FRAME_SETTINGS }, FRAME_HEADER_BYTES, 0),
			 FRAME_HEADER_BYTES);
	run(&call);
	assert_int_equal(call.status, GRPC_OK);
	close(fd);
}

static void a_client_that_does_not_answer_a_ping_is_disconnected(void **state)
{
	open_again(50 * NS_PER_MS, 0);
	assert_int_equal(converse(connect_raw(), 0), 1);
}

static void a_client_that_answers_pings_stays_connected(void **state)
{
	open_again(500 * NS_PER_MS, 0); /* long enough to answer also on a busy machine */
	assert_int_equal(converse(connect_raw(), 2), 3);
}

/* A server that accepts the call and sends no response. */
static void call_raw(int answers)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct call call = { .message = "anybody there?" };
	socklen_t bytes = sizeof(at);
	uint8_t preface[24];
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(at.sin_port));
	begin(&call);
	fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	close(listener);
	assert_true(read_whole(fd, preface, sizeof(preface)));
	assert_int_equal(converse(fd, answers), answers + 1);
	finish(&call);
	assert_int_equal(call.status, GRPC_UNAVAILABLE);
	assert_non_null(strstr(call.text, "does not answer"));
}

static void a_server_that_does_not_answer_a_ping_is_disconnected(void **state)
{
	open_again(0, 50 * NS_PER_MS);
	call_raw(0);
}

static void a_call_waits_for_a_server_that_answers_pings(void **state)
{
	open_again(0, 500 * NS_PER_MS);
	call_raw(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_call_is_answered),
		CASE(an_error_has_its_code_message_and_details),
		CASE(messages_up_to_the_limit_are_accepted),
		CASE(many_calls_share_a_connection),
		CASE(a_call_ends_at_its_deadline),
		CASE(an_unreachable_or_invalid_address_is_an_error),
		CASE(a_draining_server_completes_its_calls),
		CASE(a_renewed_connection_completes_its_calls),
		CASE(a_server_that_is_closed_ends_its_calls),
		CASE(a_client_may_be_destroyed_with_calls_in_progress_and_in_a_callback),
		CASE(all_calls_of_more_clients_than_connections_are_answered),
		CASE(a_connection_without_a_handshake_is_not_disconnected_early),
		CASE(an_idle_client_that_ignores_goaway_is_disconnected),
		CASE(a_client_that_does_not_answer_a_ping_is_disconnected),
		CASE(a_client_that_answers_pings_stays_connected),
		CASE(a_server_that_does_not_answer_a_ping_is_disconnected),
		CASE(a_call_waits_for_a_server_that_answers_pings),
	};

	return cmocka_run_group_tests_name("grpc channel", tests, group_setup, group_teardown);
}
