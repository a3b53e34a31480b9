/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * socket <-> TLS <-> HTTP/2. New bytes are taken from nghttp2 only when all earlier ones were written to the socket. So a
 * peer that does not read costs at most LINK_OUT_BYTES and the memory of its calls.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "rpc/grpc/probes.gen.h"

enum { LEAVE_MS = 1000 }; /* the time that a peer has to close after it was asked to */

static void step_link(struct grpc_link *link, uint32_t events);
static void link_deadline_expired(struct deadline *deadline);

static void move_link(struct grpc_link *link, enum grpc_connection_state to)
{
	if (link->state != to)
		grpc_connection_state_move(clock_ticks(), link, to);
}

static bool has_session_open(const struct grpc_link *link)
{
	return link->state == GRPC_CONNECTION_OPEN || link->state == GRPC_CONNECTION_DRAINING;
}

/* ---- the end ---- */

static void link_close(struct grpc_link *link)
{
	must(!link->stepping);
	must(link->doomed);
	probe_grpc_connection_close(clock_ticks(), link, link->reason, link->error);
	move_link(link, GRPC_CONNECTION_CLOSED);
	deadline_clear(link->deadlines, &link->deadline);
	fd_watch_remove(&link->watch);
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	/* first, because the end of the session must not report streams */
	if (link->server)
		server_link_closed(link);
	else
		client_link_closed(link);
	nghttp2_session_del(link->session);
	tls_stream_destroy(link->tls);
	free(link->out);
	free(link);
}

void link_doom(struct grpc_link *link, enum grpc_close_reason reason, int error, const char *format, ...)
{
	va_list args;

	if (!link->doomed) {
		link->doomed = true;
		link->reason = link->makes_room && (reason == GRPC_CLOSE_PEER_LEFT || reason == GRPC_CLOSE_IN_ORDER)
				       ? GRPC_CLOSE_MADE_ROOM
				       : reason;
		link->error = error;
		va_start(args, format);
		vsnprintf(link->why, sizeof(link->why), format, args);
		va_end(args);
	}
	if (!link->stepping)
		link_close(link);
}

/* ---- out ---- */

static bool out_reserve(struct grpc_link *link, size_t bytes)
{
	return buffer_reserve(&link->out, &link->out_room, link->out_end + bytes, SIZE_MAX) == 0;
}

static bool out_append(struct grpc_link *link, const uint8_t *data, size_t bytes)
{
	if (link->tls) {
		if (tls_write(link->tls, data, bytes) != TLS_OK) {
			link_doom(link, GRPC_CLOSE_TLS_FAILED, -EPROTO, "%s", tls_why(link->tls));
			return false;
		}
		return true;
	}
	if (!out_reserve(link, bytes)) {
		link_doom(link, GRPC_CLOSE_NO_MEMORY, -ENOMEM, "out of memory: cannot send");
		return false;
	}
	memcpy(link->out + link->out_end, data, bytes);
	link->out_end += bytes;
	return true;
}

/* Collect the bytes to send. */
static void out_fill(struct grpc_link *link)
{
	while (link->out_end < LINK_OUT_BYTES && !link->doomed) {
		const uint8_t *data = NULL;
		ssize_t bytes = has_session_open(link) ? nghttp2_session_mem_send(link->session, &data) : 0;

		if (bytes > 0 && !out_append(link, data, (size_t)bytes))
			return;
		if (bytes < 0)
			link_doom(link, GRPC_CLOSE_BAD_HTTP2, -EPROTO, "HTTP/2: %s", nghttp2_strerror((int)bytes));
		if (link->tls) {
			if (!out_reserve(link, LINK_IN_BYTES)) {
				link_doom(link, GRPC_CLOSE_NO_MEMORY, -ENOMEM, "out of memory: cannot send");
				return;
			}
			size_t taken = tls_take(link->tls, link->out + link->out_end, link->out_room - link->out_end);

			link->out_end += taken;
			if (taken > 0)
				continue;
		}
		if (bytes <= 0)
			return;
	}
}

/* True: all bytes were written. */
static bool send_all(struct grpc_link *link)
{
	for (;;) {
		if (link->out_begin == link->out_end) {
			link->out_begin = link->out_end = 0;
			out_fill(link);
		}
		if (link->out_begin == link->out_end)
			return true;
		ssize_t sent = send(link->fd, link->out + link->out_begin, link->out_end - link->out_begin,
				    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			if (errno != EAGAIN)
				link_doom(link, GRPC_CLOSE_PEER_LEFT, -errno, "%s", strerror(errno));
			return false;
		}
		link->out_begin += (size_t)sent;
	}
}

/* ---- in ---- */

