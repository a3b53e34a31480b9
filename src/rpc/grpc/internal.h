/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link is one TCP connection of a server or a client, with optional TLS and a session of nghttp2. Calls belong to a link.
 * rpc/grpc/link.c moves bytes. rpc/grpc/call.c has the calls of a server, rpc/grpc/client.c those of a client.
 *
 * nghttp2 calls back within a step of the link. These callbacks must not close the link, because the step still uses it:
 * link_doom() notes the reason, and the step closes the link at its end.
 */
#ifndef GRPC_INTERNAL_H
#define GRPC_INTERNAL_H

#include <nghttp2/nghttp2.h>
#include <sys/socket.h>

#include "base/list.h"
#include "fathom/trace/trace.h"
#include "rpc/grpc/details.h"
#include "rpc/grpc/frame.h"
#include "rpc/grpc/front.h"
#include "rpc/grpc/grpc.h"
#include "rpc/grpc/tls.h"
#include "base/reactor/deadline.h"
#include "base/reactor/reactor.h"

enum {
	LINK_IN_BYTES = 64 << 10,	      /* received at a time */
	LINK_OUT_BYTES = 64 << 10,	      /* gathered before they are sent */
	CALL_HEADERS_MAX = 16,		      /* kept for grpc_call_header() */
	FRONT_SEALED_BYTES = 2 * FRONT_BYTES, /* a record and the messages of TLS */
};

struct grpc_header {
	char *name, *value;
};

/* ---- a call of a server ---- */

struct grpc_call {
	struct trace_object trace;
	enum grpc_call_state state;
	TAILQ_ENTRY(grpc_call) link;	  /* in the link */
	TAILQ_ENTRY(grpc_call) in_server; /* until the server is closed */
	struct grpc_link *on;		  /* NULL: the stream is gone */
	struct grpc_server *server;	  /* NULL: it was closed */
	void *ctx;
	int32_t stream;
	const struct grpc_method *method; /* NULL: unknown, or not yet known */
	const struct trace_istr *path;
	enum grpc_role role;
	char peer[GRPC_ADDRESS_BYTES_MAX];
	struct grpc_header headers[CALL_HEADERS_MAX];
	size_t header_count;
	bool is_post, is_grpc, is_encoded, has_bad_timeout;
	bool has_component, component_is_wrong;
	uint64_t timeout_ns, received_tick;
	struct deadline deadline;
	struct grpc_message in;
	ProtobufCMessage *request;
	uint8_t *out; /* prefix and message */
	size_t out_bytes, out_sent;
	/* refused before a method gets it */
	bool has_ended, is_refused;
	const char *refused_http; /* HTTP status; NULL: a gRPC status */
	enum grpc_code refused_code;
	char *refused_text;
	size_t ignored_bytes; /* of the request, after it was refused */
};

/* ---- a call of a client ---- */

struct grpc_client_call {
	struct trace_object trace;
	TAILQ_ENTRY(grpc_client_call) link; /* in the link, or in `finished` */
	struct grpc_client *client;
	struct grpc_link *on; /* NULL: finished */
	char address[GRPC_ADDRESS_BYTES_MAX];
	char *path;
	const struct trace_istr *path_name;
	int32_t stream; /* 0: not submitted */
	const ProtobufCMessageDescriptor *response;
	grpc_done_fn done;
	void *ctx;
	uint64_t begin_tick, timeout_ns;
	struct deadline deadline;
	uint8_t *out;
	size_t out_bytes, out_sent;
	struct grpc_message in;
	unsigned int http_status;
	int grpc_status; /* -1: not received */
	char *details;	 /* grpc-status-details-bin as received */
	bool again;	 /* it was already submitted a second time, after a draining server refused it */
	enum grpc_frame in_result;
	struct grpc_result result;
};

/* ---- a connection ---- */

