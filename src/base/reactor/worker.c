/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor/worker.h"

#include <pthread.h>

static void finish_job(void *ctx)
{
	struct worker_job *job = ctx;

	must_be_on(job->home);
	job->done(job);
}

static void *run_job(void *ctx)
{
	struct worker_job *job = ctx;

	must(!thread_self()); /* a worker is no light thread: it may block */
	job->work(job);
	thread_send_msg(job->home, finish_job, job);
	return NULL;
}

int worker_start(struct worker_job *job)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	must(job->work && job->done);
	job->home = thread_self();
	must(job->home);
	error = pthread_attr_init(&attributes);
	if (error)
		return -error;
	error = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	must(error == 0);
	error = pthread_create(&thread, &attributes, run_job, job);
	pthread_attr_destroy(&attributes);
	return -error;
}
