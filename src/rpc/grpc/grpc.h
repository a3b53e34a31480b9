/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * grpc - unary gRPC calls over HTTP/2: server and client. nghttp2 implements HTTP/2.
 *
 *   grpc_server_open(address, methods) -> fn(call, request) -> now or later grpc_reply() or grpc_fail()
 *   grpc_client_create() -> grpc_client_call(request) -> done(result)
 *
 * Many calls share a connection. A client keeps one connection to each server, and opens it for the first call. Both sides
 * enforce the deadline of a call. A peer that does not read blocks only its own calls: data are produced when the socket
 * accepts them. With certificates (rpc/grpc/tls.h) a call has the role of the peer's certificate, and a method has a mask
 * of the roles that may call it. Without certificates the role in the header is trusted.
 *
 * Thread: the light thread that created the server or client. Nothing blocks.
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
	GRPC_MESSAGE_BYTES_MAX = 4 << 20,  /* of a request; default of a server */
	GRPC_ANSWER_BYTES_MAX = 64 << 20,  /* of a response; default of a client. Larger, because the client requested it */
	GRPC_CONNECTIONS_MAX = 16384,	   /* default of a server; at most half of its limit of descriptors */
	GRPC_STREAMS_MAX = 1000,	   /* parallel calls on one connection; default of a server */
	GRPC_HEADERS_BYTES_MAX = 16 << 10, /* of one call, as HTTP/2 counts them */
	GRPC_TEXT_BYTES_MAX = 1024,	   /* message of a status, with the NUL */
	GRPC_ADDRESS_BYTES_MAX = 64,	   /* "[address]:port", with the NUL */
	GRPC_CLIENT_CALLS_MAX = 1 << 16,   /* per client */
	GRPC_WHO_BYTES = 160,		   /* grpc_call_who(), with the NUL */
};

#define GRPC_NO_DEADLINE UINT64_MAX

/* The role of a peer: the common name of its certificate, and the value of its header x-daos-component. */
enum grpc_role {
	GRPC_ROLE_ADMIN = 1 << 0,
	GRPC_ROLE_AGENT = 1 << 1,
	GRPC_ROLE_SERVER = 1 << 2,
	GRPC_ROLE_ANYBODY = 0, /* of a method: every caller may call it, also without a role */
};
#define GRPC_HEADER_COMPONENT "x-daos-component"
#define GRPC_HEADER_VERSION "x-daos-version"

const char *grpc_role_name(enum grpc_role role); /* "admin"; "a caller without a role" for 0 */
/* 0: there is no such role. */
enum grpc_role grpc_role_of(const char *name);

struct grpc_tls;

/* ---- server ---- */

struct grpc_server;
struct grpc_call;

/* Call grpc_reply() or grpc_fail() once, now or later. `request` is valid until then. Must not close the server. */
typedef void (*grpc_fn)(struct grpc_call *call, const ProtobufCMessage *request);

struct grpc_method {
	const char *path; /* "/mgmt.MgmtSvc/SystemQuery" */
	const ProtobufCMessageDescriptor *request;
	const ProtobufCMessageDescriptor *response; /* type of the message for grpc_reply() */
	unsigned int roles;			    /* mask of enum grpc_role: the roles that may call it */
	grpc_fn fn;
};

struct grpc_server_options {
	const char *address;		   /* "127.0.0.1:10001", "[::1]:0"; numbers only; port 0: any free port */
	const struct grpc_method *methods; /* lent until the server is closed. No path twice */
	size_t method_count;
	void *ctx;	      /* grpc_call_ctx() */
	struct grpc_tls *tls; /* lent until the server is closed; NULL: no TLS */
	/* Called for each refused connection, with a sentence for the log. May be NULL. */
	void (*refused)(void *ctx, const char *peer, const char *why);
	uint32_t connections_max;      /* 0: as above. When it is reached, idle peers are asked to leave, others wait */
	uint32_t streams_max;	       /* 0 */
	uint32_t message_bytes_max;    /* 0 */
	uint64_t handshake_timeout_ns; /* 0: 10 s. From accepting to the first HTTP/2 frame */
	uint64_t keepalive_ns;	       /* 0: 60 s. Ping a peer that is silent for this long; the answer has the same time */
};

/* Errors (explained): -EINVAL (address), -EADDRINUSE, -EACCES, -ENOMEM ... */
MUST_CHECK int grpc_server_open(const struct grpc_server_options *options, struct grpc_server **server_ret,
				struct fathom_fault *why);
