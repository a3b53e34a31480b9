/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drpc - calls between the programs of one host: protobuf over a SOCK_SEQPACKET socket, server and client.
 *
 *   drpc_server_open(path, methods) -> fn(call, request) -> now or later drpc_reply() or drpc_fail()
 *   drpc_client_create(path) -> drpc_client_call(request) -> done(result)
 *
 * A call names a module and a method of it, both by number. A connection carries one call at a time. A client opens at most
 * one connection for each call under way, and keeps it for later calls. Input is validated (rpc/drpc/chunk.h): a peer that
 * breaks the protocol, or stops in the middle of a message, loses its connection. The wire format is that of DAOS 2.8.
 *
 * A server or a client is used on the light thread that opened it. Nothing blocks.
 */
#ifndef DRPC_DRPC_H
#define DRPC_DRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <protobuf-c/protobuf-c.h>

#include "base/fault.h"
#include "base/must.h"
#include "rpc/drpc/states.gen.h"

enum {
	DRPC_CONNECTIONS_MAX = 64,	 /* the default of a server */
	DRPC_CLIENT_CONNECTIONS_MAX = 8, /* the default of a client */
	DRPC_MESSAGE_TIMEOUT_MS = 10000, /* the default of both */
	DRPC_CLIENT_CALLS_MAX = 1 << 16, /* of a client, waiting and under way */
};

enum drpc_module {
	DRPC_MODULE_TEST = 0,
	DRPC_MODULE_SEC_AGENT = 1, /* client to agent */
	DRPC_MODULE_MGMT = 2,	   /* server to engine, client to agent */
	DRPC_MODULE_SRV = 3,	   /* engine to server */
	DRPC_MODULE_SEC = 4,	   /* engine to server */
	DRPC_MODULE_FATHOM = 70,   /* to engine, server or agent: what DAOS has no method for */
};

enum drpc_method_number {
	DRPC_SEC_AGENT_REQUEST_CREDS = 101,
	DRPC_MGMT_SET_RANK = 202,
	DRPC_MGMT_GET_ATTACH_INFO = 206,
	DRPC_MGMT_SET_UP = 209,
	DRPC_MGMT_PREP_SHUTDOWN = 218,
	DRPC_MGMT_PING_RANK = 225,
	DRPC_MGMT_GROUP_UPDATE = 232,
	DRPC_MGMT_NOTIFY_EXIT = 233,
	DRPC_MGMT_NOTIFY_POOL_CONNECT = 235,
	DRPC_MGMT_NOTIFY_POOL_DISCONNECT = 236,
	DRPC_MGMT_SET_LOG_MASKS = 238,
	DRPC_MGMT_SETUP_CLIENT_TELEM = 247,
	DRPC_SRV_NOTIFY_READY = 301,
	DRPC_SRV_CLUSTER_EVENT = 304,
	DRPC_SEC_VALIDATE_CREDS = 401,
	DRPC_FATHOM_DESCRIBE = 7001,
	DRPC_FATHOM_BACKUP = 7002,
	DRPC_FATHOM_STATS = 7003,
	DRPC_FATHOM_STORAGE = 7004, /* to an engine: store.proto */
	DRPC_FATHOM_FIGURES = 7005,
	DRPC_FATHOM_CONDITION = 7010,
	DRPC_FATHOM_ATTACH = 7101, /* to an agent, as those below: agent.proto */
	DRPC_FATHOM_DETACH = 7102,
	DRPC_FATHOM_LIST = 7103,
	DRPC_FATHOM_REFRESH = 7104,
};

/* ---- server ---- */

struct drpc_server;
struct drpc_call;

/*
 * Calls drpc_reply() or drpc_fail(), now or later. `request` (NULL if the row has no descriptor) and drpc_call_body() are
 * valid until then. Must not close the server.
 */
typedef void (*drpc_fn)(struct drpc_call *call, const ProtobufCMessage *request);

struct drpc_method {
	int32_t module; /* enum drpc_module, or any other number */
	int32_t method;
	const char *name;			   /* for messages and the trace */
	const ProtobufCMessageDescriptor *request; /* NULL: the body is not unpacked */
	drpc_fn fn;
};

struct drpc_server_options {
	const char *path;
	const struct drpc_method *methods; /* valid until the server is closed. Duplicate methods are a bug */
	size_t method_count;
	void *ctx;		  /* drpc_call_ctx() */
	mode_t mode;		  /* of the socket; 0: 0600 */
	const char *option;	  /* the option that sets the path, for messages; NULL: "socket_dir" */
	uint32_t connections_max; /* 0: DRPC_CONNECTIONS_MAX. Above it, the one idle longest is closed */
	/* 0: no limit. Above one, the peer's own connection that has been idle longest is closed, or else the new one */
	uint32_t connections_a_user, connections_a_process;
	uint64_t message_timeout_ns; /* 0: the default. To receive a whole message, and to send one */
	uint64_t message_bytes_max;  /* 0: DRPC_MESSAGE_BYTES_MAX */
};

