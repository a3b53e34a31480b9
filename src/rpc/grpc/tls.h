/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tls - TLS with certificates on both sides. Both are signed by one authority, and the common name is the role: admin,
 * agent or server. TLS 1.3, and for DAOS's tools, if configured, 1.2 with the one cipher suite that they support. Host
 * names are not checked: a certificate of a role is valid for all hosts.
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
	bool is_http1;			    /* HTTP/1.1, also of clients without ALPN; else HTTP/2, which ALPN must name */
};

/*
 * Errors (explained, with the file): -ENOENT, -EACCES, -EKEYREJECTED (other users can read the key), -EINVAL (not a valid
 * certificate or key). The dates of validity are not checked here.
 */
MUST_CHECK int grpc_tls_create(const struct grpc_tls_options *options, struct grpc_tls **tls_ret, struct fathom_fault *why);
/* Read the files again, for new connections; see grpc_server_renew() for existing ones. Nothing changes on failure. */
MUST_CHECK int grpc_tls_reload(struct grpc_tls *tls, struct fathom_fault *why);
/* A certificate's dates of validity, in seconds since 1970. `path` is its file, valid as long as the tls. */
struct grpc_life {
	const char *path;
	int64_t begins_s, ends_s;
};
/* First of our certificate, then of the authority's certificate that signed it. */
void grpc_tls_lives(const struct grpc_tls *tls, struct grpc_life lives_ret[2]);
/* The number of reloads that changed the certificates. */
uint32_t grpc_tls_changes(const struct grpc_tls *tls);
/* Accepts NULL. */
void grpc_tls_destroy(struct grpc_tls *tls);

/* ---- one connection: bytes in, bytes out ---- */

struct tls_stream;

enum tls_result {
	TLS_OK,
	TLS_MORE,   /* it needs more from the peer */
	TLS_CLOSED, /* the peer has closed TLS */
	TLS_FAILED, /* tls_why() */
};

/* NULL: out of memory. */
struct tls_stream *tls_stream_create(struct grpc_tls *tls, bool server);
void tls_stream_destroy(struct tls_stream *stream); /* accepts NULL */

/* Add bytes from the socket. False: out of memory. */
MUST_CHECK bool tls_feed(struct tls_stream *stream, const uint8_t *data, size_t bytes);
/* Continue the handshake. TLS_OK: done; our authority signed the peer's certificate, and ALPN agreed. */
MUST_CHECK enum tls_result tls_handshake(struct tls_stream *stream);
/* The common name of the peer's certificate, after the handshake; "" if it has none. */
const char *tls_peer_name(const struct tls_stream *stream);
/* Read plain bytes. TLS_OK: *count > 0. */
MUST_CHECK enum tls_result tls_read(struct tls_stream *stream, uint8_t *data, size_t room, size_t *count);
/* Write all plain bytes. */
MUST_CHECK enum tls_result tls_write(struct tls_stream *stream, const uint8_t *data, size_t bytes);
/* Tell the peer that no more bytes follow. */
void tls_end(struct tls_stream *stream);
/* Read bytes for the socket: up to `room` bytes into `data`. */
size_t tls_take(struct tls_stream *stream, uint8_t *data, size_t room);
/* A sentence about the last failure. Borrowed. */
const char *tls_why(const struct tls_stream *stream);

#endif
