/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpc - JSON-RPC 2.0 on a UNIX stream socket: the server, its methods, and the decoder of their parameters.
 *
 *   rpc_register(methods) ... rpc_server_open(path) -> fn(request, params) -> now or later rpc_reply() or rpc_error()
 *
 * All of it runs on the control thread, so a method may block for a moment, and works even if a data reactor hangs.
 * The input is a sequence of JSON values without framing (rpc/jsonrpc/split.h); each response is one line. Requests of
 * one client begin in the order of their arrival; each ends when its method completes it. A method that needs another
 * thread or process keeps the request and completes it later. If the client has disconnected by then, the reply is dropped.
 *
 * The wire format and the error codes are those of SPDK's rpc.py.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "base/observe/trace/latency.h"

enum {
	RPC_CONNECTIONS_MAX = 64, /* fewer if the process has few descriptors (base/descriptor.h) */
	RPC_IDLE_SEC = 600,	  /* a client without requests that sends no byte is closed after this time */
	RPC_METHODS_MAX = 256,
	RPC_REQUESTS_OPEN_MAX = 256,	/* of one connection; above it, reading pauses */
	RPC_SEND_BYTES_PAUSE = 1 << 20, /* unsent replies of one connection; likewise */
	RPC_SEND_BYTES_MAX = 32 << 20,	/* above it, the connection is closed */
	RPC_MESSAGE_BYTES_MAX = 512,	/* of an error's message, with the NUL */
};

enum rpc_code {
	RPC_CODE_WRONG_STATE = -1,
	RPC_CODE_PARSE_ERROR = -32700,
	RPC_CODE_INVALID_REQUEST = -32600,
	RPC_CODE_METHOD_NOT_FOUND = -32601,
	RPC_CODE_INVALID_PARAMETERS = -32602,
	RPC_CODE_INTERNAL = -32603,
};

/* ---- methods ---- */

/* When a method may be called; also the states of the server. */
enum rpc_state {
	RPC_STARTUP = 1 << 0, /* before framework_start_init */
	RPC_RUNTIME = 1 << 1,
	RPC_ALWAYS = RPC_STARTUP | RPC_RUNTIME,
	RPC_CLIENTS_ONLY = 1 << 2, /* a method that waits for the engine or ends it: not for configurations */
	RPC_CHANGES = 1 << 3,	   /* it changes what a configuration has */
};

struct rpc_request;

/* Calls rpc_reply() or rpc_error(), now or later. `params` is an object (empty if absent) and is valid until then. */
typedef void (*rpc_fn)(struct rpc_request *request, const json_t *params);

struct rpc_method {
	const char *name;
	unsigned int states; /* enum rpc_state */
	rpc_fn fn;
};

/* Add a table, which must stay valid. Call it before the first request. Duplicate names are a bug. */
void rpc_register(const struct rpc_method *methods, size_t count);

/* Method number `index` in alphabetical order; NULL: there are no more. */
const struct rpc_method *rpc_method_at(size_t index);

/* The durations of a method's calls since the process began. Control thread. */
struct rpc_method_times {
	struct rpc_times {
		uint64_t ticks;			   /* sum */
		uint64_t buckets[LATENCY_BUCKETS]; /* each with its own count */
	} succeeded, failed;
};
/* Of rpc_method_at(index). */
const struct rpc_method_times *rpc_method_times_at(size_t index);

void rpc_set_state(enum rpc_state state); /* initially RPC_STARTUP */
enum rpc_state rpc_get_state(void);

/* The method's name in the request. */
const char *rpc_request_method(const struct rpc_request *request);

/*
 * With true, requests of clients that need RPC_RUNTIME wait: the engine is starting. With false, they begin in the order
 * of their arrival. Requests that still wait when the server closes end with an error.
 */
void rpc_hold_calls(bool hold);

/* Complete `request` with `result`, which it takes; NULL means true. */
void rpc_reply(struct rpc_request *request, json_t *result);
/* Complete it with an error. `code` is an enum rpc_code or a negative errno (block devices). */
void rpc_error(struct rpc_request *request, int code, const char *format, ...) PRINTF_LIKE(3, 4);
/* Complete it with `code` and the text of `why`. `code` 0: use why->error. */
void rpc_error_fault(struct rpc_request *request, int code, const struct fathom_fault *why);

/*
 * Call a method from inside the process, like a client. `params` is borrowed and may be NULL. `done` is called once, now
 * or later. `code` 0: success with `result` (borrowed); otherwise `message` has the reason.
 */
typedef void (*rpc_done_fn)(void *ctx, int code, const char *message, const json_t *result);
void rpc_call(const char *method, const json_t *params, rpc_done_fn done, void *ctx);

