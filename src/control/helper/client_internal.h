/* SPDX-License-Identifier: BSD-2-Clause */
/* client, internal: the helper's process and the requests to it. All on the client's thread. */
#ifndef CONTROL_HELPER_CLIENT_INTERNAL_H
#define CONTROL_HELPER_CLIENT_INTERNAL_H

#include "base/list.h"
#include "control/helper/client.h"
#include "control/helper/states.gen.h"
#include "fathom/trace/trace.h"
#include "base/reactor/reactor.h"

enum { HELPER_PROGRAM_BYTES_MAX = 256, HELPER_TICK_MS = 10 };

/* A request. */
struct helper_call {
	struct trace_object trace;
	enum helper_call_state state;
	struct helper_client *client;
	struct helper_request request;
	helper_done_fn done;
	void *ctx;
	uint64_t began, limit; /* ticks; at `limit` the call has timed out */
	TAILQ_ENTRY(helper_call) link;
};

TAILQ_HEAD(helper_calls, helper_call);

enum { HELPER_LINE_BYTES_MAX = 512, HELPER_WORDS_LEFT_MAX = 64 };

/* The pipe of its standard output and error. */
struct helper_words {
	int fd; /* -1: no pipe, the helper writes to our standard error */
	struct fd_watch *watch;
	size_t bytes;
	char line[HELPER_LINE_BYTES_MAX]; /* the first `bytes` of an incomplete line */
};

/* The helper's process. */
struct helper_process {
	pid_t pid; /* 0: none */
	int pid_fd, fd;
	struct fd_watch *ends, *answers;
	struct helper_words words;
};

struct helper_client {
	struct trace_object trace;
	enum helper_state state;
	struct fathom_thread *thread;
	char program[HELPER_PROGRAM_BYTES_MAX], config[HELPER_PROGRAM_BYTES_MAX], version[HELPER_VERSION_BYTES_MAX];
	void (*said)(void *ctx, const char *line);
	void *said_ctx;
	uint64_t grace, start_limit, pause_min, pause_max; /* ticks */

	struct helper_process process;
	enum helper_end end;	       /* ENDING: the reason */
	bool never_ready;	       /* ENDING: it was not READY before */
	uint64_t limit;		       /* STARTING, ENDING: tick of the time-out */
	uint64_t pause, start_from;    /* ticks: the back-off, and the earliest next start */
	struct fathom_fault start_why; /* why the last start failed; error 0: it did not */

	struct helper_calls calls; /* in the order of submission */
	uint64_t next_id;	   /* the ping of a start has id 0 */
	struct poller *ticker;	   /* while there are calls, or the helper is STARTING or ENDING */
	bool turning, destroyed;   /* turning: a message for run_turn() is under way */
	struct helper_client_stats stats;
};

/*
 * Start a helper with one end of a socketpair, and watch it. Errors (explained).
 */
MUST_CHECK int helper_process_start(struct helper_client *client, struct fathom_fault *why);
/* Kill it and close its socket. Its end calls helper_client_process_gone(). */
void helper_process_kill(struct helper_client *client);
/* Reap it and close its descriptors. `wait`: block until it has ended. False: it has not ended. */
bool helper_process_reap(struct helper_client *client, bool wait, int *status_ret);

/* Create the pipe for its outputs; the caller closes `theirs_ret`, the helper's end. Errors: -errno. */
MUST_CHECK int helper_words_open(struct helper_words *words, int *theirs_ret);
MUST_CHECK int helper_words_watch(struct helper_client *client);
/* Read the rest of the pipe and close it. Accepts a pipe that is not open. */
void helper_words_close(struct helper_client *client);

/* The name of its operation, for probes. */
const struct trace_istr *helper_call_operation(const struct helper_call *call);
/* Answer the call, WAITING or SENT, and free it. `reply` is to this call. */
void helper_call_finish(struct helper_call *call, const struct helper_reply *reply);
void helper_call_fail(struct helper_call *call, const struct fathom_fault *why);
void helper_call_explain_time_out(const struct helper_call *call, struct fathom_fault *why);
/* Fail all calls in that state, except those that a `done` adds. */
void helper_calls_fail(struct helper_client *client, enum helper_call_state state, const struct fathom_fault *why);
/* Fail the unsent calls whose time-out has passed; all unsent calls if the last helper could not be started. */
void helper_calls_fail_expired(struct helper_client *client, uint64_t now);
uint32_t helper_calls_count(const struct helper_client *client, enum helper_call_state state);

/* Callbacks of descriptors: answers are readable; the process has ended. */
void helper_client_readable(void *ctx, uint32_t events);
void helper_client_process_gone(void *ctx, uint32_t events);

#endif
