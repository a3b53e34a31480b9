/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that break the rules, on plain sockets: of the server, and of the client (a server that is not ours). Each
 * loses its connection; the others go on.
 */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "rpc/drpc/chunk.h"

enum { ANSWER_MS = 20000 };

static uint8_t packet[DRPC_PACKET_BYTES_MAX + 64];

static int join(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), bytes = 1 << 20;

	memcpy(address.sun_path, rig_path, strlen(rig_path) + 1);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void chunk(int fd, struct drpc_chunk_header header, const void *data, size_t bytes)
{
	memcpy(packet, &header, sizeof(header));
	if (bytes > 0)
		memcpy(packet + sizeof(header), data, bytes);
	assert_int_equal(send(fd, packet, sizeof(header) + bytes, MSG_NOSIGNAL), sizeof(header) + bytes);
}

static void call(int fd, int32_t method, int64_t sequence)
{
	Drpc__Call message = DRPC__CALL__INIT;
	uint8_t bytes[64];
	size_t count;

	message.method = method;
	message.sequence = sequence;
	count = drpc__call__pack(&message, bytes);
	chunk(fd, drpc_chunk_at(count, 0), bytes, count);
}

/* The next packet's bytes behind the header; -1: the connection has ended. */
static ssize_t hear(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	ssize_t there;

	assert_int_equal(poll(&ready, 1, ANSWER_MS), 1);
	there = recv(fd, packet, sizeof(packet), 0);
	return there <= 0 ? -1 : there - (ssize_t)sizeof(struct drpc_chunk_header);
}

static void expect(int fd, int64_t sequence, Drpc__Status status)
{
	ssize_t bytes = hear(fd);
	Drpc__Response *response;

	assert_true(bytes >= 0);
	response = drpc__response__unpack(NULL, (size_t)bytes, packet + sizeof(struct drpc_chunk_header));
	assert_non_null(response);
	assert_int_equal(response->sequence, sequence);
	assert_int_equal(response->status, status);
	drpc__response__free_unpacked(response, NULL);
}

/* ---- of the server ---- */

static void what_is_no_call_is_answered_and_the_connection_lives(void **state)
{
	int fd = join();

	chunk(fd, drpc_chunk_at(3, 0), "\xff\xff\xff", 3);
	expect(fd, -1, DRPC__STATUS__FAILED_UNMARSHAL_CALL);
	/* a body that is no Call, for a method that wants one */
	chunk(fd, drpc_chunk_at(9, 0), "\x10\x01\x18\x05\x22\x03\xff\xff\xff", 9);
	expect(fd, 5, DRPC__STATUS__FAILED_UNMARSHAL_PAYLOAD);
	/* no bytes: module 0, method 0 */
	chunk(fd, drpc_chunk_at(0, 0), NULL, 0);
	expect(fd, 0, DRPC__STATUS__UNKNOWN_METHOD);
	call(fd, 1, 8);
	expect(fd, 8, DRPC__STATUS__SUCCESS);
	close(fd);
}

static void who_breaks_the_rules_of_chunks_is_gone(void **state)
{
	static const struct {
		struct drpc_chunk_header first, header;
		size_t bytes;
	} rows[] = {
		{ { 0 }, { 10, 10, 0, 0 }, 10 },		/* no chunks */
		{ { 0 }, { 10, 10, 0, 1 }, 9 },			/* partial */
		{ { 0 }, { 10, 10, 0, 1 }, 11 },		/* more than it says */
		{ { 0 }, { 10, 5, 1, 2 }, 5 },			/* begins with the second */
		{ { 0 }, { 10, 5, 0, 1 }, 5 },			/* bytes are missing */
		{ { 0 }, { (64u << 20) + 1, 10, 0, 600 }, 10 }, /* too large */
		{ { 0 }, { UINT64_MAX, 10, 0, UINT32_MAX }, 10 },
		{ { 10, 4, 0, 3 }, { 10, 4, 2, 3 }, 4 }, /* gap */
		{ { 10, 4, 0, 3 }, { 10, 4, 0, 3 }, 4 }, /* again */
		{ { 10, 4, 0, 3 }, { 12, 4, 1, 3 }, 4 }, /* changed total */
		{ { 10, 4, 0, 3 }, { 10, 4, 1, 4 }, 4 }, /* changed number */
		{ { 10, 4, 0, 3 }, { 10, 7, 1, 3 }, 7 }, /* overflow */
		{ { 10, 4, 0, 3 }, { 10, 0, 1, 3 }, 0 }, /* empty */
	};
	struct drpc_server_stats stats;
	int other = join(), fd;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		fd = join();
		if (rows[i].first.total_bytes > 0)
			chunk(fd, rows[i].first, "xxxxxxxxxxx", rows[i].first.chunk_bytes);
		chunk(fd, rows[i].header, "xxxxxxxxxxx", rows[i].bytes);
		assert_int_equal(hear(fd), -1);
		close(fd);
	}
	fd = join(); /* shorter than a header */
	assert_int_equal(send(fd, "x", 1, 0), 1);
	assert_int_equal(hear(fd), -1);
	close(fd);
	fd = join(); /* longer than a packet may be */
	memset(packet, 0, sizeof(packet));
	assert_int_equal(send(fd, packet, sizeof(packet), 0), sizeof(packet));
	assert_int_equal(hear(fd), -1);
	close(fd);
	on_control(rig_stats, &stats);
	assert_int_equal(stats.refused_total, ARRAY_COUNT(rows) + 2);
	call(other, 1, 3);
	expect(other, 3, DRPC__STATUS__SUCCESS);
	close(other);
}

