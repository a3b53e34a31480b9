/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each step of a connection moves bytes until a socket blocks: client -> TLS -> `plain` -> pair, and pair -> TLS ->
 * `sealed` -> client. A buffer is filled only when it is empty, so a slow side stops the other one.
 */
#include "rpc/grpc/front.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/deadline.h"
#include "rpc/grpc/address.h"
#include "rpc/grpc/internal.h"
#include "rpc/grpc/probes.gen.h"

enum {
	BACKLOG = 64,
	AGAIN_MS = 100,
	SILENT_MS = 1000, /* for a handshake, while another peer waits */
};

struct tls_front {
	struct tls_front_options options;
	struct fathom_thread *thread;
	struct deadlines deadlines;
	struct deadline again;
	int fd;
	uint16_t port;
	struct fd_watch *watch;
	TAILQ_HEAD(, front_link) links; /* the oldest first */
	struct tls_front_stats stats;
};

static void step(struct front_link *link);

static bool is_empty(const struct front_bytes *bytes)
{
	return bytes->begin == bytes->end;
}

/* ---- the end of a connection ---- */

static void watch_listener(struct tls_front *front, bool on)
{
	if (front->watch)
		fd_watch_modify(front->watch, on ? EPOLLIN : 0);
}

static void close_pair(struct front_link *link)
{
	fd_watch_remove(&link->pair_watch);
	if (link->pair >= 0)
		close(link->pair);
	link->pair = -1;
}

static void close_link(struct front_link *link)
{
	struct tls_front *front = link->front;

	must(!link->is_stepping);
	if (link->why[0]) {
		front->stats.refused_total++;
		front->options.refused(front->options.ctx, link->peer, link->why);
	}
	grpc_front_state_move(clock_ticks(), link, GRPC_FRONT_CLOSED);
	deadline_clear(&front->deadlines, &link->deadline);
	fd_watch_remove(&link->watch);
	close(link->fd);
	close_pair(link);
	tls_stream_destroy(link->tls);
	TAILQ_REMOVE(&front->links, link, link);
	free(link);
	must(front->stats.connections > 0);
	front->stats.connections--;
	if (front->again.set) {
		deadline_clear(&front->deadlines, &front->again);
		watch_listener(front, true);
	}
}

/* Close it at the end of the step, or now. */
static void doom(struct front_link *link)
{
	link->is_doomed = true;
	if (!link->is_stepping)
		close_link(link);
}

static void refuse(struct front_link *link, const char *why)
{
	snprintf(link->why, sizeof(link->why), "%s", why);
}

static void on_deadline(struct deadline *deadline)
{
	struct front_link *link = container_of(deadline, struct front_link, deadline);

	if (link->state == GRPC_FRONT_HANDSHAKING)
		refuse(link, "the TLS handshake timed out");
	doom(link);
}

/* The server behind has ended the connection: send the rest, then close. */
static void begin_end(struct front_link *link)
{
	if (link->state == GRPC_FRONT_ENDING)
		return;
	grpc_front_state_move(clock_ticks(), link, GRPC_FRONT_ENDING);
	tls_end(link->tls);
	deadline_set(&link->front->deadlines, &link->deadline, FRONT_END_SEC * NS_PER_SEC, on_deadline);
}

/* ---- bytes ---- */

/* False: the socket takes no more now, or the connection is over. */
static bool write_out(struct front_link *link, int fd, struct front_bytes *bytes)
{
	while (!is_empty(bytes)) {
		ssize_t sent = send(fd, bytes->data + bytes->begin, bytes->end - bytes->begin, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			if (errno != EAGAIN)
				link->is_doomed = true;
			return false;
		}
		bytes->begin += (size_t)sent;
	}
	bytes->begin = bytes->end = 0;
	return true;
}