struct grpc_link {
	struct trace_object trace;
	enum grpc_connection_state state;
	TAILQ_ENTRY(grpc_link) link; /* in the list of its owner */
	struct grpc_server *server;
	struct grpc_client *client; /* one of the two */
	struct deadlines *deadlines;
	struct deadline deadline;
	uint64_t handshake_ns, keepalive_ns, idle_ns;
	char peer[GRPC_ADDRESS_BYTES_MAX];
	uint16_t peer_port;
	int fd;
	struct fd_watch *watch;
	uint32_t watched_events;
	struct tls_stream *tls; /* NULL: no TLS */
	nghttp2_session *session;
	uint8_t *out;
	size_t out_begin, out_end, out_room;
	enum grpc_role role; /* of its certificate; 0: none */
	TAILQ_HEAD(, grpc_call) calls;
	TAILQ_HEAD(, grpc_client_call) client_calls;
	uint32_t calls_open;
	uint64_t idle_since; /* tick */
	bool heard, greeted, pinged;
	bool asked, makes_room; /* it was asked to leave; to make room for a new connection */
	bool stepping, doomed;
	enum grpc_close_reason reason;
	int error;
	char why[FAULT_TEXT_BYTES_MAX];
};

/* ---- a connection of a front: front.c ---- */

struct front_bytes {
	uint8_t *data; /* of its room */
	size_t begin, end;
};

struct front_link {
	struct trace_object trace;
	enum grpc_front_state state;
	TAILQ_ENTRY(front_link) link;
	struct tls_front *front;
	struct tls_stream *tls;
	int fd, pair; /* pair: -1 until the peer is admitted, and after the server behind has closed its end */
	struct fd_watch *watch, *pair_watch;
	uint32_t watched_events, pair_events;
	bool is_rejected;  /* it gets `rejection` instead of the server behind */
	bool is_pair_over; /* the server behind has closed its end; what it sent can still be read */
	bool is_stepping, is_doomed;
	uint64_t begun_tick;
	struct deadline deadline;
	char peer[GRPC_ADDRESS_BYTES_MAX];
	char why[FAULT_TEXT_BYTES_MAX]; /* it was refused; "": not */
	char rejection[FRONT_REJECTION_BYTES];
	struct front_bytes plain, sealed;
	uint8_t plain_data[FRONT_BYTES], sealed_data[FRONT_SEALED_BYTES];
};

/* ---- link.c ---- */

/*
 * Open a link on `fd`, which is taken also on failure. The caller has set the owner, peer and times of `link`, and frees it
 * on failure. Its state becomes CONNECTING, unless `connected`. Errors: -ENOMEM, -errno of watching the descriptor.
 */
MUST_CHECK int link_open(struct grpc_link *link, int fd, struct grpc_tls *tls, bool connected);
/*
 * Close the link at the end of the current step; outside a step immediately, and `link` is freed. The first reason counts.
 */
void link_doom(struct grpc_link *link, enum grpc_close_reason reason, int error, const char *format, ...) PRINTF_LIKE(4, 5);
/* Send what waits. Outside a step it may close and free the link. */
void link_kick(struct grpc_link *link);
/* The peer has sent its first HTTP/2 frame. */
void link_greet(struct grpc_link *link);
/* A call has begun (1) or ended (-1). */
void link_count_call(struct grpc_link *link, int by);
/*
 * Server: ask the peer to start no more calls on this link and to close it; calls under way are answered. Client: start no
 * more calls on it, and close it when its calls have ended. May close and free the link.
 */
void link_ask_to_leave(struct grpc_link *link);
/* Send a GOAWAY: no new call is accepted. The link closes when the calls under way have ended. */
void link_drain(struct grpc_link *link);

/* ---- the owners: server.c and client.c ---- */

/* Create link->session. */
MUST_CHECK int server_session_new(struct grpc_link *link);
MUST_CHECK int client_session_new(struct grpc_link *link);
/* The link can use HTTP/2 now. False: it must not, and link_doom() was called. */
MUST_CHECK bool server_link_is_open(struct grpc_link *link);
MUST_CHECK bool client_link_is_open(struct grpc_link *link);
/* The last call of the link has ended. */
void server_link_idle(struct grpc_link *link);
/* The link is closed: free the owner's part. The caller frees `link`. */
void server_link_closed(struct grpc_link *link);
void client_link_closed(struct grpc_link *link);

/* ---- address.c ---- */

void address_format(char text[static GRPC_ADDRESS_BYTES_MAX], const struct sockaddr_storage *address);

/* ---- status.c ---- */

/* A header with a constant name; nghttp2 copies the value. */
nghttp2_nv header(const char *name, const char *value);

#endif
