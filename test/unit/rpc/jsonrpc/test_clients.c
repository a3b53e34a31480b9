/* SPDX-License-Identifier: BSD-2-Clause */
/* The clients of the server: how many there may be, who leaves when there are too many, and when descriptors run out. */
#include "rig.h"

static void fill(int fds[RPC_CONNECTIONS_MAX], const char *question)
{
	for (size_t i = 0; i < RPC_CONNECTIONS_MAX; i++) {
		fds[i] = client();
		say(fds[i], "{\"method\":\"nothing\",\"id\":1}");
		expect(fds[i], OK("1", "true"));
		say(fds[i], question);
	}
}

/* None of them is idle, however long they wait: the next has to wait, too. */
static void serves_many_clients_and_makes_the_others_wait(void **state)
{
	int fds[RPC_CONNECTIONS_MAX], late;
	struct pollfd ready;

	fill(fds, "{\"method\":\"hold\",\"id\":2}");
	late = client();
	say(late, "{\"method\":\"nothing\",\"id\":1}");
	ready = (struct pollfd){ .fd = late, .events = POLLIN };
	assert_int_equal(poll(&ready, 1, 1500), 0);
	say(fds[0], "{\"method\":\"release\",\"id\":3}");
	expect(late, OK("1", "true"));
	for (size_t i = 0; i < RPC_CONNECTIONS_MAX; i++) {
		expect(fds[i], OK("2", "\"released\""));
		close(fds[i]);
	}
	close(late);
}

static void an_idle_client_makes_room_for_one_that_waits(void **state)
{
	int fds[RPC_CONNECTIONS_MAX], late;

	fill(fds, "");
	late = client();
	say(late, "{\"method\":\"nothing\",\"id\":1}");
	expect(late, OK("1", "true"));
	expect(fds[0], ""); /* the one that was idle for longest */
	say(fds[1], "{\"method\":\"nothing\",\"id\":1}");
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

static void closes_a_client_that_is_idle_for_too_long(void **state)
{
	int busy, idle;

	assert_int_equal(on_control(open_impatient_server, path), 0);
	busy = client();
	idle = client();
	say(busy, "{\"method\":\"hold\",\"id\":1}");
	say(idle, "{\"method\":"); /* half a request is none */
	expect(idle, "");
	close(idle);
	idle = client();
	say(idle, "{\"method\":\"release\",\"id\":2}");
	(void)hear(idle);
	expect(busy, OK("1", "\"released\""));
	expect(busy, "");
	close(busy);
	close(idle);
	on_control(close_server, NULL);
}

/* No descriptor is left while another client is connected: the listener comes back by itself when there is one again. */
static void the_listener_survives_that_descriptors_run_out(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int other = client(), waiting = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), next;
	struct pollfd ready = { .fd = waiting, .events = POLLIN };
	struct rlimit before, none;

	say(other, "{\"method\":\"nothing\",\"id\":1}");
	expect(other, OK("1", "true"));
	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	next = dup(other);
	close(next);
	none = (struct rlimit){ .rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(connect(waiting, (struct sockaddr *)&address, sizeof(address)), 0);
	say(waiting, "{\"method\":\"nothing\",\"id\":2}");
	assert_int_equal(poll(&ready, 1, 300), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	expect(waiting, OK("2", "true"));
	say(other, "{\"method\":\"nothing\",\"id\":3}");
	expect(other, OK("3", "true"));
	close(waiting);
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(serves_many_clients_and_makes_the_others_wait),
		SERVED(an_idle_client_makes_room_for_one_that_waits),
		SERVED(the_listener_survives_that_descriptors_run_out),
		cmocka_unit_test(closes_a_client_that_is_idle_for_too_long),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
