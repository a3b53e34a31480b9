/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/wire/sock/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/text.h"
#include "base/reactor/reactor.h"
#include "data/wire/sock/tcp_info.h"

struct tcp_sock {
	struct sock sock;
	int fd;
	struct fd_watch *watch;
};

int sock_start(struct sock *sock, sock_ready_fn ready, void *ctx)
{
	must(!sock->ready);
	must(ready);
	sock->ready = ready;
	sock->ctx = ctx;
	return sock->ops->start(sock);
}

static ssize_t tcp_receive(struct sock *sock, const struct iovec *iov, int iov_count)
{
	struct tcp_sock *tcp = container_of(sock, struct tcp_sock, sock);
	ssize_t n;

	do {
		if (iov_count == 1) {
			n = recv(tcp->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT);
		} else {
			struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iov_count };

			n = recvmsg(tcp->fd, &message, MSG_DONTWAIT);
		}
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t tcp_send(struct sock *sock, const struct iovec *iov, int iov_count)
{
	struct tcp_sock *tcp = container_of(sock, struct tcp_sock, sock);
	struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iov_count };
	ssize_t n;

	do {
		n = sendmsg(tcp->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static uint64_t tcp_unsent(struct sock *sock)
{
	int bytes = 0;

	/* This fails only if the connection is gone; then nothing is queued. */
	if (ioctl(container_of(sock, struct tcp_sock, sock)->fd, SIOCOUTQNSD, &bytes) != 0)
		return 0;
	return (uint64_t)bytes;
}

static bool tcp_info(struct sock *sock, struct sock_info *info_ret)
{
	return tcp_info_read(container_of(sock, struct tcp_sock, sock)->fd, info_ret);
}

static void tcp_event(void *ctx, uint32_t events)
{
	struct tcp_sock *tcp = ctx;

	/* the next receive reports an error as end of stream or errno */
	tcp->sock.ready(tcp->sock.ctx, (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0,
			(events & EPOLLOUT) != 0);
}

static int tcp_start(struct sock *sock)
{
	struct tcp_sock *tcp = container_of(sock, struct tcp_sock, sock);

	tcp->watch = fd_watch_add(tcp->fd, EPOLLIN, tcp_event, tcp);
	return tcp->watch ? 0 : -ENOMEM;
}

static void tcp_want_write(struct sock *sock, bool want)
{
	struct tcp_sock *tcp = container_of(sock, struct tcp_sock, sock);

	fd_watch_modify(tcp->watch, want ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void tcp_shutdown(struct sock *sock)
{
	/* this fails only if the connection is gone, so ignoring the error is safe */
	(void)shutdown(container_of(sock, struct tcp_sock, sock)->fd, SHUT_WR);
}

static void tcp_close(struct sock *sock)
{
	struct tcp_sock *tcp = container_of(sock, struct tcp_sock, sock);

	fd_watch_remove(&tcp->watch);
	close(tcp->fd);
	free(tcp);
}

static const struct sock_ops tcp_ops = {
	.receive = tcp_receive,
	.send = tcp_send,
	.unsent = tcp_unsent,
	.info = tcp_info,
	.start = tcp_start,
	.want_write = tcp_want_write,
	.shutdown = tcp_shutdown,
	.close = tcp_close,
};

static int format_address(const struct sockaddr_storage *address, socklen_t bytes, char *host, char *service)
{
	return getnameinfo((const struct sockaddr *)address, bytes, host, SOCK_ADDRESS_BYTES_MAX, service,
			   SOCK_SERVICE_BYTES_MAX, NI_NUMERICHOST | NI_NUMERICSERV) == 0
		       ? 0
		       : -EINVAL;
}

static bool is_loopback(const char *address)
{
	return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* Options for speed and for detecting a dead peer. Correctness does not depend on them, so errors are ignored. */
static void set_socket_options(int fd, bool loopback)
{
	int on = 1, idle_s = 30, interval_s = 10, probes = 3;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	if (loopback)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

int sock_from_fd(int fd, struct sock **sock_ret)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	struct tcp_sock *tcp = calloc(1, sizeof(*tcp));

	if (!tcp)
		return -ENOMEM;
	tcp->fd = fd;
	tcp->sock.ops = &tcp_ops;
	tcp->sock.polling_pays = true;
	if (getpeername(fd, (struct sockaddr *)&address, &bytes) != 0 ||
	    format_address(&address, bytes, tcp->sock.peer_address, tcp->sock.peer_service) != 0)
		goto gone;
	bytes = sizeof(address);
	if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0 ||
	    format_address(&address, bytes, tcp->sock.local_address, tcp->sock.local_service) != 0)
		goto gone;
	set_socket_options(fd, is_loopback(tcp->sock.peer_address));
	*sock_ret = &tcp->sock;
	return 0;
gone:
	free(tcp);
	return -ENOTCONN;
}

/* ---- listening ---- */

enum { ACCEPTS_MAX = 64 };

struct sock_listener {
	int fd;
	int spare_fd; /* closed briefly if the process runs out of descriptors, to accept and close a waiting connection */
	struct fd_watch *watch;
	struct poller *again; /* runs only while accepting is paused after a failed accept() */
	struct log_limit limit;
	sock_accept_fn accept;
	void *ctx;
	char service[SOCK_SERVICE_BYTES_MAX];
};

/* Returns -1 and errno, like accept4(). `peer` is "" if the address has no text form. */
static int accept_one(const struct sock_listener *listener, char peer[SOCK_ADDRESS_BYTES_MAX])
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	char service[SOCK_SERVICE_BYTES_MAX];
	int fd = accept4(listener->fd, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0 && format_address(&address, bytes, peer, service) != 0)
		peer[0] = '\0';
	return fd;
}

/* Out of descriptors: accept one connection with the spare descriptor and close it. False: that failed too. */
static bool reject_one_connection(struct sock_listener *listener)
{
	char peer[SOCK_ADDRESS_BYTES_MAX];
	int fd;

	if (listener->spare_fd < 0)
		return false;
	close(listener->spare_fd);
	fd = accept_one(listener, peer);
	if (fd >= 0)
		close(fd);
	listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		listener->accept(listener->ctx, -1, peer);
	return fd >= 0;
}

/* A listener with a waiting connection stays readable. Without a pause it would take all of the thread's time. */
static void pause_accepting(struct sock_listener *listener)
{
	fd_watch_modify(listener->watch, 0);
	poller_set_period(listener->again, SOCK_ACCEPT_AGAIN_MS * NS_PER_MS);
	poller_resume(listener->again);
}

static int resume_accepting(void *ctx)
{
	struct sock_listener *listener = ctx;

	poller_pause(listener->again);
	fd_watch_modify(listener->watch, EPOLLIN);
	return 1;
}

static void accept_failed(struct sock_listener *listener, int error)
{
	log_line_limited(&listener->limit, clock_monotonic_ns(), LOG_LEVEL_ERROR,
			 "port %s: cannot accept a connection: %s; the next attempt is in %d ms", listener->service,
			 strerror(error), SOCK_ACCEPT_AGAIN_MS);
	pause_accepting(listener);
}

static void accept_event(void *ctx, uint32_t events)
{
	struct sock_listener *listener = ctx;
	uint32_t admitted_max = descriptor_admitted_max();

	/* a limit per turn: a flood of connections must not keep the thread from its other work */
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		char peer[SOCK_ADDRESS_BYTES_MAX] = "";
		int fd = accept_one(listener, peer), error = errno;

		if (fd >= 0 && (uint32_t)fd >= admitted_max) {
			close(fd);
			listener->accept(listener->ctx, -1, peer);
		} else if (fd >= 0) {
			listener->accept(listener->ctx, fd, peer);
		} else if (error == EAGAIN) {
			return;
		} else if (error == EINTR || error == ECONNABORTED) {
			continue;
		} else if ((error != EMFILE && error != ENFILE) || !reject_one_connection(listener)) {
			accept_failed(listener, error);
			return;
		}
	}
}

static int bind_and_listen(const struct addrinfo *at, struct sock_listener *listener)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	char host[SOCK_ADDRESS_BYTES_MAX];
	int on = 1;

	listener->fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener->fd < 0)
		return -errno;
	if (setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(listener->fd, at->ai_addr, at->ai_addrlen) != 0 || listen(listener->fd, SOCK_BACKLOG) != 0 ||
	    getsockname(listener->fd, (struct sockaddr *)&address, &bytes) != 0)
		return -errno;
	return format_address(&address, bytes, host, listener->service);
}

int sock_listen(const char *address, const char *service, sock_accept_fn accept, void *ctx,
		struct sock_listener **listener_ret, struct fathom_fault *why)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE },
			*at;
	struct sock_listener *listener;
	int rc = getaddrinfo(address, service, &hints, &at);

	if (rc != 0)
		return fault(why, -EINVAL, "\"%s\" port \"%s\" is not a numeric address: %s", address, service,
			     gai_strerror(rc));
	listener = calloc(1, sizeof(*listener));
	must(listener);
	listener->accept = accept;
	listener->ctx = ctx;
	listener->fd = -1;
	listener->limit = (struct log_limit)LOG_LIMIT(1, NS_PER_SEC);
	listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	rc = bind_and_listen(at, listener);
	freeaddrinfo(at);
	if (rc == 0) {
		listener->watch = fd_watch_add(listener->fd, EPOLLIN, accept_event, listener);
		listener->again = poller_register("sock_accept_again", resume_accepting, listener,
						  SOCK_ACCEPT_AGAIN_MS * NS_PER_MS);
		rc = listener->watch && listener->again ? 0 : -ENOMEM;
	}
	if (rc != 0) {
		rc = fault(why, rc, "cannot listen on %s port %s: %s", address, service, strerror(-rc));
		sock_listener_close(listener);
		return rc;
	}
	poller_pause(listener->again);
	*listener_ret = listener;
	return 0;
}

const char *sock_listener_service(const struct sock_listener *listener)
{
	return listener->service;
}

void sock_listener_close(struct sock_listener *listener)
{
	if (!listener)
		return;
	fd_watch_remove(&listener->watch);
	poller_unregister(&listener->again);
	if (listener->fd >= 0)
		close(listener->fd);
	if (listener->spare_fd >= 0)
		close(listener->spare_fd);
	free(listener);
}
