/* SPDX-License-Identifier: BSD-2-Clause */
/* TLS in front of another server: bytes both ways, roles, peers that hang or break off, and an end at any moment. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "rpc/grpc/front.h"
#include "rpc/grpc/tls.h"

#include "../../control_thread.h"

enum { WAIT_SECONDS = 60, BIG_BYTES = 1 << 20, BEHIND_MAX = 8 };

#define REJECTION "you may not read"

static char folder[] = "/tmp/fathom-front-XXXXXX";
static struct grpc_tls *server_tls;
static struct tls_front *front;
static unsigned int connections_max;

/* written on the control thread, read under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int behind[BEHIND_MAX];
static unsigned int behind_count, refused_count;
static char refused_why[FAULT_TEXT_BYTES_MAX];

/* ---- the front ---- */

static bool admit(void *ctx, const char *name, char *rejection)
{
	if (strcmp(name, "admin") == 0)
		return true;
	snprintf(rejection, FRONT_REJECTION_BYTES, "%s: %s", REJECTION, name);
	return false;
}

static void accepted(void *ctx, int fd)
{
	must(pthread_mutex_lock(&lock) == 0);
	must(behind_count < BEHIND_MAX);
	behind[behind_count++] = fd;
	must(pthread_mutex_unlock(&lock) == 0);
}

static void refused(void *ctx, const char *peer, const char *why)
{
	must(pthread_mutex_lock(&lock) == 0);
	refused_count++;
	snprintf(refused_why, sizeof(refused_why), "%s", why);
	must(pthread_mutex_unlock(&lock) == 0);
}

static int open_front(void *address)
{
	const struct tls_front_options options = {
		.address = address,
		.tls = server_tls,
		.connections_max = connections_max,
		.admit = admit,
		.accepted = accepted,
		.refused = refused,
	};
	struct fathom_fault why;

	return tls_front_open(&options, &front, &why);
}

static int close_front(void *unused)
{
	tls_front_close(front);
	front = NULL;
	return 0;
}

static int get_port(void *unused)
{
	return tls_front_port(front);
}

static int get_connections(void *unused)
{
	return (int)tls_front_stats(front).connections;
}

static int get_refused(void *unused)
{
	return (int)tls_front_stats(front).refused_total;
}

static void wait_for(int (*get)(void *), int wanted)
{
	for (int i = 0; on_control(get, NULL) != wanted; i++) {
		assert_true(i < WAIT_SECONDS * 1000);
		usleep(1000);
	}
}

static void wait_until_refused(const char *why)
{
	wait_for(get_refused, 1);
	must(pthread_mutex_lock(&lock) == 0);
	if (!strstr(refused_why, why))
		fail_msg("not \"%s\" but \"%s\"", why, refused_why);
	must(pthread_mutex_unlock(&lock) == 0);
}

/* The socket of the server behind for the connection with this number. */
static int wait_behind(unsigned int number)
{
	int fd = -1;

	for (int i = 0; fd < 0; i++) {
		assert_true(i < WAIT_SECONDS * 1000);
		usleep(1000);
		must(pthread_mutex_lock(&lock) == 0);
		if (number < behind_count)
			fd = behind[number];
		must(pthread_mutex_unlock(&lock) == 0);
	}
	return fd;
}

static struct grpc_tls *load(const char *role)
{
	char ca[64], certificate[64], key[64];
	const struct grpc_tls_options options = { .ca = ca, .certificate = certificate, .key = key, .is_http1 = true };
	struct fathom_fault why;
	struct grpc_tls *tls;

	snprintf(ca, sizeof(ca), "%s/ca.crt", folder);
	snprintf(certificate, sizeof(certificate), "%s/%s.crt", folder, role);
	snprintf(key, sizeof(key), "%s/%s.key", folder, role);
	must(grpc_tls_create(&options, &tls, &why) == 0);
	return tls;
}

static int setup(void **state)
{
	struct reactor_options none = { .simulated = false };

	control_start(&none);
	server_tls = load("server");
	behind_count = refused_count = 0;
	connections_max = 8;
	return on_control(open_front, "127.0.0.1:0");
}

static int teardown(void **state)
{
	on_control(close_front, NULL);
	control_stop();
	for (unsigned int i = 0; i < behind_count; i++)
		close(behind[i]);
	grpc_tls_destroy(server_tls);
	return 0;
}

/* ---- clients ---- */

struct client {
	int fd;
	struct grpc_tls *tls;
	struct tls_stream *stream;
};

static int connect_plain(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)on_control(get_port, NULL)) };
	struct timeval patience = { .tv_sec = WAIT_SECONDS };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &address.sin_addr), 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void send_bytes(int fd, const void *data, size_t bytes)
{
	assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
}

