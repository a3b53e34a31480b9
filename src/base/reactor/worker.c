/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor/worker.h"

#include <pthread.h>

#include "base/reactor/internal.h"
#include "base/signals.h"

static void finish_job(void *ctx)
{
	struct worker_job *job = ctx;

	must_be_on(job->home);
	if (job->holds_home) {
		must(job->home->holds > 0);
		job->home->holds--;
	}
	job->done(job);
}

static void *run_job(void *ctx)
{
	struct worker_job *job = ctx;

	(void)pthread_setname_np(pthread_self(), "worker"); /* only informative */
	signals_give_stack();
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
	if (reactors_simulated()) {
		job->home->holds += job->holds_home;
		job->work(job);
		thread_send_msg(job->home, finish_job, job);
		return 0;
	}
	error = pthread_attr_init(&attributes);
	if (error)
		return -error;
	error = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	must(error == 0);
	job->home->holds += job->holds_home; /* first: the job may end, and its storage be freed, before this returns */
	error = pthread_create(&thread, &attributes, run_job, job);
	if (error)
		job->home->holds -= job->holds_home;
	pthread_attr_destroy(&attributes);
	return -error;
}