/*
 * What keeps the changes of clients (RPC_CHANGES). `check`: before the method; 0, or an error (explained) with which the
 * request fails. `keep`: after its success; the reply waits for rpc_kept(), which must be called once, now or later.
 */
struct rpc_keeper {
	int (*check)(const struct rpc_method *method, struct fathom_fault *why);
	void (*keep)(struct rpc_request *request);
};
/* Valid until the next call; NULL: changes are not kept. */
void rpc_set_keeper(const struct rpc_keeper *keeper);
/* `why` NULL: the change is durable. Otherwise the request fails with it. */
void rpc_kept(struct rpc_request *request, const struct fathom_fault *why);

/* ---- parameters ---- */

enum rpc_param_type {
	RPC_BOOL,   /* bool */
	RPC_U8,	    /* uint8_t */
	RPC_U16,    /* uint16_t */
	RPC_U32,    /* uint32_t */
	RPC_U64,    /* uint64_t; also a string of digits, for clients whose JSON numbers end at 2^53 or 2^63 */
	RPC_I32,    /* int32_t */
	RPC_STRING, /* const char *; never empty */
	RPC_TEXT,   /* char[bytes]: a copy of a string that is not empty */
	RPC_ENUM,   /* int: index into `names` */
	RPC_UUID,   /* uint8_t[16] */
	RPC_HEX,    /* uint8_t[bytes]: a string of two digits for each byte */
	RPC_OBJECT, /* a structure inside the structure, read by `fields` */
	RPC_JSON,   /* const json_t *: any value */
	RPC_NAMES,  /* an array of names from `names`; only for parameters that have no place in the structure */
};

/*
 * One parameter: its name, its type, and its place in the caller's structure. An absent or null parameter leaves the
 * structure unchanged, so the caller initialises it with the defaults. src/rpc/methods/generate.py makes these rows.
 */
struct rpc_param {
	const char *name;
	enum rpc_param_type type;
	size_t offset;
	size_t bytes; /* RPC_TEXT: of the array, with the NUL; RPC_HEX */
	bool required;
	/*
	 * Ignored: it tunes a part of SPDK that this engine does not have. Its type is checked. rpc_params() logs once that
	 * it is ignored, unless its value is false. It has no place in the structure.
	 */
	bool ignored;
	/*
	 * Rejected, with `reason`: it is set, and not to `allowed_value` (a string); or it is set to `rejected_value`. It
	 * has no place in the structure.
	 */
	bool rejected;
	const char *reason, *allowed_value, *rejected_value;
	bool has_range; /* of a number: low ... high; otherwise that of its type */
	int64_t low;
	uint64_t high;
	const char *const *names;	/* RPC_ENUM, RPC_NAMES: ends with NULL; compared without case */
	const struct rpc_param *fields; /* RPC_OBJECT: ends with a row without a name */
};

/* The offset of a field. A field of another type than T does not compile. */
#define RPC_FIELD(S, field, T)                                                                                             \
	(offsetof(struct S, field) +                                                                                       \
	 0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((struct S *)0)->field), T) ? 1 : -1]))

/*
 * Decode `params` into `into` by the rows of `fields`. Strings point into `params`. -EINVAL (explained, with the name): a
 * parameter is unknown, missing, of the wrong type, out of range or rejected.
 */
MUST_CHECK int rpc_params_read(const json_t *params, const struct rpc_param *fields, void *into, struct fathom_fault *why);

/*
 * The same; on error it completes the request with RPC_CODE_INVALID_PARAMETERS and returns false. `fields` NULL: no
 * parameters are allowed. It logs each ignored parameter once in the life of the process.
 */
MUST_CHECK bool rpc_params(struct rpc_request *request, const json_t *params, const struct rpc_param *fields, void *into);

/* ---- the server ---- */

struct rpc_server_options {
	const char *path; /* copied */
	/*
	 * 0: RPC_CONNECTIONS_MAX, or fewer if the reserve of descriptors is smaller. Above it, the client that has been
	 * idle longest is closed, if for a second or more; otherwise new clients wait.
	 */
	uint32_t connections_max;
	uint64_t idle_ns; /* 0: RPC_IDLE_SEC */
};

/*
 * Listen on `options->path` (mode 0600), with a lock file `path`.lock. A stale socket is replaced. Errors (explained):
 * -EADDRINUSE (another process listens there), -EEXIST (the path is not a socket), -EINVAL (it is empty), -ENAMETOOLONG,
 * -EACCES, ...
 */
MUST_CHECK int rpc_server_open(const struct rpc_server_options *options, struct fathom_fault *why);

/* Close all connections and remove the socket. Open requests may be completed afterwards. */
void rpc_server_close(void);

#endif
