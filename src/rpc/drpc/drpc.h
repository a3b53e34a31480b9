/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drpc - calls between the programs of one host: protobuf over a SOCK_SEQPACKET socket. Both sides of it.
 *
 *   drpc_server_open(path, methods) -> fn(call, request) -> now or later drpc_reply() or drpc_fail()
 *   drpc_client_create(path) -> drpc_client_call(module, method, request) -> done(result)
 *
 * A call goes to a method of a module, both by number. A connection carries one call at a time; a server has many
 * connections, and a client opens up to as many as it has calls under way, keeping them for the next. What a peer sends is
 * believed only after checking (rpc/drpc/chunk.h): who breaks the rules, or stops in the middle of a message, loses his
 * connection and nothing else happens. The wire is that of DAOS since 2.8.
 *
 * Everything of a server or a client on the light thread that opened it. Nothing blocks.
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
	DRPC_CONNECTIONS_MAX = 64,	 /* of a server, where the options say nothing */
	DRPC_CLIENT_CONNECTIONS_MAX = 8, /* of a client, likewise */
	DRPC_MESSAGE_TIMEOUT_MS = 10000, /* likewise */
	DRPC_CLIENT_CALLS_MAX = 1 << 16, /* of a client, waiting and under way */
};

enum drpc_module {
	DRPC_MODULE_TEST = 0,
	DRPC_MODULE_SEC_AGENT = 1, /* client to agent */
	DRPC_MODULE_MGMT = 2,	   /* server to engine, client to agent */
	DRPC_MODULE_SRV = 3,	   /* engine to server */
	DRPC_MODULE_SEC = 4,	   /* engine to server */
	DRPC_MODULE_FATHOM = 70,   /* to engine or server: what DAOS has no method for */
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
	DRPC_MGMT_SET_LOG_MASKS = 238,
	DRPC_SRV_NOTIFY_READY = 301,
	DRPC_SRV_CLUSTER_EVENT = 304,
	DRPC_SEC_VALIDATE_CREDS = 401,
	DRPC_FATHOM_DESCRIBE = 7001,
	DRPC_FATHOM_BACKUP = 7002,
};

/* ---- server ---- */

struct drpc_server;
struct drpc_call;

/*
 * Ends, now or later, with drpc_reply() or drpc_fail(). `request` (NULL where the row has none) and drpc_call_body() live
 * until then. Must not close the server.
 */
typedef void (*drpc_fn)(struct drpc_call *call, const ProtobufCMessage *request);

struct drpc_method {
	int32_t module; /* enum drpc_module, or any other number */
	int32_t method;
	const char *name;			   /* for people */
	const ProtobufCMessageDescriptor *request; /* NULL: the body is not looked at */
	drpc_fn fn;
};

struct drpc_server_options {
	const char *path;
	const struct drpc_method *methods; /* stay until the server is closed. A module and method twice is a bug */
	size_t method_count;
	void *ctx;		     /* drpc_call_ctx() */
	mode_t mode;		     /* of the socket; 0: 0600 */
	const char *option;	     /* by which people choose another path, for messages; NULL: "socket_dir" */
	uint32_t connections_max;    /* 0: DRPC_CONNECTIONS_MAX. Beyond it the one that was idle longest goes */
	uint64_t message_timeout_ns; /* 0: the default. From a message's first chunk to its last, and to send one */
	uint64_t message_bytes_max;  /* 0: DRPC_MESSAGE_BYTES_MAX */
};

/*
 * Listen. A socket that nobody listens on any more is replaced. Errors (explained): those of listener_open(), -ENOMEM,
 * and -errno of watching a descriptor.
 */
MUST_CHECK int drpc_server_open(const struct drpc_server_options *options, struct drpc_server **server_ret,
				struct fault *why);
/*
 * Close all connections and remove the socket. Calls under way are still to be completed; their replies go nowhere.
 * Accepts NULL. Not from a method.
 */
void drpc_server_close(struct drpc_server *server);

struct drpc_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

void *drpc_call_ctx(const struct drpc_call *call);
/* Who has connected, as the kernel says. */
const struct drpc_peer *drpc_call_peer(const struct drpc_call *call);
/* The body as it came. */
const uint8_t *drpc_call_body(const struct drpc_call *call, size_t *bytes_ret);
const struct drpc_method *drpc_call_method(const struct drpc_call *call);

/* Complete `call` with `response`, which is borrowed; NULL: no body. `call` is gone afterwards. */
void drpc_reply(struct drpc_call *call, const ProtobufCMessage *response);
/* With a status other than DRPC_SUCCESS, and so without a body. What failed inside a method is said in its response. */
void drpc_fail(struct drpc_call *call, enum drpc_status status);

struct drpc_server_stats {
	uint32_t connections, calls_open;
	uint64_t connections_total, calls_total, failed_total; /* failed: answered with anything but DRPC_SUCCESS */
	uint64_t refused_total;				       /* connections closed for what they sent, or did not */
};
/* On the server's thread. */
struct drpc_server_stats drpc_server_stats(const struct drpc_server *server);

/* ---- client ---- */

struct drpc_client;

struct drpc_client_options {
	const char *path;
	uint32_t connections_max;   /* 0: DRPC_CLIENT_CONNECTIONS_MAX. Calls beyond it wait */
	uint64_t message_bytes_max; /* 0: DRPC_MESSAGE_BYTES_MAX */
};

/* Connects when it is first called. Errors (explained): -ENAMETOOLONG, -EINVAL (empty path), -ENOMEM. */
MUST_CHECK int drpc_client_create(const struct drpc_client_options *options, struct drpc_client **client_ret,
				  struct fault *why);
/* Calls under way end with -ECANCELED, within. Accepts NULL. Also from inside a `done`, but not one that it causes. */
void drpc_client_destroy(struct drpc_client *client);

/* How a call ended. `response`, `body` and the text of `why` live until `done` returns. */
struct drpc_result {
	/*
	 * 0: answered; see `status`. Else why.error: -ETIMEDOUT, -ECONNREFUSED and -ENOENT (nobody listens),
	 * -ECONNRESET (the server left), -EPROTO (it breaks the rules), -EMSGSIZE, -ENOMEM, -ECANCELED, or what
	 * connect(2) and send(2) say.
	 */
	int error;
	enum drpc_status status;
	const ProtobufCMessage *response; /* with DRPC_SUCCESS, where a descriptor was given */
	const uint8_t *body;
	size_t body_bytes;
	struct drpc_peer peer; /* who listened there, as the kernel says; pid 0: it was not connected */
	struct fault why;
};

typedef void (*drpc_done_fn)(void *ctx, const struct drpc_result *result);

/*
 * Call a method. `request` is borrowed (NULL: no body); `response` describes what comes back (NULL: only its body is told).
 * `done` is called once, later, never from within. `timeout_ns` counts from now, connecting and waiting included.
 * Errors: -ENOMEM, -EMSGSIZE, -EBUSY (DRPC_CLIENT_CALLS_MAX): `done` is not called.
 */
MUST_CHECK int drpc_client_call(struct drpc_client *client, int32_t module, int32_t method, const ProtobufCMessage *request,
				const ProtobufCMessageDescriptor *response, uint64_t timeout_ns, drpc_done_fn done,
				void *ctx);

struct drpc_client_stats {
	uint32_t connections, calls_waiting, calls_open;
	uint64_t connections_total, calls_total, failed_total; /* failed: error, or not DRPC_SUCCESS */
};
struct drpc_client_stats drpc_client_stats(const struct drpc_client *client);

#endif