static void flush(struct client *client)
{
	uint8_t data[4096];
	size_t taken;

	while ((taken = tls_take(client->stream, data, sizeof(data))) > 0)
		send_bytes(client->fd, data, taken);
}

/* A receive with a time-out ends at each signal. */
static ssize_t receive_bytes(int fd, void *data, size_t room)
{
	ssize_t count;

	do
		count = recv(fd, data, room, 0);
	while (count < 0 && errno == EINTR);
	return count;
}

/* False: the front has closed the connection. */
static bool receive(struct client *client)
{
	uint8_t data[16384];
	ssize_t count = receive_bytes(client->fd, data, sizeof(data));

	if (count <= 0)
		return false;
	assert_true(tls_feed(client->stream, data, (size_t)count));
	return true;
}

static void connect_client(struct client *client, const char *role)
{
	client->fd = connect_plain();
	client->tls = load(role);
	client->stream = tls_stream_create(client->tls, false);
	assert_non_null(client->stream);
	while (tls_handshake(client->stream) == TLS_MORE) {
		flush(client);
		assert_true(receive(client));
	}
	flush(client);
	assert_string_equal(tls_peer_name(client->stream), "server");
}

static void close_client(struct client *client)
{
	close(client->fd);
	tls_stream_destroy(client->stream);
	grpc_tls_destroy(client->tls);
}

static void write_client(struct client *client, const char *text)
{
	assert_int_equal(tls_write(client->stream, (const uint8_t *)text, strlen(text)), TLS_OK);
	flush(client);
}

/* Read `bytes`, or to the end of TLS if they are fewer. Returns their number. */
static size_t read_client(struct client *client, uint8_t *data, size_t bytes)
{
	size_t got = 0;

	while (got < bytes) {
		size_t count = 0;
		enum tls_result result = tls_read(client->stream, data + got, bytes - got, &count);

		got += count;
		if (result == TLS_CLOSED)
			break;
		assert_true(result == TLS_OK || result == TLS_MORE);
		if (result == TLS_MORE)
			assert_true(receive(client));
	}
	return got;
}

static void assert_client_gets(struct client *client, const char *text)
{
	uint8_t data[256] = { 0 };

	assert_true(strlen(text) < sizeof(data));
	assert_int_equal(read_client(client, data, strlen(text)), strlen(text));
	assert_string_equal((char *)data, text);
}

/* ---- the server behind ---- */

static void assert_behind_gets(int fd, const char *text)
{
	char data[256] = { 0 };
	size_t got = 0;

	for (int i = 0; got < strlen(text); i++) {
		ssize_t count = recv(fd, data + got, strlen(text) - got, 0);

		assert_true(count != 0 && i < WAIT_SECONDS * 1000);
		if (count < 0)
			usleep(1000);
		else
			got += (size_t)count;
	}
	assert_string_equal(data, text);
}

static void wait_until_behind_is_over(int fd)
{
	char byte;

	for (int i = 0; recv(fd, &byte, 1, 0) != 0; i++) {
		assert_true(i < WAIT_SECONDS * 1000);
		usleep(1000);
	}
}

/* ---- cases ---- */

static void bytes_pass_in_both_directions(void **state)
{
	struct client client;
	int fd;

	connect_client(&client, "admin");
	fd = wait_behind(0);
	write_client(&client, "question");
	assert_behind_gets(fd, "question");
	send_bytes(fd, "answer", 6);
	assert_client_gets(&client, "answer");
	write_client(&client, "again");
	assert_behind_gets(fd, "again");
	close_client(&client);
	wait_until_behind_is_over(fd);
	wait_for(get_connections, 0);
	assert_int_equal(refused_count, 0);
}

static void *write_big(void *fd)
{
	static uint8_t data[BIG_BYTES];
	size_t sent = 0;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	while (sent < sizeof(data)) {
		ssize_t count = send(*(int *)fd, data + sent, sizeof(data) - sent, MSG_NOSIGNAL);

		if (count > 0)
			sent += (size_t)count;
		else
			usleep(1000);
	}
	shutdown(*(int *)fd, SHUT_RDWR); /* the end of the server behind, with much of it still in the socket */
	return NULL;
}

static void all_that_was_sent_arrives_before_the_end(void **state)
{
	uint8_t *data = malloc(BIG_BYTES + 1);
	struct client client;
	pthread_t writer;
	int fd;

	assert_non_null(data);
	connect_client(&client, "admin");
	fd = wait_behind(0);
	assert_int_equal(pthread_create(&writer, NULL, write_big, &fd), 0);
	assert_int_equal(read_client(&client, data, BIG_BYTES + 1), BIG_BYTES); /* and the end of TLS */
	for (size_t i = 0; i < BIG_BYTES; i++)
		assert_int_equal(data[i], (uint8_t)(i * 7 + i / 251));
	assert_int_equal(pthread_join(writer, NULL), 0);
	close_client(&client);
	free(data);
	wait_for(get_connections, 0);
}

