/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heartbeat - a thread that stores the time in the file's header every TRACE_HEARTBEAT_MS.
 *
 * A process that hangs completely records nothing more. The header's `alive_tick` still advances while it hangs; it stops
 * when the process is killed or stopped. So a reader knows how long requests had been in flight when the process died.
 *
 * The thread blocks all signals but those of its own faults, and holds no lock of the program. If it cannot be started,
 * the file has no heartbeat.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/signals.h"
#include "base/observe/trace/internal.h"

enum { STACK_BYTES = 256 * 1024 }; /* with room for the thread-local storage of the program */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool running, stop;
	struct trace_header *header;
} heart = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static struct timespec next_beat(void)
{
	uint64_t ns = clock_monotonic_ns() + TRACE_HEARTBEAT_MS * NS_PER_MS;

	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_SEC), .tv_nsec = (long)(ns % NS_PER_SEC) };
}

static void *run_heartbeat(void *unused)
{
	(void)pthread_setname_np(pthread_self(), "trace_heartbeat"); /* only informative */
	signals_give_stack();
	pthread_mutex_lock(&heart.lock);
	while (!heart.stop) {
		struct timespec until = next_beat();

		__atomic_store_n(&heart.header->alive_tick, clock_ticks(), __ATOMIC_RELAXED);
		(void)pthread_cond_clockwait(&heart.wake, &heart.lock, CLOCK_MONOTONIC, &until);
	}
	pthread_mutex_unlock(&heart.lock);
	return NULL;
}

void trace_heartbeat_start(struct trace_header *header)
{
	pthread_attr_t attributes;
	sigset_t all, before;

	must(!heart.running);
	if (pthread_attr_init(&attributes) != 0)
		return;
	heart.header = header;
	heart.stop = false;
	header->alive_tick = clock_ticks();
	(void)pthread_attr_setstacksize(&attributes, STACK_BYTES); /* on failure: default size */
	signals_of_others(&all);
	must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	heart.running = pthread_create(&heart.thread, &attributes, run_heartbeat, NULL) == 0;
	must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	pthread_attr_destroy(&attributes);
	if (!heart.running)
		header->alive_tick = 0;
}

void trace_heartbeat_stop(void)
{
	if (!heart.running)
		return;
	pthread_mutex_lock(&heart.lock);
	heart.stop = true;
	pthread_cond_signal(&heart.wake);
	pthread_mutex_unlock(&heart.lock);
	must(pthread_join(heart.thread, NULL) == 0);
	heart.running = false;
}

void trace_heartbeat_leave_to_parent(void)
{
	heart.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	heart.wake = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	heart.running = false;
}
