/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock - bytes in and out of one connection, without waiting.
 *
 * A socket tells its owner when it is ready; the owner may also ask without being told, which is faster while much is
 * coming. Behind the four operations is TCP, or the simulator's network that splits, stalls and breaks at will: whoever has
 * a `struct sock` cannot know which. One thread owns a socket.
 */
#ifndef WIRE_SOCK_SOCK_H
#define WIRE_SOCK_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/fault.h"
#include "base/must.h"

enum {
	SOCK_ADDRESS_BYTES_MAX = 64,
	SOCK_SERVICE_BYTES_MAX = 8,
	SOCK_BACKLOG = 512,
	SOCK_ACCEPT_AGAIN_MS = 100,
};

struct sock;

/* Something can be read, or written again; on the owning thread. */
typedef void (*sock_ready_fn)(void *ctx, bool readable, bool writable);

struct sock_ops {
	/* Bytes received, 0 at the end of the stream, or negative errno; -EAGAIN: nothing now. */
	ssize_t (*receive)(struct sock *sock, const struct iovec *iov, int iov_count);
	/* Bytes taken, which may be fewer than offered, or negative errno; -EAGAIN: none now. */
	ssize_t (*send)(struct sock *sock, const struct iovec *iov, int iov_count);
	/* Bytes that were taken and not sent yet: the peer's window is closed, or the network is slow. */
	uint64_t (*unsent)(struct sock *sock);
	/* Begin to tell `ready`. -ENOMEM, -ENOSPC (epoll). */
	int (*start)(struct sock *sock);
	/* Tell when it can be written (after a short send), or no longer. */
	void (*want_write)(struct sock *sock, bool want);
	/* We shall send no more: the peer sees the end of our stream after all that was sent. */
	void (*shutdown)(struct sock *sock);
	/* Ends it and frees the struct sock; `ready` is not called again. */
	void (*close)(struct sock *sock);
};

struct sock {
	const struct sock_ops *ops;
	sock_ready_fn ready;
	void *ctx;
	bool polling_pays; /* receive() without being told costs one cheap system call; false: wait to be told */
	char peer_address[SOCK_ADDRESS_BYTES_MAX], peer_service[SOCK_SERVICE_BYTES_MAX];
	char local_address[SOCK_ADDRESS_BYTES_MAX], local_service[SOCK_SERVICE_BYTES_MAX];
};

/* Tell `ready(ctx, ...)` on the calling thread from now on. Once. Errors: as ops->start. */
MUST_CHECK int sock_start(struct sock *sock, sock_ready_fn ready, void *ctx);

/*
 * Take over a connected TCP socket `fd`: non-blocking, no delay, and on loopback Reno (bbr costs large reads 40 % there).
 * Errors: -ENOMEM, -ENOTCONN; `fd` is then still the caller's.
 */
MUST_CHECK int sock_from_fd(int fd, struct sock **sock_ret);

/* ---- listening ---- */

struct sock_listener;
/*
 * A connection came from `peer_address` (numeric, borrowed). Takes fd. fd -1: the descriptors that hosts may have are used
 * up (base/descriptor.h), and the connection was closed. On the thread that listens.
 */
typedef void (*sock_accept_fn)(void *ctx, int fd, const char *peer_address);

/*
 * Listen on a numeric address ("127.0.0.1", "::1", "0.0.0.0") and port; "0" lets the system choose. On the calling thread.
 * Where accept() fails, the listener is retried after SOCK_ACCEPT_AGAIN_MS: it is never lost and never spins.
 * Errors (explained): -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EINVAL (not a numeric address).
 */
MUST_CHECK int sock_listen(const char *address, const char *service, sock_accept_fn accept, void *ctx,
			   struct sock_listener **listener_ret, struct fault *why);
/* The port in use, in text. */
const char *sock_listener_service(const struct sock_listener *listener);
/* On the thread that listens. Accepts NULL. */
void sock_listener_close(struct sock_listener *listener);

#endif
