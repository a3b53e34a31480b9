/* SPDX-License-Identifier: BSD-2-Clause */
/* OpenSSL between two memory buffers: received bytes go in, bytes to send come out. It has no socket. */
#include "rpc/grpc/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/text.h"

enum { NAME_BYTES_MAX = 65, PATH_BYTES = 4096 }; /* a common name has at most 64 */

/* In ALPN: length and name. */
static const unsigned char h2[] = { 2, 'h', '2' }, http1[] = { 8, 'h', 't', 't', 'p', '/', '1', '.', '1' };

struct grpc_tls {
	char ca[PATH_BYTES], certificate[PATH_BYTES], key[PATH_BYTES];
	bool with_tls12, is_http1;
	SSL_CTX *side[2]; /* client, server */
	uint32_t changes;
};

struct tls_stream {
	SSL *ssl;
	BIO *in, *out; /* of ssl */
	bool server, is_http1;
	char name[NAME_BYTES_MAX];
	char why[FAULT_TEXT_BYTES_MAX];
};

/* ---- contexts ---- */

static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_bytes,
			   const unsigned char *offered, unsigned int offered_bytes, void *ctx)
{
	const unsigned char *ours = ctx;
	unsigned char *found = NULL;

	if (SSL_select_next_proto(&found, chosen_bytes, ours, ours[0] + 1U, offered, offered_bytes) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*chosen = found;
	return SSL_TLSEXT_ERR_OK;
}

/* A fault with the last error of OpenSSL about a file. */
static int file_fault(struct fathom_fault *why, const char *path, const char *what)
{
	unsigned long error = ERR_peek_last_error();
	const char *reason = ERR_reason_error_string(error);

	if (ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_SYS)
		return fault(why, -(int)ERR_GET_REASON(ERR_peek_error()), "%s: %s", path,
			     strerror((int)ERR_GET_REASON(ERR_peek_error())));
	return fault(why, -EINVAL, "%s: %s: %s", path, what, reason ? reason : "not valid PEM");
}

/* Reject a key that other users can read or write: it may be known to them. */
static int check_key(const char *path, struct fathom_fault *why)
{
	struct stat stat_of;

	if (stat(path, &stat_of) < 0)
		return fault(why, -errno, "%s: %s", path, strerror(errno));
	if (stat_of.st_mode & 07)
		return fault(why, -EKEYREJECTED,
			     "%s: other users may read or write this key; make a new key, and chmod 0600 it", path);
	return 0;
}

/*
 * OpenSSL accepts certificates and keys that it has decoded only in part, for example when out of memory. Then each later
 * handshake fails. So check here that the key was decoded.
 */
static bool is_whole(const EVP_PKEY *key)
{
	return key && EVP_PKEY_get_size(key) > 0;
}

static bool has_whole_authorities(SSL_CTX *context)
{
	STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));

	for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
		X509 *certificate = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i)); /* NULL: a revocation list */

		if (certificate && !is_whole(X509_get0_pubkey(certificate)))
			return false;
	}
	return true;
}

static int part_fault(struct fathom_fault *why, const char *path)
{
	return fault(why, -ENOMEM, "%s: out of memory: a key in it was decoded only in part", path);
}

static int load_files(const struct grpc_tls *tls, SSL_CTX *context, struct fathom_fault *why)
{
	int error;

	ERR_clear_error();
	if (SSL_CTX_load_verify_locations(context, tls->ca, NULL) != 1)
		return file_fault(why, tls->ca, "no certificate of an authority found");
	if (!has_whole_authorities(context))
		return part_fault(why, tls->ca);
	if (SSL_CTX_use_certificate_chain_file(context, tls->certificate) != 1)
		return file_fault(why, tls->certificate, "no certificate found");
	if (!is_whole(X509_get0_pubkey(SSL_CTX_get0_certificate(context))))
		return part_fault(why, tls->certificate);
	error = check_key(tls->key, why);
	if (error)
		return error;
	if (SSL_CTX_use_PrivateKey_file(context, tls->key, SSL_FILETYPE_PEM) != 1)
		return file_fault(why, tls->key, "no private key found");
	if (!is_whole(SSL_CTX_get0_privatekey(context)))
		return part_fault(why, tls->key);
	if (SSL_CTX_check_private_key(context) != 1)
		return fault(why, -EINVAL, "%s is not the key of %s", tls->key, tls->certificate);
	return 0;
}