/* > 0: bytes; 0: none now; < 0: the other side has closed the socket. */
static ssize_t read_in(int fd, uint8_t *data, size_t room)
{
	ssize_t count;

	do
		count = recv(fd, data, room, MSG_DONTWAIT);
	while (count < 0 && errno == EINTR);
	if (count > 0)
		return count;
	return count < 0 && errno == EAGAIN ? 0 : -1;
}

/* Send what TLS has. True: all was sent. */
static bool flush_sealed(struct front_link *link)
{
	for (;;) {
		if (is_empty(&link->sealed))
			link->sealed.end = tls_take(link->tls, link->sealed.data, FRONT_SEALED_BYTES);
		if (is_empty(&link->sealed))
			return true;
		if (!write_out(link, link->fd, &link->sealed))
			return false;
	}
}

/* Seal what comes from behind. */
static void move_out(struct front_link *link)
{
	uint8_t data[FRONT_BYTES];

	while (flush_sealed(link) && link->pair >= 0 && link->state == GRPC_FRONT_OPEN) {
		ssize_t count = read_in(link->pair, data, sizeof(data));

		if (count == 0)
			return;
		if (count < 0) {
			close_pair(link);
			begin_end(link);
		} else if (tls_write(link->tls, data, (size_t)count) != TLS_OK) {
			link->is_doomed = true;
			return;
		}
	}
}

/* ---- the handshake ---- */

static bool open_pair(struct front_link *link);

static void answer_rejected(struct front_link *link)
{
	refuse(link, "the role of its certificate may not read this");
	if (tls_write(link->tls, (const uint8_t *)link->rejection, strlen(link->rejection)) != TLS_OK) {
		link->is_doomed = true;
		return;
	}
	begin_end(link);
}

static void handshake(struct front_link *link)
{
	struct tls_front *front = link->front;

	switch (tls_handshake(link->tls)) {
	case TLS_OK:
		break;
	case TLS_FAILED:
		(void)flush_sealed(link); /* send the alert; it is dropped if it does not fit */
		refuse(link, tls_why(link->tls));
		link->is_doomed = true;
		return;
	default:
		return;
	}
	deadline_clear(&front->deadlines, &link->deadline);
	grpc_front_state_move(clock_ticks(), link, GRPC_FRONT_OPEN);
	link->is_rejected = !front->options.admit(front->options.ctx, tls_peer_name(link->tls), link->rejection);
	if (link->is_rejected)
		deadline_set(&front->deadlines, &link->deadline, FRONT_END_SEC * NS_PER_SEC, on_deadline);
	else if (!open_pair(link))
		link->is_doomed = true; /* out of descriptors or memory */
}

/* Pass on what the client sent. False: some of it is left. */
static bool pass_plain(struct front_link *link)
{
	if (link->is_pair_over)
		link->plain.begin = link->plain.end = 0;
	return is_empty(&link->plain) || write_out(link, link->pair, &link->plain);
}

/* Open what the client sent. */
static void move_in(struct front_link *link)
{
	while (link->state == GRPC_FRONT_OPEN && !link->is_doomed && pass_plain(link)) {
		enum tls_result result = tls_read(link->tls, link->plain.data, FRONT_BYTES, &link->plain.end);

		if (result == TLS_MORE)
			return;
		if (result != TLS_OK)
			link->is_doomed = true;
		else if (link->is_rejected)
			answer_rejected(link);
	}
}

static void receive(struct front_link *link)
{
	uint8_t data[FRONT_BYTES];
	ssize_t count = read_in(link->fd, data, sizeof(data));

	if (count == 0)
		return;
	if (count < 0 || !tls_feed(link->tls, data, (size_t)count)) {
		if (link->state == GRPC_FRONT_HANDSHAKING)
			refuse(link, "it closed the connection during the TLS handshake");
		link->is_doomed = true;
		return;
	}
	if (link->state == GRPC_FRONT_HANDSHAKING)
		handshake(link);
}

/* ---- the loop ---- */

