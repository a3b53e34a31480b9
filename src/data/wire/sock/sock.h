/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock - bytes in and out of one connection, without waiting.
 *
 * A socket calls its owner back when it is ready. The owner may also call receive() without such a callback, which is
 * faster under load. The operations are implemented by TCP, and by the simulator's network, which splits, stalls and
 * breaks streams. Code must not depend on which of the two it has. One thread owns a socket.
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

/* The socket became readable or writable. Called on the owning thread. */
typedef void (*sock_ready_fn)(void *ctx, bool readable, bool writable);

/*
 * What the kernel knows about a connection. Counters are since its begin; times have the resolution of the kernel's timer
 * tick, 1 to 10 ms.
 */
struct sock_info {
	uint64_t busy_us;	     /* bytes were unacknowledged, or waited in the send buffer */
	uint64_t window_closed_us;   /* a part of busy_us: the peer's receive window had no room */
	uint64_t buffer_full_us;     /* a part of busy_us: the send buffer was too small for the network */
	uint64_t recovery_us;	     /* packets were lost, and sent again after a time-out */
	bool recovery_known;	     /* false: Linux before 6.7 */
	uint32_t retransmits;	     /* packets sent again */
	uint32_t reordered;	     /* packets that arrived before an earlier one, as after a loss */
	uint32_t rtt_us, rtt_min_us; /* round-trip time: smoothed; the shortest of the last minutes. 0: not measured */
	uint32_t unacked;	     /* packets in flight now */
	uint32_t unsent_bytes;	     /* in the send buffer now */
};

struct sock_ops {
	/* Returns the bytes received, 0 at the end of the stream, or negative errno; -EAGAIN: no data yet. */
	ssize_t (*receive)(struct sock *sock, const struct iovec *iov, int iov_count);
	/*
	 * Returns the bytes accepted, which may be fewer than offered, or negative errno; -EAGAIN: the send buffer is
	 * full.
	 */
	ssize_t (*send)(struct sock *sock, const struct iovec *iov, int iov_count);
	/*
	 * Bytes accepted by send() that the kernel has not sent yet: the peer's window is closed, or the network is slow.
	 */
	uint64_t (*unsent)(struct sock *sock);
	/* False: the connection is gone. */
	bool (*info)(struct sock *sock, struct sock_info *info_ret);
	/* Start calling `ready`. Errors: -ENOMEM, -ENOSPC (epoll). */
	int (*start)(struct sock *sock);
	/* Start or stop calling `ready` when the socket is writable; used after a short send. */
	void (*want_write)(struct sock *sock, bool want);
	/* End our side of the stream: the peer sees the end of stream after all data sent before. */
	void (*shutdown)(struct sock *sock);
	/* Close the connection and free the struct sock; `ready` is not called again. */
	void (*close)(struct sock *sock);
};

struct sock {
	const struct sock_ops *ops;
	sock_ready_fn ready;
	void *ctx;
	bool polling_pays; /* calling receive() without a `ready` costs one cheap system call; false: wait for `ready` */
	char peer_address[SOCK_ADDRESS_BYTES_MAX], peer_service[SOCK_SERVICE_BYTES_MAX];
	char local_address[SOCK_ADDRESS_BYTES_MAX], local_service[SOCK_SERVICE_BYTES_MAX];
};

/* Call `ready(ctx, ...)` on the calling thread from now on. Must be called once per socket. Errors: those of ops->start. */
MUST_CHECK int sock_start(struct sock *sock, sock_ready_fn ready, void *ctx);

/*
 * Take ownership of the connected TCP socket `fd`, which is non-blocking. Sets TCP_NODELAY and keep-alive. On loopback it
 * selects Reno: bbr slows large reads by 40 % there. Errors: -ENOMEM, -ENOTCONN; the caller then still owns `fd`.
 */
MUST_CHECK int sock_from_fd(int fd, struct sock **sock_ret);

/* ---- listening ---- */

struct sock_listener;
/*
 * A connection arrived from `peer_address` (numeric, borrowed). Takes fd. fd -1: all descriptors available to hosts are in
 * use (base/descriptor.h), and the connection was closed. Called on the listening thread.
 */
typedef void (*sock_accept_fn)(void *ctx, int fd, const char *peer_address);

/*
 * Listen on a numeric address ("127.0.0.1", "::1", "0.0.0.0") and port; with port "0" the system chooses one. Connections
 * are accepted on the calling thread. If accept() fails, the listener pauses for SOCK_ACCEPT_AGAIN_MS, so it does not
 * spin. Errors (explained): -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EINVAL (not a numeric address).
 */
MUST_CHECK int sock_listen(const char *address, const char *service, sock_accept_fn accept, void *ctx,
			   struct sock_listener **listener_ret, struct fathom_fault *why);
/* The port in use, as text. */
const char *sock_listener_service(const struct sock_listener *listener);
/* Must be called on the listening thread. Accepts NULL. */
void sock_listener_close(struct sock_listener *listener);

#endif
