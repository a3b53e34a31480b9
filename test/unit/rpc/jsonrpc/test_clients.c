/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients of the server: their limit, idle ones that are disconnected, and exhausted descriptors. */
#include "rig.h"

static void fill(int fds[RPC_CONNECTIONS_MAX], const char *question)
{
	for (size_t i = 0; i < RPC_CONNECTIONS_MAX; i++) {
		fds[i] = client();
		send_text(fds[i], "{\"method\":\"nothing\",\"id\":1}");
		expect(fds[i], OK("1", "true"));
		send_text(fds[i], question);
	}
}

/* A client that waits for an answer is not idle, so a new client must wait. */
static void clients_over_the_limit_wait_while_all_others_are_busy(void **state)
{
	int fds[RPC_CONNECTIONS_MAX], late;
	struct pollfd ready;

	fill(fds, "{\"method\":\"hold\",\"id\":2}");
	late = client();
	send_text(late, "{\"method\":\"nothing\",\"id\":1}");
	ready = (struct pollfd){ .fd = late, .events = POLLIN };
	assert_int_equal(poll(&ready, 1, 1500), 0);
	send_text(fds[0], "{\"method\":\"release\",\"id\":3}");
	expect(late, OK("1", "true"));
	for (size_t i = 0; i < RPC_CONNECTIONS_MAX; i++) {
		expect(fds[i], OK("2", "\"released\""));
		close(fds[i]);
	}
	close(late);
}

static void an_idle_client_is_disconnected_for_a_waiting_one(void **state)
{
	int fds[RPC_CONNECTIONS_MAX], late;

	fill(fds, "");
	late = client();
	send_text(late, "{\"method\":\"nothing\",\"id\":1}");
	expect(late, OK("1", "true"));
	expect(fds[0], ""); /* the client that was idle for longest */
	send_text(fds[1], "{\"method\":\"nothing\",\"id\":1}");
	expect(fds[1], OK("1", "true"));
	for (size_t i = 0; i < RPC_CONNECTIONS_MAX; i++)
		close(fds[i]);
	close(late);
}

static int open_impatient_server(void *ctx)
{
	const struct rpc_server_options options = { .path = ctx, .idle_ns = 20000000 };

	return rpc_server_open(&options, &why);
}

static void an_idle_client_is_disconnected_after_the_time_out(void **state)
{
	int busy, idle;

	assert_int_equal(on_control(open_impatient_server, path), 0);
	busy = client();
	idle = client();
	send_text(busy, "{\"method\":\"hold\",\"id\":1}");
	send_text(idle, "{\"method\":"); /* an incomplete request does not count */
	expect(idle, "");
	close(idle);
	idle = client();
	send_text(idle, "{\"method\":\"release\",\"id\":2}");
	(void)read_line(idle);
	expect(busy, OK("1", "\"released\""));
	expect(busy, "");
	close(busy);
	close(idle);
	on_control(close_server, NULL);
}

/* No descriptor is available while a client connects. The listener must continue when a descriptor is available. */
static void the_listener_continues_after_descriptors_ran_out(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int other = client(), waiting = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), next;
	struct pollfd ready = { .fd = waiting, .events = POLLIN };
	struct rlimit before, none;

	send_text(other, "{\"method\":\"nothing\",\"id\":1}");
	expect(other, OK("1", "true"));
	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	next = dup(other);
	close(next);
	none = (struct rlimit){ .rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(connect(waiting, (struct sockaddr *)&address, sizeof(address)), 0);
	send_text(waiting, "{\"method\":\"nothing\",\"id\":2}");
	assert_int_equal(poll(&ready, 1, 300), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	expect(waiting, OK("2", "true"));
	send_text(other, "{\"method\":\"nothing\",\"id\":3}");
	expect(other, OK("3", "true"));
	close(waiting);
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(clients_over_the_limit_wait_while_all_others_are_busy),
		SERVED(an_idle_client_is_disconnected_for_a_waiting_one),
		SERVED(the_listener_continues_after_descriptors_ran_out),
		cmocka_unit_test(an_idle_client_is_disconnected_after_the_time_out),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