uint16_t grpc_server_port(const struct grpc_server *server);
/*
 * Accept no more connections, send a GOAWAY to the peers, and finish the calls under way. `done` is called once, later,
 * when the last connection has closed or `timeout_ns` has passed. Then call grpc_server_close().
 */
void grpc_server_drain(struct grpc_server *server, uint64_t timeout_ns, void (*done)(void *ctx), void *ctx);
/*
 * The certificates changed: connections with the old ones are drained. Calls under way are answered; a client that has
 * not left after a second gets a GOAWAY with its last call. Not from a method.
 */
void grpc_server_renew(struct grpc_server *server);
/* Close at once. Calls under way must still be completed; their replies are dropped. Accepts NULL. Not from a method. */
void grpc_server_close(struct grpc_server *server);

void *grpc_call_ctx(const struct grpc_call *call);
const struct grpc_method *grpc_call_method(const struct grpc_call *call);
enum grpc_role grpc_call_role(const struct grpc_call *call); /* 0: none */
const char *grpc_call_peer(const struct grpc_call *call);    /* "127.0.0.1:51234" */
/*
 * Describe the caller for people: "admin, uid 1000" (certificate and user of this host), "uid 1000", "admin at 10.0.0.5",
 * "10.0.0.5, without a certificate". Call it when the method begins: once the connection is closed, the user is unknown.
 * Returns `who`, of GRPC_WHO_BYTES.
 */
const char *grpc_call_who(const struct grpc_call *call, char *who);
/* The value of a header that does not belong to HTTP/2 or gRPC; `name` in lower case. NULL: none. Borrowed. */
const char *grpc_call_header(const struct grpc_call *call, const char *name);
/* The time until its deadline; GRPC_NO_DEADLINE: it has none. */
uint64_t grpc_call_time_left_ns(const struct grpc_call *call);
/* Whether the caller no longer waits for the answer; then long work may end early. */
bool grpc_call_is_over(const struct grpc_call *call);

/* Complete and free `call`. `response` is borrowed. */
void grpc_reply(struct grpc_call *call, const ProtobufCMessage *response);
/* Complete and free `call` with an error. `info` (borrowed, may be NULL) is sent as a google.rpc.Status. */
void grpc_fail(struct grpc_call *call, enum grpc_code code, const Google__Rpc__ErrorInfo *info, const char *format, ...)
	PRINTF_LIKE(4, 5);

struct grpc_server_stats {
	uint32_t connections, calls_open;
	uint64_t connections_total, calls_total, failed_total; /* failed: ended with another code than OK */
	uint64_t refused_total; /* connections refused because of their certificate or invalid input */
};
struct grpc_server_stats grpc_server_stats(const struct grpc_server *server);

/* ---- client ---- */

struct grpc_client;

struct grpc_client_options {
	enum grpc_role role;	     /* sent as x-daos-component; 0: none */
	const char *version;	     /* sent as x-daos-version; NULL: none */
	struct grpc_tls *tls;	     /* lent until the client is destroyed; NULL: no TLS */
	uint32_t message_bytes_max;  /* of a response; 0: GRPC_ANSWER_BYTES_MAX */
	uint64_t connect_timeout_ns; /* 0: 10 s. Includes the TLS handshake */
	uint64_t keepalive_ns;	     /* 0: 60 s. As for a server; only while calls are under way */
	uint64_t idle_ns;	     /* 0: 60 s. A connection without calls for this long is closed */
};

MUST_CHECK int grpc_client_create(const struct grpc_client_options *options, struct grpc_client **client_ret,
				  struct fathom_fault *why);
/*
 * End calls under way with GRPC_CANCELLED before it returns. Accepts NULL. Allowed in a `done`, except one that it causes.
 */
void grpc_client_destroy(struct grpc_client *client);

/* Close the connection to `address` now if it has no calls, instead of after `idle_ns`. */
void grpc_client_hang_up(struct grpc_client *client, const char *address);

/* The certificates changed: new calls use new connections. The old ones close when their calls have ended. */
void grpc_client_renew(struct grpc_client *client);

/* The result of a call. Its pointers are valid until `done` returns. */
struct grpc_result {
	enum grpc_code code;
	int error; /* 0: the server sent the code. Else the local error: -ECONNREFUSED, -ETIMEDOUT, -EACCES (TLS) ... */
	bool is_unsent; /* it was never sent: the server cannot have begun it */
	char message[GRPC_TEXT_BYTES_MAX];
	const ProtobufCMessage *response;   /* with GRPC_OK */
	const Google__Rpc__ErrorInfo *info; /* NULL: none received */
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
