/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * grpc - unary calls over HTTP/2, as gRPC has them: the server and the client. nghttp2 does the HTTP/2.
 *
 *   grpc_server_open(address, methods) -> fn(call, request) -> now or later grpc_reply() or grpc_fail()
 *   grpc_client_create() -> grpc_client_call(request) -> done(result)
 *
 * Many calls share a connection; a client keeps one connection to each server and makes it when it is first needed. Both
 * sides watch the deadline of a call. A peer that does not read stops only itself: data are produced when the socket
 * takes them. With certificates (rpc/grpc/tls.h) a call has the role of the peer's certificate, and a method has a mask of
 * the roles that may call it. Without certificates the role of the header is trusted.
 *
 * Everything of a server or a client on the light thread that made it. Nothing blocks.
 */
#ifndef GRPC_GRPC_H
#define GRPC_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/fault.h"
#include "base/must.h"
#include "rpc/grpc/states.gen.h"
#include "rpc/proto/rpc.pb-c.h"

enum {
	GRPC_MESSAGE_BYTES_MAX = 4 << 20,  /* that a server takes, where its options say nothing */
	GRPC_ANSWER_BYTES_MAX = 64 << 20,  /* that a client takes, likewise: it has asked for it */
	GRPC_CONNECTIONS_MAX = 16384,	   /* of a server, likewise; at most half of the descriptors that it may have */
	GRPC_STREAMS_MAX = 1000,	   /* calls at a time on one connection, likewise */
	GRPC_HEADERS_BYTES_MAX = 16 << 10, /* of one call, as HTTP/2 counts them */
	GRPC_TEXT_BYTES_MAX = 1024,	   /* of a status's message, with the NUL */
	GRPC_ADDRESS_BYTES_MAX = 64,	   /* "[address]:port", with the NUL */
	GRPC_CLIENT_CALLS_MAX = 1 << 16,   /* of a client */
	GRPC_WHO_BYTES = 160,		   /* grpc_call_who(), with the NUL */
};

#define GRPC_NO_DEADLINE UINT64_MAX

/* Who somebody is: the common name of its certificate, and what it says of itself in the header x-daos-component. */
enum grpc_role {
	GRPC_ROLE_ADMIN = 1 << 0,
	GRPC_ROLE_AGENT = 1 << 1,
	GRPC_ROLE_SERVER = 1 << 2,
	GRPC_ROLE_ANYBODY = 0, /* of a method: no matter who calls, or whether it says who it is */
};
#define GRPC_HEADER_COMPONENT "x-daos-component"
#define GRPC_HEADER_VERSION "x-daos-version"

const char *grpc_role_name(enum grpc_role role); /* "admin"; "nobody" of 0 */
/* 0: no such role. */
enum grpc_role grpc_role_of(const char *name);

struct grpc_tls;

/* ---- server ---- */

struct grpc_server;
struct grpc_call;

/* Ends, now or later, with grpc_reply() or grpc_fail(). `request` lives until then. Must not close the server. */
typedef void (*grpc_fn)(struct grpc_call *call, const ProtobufCMessage *request);

struct grpc_method {
	const char *path; /* "/mgmt.MgmtSvc/SystemQuery" */
	const ProtobufCMessageDescriptor *request;
	const ProtobufCMessageDescriptor *response; /* what grpc_reply() must be given */
	unsigned int roles;			    /* enum grpc_role: who may call it */
	grpc_fn fn;
};

struct grpc_server_options {
	const char *address;		   /* "127.0.0.1:10001", "[::1]:0"; numbers only; port 0: any */
	const struct grpc_method *methods; /* stay until the server is closed. A path twice is a bug */
	size_t method_count;
	void *ctx;	      /* grpc_call_ctx() */
	struct grpc_tls *tls; /* lent until the server is closed; NULL: in the clear */
	/* Told of each connection that was refused, with a sentence; the daemon logs it. May be NULL. */
	void (*refused)(void *ctx, const char *peer, const char *why);
	uint32_t connections_max;   /* 0: the defaults above. Beyond it one without calls is asked to go, or others wait */
	uint32_t streams_max;	    /* 0 */
	uint32_t message_bytes_max; /* 0 */
	uint64_t handshake_timeout_ns; /* 0: 10 s. From connecting to the first word of HTTP/2 */
	uint64_t keepalive_ns; /* 0: 60 s. Silence after which a peer is asked whether it lives, and then for how long */
};

/* Errors (explained): -EINVAL (address), -EADDRINUSE, -EACCES, -ENOMEM ... */
MUST_CHECK int grpc_server_open(const struct grpc_server_options *options, struct grpc_server **server_ret,
				struct fathom_fault *why);
uint16_t grpc_server_port(const struct grpc_server *server);
/*
 * Let nobody in, tell the peers (GOAWAY), and finish the calls under way; `done` is called later, once, when the last
 * connection has gone or `timeout_ns` is over. Then grpc_server_close().
 */
void grpc_server_drain(struct grpc_server *server, uint64_t timeout_ns, void (*done)(void *ctx), void *ctx);
/*
 * The certificates changed: connections with the old ones are drained. Calls under way are answered; a client that has
 * not left after a second gets a GOAWAY with its last call. Not from a method.
 */