static void http2_feed(struct grpc_link *link, const uint8_t *data, size_t bytes)
{
	ssize_t used = nghttp2_session_mem_recv(link->session, data, bytes);

	if (used < 0)
		link_doom(link, GRPC_CLOSE_BAD_HTTP2, -EPROTO, "the peer does not speak HTTP/2: %s",
			  nghttp2_strerror((int)used));
}

static void open_http2(struct grpc_link *link)
{
	int error;

	move_link(link, GRPC_CONNECTION_OPEN);
	if (!(link->server ? server_link_is_open(link) : client_link_is_open(link)))
		return;
	error = link->server ? server_session_new(link) : client_session_new(link);
	if (error)
		link_doom(link, GRPC_CLOSE_NO_MEMORY, error, "out of memory for a session");
}

static void tls_in(struct grpc_link *link, const uint8_t *data, size_t bytes)
{
	uint8_t plain[16 << 10];
	enum tls_result result = TLS_OK;
	size_t count;

	if (!tls_feed(link->tls, data, bytes)) {
		link_doom(link, GRPC_CLOSE_NO_MEMORY, -ENOMEM, "out of memory: cannot receive");
		return;
	}
	if (link->state == GRPC_CONNECTION_HANDSHAKING) {
		result = tls_handshake(link->tls);
		if (result == TLS_OK)
			open_http2(link);
	}
	while (result == TLS_OK && !link->doomed) {
		result = tls_read(link->tls, plain, sizeof(plain), &count);
		if (result == TLS_OK)
			http2_feed(link, plain, count);
	}
	if (result == TLS_CLOSED)
		link_doom(link, GRPC_CLOSE_PEER_LEFT, -ECONNRESET, "the peer closed the connection");
	if (result == TLS_FAILED) {
		if (link->state == GRPC_CONNECTION_HANDSHAKING)
			(void)send_all(link); /* send the alert; it is dropped if it does not fit */
		link_doom(link, GRPC_CLOSE_TLS_FAILED, -EACCES, "%s", tls_why(link->tls));
	}
}

static void receive_bytes(struct grpc_link *link)
{
	static _Thread_local uint8_t data[LINK_IN_BYTES];
	ssize_t count = recv(link->fd, data, sizeof(data), MSG_DONTWAIT);

	if (count < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (count <= 0) {
		link_doom(link, GRPC_CLOSE_PEER_LEFT, count < 0 ? -errno : -ECONNRESET, "%s",
			  count < 0 ? strerror(errno) : "the peer closed the connection");
		return;
	}
	link->heard = true;
	if (link->tls)
		tls_in(link, data, (size_t)count);
	else
		http2_feed(link, data, (size_t)count);
}

/* The TCP connection of a client was made, or has failed. */
static void finish_connect(struct grpc_link *link)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
		error = errno;
	if (error) {
		link_doom(link, GRPC_CLOSE_CONNECT_FAILED, -error, "%s", strerror(error));
		return;
	}
	if (!link->tls) {
		open_http2(link);
		return;
	}
	move_link(link, GRPC_CONNECTION_HANDSHAKING);
	tls_in(link, NULL, 0); /* start the handshake */
}

/* ---- the loop ---- */

static void watch_link(struct grpc_link *link, uint32_t events)
{
	if (link->watched_events != events)
		fd_watch_modify(link->watch, events);
	link->watched_events = events;
}

