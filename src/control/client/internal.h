/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internals of a session: results are allocated in arenas; each call runs the control reactor until it is done.
 *
 * Each call is a struct task on the stack of the public function. A message starts it on the control thread. It makes its
 * gRPC calls there, and task_end() ends the run of the reactor. The build makes most public functions from the table of
 * operations (calls.gen.c): they build requests and copy answers. service.c and host_calls.c choose the servers and repeat
 * calls.
 */
#ifndef CONTROL_CLIENT_INTERNAL_H
#define CONTROL_CLIENT_INTERNAL_H

#include <signal.h>

#include "base/fault.h"
#include "base/must.h"
#include "control/client/calls.gen.h"
#include "control/client/config.h"
#include "control/hostlist/hostlist.h"
#include "fathom/control.h"
#include "rpc/grpc/grpc.h"
#include "rpc/grpc/tls.h"
#include "base/reactor/deadline.h"
#include "base/reactor/reactor.h"

enum {
	PARALLEL_DEFAULT = 64,
	TIMEOUT_DEFAULT_MS = 300000,
	PATIENCE_DEFAULT_MS = 5000,
	SYSTEM_BYTES = 320,
	ADDRESSES_MAX = 2,	/* of a host: one of IPv4, one of IPv6 */
	CONNECTIONS_KEPT = 128, /* for the next call; with more hosts none is kept, because descriptors are limited */
};

/* ---- results: each is one arena, a list of memory blocks ---- */

struct arena;

/* Allocate a zeroed result of `bytes`. fathom_control_free() frees it with everything allocated from its arena. */
void *result_create(size_t bytes);
struct arena *result_arena(void *result);
/* Allocate zeroed memory. Never returns NULL. */
void *arena_zero(struct arena *arena, size_t bytes);
#define arena_array(arena, type, count) ((type *)arena_zero((arena), sizeof(type) * (count)))
/* Copy `text`; NULL gives "". */
const char *arena_text(struct arena *arena, const char *text);
const char *const *arena_texts(struct arena *arena, char *const *texts, size_t count);
const int32_t *arena_i32s(struct arena *arena, const int32_t *numbers, size_t count);
const uint32_t *arena_u32s(struct arena *arena, const uint32_t *numbers, size_t count);
const uint64_t *arena_u64s(struct arena *arena, const uint64_t *numbers, size_t count);
/* The name of an enum's value, "NORMAL"; static. "UNKNOWN": it has none. */
const char *enum_name(const ProtobufCEnumDescriptor *names, int value);
/* A random UUID: version 4. */
char *arena_uuid(struct arena *arena);

/* An arena without a result, to build a request in. */
struct arena *arena_create(void);
void arena_destroy(struct arena *arena);

/* ---- sessions ---- */

struct fathom_control {
	struct client_config config;
	char *config_path; /* NULL: no file was read */
	char *hosts_folded;
	char system[SYSTEM_BYTES]; /* "fathom-0.1.0" */
	struct host_set *hosts;
	struct grpc_tls *tls;
	struct grpc_client *client; /* created on the control thread at the first call */
	struct deadlines deadlines;
	bool deadlines_open;
	unsigned int parallel_max;
	uint64_t timeout_ns, patience_ns;
	void (*progress)(void *ctx, enum fathom_control_unit unit, uint32_t done, uint32_t total);
	void *progress_ctx;
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
	volatile sig_atomic_t cancelled;
};

struct task {
	struct fathom_control *control;
	void (*begin)(struct task *task);   /* on the control thread; ends with task_end(), there or later */
	void (*stop)(struct task *task);    /* cancelled, and no call is under way: must call task_end() */
	uint64_t deadline_ns;		    /* clock_monotonic_ns() */
	uint64_t extra_ns;		    /* time beyond the session's time-out */
	void (*on_tick)(struct task *task); /* called each second; may be NULL */
	enum fathom_control_unit unit;
	uint32_t done, total;		       /* 0 of 0: a call to the management service */
	struct progress_query *progress_query; /* the progress query under way; NULL: none */
	bool ended;
	int error;
	struct fathom_fault why;
	struct deadline tick;
};

/* Run the task to its end. Returns its error, with `why` (which may be NULL). */
MUST_CHECK int task_run(struct task *task, struct fathom_fault *why);
/* End the task. If `error` is not 0, `task->why` must be filled. */
void task_end(struct task *task, int error);
/* Report the progress to the session's callback; a timer also does it every second. */
void task_progress(const struct task *task);
/*
 * Like grpc_client_call(), but also logs the request and its end in the session's log. `request->path` must live until the
 * end.
 */
MUST_CHECK int task_call(struct task *task, const struct grpc_request *request);
/* Write a line to the session's log, if it has one. */
void control_log(const struct fathom_control *control, const char *format, ...) PRINTF_LIKE(2, 3);
/*
 * Query the members selected by `query` (borrowed for the call), and report the number in `state` ("stopped", which must
 * live as long as the task) as progress. No effect if the session has no progress callback, or if a query is under way.
 */
void task_query_progress(struct task *task, const char *address, const ProtobufCMessage *query, const char *state);
/* Ignore the answer of a progress query under way. */
void task_forget_progress_query(struct task *task);
/* The time left; 0: none, or the task was cancelled. */
uint64_t task_left_ns(const struct task *task);
/* Returns -ECANCELED or -ETIMEDOUT with `why`, when task_left_ns() is 0. `request` names the request in the message. */
MUST_CHECK int task_is_over(const struct task *task, const char *request, struct fathom_fault *why);

