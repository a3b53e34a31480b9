/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server - the listening socket (base/listener.h) and its clients.
 *
 * The control socket must answer when all other descriptors are in use. So the limit on clients fits into the reserve of
 * descriptors (base/descriptor.h), and idle clients are closed: after RPC_IDLE_SEC, or at once if others wait. A listener
 * that cannot accept is retried after a moment.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/listener.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/reactor/deadline.h"
#include "rpc/jsonrpc/internal.h"

enum {
	CONNECTIONS_LEAST = 8,
	RESERVE_PART = 2,      /* clients here may use one half of the reserve of descriptors */
	ACCEPT_AGAIN_MS = 100, /* after a failure, and while no client can be closed */
	IDLE_LEAST_MS = 1000,  /* a client is not closed earlier than this, because it is about to send a request */
	IDLE_CHECKS = 16,      /* checks for idle clients in each idle time */
};

static struct {
	struct rpc_server_options options;
	struct listener listener;
	struct fd_watch *watch;
	struct deadlines deadlines;
	struct deadline accept_again, idle_check;
	TAILQ_HEAD(, rpc_connection) connections; /* the longest idle first */
	uint32_t connection_count;
	struct log_limit full_limit, failed_limit;
	bool open;
} server = { .connections = TAILQ_HEAD_INITIALIZER(server.connections) };

/* ---- the listener ---- */

static void resume_accepting(struct deadline *deadline)
{
	fd_watch_modify(server.watch, EPOLLIN);
}

/* Pause: the listener stays readable, and would use all of the thread's time. */
static void pause_accepting(void)
{
	fd_watch_modify(server.watch, 0);
	deadline_set(&server.deadlines, &server.accept_again, ACCEPT_AGAIN_MS * NS_PER_MS, resume_accepting);
}

static bool is_full(void)
{
	return server.connection_count >= server.options.connections_max;
}

/* ---- idle clients ---- */

/* The client that has been idle longest, if for `idle_ns` or more; NULL: none. */
static struct rpc_connection *find_idle(uint64_t idle_ns)
{
	uint64_t now = reactor_now(), idle_ticks = clock_ticks_from_ns(idle_ns);
	struct rpc_connection *connection;

	TAILQ_FOREACH (connection, &server.connections, link) {
		if (now - connection->heard_tick < idle_ticks)
			return NULL;
		if (connection->requests_open == 0 && !connection->stepping)
			return connection;
	}
	return NULL;
}

static void close_idle(struct deadline *deadline)
{
	struct rpc_connection *connection;

	while ((connection = find_idle(server.options.idle_ns)))
		connection_destroy(connection, RPC_CLOSE_IDLE);
	if (server.connection_count > 0)
		deadline_set(&server.deadlines, &server.idle_check, server.options.idle_ns / IDLE_CHECKS, close_idle);
}

/* ---- connections ---- */

void server_add(struct rpc_connection *connection)
{
	connection->heard_tick = reactor_now();
	TAILQ_INSERT_TAIL(&server.connections, connection, link);
	server.connection_count++;
	if (!server.idle_check.set)
		deadline_set(&server.deadlines, &server.idle_check, server.options.idle_ns / IDLE_CHECKS, close_idle);
}

void server_note_bytes(struct rpc_connection *connection)
{
	connection->heard_tick = reactor_now();
	TAILQ_REMOVE(&server.connections, connection, link);
	TAILQ_INSERT_TAIL(&server.connections, connection, link);
}

void server_remove(struct rpc_connection *connection)
{
	must(server.connection_count > 0);
	TAILQ_REMOVE(&server.connections, connection, link);
	server.connection_count--;
	if (server.accept_again.set) {
		deadline_clear(&server.deadlines, &server.accept_again);
		resume_accepting(&server.accept_again);
	}
}

/* False: all clients are busy or have just connected. */
static bool close_longest_idle(void)
{
	struct rpc_connection *idle = find_idle(IDLE_LEAST_MS * NS_PER_MS);

	if (idle)
		connection_destroy(idle, RPC_CLOSE_MADE_ROOM);
	return idle;
}

static void log_full(void)
{
	log_line_limited(&server.full_limit, clock_monotonic_ns(), LOG_LEVEL_WARNING,
			 "%s: %u clients are connected, the limit; others wait", server.listener.address.sun_path,
			 server.connection_count);
}

static void log_failure(const char *what, int error)
{
	log_line_limited(&server.failed_limit, clock_monotonic_ns(), LOG_LEVEL_ERROR,
			 "%s: cannot %s a client: %s; the next attempt is in %d ms", server.listener.address.sun_path, what,
			 strerror(error), ACCEPT_AGAIN_MS);
}

static void accept_some(void *ctx, uint32_t events)
{
	/* only before the first accept() is it certain that a client waits */
	if (is_full() && !close_longest_idle()) {
		log_full();
		pause_accepting();
		return;
	}
	while (!is_full()) {
		int fd = accept4(server.listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0 && connection_create(fd))
			continue;
		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		log_failure(fd < 0 ? "accept" : "watch", errno);
		(void)close_longest_idle(); /* accept() may need only its descriptor */
		pause_accepting();
		return;
	}
}

/* ---- life ---- */

static void complete_options(struct rpc_server_options *options)
{
	uint32_t fit = descriptor_reserve(descriptor_limit()) / RESERVE_PART;

	if (!options->connections_max)
		options->connections_max = (uint32_t)max_u64(CONNECTIONS_LEAST, min_u64(RPC_CONNECTIONS_MAX, fit));
	if (!options->idle_ns)
		options->idle_ns = RPC_IDLE_SEC * NS_PER_SEC;
}

int rpc_server_open(const struct rpc_server_options *options, struct fathom_fault *why)
{
	const struct listener_options at = { .path = options->path, .type = SOCK_STREAM, .mode = 0600, .option = "-r" };
	int error;

	static_assert(RPC_CONNECTIONS_MAX <= DESCRIPTOR_RESERVE_MAX / RESERVE_PART, "clients never use up the reserve");
	must_be_on(thread_control());
	must(!server.open);
	server.options = *options;
	complete_options(&server.options);
	server.full_limit = server.failed_limit = (struct log_limit)LOG_LIMIT(1, NS_PER_SEC);
	error = listener_open(&at, &server.listener, why);
	if (error)
		return error;
	if (deadlines_init(&server.deadlines, "rpc_deadlines"))
		error = fault(why, -ENOMEM, "%s: out of memory for a timer", options->path);
	if (!error) {
		server.watch = fd_watch_add(server.listener.fd, EPOLLIN, accept_some, NULL);
		if (!server.watch)
			error = fault(why, -errno, "%s: %s", options->path, strerror(errno));
	}
	if (error) {
		deadlines_deinit(&server.deadlines);
		listener_close(&server.listener);
		return error;
	}
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
	requests_cancel_held();
	deadline_clear(&server.deadlines, &server.accept_again);
	/* close the clients first: when the lock is free, another process may own the path */
	while ((connection = TAILQ_FIRST(&server.connections)))
		connection_destroy(connection, RPC_CLOSE_SERVER_ENDS);
	fd_watch_remove(&server.watch);
	deadline_clear(&server.deadlines, &server.idle_check);
	deadlines_deinit(&server.deadlines);
	listener_close(&server.listener);
}
