/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of a session: results in arenas, calls that run the control reactor until they are done.
 *
 * Each call is a struct task on the stack of the function that was called from outside. It begins by a message to the
 * control thread, makes its gRPC calls there, and ends the reactor's run by task_end(). What is in system.c
 * and hosts.c does nothing but build requests and take answers apart; service.c and fan.c know whom to ask, and when again.
 */
#ifndef CONTROL_CLIENT_INTERNAL_H
#define CONTROL_CLIENT_INTERNAL_H

#include <signal.h>

#include "base/fault.h"
#include "base/must.h"
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
	CONNECTIONS_KEPT = 128, /* for the next call; where more hosts are asked, none is kept: descriptors are few */
};

/* ---- results: one block each, by a list of pieces ---- */

struct arena;

/* A new result of `bytes` zeroes, which fathom_control_free() frees with all that is taken from its arena. */
void *result_create(size_t bytes);
struct arena *result_arena(void *result);
/* Zeroed. Never NULL. */
void *arena_zero(struct arena *arena, size_t bytes);
#define arena_array(arena, type, count) ((type *)arena_zero((arena), sizeof(type) * (count)))
/* A copy; of NULL, "". */
const char *arena_text(struct arena *arena, const char *text);
const char *const *arena_texts(struct arena *arena, char *const *texts, size_t count);
/* For the time of building one: the same without a result. */
struct arena *arena_create(void);
void arena_destroy(struct arena *arena);

/* ---- sessions ---- */

struct fathom_control {
	struct client_config config;
	char *config_path; /* NULL: none was read */
	char *hosts_folded;
	char system[SYSTEM_BYTES]; /* "fathom-0.1.0" */
	struct host_set *hosts;
	struct grpc_tls *tls;
	struct grpc_client *client; /* made on the control thread when it is first needed */
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
	void (*stop)(struct task *task);    /* it was cancelled and has no call under way: task_end() */
	uint64_t deadline_ns;		    /* clock_monotonic_ns() */
	uint64_t extra_ns;		    /* that it has beyond the session's time */
	void (*on_tick)(struct task *task); /* each second; NULL */
	enum fathom_control_unit unit;
	uint32_t done, total; /* 0 of 0: the management service is asked */
	struct look *look;    /* how far it is: a question that is under way */
	bool ended;
	int error;
	struct fault why;
	struct deadline tick;
};

/* Run it to its end. Its error, with `why` (which may be NULL). */
MUST_CHECK int task_run(struct task *task, struct fault *why);
/* `task->why` says it if `error` is not 0. */
void task_end(struct task *task, int error);
/* Tell how far it is; also done every second. */
void task_progress(const struct task *task);
/*
 * As grpc_client_call(), and what is asked and how it ends is told to the session's log. `path` lives until then.
 */
MUST_CHECK int task_call(struct task *task, const char *address, const char *path, const ProtobufCMessage *message,
			 const ProtobufCMessageDescriptor *response, uint64_t timeout_ns, grpc_done_fn done, void *ctx);
/* A line for the session's log, if it has one. */
void control_log(const struct fathom_control *control, const char *format, ...) PRINTF_LIKE(2, 3);
/*
 * Ask for the members that `query` chooses (borrowed for the call), and count those in `state` ("stopped", which lives as
 * long as the task): that is then how far it is. Nothing where nobody wants to know, or while it is asked.
 */
void task_look(struct task *task, const char *address, const ProtobufCMessage *query, const char *state);
void task_look_no_more(struct task *task);
/* What is left of its time; 0: nothing, or it was cancelled. */
uint64_t task_left_ns(const struct task *task);
/* -ECANCELED or -ETIMEDOUT, and why: for a task without time. `request` is what was asked for. */
MUST_CHECK int task_is_over(const struct task *task, const char *request, struct fault *why);

/* ---- names ---- */

struct address {
	const char *host; /* as the host set has it, with its port */
	char text[ADDRESSES_MAX][GRPC_ADDRESS_BYTES_MAX];
	size_t count; /* 0: `why` says why */
	struct fault why;
};

/* All of `hosts`, which `addresses` borrows, many at a time. Errors: -ECANCELED, -ETIMEDOUT, -EAGAIN. */
MUST_CHECK int resolve(struct fathom_control *control, const struct host_set *hosts, struct address *addresses,
		       uint64_t deadline_ns, struct fault *why);

/* ---- ranks and hosts that are chosen ---- */

/* As the service takes them; NULL: no word about them. */
struct chosen {
	char *ranks, *hosts;
};

/*
 * Ranks without brackets; names of hosts by which members are not known as their addresses, for which members are asked
 * for. Errors: those of the lists, of that request, and of resolve().
 */
MUST_CHECK int choose(struct fathom_control *control, const struct fathom_control_choice *choice, struct chosen *chosen_ret,
		      struct fault *why);
void chosen_free(struct chosen *chosen);

/* ---- the management service ---- */

/* How a request may be repeated when nobody knows whether it was done. */
enum again {
	AGAIN_NEVER,
	AGAIN_SAME,
	/* twice is as once */ AGAIN_READ /* it changes nothing: another may be asked early */
};

struct request {
	const char *path, *name; /* "/mgmt.MgmtSvc/SystemQuery", "system query" */
	const ProtobufCMessage *message;
	const ProtobufCMessageDescriptor *response;
	enum again again;
	uint64_t extra_ns; /* that the server is asked to wait */
	/* NULL, or a SystemQueryReq of the ranks that it is about, and the state that it brings them to: how far is it? */
	const ProtobufCMessage *look;
	const char *look_for;
};

typedef void (*take_fn)(void *ctx, const ProtobufCMessage *response);

/* Ask until somebody has answered; `take` is then called once. */
MUST_CHECK int service_call(struct fathom_control *control, const struct request *request, take_fn take, void *ctx,
			    struct fault *why);

/* The same with a result (result_create()) as `ctx`: it becomes *ret, or is freed. */
MUST_CHECK int service_result(struct fathom_control *control, const struct request *request, take_fn take, void *result,
			      void **ret, struct fault *why);

/* Whether the server never saw the request; and whether it, or what it serves, is still on its way up. */
bool result_is_unreached(const struct grpc_result *result);
bool result_is_starting(const struct grpc_result *result, const struct fault *why);

/* ---- all hosts ---- */

/*
 * What a host said goes into `answer_ret`; what differs between hosts that are alike (free memory) is then zeroed in
 * `response`, so that they are told once.
 */
typedef void (*fan_take_fn)(struct arena *arena, ProtobufCMessage *response, struct fathom_control_answer *answer_ret);

struct fan_request {
	struct request request;
	fan_take_fn take;
};

MUST_CHECK int fan_call(struct fathom_control *control, const struct fan_request *request,
			struct fathom_control_answers **ret, struct fault *why);

/* A host has said all. */
void fan_hang_up(struct fathom_control *control, size_t host_count, const char *address);

/* Answers and errors of single hosts, put together: those that are alike become one. */
struct fan_part {
	const char *host;
	bool answered;
	void *key; /* what answers are compared by; of errors their text, without the host's address */
	size_t key_bytes;
	uint64_t hash; /* of the key; fan_fold() */
	struct fathom_control_answer answer;
	struct fault why;
	bool taken; /* it stands in the result */
};

/* Compare the error of `part` without `address`, by which it names the host: hosts that failed alike are told together. */
void fan_key_of_error(struct fan_part *part, const char *address);

struct fathom_control_answers *fan_fold(struct arena *arena, struct fathom_control_answers *result, struct fan_part *parts,
					size_t count);

#endif
