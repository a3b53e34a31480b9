/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client - the server's side of the helper: asynchronous requests to a process that is started, watched and replaced.
 *
 *	DOWN -> STARTING -> READY -> ENDING -> DOWN ...
 *
 * The first request starts a helper. A helper that does not answer within a request's time-out plus `grace_ns` hangs: it is
 * killed and reaped, and the next request starts another. The same follows if it ends by itself. Requests that were sent to
 * it fail and are not retried: their effect is unknown, so the caller must check the device first (check format, a scan).
 * Requests that were not sent wait for the next helper, within their time-out. If no helper can be started, they fail at
 * once. So do requests during the pause before the next start, which doubles up to a limit.
 *
 * All functions run on the reactor thread that created the client. It has a timer only while requests are under way.
 */
#ifndef CONTROL_HELPER_CLIENT_H
#define CONTROL_HELPER_CLIENT_H

#include <sys/types.h>

#include "control/helper/protocol.h"

struct helper_client;

struct helper_client_options {
	const char *program;			   /* path of fathom-helper; copied */
	const char *config;			   /* its --config, only for root; NULL: the default; copied */
	const char *version;			   /* the required version; NULL: any; copied */
	uint64_t grace_ns;			   /* added to a request's time-out; 0: 2 s */
	uint64_t start_ns;			   /* time-out of its first answer; 0: 5 s */
	uint64_t pause_min_ns, pause_max_ns;	   /* after a failed start; 0: 100 ms, 10 s */
	void (*said)(void *ctx, const char *line); /* each line that it writes; NULL: it writes to our standard error */
	void *said_ctx;
};

/* NULL (explained): -ENAMETOOLONG, -ENOMEM. Starts nothing yet. */
struct helper_client *helper_client_create(const struct helper_client_options *options, struct fathom_fault *why);
/*
 * Pending requests are answered with -ECANCELED before this returns. The helper is killed in the middle of its work: wait
 * for the end of requests first. Must not be called from a `done`. Accepts NULL.
 */
void helper_client_destroy(struct helper_client *client);

/*
 * `reply->error` is 0, or an error of the operation (docs/formats/helper.md), or: -ETIMEDOUT: no answer in time;
 * -ECONNRESET: the helper ended, or could not be started; -ECANCELED. `why` explains it and has the same `error`. Borrows
 * both.
 */
typedef void (*helper_done_fn)(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why);

/*
 * Submit a request. Copies `request`; its `id` is ignored. `done` is called once, later, never before this returns. It may
 * submit requests, except on -ECANCELED.
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