static int context_new(const struct grpc_tls *tls, bool server, SSL_CTX **context_ret, struct fathom_fault *why)
{
	SSL_CTX *context = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
	const unsigned char *protocol = tls->is_http1 ? http1 : h2;
	int error;

	if (!context)
		return fault(why, -ENOMEM, "out of memory for TLS");
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	if (server)
		SSL_CTX_set_alpn_select_cb(context, choose_protocol, (void *)(uintptr_t)protocol);
	/* only the suite of TLS 1.2; 1.3 keeps its defaults */
	if (SSL_CTX_set_min_proto_version(context, tls->with_tls12 ? TLS1_2_VERSION : TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(context, "AES256-GCM-SHA384") != 1 ||
	    (!server && SSL_CTX_set_alpn_protos(context, protocol, protocol[0] + 1U) != 0)) {
		SSL_CTX_free(context);
		return fault(why, -ENOMEM, "out of memory for TLS");
	}
	error = load_files(tls, context, why);
	if (error) {
		SSL_CTX_free(context);
		return error;
	}
	*context_ret = context;
	return 0;
}

static bool are_same_authorities(SSL_CTX *a, SSL_CTX *b)
{
	STACK_OF(X509_OBJECT) *of_a = X509_STORE_get0_objects(SSL_CTX_get_cert_store(a)),
			      *of_b = X509_STORE_get0_objects(SSL_CTX_get_cert_store(b));
	int count = sk_X509_OBJECT_num(of_a);

	if (count != sk_X509_OBJECT_num(of_b))
		return false;
	for (int i = 0; i < count; i++) {
		const X509 *x = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(of_a, i)),
			   *y = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(of_b, i));

		if (!x || !y || X509_cmp(x, y) != 0)
			return false; /* also for revocation lists, which are not compared */
	}
	return true;
}

/* Whether the key belongs to the certificate. */
static bool are_same(SSL_CTX *a, SSL_CTX *b)
{
	return X509_cmp(SSL_CTX_get0_certificate(a), SSL_CTX_get0_certificate(b)) == 0 && are_same_authorities(a, b);
}

/* An invalid date is not an error here: the verification of the peer decides about it. */
static int64_t seconds_of(const ASN1_TIME *time, int64_t otherwise)
{
	struct tm tm;

	return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : otherwise;
}

/* Find the authority of `certificate`: the file may have several. `certificate` itself, if it is self-signed. */
static const X509 *find_authority(SSL_CTX *context, X509 *certificate)
{
	STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));

	for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
		X509 *authority = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));

		if (authority && X509_check_issued(authority, certificate) == X509_V_OK)
			return authority;
	}
	return certificate;
}

void grpc_tls_lives(const struct grpc_tls *tls, struct grpc_life lives_ret[2])
{
	X509 *own = SSL_CTX_get0_certificate(tls->side[0]);
	const X509 *certificates[2] = { own, find_authority(tls->side[0], own) };
	const char *const paths[2] = { tls->certificate, tls->ca };

	for (size_t i = 0; i < 2; i++) {
		lives_ret[i].path = paths[i];
		lives_ret[i].begins_s = seconds_of(X509_get0_notBefore(certificates[i]), INT64_MIN);
		lives_ret[i].ends_s = seconds_of(X509_get0_notAfter(certificates[i]), INT64_MAX);
	}
}

uint32_t grpc_tls_changes(const struct grpc_tls *tls)
{
	return tls->changes;
}

int grpc_tls_reload(struct grpc_tls *tls, struct fathom_fault *why)
{
	SSL_CTX *side[2] = { NULL, NULL };

	for (int server = 0; server < 2; server++) {
		int error = context_new(tls, server, &side[server], why);

		if (error) {
			SSL_CTX_free(side[0]);
			return error;
		}
	}
	tls->changes += tls->side[1] && !are_same(tls->side[1], side[1]);
	for (int server = 0; server < 2; server++) {
		SSL_CTX_free(tls->side[server]); /* existing connections keep a reference */
		tls->side[server] = side[server];
	}
	return 0;
}

int grpc_tls_create(const struct grpc_tls_options *options, struct grpc_tls **tls_ret, struct fathom_fault *why)
{
	struct grpc_tls *tls = calloc(1, sizeof(*tls));
	int error;

	if (!tls)
		return fault(why, -ENOMEM, "out of memory for TLS");
	if (text_copy(tls->ca, sizeof(tls->ca), options->ca) < 0 ||
	    text_copy(tls->certificate, sizeof(tls->certificate), options->certificate) < 0 ||
	    text_copy(tls->key, sizeof(tls->key), options->key) < 0) {
		free(tls);
		return fault(why, -ENAMETOOLONG, "the path of a certificate is too long");
	}
	tls->with_tls12 = options->with_tls12;
	tls->is_http1 = options->is_http1;
	error = grpc_tls_reload(tls, why);
	if (error) {
		free(tls);
		return error;
	}
	*tls_ret = tls;
	return 0;
}

void grpc_tls_destroy(struct grpc_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->side[0]);
	SSL_CTX_free(tls->side[1]);
	free(tls);
}

/* ---- one connection ---- */

struct tls_stream *tls_stream_create(struct grpc_tls *tls, bool server)
{
	struct tls_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->server = server;
	stream->is_http1 = tls->is_http1;
	stream->ssl = SSL_new(tls->side[server]);
	stream->in = BIO_new(BIO_s_mem());
	stream->out = BIO_new(BIO_s_mem());
	if (!stream->ssl || !stream->in || !stream->out) {
		SSL_free(stream->ssl);
		BIO_free(stream->in);
		BIO_free(stream->out);
		free(stream);
		return NULL;
	}
	SSL_set_bio(stream->ssl, stream->in, stream->out); /* takes both */
	if (server)
		SSL_set_accept_state(stream->ssl);
	else
		SSL_set_connect_state(stream->ssl);
	return stream;
}

