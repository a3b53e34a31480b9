/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that violate the protocol, on plain sockets: clients of our server, and a server of our client. Each loses its
 * connection; other connections are not affected.
 */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "rpc/drpc/chunk.h"

enum { ANSWER_MS = 20000 };

static uint8_t packet[DRPC_PACKET_BYTES_MAX + 64];

static int connect_client(void)
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

/* The number of bytes after the header of the next packet; -1: the connection has ended. */
static ssize_t receive_packet(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	ssize_t there;

	assert_int_equal(poll(&ready, 1, ANSWER_MS), 1);
	there = recv(fd, packet, sizeof(packet), 0);
	return there <= 0 ? -1 : there - (ssize_t)sizeof(struct drpc_chunk_header);
}

static void expect(int fd, int64_t sequence, Drpc__Status status)
{
	ssize_t bytes = receive_packet(fd);
	Drpc__Response *response;

	assert_true(bytes >= 0);
	response = drpc__response__unpack(NULL, (size_t)bytes, packet + sizeof(struct drpc_chunk_header));
	assert_non_null(response);
	assert_int_equal(response->sequence, sequence);
	assert_int_equal(response->status, status);
	drpc__response__free_unpacked(response, NULL);
}

/* ---- clients of our server ---- */

static void an_invalid_call_is_answered_and_the_connection_stays(void **state)
{
	int fd = connect_client();

	chunk(fd, drpc_chunk_at(3, 0), "\xff\xff\xff", 3);
	expect(fd, -1, DRPC__STATUS__FAILED_UNMARSHAL_CALL);
	/* a body that is not a Call, for a method that needs one */
	chunk(fd, drpc_chunk_at(9, 0), "\x10\x01\x18\x05\x22\x03\xff\xff\xff", 9);
	expect(fd, 5, DRPC__STATUS__FAILED_UNMARSHAL_PAYLOAD);
	/* no bytes: a call of module 0, method 0 */
	chunk(fd, drpc_chunk_at(0, 0), NULL, 0);
	expect(fd, 0, DRPC__STATUS__UNKNOWN_METHOD);
	call(fd, 1, 8);
	expect(fd, 8, DRPC__STATUS__SUCCESS);
	close(fd);
}

static void an_invalid_chunk_ends_the_connection(void **state)
{
	static const struct {
		struct drpc_chunk_header first, header;
		size_t bytes;
	} rows[] = {
		{ { 0 }, { 10, 10, 0, 0 }, 10 },		/* zero chunks */
		{ { 0 }, { 10, 10, 0, 1 }, 9 },			/* shorter than its length */
		{ { 0 }, { 10, 10, 0, 1 }, 11 },		/* longer than its length */
		{ { 0 }, { 10, 5, 1, 2 }, 5 },			/* starts with the second chunk */
		{ { 0 }, { 10, 5, 0, 1 }, 5 },			/* fewer bytes than the total */
		{ { 0 }, { (64u << 20) + 1, 10, 0, 600 }, 10 }, /* too large */
		{ { 0 }, { UINT64_MAX, 10, 0, UINT32_MAX }, 10 },
		{ { 10, 4, 0, 3 }, { 10, 4, 2, 3 }, 4 }, /* a chunk is missing */
		{ { 10, 4, 0, 3 }, { 10, 4, 0, 3 }, 4 }, /* a repeated chunk */
		{ { 10, 4, 0, 3 }, { 12, 4, 1, 3 }, 4 }, /* changed total */
		{ { 10, 4, 0, 3 }, { 10, 4, 1, 4 }, 4 }, /* changed number */
		{ { 10, 4, 0, 3 }, { 10, 7, 1, 3 }, 7 }, /* overflow */
		{ { 10, 4, 0, 3 }, { 10, 0, 1, 3 }, 0 }, /* empty */
	};
	struct drpc_server_stats stats;
	int other = connect_client(), fd;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		fd = connect_client();
		if (rows[i].first.total_bytes > 0)
			chunk(fd, rows[i].first, "xxxxxxxxxxx", rows[i].first.chunk_bytes);
		chunk(fd, rows[i].header, "xxxxxxxxxxx", rows[i].bytes);
		assert_int_equal(receive_packet(fd), -1);
		close(fd);
	}
	fd = connect_client(); /* a packet shorter than a header */
	assert_int_equal(send(fd, "x", 1, 0), 1);
	assert_int_equal(receive_packet(fd), -1);
	close(fd);
	fd = connect_client(); /* a packet over the maximum length */
	memset(packet, 0, sizeof(packet));
	assert_int_equal(send(fd, packet, sizeof(packet), 0), sizeof(packet));
	assert_int_equal(receive_packet(fd), -1);
	close(fd);
	on_control(rig_stats, &stats);
	assert_int_equal(stats.refused_total, ARRAY_COUNT(rows) + 2);
	call(other, 1, 3);
	expect(other, 3, DRPC__STATUS__SUCCESS);
	close(other);
}