static void who_stops_in_the_middle_is_gone_and_who_is_idle_stays(void **state)
{
	int idle = join(), silent = join(), fd = join();

	call(fd, 1, 1);
	expect(fd, 1, DRPC__STATUS__SUCCESS);
	chunk(silent, (struct drpc_chunk_header){ 10, 4, 0, 3 }, "xxxx", 4);
	assert_int_equal(hear(silent), -1);
	call(idle, 1, 2);
	expect(idle, 2, DRPC__STATUS__SUCCESS);
	close(idle);
	close(silent);
	close(fd);
}

static void who_does_not_read_is_gone(void **state)
{
	Drpc__Call request = DRPC__CALL__INIT, big = DRPC__CALL__INIT;
	uint8_t body[16], bytes[64];
	int fd = join();
	size_t count;

	big.sequence = 32 << 20;
	request.method = 4;
	request.body.data = body;
	request.body.len = drpc__call__pack(&big, body);
	count = drpc__call__pack(&request, bytes);
	chunk(fd, drpc_chunk_at(count, 0), bytes, count);
	rig_wait(rig_connections, 1);
	rig_wait(rig_connections, 0);
	close(fd);
}

static void many_silent_clients_keep_nobody_out(void **state)
{
	int silent[40], fd;

	for (size_t i = 0; i < ARRAY_COUNT(silent); i++)
		silent[i] = join();
	fd = join();
	call(fd, 1, 4);
	expect(fd, 4, DRPC__STATUS__SUCCESS);
	assert_int_equal(on_control(rig_connections, NULL), 8);
	for (size_t i = 0; i < ARRAY_COUNT(silent) - 8; i++)
		assert_int_equal(hear(silent[i]), -1);
	for (size_t i = 0; i < ARRAY_COUNT(silent); i++)
		close(silent[i]);
	close(fd);
}

static void busy_ones_are_waited_for(void **state)
{
	int busy[8], fd;

	for (size_t i = 0; i < ARRAY_COUNT(busy); i++) {
		busy[i] = join();
		call(busy[i], 2, (int64_t)i);
	}
	rig_wait(rig_held, 8);
	fd = join();
	call(fd, 1, 4);
	on_control(rig_release, NULL);
	expect(fd, 4, DRPC__STATUS__SUCCESS);
	for (size_t i = 0; i < ARRAY_COUNT(busy); i++)
		close(busy[i]);
	close(fd);
}

static void who_leaves_while_a_method_works_is_forgotten(void **state)
{
	int fd = join();

	call(fd, 2, 1);
	rig_wait(rig_held, 1);
	close(fd);
	rig_wait(rig_connections, 0);
	on_control(rig_release, NULL);
}

static void calls_sent_ahead_are_answered_in_order(void **state)
{
	int fd = join();

	for (int64_t i = 1; i <= 50; i++)
		call(fd, 1, i);
	for (int64_t i = 1; i <= 50; i++)
		expect(fd, i, DRPC__STATUS__SUCCESS);
	close(fd);
}

/* ---- of the client ---- */

static struct drpc_client *client;
static struct {
	int error;
	char text[FAULT_TEXT_BYTES_MAX];
	sem_t done;
} heard;

static void note(void *ctx, const struct drpc_result *result)
{
	heard.error = result->error;
	memcpy(heard.text, result->why.text, sizeof(heard.text));
	sem_post(&heard.done);
}

static int make_call(void *response)
{
	struct drpc_client_options options = { .path = rig_path };
	int error = client ? 0 : drpc_client_create(&options, &client, &why);

	return error ? error
		     : drpc_client_call(client, &(struct drpc_request){
							.module = 0,
							.method = 1,
							.response = response,
							.timeout_ns = 20 * NS_PER_SEC,
							.done = note,
						});
}

static int end_client(void *unused)
{
	drpc_client_destroy(client);
	client = NULL;
	return 0;
}