void tls_stream_destroy(struct tls_stream *stream)
{
	if (!stream)
		return;
	SSL_free(stream->ssl);
	free(stream);
}

bool tls_feed(struct tls_stream *stream, const uint8_t *data, size_t bytes)
{
	return bytes == 0 || BIO_write(stream->in, data, (int)bytes) == (int)bytes;
}

/* Write a sentence about the error that the peer or OpenSSL reported. */
static void explain_tls_error(struct tls_stream *stream)
{
	long verified = SSL_get_verify_result(stream->ssl);
	unsigned long error = ERR_peek_error();
	const char *text = ERR_reason_error_string(error);

	switch (verified) {
	case X509_V_OK:
		break;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		text = "the certificate of the other side has expired: make new ones";
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		text = "the certificate of the other side is not valid yet: compare the clocks of both hosts";
		break;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
		text = "the certificate of the other side is of another authority: all hosts of a system need those of one";
		break;
	case X509_V_ERR_INVALID_PURPOSE:
		text = "the certificate of the other side is not valid for this purpose: a server needs the certificate of "
		       "a server";
		break;
	default:
		text = X509_verify_cert_error_string(verified);
	}
	if (verified == X509_V_OK) {
		switch (ERR_GET_REASON(error)) {
		case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
			text = "the other side shows no certificate";
			break;
		case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
			text = "the other side does not know the authority of our certificate";
			break;
		case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
			text = "the other side says that our certificate has expired: make new ones";
			break;
		case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
			text = "the other side requires a certificate";
			break;
		case SSL_R_HTTP_REQUEST:
		case SSL_R_WRONG_VERSION_NUMBER:
			text = "the other side does not speak TLS: one of the two is in insecure mode";
			break;
		case SSL_R_UNSUPPORTED_PROTOCOL:
		case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
			text = "the two sides have no version of TLS in common";
			break;
		default:
			break;
		}
	}
	snprintf(stream->why, sizeof(stream->why), "TLS: %s", text ? text : "the other side broke the protocol");
	ERR_clear_error();
}

static enum tls_result result_of(struct tls_stream *stream, int returned)
{
	switch (SSL_get_error(stream->ssl, returned)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return TLS_MORE;
	case SSL_ERROR_ZERO_RETURN:
		return TLS_CLOSED;
	default:
		explain_tls_error(stream);
		return TLS_FAILED;
	}
}

static void note_name(struct tls_stream *stream)
{
	X509 *certificate = SSL_get1_peer_certificate(stream->ssl);
	int length = -1;

	if (certificate)
		length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, stream->name,
						   sizeof(stream->name));
	if (length < 0 || strlen(stream->name) != (size_t)length) /* no common name, or one with a NUL in it */
		stream->name[0] = '\0';
	X509_free(certificate);
}

enum tls_result tls_handshake(struct tls_stream *stream)
{
	const unsigned char *chosen;
	unsigned int bytes;
	int returned;

	ERR_clear_error();
	returned = SSL_do_handshake(stream->ssl);
	if (returned != 1)
		return result_of(stream, returned);
	SSL_get0_alpn_selected(stream->ssl, &chosen, &bytes);
	if (!stream->is_http1 && (bytes != sizeof(h2) - 1 || memcmp(chosen, h2 + 1, bytes) != 0)) {
		snprintf(stream->why, sizeof(stream->why), "TLS: the other side does not offer HTTP/2 (ALPN h2)");
		return TLS_FAILED;
	}
	note_name(stream);
	return TLS_OK;
}

const char *tls_peer_name(const struct tls_stream *stream)
{
	return stream->name;
}

enum tls_result tls_read(struct tls_stream *stream, uint8_t *data, size_t room, size_t *count)
{
	int returned;

	ERR_clear_error();
	returned = SSL_read(stream->ssl, data, (int)room);
	if (returned <= 0)
		return result_of(stream, returned);
	*count = (size_t)returned;
	return TLS_OK;
}

enum tls_result tls_write(struct tls_stream *stream, const uint8_t *data, size_t bytes)
{
	ERR_clear_error();
	while (bytes > 0) {
		int returned = SSL_write(stream->ssl, data, (int)bytes);

		if (returned <= 0)
			return result_of(stream, returned);
		data += returned;
		bytes -= (size_t)returned;
	}
	return TLS_OK;
}

void tls_end(struct tls_stream *stream)
{
	ERR_clear_error();
	(void)SSL_shutdown(stream->ssl); /* if it fails, the peer sees the end of the TCP connection */
	ERR_clear_error();
}

size_t tls_take(struct tls_stream *stream, uint8_t *data, size_t room)
{
	int taken = BIO_read(stream->out, data, (int)room);

	return taken > 0 ? (size_t)taken : 0;
}

const char *tls_why(const struct tls_stream *stream)
{
	return stream->why;
}