static void watch_for(struct fd_watch *watch, uint32_t *watched, uint32_t events)
{
	if (*watched != events)
		fd_watch_modify(watch, events);
	*watched = events;
}

static void watch_both(struct front_link *link)
{
	bool is_sealed = !is_empty(&link->sealed), is_plain = !is_empty(&link->plain);
	/* in the state ENDING, what the client sends is not read */
	bool may_read = !is_plain && link->state != GRPC_FRONT_ENDING;

	watch_for(link->watch, &link->watched_events, (may_read ? EPOLLIN : 0U) | (is_sealed ? EPOLLOUT : 0U));
	if (link->pair_watch)
		watch_for(link->pair_watch, &link->pair_events, (is_sealed ? 0U : EPOLLIN) | (is_plain ? EPOLLOUT : 0U));
}

static void step(struct front_link *link)
{
	must(!link->is_stepping);
	link->is_stepping = true;
	if (!link->is_doomed)
		move_in(link);
	if (!link->is_doomed)
		move_out(link);
	if (!link->is_doomed && link->state == GRPC_FRONT_ENDING && flush_sealed(link))
		link->is_doomed = true;
	link->is_stepping = false;
	if (link->is_doomed)
		close_link(link);
	else
		watch_both(link);
}

static void client_is_ready(void *ctx, uint32_t events)
{
	struct front_link *link = ctx;

	if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) && is_empty(&link->plain) && link->state != GRPC_FRONT_ENDING)
		receive(link);
	else if (events & (EPOLLERR | EPOLLHUP))
		link->is_doomed = true;
	step(link);
}

static void pair_is_ready(void *ctx, uint32_t events)
{
	struct front_link *link = ctx;

	/* the event would come again and again, while the client does not read: the rest is read without it */
	if (events & (EPOLLERR | EPOLLHUP)) {
		fd_watch_remove(&link->pair_watch);
		link->is_pair_over = true;
	}
	step(link);
}

static bool open_pair(struct front_link *link)
{
	struct tls_front *front = link->front;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
		return false;
	link->pair = pair[0];
	link->pair_events = EPOLLIN;
	link->pair_watch = fd_watch_add(pair[0], link->pair_events, pair_is_ready, link);
	if (!link->pair_watch) {
		close(pair[1]);
		return false;
	}
	front->options.accepted(front->options.ctx, pair[1]);
	return true;
}

/* ---- accepting ---- */

/* Takes `fd`. False: out of memory, or the descriptor cannot be watched. */
static bool let_in(struct tls_front *front, int fd, const struct sockaddr_storage *peer)
{
	struct front_link *link = calloc(1, sizeof(*link));

	if (link) {
		link->tls = tls_stream_create(front->options.tls, true);
		link->watch = link->tls ? fd_watch_add(fd, EPOLLIN, client_is_ready, link) : NULL;
	}
	if (!link || !link->watch) {
		if (link)
			tls_stream_destroy(link->tls);
		free(link);
		close(fd);
		return false;
	}
	trace_object_init(&link->trace, TRACE_OBJECT_GRPC_FRONT);
	link->front = front;
	link->fd = fd;
	link->watched_events = EPOLLIN;
	link->pair = -1;
	link->plain.data = link->plain_data;
	link->sealed.data = link->sealed_data;
	link->begun_tick = clock_ticks();
	address_format(link->peer, peer);
	grpc_front_state_move(link->begun_tick, link, GRPC_FRONT_HANDSHAKING);
	deadline_set(&front->deadlines, &link->deadline, FRONT_HANDSHAKE_SEC * NS_PER_SEC, on_deadline);
	TAILQ_INSERT_TAIL(&front->links, link, link);
	front->stats.connections++;
	front->stats.connections_total++;
	return true;
}

static void accept_again(struct deadline *deadline)
{
	watch_listener(container_of(deadline, struct tls_front, again), true);
}

