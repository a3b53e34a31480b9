/* SPDX-License-Identifier: BSD-2-Clause */
/* host - a server with the test's methods, in a child process, since a process has only one control reactor. */
#ifndef TEST_UNIT_CONTROL_CLIENT_HOST_H
#define TEST_UNIT_CONTROL_CLIENT_HOST_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc/grpc/grpc.h"

#include "../../control_thread.h"

struct host {
	struct grpc_server_options options;
	struct grpc_server *server;
};

static int host_open(void *ctx)
{
	struct host *host = ctx;

	return grpc_server_open(&host->options, &host->server, NULL);
}

static inline void host_run(const struct grpc_method *methods, size_t count, int tell_fd)
{
	struct host host = { .options = { .address = "127.0.0.1:0", .methods = methods, .method_count = count } };
	struct reactor_options none = { .simulated = false };
	uint16_t port;

	control_start(&none);
	must(on_control(host_open, &host) == 0);
	port = grpc_server_port(host.server);
	must(write(tell_fd, &port, sizeof(port)) == sizeof(port));
	close(tell_fd);
	for (;;)
		pause();
}

/* Start a server, which listens on *port_ret of 127.0.0.1. Return its pid. */
static inline pid_t host_begin(const struct grpc_method *methods, size_t count, uint16_t *port_ret)
{
	int ends[2];
	pid_t host;

	must(pipe(ends) == 0);
	host = fork();
	must(host >= 0);
	if (host == 0)
		host_run(methods, count, ends[1]);
	close(ends[1]);
	must(read(ends[0], port_ret, sizeof(*port_ret)) == sizeof(*port_ret));
	close(ends[0]);
	return host;
}

static inline void host_end(pid_t host)
{
	kill(host, SIGKILL);
	waitpid(host, NULL, 0);
}

#endif