static void a_role_that_may_not_read_gets_the_answer_of_the_front(void **state)
{
	struct client client;
	uint8_t text[64] = { 0 };

	connect_client(&client, "agent");
	write_client(&client, "question");
	assert_int_equal(read_client(&client, text, sizeof(text)), strlen(REJECTION ": agent"));
	assert_string_equal((char *)text, REJECTION ": agent");
	wait_until_refused("may not read");
	close_client(&client);
	wait_for(get_connections, 0);
	assert_int_equal(behind_count, 0);
}

static void a_client_without_tls_is_refused(void **state)
{
	int fd = connect_plain();
	char text[64];

	send_bytes(fd, "GET /metrics HTTP/1.1\r\n\r\n", 25);
	while (receive_bytes(fd, text, sizeof(text)) > 0)
		;
	close(fd);
	wait_until_refused("does not speak TLS");
}

static void a_client_that_leaves_in_the_handshake_is_forgotten(void **state)
{
	close(connect_plain());
	wait_until_refused("during the TLS handshake");
	wait_for(get_connections, 0);
}

static void a_client_that_does_not_read_stops_only_itself(void **state)
{
	static uint8_t data[65536];
	struct client deaf, other;
	int fd;

	connect_client(&deaf, "admin");
	fd = wait_behind(0);
	for (int i = 0; i < 20; i++) { /* until both sockets and both buffers are full for a while */
		if (send(fd, data, sizeof(data), MSG_NOSIGNAL) > 0)
			i = 0;
		usleep(1000);
	}
	connect_client(&other, "admin");
	fd = wait_behind(1);
	write_client(&other, "question");
	assert_behind_gets(fd, "question");
	send_bytes(fd, "answer", 6);
	assert_client_gets(&other, "answer");
	close_client(&other);
	close_client(&deaf);
	wait_for(get_connections, 0);
}

static void a_server_that_does_not_read_stops_only_its_client(void **state)
{
	static const char text[16385] = { [0 ... 16383] = 'x' };
	struct client client, other;

	connect_client(&client, "admin");
	(void)wait_behind(0);
	for (int i = 0; i < 8; i++)
		write_client(&client, text);
	connect_client(&other, "admin");
	write_client(&other, "question");
	assert_behind_gets(wait_behind(1), "question");
	close_client(&other);
	close_client(&client);
}

static void silent_peers_make_room_for_others(void **state)
{
	struct client client;
	int silent[2];

	on_control(close_front, NULL);
	connections_max = 2;
	assert_int_equal(on_control(open_front, "127.0.0.1:0"), 0);
	silent[0] = connect_plain();
	silent[1] = connect_plain();
	wait_for(get_connections, 2);
	connect_client(&client, "admin");
	write_client(&client, "question");
	assert_behind_gets(wait_behind(0), "question");
	wait_until_refused("other peers wait");
	close_client(&client);
	close(silent[0]);
	close(silent[1]);
}

static void an_end_closes_all_connections(void **state)
{
	struct client client;
	int fd, silent = connect_plain();

	connect_client(&client, "admin");
	fd = wait_behind(0);
	on_control(close_front, NULL);
	wait_until_behind_is_over(fd);
	assert_false(receive(&client) && receive(&client) && receive(&client)); /* tickets and alerts at most */
	close_client(&client);
	close(silent);
	assert_int_equal(on_control(open_front, "127.0.0.1:0"), 0);
}

static void a_wrong_or_taken_address_is_an_error(void **state)
{
	struct tls_front *first = front;
	char taken[32];

	snprintf(taken, sizeof(taken), "127.0.0.1:%d", on_control(get_port, NULL));
	assert_int_equal(on_control(open_front, taken), -EADDRINUSE);
	assert_int_equal(on_control(open_front, "localhost:1"), -EINVAL);
	assert_ptr_equal(front, first);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(bytes_pass_in_both_directions),
		CASE(all_that_was_sent_arrives_before_the_end),
		CASE(a_role_that_may_not_read_gets_the_answer_of_the_front),
		CASE(a_client_without_tls_is_refused),
		CASE(a_client_that_leaves_in_the_handshake_is_forgotten),
		CASE(a_client_that_does_not_read_stops_only_itself),
		CASE(a_server_that_does_not_read_stops_only_its_client),
		CASE(silent_peers_make_room_for_others),
		CASE(an_end_closes_all_connections),
		CASE(a_wrong_or_taken_address_is_an_error),
	};
	char command[512];
	int failed;

	must(argc == 2);
	must(mkdtemp(folder));
	snprintf(command, sizeof(command), "%s %s >/dev/null 2>&1", argv[1], folder);
	must(system(command) == 0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	must(system(command) == 0);
	return failed;
}