/* ---- names ---- */

struct address {
	const char *host; /* as in the host set, with its port */
	char text[ADDRESSES_MAX][GRPC_ADDRESS_BYTES_MAX];
	size_t count; /* 0: `why` has the reason */
	struct fathom_fault why;
};

/* Resolve all `hosts`, several at a time. `addresses` borrows from `hosts`. Errors: -ECANCELED, -ETIMEDOUT, -EAGAIN. */
MUST_CHECK int resolve(struct fathom_control *control, const struct host_set *hosts, struct address *addresses,
		       uint64_t deadline_ns, struct fathom_fault *why);

/* ---- choice of ranks and hosts ---- */

/* Ranks and hosts in the form of a request; NULL: the choice does not restrict them. */
struct chosen {
	char *ranks, *hosts;
};

/*
 * Convert a choice: ranks lose their brackets, and host names that the service does not know become addresses of members.
 * For that the members are queried. Free with chosen_free(). Errors: those of the lists, of the query, and of resolve().
 */
MUST_CHECK int choose(struct fathom_control *control, const struct fathom_control_choice *choice, struct chosen *chosen_ret,
		      struct fathom_fault *why);
void chosen_free(struct chosen *chosen);

/* Put `chosen` into a request's fields `ranks` and `hosts`. */
#define set_choice(message, chosen)                                                                                        \
	((message).ranks = (chosen).ranks ? (chosen).ranks : (char *)"",                                                   \
	 (message).hosts = (chosen).hosts ? (chosen).hosts : (char *)"")

#define ALL_STATES 0xffff /* the mask that DAOS's tools send */

/* ---- the management service ---- */

/* Whether a request may be repeated if it is unknown whether the server has executed it. */
enum again {
	AGAIN_NEVER,
	AGAIN_SAME, /* idempotent: repeat it */
	AGAIN_READ  /* changes nothing: repeat it, and try another server early */
};

struct request {
	const char *path, *name; /* "/mgmt.MgmtSvc/SystemQuery", "system query" */
	const ProtobufCMessage *message;
	const ProtobufCMessageDescriptor *response;
	enum again again;
	uint64_t extra_ns; /* time that the server waits on purpose */
	/* for progress: a SystemQueryReq with the request's ranks (NULL: no progress), and their final state */
	const ProtobufCMessage *progress_query;
	const char *progress_state;
};

typedef void (*take_fn)(void *ctx, const ProtobufCMessage *response);

/* Call the management service until one server answers; on success `take` is called once. */
MUST_CHECK int service_call(struct fathom_control *control, const struct request *request, take_fn take, void *ctx,
			    struct fathom_fault *why);

/* The same with a result (result_create()) as `ctx`: on success it becomes *ret, on failure it is freed. */
MUST_CHECK int service_result(struct fathom_control *control, const struct request *request, take_fn take, void *result,
			      void **ret, struct fathom_fault *why);

/* Whether the server never received the request; whether the server or the management service is still starting. */
bool result_is_unreached(const struct grpc_result *result);
bool result_is_starting(const struct grpc_result *result, const struct fathom_fault *why);

/*
 * Check a format before it starts. Errors (explained): -EINVAL if `instances` is not a list or names none; -EBUSY
 * (format_running) if a member runs on storage that `reformat` would erase.
 */
MUST_CHECK int check_format(struct fathom_control *control, const char *instances, bool reformat, struct fathom_fault *why);

/* Check the text of a request that must name ranks. Errors (explained): -EINVAL: NULL, it names none, or it is no list. */
MUST_CHECK int check_ranks(const char *text, struct fathom_fault *why);

/* ---- all hosts ---- */

/*
 * Convert a host's `response` into `answer_ret`. Then zero fields in `response` that differ even between similar hosts
 * (free memory), because answers with equal responses are reported together.
 */
typedef void (*take_host_fn)(struct arena *arena, ProtobufCMessage *response, struct fathom_control_answer *answer_ret);

struct hosts_request {
	struct request request;
	take_host_fn take;
};

MUST_CHECK int call_hosts(struct fathom_control *control, const struct hosts_request *request,
			  struct fathom_control_answers **ret, struct fathom_fault *why);

/* All calls to a host are done: close its connection, if there are more hosts than CONNECTIONS_KEPT. */
void hang_up_host(struct fathom_control *control, size_t host_count, const char *address);

/* The answer or error of one host. Equal ones become one entry of the result. */
struct host_answer {
	const char *host;
	bool answered;
	void *key; /* compared: the packed response, or the text of an error without the host's address */
	size_t key_bytes;
	uint64_t hash; /* of the key; set by fold_answers() */
	struct fathom_control_answer answer;
	struct fathom_fault why;
	bool taken; /* already in the result */
};

/* Set the key of an error: its text without `address`, so that equal errors of several hosts are reported together. */
void set_error_key(struct host_answer *part, const char *address);

/* Fold `parts` into `result`, which lives in `arena`: one entry for all hosts with equal answers or errors. */
struct fathom_control_answers *fold_answers(struct arena *arena, struct fathom_control_answers *result,
					    struct host_answer *parts, size_t count);

#endif
