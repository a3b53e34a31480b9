/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A *connection* is one socket of a server or a client. It receives a message in chunks or sends one in chunks, never both
 * at a time. Its owner, rpc/drpc/server.c or rpc/drpc/client.c, decides what comes next.
 */
#ifndef DRPC_INTERNAL_H
#define DRPC_INTERNAL_H

#include "base/list.h"
#include "rpc/drpc/chunk.h"
#include "rpc/drpc/drpc.h"
#include "fathom/trace/trace.h"
#include "rpc/proto/drpc.pb-c.h"
#include "base/reactor/deadline.h"
#include "base/reactor/reactor.h"

struct drpc_call {
	struct trace_object trace;
	TAILQ_ENTRY(drpc_call) link;	    /* in the server, until that is closed */
	struct drpc_connection *connection; /* NULL: closed */
	struct drpc_server *server;	    /* NULL: closed too */
	void *ctx;
	const struct drpc_method *method;
	struct drpc_peer peer;
	int32_t module_number, method_number; /* from the request */
	int64_t sequence;
	uint64_t received_tick;
	Drpc__Call *message; /* owns the body */
	ProtobufCMessage *request;
};

struct drpc_client_call {
	struct trace_object trace;
	TAILQ_ENTRY(drpc_client_call) link; /* waiting */
	struct drpc_client *client;
	struct drpc_connection *connection; /* NULL: the call waits for one */
	int32_t module, method;
	int64_t sequence; /* already in `bytes` */
	uint8_t *bytes;	  /* the message, packed */
	size_t byte_count;
	const ProtobufCMessageDescriptor *response;
	drpc_done_fn done;
	void *ctx;
	struct deadline deadline;
	uint64_t begin_tick;
	struct drpc_peer peer; /* the server that got it */
	bool again;	       /* it was queued again once, after a dead connection */
};

struct drpc_connection {
	struct trace_object trace;
	enum drpc_connection_state state;
	TAILQ_ENTRY(drpc_connection) link; /* of a server: the one idle longest first */
	struct drpc_server *server;
	struct drpc_client *client; /* one of the two */
	union {
		struct drpc_call *call; /* of a server */
		struct drpc_client_call *client_call;
	};
	int fd;
	struct fd_watch *watch;
	uint32_t watched_events;
	struct deadline deadline;
	struct drpc_peer peer;
	struct drpc_message in;
	const uint8_t *out; /* owned by a server's connection; of a client, the call owns it */
	uint64_t out_bytes, out_offset;
	enum drpc_chunk bad_chunk; /* DRPC_CHUNK_MORE: none */
	bool stepping;		   /* its step function is on the stack, and will send and close */
};

/* ---- connection.c ---- */

/* Change the state, unless it is the same. */
void drpc_connection_move(struct drpc_connection *c, enum drpc_connection_state to);
void drpc_connection_watch(struct drpc_connection *c, uint32_t events);

/* ---- packets.c ---- */

enum drpc_packets {
	DRPC_PACKETS_AGAIN,   /* the socket is empty, or full */
	DRPC_PACKETS_DONE,    /* a whole message was received, or sent */
	DRPC_PACKETS_CLOSED,  /* the peer has closed */
	DRPC_PACKETS_REFUSED, /* the packet is invalid: *chunk_ret */
	DRPC_PACKETS_FAILED,  /* errno */
};

/* Receive chunks into `in`. At most DRPC_PACKETS_PER_STEP of them. */
enum { DRPC_PACKETS_PER_STEP = 16 };
MUST_CHECK enum drpc_packets drpc_packets_receive(int fd, struct drpc_message *in, uint64_t bytes_max,
						  enum drpc_chunk *chunk_ret);
/* Send `bytes` of `data` from *offset on, one packet for each chunk, and advance *offset. Begin with *offset 0. */
MUST_CHECK enum drpc_packets drpc_packets_send(int fd, const uint8_t *data, uint64_t bytes, uint64_t *offset);

/* Make room in the socket for a whole packet. The kernel's default is large enough if this fails. */
void drpc_socket_prepare(int fd);
struct drpc_peer drpc_socket_peer(int fd);

#endif
