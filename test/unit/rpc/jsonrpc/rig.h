/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by tests of the server over its socket: methods, a client, the server on a control thread. */
#ifndef TEST_RPC_RIG_H
#define TEST_RPC_RIG_H

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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include <sched.h>

#include "base/bits.h"
#include "base/reactor/reactor.h"
#include "rpc/jsonrpc/rpc.h"

#include "../../control_thread.h"

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

/* Held until the method "release" is called. */
static struct rpc_request *held[RPC_CONNECTIONS_MAX];
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
static const struct rpc_param big_fields[] = {
	{ .name = "bytes", .type = RPC_U32, .offset = RPC_FIELD(big_params, bytes, uint32_t), .required = true },
	{ .name = NULL },
};

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

static struct fathom_fault why;

static int open_server(void *ctx)
{
	const struct rpc_server_options options = { .path = ctx };

	return rpc_server_open(&options, &why);
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

static void send_text(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Read a line without its newline; "": end of the stream. */
static const char *read_line(int fd)
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
	assert_string_equal(read_line(fd), wanted);
}

#define OK(ID, RESULT) "{\"jsonrpc\":\"2.0\",\"id\":" ID ",\"result\":" RESULT "}"
#define BAD(ID, CODE, MESSAGE)                                                                                             \
	"{\"jsonrpc\":\"2.0\",\"id\":" ID ",\"error\":{\"code\":" CODE ",\"message\":\"" MESSAGE "\"}}"

#define SERVED(TEST) cmocka_unit_test_setup_teardown(TEST, serve, serve_no_more)

#endif
