/* SPDX-License-Identifier: BSD-2-Clause */
/* worker - runs a blocking function on a thread of its own, then a second function back on the light thread. */
#ifndef REACTOR_WORKER_H
#define REACTOR_WORKER_H

#include "base/reactor/reactor.h"

/* The caller's storage, lent until `done`. */
struct worker_job {
	void (*work)(struct worker_job *job); /* on the worker thread */
	void (*done)(struct worker_job *job); /* on `home`, after `work` */
	struct fathom_thread *home;	      /* the light thread that called worker_start() */
	bool holds_home;		      /* `home` does not end before `done` */
};

/*
 * On a light thread. Under the simulator, which has no pthreads, `work` runs before this returns. Errors: -EAGAIN and
 * others of pthread_create(3): neither function is called.
 */
MUST_CHECK int worker_start(struct worker_job *job);

#endif
