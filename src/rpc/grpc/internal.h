/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A *link* is one TCP connection, of a server or of a client: bytes, TLS if there is any, and nghttp2's session. Calls
 * belong to a link. rpc/grpc/link.c moves bytes; rpc/grpc/call.c has the server's calls, rpc/grpc/client.c the client's.
 *
 * nghttp2 calls back from inside of a link's step. Nothing there may close the link: link_doom() says that it is to be
 * closed, and why, and the step does it at its end.
 */
#ifndef GRPC_INTERNAL_H
#define GRPC_INTERNAL_H

#include <nghttp2/nghttp2.h>
#include <sys/socket.h>

#include "base/list.h"
#include "fathom/trace/trace.h"
#include "rpc/grpc/details.h"
#include "rpc/grpc/frame.h"
#include "rpc/grpc/grpc.h"
#include "rpc/grpc/tls.h"
#include "base/reactor/deadline.h"
#include "base/reactor/reactor.h"

enum {
	LINK_IN_BYTES = 64 << 10,  /* received at a time */
	LINK_OUT_BYTES = 64 << 10, /* gathered before they are sent */
	CALL_HEADERS_MAX = 16,	   /* that are kept for grpc_call_header() */
};

struct grpc_header {
	char *name, *value;
};

/* ---- a call that came to a server ---- */

struct grpc_call {
	struct trace_object trace;
	enum grpc_call_state state;
	TAILQ_ENTRY(grpc_call) link;	  /* in the link */
	TAILQ_ENTRY(grpc_call) in_server; /* while that is there */
	struct grpc_link *on;		  /* NULL: the stream is gone */
	struct grpc_server *server;	  /* NULL: it is gone, too */
	void *ctx;
	int32_t stream;
	const struct grpc_method *method; /* NULL: not known (yet) */
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
	/* before a method has it */
	bool has_ended, is_refused;
	const char *refused_http; /* a status of HTTP's; NULL: one of gRPC's */
	enum grpc_code refused_code;
	char *refused_text;
	size_t ignored_bytes; /* of the request, since */
};

/* ---- a call that a client makes ---- */

struct grpc_client_call {
	struct trace_object trace;
	TAILQ_ENTRY(grpc_client_call) link; /* in the link, or among the finished */
	struct grpc_client *client;
	struct grpc_link *on; /* NULL: finished */
	char address[GRPC_ADDRESS_BYTES_MAX];
	char *path;
	const struct trace_istr *path_name;
	int32_t stream; /* 0: not begun */
	const ProtobufCMessageDescriptor *response;
	grpc_done_fn done;
	void *ctx;
	uint64_t begin_tick, timeout_ns;
	struct deadline deadline;
	uint8_t *out;
	size_t out_bytes, out_sent;
	struct grpc_message in;
	unsigned int http_status;
	int grpc_status; /* -1: none came */
	char *details;	 /* grpc-status-details-bin as it came */
	bool again;	 /* it was refused before by a server that was about to leave */
	enum grpc_frame in_result;
	struct grpc_result result;
};

/* ---- a connection ---- */

struct grpc_link {
	struct trace_object trace;
	enum grpc_connection_state state;
	TAILQ_ENTRY(grpc_link) link; /* in its owner */
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
	struct tls_stream *tls; /* NULL: in the clear */
	nghttp2_session *session;
	uint8_t *out;
	size_t out_begin, out_end, out_room;
	enum grpc_role role; /* by certificate; 0: none */
	TAILQ_HEAD(, grpc_call) calls;
	TAILQ_HEAD(, grpc_client_call) client_calls;
	uint32_t calls_open;
	uint64_t idle_since; /* tick */
	bool heard, greeted, pinged;
	bool asked, makes_room; /* to leave; because others want in */
	bool stepping, doomed;
	enum grpc_close_reason reason;
	int error;
	char why[FAULT_TEXT_BYTES_MAX];
};

/* ---- link.c ---- */

/*
 * A link on `fd`, which is taken also on failure; `link` has its owner, peer and times already, and is the caller's to
 * free on failure. CONNECTING afterwards, unless `connected`. -ENOMEM, -errno of watching.
 */
MUST_CHECK int link_open(struct grpc_link *link, int fd, struct grpc_tls *tls, bool connected);
/* Close it at the end of the step, or at once outside of one: then `link` is gone. The first reason counts. */
void link_doom(struct grpc_link *link, enum grpc_close_reason reason, int error, const char *format, ...) PRINTF_LIKE(4, 5);
/* Something waits to be sent. May close the link, outside of a step. */
void link_kick(struct grpc_link *link);
/* The peer has said its first word of HTTP/2. */
void link_greet(struct grpc_link *link);
/* A call began or ended. */
void link_count_call(struct grpc_link *link, int by);
/*
 * Ask the peer to begin nothing more here, and to leave; what is on its way is answered. Of a client: it begins nothing
 * more here itself, and leaves when its calls have ended. May close the link.
 */
void link_ask_to_leave(struct grpc_link *link);
/* Tell the peer that no new call is taken; the link closes when those under way have ended. */
void link_drain(struct grpc_link *link);

/* ---- the owners: server.c and client.c ---- */

/* Make link->session. */
MUST_CHECK int server_session_new(struct grpc_link *link);
MUST_CHECK int client_session_new(struct grpc_link *link);
/* HTTP/2 can be spoken. False: it must not be, and link_doom() has been called. */
MUST_CHECK bool server_link_is_open(struct grpc_link *link);
MUST_CHECK bool client_link_is_open(struct grpc_link *link);
/* Its last call has ended. */
void server_link_idle(struct grpc_link *link);
/* It is closed; frees what is the owner's. `link` is freed by the caller. */
void server_link_closed(struct grpc_link *link);
void client_link_closed(struct grpc_link *link);

/* ---- address.c ---- */

void address_format(char text[static GRPC_ADDRESS_BYTES_MAX], const struct sockaddr_storage *address);

/* ---- status.c ---- */

/* NV of constant name and a value that nghttp2 copies. */
nghttp2_nv header(const char *name, const char *value);

#endif
