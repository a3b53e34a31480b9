/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server - the listening socket and its connections. A connection carries one call at a time: until the method has replied,
 * nothing more is read, so a client that sends faster than it gets answers stops only itself.
 */
#include "rpc/drpc/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "rpc/drpc/probes.gen.h"

enum { ACCEPT_AGAIN_MS = 100, ACCEPTS_AT_ONCE = 64 };

static void step_connection(struct drpc_connection *c);

/* ---- accepting ---- */

static void accept_now(struct deadline *deadline)
{
	struct drpc_server *server = container_of(deadline, struct drpc_server, accept_again);

	fd_watch_modify(server->watch, EPOLLIN);
}

static bool is_full(const struct drpc_server *server)
{
	return server->stats.connections >= server->options.connections_max;
}

/* No call of it is under way or has arrived. */
static bool is_idle(const struct drpc_connection *c)
{
	uint8_t byte;

	return c->state == DRPC_CONNECTION_IDLE && !c->stepping && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

/* The connection that has been idle longest, or NULL. */
static struct drpc_connection *idle_one(struct drpc_server *server)
{
	struct drpc_connection *c;

	TAILQ_FOREACH (c, &server->connections, link) {
		if (is_idle(c))
			return c;
	}
	return NULL;
}

static void connection_is_ready(void *ctx, uint32_t events)
{
	struct drpc_connection *c = ctx;

	/* the peer has closed and needs no answer; all its input was read */
	if ((events & (EPOLLHUP | EPOLLERR)) && c->state == DRPC_CONNECTION_WORKING)
		drpc_server_connection_close(c, DRPC_CLOSE_PEER_LEFT);
	else
		step_connection(c);
}

static bool is_same_peer(const struct drpc_connection *c, const struct drpc_peer *peer, bool is_process)
{
	return is_process ? c->peer.pid == peer->pid : c->peer.uid == peer->uid;
}

/*
 * Apply the limit of a process or of a user to a new connection of `peer`. Root has no limit as a user. False: the limit is
 * reached, and none of its connections is idle.
 */
static bool make_room_for_peer(struct drpc_server *server, const struct drpc_peer *peer, bool is_process, uint32_t limit)
{
	struct drpc_connection *c;
	uint32_t count = 0;

	if (limit == 0 || (!is_process && peer->uid == 0))
		return true;
	TAILQ_FOREACH (c, &server->connections, link)
		count += is_same_peer(c, peer, is_process);
	if (count < limit)
		return true;
	TAILQ_FOREACH (c, &server->connections, link) {
		if (is_same_peer(c, peer, is_process) && is_idle(c)) {
			drpc_server_connection_close(c, DRPC_CLOSE_MADE_ROOM);
			return true;
		}
	}
	return false;
}

/* Close idle connections to make room for the new one. False: there is none, or a call has just arrived on it. */
static bool admit(struct drpc_server *server, int fd)
{
	const struct drpc_server_options *options = &server->options;
	const struct drpc_peer peer = drpc_socket_peer(fd);
	struct drpc_connection *idle;

	if (!make_room_for_peer(server, &peer, true, options->connections_a_process) ||
	    !make_room_for_peer(server, &peer, false, options->connections_a_user))
		return false;
	if (!is_full(server))
		return true;
	idle = idle_one(server);
	if (idle)
		drpc_server_connection_close(idle, DRPC_CLOSE_MADE_ROOM);
	return idle != NULL;
}

/* Takes `fd`. False: out of memory, or epoll refused it. */
static bool connection_create(struct drpc_server *server, int fd)
{
	struct drpc_connection *c = calloc(1, sizeof(*c));

	if (!c)
		return false;
	trace_object_init(&c->trace, TRACE_OBJECT_DRPC_CONNECTION);
	c->fd = fd;
	c->server = server;
	c->watched_events = EPOLLIN;
	c->watch = fd_watch_add(fd, EPOLLIN, connection_is_ready, c);
	if (!c->watch) {
		free(c);
		return false;
	}
	drpc_socket_prepare(fd);
	c->peer = drpc_socket_peer(fd);
	TAILQ_INSERT_TAIL(&server->connections, c, link);
	server->stats.connections++;
	server->stats.connections_total++;
	probe_drpc_connection_open(clock_ticks(), c, c->peer.pid, c->peer.uid);
	drpc_connection_move(c, DRPC_CONNECTION_IDLE);
	return true;
}

/* Some at a time, so that clients that connect without end do not keep others waiting. */
static void accept_some(void *ctx, uint32_t events)
{
	struct drpc_server *server = ctx;

	for (uint32_t i = 0; i < ACCEPTS_AT_ONCE; i++) {
		int fd;

		if (is_full(server) && !idle_one(server)) {
			fd_watch_modify(server->watch, 0); /* until a connection ends */
			return;
		}
		fd = accept4(server->at.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd >= 0 && !admit(server, fd)) {
			server->stats.refused_total++;
			close(fd);
			continue;
		}
		if (fd >= 0 && connection_create(server, fd))
			continue;
		if (fd >= 0)
			close(fd);
		/* out of descriptors or memory: the listener stays readable, so pause watching it */
		fd_watch_modify(server->watch, 0);
		deadline_set(&server->deadlines, &server->accept_again, ACCEPT_AGAIN_MS * NS_PER_MS, accept_now);
		return;
	}
}

void drpc_server_connection_close(struct drpc_connection *c, enum drpc_close_reason reason)
{
	struct drpc_server *server = c->server;

	must(c->state != DRPC_CONNECTION_CLOSED);
	probe_drpc_connection_close(clock_ticks(), c, reason, (uint32_t)c->bad_chunk);
	drpc_connection_move(c, DRPC_CONNECTION_CLOSED);
	if (c->call)
		c->call->connection = NULL; /* its method goes on; the reply is dropped */
	c->call = NULL;
	deadline_clear(&server->deadlines, &c->deadline);
	fd_watch_remove(&c->watch);
	close(c->fd);
	drpc_message_clear(&c->in);
	free((uint8_t *)c->out);
	c->out = NULL;
	TAILQ_REMOVE(&server->connections, c, link);
	must(server->stats.connections > 0);
	if (server->stats.connections-- == server->options.connections_max && !server->accept_again.set)
		fd_watch_modify(server->watch, EPOLLIN);
	if (!c->stepping)
		free(c);
}

/* ---- in and out ---- */

static void receive_too_slow(struct deadline *deadline)
{
	struct drpc_connection *c = container_of(deadline, struct drpc_connection, deadline);

	c->server->stats.refused_total++;
	drpc_server_connection_close(c, DRPC_CLOSE_RECEIVE_TIMED_OUT);
}

static void send_too_slow(struct deadline *deadline)
{
	drpc_server_connection_close(container_of(deadline, struct drpc_connection, deadline), DRPC_CLOSE_SEND_TIMED_OUT);
}

void drpc_server_send(struct drpc_connection *c, uint8_t *data, uint64_t bytes)
{
	must(!c->out);
	c->out = data;
	c->out_bytes = bytes;
	c->out_offset = 0;
	drpc_connection_move(c, DRPC_CONNECTION_SENDING);
	deadline_set(&c->server->deadlines, &c->deadline, c->server->options.message_timeout_ns, send_too_slow);
	if (!c->stepping)
		step_connection(c);
}

/* True: all was sent, and the next call may come. */
static bool send_some(struct drpc_connection *c)
{
	struct drpc_server *server = c->server;
	enum drpc_packets result = drpc_packets_send(c->fd, c->out, c->out_bytes, &c->out_offset);

	if (result == DRPC_PACKETS_AGAIN) {
		drpc_connection_watch(c, EPOLLOUT);
		return false;
	}
	if (result == DRPC_PACKETS_FAILED) {
		drpc_server_connection_close(c, DRPC_CLOSE_SEND_FAILED);
		return false;
	}
	free((uint8_t *)c->out);
	c->out = NULL;
	deadline_clear(&server->deadlines, &c->deadline);
	drpc_connection_move(c, DRPC_CONNECTION_IDLE);
	TAILQ_REMOVE(&server->connections, c, link);
	TAILQ_INSERT_TAIL(&server->connections, c, link);
	/* this idle connection can be closed to make room */
	if (server->stats.connections == server->options.connections_max && !server->accept_again.set)
		fd_watch_modify(server->watch, EPOLLIN);
	return true;
}

static void refuse_connection(struct drpc_connection *c, enum drpc_chunk chunk)
{
	c->server->stats.refused_total++;
	c->bad_chunk = chunk;
	drpc_server_connection_close(c, DRPC_CLOSE_BAD_CHUNK);
}

/* True: a whole call was received and begun; it may be answered already. */
static bool receive_some(struct drpc_connection *c)
{
	struct drpc_server *server = c->server;
	enum drpc_chunk chunk;
	enum drpc_packets result = drpc_packets_receive(c->fd, &c->in, server->options.message_bytes_max, &chunk);

	switch (result) {
	case DRPC_PACKETS_DONE:
		deadline_clear(&server->deadlines, &c->deadline);
		drpc_connection_move(c, DRPC_CONNECTION_RECEIVING);
		drpc_connection_move(c, DRPC_CONNECTION_WORKING);
		if (drpc_call_begin(c))
			return true;
		drpc_server_connection_close(c, DRPC_CLOSE_NO_MEMORY);
		return false;
	case DRPC_PACKETS_AGAIN:
		if (c->in.total_chunks > 0 && c->state == DRPC_CONNECTION_IDLE) {
			drpc_connection_move(c, DRPC_CONNECTION_RECEIVING);
			deadline_set(&server->deadlines, &c->deadline, server->options.message_timeout_ns,
				     receive_too_slow);
		}
		drpc_connection_watch(c, EPOLLIN);
		return false;
	case DRPC_PACKETS_REFUSED:
		refuse_connection(c, chunk);
		return false;
	default:
		drpc_server_connection_close(c, DRPC_CLOSE_PEER_LEFT);
		return false;
	}
}

/* Send what waits, then receive one more call. May free `c`. */
static void step_connection(struct drpc_connection *c)
{
	struct drpc_server *server = c->server;
	bool received = false;

	must_be_on(server->thread);
	must(!c->stepping);
	c->stepping = true;
	server->stepping_count++;
	while (c->state != DRPC_CONNECTION_CLOSED) {
		if (c->state == DRPC_CONNECTION_SENDING) {
			if (!send_some(c))
				break;
		} else if (c->state == DRPC_CONNECTION_WORKING) {
			drpc_connection_watch(c, 0);
			break;
		} else if (received) {
			drpc_connection_watch(c, EPOLLIN); /* let other connections run first */
			break;
		} else if (receive_some(c)) {
			received = true;
		} else {
			break;
		}
	}
	server->stepping_count--;
	c->stepping = false;
	if (c->state == DRPC_CONNECTION_CLOSED)
		free(c);
}

/* ---- life ---- */

static void complete_options(struct drpc_server_options *options)
{
	options->mode = options->mode ? options->mode : 0600;
	options->option = options->option ? options->option : "socket_dir";
	options->connections_max = options->connections_max ? options->connections_max : DRPC_CONNECTIONS_MAX;
	if (!options->message_timeout_ns)
		options->message_timeout_ns = DRPC_MESSAGE_TIMEOUT_MS * NS_PER_MS;
	if (!options->message_bytes_max)
		options->message_bytes_max = DRPC_MESSAGE_BYTES_MAX;
	must(options->message_bytes_max <= DRPC_MESSAGE_BYTES_MAX);
	must(options->message_bytes_max >= 1024);
	for (size_t i = 0; i < options->method_count; i++) {
		must(options->methods[i].fn);
		for (size_t j = 0; j < i; j++)
			must(options->methods[i].module != options->methods[j].module ||
			     options->methods[i].method != options->methods[j].method);
	}
}

int drpc_server_open(const struct drpc_server_options *options, struct drpc_server **server_ret, struct fathom_fault *why)
{
	struct drpc_server *server = calloc(1, sizeof(*server));
	struct listener_options at;
	int error;

	if (!server)
		return fault(why, -ENOMEM, "%s: out of memory for a server", options->path);
	server->options = *options;
	complete_options(&server->options);
	server->thread = thread_self();
	TAILQ_INIT(&server->connections);
	TAILQ_INIT(&server->calls);
	at = (struct listener_options){ .path = options->path,
					.type = SOCK_SEQPACKET,
					.mode = server->options.mode,
					.option = server->options.option };
	error = listener_open(&at, &server->at, why);
	if (error) {
		free(server);
		return error;
	}
	if (deadlines_init(&server->deadlines, "drpc_deadlines"))
		error = fault(why, -ENOMEM, "%s: out of memory for a timer", options->path);
	if (!error) {
		server->watch = fd_watch_add(server->at.fd, EPOLLIN, accept_some, server);
		if (!server->watch)
			error = fault(why, -errno, "%s: cannot be watched: %s", options->path, strerror(errno));
	}
	if (error) {
		deadlines_deinit(&server->deadlines);
		listener_close(&server->at);
		free(server);
		return error;
	}
	*server_ret = server;
	return 0;
}

void drpc_server_close(struct drpc_server *server)
{
	struct drpc_connection *c;
	struct drpc_call *call;

	if (!server)
		return;
	must_be_on(server->thread);
	must(server->stepping_count == 0);
	while ((c = TAILQ_FIRST(&server->connections)))
		drpc_server_connection_close(c, DRPC_CLOSE_OWNER_ENDS);
	while ((call = TAILQ_FIRST(&server->calls))) {
		TAILQ_REMOVE(&server->calls, call, link);
		call->server = NULL;
	}
	fd_watch_remove(&server->watch);
	deadlines_deinit(&server->deadlines);
	listener_close(&server->at);
	free(server);
}

struct drpc_server_stats drpc_server_stats(const struct drpc_server *server)
{
	return server->stats;
}
