/* SPDX-License-Identifier: BSD-2-Clause */
/* sock - from an address to a connected socket. Everything after that is recv() and sendmsg() in receive.c and send.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "data/initiator/internal.h"

enum { BUFFER_BYTES = 2 * 1024 * 1024 };

static bool is_loopback(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (addr->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
	return false;
}

/* Each of these is for speed, and the connection works without. */
static void set_socket_options(int fd, const struct sockaddr *addr)
{
	int one = 1, bytes = BUFFER_BYTES;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	/* A paced congestion control has nothing to learn on loopback and costs nearly half at 128 KiB. */
	if (is_loopback(addr))
		(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

static int wait_for_socket(int fd, uint64_t timeout_ms)
{
	struct pollfd item = { .fd = fd, .events = POLLOUT };
	int count;

	do
		count = poll(&item, 1, (int)min_u64(timeout_ms, INT32_MAX));
	while (count < 0 && errno == EINTR);
	return count;
}

/* Wait for a connect() that is under way. */
static int finish_connect(int fd, const struct fathom_connect_options *options)
{
	uint32_t timeout_ms = options->connect_timeout_ms, first_ms = (uint32_t)min_u64(timeout_ms, CONTROLLER_WAITING_MS);
	socklen_t bytes = sizeof(int);
	int error = 0, count = wait_for_socket(fd, first_ms);

	if (count == 0 && timeout_ms > first_ms) {
		controller_report_waiting(options, "has not answered the TCP connection yet");
		count = wait_for_socket(fd, timeout_ms - first_ms);
	}
	if (count < 0)
		return -errno;
	if (count == 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
		return -errno;
	return -error;
}

static int connect_one(const struct addrinfo *info, const struct fathom_connect_options *options, int *fd_ret)
{
	int error = 0;
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, info->ai_protocol);

	if (fd < 0)
		return -errno;
	set_socket_options(fd, info->ai_addr);
	if (connect(fd, info->ai_addr, info->ai_addrlen) < 0)
		error = errno == EINPROGRESS || errno == EINTR ? finish_connect(fd, options) : -errno;
	if (error) {
		close(fd);
		return error;
	}
	*fd_ret = fd;
	return 0;
}

int sock_connect(const struct fathom_connect_options *options, struct fathom_fault *why, int *fd_ret)
{
	const char *address = options->address, *service = options->service;
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list;
	int error = getaddrinfo(address, service, &hints, &list);

	if (error) {
		int number = error == EAI_SYSTEM ? -errno : error == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH;

		return fault(why, number, "%s port %s: %s", address, service, gai_strerror(error));
	}
	error = -EHOSTUNREACH;
	for (const struct addrinfo *info = list; info && error; info = info->ai_next)
		error = connect_one(info, options, fd_ret);
	freeaddrinfo(list);
	if (error)
		return fault(why, error, "connecting to %s port %s: %s", address, service, strerror(-error));
	must(*fd_ret >= 0);
	return 0;
}