/*
 * Listen. A stale socket is replaced. Errors (explained): those of listener_open(), -ENOMEM, and -errno of watching a
 * descriptor.
 */
MUST_CHECK int drpc_server_open(const struct drpc_server_options *options, struct drpc_server **server_ret,
				struct fathom_fault *why);
/*
 * Close all connections and remove the socket. Calls under way must still be completed; their replies are dropped. Accepts
 * NULL. Must not be called from a method.
 */
void drpc_server_close(struct drpc_server *server);

struct drpc_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

void *drpc_call_ctx(const struct drpc_call *call);
/* The credentials of the peer, from the kernel. */
const struct drpc_peer *drpc_call_peer(const struct drpc_call *call);
/* The body, not unpacked. */
const uint8_t *drpc_call_body(const struct drpc_call *call, size_t *bytes_ret);
const struct drpc_method *drpc_call_method(const struct drpc_call *call);

/* Complete and free `call`. `response` is borrowed; NULL: no body. */
void drpc_reply(struct drpc_call *call, const ProtobufCMessage *response);
/* Complete and free `call` with a status other than DRPC_SUCCESS. Failures of a method belong into its response. */
void drpc_fail(struct drpc_call *call, enum drpc_status status);

struct drpc_server_stats {
	uint32_t connections, calls_open;
	uint64_t connections_total, calls_total, failed_total; /* failed: a status other than DRPC_SUCCESS */
	uint64_t refused_total;				       /* connections closed for invalid or missing input */
};
/* On the server's thread. */
struct drpc_server_stats drpc_server_stats(const struct drpc_server *server);

/* ---- client ---- */

struct drpc_client;

struct drpc_client_options {
	const char *path;
	uint32_t connections_max;   /* 0: DRPC_CLIENT_CONNECTIONS_MAX. Above it, calls wait */
	uint64_t message_bytes_max; /* 0: DRPC_MESSAGE_BYTES_MAX */
};

/* It connects for the first call. Errors (explained): -ENAMETOOLONG, -EINVAL (empty path), -ENOMEM. */
MUST_CHECK int drpc_client_create(const struct drpc_client_options *options, struct drpc_client **client_ret,
				  struct fathom_fault *why);
/* End calls under way with -ECANCELED before it returns. Accepts NULL. Allowed in a `done`, except one that this causes. */
void drpc_client_destroy(struct drpc_client *client);

/* The result of a call. `response`, `body` and the text of `why` are valid until `done` returns. */
struct drpc_result {
	/*
	 * 0: answered; see `status`. Otherwise why.error: -ETIMEDOUT, -ECONNREFUSED and -ENOENT (no server listens),
	 * -ECONNRESET (the server closed), -EPROTO (it broke the protocol), -EMSGSIZE, -ENOMEM, -ECANCELED, or an error
	 * of connect(2) or send(2).
	 */
	int error;
	enum drpc_status status;
	const ProtobufCMessage *response; /* with DRPC_SUCCESS, if the call gave a descriptor */
	const uint8_t *body;
	size_t body_bytes;
	struct drpc_peer peer; /* the server's credentials, from the kernel; pid 0: not connected */
	struct fathom_fault why;
};

typedef void (*drpc_done_fn)(void *ctx, const struct drpc_result *result);

/* One call of a client. */
struct drpc_request {
	int32_t module, method;
	const ProtobufCMessage *message;	    /* NULL: no body */
	const ProtobufCMessageDescriptor *response; /* NULL: `done` gets only the body */
	uint64_t timeout_ns;			    /* from now, connecting and waiting included */
	drpc_done_fn done;			    /* called once, after drpc_client_call() has returned */
	void *ctx;
};

/*
 * Call a method. `request` and its message are borrowed. Errors: -ENOMEM, -EMSGSIZE, -EBUSY (DRPC_CLIENT_CALLS_MAX). After
 * an error `done` is not called.
 */
MUST_CHECK int drpc_client_call(struct drpc_client *client, const struct drpc_request *request);

struct drpc_client_stats {
	uint32_t connections, calls_waiting, calls_open;
	uint64_t connections_total, calls_total, failed_total; /* failed: an error, or not DRPC_SUCCESS */
};
struct drpc_client_stats drpc_client_stats(const struct drpc_client *client);

#endif
