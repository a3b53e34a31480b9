/* SPDX-License-Identifier: BSD-2-Clause */
/* client, inside: the helper's process and the requests to it. All on the client's thread. */
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
	uint64_t began, limit; /* ticks; after `limit` there will be no answer */
	TAILQ_ENTRY(helper_call) link;
};

TAILQ_HEAD(helper_calls, helper_call);

enum { HELPER_LINE_BYTES_MAX = 512, HELPER_WORDS_LEFT_MAX = 64 };

/* Its outputs. */
struct helper_words {
	int fd; /* -1: they are ours */
	struct fd_watch *watch;
	size_t bytes;
	char line[HELPER_LINE_BYTES_MAX]; /* so much of the next one is here */
};

/* A process that was started. */
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
	enum helper_end end;	    /* ENDING: why */
	bool never_ready;	    /* ENDING: it was not READY before */
	uint64_t limit;		    /* STARTING, ENDING: when that has taken too long */
	uint64_t pause, start_from; /* ticks; not before */
	struct fault start_why;	    /* why none could be started */

	struct helper_calls calls; /* in order of asking */
	uint64_t next_id;	   /* the ping of a start has id 0 */
	struct poller *ticker;	   /* while there are calls, or an end is waited for */
	bool turning, destroyed;   /* a message is under way to us */
	struct helper_client_stats stats;
};

/*
 * Start a helper with one end of a socketpair; it is watched from now on. Errors (explained).
 */
MUST_CHECK int helper_process_start(struct helper_client *client, struct fault *why);
/* Kill it and close its socket; that it has gone is told by `helper_client_process_gone`. */
void helper_process_kill(struct helper_client *client);
/* Take its exit status and all that is ours of it. `wait`: until it has gone. False: it has not. */
bool helper_process_reap(struct helper_client *client, bool wait, int *status_ret);

/* A pipe for its outputs, with the end that is to be its own. Errors: -errno. */
MUST_CHECK int helper_words_open(struct helper_words *words, int *theirs_ret);
MUST_CHECK int helper_words_watch(struct helper_client *client);
/* What is left in it is said. Accepts one that is not open. */
void helper_words_close(struct helper_client *client);

/* Called on the thread: answers are there; the process has ended. */
void helper_client_readable(void *ctx, uint32_t events);
void helper_client_process_gone(void *ctx, uint32_t events);

#endif
