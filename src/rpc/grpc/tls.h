/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tls - both sides show a certificate of one authority; its common name is the role: admin, agent, server. TLS 1.3, or,
 * for DAOS's tools where asked for, 1.2 with the one suite that they speak. Names of hosts are not looked at: a role is for
 * all.
 */
#ifndef GRPC_TLS_H
#define GRPC_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fault.h"
#include "base/must.h"

struct grpc_tls;

struct grpc_tls_options {
	const char *ca, *certificate, *key; /* paths of PEM files */
	bool with_tls12;		    /* TLS 1.2, AES256-GCM-SHA384, too; it has no forward secrecy */
};

/*
 * Errors (explained, with the file): -ENOENT, -EACCES, -EKEYREJECTED (everybody can read the key), -EINVAL (not what it has
 * to be). Whether they are valid today is not looked at.
 */
MUST_CHECK int grpc_tls_create(const struct grpc_tls_options *options, struct grpc_tls **tls_ret, struct fathom_fault *why);
/* Read the files again: for new connections; grpc_server_renew() is for the others. On error all stays as it was. */
MUST_CHECK int grpc_tls_reload(struct grpc_tls *tls, struct fathom_fault *why);
/* How long a certificate is valid, in seconds since 1970. `path` is its file, for as long as the tls. */
struct grpc_life {
	const char *path;
	int64_t begins_s, ends_s;
};
/* Of its certificate, then of the authority's that has signed it. */
void grpc_tls_lives(const struct grpc_tls *tls, struct grpc_life lives_ret[2]);
/* How often a reload has found other certificates than there were before. */
uint32_t grpc_tls_changes(const struct grpc_tls *tls);
/* Accepts NULL. */
void grpc_tls_destroy(struct grpc_tls *tls);

/* ---- one connection's; bytes in, bytes out ---- */

struct tls_stream;

enum tls_result {
	TLS_OK,
	TLS_MORE,   /* it needs more from the peer */
	TLS_CLOSED, /* the peer has said goodbye */
	TLS_FAILED, /* tls_why() */
};

/* NULL: out of memory. */
struct tls_stream *tls_stream_create(struct grpc_tls *tls, bool server);
void tls_stream_destroy(struct tls_stream *stream); /* accepts NULL */

/* What came from the socket. False: out of memory. */
MUST_CHECK bool tls_feed(struct tls_stream *stream, const uint8_t *data, size_t bytes);
/* Go on with the handshake. TLS_OK: done, the peer has a certificate of ours, and h2 is agreed. */
MUST_CHECK enum tls_result tls_handshake(struct tls_stream *stream);
/* The common name of the peer's certificate, after the handshake; "" if it has none. */
const char *tls_peer_name(const struct tls_stream *stream);
/* Plain bytes; TLS_OK: *count > 0. */
MUST_CHECK enum tls_result tls_read(struct tls_stream *stream, uint8_t *data, size_t room, size_t *count);
/* All of them are taken. */
MUST_CHECK enum tls_result tls_write(struct tls_stream *stream, const uint8_t *data, size_t bytes);
/* What is to go to the socket: up to `room` bytes into `data`. */
size_t tls_take(struct tls_stream *stream, uint8_t *data, size_t room);
/* A sentence about the last failure. */
const char *tls_why(const struct tls_stream *stream);

#endif
