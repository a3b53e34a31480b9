/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A *connection* receives bytes and sends lines. Each JSON value is a *batch*: an array of requests, or a single request.
 * A *request* belongs to its batch until it is completed. When the last request of a batch is, the batch sends the
 * responses, unless its connection was closed. A call from inside the process is a batch without a connection.
 *
 *   connection 1 -- n batch 1 -- n request
 *
 * All of this runs on the control thread.
 */
#ifndef RPC_INTERNAL_H
#define RPC_INTERNAL_H

#include <sys/types.h>

#include "base/list.h"
#include "fathom/trace/trace.h"
#include "base/reactor/reactor.h"
#include "rpc/jsonrpc/rpc.h"
#include "rpc/jsonrpc/split.h"
#include "rpc/jsonrpc/states.gen.h"

enum { RPC_RECEIVE_BYTES = 64 << 10 }; /* received from a socket at a time, so that no client starves others */

struct rpc_batch {
	struct rpc_connection *connection; /* NULL: closed, or a call from inside the process */
	TAILQ_ENTRY(rpc_batch) link;	   /* in the connection */
	bool in_brackets;
	bool beginning; /* some of its requests have not begun, so it is not complete */
	uint32_t requests_open;
	json_t *responses; /* array */
	rpc_done_fn done;  /* of a call from inside the process */
	void *done_ctx;
};

struct rpc_request {
	struct trace_object trace;
	struct rpc_batch *batch;
	const struct trace_istr *method; /* "(unknown)" where there is no such method */
	json_t *id;			 /* NULL: a notification, which has no response */
	json_t *params;
	uint64_t received_tick;
	struct rpc_method_times *times;	      /* of its method; NULL: there is no such method */
	const struct rpc_method *method_held; /* waits for rpc_hold_calls(false); NULL: it was called */
	json_t *result;			      /* while the change is being kept */
	bool is_change;			      /* of a client: to be kept after its success */
	STAILQ_ENTRY(rpc_request) held_link;
};

struct rpc_connection {
	struct trace_object trace;
	TAILQ_ENTRY(rpc_connection) link;
	int fd;
	struct fd_watch *watch;
	uint32_t watched_events;
	struct json_splitter splitter;
	char *in;
	size_t in_bytes, in_room;
	char *out;
	size_t out_begin, out_end, out_room; /* [begin, end) is to be sent */
	TAILQ_HEAD(, rpc_batch) batches;
	uint32_t requests_open;
	uint64_t heard_tick; /* when it connected, or last sent bytes */
	bool eof;	     /* the client sends no more */
	bool has_more;	     /* `in` may have a whole request, which was not begun because of a limit */
	bool malformed;	     /* it sent bytes that are not JSON: respond and close */
	bool stepping;	     /* connection_step() is on the stack, and will send and close */
};

/* ---- connection.c ---- */

/* Takes `fd`. NULL: out of memory or descriptors (errno). */
struct rpc_connection *connection_create(int fd);
void connection_destroy(struct rpc_connection *connection, enum rpc_close_reason reason);
/* Queue `response` as a line; send it, unless connection_step() will. May destroy the connection. */
void connection_respond(struct rpc_connection *connection, const json_t *response);
/* Send and receive without blocking; close if both are finished. May destroy the connection. */
void connection_step(struct rpc_connection *connection);

/* ---- server.c ---- */

/* The list of connections. */
void server_remove(struct rpc_connection *connection);
void server_add(struct rpc_connection *connection);
/* The client sent bytes, so it is not idle. */
void server_note_bytes(struct rpc_connection *connection);

/* ---- request.c ---- */

/* Begin the requests of one JSON value; the brackets of `text` match. False: it is not JSON; an error was sent. */
MUST_CHECK bool requests_begin(struct rpc_connection *connection, const char *text, size_t bytes);
/* The server closes: end the requests that wait for the engine with an error. */
void requests_cancel_held(void);
/* {"jsonrpc": "2.0", "id": id, "error": ...}; `id` NULL: null. */
json_t *response_error(json_t *id, int code, const char *message);

/* ---- method.c ---- */

struct rpc_method_entry {
	const struct rpc_method *method;
	const struct trace_istr *name;
	struct rpc_method_times *times;
};
const struct rpc_method_entry *method_find(const char *name);

#endif
