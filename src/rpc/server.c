/* SPDX-License-Identifier: BSD-2-Clause */
/* The listening socket (base/listener.h), and who is connected to it. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/listener.h"
#include "base/log.h"
#include "rpc/internal.h"

static struct {
	struct listener listener;
	struct fd_watch *watch;
	TAILQ_HEAD(, rpc_connection) connections;
	uint32_t connection_count;
	bool open;
	bool full; /* has been said */
} server = { .connections = TAILQ_HEAD_INITIALIZER(server.connections) };

/* ---- connections ---- */

static void watch_listener(bool on)
{
	if (server.watch)
		fd_watch_modify(server.watch, on ? EPOLLIN : 0);
}

void server_remember(struct rpc_connection *connection)
{
	TAILQ_INSERT_TAIL(&server.connections, connection, link);
	server.connection_count++;
	if (server.connection_count == RPC_CONNECTIONS_MAX) {
		if (!server.full)
			log_warning("%s: %d clients are connected; more have to wait", server.listener.address.sun_path,
				    RPC_CONNECTIONS_MAX);
		server.full = true;
		watch_listener(false);
	}
}

void server_forget(struct rpc_connection *connection)
{
	must(server.connection_count > 0);
	TAILQ_REMOVE(&server.connections, connection, link);
	if (server.connection_count-- == RPC_CONNECTIONS_MAX)
		watch_listener(true);
}

static void accept_some(void *ctx, uint32_t events)
{
	while (server.connection_count < RPC_CONNECTIONS_MAX) {
		int fd = accept4(server.listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			if (!connection_create(fd))
				log_error("%s: cannot watch a new client: %s", server.listener.address.sun_path,
					  strerror(errno));
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN) {
			/* out of descriptors, most likely: it stays readable, so stop asking until one is closed */
			log_error("%s: cannot accept a client: %s", server.listener.address.sun_path, strerror(errno));
			watch_listener(server.connection_count == 0);
		}
		return;
	}
}

/* ---- life ---- */

int rpc_server_open(const char *path, struct fault *why)
{
	const struct listener_options options = { .path = path, .type = SOCK_STREAM, .mode = 0600, .option = "-r" };
	int error;

	must_be_on(thread_control());
	must(!server.open);
	error = listener_open(&options, &server.listener, why);
	if (error)
		return error;
	server.watch = fd_watch_add(server.listener.fd, EPOLLIN, accept_some, NULL);
	if (!server.watch) {
		error = fault(why, -errno, "%s: %s", path, strerror(errno));
		listener_close(&server.listener);
		return error;
	}
	server.full = false;
	server.open = true;
	return 0;
}

void rpc_server_close(void)
{
	struct rpc_connection *connection;

	must_be_on(thread_control());
	if (!server.open)
		return;
	server.open = false;
	fd_watch_remove(&server.watch);
	/* the path is another's as soon as the lock is: whoever is connected is told first */
	while ((connection = TAILQ_FIRST(&server.connections)))
		connection_destroy(connection, RPC_CLOSE_SERVER_ENDS);
	listener_close(&server.listener);
}