void grpc_server_renew(struct grpc_server *server);
/* At once. Calls under way are still to be completed; their replies go nowhere. Accepts NULL. Not from a method. */
void grpc_server_close(struct grpc_server *server);

void *grpc_call_ctx(const struct grpc_call *call);
const struct grpc_method *grpc_call_method(const struct grpc_call *call);
enum grpc_role grpc_call_role(const struct grpc_call *call); /* 0: it did not say */
const char *grpc_call_peer(const struct grpc_call *call);    /* "127.0.0.1:51234" */
/*
 * Who calls, for people: "admin, uid 1000" (certificate and user of this host), "uid 1000", "admin at 10.0.0.5",
 * "10.0.0.5, without a certificate". Of a call that has just come: later its connection may be gone, and its user with it.
 * Returns `who`, of GRPC_WHO_BYTES.
 */
const char *grpc_call_who(const struct grpc_call *call, char *who);
/* Of a header that is neither HTTP/2's nor gRPC's own, in lower case; NULL: there is none. */
const char *grpc_call_header(const struct grpc_call *call, const char *name);
/* What is left of its time; GRPC_NO_DEADLINE. */
uint64_t grpc_call_time_left_ns(const struct grpc_call *call);
/* Nobody waits for the answer any more: long work may end early. */
bool grpc_call_is_over(const struct grpc_call *call);

/* Complete `call`, which is gone afterwards. `response` is borrowed. */
void grpc_reply(struct grpc_call *call, const ProtobufCMessage *response);
/* Complete it with an error. `info` (borrowed, may be NULL) goes with it as a google.rpc.Status. */
void grpc_fail(struct grpc_call *call, enum grpc_code code, const Google__Rpc__ErrorInfo *info, const char *format, ...)
	PRINTF_LIKE(4, 5);

struct grpc_server_stats {
	uint32_t connections, calls_open;
	uint64_t connections_total, calls_total, failed_total; /* failed: ended with anything but OK */
	uint64_t refused_total;				       /* connections refused for what they are, or sent */
};
struct grpc_server_stats grpc_server_stats(const struct grpc_server *server);

/* ---- client ---- */

struct grpc_client;

struct grpc_client_options {
	enum grpc_role role;	     /* goes into x-daos-component; 0: none */
	const char *version;	     /* goes into x-daos-version; NULL: none */
	struct grpc_tls *tls;	     /* lent until the client is destroyed; NULL: in the clear */
	uint32_t message_bytes_max;  /* of an answer; 0: GRPC_ANSWER_BYTES_MAX */
	uint64_t connect_timeout_ns; /* 0: 10 s. With the TLS handshake */
	uint64_t keepalive_ns;	     /* 0: 60 s. As of a server; only while calls are under way */
	uint64_t idle_ns;	     /* 0: 60 s. A connection without calls is then closed */
};

MUST_CHECK int grpc_client_create(const struct grpc_client_options *options, struct grpc_client **client_ret,
				  struct fathom_fault *why);
/* Calls under way end with GRPC_CANCELLED, within. Accepts NULL. Also from inside a `done`, but not one that it causes. */
void grpc_client_destroy(struct grpc_client *client);

/* Close the connection to `address` now if no call is on it, not after `idle_ns`: it will not be asked again soon. */
void grpc_client_hang_up(struct grpc_client *client, const char *address);

/* Likewise: calls that begin from now on are on new connections; the old ones close when theirs have ended. */
void grpc_client_renew(struct grpc_client *client);

/* How a call ended. What it points to lives until `done` returns. */
struct grpc_result {
	enum grpc_code code;
	int error;	/* 0: the server said so. Else what happened here: -ECONNREFUSED, -ETIMEDOUT, -EACCES (TLS) ... */
	bool is_unsent; /* there was no connection to send it on: the server cannot have begun it */
	char message[GRPC_TEXT_BYTES_MAX];
	const ProtobufCMessage *response;   /* with GRPC_OK */
	const Google__Rpc__ErrorInfo *info; /* NULL: none came */
};

typedef void (*grpc_done_fn)(void *ctx, const struct grpc_result *result);

/* One call of a client. */
struct grpc_request {
	const char *address; /* of the server: "10.0.0.1:10001", "[::1]:10001"; numbers only */
	const char *path;    /* of the method */
	const ProtobufCMessage *message;
	const ProtobufCMessageDescriptor *response;
	uint64_t timeout_ns; /* from now, connecting included; it is sent to the server */
	grpc_done_fn done;   /* called once, after grpc_client_call() has returned */
	void *ctx;
};

/*
 * Call a method. `request` and everything it points to are borrowed, except `ctx`. Errors: -EINVAL (address), -EMSGSIZE,
 * -ENOMEM, -EBUSY (GRPC_CLIENT_CALLS_MAX). After an error `done` is not called.
 */
MUST_CHECK int grpc_client_call(struct grpc_client *client, const struct grpc_request *request);

struct grpc_client_stats {
	uint32_t connections, calls_open;
	uint64_t connections_total, calls_total, failed_total;
};
struct grpc_client_stats grpc_client_stats(const struct grpc_client *client);

#endif
