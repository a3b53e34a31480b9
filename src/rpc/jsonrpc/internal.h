/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A *connection* has bytes coming in and lines going out. One JSON value of it is a *batch*: of several requests in
 * brackets, or of one without. A *request* belongs to a batch until it is completed; the batch sends what was collected
 * when its last request is, and knows whether its connection is still there. A call from inside the process is a batch
 * without a connection.
 *
 *   connection 1 -- n batch 1 -- n request
 *
 * Everything on the control thread.
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

enum { RPC_RECEIVE_BYTES = 64 << 10 }; /* taken from a socket at a time, so that nobody starves the others */

struct rpc_batch {
	struct rpc_connection *connection; /* NULL: it is gone, or there never was one */
	TAILQ_ENTRY(rpc_batch) link;	   /* in the connection */
	bool in_brackets;
	bool beginning; /* requests are still being begun: not complete yet */
	uint32_t requests_open;
	json_t *responses; /* array */
	rpc_done_fn done;  /* from inside the process */
	void *done_ctx;
};

struct rpc_request {
	struct trace_object trace;
	struct rpc_batch *batch;
	const struct trace_istr *method; /* "(unknown)" where there is no such method */
	json_t *id;			 /* NULL: a notification, nobody wants to know */
	json_t *params;
	uint64_t received_tick;
	const struct rpc_method *method_held; /* NULL: it has been called; else it waits for rpc_hold_calls(false) */
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
	uint64_t heard_tick; /* bytes came from it, or it connected */
	bool eof;	     /* the client sends no more */
	bool refused;	     /* its bytes make no sense: answer and close */
	bool stepping;	     /* connection_step() is on the stack: it looks after sending and closing */
};

/* ---- connection.c ---- */

/* `fd` is taken. NULL: no memory or no descriptor (errno). */
struct rpc_connection *connection_create(int fd);
void connection_destroy(struct rpc_connection *connection, enum rpc_close_reason reason);
/* Queue `response` as a line, and send unless that is being done anyway. May destroy the connection. */
void connection_respond(struct rpc_connection *connection, const json_t *response);
/* Send and receive what can be, close if that is over. May destroy the connection. */
void connection_step(struct rpc_connection *connection);

/* ---- server.c ---- */

/* The connection has left the list. */
void server_forget(struct rpc_connection *connection);
void server_remember(struct rpc_connection *connection);
/* Bytes have come from it: it is not idle. */
void server_heard(struct rpc_connection *connection);

/* ---- request.c ---- */

/* Begin what one JSON value asks for; `text` is complete by its brackets. False: it is no JSON, and has been answered. */
MUST_CHECK bool requests_begin(struct rpc_connection *connection, const char *text, size_t bytes);
/* The server closes: what waits for the engine ends with an error. */
void requests_give_up(void);
/* {"jsonrpc": "2.0", "id": id, "error": ...}; `id` NULL: null. */
json_t *response_error(json_t *id, int code, const char *message);

/* ---- method.c ---- */

struct rpc_method_entry {
	const struct rpc_method *method;
	const struct trace_istr *name;
};
const struct rpc_method_entry *method_find(const char *name);

#endif
