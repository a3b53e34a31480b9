/* SPDX-License-Identifier: BSD-2-Clause */
/* control_thread - runs the control reactor on its own pthread, and functions on it from the test's pthread. */
#ifndef TEST_UNIT_CONTROL_THREAD_H
#define TEST_UNIT_CONTROL_THREAD_H

#include <pthread.h>
#include <semaphore.h>

#include "base/reactor/reactor.h"

static pthread_t control_pthread;

struct control_call {
	int (*fn)(void *ctx);
	void *ctx;
	int result;
	sem_t done;
};

static inline void control_run_call(void *ctx)
{
	struct control_call *call = ctx;

	call->result = call->fn(call->ctx);
	sem_post(&call->done);
}

static inline int on_control(int (*fn)(void *ctx), void *ctx)
{
	struct control_call call = { .fn = fn, .ctx = ctx };

	sem_init(&call.done, 0, 0);
	thread_send_msg(thread_control(), control_run_call, &call);
	while (sem_wait(&call.done))
		;
	sem_destroy(&call.done);
	return call.result;
}

static inline void *control_run(void *ctx)
{
	reactors_run();
	return NULL;
}

/* `options` as for reactors_start(). */
static inline void control_start(const struct reactor_options *options)
{
	must(reactors_start(options) == 0);
	must(pthread_create(&control_pthread, NULL, control_run, NULL) == 0);
}

static inline void control_stop(void)
{
	reactors_request_stop();
	must(pthread_join(control_pthread, NULL) == 0);
	reactors_stop();
}

#endif