static void an_unfinished_message_times_out_and_an_idle_connection_stays(void **state)
{
	int idle = connect_client(), silent = connect_client(), fd = connect_client();

	call(fd, 1, 1);
	expect(fd, 1, DRPC__STATUS__SUCCESS);
	chunk(silent, (struct drpc_chunk_header){ 10, 4, 0, 3 }, "xxxx", 4);
	assert_int_equal(receive_packet(silent), -1);
	call(idle, 1, 2);
	expect(idle, 2, DRPC__STATUS__SUCCESS);
	close(idle);
	close(silent);
	close(fd);
}

static void a_client_that_does_not_read_is_disconnected(void **state)
{
	Drpc__Call request = DRPC__CALL__INIT, big = DRPC__CALL__INIT;
	uint8_t body[16], bytes[64];
	int fd = connect_client();
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

static void idle_clients_are_disconnected_to_admit_others(void **state)
{
	int silent[40], fd;

	for (size_t i = 0; i < ARRAY_COUNT(silent); i++)
		silent[i] = connect_client();
	fd = connect_client();
	call(fd, 1, 4);
	expect(fd, 4, DRPC__STATUS__SUCCESS);
	assert_int_equal(on_control(rig_connections, NULL), 8);
	for (size_t i = 0; i < ARRAY_COUNT(silent) - 8; i++)
		assert_int_equal(receive_packet(silent[i]), -1);
	for (size_t i = 0; i < ARRAY_COUNT(silent); i++)
		close(silent[i]);
	close(fd);
}

static void a_connection_waits_while_all_others_are_busy(void **state)
{
	int busy[8], fd;

	for (size_t i = 0; i < ARRAY_COUNT(busy); i++) {
		busy[i] = connect_client();
		call(busy[i], 2, (int64_t)i);
	}
	rig_wait(rig_held, 8);
	fd = connect_client();
	call(fd, 1, 4);
	on_control(rig_release, NULL);
	expect(fd, 4, DRPC__STATUS__SUCCESS);
	for (size_t i = 0; i < ARRAY_COUNT(busy); i++)
		close(busy[i]);
	close(fd);
}

static void a_client_may_leave_during_its_call(void **state)
{
	int fd = connect_client();

	call(fd, 2, 1);
	rig_wait(rig_held, 1);
	close(fd);
	rig_wait(rig_connections, 0);
	on_control(rig_release, NULL);
}

static void pipelined_calls_are_answered_in_order(void **state)
{
	int fd = connect_client();

	for (int64_t i = 1; i <= 50; i++)
		call(fd, 1, i);
	for (int64_t i = 1; i <= 50; i++)
		expect(fd, i, DRPC__STATUS__SUCCESS);
	close(fd);
}

/* ---- a server of our client ---- */

static struct drpc_client *client;
static struct {
	int error;
	char text[FAULT_TEXT_BYTES_MAX];
	sem_t done;
} received;

static void note(void *ctx, const struct drpc_result *result)
{
	received.error = result->error;
	memcpy(received.text, result->why.text, sizeof(received.text));
	sem_post(&received.done);
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

static int listen_at_rig_path(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	memcpy(address.sun_path, rig_path, strlen(rig_path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void invalid_responses_are_errors(void **state)
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
	int listener = listen_at_rig_path();

	sem_init(&received.done, 0, 0);
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		int fd;

		assert_int_equal(on_control(make_call, (void *)&drpc__call__descriptor), 0);
		fd = accept(listener, NULL, NULL);
		assert_true(receive_packet(fd) > 0);
		if (rows[i].header.total_bytes > 0)
			chunk(fd, rows[i].header, rows[i].bytes, rows[i].header.chunk_bytes);
		else
			close(fd);
		sem_wait(&received.done);
		assert_int_equal(received.error, rows[i].error);
		assert_non_null(strstr(received.text, rows[i].text));
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

static void an_unrequested_response_ends_the_connection(void **state)
{
	int listener = listen_at_rig_path(), fd;

	assert_int_equal(on_control(make_call, NULL), 0);
	fd = accept(listener, NULL, NULL);
	assert_true(receive_packet(fd) > 0);
	chunk(fd, drpc_chunk_at(2, 0), "\x08\x01", 2);
	sem_wait(&received.done);
	assert_int_equal(received.error, 0);
	chunk(fd, drpc_chunk_at(2, 0), "\x08\x01", 2);
	assert_int_equal(receive_packet(fd), -1);
	close(fd);
	rig_wait(connections_of_client, 0);
	on_control(end_client, NULL);
	close(listener);
	unlink(rig_path);
}

static void a_call_waits_while_the_listen_queue_is_full(void **state)
{
	int listener = listen_at_rig_path(), fds[64], count = 0, fd;
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
	assert_true(receive_packet(fd) > 0);
	chunk(fd, drpc_chunk_at(2, 0), "\x08\x01", 2);
	sem_wait(&received.done);
	assert_int_equal(received.error, 0);
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

static int serve_with_shares(void **state)
{
	rig_connections_a_process = 4;
	rig_serve(state);
	rig_connections_a_process = 0;
	return 0;
}

static void a_process_has_its_share_of_connections(void **state)
{
	int fds[4], fd;

	for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
		fds[i] = connect_client();
		call(fds[i], 1, (int64_t)i);
		expect(fds[i], (int64_t)i, DRPC__STATUS__SUCCESS);
	}
	fd = connect_client(); /* the connection that has been idle longest is closed */
	call(fd, 1, 9);
	expect(fd, 9, DRPC__STATUS__SUCCESS);
	assert_int_equal(receive_packet(fds[0]), -1);
	close(fds[0]);
	fds[0] = fd;
	for (size_t i = 0; i < ARRAY_COUNT(fds); i++) /* the first half of a message each */
		chunk(fds[i], (struct drpc_chunk_header){ .total_bytes = 10, .chunk_bytes = 5, .total_chunks = 2 }, "12345",
		      5);
	fd = connect_client();
	assert_int_equal(receive_packet(fd), -1);
	close(fd);
	for (size_t i = 0; i < ARRAY_COUNT(fds); i++)
		close(fds[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(an_invalid_call_is_answered_and_the_connection_stays),
		SERVED(an_invalid_chunk_ends_the_connection),
		IMPATIENT(an_unfinished_message_times_out_and_an_idle_connection_stays),
		IMPATIENT(a_client_that_does_not_read_is_disconnected),
		SERVED(idle_clients_are_disconnected_to_admit_others),
		SERVED(a_connection_waits_while_all_others_are_busy),
		SERVED(a_client_may_leave_during_its_call),
		SERVED(pipelined_calls_are_answered_in_order),
		cmocka_unit_test_setup_teardown(a_process_has_its_share_of_connections, serve_with_shares,
						rig_serve_no_more),
		cmocka_unit_test(invalid_responses_are_errors),
		cmocka_unit_test(an_unrequested_response_ends_the_connection),
		cmocka_unit_test(a_call_waits_while_the_listen_queue_is_full),
	};

	return cmocka_run_group_tests_name("drpc hostile", tests, rig_setup, rig_teardown);
}
