/* SPDX-License-Identifier: BSD-2-Clause */
/* worker - one function on a thread of its own, because it blocks; what comes after it is done back on the light thread. */
#ifndef CONTROL_SERVER_WORKER_H
#define CONTROL_SERVER_WORKER_H

#include "base/reactor/reactor.h"

/* The caller's storage, lent until `done`. */
struct worker_job {
	void (*work)(struct worker_job *job); /* there */
	void (*done)(struct worker_job *job); /* here */
	struct fathom_thread *home;	      /* ours */
};

/* On a light thread. Errors: -EAGAIN and others of pthread_create(3): neither function is called. */
MUST_CHECK int worker_start(struct worker_job *job);

#endif
