/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * front - TLS in front of a server of this process that speaks plain bytes, such as the HTTP server of metrics.
 *
 *   client <-> [TLS, certificate, role] <-> socket pair <-> accepted(fd): the server behind
 *
 * A peer without a certificate of our authority gets no further than the handshake. A peer whose certificate has a name
 * that is not admitted gets one answer from the front, and never reaches the server behind. Each direction holds at most
 * FRONT_BYTES of each kind; a peer that does not read blocks only its own connection. The server behind has the time-outs
 * of its protocol: if it closes its end, the front sends what is left and closes the connection.
 *
 * Thread: the light thread that opened the front. Nothing blocks.
 */
#ifndef GRPC_FRONT_H
#define GRPC_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

struct grpc_tls;
struct tls_front;

enum {
	FRONT_BYTES = 16 << 10,	      /* of a TLS record */
	FRONT_REJECTION_BYTES = 1024, /* of the answer to a peer that is not admitted */
	FRONT_HANDSHAKE_SEC = 10,
	FRONT_END_SEC = 10, /* for the last bytes of a connection */
};

struct tls_front_options {
	const char *address;  /* "127.0.0.1:9191", "[::1]:0"; numbers only; port 0: any free port */
	struct grpc_tls *tls; /* lent until the front is closed */
	unsigned int connections_max;
	/*
	 * Whether the peer with a certificate of this common name is admitted. False: `rejection` is its answer, of at most
	 * FRONT_REJECTION_BYTES with the NUL; it is sent once the peer has sent something.
	 */
	bool (*admit)(void *ctx, const char *name, char *rejection);
	/* Takes `fd`, a connected and non-blocking socket of the family AF_UNIX. */
	void (*accepted)(void *ctx, int fd);
	/* A connection was refused; `why` is a sentence for the log. */
	void (*refused)(void *ctx, const char *peer, const char *why);
	void *ctx;
};

/* Listen. Errors (explained): -EINVAL (address), -EADDRINUSE and others of bind(2), -ENOMEM. */
MUST_CHECK int tls_front_open(const struct tls_front_options *options, struct tls_front **front_ret,
			      struct fathom_fault *why);
/* Close at once: the server behind sees the end of its sockets. Accepts NULL. Not from a callback. */
void tls_front_close(struct tls_front *front);
uint16_t tls_front_port(const struct tls_front *front);

struct tls_front_stats {
	uint32_t connections;
	uint64_t connections_total, refused_total; /* refused: of these, those not admitted or without a handshake */
};
struct tls_front_stats tls_front_stats(const struct tls_front *front);

#endif