static void step_link(struct grpc_link *link, uint32_t events)
{
	bool sent = true;

	must(!link->stepping);
	link->stepping = true;
	if (link->state == GRPC_CONNECTION_CONNECTING && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
		finish_connect(link);
	else if (link->state != GRPC_CONNECTION_CONNECTING && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
		receive_bytes(link);
	if (!link->doomed && link->state != GRPC_CONNECTION_CONNECTING)
		sent = send_all(link);
	if (!link->doomed && sent && has_session_open(link) && !nghttp2_session_want_read(link->session) &&
	    !nghttp2_session_want_write(link->session))
		link_doom(link, GRPC_CLOSE_IN_ORDER, 0, "the connection was closed in order");
	link->stepping = false;
	if (link->doomed)
		link_close(link);
	else if (link->state != GRPC_CONNECTION_CONNECTING)
		watch_link(link, sent ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

static void link_is_ready(void *ctx, uint32_t events)
{
	step_link(ctx, events);
}

void link_kick(struct grpc_link *link)
{
	if (!link->stepping && has_session_open(link))
		step_link(link, 0);
}

/* ---- silent peers ---- */

/*
 * The peer was asked to leave and has not. A server names the last calls in a GOAWAY; a client lets its calls finish
 * first.
 */
static bool must_leave(const struct grpc_link *link)
{
	return link->asked && (link->calls_open == 0 || (link->server && link->state == GRPC_CONNECTION_OPEN));
}

static void arm_link_deadline(struct grpc_link *link)
{
	uint64_t after_ns = !link->greeted			    ? link->handshake_ns
			    : must_leave(link)			    ? LEAVE_MS * NS_PER_MS
			    : link->client && link->calls_open == 0 ? link->idle_ns
								    : link->keepalive_ns;

	deadline_set(link->deadlines, &link->deadline, after_ns, link_deadline_expired);
}

static void link_deadline_expired(struct deadline *deadline)
{
	struct grpc_link *link = container_of(deadline, struct grpc_link, deadline);

	if (!link->greeted) {
		bool connecting = link->state == GRPC_CONNECTION_CONNECTING;

		link_doom(link, connecting ? GRPC_CLOSE_CONNECT_FAILED : GRPC_CLOSE_TOO_SLOW, -ETIMEDOUT,
			  connecting ? "connecting timed out" : "the peer sent no HTTP/2 in time");
		return;
	}
	arm_link_deadline(link);
	if (must_leave(link) && link->state == GRPC_CONNECTION_DRAINING) {
		link_doom(link, link->makes_room ? GRPC_CLOSE_MADE_ROOM : GRPC_CLOSE_OWNER_ENDS, 0,
			  "it was asked to leave");
		return;
	}
	if (must_leave(link) || (link->client && link->calls_open == 0)) {
		link_drain(link);
		return;
	}
	if (link->pinged && !link->heard) {
		link_doom(link, GRPC_CLOSE_NO_ANSWER, -ETIMEDOUT, "the peer does not answer");
		return;
	}
	link->pinged = !link->heard;
	link->heard = false;
	/*
	 * if the ping cannot be submitted (out of memory), the next deadline closes the link, unless the peer sends
	 * something
	 */
	if (link->pinged && has_session_open(link))
		(void)nghttp2_submit_ping(link->session, NGHTTP2_FLAG_NONE, NULL);
	link_kick(link);
}

void link_greet(struct grpc_link *link)
{
	if (link->greeted)
		return;
	link->greeted = true;
	arm_link_deadline(link);
}

void link_count_call(struct grpc_link *link, int by)
{
	link->calls_open += (uint32_t)by;
	if (link->calls_open == 0) {
		link->idle_since = clock_ticks();
		if (link->server)
			server_link_idle(link);
	}
	if (link->client && link->greeted && !link->doomed && (link->calls_open == 0 || (link->calls_open == 1 && by > 0)))
		arm_link_deadline(link);
}

void link_ask_to_leave(struct grpc_link *link)
{
	link->asked = true;
	if (!link->greeted)
		return; /* link_drain() follows when it has */
	arm_link_deadline(link);
	/* if this fails (out of memory), the link is closed without a warning */
	if (link->server && link->state == GRPC_CONNECTION_OPEN)
		(void)nghttp2_submit_shutdown_notice(link->session);
	link_kick(link);
}

void link_drain(struct grpc_link *link)
{
	if (link->state == GRPC_CONNECTION_OPEN) {
		move_link(link, GRPC_CONNECTION_DRAINING);
		(void)nghttp2_submit_goaway(link->session, NGHTTP2_FLAG_NONE,
					    nghttp2_session_get_last_proc_stream_id(link->session), NGHTTP2_NO_ERROR, NULL,
					    0); /* if this fails (out of memory), the link stays until its peer closes it */
		link_kick(link);
	} else if (!has_session_open(link)) {
		link_doom(link, GRPC_CLOSE_OWNER_ENDS, -ECANCELED, "given up");
	}
}

/* ---- the beginning ---- */

int link_open(struct grpc_link *link, int fd, struct grpc_tls *tls, bool is_connected)
{
	int error;

	trace_object_init(&link->trace, TRACE_OBJECT_GRPC_CONNECTION);
	TAILQ_INIT(&link->calls);
	TAILQ_INIT(&link->client_calls);
	link->fd = fd;
	link->watched_events = is_connected ? EPOLLIN : EPOLLOUT;
	link->watch = fd_watch_add(fd, link->watched_events, link_is_ready, link);
	error = link->watch ? 0 : -errno;
	if (!error && tls) {
		link->tls = tls_stream_create(tls, link->server);
		error = link->tls ? 0 : -ENOMEM;
	}
	if (!error && is_connected && !tls)
		error = link->server ? server_session_new(link) : client_session_new(link);
	if (error) {
		tls_stream_destroy(link->tls);
		fd_watch_remove(&link->watch);
		close(fd);
		return error;
	}
	probe_grpc_connection_open(clock_ticks(), link, link->peer_port, link->client, tls);
	move_link(link, !is_connected ? GRPC_CONNECTION_CONNECTING
			: tls	      ? GRPC_CONNECTION_HANDSHAKING
				      : GRPC_CONNECTION_OPEN);
	arm_link_deadline(link);
	return 0;
}
