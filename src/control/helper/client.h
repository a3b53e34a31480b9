/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client - the server's side of the helper: requests, answered later, by a process that is started, watched and replaced.
 *
 *	DOWN -> STARTING -> READY -> ENDING -> DOWN ...
 *
 * A helper is started when there is something to ask. One that gives no answer in the time of a request and a grace on top
 * has hung: it is killed and waited for, and the next is started; so is one that ends by itself. What it had under way is
 * answered with an error that says so, and is not asked again: whoever asked looks at what is there (check format, a scan)
 * first.
 * Requests that no helper has yet wait for the next one, within their time. Where none can be started they are told why at
 * once, and so are those that come in the pause, which doubles up to a limit, before it is tried again.
 *
 * All on the thread that created it (a reactor's; it watches descriptors and has a timer while something is under way).
 */
#ifndef CONTROL_HELPER_CLIENT_H
#define CONTROL_HELPER_CLIENT_H

#include <sys/types.h>

#include "control/helper/protocol.h"

struct helper_client;

struct helper_client_options {
	const char *program;		     /* path of fathom-helper; copied */
	const char *config;		     /* another list than its own, which only root may say; NULL: its own; copied */
	const char *version;		     /* that it must be of; NULL: any; copied */
	uint64_t grace_ns;		     /* beyond a request's time; 0: 2 s */
	uint64_t start_ns;		     /* to its first answer; 0: 5 s */
	uint64_t pause_min_ns, pause_max_ns; /* before the next one, where one could not be started; 0: 100 ms, 10 s */
	void (*said)(void *ctx, const char *line); /* each line that it writes; NULL: its outputs are our standard error */
	void *said_ctx;
};

/* NULL (explained): -ENAMETOOLONG, -ENOMEM. Starts nothing yet. */
struct helper_client *helper_client_create(const struct helper_client_options *options, struct fault *why);
/*
 * What is under way is answered with -ECANCELED from within; the helper is killed, with what it does: let requests end
 * first. Not from within a `done`. Accepts NULL.
 */
void helper_client_destroy(struct helper_client *client);

/*
 * `reply->error` is 0, or an error of the operation (docs/formats/helper.md), or: -ETIMEDOUT: no answer in time;
 * -ECONNRESET: the helper ended meanwhile, or could not be started; -ECANCELED. `why` explains it, with what to do; its
 * `error` is the same. Both are borrowed.
 */
typedef void (*helper_done_fn)(void *ctx, const struct helper_reply *reply, const struct fault *why);

/*
 * Ask. `request` is copied; its `id` is ours. `done` is called once, later, never from within. It may submit, unless
 * it was told -ECANCELED.
 */
void helper_client_submit(struct helper_client *client, const struct helper_request *request, helper_done_fn done,
			  void *ctx);

struct helper_client_stats {
	uint64_t started, hung, died, foreign;	    /* helpers */
	uint64_t answered, failed, lost, timed_out; /* requests; `failed`: the answer was an error */
	uint32_t waiting, sent;
	pid_t pid; /* 0: there is none */
};

void helper_client_get_stats(const struct helper_client *client, struct helper_client_stats *stats);

#endif