static int listen_there(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	memcpy(address.sun_path, rig_path, strlen(rig_path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void a_wrong_server_is_told_from_a_right_one(void **state)
{
	static const struct {
		struct drpc_chunk_header header;
		const char *bytes;
		int error;
		const char *text;
	} rows[] = {
		{ { 0 }, "", -ECONNRESET, "without an answer" },
		{ { 2, 2, 0, 0 }, "xx", -EPROTO, "number of chunks" },
		{ { 3, 3, 0, 1 }, "\xff\xff\xff", -EPROTO, "cannot be read" },
		{ { 2, 2, 0, 1 }, "\x08\x63", -EPROTO, "another call's" },
		{ { 4, 4, 0, 1 }, "\x08\x01\x10\x63", -EPROTO, "status that does not exist" },
		{ { 5, 5, 0, 1 }, "\x08\x01\x1a\x01\xff", -EPROTO, "body of the response" },
		{ { 2, 2, 0, 1 }, "\x08\x01", 0, "" },
	};
	int listener = listen_there();

	sem_init(&heard.done, 0, 0);
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		int fd;

		assert_int_equal(on_control(make_call, (void *)&drpc__call__descriptor), 0);
		fd = accept(listener, NULL, NULL);
		assert_true(hear(fd) > 0);
		if (rows[i].header.total_bytes > 0)
			chunk(fd, rows[i].header, rows[i].bytes, rows[i].header.chunk_bytes);
		else
			close(fd);
		sem_wait(&heard.done);
		assert_int_equal(heard.error, rows[i].error);
		assert_non_null(strstr(heard.text, rows[i].text));
		on_control(end_client, NULL);
		if (rows[i].header.total_bytes > 0)
			close(fd);
	}
	close(listener);
	unlink(rig_path);
}

static int connections_of_client(void *unused)
{
	return (int)drpc_client_stats(client).connections;
}

static void a_server_that_speaks_unasked_loses_its_connection(void **state)
{
	int listener = listen_there(), fd;

	assert_int_equal(on_control(make_call, NULL), 0);
	fd = accept(listener, NULL, NULL);
	assert_true(hear(fd) > 0);
	chunk(fd, drpc_chunk_at(2, 0), "\x08\x01", 2);
	sem_wait(&heard.done);
	assert_int_equal(heard.error, 0);
	chunk(fd, drpc_chunk_at(2, 0), "\x08\x01", 2);
	assert_int_equal(hear(fd), -1);
	close(fd);
	rig_wait(connections_of_client, 0);
	on_control(end_client, NULL);
	close(listener);
	unlink(rig_path);
}

static void a_full_queue_is_waited_for(void **state)
{
	int listener = listen_there(), fds[64], count = 0, fd;
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path, rig_path, strlen(rig_path) + 1);
	do {
		assert_true(count < (int)ARRAY_COUNT(fds));
		fds[count] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	} while (connect(fds[count++], (struct sockaddr *)&address, sizeof(address)) == 0);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(on_control(make_call, NULL), 0);
	rig_wait(connections_of_client, 1);
	for (int i = 0; i < count - 1; i++)
		close(accept(listener, NULL, NULL));
	fd = accept(listener, NULL, NULL);
	assert_true(hear(fd) > 0);
	chunk(fd, drpc_chunk_at(2, 0), "\x08\x01", 2);
	sem_wait(&heard.done);
	assert_int_equal(heard.error, 0);
	on_control(end_client, NULL);
	for (int i = 0; i < count; i++)
		close(fds[i]);
	close(fd);
	close(listener);
	unlink(rig_path);
}

static int serve_impatiently(void **state)
{
	rig_timeout_ns = 200 * NS_PER_MS;
	rig_serve(state);
	rig_timeout_ns = 60 * NS_PER_SEC;
	return 0;
}

#define IMPATIENT(name) cmocka_unit_test_setup_teardown(name, serve_impatiently, rig_serve_no_more)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(what_is_no_call_is_answered_and_the_connection_lives),
		SERVED(who_breaks_the_rules_of_chunks_is_gone),
		IMPATIENT(who_stops_in_the_middle_is_gone_and_who_is_idle_stays),
		IMPATIENT(who_does_not_read_is_gone),
		SERVED(many_silent_clients_keep_nobody_out),
		SERVED(busy_ones_are_waited_for),
		SERVED(who_leaves_while_a_method_works_is_forgotten),
		SERVED(calls_sent_ahead_are_answered_in_order),
		cmocka_unit_test(a_wrong_server_is_told_from_a_right_one),
		cmocka_unit_test(a_server_that_speaks_unasked_loses_its_connection),
		cmocka_unit_test(a_full_queue_is_waited_for),
	};

	return cmocka_run_group_tests_name("drpc hostile", tests, rig_setup, rig_teardown);
}