static void pause_accepting(struct tls_front *front)
{
	watch_listener(front, false);
	deadline_set(&front->deadlines, &front->again, AGAIN_MS * NS_PER_MS, accept_again);
}

/* Peers in the handshake may be without a certificate: they must not block peers with one. */
static void make_room(struct tls_front *front)
{
	struct front_link *link;

	TAILQ_FOREACH (link, &front->links, link) {
		if (link->state == GRPC_FRONT_HANDSHAKING && !link->is_stepping)
			break;
	}
	if (!link || clock_ticks() - link->begun_tick < clock_ticks_from_ns(SILENT_MS * NS_PER_MS))
		return;
	refuse(link, "its TLS handshake takes long, and other peers wait");
	doom(link);
}

static bool is_full(const struct tls_front *front)
{
	return front->stats.connections >= front->options.connections_max;
}

/* A peer waits. */
static void accept_some(void *ctx, uint32_t events)
{
	struct tls_front *front = ctx;

	if (is_full(front))
		make_room(front);
	if (is_full(front)) {
		pause_accepting(front);
		return;
	}
	while (!is_full(front)) {
		struct sockaddr_storage peer;
		socklen_t bytes = sizeof(peer);
		int fd = accept4(front->fd, (struct sockaddr *)&peer, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd >= 0 && let_in(front, fd, &peer))
			continue;
		pause_accepting(front); /* out of descriptors or memory */
		return;
	}
}

/* ---- open to close ---- */

static int listen_there(struct tls_front *front, struct fathom_fault *why)
{
	struct sockaddr_storage address;
	socklen_t bytes;
	int error = grpc_address_parse(front->options.address, &address, &bytes, why), on = 1;

	if (error)
		return error;
	front->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (front->fd < 0)
		return fault(why, -errno, "socket: %s", strerror(errno));
	(void)setsockopt(front->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* if it fails, bind() reports it */
	if (bind(front->fd, (struct sockaddr *)&address, bytes) < 0 || listen(front->fd, BACKLOG) < 0)
		return fault(why, -errno, "%s: cannot listen: %s", front->options.address, strerror(errno));
	bytes = sizeof(address);
	must(getsockname(front->fd, (struct sockaddr *)&address, &bytes) == 0);
	front->port = ntohs(((struct sockaddr_in *)&address)->sin_port); /* at the same offset for IPv6 */
	front->watch = fd_watch_add(front->fd, EPOLLIN, accept_some, front);
	return front->watch ? 0 : fault(why, -errno, "%s: cannot be watched: %s", front->options.address, strerror(errno));
}

int tls_front_open(const struct tls_front_options *options, struct tls_front **front_ret, struct fathom_fault *why)
{
	struct tls_front *front = calloc(1, sizeof(*front));
	int error = 0;

	if (!front)
		return fault(why, -ENOMEM, "%s: out of memory", options->address);
	must(options->tls && options->admit && options->accepted && options->refused);
	front->options = *options;
	front->thread = thread_self();
	front->fd = -1;
	TAILQ_INIT(&front->links);
	if (deadlines_init(&front->deadlines, "tls_front"))
		error = fault(why, -ENOMEM, "%s: out of memory for a timer", options->address);
	if (!error)
		error = listen_there(front, why);
	if (error)
		tls_front_close(front);
	else
		*front_ret = front;
	return error;
}

void tls_front_close(struct tls_front *front)
{
	struct front_link *link;

	if (!front)
		return;
	must_be_on(front->thread);
	fd_watch_remove(&front->watch);
	if (front->fd >= 0)
		close(front->fd);
	while ((link = TAILQ_FIRST(&front->links)))
		doom(link);
	deadlines_deinit(&front->deadlines);
	free(front);
}

uint16_t tls_front_port(const struct tls_front *front)
{
	return front->port;
}

struct tls_front_stats tls_front_stats(const struct tls_front *front)
{
	return front->stats;
}
